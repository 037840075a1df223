"""Patch merging: a map of half the size with twice the channels, in the two forms that are found.

Letters: N batch, C channels, H rows, W columns.

Published (Swin): the four pixels of 2 x 2 are stacked, (0, 0), (1, 0), (0, 1), (1, 1), and a
LayerNorm and a linear map without bias follow, 4C -> 2C. Paper: Liu et al., "Swin Transformer",
ICCV 2021, arXiv:2103.14030. Another text of it writes a 3 x 3 convolution 4C -> 2C in the place of
norm and linear map. It sees 6 x 6 pixels of the map before, and is no longer the same for each
pixel alone.

Odd sides are filled up with a row or column of zeros at the end, in both.
"""

import torch
from torch import Tensor, nn

from napari_mst.networks.attention.layer_norm import ChannelNorm
from napari_mst.networks.attention.windows import filled_up


class PatchMerging(nn.Module):
    """Swin's merging: stack 2 x 2, LayerNorm, linear: (N, C, H, W) -> (N, 2C, H/2, W/2)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = ChannelNorm(4 * channels)
        self.reduction = nn.Linear(4 * channels, 2 * channels, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, 2C, ceil(H/2), ceil(W/2))."""
        stacked = self.norm(stacked_neighbours(x))
        return self.reduction(stacked.movedim(1, -1)).movedim(-1, 1)


class ConvolutionMerging(nn.Module):
    """The text's merging: stack 2 x 2, 3 x 3 convolution: (N, C, H, W) -> (N, 2C, H/2, W/2)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.reduction = nn.Conv2d(4 * channels, 2 * channels, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, 2C, ceil(H/2), ceil(W/2))."""
        return self.reduction(stacked_neighbours(x))


def stacked_neighbours(x: Tensor) -> Tensor:
    """(N, C, H, W) -> (N, 4C, ceil(H/2), ceil(W/2)): the pixels (0, 0), (1, 0), (0, 1), (1, 1)."""
    filled = filled_up(x, 2)
    corners = [filled[..., row::2, column::2] for column in (0, 1) for row in (0, 1)]
    return torch.cat(corners, dim=1)
