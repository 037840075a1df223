"""AWAN: residual blocks whose channels are weighted by a mean over all pixels.

The pixels of the result then attend to each other within each quarter of the photo. Paper: Li et
al., CVPRW 2020, doi:10.1109/CVPRW50498.2020.00239, as trained by the authors of MST++
(https://github.com/caiyuanhao1998/MST-plus-plus, MIT), whose weights load. This is an independent
implementation. Letters: N batch, C channels, H rows, W columns, P pixels of a quarter.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from napari_mst.networks.attention.query import check_pixel, unmasked
from napari_mst.networks.attention_spec import AttentionSpec, QueryWeights
from napari_mst.networks.layout import count_of
from napari_mst.networks.module import Network
from napari_mst.networks.mst_plus_plus import Plus
from napari_mst.networks.network import Program
from napari_mst.networks.shared_modules import Chain, softmax_sums, softmaxes

_REDUCTION = 16
_INNER = 8
_MOST_PIXELS = 1 << 18
"""Most pixels of a photo, 512 x 512: each attends to a quarter of them, in two minutes."""


class Reflecting(nn.Conv2d):
    """A convolution with reflection at the borders of the photo."""

    def __init__(self, before: int, after: int, side: int = 3) -> None:
        super().__init__(before, after, side, padding=side // 2, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, C', H, W)."""
        pixels = int(self.padding[0])
        # torch cannot reflect by more pixels than a side has.
        mode = "reflect" if min(x.shape[2:]) > pixels else "replicate"
        return F.conv2d(F.pad(x, (pixels,) * 4, mode), self.weight)


class Weighting(nn.Module):
    """Channel weights from a weighted mean over all pixels."""

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
        """The sums that a tile contributes to the mean."""
        return softmax_sums(self.conv(x.to(self.conv.weight)), x)

    def weights(self, tiles: Tensor, pixels: int) -> Tensor:
        """(N, C, 1, 1)."""
        means = softmaxes(tiles, pixels).means.to(self.conv.weight)
        return self.fc(means[:, 0])[..., None, None]


class Sum(Plus):
    """A convolution of one map, the addition of another map, and a PReLU."""

    def __init__(self, convolution: nn.Conv2d, activation: nn.PReLU) -> None:
        super().__init__(convolution)
        self.activation = activation

    def __call__(self, x: Tensor, *others: Tensor) -> Tensor:
        """(N, C, H, W) and maps of C' channels -> (N, C', H, W)."""
        return self.activation(super().__call__(x, *others))


class AWANBlock(nn.Module):
    """Two convolutions of x as a residual, then two more with a channel weighting between them.

    The features before the weighting are added to those of the next block.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1, self.conv2, self.down_conv = (Reflecting(channels, channels) for _ in range(3))
        self.up_conv = Reflecting(channels, channels, 5)
        self.relu1, self.relu2, self.up_relu, self.down_relu = (nn.PReLU() for _ in range(4))
        self.se = Weighting(channels)

    def add_to(self, passes: Chain, name: str, before: str) -> str:
        """Add the passes, which read the last block's features *before*; return the new ones."""
        x = passes.last
        passes.add(f"{name}.first", nn.Sequential(self.conv1, self.relu1), halo=1)
        passes.add(f"{name}.second", Sum(self.conv2, self.relu2), x)
        features = passes.add(
            f"{name}.features",
            Sum(self.up_conv, self.up_relu),
            before,
            statistic=self.se.sums,
            fold=self.se.weights,
            gathers=1,
        )
        work = self.down_conv.weight.numel()
        passes.add(name, self.weighted, x, halo=1, uses=features, work=work)
        return features

    def weighted(self, features: Tensor, x: Tensor, weights: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, C, H, W)."""
        return self.down_relu(self.down_conv(features * weights) + x)


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
            [half for half in (side // 2, side - side // 2) if half] for side in x.shape[2:]
        )
        bands = [
            torch.cat([self.attended(quarter) for quarter in half.split(columns, 3)], 3)
            for half in x.split(rows, 2)
        ]
        return torch.cat(bands, 2)

    def weights(self, x: Tensor, query: Sequence[int]) -> QueryWeights:
        """The weights of all pixels of its quarter for the pixel *query* (row, column)."""
        check_pixel(x, query)
        halves = [(torch.arange(side // 2), torch.arange(side // 2, side)) for side in x.shape[2:]]
        own = [half[index >= len(half[0])] for index, half in zip(query, halves, strict=True)]
        places = torch.cartesian_prod(*own)
        keys = self.theta(x)[0, :, places[:, 0], places[:, 1]].mT
        (asking,) = keys[(places == torch.tensor(query)).all(1)]
        scores = keys @ (asking - asking.mean()) / len(asking)
        return unmasked(scores.softmax(0)[None], places)

    def attended(self, x: Tensor) -> Tensor:
        """A quarter (N, B, H, W) -> (N, B, H, W)."""
        keys, values = (each(x).flatten(2).mT[:, None] for each in (self.theta, self.g))
        queries = keys - keys.mean(3, keepdim=True)
        result = F.scaled_dot_product_attention(queries, keys, values, scale=1 / keys.shape[3])
        return x + self.W(result[:, 0].mT.unflatten(2, x.shape[2:]))


class AWAN(Network):
    """Three convolutions, *blocks* blocks of *features* channels, and attention within quarters."""

    def __init__(
        self, in_bands: int = 3, out_bands: int = 31, features: int = 96, blocks: int = 8
    ) -> None:
        super().__init__()
        self.in_bands, self.out_bands = in_bands, out_bands
        self.input_conv2D = Reflecting(in_bands, features)
        self.head_conv2D, self.tail_conv2D = (Reflecting(features, features) for _ in range(2))
        self.output_conv2D = Reflecting(features, out_bands)
        self.input_prelu2D, self.output_prelu2D = nn.PReLU(), nn.PReLU()
        self.backbone: Any = nn.ModuleList(AWANBlock(features) for _ in range(blocks))
        self.tail_nonlocal = nn.ModuleDict({"non_local": NonLocal(out_bands)})

    def program(self) -> Program:
        """Four passes for each block."""
        first = nn.Sequential(self.input_conv2D, self.input_prelu2D, self.head_conv2D)
        passes = Chain()
        features = passes.add("start", first, channels=self.head_conv2D.out_channels, halo=2)
        for index, block in enumerate(self.backbone):
            features = block.add_to(passes, f"block.{index}", features)
        passes.add("tail", Sum(self.tail_conv2D, self.output_prelu2D), "start")
        passes.add("bands", self.output_conv2D)
        last: Any = self.tail_nonlocal["non_local"]
        spec = AttentionSpec(
            block="attended", channels=self.out_bands, heads=1, weights=last.weights
        )
        passes.add("attended", last, halo=None, attention=(spec,))
        return self.program_of(passes, most_pixels=_MOST_PIXELS)

    @classmethod
    def of(cls, weights: Mapping[str, Tensor]) -> "AWAN":
        """A network with the blocks and channels of *weights*."""
        features, in_bands = weights["input_conv2D.weight"].shape[:2]
        blocks = count_of(r"backbone\.(\d+)\.", weights)
        return cls(in_bands, len(weights["output_conv2D.weight"]), features, blocks)
