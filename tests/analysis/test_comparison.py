"""Comparisons with a reference, judged by `napari_mst.cube.metrics` and `spectral`."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import spectral
from numpy.testing import assert_allclose, assert_array_equal
from tests.analysis.conftest import bounds

from napari_mst.analysis import label_means, strips
from napari_mst.analysis.comparison import (
    Scores,
    compare_region,
    cube_errors,
    error_map,
    psnr,
)
from napari_mst.analysis.regions import Region
from napari_mst.base.errors import SpectrumError
from napari_mst.cube import SpectralCube, metrics

WAVELENGTHS = np.linspace(400, 700, 7)
SHAPE = (20, 24)
RNG = np.random.default_rng(5)
REFERENCE = SpectralCube(RNG.uniform(0.0, 0.9, (7, *SHAPE)).astype(np.float32), WAVELENGTHS)
CUBE = SpectralCube(
    (REFERENCE.data + RNG.normal(0, 0.1, (7, *SHAPE))).astype(np.float32), WAVELENGTHS
)
DISC = np.hypot(*np.mgrid[-10:10, -12:12]) < 9
E = CUBE.data.astype(float)
R = REFERENCE.data.astype(float)


@pytest.fixture(autouse=True, params=[30, 2**20])
def _blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strips, "STRIP_NUMBERS", request.param)
    monkeypatch.setattr(label_means, "BLOCK_PIXELS", request.param)


def test_region_has_the_metrics_of_its_pixels() -> None:
    found = compare_region(CUBE, REFERENCE, Region.of_mask(DISC, "disc"))
    e, r = E[:, DISC], R[:, DISC]
    assert found.mrae == pytest.approx(metrics.mrae(e, r))
    assert found.rmse == pytest.approx(metrics.rmse(e, r))
    assert found.angle == pytest.approx(metrics.spectral_angle(e, r))
    assert found.pixels == found.error.origin.pixels == DISC.sum()
    assert_allclose(found.error.values, (e - r).mean(axis=1))
    for bound, sign in zip(bounds(found.error), (-1, 1), strict=True):
        assert_allclose(sign * (bound - found.error.values), (e - r).std(axis=1))
    assert (found.error.name, found.error.spread) == ("disc", "std")


def test_pixels_that_are_no_numbers_in_either_are_left_out() -> None:
    data, other = CUBE.data.copy(), REFERENCE.data.copy()
    data[2, 10, 12] = other[1, 11, 12] = np.nan
    found = compare_region(
        SpectralCube(data, WAVELENGTHS),
        SpectralCube(other, WAVELENGTHS),
        Region.of_mask(DISC, "disc"),
    )
    good = DISC & np.isfinite(data).all(axis=0) & np.isfinite(other).all(axis=0)
    assert (found.pixels, found.error.origin.excluded) == (DISC.sum() - 2, 2)
    assert found.rmse == pytest.approx(metrics.rmse(E[:, good], R[:, good]))


def test_dark_reference_has_no_relative_error() -> None:
    black = SpectralCube(np.zeros_like(CUBE.data), WAVELENGTHS)
    found = compare_region(CUBE, black, Region.of_mask(DISC))
    assert np.isnan([found.mrae, found.angle]).all()
    assert found.rmse > 0
    for measure in ("mrae", "angle"):
        assert np.isnan(error_map(CUBE, black, measure)).all()


def test_reference_of_other_bands_is_interpolated_where_they_overlap() -> None:
    fine = np.linspace(430, 900, 300)
    inside = WAVELENGTHS >= 430
    data = np.stack([np.interp(fine, WAVELENGTHS, column) for column in R.reshape(7, -1).T], axis=1)
    reference = SpectralCube(data.reshape(300, *SHAPE), fine)
    found = compare_region(CUBE, reference, Region.of_mask(DISC))
    assert_array_equal(found.error.wavelengths, WAVELENGTHS[inside])
    assert_allclose(found.error.values, (E - R)[inside][:, DISC].mean(axis=1), atol=2e-3)
    assert_allclose(
        error_map(CUBE, reference, "rmse"),
        np.sqrt(np.square((E - R)[inside]).mean(axis=0)),
        atol=0.01,
    )


EXPECTED = {
    "difference": (E - R).mean(axis=0),
    "rmse": np.sqrt(np.square(E - R).mean(axis=0)),
    "mrae": np.where((R > metrics.DARK).all(axis=0), (np.abs(E - R) / R).mean(axis=0), np.nan),
    "angle": np.degrees(
        [
            [
                spectral.spectral_angles(E[None, None, :, i, j], R[None, :, i, j])[0, 0, 0]
                for j in range(24)
            ]
            for i in range(20)
        ]
    ),
}


@pytest.mark.parametrize("measure", EXPECTED)
def test_map_has_the_error_of_each_pixel(measure: Any) -> None:
    assert_allclose(error_map(CUBE, REFERENCE, measure), EXPECTED[measure], rtol=1e-5)


@pytest.mark.parametrize("measure", EXPECTED)
def test_no_number_in_either_is_none_in_the_map(measure: Any) -> None:
    data, other = CUBE.data.copy(), REFERENCE.data.copy()
    data[2, 10, 12], other[1, 11, 12], other[1, 11, 13] = np.nan, np.inf, np.nan
    found = error_map(SpectralCube(data, WAVELENGTHS), SpectralCube(other, WAVELENGTHS), measure)
    assert np.isnan(found[[10, 11, 11], [12, 12, 13]]).all()
    assert_array_equal(np.isnan(found[:10]), np.isnan(EXPECTED[measure][:10]))


OTHERS = {
    "reference of 20 x 24 pixels, got 19 x 24": SpectralCube(CUBE.data[:, 1:], WAVELENGTHS),
    "bands with 400-700 nm, got 900-1200 nm": SpectralCube(CUBE.data, WAVELENGTHS + 500),
    "got 0-6 band": SpectralCube(CUBE.data, np.arange(7.0), "band"),
    "same quantity, reflectance, got absorbance": replace(REFERENCE, quantity="absorbance"),
}


@pytest.mark.parametrize("message", OTHERS)
def test_what_cannot_be_compared_is_refused(message: str) -> None:
    for compare in (partial(compare_region, region=Region.of_mask(DISC)), error_map):
        with pytest.raises(SpectrumError, match=message):
            compare(CUBE, OTHERS[message])


def test_unknown_measure_is_refused() -> None:
    with pytest.raises(SpectrumError, match="one of difference, rmse, mrae, angle, got 'psnr'"):
        error_map(CUBE, REFERENCE, "psnr")  # type: ignore[arg-type]


def assert_metrics(found: Scores, estimate: metrics.CubeData, reference: metrics.CubeData) -> None:
    """The totals are those of the metrics for the same arrays."""
    assert found.mrae[0] == pytest.approx(metrics.mrae(estimate, reference))
    assert found.rmse[0] == pytest.approx(metrics.rmse(estimate, reference))
    assert psnr(found.rmse, 1)[0] == pytest.approx(metrics.psnr(estimate, reference))
    assert found.angle[0] == pytest.approx(metrics.spectral_angle(estimate, reference))


def test_totals_are_the_metrics() -> None:
    found = cube_errors(CUBE, REFERENCE)
    assert psnr(cube_errors(CUBE, CUBE).rmse, 1)[0] == float("inf")
    assert_metrics(found, E, R)
    assert found.pixels[0] == 20 * 24
    white = psnr(found.rmse, 255) - psnr(found.rmse, 1)
    assert white == pytest.approx(20 * np.log10(255))


def test_bands_are_the_metrics_of_each_alone() -> None:
    found = cube_errors(CUBE, REFERENCE)
    lit = (R > metrics.DARK).all(axis=0)
    for band, (e, r) in enumerate(zip(E, R, strict=True)):
        assert found.band_rmse[band, 0] == pytest.approx(metrics.rmse(e[None], r[None]))
        assert psnr(found.band_rmse[band], 1)[0] == pytest.approx(metrics.psnr(e[None], r[None]))
        assert found.band_mrae[band, 0] == pytest.approx(metrics.mrae(e[None, lit], r[None, lit]))
    assert_array_equal(found.wavelengths, WAVELENGTHS)


def test_only_shared_bands_of_a_cube_are_compared() -> None:
    part = SpectralCube(REFERENCE.data[2:], WAVELENGTHS[2:])
    found = cube_errors(CUBE, part)
    assert_metrics(found, E[2:], R[2:])
    assert_array_equal(found.wavelengths, WAVELENGTHS[2:])


def test_cubes_without_a_common_pixel_are_refused() -> None:
    empty = SpectralCube(np.full_like(CUBE.data, np.nan), WAVELENGTHS)
    with pytest.raises(SpectrumError, match="Expected pixels that are numbers in both cubes"):
        cube_errors(CUBE, empty)
