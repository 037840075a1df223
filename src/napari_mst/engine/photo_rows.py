"""The photo of a run, read row by row and reflect-padded as a program wants it."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from napari_mst.engine.features import sent
from napari_mst.engine.windows import Window
from napari_mst.networks.network import Program, reflected_index

_BANDS_KEPT = 4
"""Bands of rows that were read last and are kept: the tiles of one band share them."""

ReadRows = Callable[[int, int], NDArray[np.float32]]
"""Start and stop -> these rows as the network expects them: (in_bands, stop - start, W) float32."""


class PhotoRows(NamedTuple):
    """The photo of a run: its rows, as the network expects them, their number and their length."""

    rows: ReadRows
    height: int
    width: int


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
