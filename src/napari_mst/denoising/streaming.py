"""Non-local means of an image of any size: a few rows at a time, on all cores.

Letters: C channels, K values, H rows, W columns.
"""

import logging
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec

import numpy as np

from napari_mst.base.arrays import Array, Doubles, Mask
from napari_mst.base.errors import DenoisingError
from napari_mst.base.progress import Progress
from napari_mst.denoising.numpy_kernel import ImageBlock, Tile, attend
from napari_mst.engine.kernels import fault_of

ReadImageRows = Callable[[int, int], Array]
"""Start and stop -> these rows of an image, (C, stop - start, W)."""

Attend = Callable[[Tile], Doubles]
"""`numpy_kernel.attend` of a block, or the same compiled."""

logger = logging.getLogger("napari_mst")

_TILE_ROWS = 32
_TILE_COLUMNS = 128  # whole vectors

# Upper limit of the pixels of a tile times the neighbours of a pixel: a tile then takes 0.1 s.
_TILE_WORK = 8_000_000

_BAND_PIXELS = 1 << 16
"""Pixels whose rows are in memory at a time, besides those around them that they look at."""


@dataclass(frozen=True)
class Filter:
    """The parameters of a non-local means filter.

    Attributes
    ----------
    h
        The difference between two patches at which a weight has fallen to 1/e: the root of the mean
        square over patch and channels.
    patch
        The pixels along each side of a patch; odd. They weigh by a Gaussian of (patch - 1) / 4.
    distance
        The pixels to each side that a pixel looks at.
    sigma
        The standard deviation of the noise; 2 sigma^2 is subtracted from each squared difference.

    Raises
    ------
    DenoisingError
        If a number is impossible.
    """

    h: float
    patch: int = 5
    distance: int = 9
    sigma: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.h < np.inf:
            fault = f"h above 0, got {self.h:g}. Give 0.4 to 1 times the noise."
        elif not 0 <= self.sigma < np.inf:
            fault = f"sigma of 0 or more, got {self.sigma:g}. Give 0 for no noise."
        elif self.patch < 1 or self.patch % 2 == 0:
            fault = f"an odd patch of 1 or more, got {self.patch}. Give 3 or 5."
        else:
            return
        raise DenoisingError(f"Expected {fault}")

    @property
    def taps(self) -> Doubles:
        """The weights of a patch along one axis (patch,), which add up to 1."""
        if self.patch == 1:
            return np.ones(1)
        place = np.arange(self.patch) - self.border
        deviation = (self.patch - 1) / 4
        weights = np.exp(-(place**2) / (2 * deviation**2))
        return weights / weights.sum()

    @property
    def border(self) -> int:
        """The pixels of a patch to each side of its middle."""
        return self.patch // 2

    @property
    def halo(self) -> int:
        """The pixels to each side of a part of an image that decide its result."""
        return self.distance + self.border


def non_local_rows(
    image: ReadImageRows, values: ReadImageRows, is_known: Mask, using: Filter, progress: Progress
) -> Iterator[tuple[slice, Doubles]]:
    """The means (K, rows, W) of *values* by the patches of *image*, band of rows by band of rows.

    Both are read row by row. Only pixels that are known, (H, W), count; elsewhere means are NaN.
    The means have the same bits however the image is cut.

    Raises
    ------
    Cancelled
        Soon after *progress* was cancelled.
    """
    prepared = _fastest()
    height, width = is_known.shape
    step = _band_rows(width)
    with ThreadPoolExecutor(os.cpu_count(), "napari-mst-denoising") as pool:
        try:
            for top in range(0, height, step):
                rows = range(top, min(top + step, height))
                block = _block(image, values, is_known, using, rows)
                part = progress.part(top / height, rows.stop / height)
                sums = _band(prepared(block), _tiles(len(rows), width, using.distance), pool, part)
                band = slice(top, rows.stop)
                yield band, sums[:-1] / np.where(is_known[band], sums[-1], np.nan)
        finally:
            pool.shutdown(cancel_futures=True)


def averaged(
    image: ReadImageRows, values: Array, is_known: Mask, using: Filter, progress: Progress
) -> Array:
    """The means (K, H, W) of *values* by the patches of *image*, of the type of the values."""
    means = np.empty_like(values)

    def read(start: int, stop: int) -> Array:
        return values[:, start:stop]

    for rows, band in non_local_rows(image, read, is_known, using, progress):
        means[:, rows] = band
    return means


def working_bytes(width: int, channels: int, values: int, using: Filter) -> int:
    """About the bytes that `non_local_rows` works with, for an image of *width* columns."""
    rows = _band_rows(width) + 2 * using.halo
    # Both are read and padded in float64, and then of 32 bits; the means are made twice.
    return 8 * rows * (width + 2 * using.halo) * (3 * channels + 4 * (values + 1))


def _band_rows(width: int) -> int:
    """Rows of a band: whole tiles, and enough of them for several threads."""
    return max(_BAND_PIXELS // (width * _TILE_ROWS), 1) * _TILE_ROWS


def _band(
    attend: Attend, tiles: list[Tile], pool: ThreadPoolExecutor, progress: Progress
) -> Doubles:
    """The sums of a band, computed in its *tiles*, which are listed row by row."""

    def compute(tile: Tile) -> Doubles:
        progress.check()
        return attend(tile)

    parts = []
    for sums in pool.map(compute, tiles):
        parts.append(sums)
        progress.reach(len(parts) / len(tiles))
    columns = sum(tile.top == 0 for tile in tiles)
    rows = [np.concatenate(parts[i : i + columns], axis=2) for i in range(0, len(parts), columns)]
    return np.concatenate(rows, axis=1)


def _block(
    image: ReadImageRows, values: ReadImageRows, is_known: Mask, using: Filter, rows: range
) -> ImageBlock:
    """Some *rows* with the surrounding rows that they compare with."""
    border, distance, shape = using.border, using.distance, is_known.shape
    first = max(rows.start - distance, 0)
    last = min(rows.stop + distance, shape[0])
    row_of, column_of = (np.pad(np.arange(side), border, mode="reflect") for side in shape)
    row_of = row_of[first : last + 2 * border]
    start = int(row_of.min())
    pixels = image(start, int(row_of.max()) + 1)
    reflected = pixels.take(row_of - start, axis=1).take(column_of, axis=2)
    known = is_known[None, first:last]
    # The last sum adds the weights of the known pixels.
    numbers = np.concatenate([np.where(known, values(first, last), 0.0), known])
    beyond = first - rows.start + distance, rows.stop + distance - last
    padding = (0, 0), beyond, (distance, distance)
    channels = len(reflected)
    return ImageBlock(
        image=np.pad(reflected.astype(np.float64), padding),
        values=np.pad(numbers.astype(np.float64), padding),
        taps=using.taps,
        distance=distance,
        scale=-1 / (channels * using.h**2),
        free=2 * using.sigma**2 * channels,
    )


def _tiles(height: int, width: int, distance: int) -> list[Tile]:
    """Tiles that cover a band of *height* rows, the smaller the further each pixel looks."""
    looked_at = (2 * distance + 1) ** 2
    pixels = max(_TILE_WORK // looked_at, 1)
    columns = min(_TILE_COLUMNS, pixels)
    rows = min(_TILE_ROWS, max(pixels // columns, 1))
    return [
        Tile(row, min(row + rows, height), column, min(column + columns, width))
        for row in range(0, height, rows)
        for column in range(0, width, columns)
    ]


@cache
def _fastest() -> Callable[[ImageBlock], Attend]:
    """The fastest way to attend in a block."""
    if find_spec("numba") is not None:
        from napari_mst.denoising.kernel import CompiledTile, largest_error

        fault = fault_of(largest_error)
        if not fault:
            return lambda block: CompiledTile(block).attend
        logger.info("Photos are denoised without the compiled kernel (%s), slower.", fault)
    return lambda block: partial(attend, block)
