"""Overlapping cross-attention (OCA): queries in a window attend to a larger window around it.

Letters: N batch, C channels, H rows, W columns, h heads, w side of the window of queries, u side
of the window of keys and values.

    u = w + int(ratio w)        A = softmax(q k^T / sqrt(d) + B), (w^2, u^2) in each window

Windows of queries tile the map; windows of keys are centred on them and overlap. Paper: Chen et
al., "Activating more pixels in image super-resolution transformer" (HAT), CVPR 2023,
arXiv:2205.04437.

As in the published code, keys and values beyond the border of the map are zeros added *after* the
projection. They take part in the softmax with a score of 0 plus the position bias.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from napari_mst.base.errors import ModelError
from napari_mst.networks.attention.heads import DEFAULTS, HeadOptions
from napari_mst.networks.attention.query import check_pixel, square
from napari_mst.networks.attention.window_attention import (
    RelativePositionBias,
    WindowAttention,
    WindowGeometry,
    WindowTokens,
    filled_up,
    partitioned,
    united,
)


class OverlappingAttention(WindowAttention):
    """OCA: (N, C, H, W) -> (N, C, H, W) for any H and W, padded with zeros.

    Parameters
    ----------
    window
        Side w of a window of queries.
    ratio
        Overlap: the window of keys is larger by int(*ratio* w) pixels, half of them on each side.

    Raises
    ------
    ModelError
        If the heads do not divide the channels, or the overlap is odd or zero.
    """

    def __init__(
        self,
        channels: int,
        heads: int,
        window: int = 8,
        ratio: float = 0.5,
        options: HeadOptions = DEFAULTS,
    ) -> None:
        super().__init__(channels, heads, window, options)
        more = int(window * ratio)
        if more < 2 or more % 2:
            raise ModelError(
                f"Expected a window of keys that is larger by an even number of pixels, got {more} "
                f"({ratio:g} of {window}). Choose another window or ratio."
            )
        self.key_window = window + more
        self.position = RelativePositionBias(heads, window, self.key_window)
        self.keep(WindowGeometry(window, self.key_window))

    @property
    def halo(self) -> int:
        """Pixels around a window of queries on which it depends."""
        return (self.key_window - self.window) // 2

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, C, H, W)."""
        height, width = x.shape[-2:]
        queries, keys, values = self._projected(x)
        tokens = partitioned(queries, self.window).flatten(3, 4)
        scores = self.scores(self.in_heads(tokens), self._overlapping(keys)) + self.position()
        attended = self.joined(self.softmax(scores) @ self._overlapping(values))
        return united(attended.unflatten(3, (self.window, -1)))[..., :height, :width]

    def around(self, x: Tensor, query: Sequence[int]) -> WindowTokens:
        """The queries of the window that contains the pixel *query*, and the keys around them.

        Places outside the map are the zeros around it. *x* is (1, C, H, W).

        Raises
        ------
        AttentionError
            If the query lies outside the map, or there are several maps.
        """
        check_pixel(x, query)
        filled = filled_up(x, self.window)
        queries, keys, values = self._projected(x)
        row, column = query
        top, left = (index // self.window * self.window for index in query)
        of_queries = _cut(self.window, top, left)
        # Keys are padded by a rim, so their window begins at the corner of the queries.
        of_keys = _cut(self.key_window, top, left)
        places = square((top - self.halo, left - self.halo), self.key_window)
        regions = torch.zeros(len(places), dtype=torch.long)
        return WindowTokens(
            (of_queries(filled), of_keys(self._rimmed(filled))),
            self.in_heads(of_queries(queries)),
            self.in_heads(of_keys(self._rimmed(keys))),
            self.in_heads(of_keys(self._rimmed(values))),
            self.position(),
            (square((top, left), self.window), places),
            regions,
            torch.zeros(self.window**2, len(places), dtype=torch.bool),
            (row - top) * self.window + column - left,
        )

    def _projected(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of the padded map, (N, C, H, W) each."""
        filled = filled_up(x, self.window)
        queries, keys, values = self.to_qkv(filled.movedim(1, -1)).movedim(-1, 1).chunk(3, dim=1)
        return queries, keys, values

    def _rimmed(self, x: Tensor) -> Tensor:
        """*x* (N, C, H, W), padded with zeros as far as keys reach beyond their queries."""
        return F.pad(x, (self.halo,) * 4)

    def _overlapping(self, x: Tensor) -> Tensor:
        """Keys or values (N, C, H, W) -> (N, down, across, h, u^2, d)."""
        rows = self._rimmed(x).unfold(2, self.key_window, self.window)
        windows = rows.unfold(3, self.key_window, self.window)
        return self.in_heads(windows.flatten(4).permute(0, 2, 3, 4, 1))


def _cut(side: int, top: int, left: int) -> Callable[[Tensor], Tensor]:
    """Return a function that cuts a square out of (1, C, H, W), as tokens (side^2, C)."""
    return lambda x: x[0, :, top : top + side, left : left + side].flatten(1).mT
