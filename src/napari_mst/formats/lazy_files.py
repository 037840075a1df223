"""Lazy arrays whose numbers stay in their file: flat, or in compressed chunks.

Reading a memory map of a file that another program truncates kills the process. The arrays here
raise `CubeFileError` instead, and also once the file is written to. A file replaced by a save keeps
its contents here. Letters: B bands, H rows, W columns.
"""

import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import product
from math import prod
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from napari_mst.base.arrays import Array, DType
from napari_mst.base.errors import complete, mismatch
from napari_mst.base.memory import check_room
from napari_mst.cube.lazy import KEPT_BYTES, Lazy, cached, cuts

SKIPPED_BYTES = 2**15
"""Reading this many unneeded bytes takes about as long as another system call."""


class _OpenFile:
    """The file at *path*, read piece by piece while it stays unchanged."""

    def __init__(self, path: Path) -> None:
        self._name = path.name
        self._file = path.open("rb", buffering=0)
        self._lock = Lock()
        self._opened = os.fstat(self._file.fileno())
        weakref.finalize(self, self._file.close)

    @contextmanager
    def checked(self) -> Iterator[None]:
        """Refuse numbers that were read in the block if the file has changed or is damaged."""
        try:
            with complete(self._name, "file"):
                yield
        finally:
            if self._is_changed():
                expected, got = "the numbers that were opened", "a file that was written to since"
                raise mismatch(self._name, expected, got, "Open it again.")

    def fill(self, place: int, flat: Array) -> Array:
        """The array *flat*, filled with the bytes from *place* on, as far as the file goes."""
        rest = memoryview(flat.view(np.uint8))  # type: ignore[arg-type] # NumPy's own stubs
        while rest and (done := self._read(place, rest)):
            place, rest = place + done, rest[done:]
        return flat

    def _read(self, place: int, into: memoryview) -> int:
        if hasattr(os, "preadv"):
            return os.preadv(self._file.fileno(), [into], place)
        with self._lock:  # Windows
            self._file.seek(place)
            return self._file.readinto(into)

    def _is_changed(self) -> bool:
        """True if the contents may have changed, even if their time was reset."""
        before, now = self._opened, os.fstat(self._file.fileno())
        if (now.st_size, now.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
            return True
        names = "st_nlink", "st_mode", "st_uid"
        if any(getattr(now, name) != getattr(before, name) for name in names):
            # Replacing a file or changing its owner changes `st_ctime_ns`, but not the contents.
            self._opened = now
        return now.st_ctime_ns != self._opened.st_ctime_ns


def in_file(data: "np.memmap[Any, DType]") -> Lazy:
    """The numbers (B, H, W) of a memory map as a `Lazy` array in native byte order.

    Parameters
    ----------
    data
        The map of a whole array, perhaps with its axes reordered.
    """
    order = tuple(int(at) for at in np.argsort([-step for step in data.strides], kind="stable"))
    shape = tuple(data.shape[at] for at in order)
    path = Path(str(data.filename))
    file, offset, dtype = _OpenFile(path), data.offset, data.dtype
    _, lines, length = shape

    def run(start: int, flat: Array) -> Array:
        return file.fill(offset + start * dtype.itemsize, flat)

    def read(outer: range, middle: range, inner: range) -> Array:
        numbers = np.empty((len(outer), len(middle), len(inner)), dtype)
        span = range(middle.start, middle[-1] + 1)
        skipped = (len(span) * length - len(middle) * len(inner) * inner.step) * dtype.itemsize
        reach = inner[-1] + 1 - inner.start
        with file.checked():
            for at, block in zip(outer, numbers, strict=True):
                first = at * lines
                # A single row is one call either way.
                if skipped <= (len(middle) - 1) * SKIPPED_BYTES:
                    flat = np.empty(len(span) * length, dtype)
                    run((first + span.start) * length, flat)
                    rows = flat.reshape(-1, length)[:: middle.step]
                    block[...] = rows[:, inner.start : inner.stop : inner.step]
                    continue
                for line, row in zip(middle, block, strict=True):
                    start = (first + line) * length + inner.start
                    if inner.step == 1:
                        run(start, row)
                    else:
                        row[...] = run(start, np.empty(reach, dtype))[:: inner.step]
        return numbers.astype(dtype.newbyteorder("="), copy=False)

    lazy = Lazy(path.name, shape, dtype.newbyteorder("="), read, (1, 1, shape[2]))
    lazy = lazy.transpose(tuple(order.index(at) for at in range(3)))
    return with_neighbours(lazy)


def in_hdf5(path: Path, name: str) -> Lazy:
    """A lazy array for a chunked array of an HDF5 file; recently used chunks stay in memory.

    The library crashes on some damaged files, so another process must have gone through all
    structures of this file before.
    """
    import h5py

    file = _OpenFile(path)
    dataset: Any = h5py.File(path, "r")[name]
    native = dataset.dtype.newbyteorder("=")
    check_room(f"a chunk of {path.name}", prod(dataset.chunks) * native.itemsize)

    def read(*ranges: range) -> Array:
        key = tuple(slice(at.start, at.stop, at.step) for at in ranges)
        with file.checked():
            return dataset[key].astype(native, copy=False)

    return cached(Lazy(path.name, dataset.shape, native, read), dataset.chunks)


def with_neighbours(lazy: Lazy) -> Lazy:
    """*lazy* (B, H, W) with a cache for the neighbours of a band that can only be read with it.

    `sides` still gives the number of bands that are read together.
    """
    bands, height, width = lazy.shape
    together = lazy.sides[0]
    if together == 1:
        return lazy
    most = min(together, max(1, KEPT_BYTES // 2 // (lazy.nbytes // bands)))
    near = cached(lazy, (most, 64, width), height * width // 8)
    near.sides = lazy.sides
    return near


class Chunks(NamedTuple):
    """The chunks of a three-dimensional array in a file.

    Attributes
    ----------
    sides
        The shape of a chunk.
    places
        (n, 3) offset, size and a number for `decode` of each chunk, the last axis fastest. A chunk
        of no bytes is not in the file, and holds the `fill` value.
    decode
        Returns the numbers of a chunk from its number and its bytes; a chunk may be cropped at the
        edges of the array.
    """

    sides: Sequence[int]
    places: Array
    decode: Callable[[int, Array], Array]
    fill: float = 0


def in_chunks(path: Path, shape: tuple[int, ...], dtype: DType, chunks: Chunks) -> Lazy:
    """A lazy array stored in *chunks*; recently used chunks stay in memory."""
    sides, places, decode, fill = chunks
    file = _OpenFile(path)
    native = dtype.newbyteorder("=")
    check_room(f"a chunk of {path.name}", prod(sides) * dtype.itemsize)
    grid = [-(-size // side) for size, side in zip(shape, sides, strict=True)]
    table = places.reshape(*grid, 3)

    def read(*ranges: range) -> Array:
        numbers = np.empty(tuple(map(len, ranges)), native)

        def put(cut: tuple[tuple[int, slice, slice], ...]) -> None:
            at, there, here = zip(*cut, strict=True)
            start, size, number = table[at].tolist()
            raw = file.fill(start, np.empty(size, np.uint8))
            numbers[there] = decode(number, raw)[here] if size else fill

        wanted = list(product(*map(cuts, ranges, sides)))
        with file.checked(), ThreadPoolExecutor() as pool:
            list(pool.map(put, wanted)) if len(wanted) > 1 else put(*wanted)
        return numbers

    return cached(Lazy(path.name, shape, native, read), sides)
