"""The command `spectra`: the spectra of pixels, as a table or a file."""

import argparse
from pathlib import Path

from napari_mst.cli.command import DONE, Command
from napari_mst.cli.control_c import asked_to_stop
from napari_mst.cli.options import add_overwrite, pixel
from napari_mst.formats import read_cube
from napari_mst.spectra.library import spectra_text, write_spectra
from napari_mst.spectra.regions import point_spectrum


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="CUBE")
    parser.add_argument(
        "--at",
        type=pixel,
        action="append",
        required=True,
        metavar="ROW,COLUMN",
        help="a pixel; may be repeated",
    )
    parser.add_argument(
        "--window",
        type=int,
        default=1,
        metavar="SIDE",
        help="average SIDE x SIDE pixels (default: 1)",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="OUT",
        help="file to write, .csv or .sli (default: print a table)",
    )
    add_overwrite(parser)


def _run(arguments: argparse.Namespace) -> int:
    cube = read_cube(arguments.file)
    name = arguments.file.name
    found = []
    for row, column in arguments.at:
        found.append(point_spectrum(cube, row, column, arguments.window, cube_name=name))
    if arguments.output is None:
        print(spectra_text(found), end="")
        return DONE
    with asked_to_stop():
        print(write_spectra(arguments.output, found, overwrite=arguments.overwrite))
    return DONE


SPECTRA = Command(
    name="spectra",
    help="read the spectra of pixels, as a table",
    add_arguments=_add_arguments,
    run=_run,
)
