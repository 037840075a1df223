"""MST++ that starts from a pixelwise estimate and learns what the surroundings of a pixel add.

Letters: N batch, B bands, H rows, W columns.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Unpack

import torch
from torch import Tensor

from napari_mst.base.errors import CheckpointError
from napari_mst.networks.camera import CameraNetwork, build_camera
from napari_mst.networks.forms import BLACK
from napari_mst.networks.hyperparameters import AttentionParameters
from napari_mst.networks.mst_plus_plus import MSTPlusPlus, Plus, build_mst_plus_plus
from napari_mst.networks.network import PHOTO, Pass
from napari_mst.networks.pixelwise import PixelwiseNetwork, build_pixelwise
from napari_mst.networks.shared_modules import Chain

_PREFIX = "pixelwise."

_POWER_WORK = 8
"""Number of multiplications that take as long as one power."""


class RefiningMSTPlusPlus(MSTPlusPlus):
    """MST++ that refines the spectra of a pixelwise network.

    Its first features are the encoded spectra plus a convolution of the photo.

    The residual around the network carries these spectra to the output: while the convolutions at
    both ends are small, the result is the pixelwise estimate. Spectra are encoded like light in
    sRGB, so that noise and rounding are about equal in dark and bright pixels. The result is
    decoded and never negative. See `MSTPlusPlus` for *attention*.
    """

    def __init__(
        self,
        pixelwise: PixelwiseNetwork | CameraNetwork,
        stages: int = 1,
        **attention: Unpack[AttentionParameters],
    ) -> None:
        super().__init__(out_bands=pixelwise.out_bands, stages=stages, **attention)
        self.pixelwise = pixelwise

    def first_passes(self, name: str) -> list[Pass]:
        """The encoded estimate of the pixelwise network, and a convolution of the encoded photo."""
        light = f"{name} light"
        work = _POWER_WORK * self.in_bands
        encode = Pass(light, (PHOTO,), encoded, self.in_bands, is_kept=False, work=work)
        spectra = self.pixelwise.first_pass(f"{name} spectra")
        estimate = replace(spectra, local=self.first_spectra, is_kept=False)
        add = Chain(light)
        add.add(name, Plus(self.conv_in), spectra.writes)
        return [encode, estimate, *add]

    def last_passes(self, bands: str) -> list[Pass]:
        """Encoded spectra -> reflectance."""
        work = _POWER_WORK * self.out_bands
        return [Pass("reflectance", (bands,), decoded, self.out_bands, work=work)]

    def first_spectra(self, photo: Tensor) -> Tensor:
        """The pixelwise estimate, encoded: (N, 3, H, W) -> (N, B, H, W).

        Computed in full precision, since the result is a refinement of this estimate.
        """
        with torch.autocast(photo.device.type, enabled=False):
            return encoded(self.pixelwise(photo))


def encoded(light: Tensor) -> Tensor:
    """Linear light or reflectance on a scale on which equal steps look about equal.

    Negative light counts as black.
    """
    return (light.clamp_min(0) + BLACK) ** (1 / 2.4)


def decoded(codes: Tensor) -> Tensor:
    """Encoded spectra -> non-negative reflectance."""
    return (codes.clamp_min(0) ** 2.4 - BLACK).clamp_min(0)


def build_refining(state: Mapping[str, Tensor]) -> RefiningMSTPlusPlus:
    """Build the network whose weights *state* holds and load them strictly.

    Raises
    ------
    CheckpointError
        If tensors are missing, left over or of the wrong shape.
    """
    inner = {key: value for key, value in state.items() if key.startswith(_PREFIX)}
    outer = build_mst_plus_plus({key: value for key, value in state.items() if key not in inner})
    inner = {key.removeprefix(_PREFIX): value for key, value in inner.items()}
    build = build_camera if "of_camera.weight" in inner else build_pixelwise
    pixelwise: PixelwiseNetwork | CameraNetwork = build(inner)
    bands = pixelwise.out_bands
    found = outer.hyperparameters
    expected = replace(found, in_bands=3, out_bands=bands, width=bands)
    if found != expected:  # before allocating memory for the bands stated by the smaller part
        raise CheckpointError(f"Expected {expected}, got {found}.")
    network = RefiningMSTPlusPlus(pixelwise, found.stages, **found.attention_parameters)
    network.load_state_dict({**outer.state_dict(), **pixelwise.state_dict(prefix=_PREFIX)})
    return network.eval().requires_grad_(False)
