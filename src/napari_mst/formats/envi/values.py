"""What the fields of an ENVI header mean for its bands and numbers: widths, names, bad bands, gaps and scaling.

Letters: B bands, H rows, W columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_mst.formats.envi.header import Header
from napari_mst.formats.numbers import magnitude
from napari_mst.formats.wavelengths import number, scaled
from napari_mst.memory import free_host_memory
from napari_mst.messages import shown

APPLIED = "applied scaling"
"""The metadata field that records which scaling the numbers have had."""
_SCALING = ("data gain values", "data offset values", "reflectance scale factor")


def metadata(header: Header, bands: int, power: int) -> tuple[dict[str, Any], list[str]]:
    """The descriptive fields, and warnings about those left out.

    `fwhm` is multiplied by ten to the *power*, as the wavelengths are; `default bands` count from 1, as in the file;
    what is not listed here stays text, as written.
    """
    fields: dict[str, Any] = dict(header.other_fields())
    meanings = {
        "description": header.text("description"),
        "band names": _checked(header.items("band names"), bands),
        "fwhm": _checked([scaled(text, power) for text in header.numbers("fwhm")], bands),
        "bbl": _checked(_integers(header, "bbl", range(2)), bands),
        "default bands": _integers(header, "default bands", range(1, bands + 1)),
        "data ignore value": _scalar(header, "data ignore value"),
    }
    warnings = []
    for key, value in meanings.items():
        if key in fields and value is None:
            warnings.append(
                f"The field '{key}' does not fit the {bands} bands of the file; it is ignored."
            )
            del fields[key]
        elif key in fields:
            fields[key] = value
    return fields, warnings


@dataclass(frozen=True)
class Scaling:
    """Number = (stored * gain + offset) / factor; gains and offsets are (B,)."""

    gains: NDArray[np.float64]
    offsets: NDArray[np.float64]
    factor: float

    @property
    def is_identity(self) -> bool:
        """Whether it changes nothing."""
        return bool((self.gains == 1).all() and (self.offsets == 0).all() and self.factor == 1)

    def applied(self, stored: NDArray[Any], ignored: float | None) -> NDArray[Any]:
        """(B, H, W) floats, NaN where *stored* is the *ignored* value: float32 if that holds each stored value."""
        dtype = np.result_type(stored.dtype, np.float32)
        result = np.empty(stored.shape, dtype.newbyteorder("="))
        for band, plane in enumerate(stored):
            result[band] = (plane * self.gains[band] + self.offsets[band]) / self.factor
            if ignored is not None:
                result[band][plane == ignored] = np.nan
        return result

    def __str__(self) -> str:
        has_gains = (self.gains != 1).any() or (self.offsets != 0).any()
        parts = ["data gain and offset values"] * bool(has_gains)
        return ", ".join(parts + [f"reflectance scale factor {self.factor:g}"] * (self.factor != 1))


def physical(
    stored: NDArray[Any], header: Header, fields: dict[str, Any]
) -> tuple[NDArray[Any], dict[str, Any], list[str]]:
    """The numbers that the header means by the *stored* (B, H, W), the fields that then hold, and warnings.

    Complex numbers become their magnitude. What would not fit into memory stays as stored.
    """
    stored, warnings = magnitude(stored)
    scaling, doubts = _scaling(header, len(stored))
    if scaling.is_identity:
        return (
            stored,
            {key: value for key, value in fields.items() if key not in _SCALING},
            warnings + doubts,
        )
    needed = stored.size * np.result_type(stored.dtype, np.float32).itemsize
    if needed > free_host_memory():
        told = (
            f"Scaling ({scaling}) would need {needed} bytes of memory; the numbers are as stored."
        )
        return stored, fields, [*warnings, *doubts, told]
    kept = {key: value for key, value in fields.items() if key not in _SCALING} | {
        APPLIED: str(scaling)
    }
    if "data ignore value" in kept:
        kept["data ignore value"] = float("nan")
    return scaling.applied(stored, fields.get("data ignore value")), kept, warnings + doubts


def _scaling(header: Header, bands: int) -> tuple[Scaling, list[str]]:
    warnings = []
    vectors = []
    for key, neutral in (("data gain values", 1.0), ("data offset values", 0.0)):
        values = (
            _checked([number(text) for text in header.numbers(key)], bands)
            if key in header.fields
            else None
        )
        if values is None and key in header.fields:
            warnings.append(
                f"The field '{key}' does not give a number for each of the {bands} bands; it is ignored."
            )
        vectors.append(np.array(values or [neutral] * bands))
    factor = number(header.text("reflectance scale factor") or "1")
    if not factor > 0:
        text = shown(header.text("reflectance scale factor"), 20)
        warnings.append(f"The reflectance scale factor is {text}; it is ignored.")
        factor = 1.0
    return Scaling(vectors[0], vectors[1], factor), warnings


def _checked(values: Sequence[Any] | None, bands: int) -> tuple[Any, ...] | None:
    """*values* if there is one a band and none is NaN."""
    values = values[:-1] if values and len(values) == bands + 1 and values[-1] == "" else values
    is_good = (
        values is not None and len(values) == bands and all(value == value for value in values)
    )
    return tuple(values) if is_good and values is not None else None


def _integers(header: Header, key: str, allowed: range) -> tuple[int, ...] | None:
    values = [number(text) for text in header.numbers(key)]
    return tuple(map(int, values)) if all(value in allowed for value in values) else None


def _scalar(header: Header, key: str) -> float | None:
    text = header.text(key)
    value = number(text)
    return value if value == value or text.strip().lower() == "nan" else None
