"""Window attention (W-MSA, shifted SW-MSA): pixels attend only to pixels in the same window.

Letters: N batch, C channels, H rows, W columns, h heads, w side of a window, n windows.

    A = softmax(q k^T / sqrt(d) + B)  within each of the n windows of w x w pixels

B is the relative position bias. Paper: Liu et al., "Swin Transformer", ICCV 2021, arXiv:2103.14030.
A map whose sides are not multiples of w is padded with zeros at its end, before the projection; as
in the published code, the zeros are keys like any others.

The relative position bias has one learnt row of a table for each of the (w + u - 1)^2 offsets, u
being the side of the window of keys: B[h, query, key] = table[index(place of the key - place of the
query), h]. In Swin u = w; in HAT (Chen et al., CVPR 2023, arXiv:2205.04437) u > w. The published
codes number the offsets differently, and trained tables follow their order: see the two functions.
"""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from napari_mst.base.errors import ModelError
from napari_mst.networks.attention.heads import DEFAULTS, HeadOptions, Heads
from napari_mst.networks.attention.query import check_pixel, square
from napari_mst.networks.attention_spec import QueryWeights


class WindowGeometry(NamedTuple):
    """Sides of the windows of queries and of keys, and the shift of windows, in pixels.

    They are stored with the weights, which would also fit other sides and shifts.
    """

    window: int
    keys: int
    shift: int = 0


class WindowTokens(NamedTuple):
    """One window: its n query pixels and the m pixels of their keys, in all heads.

    Attributes
    ----------
    features
        Features of the query pixels (n, C) and of the key pixels (m, C), before the projections.
    queries, keys, values
        (h, n, d), (h, m, d) and (h, m, d).
    bias
        Position bias of the scores, (h, n, m).
    at
        Rows and columns on the map of the query pixels (n, 2) and of the key pixels (m, 2).
    regions
        (m,): the part of a shifted window that contains each key.
    is_apart
        (n, m): True for pairs that the mask separates.
    query_index
        Index of the requested query.
    """

    features: tuple[Tensor, Tensor]
    queries: Tensor
    keys: Tensor
    values: Tensor
    bias: Tensor
    at: tuple[Tensor, Tensor]
    regions: Tensor
    is_apart: Tensor
    query_index: int


class WindowAttention(Heads):
    """W-MSA: (N, C, H, W) -> (N, C, H, W) for any H and W.

    Parameters
    ----------
    window, shift
        Side w of a window, and the shift of windows, 0 to w - 1, in pixels.

    Raises
    ------
    ModelError
        If the heads do not divide the channels, the window is smaller than a pixel, or the shift is
        not within a window.
    """

    geometry: Tensor

    def __init__(
        self,
        channels: int,
        heads: int,
        window: int = 8,
        options: HeadOptions = DEFAULTS,
        shift: int = 0,
    ) -> None:
        super().__init__(channels, heads, options)
        check_window(window)
        if type(shift) is not int or not 0 <= shift < window:
            raise ModelError(
                f"Expected a shift of 0 to {window - 1} pixels, got {shift}. "
                f"Choose {window // 2}, half a window."
            )
        self.window = window
        self.key_window = window
        self.position = RelativePositionBias(heads, window)
        self.keep(WindowGeometry(window, window, shift))

    @property
    def halo(self) -> int:
        """Pixels around an unshifted window on which its pixels depend."""
        shift = self.sides.shift
        return shift and max(shift, self.window - shift)

    def keep(self, geometry: WindowGeometry) -> None:
        """Store *geometry* with the weights."""
        self.sides = geometry
        self.register_buffer("geometry", torch.tensor(geometry, dtype=torch.float32))

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, C, H, W)."""
        height, width = x.shape[-2:]
        filled = filled_up(x, self.window)
        down, across = self.shifts(filled)
        # Channels last, as in a run, so that windows are copied in whole rows of numbers.
        tokens = _rolled(filled.movedim(1, -1), (-down, -across))
        windows = partitioned(tokens.movedim(-1, 1), self.window)
        queries, keys, values = self.split(windows.flatten(3, 4))
        scores = self.scores(queries, keys) + self.position()
        attended = self.softmax(self.masked(scores, (down, across))) @ values
        rows = self.joined(attended).unflatten(3, (self.window, -1)).transpose(2, 3)
        rolled = _rolled(rows.flatten(3, 4).flatten(1, 2), (down, across))
        return rolled.movedim(-1, 1)[..., :height, :width]

    def shifts(self, filled: Tensor) -> tuple[int, int]:
        """Shifts of the rows and columns of a map that is padded to whole windows."""
        down, across = (self.sides.shift * (side > self.window) for side in filled.shape[-2:])
        return down, across

    def masked(self, scores: Tensor, shifts: tuple[int, int]) -> Tensor:
        """Mask pairs from opposite borders of the map in *scores* (N, down, across, h, w^2, w^2).

        The scores are changed in place.
        """
        down, across = shifts
        # Only windows that the roll fills from both borders have such pairs. In place, because a
        # copy of all scores takes longer than their softmax.
        if down:
            scores[:, -1:].masked_fill_(self.is_apart((down, 0)).to(scores.device), -torch.inf)
        if across:
            scores[:, :, -1:].masked_fill_(self.is_apart((0, across)).to(scores.device), -torch.inf)
        return scores

    def parts(self, shifts: tuple[int, int]) -> Tensor:
        """The part of a window, (w^2,), that contains each of its pixels after a roll by *shifts*.

        Parts are numbered 0 to 3: pixels that stayed in place, and pixels that came around from the
        first rows, from the first columns, and from both.
        """
        rows, columns = torch.arange(self.window)[:, None], torch.arange(self.window)
        down, across = shifts
        is_from_top = rows >= self.window - down
        is_from_left = columns >= self.window - across
        return (is_from_top * 1 + is_from_left * 2).flatten()

    def is_apart(self, shifts: tuple[int, int]) -> Tensor:
        """The pairs of pixels of a window that lie in different parts after a roll: (w^2, w^2)."""
        parts = self.parts(shifts)
        return parts[:, None] != parts

    def weights(self, x: Tensor, query: Sequence[int]) -> QueryWeights:
        """The weights of the keys of its window for the pixel *query* (row, column).

        Places are on the map before a roll; places outside the map are the zeros around it. Regions
        are the parts of a shifted window; a query attends only to its own part. *x* is (1, C, H,
        W).

        Raises
        ------
        AttentionError
            If the query lies outside the map, or there are several maps.
        """
        tokens = self.around(x, query)
        asking = slice(tokens.query_index, tokens.query_index + 1)
        scores = self.scores(tokens.queries[:, asking], tokens.keys) + tokens.bias[:, asking]
        is_apart = tokens.is_apart[tokens.query_index].to(scores.device)
        weights = scores[:, 0].masked_fill(is_apart, -torch.inf).softmax(-1)
        return QueryWeights(weights, tokens.at[1], tokens.regions)

    def around(self, x: Tensor, query: Sequence[int]) -> WindowTokens:
        """The queries and keys of the window that contains the pixel *query*; *x* is (1, C, H, W).

        Raises
        ------
        AttentionError
            If the query lies outside the map, or there are several maps.
        """
        check_pixel(x, query)
        filled = filled_up(x, self.window)
        sizes = filled.shape[-2:]
        shifts = self.shifts(filled)
        rolled = [
            (index - shift) % size for index, shift, size in zip(query, shifts, sizes, strict=True)
        ]
        corner = [index // self.window * self.window for index in rolled]
        places = (square(corner, self.window) + torch.tensor(shifts)) % torch.tensor(sizes)
        features = filled[0][:, places[:, 0], places[:, 1]].mT
        # The roll fills only the last windows of a row or column from both borders.
        is_last = [start + self.window == size for start, size in zip(corner, sizes, strict=True)]
        regions = self.parts((shifts[0] * is_last[0], shifts[1] * is_last[1]))
        return WindowTokens(
            (features, features),
            *self.split(features),
            self.position(),
            (places, places),
            regions,
            regions[:, None] != regions,
            (rolled[0] - corner[0]) * self.window + rolled[1] - corner[1],
        )


def check_window(window: int) -> None:
    """Refuse a window whose side is not a positive integer. Raises `ModelError`."""
    if type(window) is not int or window < 1:
        raise ModelError(f"Expected a window of 1 pixel or more, got {window!r}. Choose 8.")


def filled_up(x: Tensor, side: int) -> Tensor:
    """*x* (N, C, H, W), padded with zeros at the end of H and W to multiples of *side*."""
    height, width = x.shape[-2:]
    down, across = -height % side, -width % side
    return F.pad(x, (0, across, 0, down)) if down or across else x


def _rolled(x: Tensor, shifts: tuple[int, int]) -> Tensor:
    """*x* (N, H, W, C), rolled along H and W; not copied for shifts of 0."""
    return x.roll(shifts, (1, 2)) if any(shifts) else x


def partitioned(x: Tensor, side: int) -> Tensor:
    """(N, C, H, W) -> windows (N, H/side, W/side, side, side, C)."""
    windows = x.unflatten(3, (-1, side)).unflatten(2, (-1, side))
    return windows.permute(0, 2, 4, 3, 5, 1)


def united(windows: Tensor) -> Tensor:
    """Windows (N, H/side, W/side, side, side, C) -> (N, C, H, W)."""
    return windows.permute(0, 5, 1, 3, 2, 4).flatten(4, 5).flatten(2, 3)


class ShiftedWindowAttention(WindowAttention):
    """SW-MSA: shifted window attention, by default by half a window."""

    def __init__(
        self,
        channels: int,
        heads: int,
        window: int = 8,
        shift: int | None = None,
        options: HeadOptions = DEFAULTS,
    ) -> None:
        super().__init__(channels, heads, window, options, window // 2 if shift is None else shift)


# Relative positions


class RelativePositionBias(nn.Module):
    """The bias of all queries and keys of a window, `(heads, w^2, u^2)`.

    Without *keys*, the side of a window of keys, the keys are the query pixels and the table is
    Swin's; otherwise it is HAT's.
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
        # Created each time: a tensor from inference mode could not be used in training.
        rows = torch.from_numpy(index).to(self.table.device)
        return self.table[rows].permute(2, 0, 1)


@functools.cache
def swin_index(window: int) -> NDArray[np.int64]:
    """The row of Swin's table for each query and key, (w^2, w^2).

    The offset (dy, dx) goes from the key to the query, each from -(w - 1) to w - 1. Its row is
    (dy + w - 1) (2 w - 1) + dx + w - 1.
    """
    down, across = _offsets(window, window)
    side = 2 * window - 1
    return (window - 1 - down) * side + (window - 1 - across)


@functools.cache
def hat_index(window: int, keys: int) -> NDArray[np.int64]:
    """The row of HAT's table for each query and key, (w^2, u^2).

    The offset goes from the query to the key, each counted from the corner of its own window, plus
    w - u + 1. In the published code it may be negative, and Python then counts rows from the end of
    the table; every offset still has a separate row.
    """
    down, across = _offsets(window, keys)
    side = window + keys - 1
    first = window - keys + 1
    return ((down + first) * side + across + first) % side**2


def _offsets(window: int, keys: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows and columns from each query to each key, (w^2, u^2) each, with corners aligned."""
    query_row, query_column = np.divmod(np.arange(window**2), window)
    key_row, key_column = np.divmod(np.arange(keys**2), keys)
    return key_row - query_row[:, None], key_column - query_column[:, None]
