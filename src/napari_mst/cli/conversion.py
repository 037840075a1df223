"""The command `convert`: a cube file of any kind as a file of another, with its wavelengths."""

import argparse
from pathlib import Path

from napari_mst.cli.command import DONE, Command
from napari_mst.cli.console import note, progress_bar
from napari_mst.cli.control_c import asked_to_stop
from napari_mst.cli.options import add_output, add_overwrite, add_reading, reader_options
from napari_mst.formats import check_target, read_cube, write_cube
from napari_mst.messages import shown


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("cube", type=Path, metavar="CUBE", help="a cube file of any kind")
    add_output(parser, "OUT", "file to write; its suffix says the format (.hdr, .tif, .npz, ...)")
    add_overwrite(parser)
    add_reading(parser)


def _run(arguments: argparse.Namespace) -> int:
    with asked_to_stop():
        check_target(arguments.output, overwrite=arguments.overwrite)
    cube = read_cube(arguments.cube, **reader_options(arguments))
    for warning in cube.metadata.get("warnings", ()):
        note(shown(warning, 300))
    with (
        asked_to_stop() as watch,
        progress_bar(arguments.output.name, watch) as bar,
    ):
        path = write_cube(arguments.output, cube, overwrite=arguments.overwrite, watch=bar)
    print(path)
    return DONE


CONVERT = Command(
    name="convert",
    help="save a cube file in another format",
    add_arguments=_add_arguments,
    run=_run,
)
