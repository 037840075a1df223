"""EDSR: residual blocks of two convolutions, and a residual around all of them.

Paper: Lim et al., CVPRW 2017, doi:10.1109/CVPRW.2017.151; for spectra without its upsampling, as
trained by the authors of MST++ (https://github.com/caiyuanhao1998/MST-plus-plus, MIT), whose
weights load. This is an independent implementation.
"""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from napari_mst.networks.layout import count_of, loaded
from napari_mst.networks.mst_plus_plus import Plus
from napari_mst.networks.network import PHOTO, Network, Pass, Program


class Residual(nn.Module):
    """x + two 3x3 convolutions of x, with ReLU between them."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.body: Any = nn.Sequential(
            _near(features, features), nn.ReLU(), _near(features, features)
        )

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, C, H, W)."""
        return x + self.body(x)


class EDSR(Network):
    """A convolution, *blocks* residual blocks of so many *features*, and two convolutions."""

    def __init__(
        self, in_bands: int = 3, out_bands: int = 31, features: int = 64, blocks: int = 32
    ) -> None:
        super().__init__()
        self.in_bands, self.out_bands, self.features = in_bands, out_bands, features
        residuals = [Residual(features) for _ in range(blocks)]
        self.head = nn.Sequential(_near(in_bands, features))
        self.body: Any = nn.Sequential(*residuals, _near(features, features))
        self.tail = nn.Sequential(_near(features, out_bands))

    def program(self) -> Program:
        """A pass for each block and convolution."""
        *blocks, last = self.body
        passes = [Pass("head", (PHOTO,), self.head, self.features, halo=1)]
        for index, block in enumerate(blocks):
            passes.append(Pass(f"body.{index}", (passes[-1].writes,), block, self.features, halo=2))
        reads = passes[-1].writes, "head"
        passes += [
            Pass("body", reads, Plus(last), self.features, halo=1),
            Pass("bands", ("body",), self.tail, self.out_bands, halo=1),
        ]
        return Program(tuple(passes), self.in_bands, dtype=last.weight.dtype)


def is_edsr(state: Mapping[str, Tensor]) -> bool:
    """True if *state* holds the weights of an `EDSR`; HDNet has the same and more."""
    is_hdnet = any(".subspaces." in key for key in state)
    return "tail.0.weight" in state and not is_hdnet


def build_edsr(state: Mapping[str, Tensor]) -> EDSR:
    """Build the network whose weights *state* holds; raises `CheckpointError` as `loaded`."""

    def make() -> EDSR:
        blocks = count_of(r"body\.(\d+)\.body\.0\.weight", state)
        features, in_bands = state["head.0.weight"].shape[:2]
        return EDSR(in_bands, len(state["tail.0.weight"]), features, blocks)

    return loaded("EDSR", make, state)


def _near(before: int, after: int) -> nn.Conv2d:
    return nn.Conv2d(before, after, 3, padding=1)
