"""HINet: two U-shapes in which half of the features are normalised over all pixels.

Paper: Chen et al., CVPRW 2021, arXiv:2105.06086, as trained by the authors of
MST++ (https://github.com/caiyuanhao1998/MST-plus-plus, MIT), whose weights load. This is an
independent implementation. Letters: N batch, C channels, H rows, W columns.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from napari_mst.networks.layout import count_of
from napari_mst.networks.module import Network
from napari_mst.networks.mst_plus_plus import Plus
from napari_mst.networks.network import Program
from napari_mst.networks.shared_modules import Chain, near, wide

_MULTIPLE = 16
_SLOPE = 0.2


class HINetBlock(nn.Module):
    """Two convolutions and a residual; with *norm*, half of the features between are normalised.

    With *others*, convolutions of two maps from the first U-shape are added.
    """

    def __init__(
        self, before: int, after: int, *, norm: bool = False, others: bool = False
    ) -> None:
        super().__init__()
        self.identity = near(before, after, 1)
        self.conv_1, self.conv_2 = near(before, after), near(after, after)
        self.norm: Any = nn.InstanceNorm2d((after + 1) // 2, affine=True) if norm else None
        if others:
            self.csff_enc, self.csff_dec = near(after, after), near(after, after)

    def add_to(self, passes: Chain, name: str, *others: str) -> None:
        """Add the passes of this block; the last one writes the map *name*."""
        reads = passes.last, *others
        if self.norm is None:
            passes.add(f"{name}.first", self.conv_1)
            passes.add(name, self.second, *reads, halo=1)
            return
        first = passes.add(f"{name}.first", self.conv_1, statistic=self.sums, fold=self.factors)
        passes.add(name, self.normalised, *reads, halo=1, uses=first)

    def sums(self, x: Tensor) -> Tensor:
        """Sums of the features to normalise and of their squares over all pixels: (N, 2, C)."""
        half = wide(x[:, : self.norm.num_features])
        return torch.stack([half.sum((2, 3)), half.square().sum((2, 3))], 1)

    def factors(self, sums: Tensor, pixels: int) -> Tensor:
        """Scale and shift of the features: (2, N, C, 1, 1)."""
        mean, square = (sums / pixels).unbind(1)
        factor = self.norm.weight / (square - mean**2 + self.norm.eps).sqrt()
        rest = 0, self.conv_1.out_channels - self.norm.num_features
        shift = F.pad(self.norm.bias - mean * factor, rest)
        return torch.stack([F.pad(factor, rest, value=1), shift])[..., None, None]

    def normalised(self, first: Tensor, *maps_and_factors: Any) -> Tensor:
        """`second` of the normalised features; scale and shift come after the maps."""
        *maps, (factor, shift) = maps_and_factors
        return self.second(first * factor.to(first) + shift.to(first), *maps)

    def second(self, first: Tensor, x: Tensor, *others: Tensor) -> Tensor:
        """Everything after the first convolution: maps (N, C, H, W) -> (N, C, H, W)."""
        second = self.identity(x) + _leaky(self.conv_2(_leaky(first)))
        if others:
            second = second + self.csff_enc(others[0]) + self.csff_dec(others[1])
        return second


class UShape(nn.Module):
    """Blocks at *depth* levels, down and up; *others* is True for the second U-shape."""

    def __init__(self, width: int, depth: int, *, others: bool) -> None:
        super().__init__()
        levels = [width << level for level in range(depth)]
        self.down_path: Any = nn.ModuleList(
            HINetBlock(before, after, norm=True, others=others and after < levels[-1])
            for before, after in pairwise([width, *levels])
        )
        self.up_path: Any = nn.ModuleList()
        self.skip_conv: Any = nn.ModuleList()
        for block, channels in zip(self.down_path, levels[:-1], strict=False):
            block.downsample = nn.Conv2d(channels, channels, 4, 2, 1, bias=False)
        for channels in reversed(levels[:-1]):
            up = nn.ConvTranspose2d(2 * channels, channels, 2, 2)
            block = HINetBlock(2 * channels, channels)
            self.up_path.append(nn.ModuleDict({"up": up, "conv_block": block}))
            self.skip_conv.append(near(channels, channels))

    def add_to(
        self, passes: Chain, name: str, others: Sequence[Sequence[str]] = ()
    ) -> list[tuple[str, str]]:
        """Add the passes; return the maps down and up at every level except the lowest."""
        skips: list[str] = []
        ups: list[str] = []
        of_first = iter(others)
        for level, block in enumerate(self.down_path):
            block.add_to(passes, f"{name}.down.{level}", *next(of_first, ()))
            if level < len(self.up_path):
                skips.append(passes.last)
                passes.add(f"{name}.half.{level}", block.downsample)
        for level, (up, skip_conv) in enumerate(zip(self.up_path, self.skip_conv, strict=True)):
            passes.add(f"{name}.doubled.{level}", up["up"])
            joined, both = Joined(skip_conv), 2 * skip_conv.out_channels
            passes.add(f"{name}.joined.{level}", joined, skips[-1 - level], channels=both)
            up["conv_block"].add_to(passes, f"{name}.up.{level}")
            ups.append(passes.last)
        return list(zip(skips, reversed(ups), strict=True))


class Joined(Plus):
    """A map concatenated with a convolution of another map."""

    def __call__(self, x: Tensor, *others: Tensor) -> Tensor:
        """Maps (N, C, H, W) -> (N, 2 C, H, W)."""
        return torch.cat([x, *map(self.convolution, others)], 1)


class HINet(Network):
    """A first convolution, two U-shapes, and a last convolution with a residual."""

    def __init__(self, in_bands: int = 3, out_bands: int = 31, depth: int = 4) -> None:
        super().__init__()
        self.in_bands, self.out_bands = in_bands, out_bands
        self.conv_in = near(in_bands, out_bands, bias=False)
        self.conv_01, self.conv_02, self.last = (near(out_bands, out_bands) for _ in range(3))
        self.stage_1, self.stage_2 = (
            UShape(out_bands, depth, others=each) for each in (False, True)
        )
        self.sam12 = nn.ModuleDict({f"conv{i}": near(out_bands, out_bands) for i in (1, 2, 3)})
        self.cat12 = near(2 * out_bands, out_bands, 1)

    def program(self) -> Program:
        """Two passes per block, and the passes between blocks."""
        passes = Chain()
        image = passes.add("image", self.conv_in)
        passes.add("first", self.conv_01)
        others = self.stage_1.add_to(passes, "stage.0")
        passes.add("second", self.guided, image, halo=2)
        self.stage_2.add_to(passes, "stage.1", others)
        passes.add("bands", Plus(self.last), image)
        return self.program_of(passes, _MULTIPLE)

    def guided(self, x: Tensor, image: Tensor) -> Tensor:
        """The input features of the second U-shape: maps (N, B, H, W) -> (N, B, H, W)."""
        first, second, third = self.sam12.values()
        guide = torch.sigmoid(third(second(x) + image))
        return self.cat12(torch.cat([self.conv_02(image), first(x) * guide + x], 1))

    @classmethod
    def of(cls, weights: Mapping[str, Tensor]) -> "HINet":
        """A network with the blocks and channels of *weights*."""
        out_bands, in_bands = weights["conv_in.weight"].shape[:2]
        return cls(in_bands, out_bands, count_of(r"stage_1\.down_path\.(\d+)\.", weights))


HINET_KEYS = [(r"^(down_path|up_path|skip_conv)_([12])\.", r"stage_\2.\1.")]
"""Patterns of published keys, and our keys."""


def _leaky(x: Tensor) -> Tensor:
    return F.leaky_relu(x, _SLOPE)
