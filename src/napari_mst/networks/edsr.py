"""EDSR: residual blocks of two convolutions, and a residual around all of them.

Paper: Lim et al., CVPRW 2017, doi:10.1109/CVPRW.2017.151; for spectra without its upsampling, as
trained by the authors of MST++ (https://github.com/caiyuanhao1998/MST-plus-plus, MIT), whose
weights load. This is an independent implementation.
"""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from napari_mst.networks.layout import count_of
from napari_mst.networks.module import Network
from napari_mst.networks.mst_plus_plus import Plus
from napari_mst.networks.network import Program
from napari_mst.networks.shared_modules import Chain, near


class ResidualBlock(nn.Module):
    """x + two 3x3 convolutions of x, with ReLU between them."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.body: Any = nn.Sequential(
            near(features, features), nn.ReLU(), near(features, features)
        )

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, C, H, W)."""
        return x + self.body(x)

    def add_to(self, passes: Chain, name: str) -> None:
        """Add the pass of this block."""
        passes.add(name, self, halo=2)


class EDSR(Network):
    """A convolution, *blocks* residual blocks of *features* channels, and two convolutions."""

    def __init__(
        self, in_bands: int = 3, out_bands: int = 31, features: int = 64, blocks: int = 32
    ) -> None:
        super().__init__()
        self.in_bands, self.out_bands = in_bands, out_bands
        residuals = [ResidualBlock(features) for _ in range(blocks)]
        self.head = nn.Sequential(near(in_bands, features))
        self.body: Any = nn.Sequential(*residuals, near(features, features))
        self.tail = nn.Sequential(near(features, out_bands))

    def program(self) -> Program:
        """One pass per block and convolution."""
        *blocks, last = self.body
        passes = Chain()
        passes.add("head", self.head, channels=last.out_channels, halo=1)
        for index, block in enumerate(blocks):
            block.add_to(passes, f"body.{index}")
        passes.add("body", Plus(last), "head")
        passes.add("bands", self.tail, channels=self.out_bands, halo=1)
        return self.program_of(passes)

    @classmethod
    def of(cls, weights: Mapping[str, Tensor]) -> "EDSR":
        """A network with the blocks and channels of *weights*."""
        blocks = count_of(r"body\.(\d+)\.body\.0\.weight", weights)
        features, in_bands = weights["head.0.weight"].shape[:2]
        return cls(in_bands, len(weights["tail.0.weight"]), features, blocks)
