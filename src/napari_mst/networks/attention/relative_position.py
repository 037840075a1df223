"""Relative position bias: scores of a window depend on where a key lies as seen from its query.

Letters: h heads, w side of the window of queries, u side of the window of keys.

    B[h, query, key] = table[index(place of the key - place of the query), h]

The table has one learnt row for each of the (w + u - 1)^2 offsets. Papers: Liu et al., "Swin
Transformer", ICCV 2021, arXiv:2103.14030, where u = w; Chen et al., "Activating more pixels in
image super-resolution transformer" (HAT), CVPR 2023, arXiv:2205.04437, where u > w. The published
codes number the offsets differently, and trained tables are in their order: see the two functions.
"""

import functools

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn


class RelativePositionBias(nn.Module):
    """The bias of all queries and keys of a window, `(heads, w^2, u^2)`.

    Without a side of *keys* they are those of the queries, and the table is that of Swin; with one
    it is that of HAT.
    """

    def __init__(self, heads: int, window: int, keys: int | None = None) -> None:
        super().__init__()
        self.window = window
        self.keys = keys
        offsets = window + (keys or window) - 1
        self.table = nn.Parameter(torch.zeros(offsets**2, heads))

    def forward(self) -> Tensor:
        """(heads, w^2, u^2)."""
        is_swin = self.keys is None
        index = swin_index(self.window) if is_swin else hat_index(self.window, self.keys)
        # Made anew each time: a tensor made in inference mode could not be used in training.
        rows = torch.from_numpy(index).to(self.table.device)
        return self.table[rows].permute(2, 0, 1)


@functools.cache
def swin_index(window: int) -> NDArray[np.int64]:
    """The row of Swin's table for each query and key, (w^2, w^2).

    The offset is that of the query from the key, (dy, dx) each from -(w - 1) to w - 1, and its row
    (dy + w - 1) (2 w - 1) + dx + w - 1.
    """
    down, across = _offsets(window, window)
    side = 2 * window - 1
    return (window - 1 - down) * side + (window - 1 - across)


@functools.cache
def hat_index(window: int, keys: int) -> NDArray[np.int64]:
    """The row of HAT's table for each query and key, (w^2, u^2).

    The offset is that of the key from the query, both counted from the corner of their own window,
    plus w - u + 1. In the published code it may be negative, and Python then counts the rows of the
    table from its end; each offset still has a row of its own.
    """
    down, across = _offsets(window, keys)
    side = window + keys - 1
    first = window - keys + 1
    index: NDArray[np.int64] = ((down + first) * side + across + first) % side**2
    return index


def _offsets(window: int, keys: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows and columns from each query to each key, (w^2, u^2) each, corners counting as equal."""
    query_row, query_column = np.divmod(np.arange(window**2), window)
    key_row, key_column = np.divmod(np.arange(keys**2), keys)
    return key_row - query_row[:, None], key_column - query_column[:, None]
