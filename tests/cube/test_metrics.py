"""Metrics against their plain formulas, and the spectral angle against the `spectral` package."""

import numpy as np
import pytest
import spectral
from numpy.testing import assert_allclose

from napari_mst.cube.illuminants import render_lab
from napari_mst.cube.metrics import (
    DARK,
    colour_difference,
    core_mrae,
    delta_e,
    mrae,
    psnr,
    rmse,
    spectral_angle,
    spectral_angles,
)

_RNG = np.random.default_rng(0)
REFERENCE = _RNG.uniform(0.1, 1, (31, 6, 7)).astype(np.float32)
ESTIMATE = REFERENCE + _RNG.normal(0, 0.05, REFERENCE.shape).astype(np.float32)
METRICS = {mrae: 0, rmse: 0, psnr: np.inf, spectral_angle: 0}


def with_dark_pixel() -> np.ndarray:
    dark = REFERENCE.copy()
    dark[:, 2, 3] = 0
    return dark


@pytest.mark.parametrize(
    ("metric", "best"), METRICS.items(), ids=lambda value: getattr(value, "__name__", "")
)
def test_equal_cubes_get_the_best_value(metric: object, best: float) -> None:
    assert callable(metric)
    assert metric(REFERENCE, REFERENCE) == pytest.approx(best, abs=1e-5)


def test_metrics_are_their_formulas() -> None:
    pairs = list(zip(ESTIMATE.ravel().tolist(), REFERENCE.ravel().tolist(), strict=True))
    mean_square = sum((e - r) ** 2 for e, r in pairs) / len(pairs)
    assert mrae(ESTIMATE, REFERENCE) == pytest.approx(
        sum(abs(e - r) / r for e, r in pairs) / len(pairs)
    )
    assert rmse(ESTIMATE, REFERENCE) == pytest.approx(mean_square**0.5)
    assert psnr(ESTIMATE, REFERENCE) == pytest.approx(10 * np.log10(1 / mean_square))
    assert psnr(ESTIMATE, REFERENCE, peak=2) == pytest.approx(10 * np.log10(4 / mean_square))


def test_spectral_angle_is_that_of_the_spectral_package() -> None:
    pixels = ESTIMATE.transpose(1, 2, 0).astype(np.float64)
    members = REFERENCE.reshape(31, -1).T.astype(np.float64)
    angles = spectral.spectral_angles(pixels, members).reshape(42, 42).diagonal()
    assert_allclose(spectral_angles(ESTIMATE, REFERENCE).ravel(), np.degrees(angles), rtol=1e-9)
    assert spectral_angle(ESTIMATE, REFERENCE) == pytest.approx(np.degrees(angles).mean())


def test_dark_pixel_has_no_spectral_angle_and_no_relative_error() -> None:
    angles = spectral_angles(ESTIMATE, with_dark_pixel())
    assert np.argwhere(np.isnan(angles)).tolist() == [[2, 3]]
    others = np.ones((6, 7), bool)
    others[2, 3] = False
    expected = np.abs(ESTIMATE - REFERENCE)[:, others] / REFERENCE[:, others]
    assert mrae(ESTIMATE, with_dark_pixel()) == pytest.approx(
        expected.mean(dtype=np.float64), rel=1e-6
    )


def test_black_cube_has_no_relative_metric() -> None:
    black = np.full_like(REFERENCE, DARK)
    assert np.isnan(mrae(ESTIMATE, black))
    assert np.isnan(spectral_angle(ESTIMATE, black))
    assert rmse(ESTIMATE, black) > 0


def test_estimate_of_zero_has_no_spectral_angle() -> None:
    assert np.isnan(spectral_angles(np.zeros_like(REFERENCE), REFERENCE)).all()


def test_core_leaves_out_the_ends_of_the_spectrum_and_faint_pixels() -> None:
    wavelengths = np.linspace(400, 700, 31)
    estimate, reference = REFERENCE * 1.1, REFERENCE.copy()
    estimate[:2] = estimate[-2:] = 9
    reference[:, 0, 0] = 0.04
    assert core_mrae(estimate, reference, wavelengths) == pytest.approx(0.1, rel=1e-5)


def test_colour_difference_is_that_of_colour_science() -> None:
    colour = pytest.importorskip("colour")
    random = np.random.default_rng(1)
    first = np.stack([random.uniform(0, 100, 500), *random.uniform(-100, 100, (2, 500))])
    second = first + random.normal(0, 20, first.shape)
    first[1:, :20] = second[1:, 10:30] = 0  # grey: no hue
    second[1:, 40:60] = -first[1:, 40:60] * 1.001 + 0.01  # nearly opposite hues
    expected = colour.delta_E(first.T, second.T, method="CIE 2000")
    assert_allclose(delta_e(first, second), expected, atol=1e-9)


@pytest.mark.parametrize("light", ["D65", "A"])
def test_white_has_the_colour_white_under_every_light(light: str) -> None:
    wavelengths = np.linspace(400, 700, 31)
    white = render_lab(np.ones((31, 1, 1)), wavelengths, light)
    assert_allclose(white.ravel(), [100, 0, 0], atol=1e-9)
    assert colour_difference(ESTIMATE, ESTIMATE, wavelengths, light) == 0
