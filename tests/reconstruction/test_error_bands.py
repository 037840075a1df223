"""Error bands: around every spectrum, as wide as the calibration says, from the cube alone."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from napari_mst import load_model
from napari_mst.colour import srgb_response
from napari_mst.cube import SpectralCube
from napari_mst.errors import CubeError
from napari_mst.formats import read_cube, write_cube
from napari_mst.models import MODELS
from napari_mst.networks.pixelwise import PixelwiseNetwork
from napari_mst.reconstruction.error_bands import (
    has_model_band,
    margins,
    model_error_bands,
    model_spectrum_band,
)
from napari_mst.reconstruction.reconstructor import Reconstructor
from napari_mst.simulation.scenes import SceneSimulator

WAVELENGTHS = np.arange(400.0, 701, 10)
PHOTO = np.random.default_rng(0).integers(0, 256, (12, 15, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def cube() -> SpectralCube:
    return Reconstructor(load_model("pixelwise-srgb"), "cpu").reconstruct(PHOTO)


@pytest.mark.parametrize("name", [card.name for card in MODELS.values() if card.file])
def test_every_bundled_model_has_a_calibrated_band(name: str) -> None:
    """After new weights: `napari-mst calibrate` on all files of models/weights."""
    assert 0.5 < MODELS[name].error_factor < 10


def test_cube_lies_in_its_band_and_bands_are_cubes_like_it(cube: SpectralCube) -> None:
    lower, upper = model_error_bands(cube)
    assert (lower.data >= 0).all()
    assert (lower.data <= cube.data).all()
    assert (upper.data > cube.data).all()
    assert lower.shape == upper.shape == cube.shape
    assert lower.data.dtype == np.float32
    assert lower.provenance.assumptions[-1].startswith("Lower spectra of the 90 % error band, ")
    assert upper.provenance.assumptions[-1].startswith("Upper spectra of the 90 % error band, ")


def test_margins_are_the_networks_own_below_and_above() -> None:
    """Some colours are rare: their spectra can lie far above the estimate, but not far below."""
    spectra = np.random.default_rng(1).uniform(0.05, 0.9, (31, 5, 4)).astype(np.float32)
    network = load_model("pixelwise-srgb").network
    assert isinstance(network, PixelwiseNetwork)
    colours = np.einsum("bhw,bc->chw", spectra, srgb_response(WAVELENGTHS)).astype(np.float32)
    lower, estimate, upper = (
        each[0].numpy() for each in network.quantiles(torch.from_numpy(colours)[None])
    )
    below, above = margins(spectra)
    np.testing.assert_allclose(below, estimate - lower, atol=1e-6)
    np.testing.assert_allclose(above, upper - estimate, atol=1e-6)
    assert np.abs(above - below).max() > 0.05  # so that the one is not taken for the other


def test_band_is_the_margins_to_their_own_sides(cube: SpectralCube) -> None:
    lower, upper = model_error_bands(cube)
    below, above = margins(cube.data)
    factor = cube.provenance.error_factor
    np.testing.assert_allclose(lower.data, np.maximum(cube.data - factor * below, 0), atol=1e-6)
    np.testing.assert_allclose(upper.data, cube.data + factor * above, atol=1e-6)


def test_as_many_true_spectra_lie_below_the_networks_band_as_above() -> None:
    """Were its sides swapped in the network itself, a quarter of them would lie below."""
    photo, truth = SceneSimulator(7, 48, held_out=True).draw(1)
    network = load_model("pixelwise-srgb").network
    assert isinstance(network, PixelwiseNetwork)
    lower, _, upper = network.quantiles(photo)
    shares = [float((truth < lower).float().mean()), float((truth > upper).float().mean())]
    assert all(0.005 < share < 0.15 for share in shares), shares


def test_band_of_a_pixel_is_that_of_the_cube(cube: SpectralCube) -> None:
    lower, upper = model_error_bands(cube)
    band = model_spectrum_band(cube, 3, 7)
    assert band is not None
    np.testing.assert_allclose(band[0], lower.spectrum(3, 7), atol=1e-6)
    np.testing.assert_allclose(band[1], upper.spectrum(3, 7), atol=1e-6)


def test_band_grows_with_the_factor(cube: SpectralCube) -> None:
    wider = replace(
        cube, provenance=replace(cube.provenance, error_factor=2 * cube.provenance.error_factor)
    )
    once, twice = (model_error_bands(each)[1].data - cube.data for each in (cube, wider))
    np.testing.assert_allclose(twice, 2 * once, atol=1e-5)


def test_band_needs_no_photo_and_survives_a_file(cube: SpectralCube, tmp_path: Path) -> None:
    again = read_cube(write_cube(tmp_path / "cube.hdr", cube))
    assert has_model_band(again)
    np.testing.assert_array_equal(model_error_bands(again)[0].data, model_error_bands(cube)[0].data)


def test_unknown_pixel_has_an_unknown_band_and_harms_no_other(cube: SpectralCube) -> None:
    holed = replace(cube, data=cube.data.copy())
    holed.data[:, 2, 2] = np.nan
    upper = model_error_bands(holed)[1].data
    assert np.isnan(upper[:, 2, 2]).all()
    assert np.isnan(upper).sum() == 31


def test_cube_without_a_calibrated_model_has_no_band(cube: SpectralCube) -> None:
    foreign = SpectralCube(cube.data, cube.wavelengths)
    shifted = replace(cube, wavelengths=cube.wavelengths + 1)
    for each in (foreign, shifted):
        assert not has_model_band(each)
        assert model_spectrum_band(each, 0, 0) is None
        with pytest.raises(
            CubeError, match="Expected a cube of a model with a calibrated error band"
        ):
            model_error_bands(each)


def test_black_and_white_have_finite_bands() -> None:
    for value in (0.0, 1.0, 5.0):
        below, above = margins(np.full((31, 1, 1), value, np.float32))
        assert np.isfinite(below).all()
        assert np.isfinite(above).all()
        assert below.min() >= 0
