"""The errors of whole cubes, judged by `napari_mst.metrics` on the arrays."""

import numpy as np
import pytest

from napari_mst import metrics
from napari_mst.cube import SpectralCube
from napari_mst.errors import Cancelled, SpectrumError
from napari_mst.spectra import strips
from napari_mst.spectra.cube_errors import CubeErrors, cube_errors
from napari_mst.watch import Watch

WAVELENGTHS = np.linspace(400, 700, 7)
RNG = np.random.default_rng(9)
REFERENCE = SpectralCube(RNG.uniform(0.0, 0.9, (7, 20, 24)).astype(np.float32), WAVELENGTHS)
CUBE = SpectralCube(
    REFERENCE.data + RNG.normal(0, 0.1, (7, 20, 24)).astype(np.float32), WAVELENGTHS
)
E = CUBE.data.astype(float)
R = REFERENCE.data.astype(float)


@pytest.fixture(autouse=True, params=[30, 2**20])
def _strips(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each rule holds in many strips and in one."""
    monkeypatch.setattr(strips, "STRIP_PIXELS", request.param)


def assert_metrics(found: CubeErrors, estimate: metrics.Cube, reference: metrics.Cube) -> None:
    """The totals are those of the metrics for the same arrays."""
    assert found.mrae == pytest.approx(metrics.mrae(estimate, reference))
    assert found.rmse == pytest.approx(metrics.rmse(estimate, reference))
    assert found.psnr == pytest.approx(metrics.psnr(estimate, reference))
    assert found.angle == pytest.approx(metrics.spectral_angle(estimate, reference))


def test_totals_are_the_metrics() -> None:
    found = cube_errors(CUBE, REFERENCE)
    assert_metrics(found, E, R)
    assert found.pixels == 20 * 24
    assert found.psnr + 20 * np.log10(255) == pytest.approx(cube_errors(CUBE, REFERENCE, 255).psnr)


def test_bands_are_the_metrics_of_each_alone() -> None:
    found = cube_errors(CUBE, REFERENCE)
    lit = (R > metrics.DARK).all(axis=0)
    for band, (e, r) in enumerate(zip(E, R, strict=True)):
        assert found.band_rmse[band] == pytest.approx(metrics.rmse(e[None], r[None]))
        assert found.band_psnr[band] == pytest.approx(metrics.psnr(e[None], r[None]))
        assert found.band_mrae[band] == pytest.approx(metrics.mrae(e[None, lit], r[None, lit]))
    np.testing.assert_array_equal(found.wavelengths, WAVELENGTHS)


def test_pixels_that_are_no_numbers_in_either_do_not_count() -> None:
    data = CUBE.data.copy()
    other = REFERENCE.data.copy()
    data[2, 10, 12] = np.nan
    other[1, 11, 12] = np.inf
    found = cube_errors(SpectralCube(data, WAVELENGTHS), SpectralCube(other, WAVELENGTHS))
    good = np.isfinite(data).all(axis=0) & np.isfinite(other).all(axis=0)
    assert_metrics(found, E[:, good], R[:, good])
    assert found.pixels == 20 * 24 - 2


def test_only_shared_bands_are_compared() -> None:
    part = SpectralCube(REFERENCE.data[2:], WAVELENGTHS[2:])
    found = cube_errors(CUBE, part)
    assert_metrics(found, E[2:], R[2:])
    np.testing.assert_array_equal(found.wavelengths, WAVELENGTHS[2:])


def test_equal_cubes_have_no_error() -> None:
    found = cube_errors(CUBE, CUBE)
    assert (found.rmse, found.mrae) == (0, 0)
    assert found.psnr == float("inf")


def test_dark_reference_has_no_relative_error_and_no_angle() -> None:
    black = SpectralCube(np.zeros_like(CUBE.data), WAVELENGTHS)
    found = cube_errors(CUBE, black)
    assert np.isnan([found.mrae, found.angle, *found.band_mrae]).all()
    assert found.rmse == pytest.approx(metrics.rmse(E, 0 * R))


def test_cubes_without_a_common_pixel_are_refused() -> None:
    empty = SpectralCube(np.full_like(CUBE.data, np.nan), WAVELENGTHS)
    with pytest.raises(SpectrumError, match="Expected pixels that are numbers in both cubes"):
        cube_errors(CUBE, empty)


def test_progress_and_cancel() -> None:
    shares: list[float] = []
    cube_errors(CUBE, REFERENCE, watch=shares.append)
    assert (shares[0], shares[-1]) == (0, 1)
    with pytest.raises(Cancelled):
        cube_errors(CUBE, REFERENCE, watch=Watch(is_cancelled=lambda: True))
