"""The data of a run: the rows of its photo, and the slabs in which its feature maps live."""

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from napari_mst.base.arrays import Array, Codes, DType, Indices, Singles
from napari_mst.cube.lazy import mapped
from napari_mst.engine.device import name_of
from napari_mst.engine.pages import HAS_PAGES, LargePages
from napari_mst.engine.windows import Window
from napari_mst.networks.network import Pass, Program

if TYPE_CHECKING:
    from napari_mst.engine.tensors import TensorMap


class FeatureMap:
    """Features (H, W, C) in the computer's memory, read and written tile by tile."""

    def __init__(self, values: Array, release: Callable[[int], None]) -> None:
        self._values = values
        self._release = release

    def read(self, window: Window) -> Array:
        """The features of *window*, (1, C, h, w), whose channels lie side by side: a view."""
        return self._values[window.rows, window.columns][None].transpose(0, 3, 1, 2)

    def write(self, window: Window, features: Any) -> None:
        """Write (1, C, h, w) *features* to *window*."""
        target = self._values[window.rows, window.columns]
        target[...] = as_array(features)[0].transpose(1, 2, 0)

    def release(self, rows: int) -> None:
        """Return the memory of the first *rows* to the system; no tile reads them again."""
        self._release(rows * self._values.strides[0])


def array_type(device: Any, dtype: Any) -> DType | None:
    """The type of the arrays that hold maps of *dtype*; None if tensors on *device* do."""
    is_plain = device.type == "cpu" and name_of(dtype) in ("float32", "float64")
    return np.dtype(name_of(dtype)) if is_plain else None


def as_array(values: Any) -> Array:
    """*values* as an array, which shares the memory of a tensor that is on the CPU."""
    return values if isinstance(values, np.ndarray) else values.detach().cpu().numpy()


def placed(values: Array, device: Any) -> Any:
    """*values* for passes on *device*: unchanged on a CPU, else a tensor on the device."""
    if device.type == "cpu" and values.dtype in (np.float32, np.float64):
        return values
    import torch

    from napari_mst.engine.tensors import sent

    return sent(torch.from_numpy(values), device)


class Slab:
    """Memory on *device*, or in a temporary file, for one large map or several small ones."""

    def __init__(self, size: int, device: Any, is_in_file: bool, dtype: Any) -> None:
        self._pages: LargePages | None = None
        self._type = array_type(device, dtype)
        nbytes = dtype.itemsize * size
        memory: Codes | None = None
        if is_in_file:
            memory = mapped((nbytes,), np.uint8)
        elif device.type == "cpu" and HAS_PAGES:
            self._pages = LargePages(nbytes)
            memory = self._pages.values
        elif self._type is not None:
            memory = np.empty(nbytes, np.uint8)
        self._memory: Any
        if self._type is not None and memory is not None:
            self._memory = memory.view(self._type)
        else:
            from napari_mst.engine.tensors import room

            self._memory = room(size, device, dtype, memory)

    def feature_map(
        self, height: int, width: int, channels: int, offset: int, device: Any
    ) -> "FeatureMap | TensorMap":
        """A map that starts at *offset* (in values), for use on *device*."""
        size = height * width * channels
        values = self._memory[offset : offset + size].reshape(height, width, channels)
        if self._type is not None and device.type == "cpu":
            return FeatureMap(values, functools.partial(self._release, offset * values.itemsize))
        from napari_mst.engine.tensors import TensorMap

        return TensorMap(values, device)

    def planes(self, bands: int, height: int, width: int, dtype: Any) -> Any:
        """The start of the slab as the (B, H, W) result, stored as *dtype*."""
        size = bands * height * width
        own_size = size * dtype.itemsize // self._memory.itemsize
        kind = dtype if self._type is None else np.dtype(name_of(dtype))
        return self._memory[:own_size].view(kind).reshape(bands, height, width)

    def _release(self, start: int, size: int) -> None:
        if self._pages is not None:
            self._pages.release(start, start + size)


# The photo


_BANDS_KEPT = 4
"""Most recently read bands of rows that stay in memory: the tiles of one band share them."""

ReadRows = Callable[[int, int], Singles]
"""Start and stop -> these rows as the network expects them: (in_bands, stop - start, W) float32."""


FoldStatistic = Callable[[Pass, Any, int], Any]
"""Folds the total of a statistic, and its number of pixels, into what later passes use."""


def fold_alone(each: Pass, total: Any, pixels: int) -> Any:
    """The value that the pass *each* itself makes of its *total*."""
    return each.fold(total, pixels)


class PhotoRows(NamedTuple):
    """The photo of a run, or a part of one, as the network expects it.

    Attributes
    ----------
    rows
        Reads rows of the photo.
    height, width
        Size of the photo in pixels.
    fold
        Folds totals into what later passes use. Runs of several parts can add their totals first.
    own
        Windows of the padded photo that count in the totals; None counts all of it. The pixels in
        these windows depend on those around them.
    """

    rows: ReadRows
    height: int
    width: int
    fold: FoldStatistic = fold_alone
    own: Sequence[Window] | None = None


class PaddedPhoto:
    """The photo, reflect-padded as a program wants it, read window by window."""

    def __init__(self, source: PhotoRows, device: Any, program: Program) -> None:
        self._rows = functools.lru_cache(maxsize=_BANDS_KEPT)(source.rows)
        self._device = device
        self._dtype = program.dtype
        self._row_of = _reflected(source.height, program.multiple)
        self._column_of = _reflected(source.width, program.multiple)

    def read(self, window: Window) -> Any:
        """(1, in_bands, h, w) of *window*: an array on a CPU, else a tensor."""
        rows = self._row_of[window.rows]
        columns = self._column_of[window.columns]
        # Where the photo is reflected the index runs backwards: its ends are not its extremes.
        first = int(rows.min())
        last = int(rows.max()) + 1
        values = _selected(self._rows(first, last), 1, rows - first)
        values = _selected(values, 2, columns)[None]
        kind = array_type(self._device, self._dtype)
        if kind is not None:
            return values.astype(kind, copy=False)
        return placed(values, self._device).to(self._dtype)


def _reflected(length: int, multiple: int) -> Indices:
    """The source of every pixel of an axis, padded to a multiple: of 5 to 8, 0 1 2 3 4 3 2 1."""
    return np.pad(np.arange(length), (0, -length % multiple), mode="reflect")


def _selected(values: Array, axis: int, index: Indices) -> Array:
    """The part of *values* that *index* selects along *axis*: a view where it is a range."""
    start = int(index[0])
    length = len(index)
    if np.array_equal(index, np.arange(start, start + length)):
        return values[(slice(None),) * axis + (slice(start, start + length),)]
    return values.take(index, axis)
