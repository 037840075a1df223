"""Denoised cubes: less noise, and a history of it."""

import numpy as np
import pytest

from napari_mst.analysis.maps import denoised
from napari_mst.analysis.statistics import band_noise
from napari_mst.base.errors import DenoisingError
from napari_mst.cube import SpectralCube
from napari_mst.denoising.non_local_means import non_local_means

SIGMA = np.array([0.01, 0.02, 0.04])
SCENE = np.linspace(0.2, 0.7, 3)[:, None, None] * np.kron(
    np.array([[1.0, 0.6], [0.4, 0.8]]), np.ones((32, 32))
)
RNG = np.random.default_rng(5)
NOISY = SCENE + SIGMA[:, None, None] * RNG.standard_normal(SCENE.shape)
CUBE = SpectralCube(NOISY.astype(np.float32), np.array([450.0, 550.0, 650.0]))


def error(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean((values - SCENE) ** 2)))


def test_the_noise_of_each_band_does_not_depend_on_its_shades() -> None:
    shaded = NOISY + np.linspace(0, 0.5, 64)[:, None]
    found = band_noise(shaded, np.ones((64, 64), bool))
    np.testing.assert_allclose(found, SIGMA, rtol=0.1)


def test_a_cube_is_denoised_by_its_own_spectra_in_units_of_their_noise() -> None:
    result = denoised(CUBE, 1.2)
    values = result.data
    assert error(values) < 0.35 * error(NOISY)
    scale = band_noise(CUBE.data, np.ones((64, 64), bool))[:, None, None]
    expected = scale * non_local_means(CUBE.data / scale, 1.2, sigma=1.0)
    np.testing.assert_allclose(values, expected, rtol=1e-5)
    assert "h = 1.2 x the noise of its bands" in result.note


def test_pixels_without_a_value_stay_so_and_count_for_none() -> None:
    data = CUBE.data.copy()
    data[1, 20, 20] = np.nan
    found = denoised(SpectralCube(data, CUBE.wavelengths), 1.2).data
    assert np.isnan(found[:, 20, 20]).all()
    assert np.isfinite(found).sum() == found.size - 3


@pytest.mark.parametrize(
    ("cube", "h", "message"),
    [
        (CUBE, 0.0, "Expected h above 0"),
        (
            SpectralCube(np.ones((2, 5, 5), np.float32), np.array([1.0, 2.0])),
            1.0,
            "Expected a cube with noise",
        ),
    ],
)
def test_what_cannot_be_denoised_is_refused(cube: SpectralCube, h: float, message: str) -> None:
    with pytest.raises(DenoisingError, match=message):
        denoised(cube, h)
