"""MST++ that starts from a pixelwise estimate and learns what a pixel's surroundings add to it.

Letters: N batch, B bands, H rows, W columns.
"""

from collections.abc import Mapping

from torch import Tensor

from napari_mst.errors import CheckpointError
from napari_mst.models.mst_plus_plus import MSTPlusPlus, build_mst_plus_plus
from napari_mst.models.pixelwise import PixelwiseNetwork, build_pixelwise

_PREFIX = "pixelwise."


class RefiningMSTPlusPlus(MSTPlusPlus):
    """MST++ whose first features are its first convolution of the photo plus the spectra of a pixelwise network.

    The residual around the network carries these spectra to the output, so while the last convolution is small the
    result is the pixelwise estimate.
    """

    def __init__(self, pixelwise: PixelwiseNetwork, stages: int = 3) -> None:
        super().__init__(out_bands=pixelwise.hyperparameters.out_bands, stages=stages)
        self.pixelwise = pixelwise

    def shallow(self, photo: Tensor) -> Tensor:
        """(N, 3, H, W) -> (N, B, H, W)."""
        return self.conv_in(photo) + self.pixelwise(photo)


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
    inner = {key.removeprefix(_PREFIX): value for key, value in state.items() if key.startswith(_PREFIX)}
    outer = build_mst_plus_plus({key: value for key, value in state.items() if not key.startswith(_PREFIX)})
    network = RefiningMSTPlusPlus(build_pixelwise(inner), outer.hyperparameters.stages)
    if network.hyperparameters != outer.hyperparameters:
        raise CheckpointError(f"Expected {network.hyperparameters}, got {outer.hyperparameters}.")
    network.load_state_dict({**outer.state_dict(), **{_PREFIX + key: value.float() for key, value in inner.items()}})
    return network.eval().requires_grad_(False)
