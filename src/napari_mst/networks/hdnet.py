"""HDNet: EDSR with attention between its halves; the softmaxes run over all pixels.

Paper: Hu et al., CVPR 2022, doi:10.1109/CVPR52688.2022.01702, as trained by the authors of MST++
(https://github.com/caiyuanhao1998/MST-plus-plus, MIT), whose weights load. This is an independent
implementation. Letters: N batch, C channels, H rows, W columns, K softmaxes.
"""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from napari_mst.networks.edsr import EDSR
from napari_mst.networks.shared_modules import Chain, Softmaxes, near, softmax_sums, softmaxes

_SUBSPACES = 4


class FixedNorm(nn.Module):
    """Normalisation by a fixed mean and variance per channel, which training does not change."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight, self.bias, self.running_mean, self.running_var = (
            nn.Parameter(torch.full((channels,), start)) for start in (1.0, 0.0, 0.0, 1.0)
        )

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, C, H, W)."""
        mean, variance = self.running_mean.detach(), self.running_var.detach()
        return F.batch_norm(x, mean, variance, self.weight, self.bias)


class DomainAttention(nn.Module):
    """The sum of x times channel weights and x times pixel weights."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv_q_right = near(channels, 1, 1, bias=False)
        self.conv_v_right, self.conv_q_left, self.conv_v_left = (
            near(channels, channels // 2, 1, bias=False) for _ in range(3)
        )
        self.conv_up = near(channels // 2, channels, 1, bias=False)

    def add_to(self, passes: Chain, name: str) -> None:
        """Add the passes, and the statistics that they need from the previous map."""
        passes[-1] = replace(passes[-1], statistic=self.sums, fold=self.weights, gathers=2)
        x, channels = passes.last, passes[-1].channels
        weighted = passes.add(
            f"{name}.channels",
            self.by_channel,
            channels=channels + 1,
            uses=x,
            statistic=lambda each: softmax_sums(each[:, -1:]),
            fold=softmaxes,
            gathers=1,
        )
        passes.add(name, self.by_pixel, x, channels=channels, uses=weighted)

    def sums(self, x: Tensor) -> Tensor:
        """The sums that a tile contributes to two means: a weighted one, and a plain one."""
        logits = self.conv_q_right(x.to(self.conv_q_right.weight))
        return softmax_sums(torch.cat([logits, torch.zeros_like(logits)], 1), x)

    def weights(self, tiles: Tensor, pixels: int) -> Tensor:
        """Channel weights, and weights for the logits of pixels: (2, N, C, 1, 1)."""
        means = softmaxes(tiles, pixels).means.to(self.conv_up.weight)[..., None, None]
        weights = torch.sigmoid(self.conv_up(self.conv_v_right(means[:, 0])))
        logits = F.conv_transpose2d(self.conv_q_left(means[:, 1]), self.conv_v_left.weight)
        return torch.stack([weights, logits])

    def by_channel(self, x: Tensor, weights: Tensor) -> Tensor:
        """Weighted channels and the logits of the pixels: (N, C, H, W) -> (N, C + 1, H, W)."""
        return torch.cat([x * weights[0], (x * weights[1]).sum(1, keepdim=True)], 1)

    def by_pixel(self, weighted: Tensor, x: Tensor, pixels: Softmaxes) -> Tensor:
        """Add weighted pixels to weighted channels: maps (N, C, H, W) -> (N, C, H, W)."""
        return x * torch.sigmoid(pixels.of(weighted[:, -1:])) + weighted[:, :-1]


class Subspace(nn.Module):
    """Logits of the pixels from a quarter of the channels."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv_dws = near(channels, channels, 1, groups=channels)
        self.conv_point = near(channels, 1, 1)
        self.bn_dws, self.bn_point = FixedNorm(channels), FixedNorm(1)

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, 1, H, W)."""
        largest = F.max_pool2d(F.relu(self.bn_dws(self.conv_dws(x))), 3, 1, 1)
        return F.relu(self.bn_point(self.conv_point(largest)))


class FeatureFusion(nn.Module):
    """x + x times pixel weights, with separate weights for each quarter of the channels."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.subspaces = nn.ModuleList(Subspace(channels // _SUBSPACES) for _ in range(_SUBSPACES))

    def add_to(self, passes: Chain, name: str) -> None:
        """Add the passes of this module."""
        x, channels = passes.last, passes[-1].channels
        logits = passes.add(
            f"{name}.logits",
            self.logits,
            channels=_SUBSPACES,
            halo=1,
            statistic=softmax_sums,
            fold=softmaxes,
            gathers=1,
        )
        passes.add(name, self.weighted, x, channels=channels, uses=logits)

    def logits(self, x: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, 4, H, W)."""
        parts = zip(self.subspaces, x.chunk(_SUBSPACES, 1), strict=True)
        return torch.cat([subspace(part) for subspace, part in parts], 1)

    def weighted(self, logits: Tensor, x: Tensor, pixels: Softmaxes) -> Tensor:
        """(N, 4, H, W) and (N, C, H, W) -> (N, C, H, W)."""
        weights = pixels.of(logits).repeat_interleave(x.shape[1] // _SUBSPACES, 1)
        return x + x * weights


class HDNet(EDSR):
    """32 residual blocks of *features* channels, two attentions, and 31 more blocks."""

    def __init__(self, in_bands: int = 3, out_bands: int = 31, features: int = 48) -> None:
        super().__init__(in_bands, out_bands, features, 65)
        self.body[32] = DomainAttention(features)
        self.body[33] = FeatureFusion(features)

    @classmethod
    def of(cls, weights: Mapping[str, Tensor]) -> "HDNet":
        """A network with the channels of *weights*."""
        features, in_bands = weights["head.0.weight"].shape[:2]
        return cls(in_bands, len(weights["tail.0.weight"]), features)
