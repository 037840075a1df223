"""ENVI header fields about bands and numbers: widths, names, bad bands, fill value, scaling.

Letters: B bands, H rows, W columns.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from napari_mst.cube.curves import number, power_of
from napari_mst.cube.curves import scaled as in_power
from napari_mst.cube.lazy import Numbers
from napari_mst.formats.conventions import FACTOR, SCALING, physical
from napari_mst.formats.cube_record import IGNORED
from napari_mst.formats.envi.header import Header
from napari_mst.formats.numbers import magnitude


def described(
    stored: Numbers,
    header: Header,
    others: Mapping[str, Any] | None = None,
    *,
    scale: bool = True,
) -> tuple[Numbers, dict[str, Any], str, list[str]]:
    """The physical numbers of *stored* (B, H, W) and the descriptive fields, by *header*.

    `fwhm` gets the unit of the wavelengths. `default bands` count from 1, as in the file. Fields
    without a meaning here stay text, as written.

    Parameters
    ----------
    others
        Fields from elsewhere, for those that the header lacks.
    scale
        Replace complex numbers by their magnitude, and apply the scaling in the header.

    Returns
    -------
    The numbers, the fields that then apply, the quantity implied by a reflectance scale factor, and
    warnings.
    """
    fields, warnings = _fields(header, len(stored))
    fields = {**(others or {}), **fields}
    if not scale:
        return stored, fields, "", warnings
    numbers, fields, quantity, doubts = scaled_by(header, stored, fields)
    return numbers, fields, quantity, [*warnings, *doubts]


def scaled_by(
    header: Header, stored: Numbers, fields: Mapping[str, Any]
) -> tuple[Numbers, dict[str, Any], str, list[str]]:
    """The physical numbers of *stored* (B, H, W), by *header*; see `described`."""
    stored, doubts = magnitude(stored)
    scaling: dict[str, Any] = {key: header.numbers(key) for key in SCALING if key in header.fields}
    if FACTOR in scaling:
        scaling[FACTOR] = header.text(FACTOR)
    if IGNORED in fields:
        scaling[IGNORED] = fields[IGNORED]
    numbers, known, quantity, others = physical(stored, scaling, fields)
    return numbers, known, quantity, [*doubts, *others]


def _fields(header: Header, bands: int) -> tuple[dict[str, Any], list[str]]:
    """The descriptive fields of *header*, and warnings about fields left out."""
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


def _one_per_band(values: Sequence[Any] | None, bands: int) -> tuple[Any, ...] | None:
    """*values* if there is one per band and none is NaN; else None."""
    if values is None:
        return None
    # A comma after the last item adds an empty item.
    if len(values) == bands + 1 and values[-1] == "":
        values = values[:-1]
    is_good = len(values) == bands and all(value == value for value in values)
    return tuple(values) if is_good else None


def _integers(header: Header, key: str, allowed: range) -> tuple[int, ...] | None:
    """The whole numbers in a field; None if one of them is not *allowed*."""
    values = [number(text) for text in header.numbers(key)]
    return tuple(map(int, values)) if all(value in allowed for value in values) else None


def _scalar(header: Header, key: str) -> float | None:
    """The single number in a field, perhaps NaN; None for anything else."""
    text = header.text(key)
    value = number(text)
    is_told = not math.isnan(value) or text.strip().lower() == "nan"
    return value if is_told else None
