"""The commands that work on cube files.

These are `convert`, `spectra`, `render`, `map`, `labels` and `compare`.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from napari_mst.analysis.comparison import Scores, cube_errors, psnr
from napari_mst.analysis.formulas import expanded
from napari_mst.analysis.label_table import label_table, write_table
from napari_mst.analysis.library import read_spectra, spectra_text, write_spectra
from napari_mst.analysis.map_kind import MapKind, check_map_target
from napari_mst.analysis.maps import MAPS
from napari_mst.analysis.regions import point_spectrum
from napari_mst.base.atomic_save import check_targets
from napari_mst.base.errors import SpectrumError, shown
from napari_mst.cli.console import note, print_json, working
from napari_mst.cli.control_c import asked_to_stop
from napari_mst.cli.shared_options import USUAL, OutputFile, PixelOption, opened
from napari_mst.cube.illuminants import DAYLIGHT, illuminant_names, illuminant_title
from napari_mst.cube.pictures import WHOLE, paint, rendering
from napari_mst.formats import check_target, write_cube
from napari_mst.formats.picture_files import check_picture_target, write_picture
from napari_mst.formats.read_options import AS_THE_FILE_SAYS, ReadOptions
from napari_mst.photo.photo import Photo


def convert(
    cube: Path,
    *,
    target: OutputFile = USUAL,
    reading: ReadOptions = AS_THE_FILE_SAYS,
) -> None:
    """Read a cube file, write it in another format and print the path of the new file.

    Parameters
    ----------
    cube
        a cube file of any kind
    output : OUT
        file to write; its suffix selects the format: .hdr, .tif, .npz, ... (default: an ENVI file
        of the same name, here)

    Examples
    --------
    napari-mst convert cube.mat -o cube.hdr
    napari-mst convert cube.npy --wavelengths 400:700 -o cube.tif
    """
    path = target.path(f"{cube.stem}.hdr")
    with asked_to_stop():
        check_target(path, overwrite=target.overwrite)
    whole = opened(cube, reading)
    with working(path.name) as bar:
        print(write_cube(path, whole, overwrite=target.overwrite, progress=bar))


def read_pixels(
    cube: Path,
    *,
    at: tuple[PixelOption, ...],
    window: int = 1,
    target: OutputFile = USUAL,
    reading: ReadOptions = AS_THE_FILE_SAYS,
) -> None:
    """Print the spectra of pixels, or write them to a file and print its path.

    Parameters
    ----------
    cube
        a cube file of any kind
    at : ROW,COLUMN
        a pixel; may be repeated
    window : SIDE
        average SIDE x SIDE pixels
    output : OUT
        file to write, .csv or .sli (default: print a table)

    Examples
    --------
    napari-mst spectra cube.hdr --at 120,80 --at 40,200
    napari-mst spectra cube.hdr --at 9,9 --window 5 -o a.csv
    """
    whole = opened(cube, reading)
    spectra = [point_spectrum(whole, *pixel, window, cube_name=cube.name) for pixel in at]
    if target.output is None:
        print(spectra_text(spectra), end="")
        return
    with asked_to_stop():
        print(write_spectra(target.output, spectra, overwrite=target.overwrite))


@dataclass(frozen=True)
class RenderOptions:
    """The light under which a picture shows a cube.

    Attributes
    ----------
    illuminant : NAME|FILE
        a light from the list below, or a CSV file of wavelength (nm) and power
    unadapted
        keep the colour of the light, as in a photo balanced for daylight; otherwise, white is white
        under any light
    full_scale : VALUE
        stored value that stands for reflectance 1
    """

    illuminant: str = DAYLIGHT
    unadapted: bool = False
    full_scale: float | None = None


IN_DAYLIGHT = RenderOptions()
"""The default picture."""


def render(
    cube: Path,
    *,
    target: OutputFile = USUAL,
    options: RenderOptions = IN_DAYLIGHT,
    reading: ReadOptions = AS_THE_FILE_SAYS,
) -> None:
    """Render a picture of a cube under a light, write it and print its path.

    Parameters
    ----------
    cube
        a cube file of any kind
    output : OUT
        file to write: .png, 8-bit sRGB with its profile (default: a .png, here)

    Examples
    --------
    napari-mst render cube.hdr -o cube.png
    napari-mst render cube.hdr --illuminant A --unadapted -o bulb.png
    """
    path = target.path(f"{cube.stem}.png")
    with asked_to_stop():
        check_picture_target(path, overwrite=target.overwrite)
    whole = opened(cube, reading)
    light, is_adapted = options.illuminant, not options.unadapted
    recipe = rendering(
        whole, light, is_chromatically_adapted=is_adapted, full_scale=options.full_scale
    )
    facts = {
        "source": cube.name,
        "illuminant": illuminant_title(light),
        "adapted": is_adapted,
    }
    with working(recipe.title) as bar:
        picture = paint(whole, recipe, WHOLE, bar)
        print(write_picture(path, picture, recipe.title, facts, overwrite=target.overwrite))


def illuminants() -> str:
    """Return the list of lights for the end of the help of `render`."""
    return "\n  ".join(["illuminants:", *illuminant_names()])


_READERS: Mapping[str, Callable[[Path, ReadOptions], Any]] = {
    "spectra": lambda path, _: read_spectra(path),
    "photo": lambda path, _: Photo.read(path),
    "reference": lambda path, reading: reading.answer(path),
}


@dataclass(frozen=True)
class MapOptions:
    """The arguments of a map.

    Attributes
    ----------
    number : N
        numeric parameter of the map, see the list below
    text : TEXT
        text parameter of the map, see the list below
    spectra : FILE
        spectra to classify by (.csv or .sli)
    photo : FILE
        the photo from which the cube was made
    reference : CUBE
        the cube to compare with
    """

    number: float | None = None
    text: str | None = None
    spectra: Path | None = None
    photo: Path | None = None
    reference: Path | None = None


UNSAID = MapOptions()
"""A map with its default parameters."""


def make_map(
    cube: Path,
    kinds: tuple[str, ...],
    *,
    target: OutputFile = USUAL,
    options: MapOptions = UNSAID,
    reading: ReadOptions = AS_THE_FILE_SAYS,
) -> None:
    """Make one or more maps of a cube, write them and print their paths.

    Parameters
    ----------
    cube
        a cube file of any kind
    kinds : KIND
        a kind of map from the list below; an index; or a formula
    output : OUT
        file to write, for a single kind: .tif, .hdr or another cube format for the values, .png
        for a picture (default: CUBE_KIND.tif, here)

    Examples
    --------
    napari-mst map cube.hdr components -o components.tif
    napari-mst map cube.hdr ndvi unmixed
    napari-mst map cube.hdr 'r700 / r550' -o ratio.tif
    napari-mst map cube.hdr span --text 500-600
    napari-mst map cube.hdr clusters -o classes.tif
    """
    if target.output is not None and len(kinds) > 1:
        raise SpectrumError(
            f"Expected one kind for {shown(target.output.name)}, got {len(kinds)}. Leave -o out."
        )
    maps = []
    for kind in kinds:
        letters = re.sub(r"\W+", "-", kind).strip("-")
        maps.append((*_ordered(kind, vars(options)), target.path(f"{cube.stem}_{letters}.tif")))
    with asked_to_stop():
        for *_, path in maps:
            check_map_target(path, overwrite=target.overwrite)
    whole = opened(cube, reading, is_alone=options.reference is None)
    for row, asked, path in maps:
        for name in _READERS.keys() & asked.keys():
            asked[name] = _READERS[name](asked[name], reading)
        with working(row.title) as bar:
            made = row.make(whole, **asked, progress=bar)
            bar.reach(1.0)
            # Titles of several planes are informative, such as the share of each component.
            for line in filter(None, (*made.titles, made.facts.get("map bands"), made.note)):
                note(line)
            print(made.write(path, overwrite=target.overwrite))


def _ordered(kind: str, given: dict[str, Any]) -> tuple[MapKind, dict[str, Any]]:
    """Return the row of `MAPS` for a *kind*, an index or a formula, and its arguments."""
    if kind in MAPS:
        return MAPS[kind], _asked(MAPS[kind], given)
    expanded(kind)  # an unknown word is refused before the cube is read
    return MAPS["formula"], _asked(MAPS["formula"], {**given, "text": kind})


def _asked(kind: MapKind, given: dict[str, Any]) -> dict[str, Any]:
    """Return the *given* options under the argument names of the *kind* of map."""
    names = {
        kind.needs: kind.needs,
        "number": kind.number and kind.number.name,
        "text": kind.text and kind.text.name,
    }
    needed = (kind.needs, "text" if kind.text is not None and kind.text.bands else "")
    for name, value in given.items():
        if name in needed and value is None:
            raise SpectrumError(f"Expected --{name} for a map of {kind.name}, got none. Add it.")
        if value is not None and not names.get(name):
            raise SpectrumError(
                f"Expected no --{name} for a map of {kind.name}, got one. Leave it out."
            )
    asked, number = kind.number, given["number"]
    if asked is not None and number is not None:
        is_whole = asked.decimals > 0 or number == round(number)
        if not (asked.low <= number <= asked.high and is_whole):
            what = "a number" if asked.decimals else "a whole number"
            raise SpectrumError(
                f"Expected {what} from {asked.low:g} to {asked.high:g} for --number, "
                f"got {number:g}."
            )
    return {names[name] or "": value for name, value in given.items() if value is not None}


def kinds() -> str:
    """Return the list of maps for the end of the help of `map`, one per line."""
    lines = [f"  {kind.name:<23}{kind.title}{_asks(kind)}" for kind in MAPS.values()]
    also = (
        "an index (NDVI) or a formula, such as '(r800 - r670) / (r800 + r670)', is a kind as well"
    )
    return "\n".join(["kinds:", *lines, "", also])


def _asks(kind: MapKind) -> str:
    """Return the options of *kind*, in brackets."""
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


def measure_labels(
    cube: Path,
    labels: Path,
    *,
    target: OutputFile = USUAL,
    reading: ReadOptions = AS_THE_FILE_SAYS,
) -> None:
    """Measure every label on a cube, such as classes or cells, write a table and print its path.

    The table has the area and centre of each label, mean and deviation of each band, and indices.

    Parameters
    ----------
    cube
        a cube file of any kind
    labels
        an integer image of the same size, such as the classes written by `napari-mst map`
    output : OUT
        file to write, .csv (default: CUBE_labels.csv, here)

    Examples
    --------
    napari-mst labels cube.hdr classes.tif -o classes.csv
    """
    path = target.path(f"{cube.stem}_labels.csv")
    with asked_to_stop():
        check_targets([path], overwrite=target.overwrite)
    image = AS_THE_FILE_SAYS.read(labels)
    names = dict(enumerate(image.metadata.get("class names", ())))
    with working(path.name) as bar:
        table = label_table(opened(cube, reading), np.asarray(image.data[0]), names, progress=bar)
        print(write_table(path, table, overwrite=target.overwrite))


def compare(
    cube: Path,
    reference: Path,
    *,
    bands: bool = False,
    peak: float = 1.0,
    json: bool = False,
    reading: ReadOptions = AS_THE_FILE_SAYS,
) -> None:
    """Print the errors of a cube against a reference; `napari-mst map` makes error maps.

    Parameters
    ----------
    cube
        a cube file of any kind
    reference
        the true cube
    bands
        print the errors of every band as well
    peak : VALUE
        value of white, for PSNR
    json
        print JSON, for programs

    Examples
    --------
    napari-mst compare cube.hdr true.hdr --bands
    """
    if not peak > 0:
        raise SpectrumError(f"Expected a --peak above 0, got {peak:g}.")
    whole, truth = opened(cube, reading, is_alone=False), reading.answer(reference)
    with asked_to_stop() as progress:
        errors = cube_errors(whole, truth, progress)
    facts, by_band = _facts(errors, peak), _by_band(errors, peak)
    if json:
        print_json(facts | {"by_band": by_band})
    else:
        # The totals, then a table of the bands with tabs, as `napari-mst spectra` prints one.
        for name, value in facts.items():
            print(f"{name:<8}{_SHOWN.get(name, '{}').format(value)}")
        if bands:
            print(f"wavelength ({errors.unit})\tMRAE\tRMSE\tPSNR (dB)")
            for band in by_band:
                print("{wavelength:g}\t{MRAE:.4f}\t{RMSE:.4f}\t{PSNR:.2f}".format(**band))


def _facts(errors: Scores, peak: float) -> dict[str, Any]:
    return {
        "MRAE": float(errors.mrae[0]),
        "RMSE": float(errors.rmse[0]),
        "PSNR": float(psnr(errors.rmse, peak)[0]),
        "SAM": float(errors.angle[0]),
        "pixels": int(errors.pixels[0]),
        "bands": len(errors.wavelengths),
    }


def _by_band(errors: Scores, peak: float) -> list[dict[str, float]]:
    rmse = errors.band_rmse[:, 0]
    columns = np.stack([errors.wavelengths, errors.band_mrae[:, 0], rmse, psnr(rmse, peak)], axis=1)
    names = ("wavelength", "MRAE", "RMSE", "PSNR")
    return [dict(zip(names, row, strict=True)) for row in columns.tolist()]


_SHOWN = {"MRAE": "{:.4f}", "RMSE": "{:.4f}", "PSNR": "{:.2f} dB", "SAM": "{:.2f} deg"}
