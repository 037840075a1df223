"""Mean spectra of regions of a cube: a pixel, a window around it, a mask, a label, a polygon.

Only the bounding box of a region is read, a few rows at a time, so that a memory-mapped cube stays on its disk.
Letters: B bands, H rows, W columns; h, w of a bounding box; n pixels.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_mst.cube import SpectralCube
from napari_mst.errors import SpectrumError
from napari_mst.messages import shown
from napari_mst.spectra.spectrum import STD, Origin, Spectrum, Values

Spread = str | tuple[float, float]
READ_PIXELS = 2**18
"""Pixels that are read at a time, where reading copies (a chunked cube)."""
BLOCK_PIXELS = 2**13
"""Pixels that are averaged at a time; as float64 they stay in a processor's cache."""
ON_EDGE = 1e-9
"""Pixels from an edge at which a pixel centre lies on it."""

Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Region:
    """Some pixels of an image: where *mask* (h, w), whose first pixel is at *row*, *column*, is true.

    `origin` says what it is, and becomes the origin of its spectrum.
    """

    row: int
    column: int
    mask: Mask
    origin: Origin = field(default_factory=Origin)

    @classmethod
    def of_mask(cls, mask: ArrayLike, name: str = "") -> "Region":
        """The true pixels of an (H, W) mask. Raises `SpectrumError` if there are none."""
        whole = np.asarray(mask)
        if whole.ndim != 2:
            raise SpectrumError(f"Expected a mask of shape (rows, columns), got {whole.shape}.")
        whole = whole != 0
        rows, columns = np.flatnonzero(whole.any(axis=1)), np.flatnonzero(whole.any(axis=0))
        if not rows.size:
            raise _empty(name)
        top, left = int(rows[0]), int(columns[0])
        return cls(
            top, left, whole[top : rows[-1] + 1, left : columns[-1] + 1], Origin(region=name)
        )

    @classmethod
    def of_label(cls, labels: NDArray[np.integer[Any]], value: int, name: str = "") -> "Region":
        """The pixels of an (H, W) label image that have *value*. Raises `SpectrumError` if there are none."""
        return cls.of_mask(np.asarray(labels) == value, name or f"label {value}")

    @classmethod
    def of_polygon(cls, vertices: ArrayLike, shape: tuple[int, int], name: str = "") -> "Region":
        """The pixels of an image of *shape* (H, W) whose centres are inside a polygon or on its edge.

        *vertices* are (row, column), at least three; where the polygon crosses itself, what is enclosed twice is
        outside (even-odd rule). Raises `SpectrumError` if no pixel is inside.
        """
        corners = np.asarray(vertices, dtype=np.float64)
        if (
            corners.ndim != 2
            or corners.shape[1] != 2
            or len(corners) < 3
            or not np.isfinite(corners).all()
        ):
            raise SpectrumError(
                f"Expected 3 or more finite (row, column) vertices, got {corners.shape}."
            )
        low = np.clip(np.ceil(corners.min(axis=0) - ON_EDGE), 0, shape).astype(int)
        high = np.clip(np.floor(corners.max(axis=0) + ON_EDGE) + 1, 0, shape).astype(int)
        mask = _polygon_mask(corners - low, *np.maximum(high - low, 0))
        if not mask.any():
            raise _empty(name)
        outline = tuple((float(row), float(column)) for row, column in corners)
        return cls(int(low[0]), int(low[1]), mask, Origin(region=name, vertices=outline))

    @classmethod
    def of_window(cls, row: int, column: int, shape: tuple[int, int], window: int = 1) -> "Region":
        """The square of *window* x *window* pixels (1, 3, 5, ...) around a pixel, cut at the borders of the image.

        Raises `SpectrumError` if the pixel is outside, or *window* is not odd.
        """
        if window < 1 or window % 2 == 0:
            raise SpectrumError(f"Expected a window of 1, 3, 5, ... pixels, got {window}.")
        if not (0 <= row < shape[0] and 0 <= column < shape[1]):
            raise SpectrumError(
                f"Expected a pixel within {shape[0]} rows x {shape[1]} columns, got row {row}, column {column}."
            )
        half = window // 2
        top, left = max(0, row - half), max(0, column - half)
        sides = min(shape[0], row + half + 1) - top, min(shape[1], column + half + 1) - left
        return cls(
            top, left, np.ones(sides, dtype=bool), Origin(row=row, column=column, window=window)
        )

    @property
    def size(self) -> int:
        """How many pixels it has."""
        return int(np.count_nonzero(self.mask))


def point_spectrum(
    cube: SpectralCube, row: int, column: int, window: int = 1, **changes: Any
) -> Spectrum:
    """The spectrum of one pixel, or the mean of the *window* around it, cut at the borders; as `region_spectrum`."""
    spread = STD if window > 1 else ""
    return region_spectrum(
        cube, Region.of_window(row, column, cube.shape[1:], window), spread, **changes
    )


def region_spectrum(
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

    Pixels with a value that is not a number, in a band that has numbers elsewhere in the region, are left out and
    counted in `origin.excluded`. A band without any number is NaN; so is everything if no pixel is left.

    Parameters
    ----------
    spread
        "std" (one standard deviation from the mean), two percentiles such as (5, 95), or "" for no bounds.
    pixel_area, area_unit
        What one pixel covers.
    known
        Its mean and standard deviation, (B,) each, if they are known already.
    changes
        Further fields of the `Spectrum`: its name and colour.

    Raises
    ------
    SpectrumError
        If the region is not within the image.
    """
    check_inside(cube, region)
    mean, deviation = known or mean_and_std(pixel_blocks(cube.data, region), len(cube.data))
    counted = region
    if not np.isfinite(mean).all():
        counted, has_numbers = _numbers(cube.data, region)
        mean, deviation = (np.full(len(cube.data), np.nan) for _ in range(2))
        blocks = (block[has_numbers] for block in pixel_blocks(cube.data, counted))
        mean[has_numbers], deviation[has_numbers] = mean_and_std(blocks, int(has_numbers.sum()))
    origin = replace(
        region.origin,
        cube=cube_name,
        pixels=counted.size,
        excluded=region.size - counted.size,
        area=region.size * pixel_area,
        area_unit=area_unit,
    )
    bounds = _bounds(cube, counted, spread, mean, deviation)
    name = changes.pop("name", "") or region_name(region)
    return Spectrum(cube.wavelengths, mean, cube.unit, name, origin=origin, **bounds, **changes)


def check_inside(cube: SpectralCube, region: Region) -> None:
    """Raises `SpectrumError` if *region* has no pixels, or pixels outside the image of *cube*."""
    rows, columns = (
        start + side
        for start, side in zip((region.row, region.column), region.mask.shape, strict=True)
    )
    _, height, width = cube.shape
    if (
        min(region.row, region.column) < 0
        or rows > height
        or columns > width
        or not region.mask.any()
    ):
        raise SpectrumError(
            f"Expected a region within {height} rows x {width} columns, got rows {region.row}-{rows - 1}, "
            f"columns {region.column}-{columns - 1}. Draw it on the image of this cube."
        )


def region_name(region: Region) -> str:
    """What to call *region*: as it is called, else where its pixel is."""
    origin = region.origin
    return origin.region if origin.row is None else f"row {origin.row}, column {origin.column}"


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
    """Mean and standard deviation of each of *bands* bands over the pixels of (B, n) *blocks*, which it overwrites.

    NaN if there are none, or one of them is no number. Blocks are merged as in Chan, Golub & LeVeque, The American
    Statistician 37 (1983) 242, doi:10.2307/2683386.
    """
    count, mean, squares = 0, np.full(bands, np.nan), np.zeros(bands)
    for block in blocks:
        if not (new := block.shape[1]):
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
    columns = slice(region.column, region.column + width)
    for start in range(0, height, step := max(1, READ_PIXELS // width)):
        rows = slice(start, min(height, start + step))
        if region.mask[rows].any():
            yield (
                rows,
                np.asarray(data[:, region.row + rows.start : region.row + rows.stop, columns]),
            )


def _numbers(data: NDArray[Any], region: Region) -> tuple[Region, NDArray[np.bool_]]:
    """The pixels of *region* that are numbers in every band that has any there; and (B,) which bands those are."""
    has_numbers = np.zeros(len(data), dtype=bool)
    for rows, strip in _strips(data, region):
        has_numbers |= np.isfinite(strip[:, region.mask[rows]]).any(axis=1)
    mask = region.mask.copy()
    for rows, strip in _strips(data, region):
        mask[rows] &= np.isfinite(strip[has_numbers]).all(axis=0) & has_numbers.any()
    return replace(region, mask=mask), has_numbers


def spread_name(spread: Spread) -> str:
    """What `Spectrum.spread` says of *spread*. Raises `SpectrumError` if it is none."""
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
    cube: SpectralCube, region: Region, spread: Spread, mean: Values, deviation: Values
) -> dict[str, Any]:
    """The fields of a `Spectrum` that say how far its values spread."""
    name = spread_name(spread)
    if isinstance(spread, str):
        return (
            {"lower": mean - deviation, "upper": mean + deviation, "spread": name} if name else {}
        )
    bounds = np.full((2, len(mean)), np.nan)
    box = tuple(
        slice(a, a + n) for a, n in zip((region.row, region.column), region.mask.shape, strict=True)
    )
    for band in np.flatnonzero(np.isfinite(mean)):
        bounds[:, band] = np.percentile(
            np.asarray(cube.data[band][box])[region.mask].astype(np.float64), spread
        )
    return {"lower": bounds[0], "upper": bounds[1], "spread": name}


def _polygon_mask(corners: Values, height: int, width: int) -> Mask:
    """Pixels of a (height, width) box whose centres are inside the polygon, by the even-odd rule, or on its edge."""
    crossings = np.zeros((height, width + 1), dtype=bool)
    edge = np.zeros((height, width), dtype=bool)
    for start, end in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        (row, column), (last, end_column) = sorted((tuple(start), tuple(end)))
        rows = np.arange(
            max(0, np.ceil(row - ON_EDGE)), min(height - 1, np.floor(last + ON_EDGE)) + 1, dtype=int
        )
        if last - row <= ON_EDGE:
            left, right = (
                max(0, int(np.ceil(column - ON_EDGE))),
                int(np.floor(end_column + ON_EDGE)) + 1,
            )
            edge[rows, left : max(left, right)] = True
            continue
        at = column + (rows - row) * ((end_column - column) / (last - row))
        nearest = np.rint(at)
        on = (np.abs(at - nearest) <= ON_EDGE) & (nearest >= 0) & (nearest < width)
        edge[rows[on], nearest[on].astype(int)] = True
        crossed = (rows >= row) & (rows < last)
        crossings[rows[crossed], np.clip(np.ceil(at[crossed]), 0, width).astype(int)] ^= True
    return np.logical_xor.accumulate(crossings[:, :width], axis=1) | edge


def _empty(name: str) -> SpectrumError:
    return SpectrumError(
        f"Expected pixels of the image in the region {shown(name, 40)!r}, got none. Draw it larger."
    )
