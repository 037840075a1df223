"""HRNet: convolutions of the photo at four sizes, each of which gives its features to the next.

Paper: Zhao et al., "Hierarchical Regression Network", CVPRW 2020, as trained by the authors of
MST++ (https://github.com/caiyuanhao1998/MST-plus-plus, MIT), whose weights load. Their code
computes a gate in each level and does not use it: it is left out. This is an independent
implementation. Letters: N batch, C channels, H rows, W columns.
"""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any, cast

from torch import Tensor, nn

from napari_mst.networks.network import PHOTO, Network, Pass, Program
from napari_mst.networks.parts import Activated

_DENSE_BLOCKS = {"top": 1, "mid": 1, "bot": 2, "main": 4}
"""Dense blocks of each level, from an eighth of the photo to its full size."""

_SHARE = 0.1
"""The weight of a block in the sum with what it reads."""


class Residual(nn.ModuleDict):
    """x + 0.1 times convolutions of x; in a *dense* block each reads all features before it."""

    def __init__(self, channels: int, *, dense: bool) -> None:
        inner = channels // 2 if dense else channels
        convolutions = [Activated(channels + inner * index, inner) for index in range(4 * dense)]
        last = Activated(3 * channels if dense else channels, channels)
        convolutions += [last] if dense else [Activated(channels, channels), last]
        super().__init__({f"conv{number}": each for number, each in enumerate(convolutions, 1)})
        self.is_dense = dense

    def passes(self, name: str, x: str) -> list[Pass]:
        """A pass for each convolution, from the map *x*."""
        *first, last = cast("list[Activated]", list(self.values()))
        passes: list[Pass] = []
        reads = [x]
        for index, each in enumerate(first):
            passes.append(each.writing(f"{name}.{index}", *reads))
            reads.append(passes[-1].writes)
        plain = last.writing(name, *reads)
        return [*passes, replace(plain, local=self.added, work=plain.cost)]

    def added(self, x: Tensor, *maps: Tensor) -> Tensor:
        """Add the last convolution to x: (N, C, H, W) and maps of other C -> (N, C, H, W)."""
        read = (x, *maps) if self.is_dense else maps
        result: Tensor = x + _SHARE * self[f"conv{len(self)}"](*read)
        return result


class HRNet(Network):
    """Levels of an eighth, a quarter, half and all of the size, the last of *width* channels."""

    def __init__(self, in_bands: int = 3, out_bands: int = 31, width: int = 64) -> None:
        super().__init__()
        self.in_bands, self.out_bands = in_bands, out_bands
        self.levels: Any = nn.ModuleDict()
        for index, (name, dense) in enumerate(_DENSE_BLOCKS.items()):
            side = 8 >> index
            channels = side * width
            level: Any = nn.ModuleDict({"1": Activated(in_bands * side**2, channels)})
            first, last = (31, "4") if index else (21, "3")
            if index:
                level["2"] = Activated(channels * 3 // 2, channels)
            for number in range(dense + 1):
                level[f"{first + number}"] = Residual(channels, dense=number < dense)
            after = channels if side > 1 else out_bands
            level[last] = Activated(channels, after, 3 if index else 1)
            self.levels[name] = level

    def program(self) -> Program:
        """A pass for each convolution."""
        passes: list[Pass] = []
        for index, (name, level) in enumerate(self.levels.items()):
            side = 8 >> index
            smaller = [each.writes for each in passes[-1:]]
            reads = [PHOTO]
            if side > 1:
                reads = [f"{name}.photo"]
                channels, scale = self.in_bands * side**2, Fraction(1, side)
                passes.append(
                    Pass(reads[0], (PHOTO,), nn.PixelUnshuffle(side), channels, scale=scale)
                )
            for part, module in level.items():
                writes = f"{name}.{part}"
                if isinstance(module, Residual):
                    passes += module.passes(writes, *reads)
                else:
                    passes.append(module.writing(writes, *reads, *(smaller if part == "2" else [])))
                reads = [writes]
            if side > 1:
                quarter = passes[-1].channels // 4
                larger = Pass(
                    f"{name}.larger", (reads[0],), nn.PixelShuffle(2), quarter, scale=Fraction(2)
                )
                passes.append(larger)
        return Program(tuple(passes), self.in_bands, 8, self.levels["main"]["1"][0].weight.dtype)


HRNET_KEYS = [
    (r"^(top|mid|bot|main)(\d+)\.", r"levels.\1.\2."),
    (r"\.conv2d\.", ".0."),
    (r".*\.fc\..*", ""),
]
"""Patterns of the published keys, and ours; gates are left out."""


def hrnet_of(weights: Mapping[str, Tensor]) -> HRNet:
    """A network with the blocks and channels of *weights*."""
    width, in_bands = weights["levels.main.1.0.weight"].shape[:2]
    return HRNet(in_bands, len(weights["levels.main.4.0.weight"]), width)
