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

import torch
from torch import Tensor

from napari_mst.errors import ModelError
from napari_mst.networks.attention.heads import DEFAULTS, HeadOptions
from napari_mst.networks.attention.windows import Geometry, WindowAttention


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
        """Scores (N, down, across, h, w^2, w^2) without pairs from opposite borders of the map.

        They are changed in place.
        """
        down, across = shifts
        # Only windows that the roll has filled from both borders have such pairs. In place, for a
        # copy of all scores takes longer than their softmax.
        if down:
            scores[:, -1:].masked_fill_(self.is_apart((down, 0)).to(scores.device), -torch.inf)
        if across:
            scores[:, :, -1:].masked_fill_(self.is_apart((0, across)).to(scores.device), -torch.inf)
        return scores
