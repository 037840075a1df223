"""The commands that make something of a cube file.

These are `convert`, `spectra`, `render`, `map` and `compare`.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from napari_mst.cli.arguments import DONE
from napari_mst.cli.console import note, print_json, working
from napari_mst.cli.control_c import asked_to_stop
from napari_mst.cli.options import (
    AsJson,
    Cube,
    CubeAnswers,
    FullScale,
    Overwrite,
    pixel_of,
    to_file,
)
from napari_mst.cube import SpectralCube
from napari_mst.cube.illuminants import DAYLIGHT, illuminant_names, illuminant_title
from napari_mst.cube.pictures import WHOLE, paint, rendering
from napari_mst.errors import SpectrumError, shown
from napari_mst.formats import check_target, read_cube, write_cube
from napari_mst.formats.picture_files import check_picture_target, write_picture
from napari_mst.option import Option
from napari_mst.photo.photo import Photo
from napari_mst.spectra.compare import MEASURES, CubeErrors, cube_errors
from napari_mst.spectra.formulas import expanded
from napari_mst.spectra.library import read_spectra, spectra_text, write_spectra
from napari_mst.spectra.map_kind import MapKind, check_map_target
from napari_mst.spectra.maps import MAPS
from napari_mst.spectra.regions import point_spectrum


@dataclass(frozen=True)
class Convert:
    """A cube file and the file of another format that it becomes."""

    cube: Cube
    output: Annotated[
        Path | None,
        to_file(
            "file to write; its suffix says the format, .hdr, .tif, .npz, ... (default: an ENVI "
            "file of the same name, here)"
        ),
    ] = None
    overwrite: Overwrite = False
    reading: CubeAnswers = field(default_factory=CubeAnswers)

    examples = (
        "convert cube.mat -o cube.hdr",
        "convert cube.npy --wavelengths 400:700 -o cube.tif",
    )

    def run(self) -> int:
        """Read one file, write the other and print its path."""
        target = self.output or Path(f"{self.cube.stem}.hdr")
        with asked_to_stop():
            check_target(target, overwrite=self.overwrite)
        cube = read_cube(self.cube, **self.reading.given)
        for warning in cube.metadata.get("warnings", ()):
            note(shown(warning, 300))
        with working(target.name) as bar:
            path = write_cube(target, cube, overwrite=self.overwrite, watch=bar)
        print(path)
        return DONE


@dataclass(frozen=True)
class Spectra:
    """A cube file and the pixels of it whose spectra are read."""

    cube: Cube
    at: Annotated[
        tuple[tuple[int, int], ...],
        Option(
            "a pixel; may be repeated",
            "ROW,COLUMN",
            parse=pixel_of,
            is_repeated=True,
            is_required=True,
        ),
    ]
    window: Annotated[int, Option("average SIDE x SIDE pixels", "SIDE")] = 1
    output: Annotated[
        Path | None, to_file("file to write, .csv or .sli (default: print a table)")
    ] = None
    overwrite: Overwrite = False

    examples = (
        "spectra cube.hdr --at 120,80 --at 40,200",
        "spectra cube.hdr --at 9,9 --window 5 -o a.csv",
    )

    def run(self) -> int:
        """Print the spectra, or write them and print the path of the file."""
        cube = read_cube(self.cube)
        spectra = [
            point_spectrum(cube, row, column, self.window, cube_name=self.cube.name)
            for row, column in self.at
        ]
        if self.output is None:
            print(spectra_text(spectra), end="")
            return DONE
        with asked_to_stop():
            print(write_spectra(self.output, spectra, overwrite=self.overwrite))
        return DONE


@dataclass(frozen=True)
class Render:
    """A cube file and the light under which a picture of it is made."""

    cube: Cube
    output: Annotated[
        Path | None,
        to_file("file to write: .png or .tif, 8-bit sRGB with its profile (default: a .png, here)"),
    ] = None
    overwrite: Overwrite = False
    illuminant: Annotated[
        str,
        Option("light of the list below, or a CSV file of wavelength (nm) and power", "NAME|FILE"),
    ] = DAYLIGHT
    unadapted: Annotated[
        bool,
        Option(
            "keep the colour of the light, as in a photo balanced for daylight; else white is "
            "white under any light"
        ),
    ] = False
    full_scale: FullScale = None

    examples = (
        "render cube.hdr -o cube.png",
        "render cube.hdr --illuminant A --unadapted -o bulb.png",
    )
    more = "\n".join(["illuminants:", *(f"  {name}" for name in illuminant_names())])

    def run(self) -> int:
        """Paint the picture, write it and print its path."""
        target = self.output or Path(f"{self.cube.stem}.png")
        with asked_to_stop():
            check_picture_target(target, overwrite=self.overwrite)
        cube = read_cube(self.cube)
        recipe = rendering(
            cube, self.illuminant, is_adapted=not self.unadapted, full_scale=self.full_scale
        )
        facts = {
            "source": self.cube.name,
            "illuminant": illuminant_title(self.illuminant),
            "adapted": not self.unadapted,
        }
        with working(recipe.title) as bar:
            picture = paint(cube, recipe, WHOLE, bar)
            path = write_picture(target, picture, recipe.title, facts, overwrite=self.overwrite)
        print(path)
        return DONE


def _kinds() -> str:
    """Return the list of maps below the help, one on a line."""
    lines = [f"  {kind.name:<23}{kind.title}{_asks(kind)}" for kind in MAPS.values()]
    also = (
        "an index (NDVI) or a formula, such as '(r800 - r670) / (r800 + r670)', is a kind as well"
    )
    return "\n".join(["kinds:", *lines, "", also])


def _asks(kind: MapKind) -> str:
    """Return the options that *kind* takes, in brackets."""
    parts = []
    if kind.needs is not None:
        parts.append(f"--{kind.needs}")
    if kind.number is not None:
        unit = f" {kind.number.unit}" if kind.number.unit else ""
        label = kind.number.label.lower()
        parts.append(f"--number: {label}, default {kind.number.default:g}{unit}")
    if kind.text is not None:
        parts.append(f"--text: {kind.text.label.lower()}")
    return f" ({'; '.join(parts)})" if parts else ""


@dataclass(frozen=True)
class Map:
    """A cube file, the kind of map that is made of it, and what that kind needs."""

    cube: Cube
    kind: Annotated[
        str,
        Option(
            "kind of map, of the list below; an index; or a formula", "KIND", is_positional=True
        ),
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
    text: Annotated[str | None, Option("the text that the list below names", "TEXT")] = None
    spectra: Annotated[Path | None, Option("spectra to classify by (.csv or .sli)", "FILE")] = None
    photo: Annotated[Path | None, Option("the photo that the cube was made from", "FILE")] = None
    reference: Annotated[Path | None, Option("the cube to compare with", "CUBE")] = None

    examples = (
        "map cube.hdr components -o components.tif",
        "map cube.hdr ndvi",
        "map cube.hdr 'r700 / r550' -o ratio.tif",
    )
    more = _kinds()

    def __post_init__(self) -> None:
        if self.kind not in MAPS:
            expanded(self.kind)  # a word that is no index is refused before the cube is read
            object.__setattr__(self, "text", self.kind)
        kind = self.row
        takes = [kind.needs, kind.number and "number", kind.text and "text"]
        for name in ("spectra", "photo", "reference", "number", "text"):
            is_given = getattr(self, name) is not None
            is_formula = name == "text" and kind.text is not None and kind.text.bands is not None
            if (name == kind.needs or is_formula) and not is_given:
                raise SpectrumError(
                    f"Expected --{name} for a map of {kind.name}, got none. Add it."
                )
            if is_given and name not in takes:
                raise SpectrumError(
                    f"Expected no --{name} for a map of {kind.name}, got one. Leave it out."
                )
        asked, number = kind.number, self.number
        if asked is None or number is None:
            return
        is_whole = asked.decimals > 0 or number == round(number)
        if not (asked.low <= number <= asked.high and is_whole):
            what = "a number" if asked.decimals else "a whole number"
            raise SpectrumError(
                f"Expected {what} from {asked.low:g} to {asked.high:g} for --number, "
                f"got {number:g}."
            )

    @property
    def row(self) -> MapKind:
        """The row of the table, which for an index is that of formulas."""
        return MAPS.get(self.kind, MAPS["formula"])

    def run(self) -> int:
        """Make the map, write it and print its path."""
        letters = re.sub(r"\W+", "-", self.kind).strip("-")
        target = self.output or Path(f"{self.cube.stem}_{letters}.tif")
        with asked_to_stop():
            check_map_target(target, overwrite=self.overwrite)
        print(_map_written(target, self.row, read_cube(self.cube), self._asked(), self.overwrite))
        return DONE

    def _asked(self) -> dict[str, Any]:
        """Read every file that the map is made from beside the cube."""
        kind = self.row
        asked: dict[str, Any] = {}
        if self.number is not None and kind.number is not None:
            asked[kind.number.name] = self.number
        if kind.text is not None and self.text is not None:
            asked[kind.text.name] = self.text
        read: dict[str, Callable[[Path], Any]] = {
            "spectra": read_spectra,
            "photo": Photo.read,
            "reference": read_cube,
        }
        if kind.needs is not None:
            asked[kind.needs] = read[kind.needs](getattr(self, kind.needs))
        return asked


def _map_written(
    target: Path, kind: MapKind, cube: SpectralCube, asked: dict[str, Any], overwrite: bool
) -> Path:
    """Make a map of *cube*, and write it to *target*."""
    with working(kind.title) as bar:
        made = kind.make(cube, **asked, watch=bar)
        bar.reach(1.0)
        # The titles of several planes say something: the share that each component explains.
        for text in (*made.titles, made.facts.get("map bands"), made.note):
            if text:
                note(text)
        return made.write(target, overwrite=overwrite)


@dataclass(frozen=True)
class Compare:
    """Two cube files, and the errors of the first that are printed or drawn."""

    cube: Cube
    reference: Annotated[Path, Option("the true cube", is_positional=True)]
    bands: Annotated[bool, Option("print the errors of every band as well")] = False
    peak: Annotated[float, Option("value of white, which PSNR refers to", "VALUE")] = 1.0
    output: Annotated[Path | None, to_file("also write an error map to this file")] = None
    measure: Annotated[str, Option("what the error map shows", choices=MEASURES)] = "rmse"
    overwrite: Overwrite = False
    json: AsJson = False

    examples = ("compare cube.hdr true.hdr --bands", "compare cube.hdr true.hdr -o error.png")

    def __post_init__(self) -> None:
        if not self.peak > 0:
            raise SpectrumError(f"Expected a --peak above 0, got {self.peak:g}.")

    def run(self) -> int:
        """Print the errors, and write a map of them if there is a file for it."""
        if self.output is not None:
            with asked_to_stop():
                check_map_target(self.output, overwrite=self.overwrite)
        cube, reference = read_cube(self.cube), read_cube(self.reference)
        with asked_to_stop() as watch:
            errors = cube_errors(cube, reference, self.peak, watch)
        if self.json:
            print_json(_facts(errors) | {"by_band": _by_band(errors)})
        else:
            _print_errors(errors, self.bands)
        if self.output is not None:
            kind = MAPS[f"reference-{self.measure}"]
            asked = {"reference": reference}
            print(_map_written(self.output, kind, cube, asked, self.overwrite))
        return DONE


def _facts(errors: CubeErrors) -> dict[str, Any]:
    return {
        "MRAE": errors.mrae,
        "RMSE": errors.rmse,
        "PSNR": errors.psnr,
        "SAM": errors.angle,
        "pixels": errors.pixels,
        "bands": len(errors.wavelengths),
    }


def _by_band(errors: CubeErrors) -> list[dict[str, float]]:
    names = ("wavelength", "MRAE", "RMSE", "PSNR")
    columns = (errors.wavelengths, errors.band_mrae, errors.band_rmse, errors.band_psnr)
    return [dict(zip(names, map(float, row), strict=True)) for row in zip(*columns, strict=True)]


_SHOWN = {"MRAE": "{:.4f}", "RMSE": "{:.4f}", "PSNR": "{:.2f} dB", "SAM": "{:.2f} deg"}


def _print_errors(errors: CubeErrors, has_bands: bool) -> None:
    """Print the totals, then a table of the bands with tabs, as `napari-mst spectra` prints one."""
    for name, value in _facts(errors).items():
        print(f"{name:<8}{_SHOWN.get(name, '{}').format(value)}")
    if has_bands:
        print(f"wavelength ({errors.unit})\tMRAE\tRMSE\tPSNR (dB)")
        for band in _by_band(errors):
            print("{wavelength:g}\t{MRAE:.4f}\t{RMSE:.4f}\t{PSNR:.2f}".format(**band))
