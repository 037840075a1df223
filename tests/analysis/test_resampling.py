"""A cube at other bands."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad

from napari_mst import resample
from napari_mst.base.errors import CubeError
from napari_mst.cube import BAND_INDEX, SpectralCube
from napari_mst.cube.spectrum import Spectrum

WAVELENGTHS = np.arange(400.0, 701, 10)
DATA = np.random.default_rng(0).random((31, 40, 30), dtype=np.float32)
CUBE = SpectralCube(DATA, WAVELENGTHS, metadata={"fwhm": (10.0,) * 31, "title": "x"})
AT = np.arange(480.0, 621, 2)


def a_response(centre: float, name: str = "") -> Spectrum:
    return Spectrum(AT, np.exp(-(((AT - centre) / 15) ** 2)), name=name)


def test_wavelengths_are_interpolated_between_their_neighbours() -> None:
    wanted = [400, 555, 557.5, 700]
    result = resample(CUBE, wanted)
    expected = [np.interp(wanted, WAVELENGTHS, DATA[:, 7, row]) for row in range(30)]
    assert_allclose(result.data[:, 7].T, expected, rtol=1e-6)
    assert_array_equal(result.wavelengths, wanted)
    assert result.data.dtype == np.float32


def test_falling_wavelengths_give_the_same() -> None:
    falling = SpectralCube(DATA[::-1], WAVELENGTHS[::-1])
    for to in ([555.0], [a_response(550)]):
        given = resample(falling, to)
        assert_allclose(given.data, resample(CUBE, to).data, rtol=1e-6)


def test_a_sensor_sees_the_mean_weighted_by_its_response() -> None:
    result = resample(CUBE, [a_response(550, "green"), a_response(580)])
    weights = np.interp(WAVELENGTHS, AT, a_response(550).values, left=0, right=0)
    expected = np.tensordot(weights / weights.sum(), DATA.astype(float), axes=1)
    assert_allclose(result.data[0], expected, rtol=1e-6)
    assert_allclose(result.wavelengths, [550, 580], atol=0.5)
    assert result.metadata == {"title": "x", "band names": ("green", "")}
    assert "resampled" in result.provenance.cut


def test_a_flat_spectrum_stays_flat_on_uneven_bands() -> None:
    uneven = np.array([400.0, 500, 510, 520, 600, 700])
    cube = SpectralCube(np.full((6, 2, 2), 0.3), uneven)
    assert_allclose(resample(cube, [a_response(530)]).data, 0.3, rtol=1e-6)


def test_a_band_of_no_numbers_spoils_only_what_uses_it() -> None:
    broken = DATA.copy()
    broken[0] = np.nan
    result = resample(SpectralCube(broken, WAVELENGTHS), [405, 555])
    assert np.isnan(result.data[0]).all()
    assert np.isfinite(result.data[1]).all()


@pytest.mark.parametrize(
    ("cube", "to"),
    [
        (CUBE, [390]),
        (CUBE, []),
        (CUBE, [np.nan]),
        (CUBE, [Spectrum(AT, AT * 0)]),
        (CUBE, [Spectrum(np.arange(600.0, 801, 10), np.ones(21))]),
        (CUBE, [Spectrum(AT, AT, unit="band")]),
        (CUBE, [Spectrum(np.array([552.0, 553, 554]), np.ones(3))]),
        (SpectralCube(DATA, np.arange(31.0), unit=BAND_INDEX), [3]),
        (SpectralCube(DATA, np.roll(WAVELENGTHS, 3)), [550]),
    ],
)
def test_what_cannot_be_resampled_is_refused(cube: SpectralCube, to: Sequence[Any]) -> None:
    with pytest.raises(CubeError, match="Expected"):
        resample(cube, to)


def test_a_band_of_a_width_is_the_mean_under_its_gaussian() -> None:
    def reflectance(at: float) -> float:
        return float(np.sin(at / 23) ** 2 + at / 1000)

    at = np.arange(400.0, 701, 5)
    values = np.array([*map(reflectance, at)], np.float32)
    cube = SpectralCube(values[:, None, None], at)
    for centre, width in ((450.0, 30.0), (512.0, 40.0), (600.0, 60.0)):

        def weight(at: float, centre: float = centre, width: float = width) -> float:
            return float(0.5 ** (2 * (at - centre) / width) ** 2)

        limits = centre - 1.5 * width, centre + 1.5 * width
        total = quad(lambda at, weight=weight: weight(at) * reflectance(at), *limits)[0]
        expected = total / quad(weight, *limits)[0]
        assert resample(cube, centre, widths=width).data.item() == pytest.approx(expected, rel=2e-3)
        assert resample(cube, centre).data.item() != pytest.approx(expected, rel=0.02)
    assert_array_equal(resample(cube, 512, widths=2).data, resample(cube, 512).data)


@pytest.mark.parametrize("widths", [[10, 20], 0, [-1]])
def test_widths_that_cannot_be_are_refused(widths: Any) -> None:
    with pytest.raises(CubeError, match="Expected 1 or 3 widths above 0 nm"):
        resample(CUBE, [450, 500, 550], widths=widths)
