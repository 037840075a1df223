"""Lazy arrays: the numbers of a cube, read from a file or computed on demand.

Letters: B bands, H rows, W columns; b, h, w of a part.
"""

import mmap
import operator
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import prod
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from napari_mst.base.arrays import Array
from napari_mst.base.errors import OutOfMemory
from napari_mst.base.memory import check_room, free_host_memory

KEPT_BYTES = 2**29
"""Bytes of decoded tiles kept in memory per cube, unless the caller sets another limit."""

_SQUARES = 3
"""Number of sample squares along each side of an image."""

BLOCK = 2**18
"""Count of numbers changed at a time: a few megabytes, which fit into a processor's cache."""

Numbers = Any
"""(B, H, W) numbers: an array, or a `Lazy` array with the same shape, type and indexing."""

Read = Callable[..., Array]
"""Returns the numbers (b, h, w) of three rising, non-empty ranges of bands, rows and columns."""


def mapped(shape: tuple[int, ...], dtype: DTypeLike) -> Array:
    """An array in a temporary file that is deleted with its last user.

    The space is allocated before it is mapped, so that a full disk raises `OutOfMemory` here rather
    than killing the process later. (macOS allocates nothing ahead; there the plan alone has checked
    the space.)
    """
    length = prod(shape) * np.dtype(dtype).itemsize
    try:
        # The file has no name, and once mapped it lives as long as its last user.
        with tempfile.TemporaryFile(prefix="napari-mst-") as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, length)
            else:
                file.truncate(length)
            return np.frombuffer(mmap.mmap(file.fileno(), length), dtype).reshape(shape)
    except OSError as error:
        needed = f"{length / 1e9:.1f} GB"
        raise OutOfMemory(
            f"Expected {needed} of disk in {tempfile.gettempdir()}, got: {error.strerror}. "
            "Free some."
        ) from error


class Lazy:
    """A lazy array: the numbers (B, H, W) of a cube that are not in memory.

    Indexing as in NumPy reads the numbers immediately and returns an array. `part`, `mapped` and
    `transpose` read nothing. `np.asarray` reads all numbers, and raises `OutOfMemory` if they do
    not fit into the free memory. A lazy array is immutable, so a deep copy is the same object; a
    pickle holds the numbers. *sides* (b, h, w) is the shape of the smallest part that can be read.

    Attributes
    ----------
    tiles
        The cached tiles, see `cached`.
    coarse
        A copy (B, h, w) averaged down over the image, in memory, for viewers; None without one.
    base
        The lazy array that this one transposes; None for any other.
    """

    ndim = 3
    base: "Lazy | None" = None

    def __init__(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: DTypeLike,
        read: Read,
        sides: tuple[int, ...] = (1, 1, 1),
    ) -> None:
        self.name = name
        self.sides = sides
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self.size = prod(shape)
        self.nbytes = self.size * self.dtype.itemsize
        self.tiles: dict[ChunkPlace, Array] = {}
        self.coarse: Array | None = None
        self._read = read

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        items = key if isinstance(key, tuple) else (key,)
        if Ellipsis in [item for item in items if not isinstance(item, np.ndarray)]:
            at = items.index(Ellipsis)
            rest = (slice(None),) * (4 - len(items))
            items = (*items[:at], *rest, *items[at + 1 :])
        items += (slice(None),) * (3 - len(items))
        if len(items) > 3 or any(np.ndim(item) > 1 for item in items):
            return np.asarray(self)[key]
        chosen, ranges = zip(*map(_indexed, items, self.shape), strict=True)
        # Scattered pixels are read one by one, since their box may be the whole image.
        if isinstance(items[0], slice) and np.ndim(items[1]) == np.ndim(items[2]) == 1:
            places = zip(items[1], items[2], strict=True)
            return np.stack([self[items[0], row, column] for row, column in places], -1)
        return self._of(*ranges)[chosen]

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        check_room(self.name, self.size * np.dtype(dtype or self.dtype).itemsize)
        return self._of(*map(range, self.shape)).astype(dtype or self.dtype, copy=False)

    def __deepcopy__(self, memo: object) -> "Lazy":
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return np.asarray, (np.asarray(self),)

    def part(self, *cuts: slice | list[int]) -> "Lazy":
        """A part of the bands, rows and columns; nothing is read.

        Slices must rise. One of the axes may be a list of indices in any order.
        """
        pairs = zip(self.shape, cuts, strict=False)
        within = [range(size)[cut] if isinstance(cut, slice) else cut for size, cut in pairs]
        within += map(range, self.shape[len(within) :])

        def read(*ranges: range) -> Array:
            wanted = (
                outer[at.start : at.stop : at.step]
                for outer, at in zip(within, ranges, strict=True)
            )
            chosen, box = zip(*map(_indexed, wanted, self.shape), strict=True)
            return self._of(*box)[chosen]

        return Lazy(self.name, tuple(map(len, within)), self.dtype, read, self.sides)

    def mapped(self, change: Callable[[Array, range], Array], dtype: DTypeLike) -> Numbers:
        """The numbers after *change*, which takes a part (b, h, w) and the range of its bands."""

        def read(bands: range, rows: range, columns: range) -> Array:
            numbers = np.empty((len(bands), len(rows), len(columns)), dtype)
            step = max(1, BLOCK // (len(bands) * len(columns)))
            for top in range(0, len(rows), step):
                block = slice(top, top + step)
                numbers[:, block] = change(self._of(bands, rows[block], columns), bands)
            return numbers

        return Lazy(self.name, self.shape, dtype, read, self.sides)

    def transpose(self, axes: tuple[int, ...]) -> "Lazy":
        """The numbers with their *axes* in another order. NumPy's functions call this method."""

        def read(*ranges: range) -> Array:
            return self._of(*(ranges[axes.index(at)] for at in range(3))).transpose(axes)

        shape, sides = (tuple(each[at] for at in axes) for each in (self.shape, self.sides))
        turned = Lazy(self.name, shape, self.dtype, read, sides)
        turned.base = self
        return turned

    def _of(self, *ranges: range) -> Array:
        sizes = tuple(map(len, ranges))
        return self._read(*ranges) if all(sizes) else np.empty(sizes, self.dtype)


def sample_of(data: Numbers, pixels: float) -> list[tuple[slice, slice]]:
    """Rows and columns of about *pixels* pixels of *data* (B, H, W), spread over the image."""
    _, height, width = data.shape
    if not isinstance(data, Lazy) or data.sides[1] == 1:
        every = slice(None, None, max(1, int(np.sqrt(height * width / pixels))))
        return [(every, every)]
    # Each single pixel would cost a whole tile, and a few squares represent the image as well.
    shares = (np.arange(_SQUARES) + 0.5) / _SQUARES
    tops, lefts = ((shares * size).astype(int).tolist() for size in (height, width))
    return [(slice(top, top + 8), slice(left, left + 8)) for top, left in product(tops, lefts)]


def changed(data: Numbers, change: Callable[[Array, range], Array], dtype: DTypeLike) -> Numbers:
    """*data* (B, H, W) after *change*, see `Lazy.mapped`: in memory or lazy, like *data*.

    Raises `OutOfMemory` if the result does not fit into memory.
    """
    numbers = lazy_of(data).mapped(change, dtype)
    return numbers if isinstance(data, Lazy) else np.asarray(numbers)


def lazy_of(data: Numbers) -> Lazy:
    """*data* (B, H, W), an array or lazy already, as a `Lazy` array."""
    if isinstance(data, Lazy):
        return data

    def read(*ranges: range) -> Array:
        return np.asarray(data[tuple(slice(at.start, at.stop, at.step) for at in ranges)])

    return Lazy("the cube", data.shape, data.dtype, read)


def planes_of(data: Numbers, bands: Sequence[int], *cuts: slice) -> Array:
    """The numbers of some *bands* of *data* (B, H, W); neighbouring bands are read together."""
    first, last = min(bands), max(bands)
    if last - first < len(bands):
        near = np.asarray(data[(slice(first, last + 1), *cuts)])
        places = np.subtract(bands, first)
        return near if np.array_equal(places, np.arange(len(near))) else near[places]
    if isinstance(data, np.ndarray) and [*bands] == [first, last]:
        # A view, where a stack would be a copy.
        return data[(slice(first, last + 1, last - first), *cuts)]
    return np.stack([np.asarray(data[(band, *cuts)]) for band in bands])


def part_of(data: Any, *cuts: slice | list[int]) -> Any:
    """A part of the bands, rows and columns of *data* (B, H, W): in memory or lazy, like *data*."""
    return data.part(*cuts) if isinstance(data, Lazy) else data[cuts]


def coarse_of(data: Any) -> Any:
    """*data* (B, H, W), or its averaged copy if one is available."""
    return data.coarse if isinstance(data, Lazy) and data.coarse is not None else data


class Level(Lazy):
    """One level of a viewer's pyramid: every *step*-th row and column of *numbers*, at once.

    The numbers come from `Lazy.coarse` and, at a *step* of 1, from the cached tiles. Indexing by
    slices alone gives another lazy array.

    Attributes
    ----------
    on_missing
        Called with the tiles that were drawn from coarse numbers.
    """

    coarse: Array

    def __init__(self, numbers: Lazy, coarse: Array, step: int) -> None:
        bands, height, width = numbers.shape
        shape = (bands, -(-height // step), -(-width // step))
        super().__init__(numbers.name, shape, numbers.dtype, self._drawn)
        self.numbers, self.coarse, self.step = numbers, coarse, step
        self.on_missing: Callable[[Sequence[ChunkPlace]], object] = len

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple) and all(isinstance(item, slice) for item in key):
            return self.part(*key)
        return super().__getitem__(key)

    def _drawn(self, bands: range, rows: range, columns: range) -> Array:
        coarse = self.coarse
        pairs = zip((rows, columns), self.shape[1:], coarse.shape[1:], strict=True)
        down, across = (np.asarray(at) * small // size for at, size, small in pairs)
        drawn: Array = coarse[bands.start : bands.stop : bands.step, down[:, None], across]
        if self.step > 1:
            return drawn
        missing = list[ChunkPlace]()
        _, height, width = self.numbers.sides
        for down_cut, across_cut in product(cuts(rows, height), cuts(columns, width)):
            place = (0, down_cut[0], across_cut[0])
            tile = self.numbers.tiles.get(place)
            if tile is None:
                missing.append(place)
            else:
                part = tile[bands.start : bands.stop : bands.step]
                drawn[:, down_cut[1], across_cut[1]] = part[:, down_cut[2], across_cut[2]]
        self.on_missing(missing)
        return drawn


def levels_of(numbers: Lazy, coarse: Array) -> list[Any]:
    """The pyramid of *numbers* and *coarse* for a viewer, finest level first."""
    levels: list[Any] = [Level(numbers, coarse, 1)]
    while levels[-1].shape[1] > 2 * coarse.shape[1]:
        levels.append(Level(numbers, coarse, 2 * levels[-1].step))
    return [*levels, coarse]


def _indexed(item: Any, size: int) -> tuple[Any, range]:
    """The range that *item* needs of an axis of *size*, after the index of *item* within it."""
    if isinstance(item, slice | range):
        at = range(size)[item] if isinstance(item, slice) else item
        return (slice(None), at) if at.step > 0 else (slice(None, None, -1), at[::-1])
    if np.ndim(item) == 0:
        index = range(size)[operator.index(item)]  # raises IndexError
        return 0, range(index, index + 1)
    indices = np.arange(size)[np.asarray(item) if len(item) else []]
    if not indices.size:
        return indices, range(0)
    low = int(indices.min())
    return indices - low, range(low, int(indices.max()) + 1)


# ------------------------------------------------------------------------------------- in tiles


ChunkPlace = tuple[int, ...]
"""Index of a tile along each axis."""


def cached(numbers: Lazy, sides: Sequence[int], fewest: int = 1, kept: int | None = None) -> Lazy:
    """A lazy array that reads *numbers* in tiles of *sides* (b, h, w), and caches recent tiles.

    The cache holds *kept* bytes, by default `KEPT_BYTES`, and at least a row of tiles. Missing
    tiles are read together; threads wait for each other. A part of fewer than *fewest* pixels that
    is not cached is read without its tiles.
    """
    sides = tuple(map(min, sides, numbers.shape))
    tile_bytes = prod(sides) * numbers.dtype.itemsize
    across = -(-numbers.shape[2] // sides[2])
    budget = max(1, (KEPT_BYTES if kept is None else kept) // tile_bytes)
    limit = free_host_memory() // 4 // tile_bytes
    tiles: dict[ChunkPlace, Array] = {}
    lock = Lock()

    def known(places: Sequence[ChunkPlace]) -> dict[ChunkPlace, Array]:
        looked_up = ((place, tiles.get(place)) for place in places)
        return {place: tile for place, tile in looked_up if tile is not None}

    def read(*ranges: range) -> Array:
        part = np.empty(tuple(map(len, ranges)), numbers.dtype)
        axes = [list(cuts(*axis)) for axis in zip(ranges, sides, strict=True)]
        is_small = len(ranges[1]) * len(ranges[2]) < fewest
        needed = set(product(*([cut[0] for cut in axis] for axis in axes)))
        if is_small and not tiles.keys() >= needed:
            return numbers._read(*ranges)
        # Reading an image in strips visits all tiles of a row repeatedly.
        most = max(budget, min(len(axes[0]) * across, limit))
        # A few tiles at a time, so that a large part is held in memory only once.
        step = max(1, most // (4 * len(axes[0])))
        for row, left in product(axes[1], range(0, len(axes[2]), step)):
            pieces = list(product(axes[0], [row], axes[2][left : left + step]))
            places = [tuple(cut[0] for cut in piece) for piece in pieces]
            found = known(places)
            if len(found) < len(places):
                with lock:
                    # Another thread may have read the tiles meanwhile.
                    found |= known(places)
                    missing = [place for place in places if place not in found]
                    _fetch(missing, numbers, sides, found)
            for place, piece in zip(places, pieces, strict=True):
                _, there, here = zip(*piece, strict=True)
                part[there] = found[place][here]
                # The most recently used tiles go last.
                tiles.pop(place, None)
                tiles[place] = found[place]
            for place in list(tiles)[:-most]:
                tiles.pop(place, None)
        return part

    lazy = Lazy(numbers.name, numbers.shape, numbers.dtype, read, sides)
    lazy.tiles = tiles
    return lazy


def _fetch(
    missing: list[ChunkPlace], numbers: Lazy, sides: Sequence[int], tiles: dict[ChunkPlace, Array]
) -> None:
    """Read the *missing* tiles of *numbers* into *tiles*."""
    if not missing:
        return
    low, high = np.min(missing, axis=0).tolist(), np.max(missing, axis=0).tolist()
    # Tiles are read as one box if more than half of the box is missing, else one by one.
    if 2 * len(missing) <= prod(b - a + 1 for a, b in zip(low, high, strict=True)):
        for place in missing:
            _fetch([place], numbers, sides, tiles)
        return
    ends = zip(low, high, sides, numbers.shape, strict=True)
    box = [range(a * side, min(b * side + side, size)) for a, b, side, size in ends]
    part = numbers._read(*box)
    for place in missing:
        steps = zip(place, low, sides, strict=True)
        cut = (slice((at - a) * side, (at - a + 1) * side) for at, a, side in steps)
        tiles[place] = part[*cut].copy()


def cuts(wanted: range, side: int) -> Iterator[tuple[int, slice, slice]]:
    """Tiles along an axis that cover *wanted*: index, place in *wanted*, place in the tile."""
    for tile in range(wanted.start // side, wanted[-1] // side + 1):
        first, last = (
            max(0, -(-(at * side - wanted.start) // wanted.step)) for at in (tile, tile + 1)
        )
        inside = wanted[first:last]
        if inside:
            start = inside.start - tile * side
            here = slice(start, inside[-1] - tile * side + 1, wanted.step)
            yield tile, slice(first, first + len(inside)), here
