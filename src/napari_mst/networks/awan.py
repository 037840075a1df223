"""AWAN: residual blocks whose channels are weighted by a mean over all pixels.

The result attends to itself, in each quarter of the photo. Paper: Li et al., CVPRW 2020,
doi:10.1109/CVPRW50498.2020.00239, as trained by the authors of MST++
(https://github.com/caiyuanhao1998/MST-plus-plus, MIT), whose weights load. This is an independent
implementation. Letters: N batch, C channels, H rows, W columns, P pixels of a quarter.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from napari_mst.networks.layout import count_of
from napari_mst.networks.mst_plus_plus import Plus
from napari_mst.networks.network import PHOTO, Network, Pass, Program
from napari_mst.networks.parts import softmax_sums, softmaxes

_REDUCTION = 16
_INNER = 8
_MOST_PIXELS = 1 << 18
"""Pixels of a photo, 512 x 512: each attends to a quarter of them, which takes two minutes."""


class Reflecting(nn.Conv2d):
    """A convolution that sees the photo reflected at its borders."""

    def __init__(self, before: int, after: int, side: int = 3) -> None:
        super().__init__(before, after, side, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, C', H, W)."""
        pixels = self.kernel_size[0] // 2
        # torch reflects no more than a side has.
        mode = "reflect" if min(x.shape[2:]) > pixels else "replicate"
        return super().forward(F.pad(x, (pixels,) * 4, mode))


class Weighting(nn.Module):
    """A weight for each channel, made of a mean over all pixels, which have weights themselves."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, 1, 1, bias=False)
        self.fc = nn.Sequential(
            nn.Linear(channels, channels // _REDUCTION, bias=False),
            nn.PReLU(),
            nn.Linear(channels // _REDUCTION, channels, bias=False),
            nn.Sigmoid(),
        )

    def sums(self, x: Tensor) -> Tensor:
        """The sums that a tile adds to the mean."""
        return softmax_sums(self.conv(x.to(self.conv.weight)), x)

    def weights(self, tiles: Tensor, pixels: int) -> Tensor:
        """(N, C, 1, 1)."""
        means = softmaxes(tiles, pixels).means.to(self.conv.weight)
        result: Tensor = self.fc(means[:, 0])
        return result[..., None, None]


class Sum(Plus):
    """A convolution of one map, to which another is added, and a PReLU."""

    def __init__(self, convolution: nn.Conv2d, activation: nn.PReLU) -> None:
        super().__init__(convolution)
        self.activation = activation

    def __call__(self, x: Tensor, *others: Tensor) -> Tensor:
        """(N, C, H, W) and maps of C' channels -> (N, C', H, W)."""
        result: Tensor = self.activation(super().__call__(x, *others))
        return result


class Block(nn.Module):
    """Two convolutions of x as a residual, and two more, with a weighting between them.

    The features before the weighting are added to those of the next block.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1, self.conv2, self.down_conv = (Reflecting(channels, channels) for _ in range(3))
        self.up_conv = Reflecting(channels, channels, 5)
        self.relu1, self.relu2, self.up_relu, self.down_relu = (nn.PReLU() for _ in range(4))
        self.se = Weighting(channels)

    def passes(self, name: str, x: str, before: str) -> list[Pass]:
        """Its passes from the maps *x* and *before*, the features of the block before it."""
        channels = self.up_conv.in_channels
        first, second, features = (f"{name}.{each}" for each in ("first", "second", "features"))
        return [
            Pass(first, (x,), nn.Sequential(self.conv1, self.relu1), channels, halo=1),
            Pass(second, (first, x), Sum(self.conv2, self.relu2), channels, halo=1),
            Pass(
                features,
                (second, before),
                Sum(self.up_conv, self.up_relu),
                channels,
                halo=2,
                statistic=self.se.sums,
                fold=self.se.weights,
                gathers=1,
            ),
            Pass(
                name,
                (features, x),
                self.weighted,
                channels,
                halo=1,
                uses=features,
                work=self.down_conv.weight.numel(),
            ),
        ]

    def weighted(self, features: Tensor, x: Tensor, weights: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, C, H, W)."""
        result: Tensor = self.down_relu(self.down_conv(features * weights) + x)
        return result


class NonLocal(nn.Module):
    """Attention between the pixels of each quarter of the photo."""

    def __init__(self, bands: int) -> None:
        super().__init__()
        inner = max(bands // _INNER, 1)
        self.g, self.theta = (nn.Conv2d(bands, inner, 1, bias=False) for _ in range(2))
        self.W = nn.Conv2d(inner, bands, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(N, B, H, W) -> (N, B, H, W)."""
        rows, columns = (
            [half for half in (side // 2, -(-side // 2)) if half] for side in x.shape[2:]
        )
        bands = [
            torch.cat([self.attended(quarter) for quarter in half.split(columns, 3)], 3)
            for half in x.split(rows, 2)
        ]
        return torch.cat(bands, 2)

    def attended(self, x: Tensor) -> Tensor:
        """A quarter (N, B, H, W) -> (N, B, H, W)."""
        keys, values = (each(x).flatten(2).mT[:, None] for each in (self.theta, self.g))
        queries = keys - keys.mean(3, keepdim=True)
        result = F.scaled_dot_product_attention(queries, keys, values, scale=1 / keys.shape[3])
        return x + self.W(result[:, 0].mT.unflatten(2, x.shape[2:]))


class AWAN(Network):
    """Three convolutions, *blocks* blocks of so many *features* between them, and the attention."""

    def __init__(
        self, in_bands: int = 3, out_bands: int = 31, features: int = 96, blocks: int = 8
    ) -> None:
        super().__init__()
        self.in_bands, self.out_bands = in_bands, out_bands
        self.input_conv2D = Reflecting(in_bands, features)
        self.head_conv2D, self.tail_conv2D = (Reflecting(features, features) for _ in range(2))
        self.output_conv2D = Reflecting(features, out_bands)
        self.input_prelu2D, self.output_prelu2D = nn.PReLU(), nn.PReLU()
        self.backbone: Any = nn.ModuleList(Block(features) for _ in range(blocks))
        self.tail_nonlocal = nn.ModuleDict({"non_local": NonLocal(out_bands)})

    def program(self) -> Program:
        """Four passes for each block."""
        features = self.head_conv2D.out_channels
        start = nn.Sequential(self.input_conv2D, self.input_prelu2D, self.head_conv2D)
        passes = [Pass("start", (PHOTO,), start, features, halo=2)]
        before = "start"
        for index, block in enumerate(self.backbone):
            passes += block.passes(f"block.{index}", passes[-1].writes, before)
            before = passes[-2].writes
        tail = Sum(self.tail_conv2D, self.output_prelu2D)
        bands = self.out_bands
        passes += [
            Pass("tail", (passes[-1].writes, "start"), tail, features, halo=1),
            Pass("bands", ("tail",), self.output_conv2D, bands, halo=1),
            Pass("attended", ("bands",), self.tail_nonlocal["non_local"], bands, halo=None),
        ]
        dtype = self.input_conv2D.weight.dtype
        return Program(tuple(passes), self.in_bands, dtype=dtype, most_pixels=_MOST_PIXELS)


def awan_of(weights: Mapping[str, Tensor]) -> AWAN:
    """A network with the blocks and channels of *weights*."""
    features, in_bands = weights["input_conv2D.weight"].shape[:2]
    blocks = count_of(r"backbone\.(\d+)\.", weights)
    return AWAN(in_bands, len(weights["output_conv2D.weight"]), features, blocks)
