"""Mean spectra of regions of a cube: a pixel, a window around it, a mask, a label, a polygon.

Only the bounding box of a region is read, a few rows at a time, so that a memory-mapped cube stays
on its disk. Letters: B bands, H rows, W columns; h, w of a bounding box; n pixels.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_mst.cube import SpectralCube
from napari_mst.errors import SpectrumError
from napari_mst.messages import shown
from napari_mst.spectra.polygons import ON_EDGE, Mask, polygon_mask
from napari_mst.spectra.spectrum import STD, Origin, Spectrum, Values

Spread = str | tuple[float, float]
"""Bounds of a mean: `STD`, two percentiles, or "" for none."""

READ_PIXELS = 2**18
"""Pixels that are read at a time, where reading copies (a chunked cube)."""
BLOCK_PIXELS = 2**13
"""Pixels that are averaged at a time; as float64 they stay in a processor's cache."""


@dataclass(frozen=True, eq=False)
class Region:
    """Some pixels of an image.

    Attributes
    ----------
    row, column
        Where the first pixel of the mask lies in the image.
    mask
        (h, w), True for the pixels of the region.
    origin
        What the region is; it becomes the origin of its spectrum.

    Notes
    -----
    ============  ==========================================================
    mask          (h, w) bool
    row, column   pixels of the image, from 0
    of_mask()     (H, W) bool, or numbers that are not 0
    of_label()    (H, W) whole numbers
    of_polygon()  pixels, (row, column); centres of pixels are whole numbers
    ============  ==========================================================

    Examples
    --------
    >>> nm.Region.of_window(2, 2, (4, 5), window=3).size
    9
    >>> nm.Region.of_polygon([(0, 0), (0, 4), (3, 0)], (4, 5), name="leaf").size
    11
    >>> nm.Region.of_mask(np.eye(4), name="diagonal").size
    4
    >>> nm.Region.of_label(np.array([[0, 7], [7, 7]]), 7).box
    (slice(0, 2, None), slice(0, 2, None))
    """

    row: int
    column: int
    mask: Mask
    origin: Origin = field(default_factory=Origin)

    @classmethod
    def of_mask(cls, mask: ArrayLike, name: str = "") -> "Region":
        """The true pixels of an (H, W) mask. Raises `SpectrumError` if there are none."""
        whole = np.ma.filled(np.asanyarray(mask), 0)
        if whole.ndim != 2:
            raise SpectrumError(f"Expected a mask of shape (rows, columns), got {whole.shape}.")
        whole = whole != 0
        rows = np.flatnonzero(whole.any(axis=1))
        columns = np.flatnonzero(whole.any(axis=0))
        if not rows.size:
            raise _empty(name)
        top = int(rows[0])
        left = int(columns[0])
        box = whole[top : rows[-1] + 1, left : columns[-1] + 1]
        return cls(top, left, box, Origin(region=name))

    @classmethod
    def of_label(cls, labels: NDArray[np.integer[Any]], value: int, name: str = "") -> "Region":
        """The pixels of an (H, W) label image that have *value*.

        Raises `SpectrumError` if there are none.
        """
        return cls.of_mask(np.asanyarray(labels) == value, name or f"label {value}")

    @classmethod
    def of_polygon(cls, vertices: ArrayLike, shape: tuple[int, int], name: str = "") -> "Region":
        """The pixels of an image of *shape* (H, W) whose centres are in a polygon or on its edge.

        *vertices* are (row, column), at least three. Where the polygon crosses itself, what it
        encloses twice is outside (even-odd rule). Raises `SpectrumError` if no pixel is inside.
        """
        corners = np.asarray(vertices, dtype=np.float64)
        is_list_of_points = corners.ndim == 2 and corners.shape[1] == 2 and len(corners) >= 3
        if not is_list_of_points or not np.isfinite(corners).all():
            raise SpectrumError(
                f"Expected 3 or more finite (row, column) vertices, got {corners.shape}."
            )
        low = np.clip(np.ceil(corners.min(axis=0) - ON_EDGE), 0, shape).astype(int)
        high = np.clip(np.floor(corners.max(axis=0) + ON_EDGE) + 1, 0, shape).astype(int)
        height, width = np.maximum(high - low, 0)
        mask = polygon_mask(corners - low, height, width)
        if not mask.any():
            raise _empty(name)
        outline = tuple((float(row), float(column)) for row, column in corners)
        return cls(int(low[0]), int(low[1]), mask, Origin(region=name, vertices=outline))

    @classmethod
    def of_window(cls, row: int, column: int, shape: tuple[int, int], window: int = 1) -> "Region":
        """The square of *window* x *window* pixels (1, 3, 5, ...) around a pixel.

        It is cut at the borders of the image. Raises `SpectrumError` if the pixel is outside, or
        *window* is not odd.
        """
        if window < 1 or window % 2 == 0:
            raise SpectrumError(f"Expected a window of 1, 3, 5, ... pixels, got {window}.")
        if not (0 <= row < shape[0] and 0 <= column < shape[1]):
            raise SpectrumError(
                f"Expected a pixel within {shape[0]} rows x {shape[1]} columns, "
                f"got row {row}, column {column}."
            )
        half = window // 2
        top = max(0, row - half)
        left = max(0, column - half)
        bottom = min(shape[0], row + half + 1)
        right = min(shape[1], column + half + 1)
        mask = np.ones((bottom - top, right - left), dtype=bool)
        return cls(top, left, mask, Origin(row=row, column=column, window=window))

    @property
    def size(self) -> int:
        """Number of pixels."""
        return int(np.count_nonzero(self.mask))

    @property
    def box(self) -> tuple[slice, slice]:
        """The rows and columns of the image that the mask covers."""
        height, width = self.mask.shape
        return slice(self.row, self.row + height), slice(self.column, self.column + width)


def point_spectrum(
    cube: SpectralCube, row: int, column: int, window: int = 1, **changes: Any
) -> Spectrum:
    """The spectrum of one pixel, or the mean of the *window* around it, cut at the borders.

    *changes* are further arguments of `region_spectrum`.

    Notes
    -----
    =======  =====================================================
    cube     any unit: reflectance, radiance
    returns  float64 in the unit of the cube; wavelengths as there
    =======  =====================================================

    Examples
    --------
    >>> cube = nm.SpectralCube(np.arange(24.0).reshape(2, 3, 4), [500, 600])
    >>> nm.point_spectrum(cube, row=1, column=2).values
    array([ 6., 18.])
    >>> nm.point_spectrum(cube, row=1, column=2, window=3).upper.round(1)
    array([ 9.4, 21.4])
    """
    region = Region.of_window(row, column, cube.shape[1:], window)
    spread = STD if window > 1 else ""
    return region_spectrum(cube, region, spread, **changes)


def region_spectrum(  # noqa: PLR0913 (public, its options by name)
    cube: SpectralCube,
    region: Region,
    spread: Spread = STD,
    *,
    cube_name: str = "",
    pixel_area: float = 1.0,
    area_unit: str = "pixel",
    known: tuple[Values, Values] | None = None,
    **changes: Any,
) -> Spectrum:
    """The mean spectrum of *region*.

    Some bands may have numbers in only part of the region. Pixels without a number in such a band
    are left out and counted in `origin.excluded`. A band without any number is NaN; so is
    everything if no pixel is left.

    Parameters
    ----------
    spread
        "std" (one standard deviation from the mean), two percentiles such as (5, 95), or "" for no
        bounds.
    pixel_area, area_unit
        The area that one pixel covers.
    known
        The mean and standard deviation of the region, (B,) each, if they are known already.
    changes
        Further fields of the `Spectrum`: its name and colour.

    Raises
    ------
    SpectrumError
        If the region is not within the image.

    Notes
    -----
    =======  =====================================================
    cube     any unit: reflectance, radiance
    known    float64 in the unit of the cube
    returns  float64 in the unit of the cube; wavelengths as there
    =======  =====================================================

    Examples
    --------
    >>> cube = nm.SpectralCube(np.arange(24.0).reshape(2, 3, 4), [500, 600])
    >>> region = nm.Region.of_mask([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0]], name="corner")
    >>> leaf = nm.region_spectrum(cube, region)
    >>> leaf.values, leaf.lower.round(1)
    (array([ 2.5, 14.5]), array([ 0.4, 12.4]))
    """
    check_inside(cube, region)
    found = _averaged(cube.data, region, known)
    origin = replace(
        region.origin,
        cube=cube_name,
        pixels=found.counted.size,
        excluded=region.size - found.counted.size,
        area=region.size * pixel_area,
        area_unit=area_unit,
    )
    lower, upper = _bounds(cube.data, found, spread)
    name = changes.pop("name", "") or region_name(region)
    return Spectrum(
        cube.wavelengths,
        found.mean,
        cube.unit,
        name,
        lower=lower,
        upper=upper,
        spread=spread_name(spread),
        origin=origin,
        **changes,
    )


@dataclass(frozen=True, eq=False)
class _Average:
    """Mean and standard deviation of a region, (B,) each, and the pixels that count."""

    counted: Region
    mean: Values
    deviation: Values


def _averaged(data: NDArray[Any], region: Region, known: tuple[Values, Values] | None) -> _Average:
    mean, deviation = known or mean_and_std(pixel_blocks(data, region), len(data))
    if np.isfinite(mean).all():
        return _Average(region, mean, deviation)
    # Some value is not a number. A second pass leaves such pixels out, which is seldom needed.
    counted, has_numbers = _numbers(data, region)
    mean = np.full(len(data), np.nan)
    deviation = np.full(len(data), np.nan)
    blocks = (block[has_numbers] for block in pixel_blocks(data, counted))
    mean[has_numbers], deviation[has_numbers] = mean_and_std(blocks, int(has_numbers.sum()))
    return _Average(counted, mean, deviation)


def check_inside(cube: SpectralCube, region: Region) -> None:
    """Refuse a *region* without pixels, or with pixels outside *cube*. Raises `SpectrumError`."""
    _, height, width = cube.shape
    rows, columns = region.box
    is_within = rows.start >= 0 and columns.start >= 0
    is_within &= rows.stop <= height and columns.stop <= width
    if not is_within or not region.mask.any():
        raise SpectrumError(
            f"Expected a region within {height} rows x {width} columns, "
            f"got rows {rows.start}-{rows.stop - 1}, columns {columns.start}-{columns.stop - 1}. "
            "Draw it on the image of this cube."
        )


def region_name(region: Region) -> str:
    """The name of *region*, or the place of its pixel."""
    origin = region.origin
    if origin.row is None:
        return origin.region
    return f"row {origin.row}, column {origin.column}"


def pixel_blocks(data: NDArray[Any], region: Region) -> Iterator[Values]:
    """The pixels of *region*, (B, n) at a time."""
    step = max(1, BLOCK_PIXELS // region.mask.shape[1])
    for rows, strip in _strips(data, region):
        mask = region.mask[rows]
        for start in range(0, len(mask), step):
            part = mask[start : start + step].reshape(-1)
            block = strip[:, start : start + step].astype(np.float64).reshape(len(strip), -1)
            yield block if part.all() else np.compress(part, block, axis=1)


def mean_and_std(blocks: Iterable[Values], bands: int) -> tuple[Values, Values]:
    """Mean and standard deviation of each band over the pixels of (B, n) *blocks*.

    The blocks are overwritten. Everything is NaN if there are no pixels, or a value is not a
    number. Blocks are merged as in Chan, Golub & LeVeque, The American Statistician 37 (1983) 242,
    doi:10.2307/2683386.
    """
    count = 0
    mean = np.full(bands, np.nan)
    squares = np.zeros(bands)
    for block in blocks:
        new = block.shape[1]
        if not new:
            continue
        with np.errstate(invalid="ignore"):
            block_mean = block.mean(axis=1)
        if not np.isfinite(block_mean).all():
            return np.full(bands, np.nan), np.full(bands, np.nan)
        block -= block_mean[:, None]
        squares += np.einsum("bn,bn->b", block, block)
        if count:
            step = block_mean - mean
            squares += step**2 * (count * new / (count + new))
            mean += step * (new / (count + new))
        else:
            mean = block_mean
        count += new
    return mean, np.sqrt(squares / count) if count else mean.copy()


def _strips(data: NDArray[Any], region: Region) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Rows of the mask that have pixels, and the (B, k, w) numbers there."""
    height, width = region.mask.shape
    _, columns = region.box
    step = max(1, READ_PIXELS // width)
    for start in range(0, height, step):
        rows = slice(start, min(height, start + step))
        if region.mask[rows].any():
            image_rows = slice(region.row + rows.start, region.row + rows.stop)
            yield rows, np.asarray(data[:, image_rows, columns])


def _numbers(data: NDArray[Any], region: Region) -> tuple[Region, NDArray[np.bool_]]:
    """The pixels that count, and (B,) which bands have any number in *region*.

    A pixel counts if it is a number in all these bands.
    """
    has_numbers = np.zeros(len(data), dtype=bool)
    for rows, strip in _strips(data, region):
        has_numbers |= np.isfinite(strip[:, region.mask[rows]]).any(axis=1)
    mask = region.mask.copy()
    for rows, strip in _strips(data, region):
        mask[rows] &= np.isfinite(strip[has_numbers]).all(axis=0) & has_numbers.any()
    return replace(region, mask=mask), has_numbers


def spread_name(spread: Spread) -> str:
    """The text of `Spectrum.spread` for *spread*. Raises `SpectrumError` if it is unknown."""
    if isinstance(spread, str):
        if spread not in ("", STD):
            raise SpectrumError(
                f"Expected spread 'std', '' or two percentiles, got {spread[:30]!r}."
            )
        return spread
    low, high = spread
    if not 0 <= low < high <= 100:
        raise SpectrumError(
            f"Expected two rising percentiles within 0-100, got {low:g} and {high:g}."
        )
    return f"percentiles {low:g}-{high:g}"


def _bounds(
    data: NDArray[Any], found: _Average, spread: Spread
) -> tuple[Values, Values] | tuple[None, None]:
    """Lower and upper bound of the mean, (B,) each."""
    name = spread_name(spread)
    if not name:
        return None, None
    if isinstance(spread, str):
        return found.mean - found.deviation, found.mean + found.deviation
    bounds = np.full((2, len(found.mean)), np.nan)
    for band in np.flatnonzero(np.isfinite(found.mean)):
        values = np.asarray(data[band][found.counted.box])[found.counted.mask]
        bounds[:, band] = np.percentile(values.astype(np.float64), spread)
    return bounds[0], bounds[1]


def _empty(name: str) -> SpectrumError:
    return SpectrumError(
        f"Expected pixels of the image in the region {shown(name, 40)!r}, got none. Draw it larger."
    )
