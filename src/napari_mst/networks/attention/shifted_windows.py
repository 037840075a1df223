"""Shifted window attention (SW-MSA): windows that begin in the middle of those of the block before.

Letters: N batch, C channels, H rows, W columns, w side of a window, s shift.

The map is rolled by -s along both axes and cut into windows of w x w; afterwards it is rolled back.
In the last row and column of windows, pixels meet that the roll has brought together from opposite
borders. A mask keeps them apart: a pixel attends only to those of its own part of the window. So
the windows along the borders are in truth smaller. Paper: Liu et al., "Swin Transformer", ICCV
2021, arXiv:2103.14030.

The published code adds -100 to the scores of the wrong pairs; here they get no weight at all, which
is the same to 4e-44 unless scores are as large. An axis that is no longer than one window is not
shifted, as in torchvision.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from napari_mst.errors import ModelError
from napari_mst.networks.attention.heads import DEFAULTS, HeadOptions
from napari_mst.networks.attention.query import QueryWeights, check_pixel
from napari_mst.networks.attention.windows import (
    Geometry,
    WindowAttention,
    filled_up,
    square,
)


class ShiftedWindowAttention(WindowAttention):
    """SW-MSA: (N, C, H, W) -> (N, C, H, W) for any H and W.

    Parameters
    ----------
    window, shift
        Side of a window, and by how many pixels windows are shifted: 0 to *window* - 1, by default
        half of it.

    Raises
    ------
    ModelError
        If the heads do not divide the channels, or the shift is not within a window.
    """

    def __init__(
        self,
        channels: int,
        heads: int,
        window: int = 8,
        shift: int | None = None,
        options: HeadOptions = DEFAULTS,
    ) -> None:
        super().__init__(channels, heads, window, options)
        shift = window // 2 if shift is None else shift
        if type(shift) is not int or not 0 <= shift < window:
            raise ModelError(
                f"Expected a shift of 0 to {window - 1} pixels, got {shift}. "
                f"Choose {window // 2}, half a window."
            )
        self.shift = shift
        self.keep(Geometry(window, window, shift))

    @property
    def halo(self) -> int:
        """Pixels around an unshifted window on which its pixels depend."""
        return self.shift and max(self.shift, self.window - self.shift)

    def shifts(self, filled: Tensor) -> tuple[int, int]:
        """By how much the rows and the columns of a map, filled up to windows, are shifted."""
        rows, columns = filled.shape[-2:]
        down = self.shift if rows > self.window else 0
        across = self.shift if columns > self.window else 0
        return down, across

    def masked(self, scores: Tensor, shifts: tuple[int, int]) -> Tensor:
        """Scores (N, down, across, h, w^2, w^2) without pairs from opposite borders of the map."""
        down, across = shifts
        # Only windows that the roll has filled from both borders have such pairs.
        if down:
            parts = self.parts((down, 0)).to(scores.device)
            is_apart = parts[:, None] != parts
            last = scores[:, -1:].masked_fill(is_apart, -torch.inf)
            scores = torch.cat([scores[:, :-1], last], dim=1)
        if across:
            parts = self.parts((0, across)).to(scores.device)
            is_apart = parts[:, None] != parts
            last = scores[:, :, -1:].masked_fill(is_apart, -torch.inf)
            scores = torch.cat([scores[:, :, :-1], last], dim=2)
        return scores

    def parts(self, shifts: tuple[int, int]) -> Tensor:
        """The part of a window in which each of its pixels lies, (w^2,), after a roll by *shifts*.

        Parts are numbered 0 to 3: the pixels that stayed in their place, those that came round from
        the first rows, from the first columns, and from both.
        """
        rows, columns = torch.arange(self.window)[:, None], torch.arange(self.window)
        down, across = shifts
        is_from_top = rows >= self.window - down
        is_from_left = columns >= self.window - across
        return (is_from_top * 1 + is_from_left * 2).flatten()

    def weights(self, x: Tensor, query: Sequence[int]) -> QueryWeights:
        """The weights of the w^2 pixels of the shifted window in which the pixel *query* lies.

        `places` are those on the map before the roll; `regions` are the parts of the window, of
        which the query attends to its own. *x* is (1, C, H, W).

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
        window = filled[0][:, places[:, 0], places[:, 1]].mT
        queries, keys, _ = self.split(window)
        own = (rolled[0] - corner[0]) * self.window + rolled[1] - corner[1]
        # The roll fills only the last windows of a row or column from both borders.
        is_last = [start + self.window == size for start, size in zip(corner, sizes, strict=True)]
        regions = self.parts((shifts[0] * is_last[0], shifts[1] * is_last[1]))
        scores = (self.scores(queries, keys) + self.position())[:, own]
        is_apart = (regions != regions[own]).to(scores.device)
        weights = scores.masked_fill(is_apart, -torch.inf).softmax(-1)
        return QueryWeights(weights, places, regions)
