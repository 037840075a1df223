"""A small network of single pixels: from linear sRGB to a spectrum and its 90 % interval.

Root-polynomial features (Finlayson et al., IEEE Trans. Image Process. 24 (2015) 1460,
doi:10.1109/TIP.2015.2405336) represent the colour independently of the exposure, and three encoded
features the brightness up to white. The output is scaled by the brightness and bounded: a black
pixel is black, no colour has a reflectance far above 1, and beyond white a spectrum keeps its
shape.
Letters: N batch, B bands, H rows, W columns.
"""

from abc import abstractmethod
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from napari_mst.networks.forms import DARKEST, LIMIT, OFFSET, PixelwiseStart
from napari_mst.networks.layout import loaded
from napari_mst.networks.module import Network
from napari_mst.networks.network import PHOTO, Pass, Program

_FEATURES = 9
_VALUES = 2.25  # working numbers per pixel and channel of the hidden layers

Layers = list[tuple[Tensor, Tensor]]
"""Weights (out, in) and biases of layers, with GELU between layers."""


class OnePixel(Network):
    """Base of the pixelwise and the camera network, which see one pixel at a time.

    The hidden layers have *width* numbers.
    """

    in_bands = 3

    def __init__(self, out_bands: int, width: int) -> None:
        super().__init__()
        self.out_bands, self.width = out_bands, width

    @abstractmethod
    def layers(self) -> Layers:
        """Four layers in float64, from the `colour_features` of a pixel to B numbers."""

    @abstractmethod
    def start(self) -> PixelwiseStart:
        """The spectra from which the layers start."""

    def first_pass(self, name: str) -> Pass:
        """The single pass from the photo to the map *name* of spectra."""
        width = self.width
        work = _FEATURES * width + 2 * width**2 + width * self.out_bands
        values = int(_VALUES * width)
        return Pass(name, (PHOTO,), self, self.out_bands, work=work, values=values)

    def program(self) -> Program:
        """A single pass, the network itself."""
        return self.program_of([self.first_pass("spectra")])


class PixelwiseNetwork(OnePixel):
    """Three hidden layers of *width*; `forward` takes (N, 3, H, W) linear sRGB, 0 to 1 and beyond.

    It returns (N, B, H, W) reflectance from 0 to `LIMIT`, times the brightest channel if that is
    above 1. Negative light counts as zero.
    """

    def __init__(self, out_bands: int = 31, width: int = 64) -> None:
        super().__init__(out_bands, width)
        self.hidden = nn.Sequential(
            nn.Linear(_FEATURES, width),
            nn.GELU(),
            nn.Linear(width, width),
            nn.GELU(),
            nn.Linear(width, width),
            nn.GELU(),
        )
        self.estimate = nn.Linear(width, out_bands)
        self.margins = nn.Linear(width, 2 * out_bands)

    def forward(self, photo: Tensor) -> Tensor:
        """(N, 3, H, W) -> (N, B, H, W)."""
        pixels = photo.movedim(1, -1).clamp_min(DARKEST)
        return self._spectrum(self.hidden(colour_features(pixels)), pixels).movedim(-1, 1)

    def layers(self) -> Layers:
        """The hidden layers and the output layer of the estimate."""
        found = [*(each for each in self.hidden if isinstance(each, nn.Linear)), self.estimate]
        return [(each.weight.double(), each.bias.double()) for each in found]

    def start(self) -> PixelwiseStart:
        """A start at grey with the brightness of the pixel."""
        return PixelwiseStart(torch.zeros(self.out_bands, 3), slope=1 / 3, least=OFFSET)

    def quantiles(self, photo: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Lower bound (5 %), estimate and upper bound (95 %), each (N, B, H, W), of (N, 3, H, W).

        The lower bound never exceeds the estimate, nor the estimate the upper bound.
        """
        pixels = photo.movedim(1, -1).clamp_min(DARKEST)
        hidden = self.hidden(colour_features(pixels))
        estimate = self._spectrum(hidden, pixels)
        below, above = self.margins(hidden).chunk(2, dim=-1)
        # Sigmoid is below 1 and softplus above 0, so the three never cross.
        lower = estimate * torch.sigmoid(below)
        upper = estimate * (1 + F.softplus(above))
        return lower.movedim(-1, 1), estimate.movedim(-1, 1), upper.movedim(-1, 1)

    def _spectrum(self, hidden: Tensor, pixels: Tensor) -> Tensor:
        limit = LIMIT * pixels.amax(-1, keepdim=True).clamp_min(1)
        brightness = pixels.mean(-1, keepdim=True) + OFFSET
        # In the dark this is about brightness * exp(estimate), so a spectrum fades with the light
        # and black stays black.
        return limit * torch.sigmoid(self.estimate(hidden) + (brightness / limit).log())


def colour_features(pixels: Tensor) -> Tensor:
    """Positive pixels (..., 3) -> features (..., 9) between about -1 and 2."""
    total = pixels.sum(-1, keepdim=True) + OFFSET
    roots = (pixels * pixels.roll(1, -1)).sqrt()
    encoded = pixels.clamp(max=1) ** (1 / 2.4)  # roughly the encoding of sRGB
    return torch.cat([3 * pixels / total - 1, 3 * roots / total - 1, 2 * encoded - 1], dim=-1)


def build_pixelwise(state: Mapping[str, Tensor]) -> PixelwiseNetwork:
    """Build the network whose weights *state* holds; raises `CheckpointError` as `loaded`."""

    def make() -> PixelwiseNetwork:
        out_bands, width = state["estimate.weight"].shape
        return PixelwiseNetwork(out_bands, width)

    return loaded("pixelwise network", make, state)
