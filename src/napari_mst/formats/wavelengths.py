"""The spectral axis of a file: words for its unit, numbers as text, and what to say when they make no sense."""

import math
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_mst.cube import BAND_INDEX, NANOMETRES, SpectralCube
from napari_mst.errors import CubeError

_WORDS = {
    0: "nm nanometer nanometers nanometre nanometres",
    3: "um micrometer micrometers micrometre micrometres micron microns",
    6: "mm millimeter millimeters millimetre millimetres",
    7: "cm centimeter centimeters centimetre centimetres",
    9: "m meter meters metre metres",
    -1: "angstrom angstroms \N{LATIN SMALL LETTER A WITH RING ABOVE}",
}
_POWERS = {word: power for power, words in _WORDS.items() for word in words.split()}
_MICRO = str.maketrans("\N{MICRO SIGN}\N{GREEK SMALL LETTER MU}", "uu")
_IN_NAME = re.compile(
    r"(?:^|[\s(])(\d+(?:\.\d+)?)\s*(nm|nanometers|um|micrometers)\)?$", re.IGNORECASE
)


def power_of(unit: str) -> int | None:
    """The power of ten that takes *unit*, in any spelling, to nm; None for a unit that is no length."""
    return _POWERS.get(unit.strip().lower().translate(_MICRO))


def number(text: str) -> float:
    """*text* as a finite number, or NaN."""
    try:
        value = float(text) if "_" not in text else math.nan
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan


def scaled(text: str, power: int) -> float:
    """*text* times ten to the *power*, rounded once (0.5355 um is 535.5 nm), or NaN."""
    value = number(text)
    return (
        float(Decimal(text.strip()).scaleb(power))
        if value and math.isfinite(value) and power
        else value
    )


def may_be_nanometres(values: NDArray[Any]) -> bool:
    """Whether *values* without a unit are taken as nm: 100 to 100,000, which neither um nor band numbers are."""
    return bool(((values >= 100) & (values <= 100_000)).all())


def spectral_axis(
    texts: Sequence[str], unit: str, names: Sequence[str], bands: int
) -> tuple[NDArray[np.float64], str, list[str]]:
    """Wavelengths of *bands* bands, their unit, and warnings.

    Parameters
    ----------
    texts, unit
        The file's wavelengths and its word for their unit; empty where it gives none.
    names
        Names of the bands, in which GDAL keeps wavelengths ("400 Nanometers").

    Returns
    -------
    In nm where the unit is a length, or is not given and the values are 100 to 100,000; as they are, labelled with the
    file's own word, where it is another ("Wavenumber", "Unknown"); the band index where there are none that make sense.
    """
    if not texts:
        return _from_names(names, bands)
    if len(texts) != bands:
        return _indices(
            bands, f"The file gives {len(texts)} wavelengths for {bands} bands; they are ignored."
        )
    power = power_of(unit)
    values = np.array([scaled(text, power or 0) for text in texts])
    if not np.isfinite(values).all():
        return _indices(bands, "The file gives wavelengths that are not numbers; they are ignored.")
    warnings = []
    steps = np.diff(values)
    if not ((steps > 0).all() or (steps < 0).all()):
        warnings.append("The wavelengths neither rise nor fall from band to band.")
    is_assumed = not unit.strip() and may_be_nanometres(values)
    if is_assumed:
        warnings.append("The unit of the wavelengths is not given; nm was assumed.")
    elif power is None:
        warnings.append(
            f"The unit of the wavelengths is {unit or 'not given'}; they are kept as they are."
        )
    is_in_nm = is_assumed or power is not None
    return values, NANOMETRES if is_in_nm else unit.strip() or "Unknown", warnings


def typed_wavelengths(texts: Sequence[str], unit: str, bands: int) -> NDArray[np.float64]:
    """*texts*, numbers in *unit* that a person gave for *bands* bands, in nm. Raises `CubeError` that tells them."""
    values = np.array([scaled(text, power_of(unit) or 0) for text in texts])
    if len(values) != bands:
        raise CubeError(f"Expected {bands} wavelengths, got {len(values)}.")
    if not (values > 0).all():
        raise CubeError("Expected numbers above 0, got others.")
    return values


def column(text: str, count: int) -> list[str]:
    """The numbers in a table: the first of each line if *count* lines have some, else all of them."""
    tables = (re.split(r"[,;\s]+", line) for line in text.splitlines())
    lines = ([word for word in words if number(word) == number(word)] for words in tables)
    rows = [row for row in lines if row]
    return (
        [row[0] for row in rows] if len(rows) == count else [word for row in rows for word in row]
    )


def band_names(cube: SpectralCube) -> list[str]:
    """A name a band: the cube's own, else its wavelength or number."""
    names = cube.metadata.get("band names", ())
    if len(names) == len(cube.data):
        return [str(name) for name in names]
    unit = "" if cube.unit == BAND_INDEX else cube.unit
    return [f"{wavelength:g} {unit}".strip() for wavelength in cube.wavelengths]


def _from_names(names: Sequence[str], bands: int) -> tuple[NDArray[np.float64], str, list[str]]:
    found = [_IN_NAME.search(name.strip()) for name in names]
    matches = [match for match in found if match]
    if bands != len(names) or len(matches) != bands:
        return _indices(bands, "The file gives no wavelengths; bands are numbered.")
    texts, units = zip(*(match.groups() for match in matches), strict=True)
    values = [scaled(text, power_of(unit) or 0) for text, unit in zip(texts, units, strict=True)]
    return np.array(values), NANOMETRES, ["The wavelengths were taken from the names of the bands."]


def _indices(bands: int, warning: str) -> tuple[NDArray[np.float64], str, list[str]]:
    return np.arange(bands, dtype=np.float64), BAND_INDEX, [warning]
