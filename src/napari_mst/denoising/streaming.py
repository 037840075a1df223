"""Non-local means of an image of any size: a few rows at a time, on all cores.

Letters: C channels, K values, H rows, W columns.
"""

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec

import numpy as np

from napari_mst.arrays import Array, Doubles, Mask
from napari_mst.denoising import blocks
from napari_mst.denoising.blocks import Block, Tile
from napari_mst.errors import DenoisingError
from napari_mst.watch import Watch

ReadRows = Callable[[int, int], Array]
"""Start and stop -> these rows of an image, (C, stop - start, W)."""

Attend = Callable[[Block, Tile, Doubles], None]
"""`blocks.attend`, or the same compiled."""

_TILE_ROWS = 32
_TILE_COLUMNS = 128

# Pixels of a tile times the pixels that each looks at, at most: a tile then takes 0.1 s.
_TILE_WORK = 8_000_000

_BAND_PIXELS = 1 << 16
"""Pixels whose rows are in memory at a time, besides those around them that they look at."""

_PATIENCE = 0.1
"""Seconds between two questions whether the user has cancelled."""


@dataclass(frozen=True)
class Filter:
    """The numbers of a non-local means filter.

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
        return np.asarray(weights / weights.sum())

    @property
    def border(self) -> int:
        """The pixels of a patch to each side of its middle."""
        return self.patch // 2

    @property
    def halo(self) -> int:
        """The pixels to each side of a part of an image that decide its result."""
        return self.distance + self.border


def non_local_rows(
    image: ReadRows, values: ReadRows, shape: tuple[int, int], using: Filter, watch: Watch
) -> Iterator[tuple[slice, Doubles]]:
    """The means (K, rows, W) of *values* by the patches of *image*, band of rows by band of rows.

    Both are read row by row, and have the *shape* (H, W). The means have the same bits however the
    image is cut, and with numba or without.

    Raises
    ------
    Cancelled
        Soon after *watch* says so.
    """
    attend = _ready(watch)
    height, width = shape
    step = _band_rows(width)
    with ThreadPoolExecutor(os.cpu_count(), "napari-mst-denoising") as pool:
        try:
            for top in range(0, height, step):
                bottom = min(top + step, height)
                first = max(top - using.distance, 0)
                read = range(first, min(bottom + using.distance, height))
                block = _block(image, values, shape, using, read)
                work = partial(attend, block), pool, watch.part(top / height, bottom / height)
                yield slice(top, bottom), _band(block, range(top - first, bottom - first), *work)
        finally:
            pool.shutdown(cancel_futures=True)


def averaged(
    image: ReadRows,
    values: Array,
    is_known: Mask,
    using: Filter,
    watch: Watch,
) -> Array:
    """The means (K, H, W) of *values* by the patches of *image*, of the type of the values.

    They are NaN where *is_known* is False.
    """

    def weighed(start: int, stop: int) -> Doubles:
        part = is_known[start:stop]
        planes = np.where(part, values[:, start:stop], 0.0)
        # The mean of the last plane is the share of the weights that known pixels have.
        return np.concatenate([planes, part[None]]).astype(np.float64)

    means = np.empty_like(values)
    height, width = is_known.shape
    for rows, sums in non_local_rows(image, weighed, (height, width), using, watch):
        means[:, rows] = sums[:-1] / np.where(is_known[rows], sums[-1], np.nan)
    return means


def working_bytes(width: int, channels: int, values: int, using: Filter) -> int:
    """About the bytes that `non_local_rows` works with, for an image of *width* columns."""
    rows = _band_rows(width) + 2 * using.halo
    # The image is read, turned into float64 and padded; the values are read, and their means made.
    numbers = 3 * channels + 3 * values
    return 8 * rows * (width + 2 * using.border) * numbers


def _band_rows(width: int) -> int:
    """Rows of a band: whole tiles, and enough of them for several threads."""
    return max(_BAND_PIXELS // (width * _TILE_ROWS), 1) * _TILE_ROWS


def _band(
    block: Block,
    rows: range,
    attend: Callable[[Tile, Doubles], None],
    pool: ThreadPoolExecutor,
    watch: Watch,
) -> Doubles:
    """The means of some *rows* of *block*."""
    count, _, width = block.values.shape
    means = np.empty((count, len(rows), width))
    tiles = list(_tiles(rows.start, rows.stop, width, block.distance))

    def compute(tile: Tile) -> None:
        watch.check()
        sums = np.empty((count, tile.bottom - tile.top, tile.right - tile.left))
        attend(tile, sums)
        inside = slice(tile.top - rows.start, tile.bottom - rows.start)
        means[:, inside, tile.left : tile.right] = sums

    for done, _ in enumerate(pool.map(compute, tiles), start=1):
        watch.reach(done / len(tiles))
    return means


def _block(
    image: ReadRows, values: ReadRows, shape: tuple[int, int], using: Filter, rows: range
) -> Block:
    """Some *rows* with the border that their patches need."""
    border = using.border
    row_of, column_of = (np.pad(np.arange(side), border, mode="reflect") for side in shape)
    row_of = row_of[rows.start : rows.stop + 2 * border]
    start = int(row_of.min())
    pixels = image(start, int(row_of.max()) + 1)
    padded = pixels.take(row_of - start, axis=1).take(column_of, axis=2)
    channels = len(padded)
    return Block(
        padded=np.ascontiguousarray(padded, dtype=np.float64),
        values=np.ascontiguousarray(values(rows.start, rows.stop), dtype=np.float64),
        taps=using.taps,
        distance=using.distance,
        scale=-1 / (channels * using.h**2),
        free=2 * using.sigma**2 * channels,
    )


def _tiles(top: int, bottom: int, width: int, distance: int) -> Iterator[Tile]:
    """Tiles that cover rows *top* to *bottom*, the smaller the further each pixel looks."""
    looked_at = min((2 * distance + 1) ** 2, (bottom + distance) * width)
    pixels = max(_TILE_WORK // looked_at, 1)
    columns = min(_TILE_COLUMNS, pixels)
    rows = min(_TILE_ROWS, max(pixels // columns, 1))
    for row in range(top, bottom, rows):
        for column in range(0, width, columns):
            yield Tile(row, min(row + rows, bottom), column, min(column + columns, width))


def _ready(watch: Watch) -> Attend:
    """The fastest way to attend; where it must be compiled first, a cancel does not wait for it."""
    if watch.is_cancelled is None or find_spec("numba") is None:
        return _fastest()
    # A daemon, since the compiler cannot be stopped and no program that ends should wait for it.
    compiler = threading.Thread(target=_fastest, daemon=True)
    compiler.start()
    while compiler.is_alive():
        compiler.join(_PATIENCE)
        watch.check()
    return _fastest()


_compiling = threading.Lock()


def _fastest() -> Attend:
    with _compiling:
        return _compiled() if find_spec("numba") else blocks.attend


@cache
def _compiled() -> Attend:
    """The kernel, compiled, which takes some seconds once on a machine."""
    from napari_mst.denoising.kernel import attend

    block = Block(np.zeros((1, 1, 1)), np.zeros((1, 1, 1)), np.ones(1), 0, -1.0, 0.0)
    attend(block, Tile(0, 1, 0, 1), np.empty((1, 1, 1)))
    return attend
