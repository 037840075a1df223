"""The command `map`: one picture of a cube, of any kind that `napari_mst.spectra.maps` knows."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from napari_mst.cli.command import DONE
from napari_mst.cli.console import note, progress_bar
from napari_mst.cli.control_c import asked_to_stop
from napari_mst.cli.options import Cube, Overwrite, numbers, to_file
from napari_mst.errors import SpectrumError
from napari_mst.formats import read_cube
from napari_mst.option import Option
from napari_mst.photo.photo import Photo
from napari_mst.spectra.library import read_spectra
from napari_mst.spectra.map_files import FinishedMap, check_map_target, write_map
from napari_mst.spectra.map_kind import MapInputs, MapKind
from napari_mst.spectra.maps import MAPS

OPTIONS = {"spectra": "--spectra", "photo": "--photo", "reference": "--reference"}
"""The option that gives what a map needs."""


def _kinds() -> str:
    """Return the list of maps below the help, one on a line."""
    lines = [f"  {kind.name:<23}{kind.title}{_asks(kind)}" for kind in MAPS.values()]
    return "\n".join(["kinds:", *lines])


def _asks(kind: MapKind) -> str:
    """Return the options that *kind* takes, in brackets."""
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


@dataclass(frozen=True)
class Map:
    """A cube file, the kind of map that is made of it, and what that kind needs."""

    cube: Cube
    kind: Annotated[
        str, Option("kind of map; the list is below", "KIND", choices=MAPS, is_positional=True)
    ]
    output: Annotated[
        Path | None,
        to_file(
            "file to write: .tif, .hdr or another cube format for the numbers, .png for a picture "
            "(default: CUBE_KIND.tif, here)"
        ),
    ] = None
    overwrite: Overwrite = False
    number: Annotated[float | None, Option("the number that the list below names", "N")] = None
    wavelengths: Annotated[
        tuple[float, ...],
        Option(
            "wavelengths in the unit of the cube, one for each letter in the list below",
            "A,B",
            parse=numbers,
        ),
    ] = ()
    spectra: Annotated[Path | None, Option("spectra to classify by (.csv or .sli)", "FILE")] = None
    photo: Annotated[Path | None, Option("the photo that the cube was made from", "FILE")] = None
    reference: Annotated[Path | None, Option("the cube to compare with", "CUBE")] = None

    examples = (
        "map cube.hdr components -o components.tif",
        "map cube.hdr ratio --wavelengths 700,550",
    )
    more = _kinds()

    def __post_init__(self) -> None:
        kind = MAPS[self.kind]
        needed = OPTIONS[kind.needs] if kind.needs else ""
        given = {
            f"--{name}": bool(value) or value == 0
            for name in (*OPTIONS, "number", "wavelengths")
            for value in [getattr(self, name)]
        }
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
        _check_number(kind, self.number)

    def run(self) -> int:
        """Make the map, write it and print its path."""
        kind = MAPS[self.kind]
        target = self.output or Path(f"{self.cube.stem}_{self.kind}.tif")
        with asked_to_stop():
            check_map_target(target, overwrite=self.overwrite)
        inputs = self._inputs()
        with asked_to_stop() as watch:
            with progress_bar(kind.title, watch) as bar:
                result = kind.make(inputs, bar)
                bar.reach(1.0)
            # The titles of several planes say something: the share that each component explains.
            for plane in result.planes:
                if plane.title:
                    note(plane.title)
            finished = FinishedMap(kind, inputs, result)
            print(write_map(target, finished, overwrite=self.overwrite))
        return DONE

    def _inputs(self) -> MapInputs:
        """Read every file that the map is made from."""
        return MapInputs(
            read_cube(self.cube),
            number=math.nan if self.number is None else self.number,
            wavelengths=self.wavelengths,
            spectra=() if self.spectra is None else read_spectra(self.spectra),
            photo=None if self.photo is None else Photo.read(self.photo),
            reference=None if self.reference is None else read_cube(self.reference),
        )


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
