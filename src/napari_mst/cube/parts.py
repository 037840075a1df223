"""Cut parts out of a cube: the checks, and what becomes of its metadata and its region.

`cube` calls this for `SpectralCube.crop` and `SpectralCube.sel`.
"""

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from napari_mst.errors import CubeError
from napari_mst.georeference import FIELD, Georeference
from napari_mst.messages import shown

Span = slice | tuple[int, int]
"""Some rows or columns, (start, stop) or a slice: from *start*, up to but without *stop*."""

_MAP_INFO = "map info"
"""ENVI's field for the coordinates of one pixel, which it counts from 1."""

_OF_PIXELS = frozenset({"geo points", "picks", "rpc info", "x start", "y start"})
"""Fields of metadata that name pixels of the whole image: a part of it has no use for them."""

_PLACES = frozenset({FIELD, _MAP_INFO})
"""Fields of metadata that say where the image lies on earth."""

_OF_BANDS = ("band names", "bbl", "fwhm", "data gain values", "data offset values")
"""Fields of metadata that have one value for each band."""

_DEFAULT_BANDS = "default bands"
"""ENVI's field for the numbers of the bands to show as red, green and blue."""


def checked_span(wanted: Span, length: int, name: str) -> slice:
    """*wanted* as a slice with a start and a stop, within *length* and not empty.

    Raises
    ------
    CubeError
        If it is empty, lies beyond 0 to *length*, has a step, or is not of whole numbers; *name*
        says in the message what it counts.
    """
    try:
        start, stop = (wanted.start, wanted.stop) if isinstance(wanted, slice) else wanted
        first = 0 if start is None else operator.index(start)
        end = length if stop is None else operator.index(stop)
    except (TypeError, ValueError):
        raise CubeError(
            f"Expected {name} as (start, stop) or a slice of whole numbers, got {shown(wanted)}."
        ) from None
    takes_each = not isinstance(wanted, slice) or wanted.step in (None, 1)
    if not takes_each or not 0 <= first < end <= length:
        raise CubeError(
            f"Expected {name} from 0 to {length}, without a step, got {shown(wanted)}. "
            "Choose a part that lies on the image."
        )
    return slice(first, end)


def region_bounds(region: str) -> tuple[int, int, int, int] | None:
    """Top, bottom, left and right of a *region* as text, "100:300,0:512"; None if it is none."""
    try:
        top, bottom, left, right = map(int, region.replace(":", ",").split(","))
    except ValueError:
        return None
    return top, bottom, left, right


def region_within(region: str, rows: slice, columns: slice) -> str:
    """The text of a region of the photo that is these *rows* and *columns* of *region*."""
    bounds = region_bounds(region)
    if bounds is None:  # from a file: nobody knows what it means
        return region
    top, _, left, _ = bounds
    return f"{top + rows.start}:{top + rows.stop},{left + columns.start}:{left + columns.stop}"


def cropped_metadata(metadata: Mapping[str, Any], top: int, left: int) -> dict[str, Any]:
    """*metadata* for the part of the image that begins at row *top* and column *left*."""
    kept = {key: value for key, value in metadata.items() if key not in _OF_PIXELS}
    place = Georeference.from_json(str(kept.get(FIELD)))
    if place is not None:
        kept[FIELD] = place.cropped(top, left).to_json()
    if _MAP_INFO in kept:
        kept[_MAP_INFO] = _cropped_map_info(str(kept[_MAP_INFO]), top, left)
    return kept


def metadata_of_cut(
    metadata: Mapping[str, Any],
    then: tuple[int, int, int],
    now: tuple[int, int, int],
    corner: tuple[int, int] | None,
) -> dict[str, Any]:
    """*metadata* of a cube of shape *then* for a part of shape *now* that another library cut out.

    *corner* is the row and column of the cube at which the part begins. Where it is unknown, all
    that names pixels is left out, and always what has one value for each of the bands before.
    """
    kept = dict(metadata)
    if then[1:] != now[1:]:
        has_place = corner is not None
        kept = cropped_metadata(kept, *(corner or (0, 0)))
        kept = {key: value for key, value in kept.items() if has_place or key not in _PLACES}
    if then[0] != now[0]:
        of_bands = {*_OF_BANDS, _DEFAULT_BANDS}
        kept = {key: value for key, value in kept.items() if key not in of_bands}
    return kept


def _cropped_map_info(text: str, top: int, left: int) -> str:
    """ENVI's `map info` for the same part: its pixel, a column and a row, has new numbers."""
    items = [item.strip() for item in text.strip("{} ").split(",")]
    try:
        column = float(items[1]) - left
        row = float(items[2]) - top
    except (IndexError, ValueError):  # it made no sense for the whole image either
        return text
    return "{" + ", ".join([items[0], repr(column), repr(row), *items[3:]]) + "}"


def metadata_of_bands(
    metadata: Mapping[str, Any], bands: Sequence[int], count: int
) -> dict[str, Any]:
    """*metadata* for some *bands* of *count*; the default bands, numbers of all, are left out."""
    kept = {key: value for key, value in metadata.items() if key != _DEFAULT_BANDS}
    for key in [key for key in _OF_BANDS if key in kept]:
        value = kept.pop(key)
        is_text = isinstance(value, str)
        values = value.strip("{} ").split(",") if is_text else value
        # A field with another number of values tells nothing about a band.
        if np.ndim(values) == 1 and len(values) == count:
            chosen = tuple(values[band] for band in bands)
            kept[key] = "{" + ",".join(chosen) + "}" if is_text else chosen
    return kept
