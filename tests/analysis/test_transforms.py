"""Transforms against numpy and `spectral`, and the spectrum itself."""

from functools import partial
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import spectral
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import trapezoid
from scipy.signal import savgol_filter
from scipy.stats import zscore
from sklearn.preprocessing import normalize
from tests.analysis.conftest import bounds, curve

import napari_mst as nm
from napari_mst.analysis import strips
from napari_mst.analysis.transforms import (
    CONTINUUM_REMOVED,
    TRANSFORMS,
    normalised,
    resampled,
    transformed,
)
from napari_mst.base.errors import SpectrumError
from napari_mst.cube import SpectralCube
from napari_mst.cube.lazy import mapped
from napari_mst.cube.spectrum import Spectrum
from napari_mst.formats import numbers

WAVELENGTHS = np.array([400.0, 410, 425, 450, 500, 590, 700])
VALUES = np.array([0.2, 0.5, 0.1, 0.4, 0.8, 0.3, 0.35])
SPECTRUM = Spectrum(
    WAVELENGTHS,
    VALUES,
    name="a",
    colour="#112233",
    lower=VALUES - 0.1,
    upper=VALUES + 0.2,
    spread="std",
)


first_derivative = partial(transformed, way="first derivative")
continuum_removed = partial(transformed, way="continuum removed")


def reversed_(spectrum: Spectrum) -> Spectrum:
    return Spectrum(spectrum.wavelengths[::-1], spectrum.values[::-1])


def test_area_becomes_one() -> None:
    found = normalised(SPECTRUM, "area")
    assert np.trapezoid(found.values, found.wavelengths) == pytest.approx(1)
    assert_allclose(normalised(reversed_(SPECTRUM), "area").values, found.values[::-1])


def test_bounds_are_normalised_like_the_values() -> None:
    found = normalised(SPECTRUM, "maximum")
    lower, upper = bounds(found)
    assert_allclose(upper, (VALUES + 0.2) / 0.8)
    assert_allclose(lower, (VALUES - 0.1) / 0.8)
    assert (found.spread, found.name, found.colour) == ("std", "a", "#112233")


@pytest.mark.parametrize("to", ["area", "maximum"])
def test_black_cannot_be_normalised_and_is_a_gap(to: Any) -> None:
    assert np.isnan(normalised(Spectrum(WAVELENGTHS, 0 * VALUES), to).values).all()
    assert np.isnan(normalised(Spectrum(WAVELENGTHS, np.nan * VALUES), to).values).all()


def test_gap_is_left_out_of_area_and_maximum() -> None:
    values = np.where(np.arange(7) == 3, np.nan, 2.0)
    spectrum = Spectrum(WAVELENGTHS, values)
    assert_allclose(normalised(spectrum, "area").values, values / 600)
    assert_allclose(normalised(spectrum, "maximum").values, values / 2)


def test_derivative_of_a_parabola_is_exact_on_any_spacing() -> None:
    parabola = Spectrum(WAVELENGTHS, 3 + 2 * WAVELENGTHS + 0.5 * WAVELENGTHS**2)
    assert_allclose(first_derivative(parabola).values[1:-1], 2 + WAVELENGTHS[1:-1])
    assert_allclose(
        first_derivative(reversed_(parabola)).values[1:-1], (2 + WAVELENGTHS[1:-1])[::-1]
    )


def test_derivative_has_no_bounds_and_needs_two_bands() -> None:
    found = first_derivative(SPECTRUM)
    assert (found.lower, found.upper, found.spread) == (None, None, "")
    with pytest.raises(SpectrumError, match="2 or more bands"):
        first_derivative(curve([500.0], [1.0]))


@given(st.lists(st.integers(1, 50), min_size=7, max_size=7))
def test_continuum_is_that_of_spectral(values: list[int]) -> None:
    spectrum = Spectrum(WAVELENGTHS, np.array(values) / 50)
    expected = spectral.remove_continuum(spectrum.values, WAVELENGTHS)
    assert_allclose(continuum_removed(spectrum).values, expected, rtol=1e-9)
    assert_allclose(continuum_removed(reversed_(spectrum)).values, expected[::-1], rtol=1e-9)


def test_continuum_spans_gaps_and_is_not_below_zero() -> None:
    values = np.where(np.arange(7) == 4, np.nan, VALUES)
    found = continuum_removed(Spectrum(WAVELENGTHS, values)).values
    keep = np.arange(7) != 4
    assert_allclose(found[keep], spectral.remove_continuum(VALUES[keep], WAVELENGTHS[keep]))
    assert np.isnan(found[4])
    assert np.isnan(continuum_removed(Spectrum(WAVELENGTHS, -VALUES)).values).all()
    assert np.isnan(continuum_removed(Spectrum(WAVELENGTHS, np.nan * VALUES)).values).all()


def test_resampling_is_linear_and_takes_the_bounds_along() -> None:
    found = resampled(SPECTRUM, [400, 405, 545, 700])
    assert_allclose(found.values, [0.2, 0.35, 0.55, 0.35])
    assert_allclose(bounds(found)[1], found.values + 0.2)
    assert_allclose(resampled(reversed_(SPECTRUM), [405, 545]).values, [0.35, 0.55])


@pytest.mark.parametrize("wavelength", [399.9, 700.1, np.nan])
def test_resampling_never_extrapolates(wavelength: float) -> None:
    with pytest.raises(SpectrumError, match="spectra are not extrapolated"):
        resampled(SPECTRUM, [500, wavelength])


@pytest.mark.parametrize(
    "change", [first_derivative, continuum_removed, lambda s: resampled(s, 410)]
)
def test_wavelengths_of_detectors_that_overlap_are_sorted(change: Any) -> None:
    found = change(curve([400.0, 420, 410, 430], [1.0, 2, 3, 1])).values
    expected = change(curve([400.0, 410, 420, 430], [1.0, 3, 2, 1])).values
    order = [0, 2, 1, 3] if found.size == 4 else [0]
    assert_allclose(found, expected[order])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"values": [1.0]}, r"one value a wavelength, got \(1,\)"),
        ({"wavelengths": [], "values": []}, "one value a wavelength"),
        ({"wavelengths": [400, np.inf]}, "finite wavelengths"),
        ({"lower": [1, 2]}, "a lower and an upper bound"),
        ({"lower": [1, 2], "upper": [1]}, "a lower and an upper bound"),
        ({"colour": "red"}, "'#rrggbb', got 'red'"),
    ],
)
def test_what_does_not_fit_together_is_no_spectrum(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(SpectrumError, match=message):
        Spectrum(**{"wavelengths": [400, 500], "values": [1, 2], **fields})


PIXELS = np.random.default_rng(3).uniform(0.1, 0.9, (31, 6, 5))
NM = np.arange(400.0, 701, 10)
FILTERED = partial(savgol_filter, PIXELS, 7, 2, axis=0, delta=10)
BY_OTHERS: dict[str, Any] = {
    "continuum removed": lambda: spectral.remove_continuum(PIXELS.transpose(1, 2, 0), NM).transpose(
        2, 0, 1
    ),
    "first derivative": lambda: FILTERED(deriv=1),
    "second derivative": lambda: FILTERED(deriv=2),
    "smoothed": FILTERED,
    "normalised to area": lambda: PIXELS / trapezoid(PIXELS, NM, axis=0),
    "normalised to maximum": lambda: normalize(PIXELS.reshape(31, -1), "max", axis=0),
    "standard normal variate": lambda: zscore(PIXELS, axis=0),
    "absorbance": lambda: np.log10(1 / PIXELS),
    "reflectance of absorbance": lambda: np.power(10.0, -PIXELS),
}


@pytest.mark.parametrize("way", TRANSFORMS)
def test_every_transform_of_a_cube_is_that_of_other_libraries(way: str) -> None:
    expected = BY_OTHERS[way]().reshape(31, 6, 5)
    rising = np.arange(31)
    for order in (rising, rising[::-1], np.roll(rising, 9)):  # and detectors that overlap
        cube = SpectralCube(PIXELS[order], NM[order])
        made = nm.maps.transformed(cube, way, window=7).data
        assert_allclose(made, expected[order], rtol=1e-6, atol=1e-7)


def test_a_large_result_lies_in_a_temporary_file(monkeypatch: pytest.MonkeyPatch) -> None:
    cube = SpectralCube(PIXELS, NM)
    expected = nm.maps.transformed(cube, "smoothed").data
    made = Mock(wraps=mapped)
    monkeypatch.setattr(strips, "mapped", made)
    monkeypatch.setattr(numbers, "LAZY_BYTES", 100)
    assert_array_equal(nm.maps.transformed(cube, "smoothed").data, expected)
    made.assert_called_once_with(PIXELS.shape, np.float32)


def test_bad_bands_and_what_is_no_number_are_left_out() -> None:
    data = PIXELS.copy()
    data[30], data[4, 0, 0] = 9, np.nan
    cube = SpectralCube(data, NM, metadata={"bbl": [1] * 30 + [0]})
    made = nm.maps.transformed(cube, "smoothed").data
    assert len(made) == 30
    assert np.isnan(made[:, 0, 0]).all()
    assert np.isfinite(made[:, 0, 1:]).all()
    with pytest.raises(SpectrumError, match="99 or more bands to fit parabolas to, got 30"):
        nm.maps.transformed(cube, "smoothed", window=99)


def test_a_range_has_its_mean_its_area_and_its_centre_of_mass() -> None:
    cube = SpectralCube(PIXELS, NM)
    mean, area, centre = nm.maps.span(cube, "650-500").data
    part, at = PIXELS[10:26], NM[10:26]
    assert_allclose(mean, part.mean(axis=0), rtol=1e-6)
    assert_allclose(area, trapezoid(part, at, axis=0), rtol=1e-6)
    first = trapezoid(part * at[:, None, None], at, axis=0)
    assert_allclose(centre, first / trapezoid(part, at, axis=0), rtol=1e-6)
    for text in ("500", "300-500", "", "500-600-700"):
        with pytest.raises(SpectrumError, match="Expected two wavelengths within 400-700 nm"):
            nm.maps.span(cube, text)
    with pytest.raises(SpectrumError, match="a range with a band in it, got 501-509 nm"):
        nm.maps.span(cube, (501, 509))


def test_the_depth_at_a_band_is_how_far_it_lies_below_the_continuum() -> None:
    expected = 1 - spectral.remove_continuum(PIXELS.transpose(1, 2, 0), NM)[..., 15]
    removed = nm.maps.transformed(SpectralCube(PIXELS, NM), CONTINUUM_REMOVED).to_cube()
    assert_allclose(nm.formula(removed, "1 - r552").data, expected, atol=1e-6)
    text = nm.maps.MAPS["formula"].text
    assert text is not None
    assert next(iter(text.presets(removed).values())) == "Absorption depth"
