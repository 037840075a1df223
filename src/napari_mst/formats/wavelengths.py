"""Texts in files: spectral axes and units, percent-encoding (RFC 3986), and safe cells."""

import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from urllib.parse import quote

import numpy as np

from napari_mst.base.arrays import Doubles, is_monotonic
from napari_mst.base.errors import CubeError
from napari_mst.cube import SpectralCube
from napari_mst.cube.curves import (
    BAND_INDEX,
    NANOMETRES,
    may_be_nanometres,
    number,
    power_of,
    scaled,
    stated_power,
)
from napari_mst.cube.parts import without

_IN_NAME = re.compile(
    r"(?:^|[\s(])(\d+(?:\.\d+)?)\s*(nm|nanometers|um|micrometers)\)?$", re.IGNORECASE
)


class AxisDoubt(str):
    """A warning about wavelengths that no longer applies once the user gives the wavelengths."""

    __slots__ = ()


def spectral_axis(
    texts: Sequence[str], unit: str, names: Sequence[str], bands: int
) -> tuple[Doubles, str, list[str]]:
    """The wavelengths of *bands* bands, their unit, and warnings.

    Parameters
    ----------
    texts, unit
        The wavelengths of the file and its word for their unit; empty if missing.
    names
        The names of the bands, in which GDAL stores wavelengths ("400 Nanometers").

    Returns
    -------
    Wavelengths in nm if the unit is a length, or if it is missing and the values are 100 to
    100,000. Other wavelengths stay unchanged, with the file's own word for their unit
    ("Wavenumber", "Unknown"). If none make sense, the wavelengths are the band index.
    """
    if not texts:
        return _from_names(names, bands)
    if len(texts) != bands:
        warning = f"The file gives {len(texts)} wavelengths for {bands} bands; they are ignored."
        return _indices(bands, warning)
    power, doubt = stated_power(unit, np.array([number(text) for text in texts]))
    warnings: list[str] = [AxisDoubt(doubt)] if doubt else []
    values = np.array([scaled(text, power or 0) for text in texts])
    if not np.isfinite(values).all():
        return _indices(bands, "The file gives wavelengths that are not numbers; they are ignored.")
    if not is_monotonic(values):
        warnings.append(AxisDoubt("The wavelengths neither rise nor fall from band to band."))
    if power is not None:
        return values, NANOMETRES, warnings
    if not unit.strip() and may_be_nanometres(values):
        warnings.append(AxisDoubt("The unit of the wavelengths is not given; nm was assumed."))
        return values, NANOMETRES, warnings
    word = unit or "not given"
    doubt = f"The unit of the wavelengths is {word}; they are kept as they are."
    warnings.append(AxisDoubt(doubt))
    return values, unit.strip() or "Unknown", warnings


def with_wavelengths(
    cube: SpectralCube, wavelengths: Sequence[float] | slice | None, unit: str = ""
) -> SpectralCube:
    """*cube* with the user's *wavelengths*, or with its own wavelengths in the user's *unit*.

    A slice is evenly spaced from the first band to the last. Raises `CubeError` if the wavelengths
    do not fit the bands, or make no sense.
    """
    power = power_of(unit or NANOMETRES)
    if power is None:
        raise CubeError(f"Expected a unit of length as nm or um, got {unit!r}. Choose one of them.")
    bands = len(cube.data)
    doubts = cube.metadata.get("warnings", ())
    if wavelengths is None:
        is_open = cube.unit != BAND_INDEX and any("unit of the wave" in each for each in doubts)
        if not is_open:
            got = cube.unit if cube.unit != BAND_INDEX else "no wavelengths"
            raise CubeError(f"Expected wavelengths without a unit, got {got}. Leave unit out.")
        wavelengths = list(cube.wavelengths)
    elif isinstance(wavelengths, slice):
        wavelengths = list(np.linspace(wavelengths.start, wavelengths.stop, bands))
    texts = [repr(float(at)) for at in wavelengths]
    values = typed_wavelengths(" ".join(texts), unit or NANOMETRES, bands)
    left = tuple(each for each in doubts if not isinstance(each, AxisDoubt))
    metadata = without(cube.metadata, ["warnings"]) | ({"warnings": left} if left else {})
    return replace(cube, wavelengths=values, unit=NANOMETRES, metadata=metadata)


_FROM_TO = r"(\d+(?:\.\d*)?)\s*-\s*(\d+(?:\.\d*)?)"
"""Matches the wavelengths of the first and the last band, joined by a hyphen."""


def typed_wavelengths(text: str, unit: str, bands: int) -> Doubles:
    """The wavelengths in nm of *bands* bands, from *text* typed by the user in *unit*.

    The text has the first and the last wavelength joined by a hyphen, or all wavelengths. Raises
    `CubeError` with a sentence for the user.
    """
    texts = text.replace(",", " ").split()
    if ends := re.fullmatch(_FROM_TO, text.strip()):
        # As text, so that these numbers pass the same checks as typed numbers.
        texts = [repr(float(at)) for at in np.linspace(float(ends[1]), float(ends[2]), bands)]
    values = np.array([scaled(text, power_of(unit) or 0) for text in texts])
    if len(values) != bands:
        raise CubeError(f"Expected {bands} wavelengths, got {len(values)}.")
    if not (values > 0).all():
        raise CubeError("Expected numbers above 0, got others.")
    return values


def band_names(cube: SpectralCube) -> list[str]:
    """One name per band: the stored name, else the wavelength or the number of the band."""
    names = cube.metadata.get("band names", ())
    if len(names) == len(cube.data):
        return [str(name) for name in names]
    unit = "" if cube.unit == BAND_INDEX else cube.unit
    return [f"{wavelength:g} {unit}".strip() for wavelength in cube.wavelengths]


def _from_names(names: Sequence[str], bands: int) -> tuple[Doubles, str, list[str]]:
    matches = [match for name in names if (match := _IN_NAME.search(name.strip()))]
    if len(names) != bands or len(matches) != bands:
        return _indices(bands, "The file gives no wavelengths; bands are numbered.")
    values = [scaled(match[1], power_of(match[2]) or 0) for match in matches]
    warning = AxisDoubt("The wavelengths were taken from the names of the bands.")
    return np.array(values), NANOMETRES, [warning]


def _indices(bands: int, warning: str) -> tuple[Doubles, str, list[str]]:
    return np.arange(bands, dtype=np.float64), BAND_INDEX, [AxisDoubt(warning)]


_PLAIN = "".join(sorted(set(string.printable) - set("%{}\t\n\r\x0b\x0c")))

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?(inf|nan)", re.IGNORECASE)
# In some countries' spreadsheets a semicolon or a tab separates cells, so a cell may begin after
# one of them as well as at the start of the text.
_BEFORE_FORMULA = r"(^|[;\t\r\n])"
# The beginnings of formulas (OWASP, "CSV Injection"). The text itself may have quotes before one:
# `text_cell` adds another quote, and `cell_text` removes exactly one.
_FORMULA = "(?='*[=+@\t\r\n\uff1d\uff0b\uff0d\uff20-])"


def text_cell(text: str) -> str:
    """*text* as a cell that a spreadsheet shows and never runs.

    Text that may be a formula gets a quote in front. Numbers stay numbers.
    """
    if _NUMBER.fullmatch(text):
        return text
    return re.sub(_BEFORE_FORMULA + _FORMULA, r"\1'", text)


def cell_text(cell: str) -> str:
    """The inverse of `text_cell`."""
    return re.sub(f"{_BEFORE_FORMULA}'{_FORMULA}", r"\1", cell)


def percent_encode(text: str, reserved: str = "") -> str:
    """*text* as printable ASCII without braces, line breaks, outer spaces or *reserved* characters.

    Readers of headers strip outer spaces. `urllib.parse.unquote` is the inverse.
    """
    encoded = quote(text, safe="".join(set(_PLAIN) - set(reserved)), errors="replace")
    return re.sub(r"^ | \Z", "%20", encoded)


def titles_of(records: Sequence[Mapping[str, str]]) -> list[str]:
    """The headings of the curves with these *records*.

    A heading is the name of the curve and, for a bound, the kind of bound. Curves of one name, such
    as those of a pick on several cubes, have the name of their cube as well.
    """
    count = Counter((record["name"], record["curve"]) for record in records)
    titles = []
    for record in records:
        name, curve, cube = record["name"], record["curve"], record["cube"]
        title = f"{name}, {cube}" if cube and count[name, curve] > 1 else name
        titles.append(title if curve == "values" else f"{title} ({curve})")
    return titles
