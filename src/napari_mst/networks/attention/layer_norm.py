"""LayerNorm: the numbers of each token or pixel are normalised to mean 0 and variance 1.

    y_c = g_c (x_c - m) / sqrt(s^2 + eps) + b_c     m = mean_c x_c     s^2 = mean_c (x_c - m)^2

Mean and variance are over the C channels of a single token or pixel; g and b are learnt, and
eps is 1e-5. Paper: Ba et al., "Layer normalization", 2016, arXiv:1607.06450. (Texts that subtract
the sum instead of the mean, and omit eps, mean the same.)
"""

from torch import Tensor, nn


class ChannelNorm(nn.LayerNorm):
    """LayerNorm over the channel axis of (N, C, H, W)."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels)

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, C, H, W)."""
        # torch's LayerNorm normalises the last axis, so the channels move there and back.
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
