"""HRNet: convolutions of the photo at four sizes, each of which feeds the next larger one.

Paper: Zhao et al., "Hierarchical Regression Network", CVPRW 2020, as trained by the authors of
MST++ (https://github.com/caiyuanhao1998/MST-plus-plus, MIT), whose weights load. Their code
computes an unused gate in each level, which is left out here. This is an independent
implementation. Letters: N batch, C channels, H rows, W columns.
"""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from torch import Tensor, nn

from napari_mst.networks.module import Network
from napari_mst.networks.network import PHOTO, Pass, Program
from napari_mst.networks.shared_modules import Activated, Chain

_DENSE_BLOCKS = {"top": 1, "mid": 1, "bot": 2, "main": 4}
"""Number of dense blocks per level, from an eighth of the photo to its full size."""

_SHARE = 0.1
"""Weight of a block in the sum with its input."""


class Residual(nn.ModuleDict):
    """x + 0.1 times convolutions of x; in a *dense* block each reads all previous features."""

    def __init__(self, channels: int, *, dense: bool) -> None:
        inner = channels // 2 if dense else channels
        convolutions = [Activated(channels + inner * index, inner) for index in range(4 * dense)]
        last = Activated(3 * channels if dense else channels, channels)
        convolutions += [last] if dense else [Activated(channels, channels), last]
        super().__init__({f"conv{number}": each for number, each in enumerate(convolutions, 1)})
        self.is_dense = dense

    def add_to(self, passes: Chain, name: str) -> None:
        """Add one pass per convolution."""
        *first, last = self.values()
        reads = [passes.last]
        for index, each in enumerate(first):
            reads.append(passes.add(f"{name}.{index}", each, reads=tuple(reads)))
        passes.add(name, last, reads=tuple(reads))
        passes[-1] = replace(passes[-1], local=self.added, work=passes[-1].cost)

    def added(self, x: Tensor, *maps: Tensor) -> Tensor:
        """x plus the last convolution: (N, C, H, W) and maps of other C -> (N, C, H, W)."""
        read = (x, *maps) if self.is_dense else maps
        return x + _SHARE * self[f"conv{len(self)}"](*read)


class HRNet(Network):
    """Levels of an eighth, a quarter, half and full size; the last has *width* channels."""

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
        """One pass per convolution."""
        passes = Chain()
        for index, (name, level) in enumerate(self.levels.items()):
            side = 8 >> index
            smaller, photo = passes.last, PHOTO
            if side > 1:
                photo, scale = f"{name}.photo", Fraction(1, side)
                channels = self.in_bands * side**2
                passes.append(Pass(photo, (PHOTO,), nn.PixelUnshuffle(side), channels, scale=scale))
            for part, module in level.items():
                writes = f"{name}.{part}"
                if isinstance(module, Residual):
                    module.add_to(passes, writes)
                elif part == "1":
                    passes.add(writes, module, reads=(photo,))
                else:
                    passes.add(writes, module, *([smaller] if part == "2" else []))
            if side > 1:
                quarter = passes[-1].channels // 4
                shuffle = nn.PixelShuffle(2)
                passes.add(f"{name}.larger", shuffle, channels=quarter, scale=Fraction(2))
        return self.program_of(passes, 8)

    @classmethod
    def of(cls, weights: Mapping[str, Tensor]) -> "HRNet":
        """A network with the blocks and channels of *weights*."""
        width, in_bands = weights["levels.main.1.0.weight"].shape[:2]
        return cls(in_bands, len(weights["levels.main.4.0.weight"]), width)


HRNET_KEYS = [
    (r"^(top|mid|bot|main)(\d+)\.", r"levels.\1.\2."),
    (r"\.conv2d\.", ".0."),
    (r".*\.fc\..*", ""),
]
"""Patterns of published keys, and our keys; gates are left out."""
