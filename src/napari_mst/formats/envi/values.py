"""The fields of an ENVI header about bands and numbers: widths, names, bad bands, gaps, scaling.

Letters: B bands, H rows, W columns.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_mst.curves import number, scaled
from napari_mst.formats.envi.header import Header
from napari_mst.formats.numbers import magnitude
from napari_mst.formats.record import IGNORED
from napari_mst.memory import free_host_memory
from napari_mst.messages import shown

APPLIED = "applied scaling"
"""The metadata field that records which scaling the numbers have had."""
_GAINS = "data gain values"
_OFFSETS = "data offset values"
_FACTOR = "reflectance scale factor"
_SCALING = (_GAINS, _OFFSETS, _FACTOR)


def metadata(header: Header, bands: int, power: int) -> tuple[dict[str, Any], list[str]]:
    """The descriptive fields of *header*, and warnings about those left out.

    `fwhm` is multiplied by ten to the *power*, as the wavelengths are. `default bands` count from
    1, as in the file. Fields that have no meaning here stay text, as written.
    """
    fields: dict[str, Any] = dict(header.other_fields())
    widths = [scaled(text, power) for text in header.numbers("fwhm")]
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


@dataclass(frozen=True)
class Scaling:
    """The scaling of stored numbers: (stored * gain + offset) / factor, gains and offsets (B,)."""

    gains: NDArray[np.float64]
    offsets: NDArray[np.float64]
    factor: float

    @property
    def is_identity(self) -> bool:
        """True if the scaling changes nothing."""
        return not self._has_gains and self.factor == 1

    @property
    def _has_gains(self) -> bool:
        return bool((self.gains != 1).any() or (self.offsets != 0).any())

    def applied(self, stored: NDArray[Any], ignored: float | None) -> NDArray[Any]:
        """(B, H, W) floats, NaN where *stored* is the *ignored* value.

        float32 if that holds each stored value, else float64.
        """
        result = np.empty(stored.shape, _float_type(stored).newbyteorder("="))
        # Band by band: products of the whole cube would take its size twice more.
        for band, plane in enumerate(stored):
            result[band] = (plane * self.gains[band] + self.offsets[band]) / self.factor
            if ignored is not None:
                result[band][plane == ignored] = np.nan
        return result

    def __str__(self) -> str:
        parts = []
        if self._has_gains:
            parts.append("data gain and offset values")
        if self.factor != 1:
            parts.append(f"reflectance scale factor {self.factor:g}")
        return ", ".join(parts)


def physical(
    stored: NDArray[Any], header: Header, fields: dict[str, Any]
) -> tuple[NDArray[Any], dict[str, Any], list[str]]:
    """The numbers that the header means by the *stored* (B, H, W) ones.

    Complex numbers become their magnitude. Numbers that would not fit into memory stay as stored.

    Returns
    -------
    The numbers, the *fields* that then hold, and warnings.
    """
    stored, warnings = magnitude(stored)
    scaling, doubts = _scaling(header, len(stored))
    warnings += doubts
    # Fields of a scaling that was applied would make the next reader apply it again.
    others = {key: value for key, value in fields.items() if key not in _SCALING}
    if scaling.is_identity:
        return stored, others, warnings
    needed = stored.size * _float_type(stored).itemsize
    if needed > free_host_memory():
        told = (
            f"Scaling ({scaling}) would need {needed} bytes of memory; the numbers are as stored."
        )
        return stored, fields, [*warnings, told]
    others[APPLIED] = str(scaling)
    # In the scaled numbers NaN stands for it.
    if IGNORED in others:
        others[IGNORED] = math.nan
    return scaling.applied(stored, fields.get(IGNORED)), others, warnings


def _float_type(stored: NDArray[Any]) -> np.dtype[Any]:
    return np.result_type(stored.dtype, np.float32)


def _scaling(header: Header, bands: int) -> tuple[Scaling, list[str]]:
    """The scaling that *header* asks for, and warnings about what of it makes no sense."""
    warnings: list[str] = []
    gains = _vector(header, _GAINS, bands, warnings)
    offsets = _vector(header, _OFFSETS, bands, warnings)
    text = header.text(_FACTOR)
    factor = number(text or "1")
    if not factor > 0:
        warnings.append(f"The reflectance scale factor is {shown(text, 20)}; it is ignored.")
        factor = 1.0
    return Scaling(
        gains=np.ones(bands) if gains is None else gains,
        offsets=np.zeros(bands) if offsets is None else offsets,
        factor=factor,
    ), warnings


def _vector(
    header: Header, key: str, bands: int, warnings: list[str]
) -> NDArray[np.float64] | None:
    """One number for each band; None, and one of the *warnings* more, if the field has others."""
    if key not in header.fields:
        return None
    values = _one_per_band([number(text) for text in header.numbers(key)], bands)
    if values is not None:
        return np.array(values)
    warnings.append(
        f"The field '{key}' does not give a number for each of the {bands} bands; it is ignored."
    )
    return None


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
