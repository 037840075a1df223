"""The meaning of stored numbers: scale, offset, fill value, valid range, unit and quantity.

Every format uses this module, so that the same words have the same meaning in all of them:
physical = (stored x gain + offset) / divisor. Words are compared by their letters, without case.

Sources: CF conventions 1.11, sections 2.5.1 and 8.1; NetCDF Users Guide, appendix A (`_Unsigned`,
`valid_range`); HDF-EOS5 (`ScaleFactor`, `MissingValue`); NEON NIS L3 (`Scale_Factor` divides);
GDAL raster data model; NV5 Geospatial, "ENVI Header Files". Letters: B bands, H rows, W columns.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from napari_mst.base.arrays import Array, Doubles, DType
from napari_mst.base.errors import shown
from napari_mst.cube.curves import number
from napari_mst.cube.lazy import Numbers, changed
from napari_mst.cube.parts import without
from napari_mst.formats.cube_record import IGNORED

APPLIED = "applied scaling"
"""Metadata field that records the scaling applied to the numbers."""
FACTOR = "reflectance scale factor"
"""ENVI field with the stored value of reflectance 1."""
SCALING = ("data gain values", "data offset values", FACTOR)
"""ENVI fields with a scaling, removed once it is applied, or the next reader would repeat it."""

_GAINS = ("scalefactor", "datagainvalues", "slope", "gain")
_OFFSETS = ("addoffset", "dataoffsetvalues", "offset")
_DIVISOR = "reflectancescalefactor"
_FILLS = ("fillvalue", "missingvalue", "dataignorevalue", "nodatavalue")
WORDS = frozenset({*_GAINS, *_OFFSETS, _DIVISOR, *_FILLS})
"""Words for scaling and fill values that may be names of side arrays, see `word_of`."""
_PERCENT = re.compile(r"\s*(%|per ?cent(age)?)\s*", re.IGNORECASE)
_RADIANCE = re.compile(r"\b[mu\N{MICRO SIGN}]?W\b.*\bsr", re.IGNORECASE)
_QUANTITIES = ("reflectance", "radiance")


@dataclass(frozen=True)
class Packing:
    """The encoding of physical numbers as stored numbers (B, H, W).

    Attributes
    ----------
    gains, offsets
        One number, or (B,).
    divisor
        The value after gain and offset that means 1.
    ignored
        Fill values, as stored.
    valid
        The smallest and the largest valid number; others are gaps.
    is_range_physical
        True if `valid` refers to physical numbers.
    view
        Integer type as which stored integers are reinterpreted; None for their own type.
    quantity
        "reflectance", "radiance" or "".
    """

    gains: Doubles | float = 1.0
    offsets: Doubles | float = 0.0
    divisor: float = 1.0
    ignored: tuple[float, ...] = ()
    valid: tuple[float, float] = (-math.inf, math.inf)
    is_range_physical: bool = False
    view: DType | None = None
    quantity: str = ""

    @property
    def title(self) -> str:
        """The scaling in words; "" if the stored numbers are physical."""
        parts = []
        if np.ndim(self.gains) or np.ndim(self.offsets):
            if np.any(self.gains != np.ones(1)) or np.any(self.offsets):
                parts.append("data gain and offset values")
        elif self.gains != 1 or self.offsets:
            parts.append(f"scale {self.gains:g}, offset {self.offsets:g}")
        if self.divisor != 1:
            parts.append(f"{self.quantity} scale factor {self.divisor:g}".strip())
        return ", ".join(parts)

    def unpacked(self, stored: Numbers) -> Numbers:
        """The physical numbers as floats with NaN in gaps; `Lazy` if *stored* is.

        Raises `OutOfMemory` if they do not fit into memory.
        """
        # float32 if it holds every stored value, else float64.
        dtype = np.result_type(stored.dtype, np.float32).newbyteorder("=")
        slopes, starts = (np.broadcast_to(each, len(stored)) for each in (self.gains, self.offsets))
        fills = [value for value in self.ignored if value == value]
        has_range = np.isfinite(self.valid).any()

        def meant(part: Array, bands: range) -> Array:
            part = part if self.view is None else part.view(self.view)
            slope, start = (each[bands, None, None] for each in (slopes, starts))
            numbers = (part * slope + start) / self.divisor
            is_gap = np.zeros(part.shape, dtype=bool)
            for value in fills:
                is_gap |= part == value
            if has_range:
                checked = numbers if self.is_range_physical else part
                is_gap |= (checked < self.valid[0]) | (checked > self.valid[1])
            numbers[is_gap] = np.nan
            return numbers

        return changed(stored, meant, dtype)


def physical(
    stored: Numbers,
    attributes: Mapping[str, Any],
    fields: Mapping[str, Any],
    *,
    name: str = "",
    scale: bool = True,
) -> tuple[Numbers, dict[str, Any], str, list[str]]:
    """The physical numbers encoded by *stored* (B, H, W).

    Integers with one fill value and no scaling stay unchanged; `IGNORED` then gives the fill value.

    Parameters
    ----------
    attributes
        The file's attributes of the numbers, in the words of any convention.
    fields
        The metadata of the cube.
    name
        Name of the array, which may tell its quantity.
    scale
        False leaves the numbers as stored.

    Returns
    -------
    The numbers, the metadata, the quantity, and warnings.
    """
    packing, warnings = packing_of(attributes, stored.dtype, len(stored), name)
    fields, fills = dict(fields), packing.ignored
    if fills:
        fields[IGNORED] = fills[0]
    if not scale:
        return stored, fields, "", warnings
    fields = without(fields, SCALING)
    has_range = bool(np.isfinite(packing.valid).any())
    if packing.title or len(fills) > 1 or has_range or packing.view is not None:
        stored = packing.unpacked(stored)
        if packing.title:
            fields[APPLIED] = packing.title
        if fills or has_range:
            fields[IGNORED] = math.nan
    elif packing.quantity == "reflectance" and stored.dtype.kind in "iu":
        warnings.append(
            "The file calls its whole numbers reflectance and gives no scale: they were kept as "
            "stored. Give it as scale=0.0001 (--scale 0.0001)."
        )
        packing = replace(packing, quantity="")
    return stored, fields, packing.quantity, warnings


def packing_of(
    attributes: Mapping[str, Any], dtype: DType, bands: int, name: str = ""
) -> tuple[Packing, list[str]]:
    """The packing described by *attributes*, and warnings about attributes that make no sense."""
    warnings: list[str] = []
    # NEON's Scale_Factor divides, unlike CF's scale_factor.
    words = {
        _DIVISOR if key == "Scale_Factor" else word_of(key): (key, value)
        for key, value in attributes.items()
    }

    def factors(spellings: Sequence[str], default: float, least: float = -math.inf) -> Any:
        """One number or (B,); the *default* and a warning if the values make no sense."""
        key, value = next((words[word] for word in spellings if word in words), ("", default))
        found = np.array(_values(value))
        # A list has one number per band.
        is_sound = not isinstance(value, list | tuple) or len(found) == bands
        is_sound &= bool(np.isfinite(found).all() and (found > least).all())
        if is_sound and bool(default == 0 or found.any()):
            return found if isinstance(value, list | tuple) else float(found[0])
        warnings.append(f"The field '{shown(key, 40)}' is {shown(value, 20)}; it is ignored.")
        return default

    gains, offsets = factors(_GAINS, 1.0), factors(_OFFSETS, 0.0)
    divisor = factors([_DIVISOR], 1.0, 0.0)
    view = _view(attributes, dtype)
    fills = [value for word in _FILLS if word in words for value in _values(words[word][1])]
    span = _values(words.get("validrange", ("", []))[1])
    if len(span) != 2:
        ends = (("validmin", -math.inf), ("validmax", math.inf))
        span = [_values(words.get(word, ("", end))[1])[0] for word, end in ends]
    is_packed = np.any(gains != np.ones(1)) or np.any(offsets) or divisor != 1
    is_float = any(type(value) is float and math.isfinite(value) for value in span)
    packing = Packing(
        gains,
        offsets,
        divisor,
        tuple(dict.fromkeys(_as_stored(value, view) for value in fills)),
        (_as_stored(span[0], view), _as_stored(span[1], view)),
        # A range whose type differs from the packed numbers applies to physical numbers (NUG).
        is_range_physical=bool(is_packed and is_float and dtype.kind in "iu"),
        view=view,
        quantity="reflectance" if divisor != 1 else _quantity(attributes, name),
    )
    if packing.quantity == "reflectance" and _PERCENT.fullmatch(str(attributes.get("units", ""))):
        warnings.append("The unit is per cent: the numbers were divided by 100.")
        packing = replace(packing, divisor=packing.divisor * 100)
    return packing, warnings


def _view(attributes: Mapping[str, Any], dtype: DType) -> DType | None:
    """The integer type according to `_Unsigned`; None if it changes nothing."""
    kind = {"true": "u", "false": "i"}.get(str(attributes.get("_Unsigned", "")).lower())
    is_other = kind is not None and dtype.kind in "iu" and dtype.kind != kind
    return np.dtype(f"{kind}{dtype.itemsize}") if is_other else None


def _as_stored(value: float, view: DType | None) -> float:
    """*value*, of the stored type, reinterpreted as the type *view*."""
    if view is None or not math.isfinite(value):
        return value
    whole = np.array(int(value) % 2 ** (8 * view.itemsize), f"u{view.itemsize}")
    return float(whole.view(view))


def word_of(key: str) -> str:
    """The letters of *key* in lower case, for comparing conventions."""
    return re.sub("[^a-z]", "", key.lower())


def _values(value: Any) -> list[float]:
    """The numbers in an attribute, perhaps written as text; NaN for other text."""
    values = value if isinstance(value, list | tuple) else [value]
    return [each if isinstance(each, int | float) else number(str(each)) for each in values]


def _quantity(attributes: Mapping[str, Any], name: str) -> str:
    """The quantity according to names and units, or ""."""
    about = [str(attributes.get(key, "")) for key in ("standard_name", "long_name")]
    words = " ".join([*about, name.rpartition("/")[2]]).lower().replace("irradiance", "")
    by_unit = "radiance" if _RADIANCE.search(str(attributes.get("units", ""))) else ""
    return next((each for each in _QUANTITIES if each in words), by_unit)
