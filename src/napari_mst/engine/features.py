"""The data of a run: the rows of its photo, and the slabs in which its feature maps live."""

import functools
import mmap
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from napari_mst.base.arrays import Singles
from napari_mst.cube.lazy import mapped
from napari_mst.engine.pages import KEPT
from napari_mst.engine.windows import Window
from napari_mst.networks.network import Pass, Program, reflected_index


class FeatureMap:
    """Features (H, W, C), read and written tile by tile.

    A tile is a (1, C, h, w) channels-last tensor on *device*.

    They may live elsewhere. Then pieces go to a GPU, and come back, by way of pinned memory and on
    the stream of the thread that reads or writes them, so that one thread copies while another
    computes.
    """

    def __init__(self, values: Tensor, device: torch.device) -> None:
        self._values = values
        self._device = device

    def read(self, window: Window) -> Tensor:
        """The features of *window*: a view, if they live on the device."""
        values = self._values[window.rows, window.columns]
        if _is_elsewhere(values, self._device):
            values = sent(values, self._device)
        # The new axis comes before the permutation: torch calls a tensor channels-last only if the
        # stride of its single photo fits, too. Otherwise every convolution copies its input.
        return values[None].permute(0, 3, 1, 2)

    def write(self, window: Window, features: Tensor) -> None:
        """Put (1, C, h, w) *features* where *window* is."""
        target = self._values[window.rows, window.columns]
        values = features[0].permute(1, 2, 0)
        if _is_elsewhere(target, self._device):
            values = _brought_back(values)
        target.copy_(values)


def _is_elsewhere(values: Tensor, device: torch.device) -> bool:
    return values.device.type != device.type


def sent(values: Tensor, device: torch.device) -> Tensor:
    """*values* of the computer's memory on *device*; on CUDA this thread's stream brings them."""
    if device.type == "cuda":
        # From memory that is not pinned, CUDA would make this thread wait for the copy.
        return values.pin_memory().to(device, non_blocking=True)
    return values.to(device)


def _brought_back(values: Tensor) -> Tensor:
    """A copy of *values* in the computer's memory; waits for this thread's stream only."""
    if values.device.type != "cuda":
        return values.cpu()
    pinned = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
    pinned.copy_(values, non_blocking=True)
    torch.cuda.current_stream(values.device).synchronize()
    return pinned


class Slab:
    """Memory of *device*, or a temporary file, for a large map or small ones side by side."""

    def __init__(
        self,
        size: int,
        device: torch.device,
        is_in_file: bool = False,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self._block: Tensor | None = None
        # Only Linux lets a program ask for large pages.
        if is_in_file:
            self._memory = torch.from_numpy(mapped((dtype.itemsize * size,), np.uint8)).view(dtype)
        elif device.type == "cpu" and hasattr(mmap, "MADV_HUGEPAGE"):
            self._block = KEPT.take(dtype.itemsize * size)
            self._memory = self._block[: dtype.itemsize * size].view(dtype)
        else:
            self._memory = torch.empty(size, device=device, dtype=dtype)

    def feature_map(
        self, height: int, width: int, channels: int, offset: int, device: torch.device
    ) -> FeatureMap:
        """A map from *offset* (in values) on, for use on *device*; it takes another one's place."""
        size = height * width * channels
        values = self._memory[offset : offset + size].view(height, width, channels)
        return FeatureMap(values, device)

    def planes(self, bands: int, height: int, width: int, dtype: torch.dtype) -> Tensor:
        """The start of the slab as the (B, H, W) result, of another *dtype*."""
        size = bands * height * width
        own_size = size * dtype.itemsize // self._memory.itemsize
        return self._memory[:own_size].view(dtype).view(bands, height, width)

    def taken_back(self) -> list[Tensor]:
        """The block of memory of this slab, whose maps are no more; none if it cannot be kept."""
        block, self._block = self._block, None
        return [] if block is None else [block]


# The photo


_BANDS_KEPT = 4
"""Bands of rows that were read last and are kept: the tiles of one band share them."""

ReadRows = Callable[[int, int], Singles]
"""Start and stop -> these rows as the network expects them: (in_bands, stop - start, W) float32."""


FoldStatistic = Callable[[Pass, Tensor, int], Any]
"""Makes what later passes use of the total of a pass's statistic, and of its number of pixels."""


def fold_alone(each: Pass, total: Tensor, pixels: int) -> Any:
    """The value that the pass *each* itself makes of its *total*."""
    return each.fold(total, pixels)


class PhotoRows(NamedTuple):
    """The photo of a run, or a part of one, as the network expects it.

    Attributes
    ----------
    rows
        Gives its rows.
    height, width
        Their number and their length.
    fold
        Makes what passes use of totals: of several runs of parts they can be added first.
    own
        Windows of the padded photo that count in the totals; None: all of it. Other pixels are
        there because those depend on them.
    """

    rows: ReadRows
    height: int
    width: int
    fold: FoldStatistic = fold_alone
    own: Sequence[Window] | None = None


class PaddedPhoto:
    """The photo, reflect-padded as a program wants it, read window by window."""

    def __init__(self, source: PhotoRows, device: torch.device, program: Program) -> None:
        self._rows = functools.lru_cache(maxsize=_BANDS_KEPT)(source.rows)
        self._device = device
        self._dtype = program.dtype
        self._row_of = reflected_index(source.height, program.multiple)
        self._column_of = reflected_index(source.width, program.multiple)

    def read(self, window: Window) -> Tensor:
        """(1, in_bands, h, w) of *window*."""
        rows = self._row_of[window.rows]
        columns = self._column_of[window.columns]
        # Where the photo is reflected the index runs backwards: its ends are not its extremes.
        first = int(rows.min())
        last = int(rows.max()) + 1
        values = torch.from_numpy(self._rows(first, last))
        values = _selected(values, 1, rows - first)
        values = _selected(values, 2, columns)
        return sent(values[None], self._device).to(self._dtype)


def _selected(values: Tensor, axis: int, index: Tensor) -> Tensor:
    """The part of *values* that *index* selects along *axis*: a view where it is a range."""
    start = int(index[0])
    length = len(index)
    is_range = torch.equal(index, torch.arange(start, start + length))
    return values.narrow(axis, start, length) if is_range else values.index_select(axis, index)
