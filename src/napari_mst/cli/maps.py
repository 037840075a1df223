"""The command `map`: one picture of a cube, of any kind that `napari_mst.spectra.maps` knows."""

import argparse
import math
from pathlib import Path

from napari_mst.cli.command import DONE, Command
from napari_mst.cli.console import note, progress_bar
from napari_mst.cli.control_c import asked_to_stop
from napari_mst.cli.options import add_output, add_overwrite, numbers
from napari_mst.errors import SpectrumError
from napari_mst.formats import read_cube
from napari_mst.photo.photo import Photo
from napari_mst.spectra.library import read_spectra
from napari_mst.spectra.map_files import FinishedMap, check_map_target, write_map
from napari_mst.spectra.map_kind import MapInputs, MapKind
from napari_mst.spectra.maps import MAPS

OPTIONS = {"spectra": "--spectra", "photo": "--photo", "reference": "--reference"}
"""The option that gives what a map needs."""

OUTPUT_HELP = "file to write: .tif, .hdr or another cube format for the numbers, .png for a picture"


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("cube", type=Path, metavar="CUBE")
    parser.add_argument("kind", choices=MAPS, metavar="KIND", help="kind of map; the list is below")
    add_output(parser, "OUT", OUTPUT_HELP)
    add_overwrite(parser)
    parser.add_argument(
        "--number", type=float, metavar="N", help="the number that the list below names"
    )
    parser.add_argument(
        "--wavelengths",
        type=numbers,
        default=(),
        metavar="A,B",
        help="wavelengths in the unit of the cube, one for each letter in the list below",
    )
    parser.add_argument(
        "--spectra", type=Path, metavar="FILE", help="spectra to classify by (.csv or .sli)"
    )
    parser.add_argument(
        "--photo", type=Path, metavar="FILE", help="the photo that the cube was made from"
    )
    parser.add_argument("--reference", type=Path, metavar="CUBE", help="the cube to compare with")


def _kinds() -> str:
    """The list of maps below the help, one on a line."""
    lines = [f"  {kind.name:<23}{kind.title}{_asks(kind)}" for kind in MAPS.values()]
    return "\n".join(["kinds:", *lines])


def _asks(kind: MapKind) -> str:
    """The options that *kind* takes, in brackets."""
    parts = []
    if kind.needs is not None:
        parts.append(OPTIONS[kind.needs])
    if kind.number is not None:
        unit = f" {kind.number.unit}" if kind.number.unit else ""
        label = kind.number.label.lower()
        parts.append(f"--number: {label}, default {kind.number.default:g}{unit}")
    if kind.lines:
        letters = ",".join(line.name for line in kind.lines)
        parts.append(f"--wavelengths {letters}")
    return f" ({'; '.join(parts)})" if parts else ""


def _run(arguments: argparse.Namespace) -> int:
    kind = MAPS[arguments.kind]
    _check_options(kind, arguments)
    with asked_to_stop():
        check_map_target(arguments.output, overwrite=arguments.overwrite)
    inputs = _inputs(arguments)
    with asked_to_stop() as watch:
        with progress_bar(kind.title, watch) as bar:
            result = kind.make(inputs, bar)
            bar.reach(1.0)
        # The titles of several planes say something: the share that each component explains.
        for plane in result.planes:
            if plane.title:
                note(plane.title)
        finished = FinishedMap(kind, inputs, result)
        print(write_map(arguments.output, finished, overwrite=arguments.overwrite))
    return DONE


def _check_options(kind: MapKind, arguments: argparse.Namespace) -> None:
    """Refuse an option that is missing, or that this kind of map does not use."""
    given = {
        "--spectra": arguments.spectra is not None,
        "--photo": arguments.photo is not None,
        "--reference": arguments.reference is not None,
        "--number": arguments.number is not None,
        "--wavelengths": bool(arguments.wavelengths),
    }
    needed = OPTIONS[kind.needs] if kind.needs else ""
    if needed and not given[needed]:
        raise SpectrumError(f"Expected {needed} for a map of {kind.name}, got none. Add it.")
    allowed = {needed}
    if kind.number is not None:
        allowed.add("--number")
    if kind.lines:
        allowed.add("--wavelengths")
    for option, is_given in given.items():
        if is_given and option not in allowed:
            raise SpectrumError(
                f"Expected no {option} for a map of {kind.name}, got one. Leave it out."
            )
    _check_number(kind, arguments.number)


def _check_number(kind: MapKind, number: float | None) -> None:
    asked = kind.number
    if asked is None or number is None:
        return
    is_whole = asked.decimals > 0 or number == round(number)
    if not (asked.low <= number <= asked.high and is_whole):
        what = "a number" if asked.decimals else "a whole number"
        raise SpectrumError(
            f"Expected {what} from {asked.low:g} to {asked.high:g} for --number, got {number:g}."
        )


def _inputs(arguments: argparse.Namespace) -> MapInputs:
    """Read every file that the map is made from."""
    reference = None if arguments.reference is None else read_cube(arguments.reference)
    return MapInputs(
        read_cube(arguments.cube),
        number=math.nan if arguments.number is None else arguments.number,
        wavelengths=arguments.wavelengths,
        spectra=() if arguments.spectra is None else read_spectra(arguments.spectra),
        photo=None if arguments.photo is None else Photo.read(arguments.photo),
        reference=reference,
    )


MAP = Command(
    name="map",
    help="make a map of a cube, as of classes, clusters or ratios",
    add_arguments=_add_arguments,
    run=_run,
    epilog=_kinds(),
)
