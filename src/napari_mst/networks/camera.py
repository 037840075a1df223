"""A small network with the camera as input: from linear RGB of any response to reflectance.

A camera under an illuminant turns reflectances into values by one matrix, its response. The
response and the statistics of measured reflectances turn three values into the most likely
spectrum, the best linear (Wiener) estimate, from which the network starts for every camera. A few
layers refine it. Their inputs are the colour, the estimate in camera-independent coordinates (the
principal components of reflectances), and the response in the same coordinates. A new camera is
just another matrix. Letters: N batch, B bands, K components, H rows, W columns.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from napari_mst.networks.forms import DARKEST, LIMIT, OFFSET, PixelwiseStart
from napari_mst.networks.layout import loaded
from napari_mst.networks.pixelwise import Layers, OnePixel, colour_features

_COLOURS = 9

# The variance of a channel, relative to white, that the linear estimate treats as noise.
_NOISE = 1e-4

# Bounds of the linear estimate: a share of the brightness, and a share of the limit.
_FLOOR = 0.03
_CEILING = 0.97


class CameraNetwork(OnePixel):
    """Three hidden layers of *width* around the linear estimate that `set_response` sets.

    `forward` takes (N, 3, H, W) linear, white-balanced RGB, 0 to 1 and beyond, and returns (N, B,
    H, W) reflectance from 0 to `LIMIT`, times the brightest channel if that is above 1. Negative
    light counts as zero.

    Parameters
    ----------
    factors
        (B, K): reflectances are approximately *factors* times K uncorrelated numbers of mean square
        1.
    """

    factors: Tensor
    usual: Tensor
    seen: Tensor
    linear: Tensor

    def __init__(self, factors: Tensor, width: int = 96) -> None:
        bands, components = factors.shape
        super().__init__(bands, width)
        # Files store 16-bit weights: rounding now keeps the factors unchanged when they are saved.
        self.register_buffer("factors", factors.half().float().contiguous())
        self.register_buffer(
            "usual", torch.stack([torch.zeros(components, 3), torch.ones(components, 3)])
        )
        self.of_colour = nn.Linear(_COLOURS + components, width)
        self.of_camera = nn.Linear(3 * components, 2 * width)
        self.hidden = nn.Sequential(
            nn.GELU(),
            nn.Linear(width, width),
            nn.GELU(),
            nn.Linear(width, width),
            nn.GELU(),
            nn.Linear(width, bands),
        )
        self.forget()

    def forget(self) -> None:
        """Unset the camera: until the next one is set, results are NaN."""
        for name in ("seen", "linear"):
            self.register_buffer(name, self.usual[:1] * torch.nan, persistent=False)

    def set_response(self, response: Tensor) -> None:
        """Set the *response* of the next photos: (B, 3), or (N, B, 3) with one per photo."""
        seen = self._seen(response.reshape(-1, *response.shape[-2:]))
        colours = seen.mT @ seen + _NOISE * torch.eye(3).to(seen)
        linear = torch.linalg.solve(colours, seen.mT).mT
        self.seen = seen.to(self.factors)
        self.linear = linear.to(self.factors)

    def set_usual(self, responses: Tensor) -> None:
        """Normalise cameras by the mean and spread of *responses* (n, B, 3)."""
        seen = self._seen(responses)
        spread = seen.std(0).clamp_min(1e-3)
        self.usual = torch.stack([seen.mean(0), spread]).half().to(self.factors)

    def forward(self, photo: Tensor) -> Tensor:
        """(N, 3, H, W) -> (N, B, H, W)."""
        pixels = photo.movedim(1, -1).clamp_min(DARKEST)
        components = torch.einsum("nhwc,nkc->nhwk", pixels, self.linear)
        total = pixels.sum(-1, keepdim=True) + OFFSET
        colour = self.of_colour(torch.cat([colour_features(pixels), components / total], dim=-1))
        scale, shift = self._told()[:, None, None].chunk(2, dim=-1)
        limit = LIMIT * pixels.amax(-1, keepdim=True).clamp_min(1)
        refined = self._start(components, total, limit) + self.hidden(colour * (1 + scale) + shift)
        return (limit * torch.sigmoid(refined)).movedim(-1, 1)

    def layers(self) -> Layers:
        """All layers, for the first camera set."""
        weight = self.of_colour.weight.double()
        of_colours, of_components = weight[:, :_COLOURS].clone(), weight[:, _COLOURS:]
        # The components are linear in the first features, 3 x pixel / total - 1.
        of_linear = of_components @ self.linear[0].double() / 3
        of_colours[:, :3] += of_linear
        bias = self.of_colour.bias.double() + of_linear.sum(1)
        scale, shift = self._told()[0].double().chunk(2)
        first = (1 + scale)[:, None] * of_colours, (1 + scale) * bias + shift
        others = [each for each in self.hidden if isinstance(each, nn.Linear)]
        return [first, *((each.weight.double(), each.bias.double()) for each in others)]

    def start(self) -> PixelwiseStart:
        """The linear estimate of the first camera, within bounds."""
        floor = _FLOOR / 3
        # Large numbers cancel in the product, so it is rounded only at the end.
        linear = self.factors.double() @ self.linear[0].double()
        return PixelwiseStart(linear, floor, floor * OFFSET, _CEILING, bend=1.0)

    def linear_estimate(self) -> Tensor:
        """The best linear estimate of the camera, (N, B, 3)."""
        return self.factors @ self.linear

    def _start(self, components: Tensor, total: Tensor, limit: Tensor) -> Tensor:
        """The linear estimate within bounds, as a logit, which the layers refine."""
        # A linear estimate may be negative or beyond the limit, where the logit is undefined.
        estimate = components @ self.factors.T
        share = torch.maximum(estimate, _FLOOR / 3 * total) / limit
        return torch.logit(share.clamp_max(_CEILING))

    def _told(self) -> Tensor:
        """Factors minus 1 and summands of the first layer per camera, (N, 2 width)."""
        mean, spread = self.usual
        return self.of_camera(((self.seen - mean) / spread).flatten(1))

    def _seen(self, responses: Tensor) -> Tensor:
        """The colour of each component in each camera, (n, K, 3), in double precision."""
        return self.factors.cpu().double().T @ responses.cpu().double()


def build_camera(state: Mapping[str, Tensor]) -> CameraNetwork:
    """Build the network whose weights *state* holds; raises `CheckpointError` as `loaded`."""

    def make() -> CameraNetwork:
        return CameraNetwork(state["factors"].to("meta"), len(state["of_colour.weight"]))

    network = loaded("camera network", make, state)
    # Buffers that files do not hold were made without memory.
    network.forget()
    return network
