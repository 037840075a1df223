"""The command `render`: a reflectance cube as an eye sees it under any light."""

import argparse
from pathlib import Path

from napari_mst.cli.command import DONE, Command
from napari_mst.cli.console import progress_bar
from napari_mst.cli.control_c import asked_to_stop
from napari_mst.cli.options import add_full_scale, add_output, add_overwrite
from napari_mst.cube.pictures import WHOLE, paint, rendering
from napari_mst.formats import read_cube
from napari_mst.formats.picture_files import check_picture_target, write_picture
from napari_mst.illuminants import DAYLIGHT, illuminant_names, illuminant_title

OUTPUT_HELP = "file to write: .png or .tif, 8-bit sRGB with its profile"


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("cube", type=Path, metavar="CUBE")
    add_output(parser, "OUT", OUTPUT_HELP)
    add_overwrite(parser)
    parser.add_argument(
        "--illuminant",
        default=DAYLIGHT,
        metavar="NAME|FILE",
        help="light of the list below, or a CSV file of wavelength (nm) and power "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--unadapted",
        action="store_true",
        help="keep the colour of the light, as in a photo balanced for daylight; else white is "
        "white under any light",
    )
    add_full_scale(parser)


def _run(arguments: argparse.Namespace) -> int:
    with asked_to_stop():
        check_picture_target(arguments.output, overwrite=arguments.overwrite)
    cube = read_cube(arguments.cube)
    light = arguments.illuminant
    is_adapted = not arguments.unadapted
    recipe = rendering(cube, light, is_adapted=is_adapted, full_scale=arguments.full_scale)
    with asked_to_stop() as watch:
        with progress_bar(recipe.title, watch) as bar:
            picture = paint(cube, recipe, WHOLE, bar)
        facts = {
            "source": arguments.cube.name,
            "illuminant": illuminant_title(light),
            "adapted": is_adapted,
        }
        path = write_picture(
            arguments.output, picture, recipe.title, facts, overwrite=arguments.overwrite
        )
        print(path)
    return DONE


RENDER = Command(
    name="render",
    help="render a cube as an eye sees it under a light",
    add_arguments=_add_arguments,
    run=_run,
    epilog="\n".join(["illuminants:", *(f"  {name}" for name in illuminant_names())]),
)
