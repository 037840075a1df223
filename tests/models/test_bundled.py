"""Every bundled sRGB model is sane: grey is flat at every exposure, black is black."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from napari_mst import load_model
from napari_mst.cube.colour import linear_to_srgb
from napari_mst.models import MODELS
from napari_mst.models.cards import WEIGHTS
from napari_mst.networks.camera import CameraNetwork
from napari_mst.networks.refining_mst_plus_plus import RefiningMSTPlusPlus
from napari_mst.photo.cameras import Acquisition, camera_response
from napari_mst.photo.photo import Photo
from napari_mst.reconstruction.model_intervals import has_model_band
from napari_mst.reconstruction.reconstructor import Reconstructor
from napari_mst.references.intervals import prediction_intervals

NAMES = [name for name, card in MODELS.items() if card.file and card.is_linear]
OF_KNOWN_EXPOSURE = [name for name in NAMES if MODELS[name].rendering]
SIDE = 24
SATURATED = [
    (1.0, 0.0, 0.0),
    (0.0, 1.0, 0.0),
    (0.0, 0.0, 1.0),
    (1.0, 0.0, 1.0),
    (0.0, 1.0, 1.0),
    (1.0, 1.0, 0.0),
]


def spectra(name: str, colour: tuple[float, float, float]) -> Tensor:
    """The spectra (31, 24, 24) of a photo of one linear colour."""
    network = load_model(name).network
    if MODELS[name].needs_camera:
        assert isinstance(network, RefiningMSTPlusPlus)
        assert isinstance(network.pixelwise, CameraNetwork)
        network.pixelwise.set_response(torch.from_numpy(camera_response("Nikon_D5100", "D50")))
    return network(torch.tensor(colour)[None, :, None, None].expand(1, 3, SIDE, SIDE))[0]


def test_examples_come_after_the_models_to_use_and_are_small() -> None:
    bundled = [card for card in MODELS.values() if card.file]
    assert [card.name for card in bundled if card.is_example] == [
        "mstpp-hybrid",
        "mstpp-mixed",
    ]
    assert bundled[-1].is_example
    assert bundled[-1].file
    assert (WEIGHTS / bundled[-1].file).stat().st_size < 1.5e6


@pytest.mark.parametrize("name", OF_KNOWN_EXPOSURE)
@pytest.mark.parametrize("level", [0.01, 0.2, 1.0])
def test_grey_is_flat_at_every_exposure(name: Any, level: float) -> None:
    estimate = spectra(name, (level, level, level))
    assert estimate.min() > 0.4 * level  # white pigments absorb at 400 nm
    assert estimate.max() < 1.5 * level
    assert estimate[5:27].mean().item() == pytest.approx(level, rel=0.1)


@pytest.mark.parametrize("name", NAMES)
def test_light_beyond_white_is_finite(name: Any) -> None:
    assert torch.isfinite(spectra(name, (4.0, 3.0, 2.0))).all()


def photos() -> dict[str, np.ndarray]:
    """8-bit photos (32, 32, 3) that are hard: colours at every exposure, edges, nothing at all."""
    stops = 2.0 ** np.linspace(-10, 3, 32)
    colours = np.array([(1, 1, 1), (0.2, 0.2, 0.2), *SATURATED, (1, 0.5, 0), (0.9, 0.6, 0.5)])
    exposed = np.resize(colours.repeat(3, axis=0), (32, 1, 3)) * stops[:, None]
    board = np.indices((32, 32)).sum(axis=0) % 2
    return {
        "every exposure": exposed,
        "black": np.zeros((32, 32, 3)),
        "white": np.ones((32, 32, 3)),
        "black and white": np.repeat(board[..., None], 3, axis=2),
        "red and green": np.stack([board, 1 - board, 0 * board], axis=2),
        "noise": np.random.default_rng(0).random((32, 32, 3)),
    }


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", photos())
def test_spectra_and_error_bands_of_hard_photos_are_finite_and_sane(name: Any, kind: Any) -> None:
    codes = np.rint(linear_to_srgb(photos()[kind].clip(0, 1)) * 255).astype(np.uint8)
    model = load_model(name)
    acquisition = Acquisition("Nikon_D5100", "D65") if model.card.needs_camera else None
    photo = Photo.from_array(codes, encoding="linear" if acquisition else "srgb")
    cube = Reconstructor(model, "cpu", acquisition=acquisition).reconstruct(photo)
    assert np.isfinite(cube.data).all()
    assert cube.data.min() >= 0
    assert cube.data.max() < (0.01 if kind == "black" else 1.6)
    if has_model_band(cube):
        lower, upper = prediction_intervals(cube)
        assert (lower.data <= cube.data).all()
        assert (cube.data <= upper.data).all()
        assert upper.data.max() < 5
