"""MST++ that starts from a pixelwise estimate and learns what a pixel's surroundings add to it.

Letters: N batch, B bands, H rows, W columns.
"""

from collections.abc import Mapping
from dataclasses import asdict, replace

import torch
from torch import Tensor

from napari_mst.errors import CheckpointError
from napari_mst.networks.camera import CameraNetwork, build_camera, is_camera
from napari_mst.networks.mst_plus_plus import (
    Hyperparameters,
    MSTPlusPlus,
    Plus,
    build_mst_plus_plus,
)
from napari_mst.networks.network import PHOTO, Pass
from napari_mst.networks.pixelwise import PixelwiseNetwork, build_pixelwise

_PREFIX = "pixelwise."


_BLACK = 0.003
_POWER_WORK = 8
"""Multiplications that take as long as one power."""


class RefiningHyperparameters(Hyperparameters):
    """Those of the MST++ around a pixelwise network."""


class RefiningMSTPlusPlus(MSTPlusPlus):
    """MST++ whose first features are the spectra of a pixelwise network, encoded, plus its convolution of the photo.

    The residual around the network carries these spectra to the output, so while the convolutions
    at both ends are small the result is the pixelwise estimate. Spectra are encoded as sRGB encodes
    light, so that noise and rounding are about as large in the dark as in the light; the result is
    decoded, and never negative.
    """

    def __init__(self, pixelwise: PixelwiseNetwork | CameraNetwork, stages: int = 1) -> None:
        super().__init__(out_bands=pixelwise.hyperparameters.out_bands, stages=stages)
        self.hyperparameters = RefiningHyperparameters(**asdict(self.hyperparameters))
        self.pixelwise = pixelwise

    def first_passes(self, name: str) -> list[Pass]:
        """The estimate of the pixelwise network, encoded, and a convolution of the encoded photo."""
        light, spectra = f"{name} light", f"{name} spectra"
        width = self.hyperparameters.width
        estimate = replace(
            self.pixelwise.first_pass(spectra), local=self.first_spectra, is_kept=False
        )
        return [
            Pass(
                light,
                (PHOTO,),
                encoded,
                self.in_bands,
                is_kept=False,
                work=_POWER_WORK * self.in_bands,
            ),
            estimate,
            Pass(name, (light, spectra), Plus(self.conv_in), width, halo=1),
        ]

    def last_passes(self, bands: str) -> list[Pass]:
        """Encoded spectra -> reflectance."""
        return [
            Pass(
                "reflectance",
                (bands,),
                self.finish,
                self.out_bands,
                work=_POWER_WORK * self.out_bands,
            )
        ]

    def first_spectra(self, photo: Tensor) -> Tensor:
        """The pixelwise estimate, encoded: (N, 3, H, W) -> (N, B, H, W). In full precision: it is what is kept."""
        with torch.autocast(photo.device.type, enabled=False):
            return encoded(self.pixelwise(photo))

    def finish(self, bands: Tensor) -> Tensor:
        """Encoded spectra -> reflectance."""
        return (bands.clamp_min(0) ** 2.4 - _BLACK).clamp_min(0)


def encoded(light: Tensor) -> Tensor:
    """Linear light or reflectance on a scale where equal steps look about equal; what is negative is black."""
    return (light.clamp_min(0) + _BLACK) ** (1 / 2.4)


def is_refining(state: Mapping[str, Tensor]) -> bool:
    """Whether *state* holds the weights of a `RefiningMSTPlusPlus`."""
    return any(key.startswith(_PREFIX) for key in state)


def build_refining(state: Mapping[str, Tensor]) -> RefiningMSTPlusPlus:
    """Build the network whose weights *state* holds and load them strictly.

    Raises
    ------
    CheckpointError
        If tensors are missing, left over or of the wrong shape.
    """
    inner = {
        key.removeprefix(_PREFIX): value for key, value in state.items() if key.startswith(_PREFIX)
    }
    outer = build_mst_plus_plus(
        {key: value for key, value in state.items() if not key.startswith(_PREFIX)}
    )
    pixelwise = build_camera(inner) if is_camera(inner) else build_pixelwise(inner)
    bands, found = pixelwise.hyperparameters.out_bands, outer.hyperparameters
    expected = Hyperparameters(out_bands=bands, width=bands, stages=found.stages)
    if found != expected:  # before memory is taken for as many bands as the smaller part says
        raise CheckpointError(f"Expected {expected}, got {found}.")
    network = RefiningMSTPlusPlus(pixelwise, found.stages)
    network.load_state_dict(
        {**outer.state_dict(), **{_PREFIX + key: value.float() for key, value in inner.items()}}
    )
    return network.eval().requires_grad_(False)
