"""HSCNN+ with dense connections: each block reads the features of all previous blocks.

Paper: Shi et al., CVPRW 2018, doi:10.1109/CVPRW.2018.00139 (HSCNN-D), as trained by the authors of
MST++ (https://github.com/caiyuanhao1998/MST-plus-plus, MIT), whose weights load. This is an
independent implementation.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from napari_mst.networks.layout import count_of
from napari_mst.networks.module import Network
from napari_mst.networks.mst_plus_plus import Concatenated
from napari_mst.networks.network import PHOTO, Pass, Program
from napari_mst.networks.shared_modules import near

_GROWTH = 32
_COMMON = 128


class Branches(nn.Module):
    """Two branches of a 3x3 and a 1x1 convolution, whose features are all concatenated."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.conv_up1, self.conv_down1 = (near(before, _GROWTH, 3, bias=False) for _ in range(2))
        self.conv_up2, self.conv_down2 = (near(_GROWTH, after, 1, bias=False) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, C', H, W)."""
        up, down = F.relu(self.conv_up1(x)), F.relu(self.conv_down1(x))
        return torch.cat([up, F.relu(self.conv_up2(up)), down, F.relu(self.conv_down2(down))], 1)


class Fusion(Branches):
    """Two branches of all features so far, fused to 32 new ones."""

    def __init__(self, before: int) -> None:
        super().__init__(_COMMON, _GROWTH // 2)
        self.conv1 = near(before, _COMMON, 1, bias=False)
        self.conv_fution = near(3 * _GROWTH, _GROWTH, 1, bias=False)

    def forward(self, *maps: Tensor) -> Tensor:
        """Maps (N, C, H, W) -> (N, 32, H, W)."""
        branches = super().forward(F.relu(self.conv1(torch.cat(maps, 1))))
        return F.relu(self.conv_fution(branches))


class HSCNNPlus(Network):
    """Two branches of the photo, *blocks* fusions, and a 1x1 convolution of all features."""

    def __init__(self, in_bands: int = 3, out_bands: int = 31, blocks: int = 30) -> None:
        super().__init__()
        self.in_bands, self.out_bands = in_bands, out_bands
        before = [_COMMON + _GROWTH * index for index in range(blocks + 1)]
        self.ddfn: Any = Branches(in_bands, _GROWTH)
        self.ddfn.dfus_blocks = nn.ModuleList([Fusion(count) for count in before[:-1]])
        self.conv_out = near(before[-1], out_bands, 1, bias=False)

    def program(self) -> Program:
        """One pass per block; all their maps are needed at the end."""
        passes = [Pass("start", (PHOTO,), self.start, _COMMON, halo=1)]
        reads = ["start"]
        for index, block in enumerate(self.ddfn.dfus_blocks):
            passes.append(Pass(f"block.{index}", tuple(reads), block, _GROWTH, halo=1))
            reads.append(passes[-1].writes)
        bands = Pass("bands", tuple(reads), Concatenated(self.conv_out), self.out_bands)
        return self.program_of([*passes, bands])

    def start(self, photo: Tensor) -> Tensor:
        """Both branches of the photo, (N, in_bands, H, W) -> (N, 128, H, W)."""
        return self.ddfn(photo)

    @classmethod
    def of(cls, weights: Mapping[str, Tensor]) -> "HSCNNPlus":
        """A network with the blocks and channels of *weights*."""
        blocks = count_of(r"ddfn\.dfus_blocks\.(\d+)\.conv1\.weight", weights)
        in_bands = weights["ddfn.conv_up1.weight"].shape[1]
        return cls(in_bands, len(weights["conv_out.weight"]), blocks)
