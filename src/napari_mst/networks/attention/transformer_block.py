"""The pre-norm transformer block around any mechanism in this folder; and patch merging.

Letters: N batch, T tokens, C channels, H rows, W columns.

    x = x + attention(LN(x))        x = x + W_2 gelu(W_1 LN(x) + b_1) + b_2

Papers: Vaswani et al., NeurIPS 2017, arXiv:1706.03762, has the norm after each sum; the vision
transformers (Dosovitskiy et al., arXiv:2010.11929; Swin, arXiv:2103.14030; HAT, arXiv:2205.04437)
have it before, as here. With `ShiftedWindowAttention` it is a Swin block, with
`OverlappingAttention` the OCAB of HAT, with `MultiHeadAttention` an encoder layer of torch.

Patch merging makes a map of half the size with twice the channels. Published (Swin): the four
pixels of 2 x 2 are stacked, (0, 0), (1, 0), (0, 1), (1, 1), and a LayerNorm and a linear map
without bias follow, 4C -> 2C. Another text of it writes a 3 x 3 convolution 4C -> 2C in the place
of norm and linear map. It sees 6 x 6 pixels of the map before, and is no longer the same for each
pixel alone. Odd sides are filled up with a row or column of zeros at the end, in both.
"""

import torch
from torch import Tensor, nn

from napari_mst.networks.attention.heads import Heads
from napari_mst.networks.attention.layer_norm import ChannelNorm
from napari_mst.networks.attention.window_attention import filled_up


class TransformerBlock(nn.Module):
    """Attention and a perceptron of *hidden* channels, each with its norm and its residual.

    `forward` takes the same input as the attention: maps (N, C, H, W), or sequences (N, T, C).
    """

    def __init__(self, attention: Heads, hidden: int, epsilon: float = 1e-5) -> None:
        super().__init__()
        channels = attention.channels
        self.norm_attention = nn.LayerNorm(channels, epsilon)
        self.attention = attention
        self.norm_perceptron = nn.LayerNorm(channels, epsilon)
        self.perceptron = nn.Sequential(
            nn.Linear(channels, hidden), nn.GELU(), nn.Linear(hidden, channels)
        )

    def forward(self, x: Tensor) -> Tensor:
        """The transformed tokens or map, in the same shape."""
        return self.perceived(x + self.attention(self._over_channels(self.norm_attention, x)))

    def perceived(self, x: Tensor) -> Tensor:
        """The second half, in the same shape: the attended features plus their perceptron."""
        normal = self._over_channels(self.norm_perceptron, x)
        return x + self._over_channels(self.perceptron, normal)

    def _over_channels(self, part: nn.Module, x: Tensor) -> Tensor:
        """*part*, which acts on the last axis, applied to each pixel of a map or each token."""
        if not self.attention.takes_maps:
            return part(x)
        return part(x.movedim(1, -1)).movedim(-1, 1)


PUBLISHED = [
    (r"(?<![^.])attn\.", "attention."),
    (r"(?<![^.])norm1\.", "norm_attention."),
    (r"(?<![^.])norm2\.", "norm_perceptron."),
    (r"(?<![^.])mlp\.fc1\.", "perceptron.0."),
    (r"(?<![^.])mlp\.fc2\.", "perceptron.2."),
    (r"(?<![^.])qkv\.", "to_qkv."),
]
"""Keys of timm's blocks, and ours. A pattern matches only at the start of a part of a key."""


class PatchMerging(nn.Module):
    """Swin's merging: stack 2 x 2, LayerNorm, linear: (N, C, H, W) -> (N, 2C, H/2, W/2)."""

    halo = 0

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.out_channels = 2 * channels
        self.norm = ChannelNorm(4 * channels)
        self.reduction = nn.Linear(4 * channels, 2 * channels, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, 2C, ceil(H/2), ceil(W/2))."""
        stacked = self.norm(stacked_neighbours(x))
        return self.reduction(stacked.movedim(1, -1)).movedim(-1, 1)


class ConvolutionMerging(nn.Module):
    """The text's merging: stack 2 x 2, 3 x 3 convolution: (N, C, H, W) -> (N, 2C, H/2, W/2)."""

    halo = 2

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.out_channels = 2 * channels
        self.reduction = nn.Conv2d(4 * channels, 2 * channels, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, 2C, ceil(H/2), ceil(W/2))."""
        return self.reduction(stacked_neighbours(x))


def stacked_neighbours(x: Tensor) -> Tensor:
    """(N, C, H, W) -> (N, 4C, ceil(H/2), ceil(W/2)): the pixels (0, 0), (1, 0), (0, 1), (1, 1)."""
    filled = filled_up(x, 2)
    corners = [filled[..., row::2, column::2] for column in (0, 1) for row in (0, 1)]
    return torch.cat(corners, dim=1)
