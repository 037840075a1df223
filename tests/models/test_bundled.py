"""What every bundled sRGB model keeps to: grey is flat at every exposure, black is black, nothing is wild."""

import pytest
import torch
from torch import Tensor

from napari_mst import load_model
from napari_mst.cameras import camera_response
from napari_mst.models import MODELS

NAMES = [name for name, card in MODELS.items() if card.file and card.is_linear]
SIDE = 24
SATURATED = [(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (1.0, 0.0, 1.0), (0.0, 1.0, 1.0), (1.0, 1.0, 0.0)]


def spectra(name: str, colour: tuple[float, float, float]) -> Tensor:
    """The spectra (31, 24, 24) of a photo of one linear colour."""
    network = load_model(name).network
    if MODELS[name].needs_camera:
        network.pixelwise.see_with(torch.from_numpy(camera_response("Nikon_D5100", "D50")))
    return network(torch.tensor(colour)[None, :, None, None].expand(1, 3, SIDE, SIDE))[0]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("level", [0.01, 0.05, 0.2, 0.5, 1.0])
def test_grey_is_flat_at_every_exposure(name, level):
    estimate = spectra(name, (level, level, level))
    assert estimate.min() > 0.4 * level  # white pigments absorb at 400 nm
    assert estimate.max() < 1.5 * level
    assert estimate[5:27].mean().item() == pytest.approx(level, rel=0.1)


@pytest.mark.parametrize("name", NAMES)
def test_black_is_black(name):
    assert spectra(name, (0.0, 0.0, 0.0)).max() < 0.01


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "colour", [(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (1.0, 0.0, 1.0), (0.0, 1.0, 1.0)]
)
def test_saturated_colours_are_finite_and_bounded(name, colour):
    estimate = spectra(name, colour)
    assert estimate.min() >= 0
    assert estimate.max() < 1.5


@pytest.mark.parametrize("name", NAMES)
def test_light_beyond_white_is_finite(name):
    assert torch.isfinite(spectra(name, (4.0, 3.0, 2.0))).all()
