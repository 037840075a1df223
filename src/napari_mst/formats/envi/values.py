"""The fields of an ENVI header about bands and numbers: widths, names, bad bands, gaps, scaling.

Letters: B bands, H rows, W columns.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from napari_mst.arrays import Array, Doubles
from napari_mst.cube.curves import number, power_of
from napari_mst.cube.curves import scaled as in_power
from napari_mst.cube.lazy import Numbers
from napari_mst.cube.parts import without
from napari_mst.errors import shown
from napari_mst.formats.envi.header import Header
from napari_mst.formats.numbers import magnitude, scaled
from napari_mst.formats.record import IGNORED

APPLIED = "applied scaling"
"""The metadata field that records which scaling the numbers have had."""
_GAINS = "data gain values"
_OFFSETS = "data offset values"
_SCALING = (_GAINS, _OFFSETS, "reflectance scale factor")


def described(
    stored: Array,
    header: Header,
    others: Mapping[str, Any] | None = None,
    *,
    scale: bool = True,
) -> tuple[Array, dict[str, Any], list[str]]:
    """The numbers and the descriptive fields that *header* means by the *stored* (B, H, W) numbers.

    `fwhm` is in the unit that the wavelengths get. `default bands` count from 1, as in the file.
    Fields that have no meaning here stay text, as written.

    Parameters
    ----------
    others
        Fields from elsewhere, which count where the header has none.
    scale
        Give complex numbers by their magnitude, and apply the scaling that the header asks for.

    Returns
    -------
    The numbers, the fields that then hold, and warnings.
    """
    fields, warnings = _fields(header, len(stored))
    fields = {**(others or {}), **fields}
    if not scale:
        return stored, fields, warnings
    numbers, fields, doubts = physical(stored, header, fields)
    return numbers, fields, [*warnings, *doubts]


def physical(
    stored: Numbers, header: Header, fields: dict[str, Any]
) -> tuple[Numbers, dict[str, Any], list[str]]:
    """The numbers that *header* means by the *stored* (B, H, W) ones: see `described`."""
    stored, warnings = magnitude(stored)
    gains = _vector(header, _GAINS, np.ones(len(stored)), warnings)
    offsets = _vector(header, _OFFSETS, np.zeros(len(stored)), warnings)
    factor = _factor(header, warnings)
    is_linear = bool((gains != 1).any() or (offsets != 0).any())
    parts = ["data gain and offset values"] * is_linear
    parts += [f"reflectance scale factor {factor:g}"] * (factor != 1)
    text = ", ".join(parts)
    # Fields of a scaling that was applied would make the next reader apply it again.
    fields = without(fields, _SCALING)
    if not text:
        return stored, fields, warnings
    fields[APPLIED] = text
    numbers = scaled(stored, gains, offsets, fields.get(IGNORED), factor)
    # In the scaled numbers NaN stands for it.
    if IGNORED in fields:
        fields[IGNORED] = math.nan
    return numbers, fields, warnings


def quantity_of(fields: Mapping[str, Any]) -> str:
    """The quantity that a scaling which was applied gives away; "" if there is none.

    A reflectance scale factor says what the numbers are, though no field of ENVI does.
    """
    return "reflectance" if "reflectance" in fields.get(APPLIED, "") else ""


def _fields(header: Header, bands: int) -> tuple[dict[str, Any], list[str]]:
    """The descriptive fields of *header*, and warnings about those left out."""
    fields: dict[str, Any] = dict(header.other_fields())
    power = power_of(header.unit_word) or 0
    widths = [in_power(text, power) for text in header.numbers("fwhm")]
    meanings = {
        "description": header.text("description"),
        "band names": _one_per_band(header.items("band names"), bands),
        "fwhm": _one_per_band(widths, bands),
        "bbl": _one_per_band(_integers(header, "bbl", range(2)), bands),
        "default bands": _integers(header, "default bands", range(1, bands + 1)),
        IGNORED: _scalar(header, IGNORED),
    }
    warnings = []
    for key, value in meanings.items():
        if key not in fields:
            continue
        if value is None:
            warnings.append(
                f"The field '{key}' does not fit the {bands} bands of the file; it is ignored."
            )
            del fields[key]
        else:
            fields[key] = value
    return fields, warnings


def _factor(header: Header, warnings: list[str]) -> float:
    """The reflectance scale factor; 1, and one of the *warnings* more, if it makes no sense."""
    text = header.text("reflectance scale factor")
    factor = number(text or "1")
    if factor > 0:
        return factor
    warnings.append(f"The reflectance scale factor is {shown(text, 20)}; it is ignored.")
    return 1.0


def _vector(header: Header, key: str, default: Doubles, warnings: list[str]) -> Doubles:
    """One number for each band; the *default*, and a warning, if the field has others."""
    if key not in header.fields:
        return default
    bands = len(default)
    values = _one_per_band([number(text) for text in header.numbers(key)], bands)
    if values is not None:
        return np.array(values)
    warnings.append(
        f"The field '{key}' does not give a number for each of the {bands} bands; it is ignored."
    )
    return default


def _one_per_band(values: Sequence[Any] | None, bands: int) -> tuple[Any, ...] | None:
    """*values* if there is one for each band and none is NaN; else None."""
    if values is None:
        return None
    # A comma after the last item gives one empty item more.
    if len(values) == bands + 1 and values[-1] == "":
        values = values[:-1]
    is_good = len(values) == bands and all(value == value for value in values)
    return tuple(values) if is_good else None


def _integers(header: Header, key: str, allowed: range) -> tuple[int, ...] | None:
    """The whole numbers of a field; None if one is not *allowed*."""
    values = [number(text) for text in header.numbers(key)]
    return tuple(map(int, values)) if all(value in allowed for value in values) else None


def _scalar(header: Header, key: str) -> float | None:
    """The one number of a field, which may be NaN; None if it is something else."""
    text = header.text(key)
    value = number(text)
    is_told = not math.isnan(value) or text.strip().lower() == "nan"
    return value if is_told else None
