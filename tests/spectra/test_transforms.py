"""Transforms against numpy and `spectral`, and the spectrum itself."""

from typing import Any

import numpy as np
import pytest
import spectral
from hypothesis import given
from hypothesis import strategies as st
from tests.spectra.conftest import bounds, curve

from napari_mst.errors import SpectrumError
from napari_mst.spectra.spectrum import Spectrum
from napari_mst.spectra.transforms import continuum_removed, first_derivative, normalised, resampled

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


def reversed_(spectrum: Spectrum) -> Spectrum:
    return Spectrum(spectrum.wavelengths[::-1], spectrum.values[::-1])


def test_area_becomes_one() -> None:
    found = normalised(SPECTRUM, "area")
    assert np.trapezoid(found.values, found.wavelengths) == pytest.approx(1)
    np.testing.assert_allclose(normalised(reversed_(SPECTRUM), "area").values, found.values[::-1])


def test_maximum_becomes_one() -> None:
    np.testing.assert_allclose(normalised(SPECTRUM, "maximum").values, VALUES / 0.8)


def test_value_at_a_wavelength_becomes_one() -> None:
    found = normalised(SPECTRUM, 475)
    np.testing.assert_allclose(found.values, VALUES / 0.6)
    assert found.wavelengths is not None
    with pytest.raises(SpectrumError, match="within 400-700 nm, got 399-399"):
        normalised(SPECTRUM, 399)
    with pytest.raises(SpectrumError, match="'area', 'maximum' or a wavelength, got 'mean'"):
        normalised(SPECTRUM, "mean")  # type: ignore[arg-type]


def test_bounds_are_normalised_like_the_values() -> None:
    found = normalised(SPECTRUM, "maximum")
    lower, upper = bounds(found)
    np.testing.assert_allclose(upper, (VALUES + 0.2) / 0.8)
    np.testing.assert_allclose(lower, (VALUES - 0.1) / 0.8)
    assert (found.spread, found.name, found.colour) == ("std", "a", "#112233")


@pytest.mark.parametrize("to", ["area", "maximum", 450])
def test_black_cannot_be_normalised_and_is_a_gap(to: Any) -> None:
    assert np.isnan(normalised(Spectrum(WAVELENGTHS, 0 * VALUES), to).values).all()
    assert np.isnan(normalised(Spectrum(WAVELENGTHS, np.nan * VALUES), to).values).all()


def test_gap_is_left_out_of_area_and_maximum() -> None:
    values = np.where(np.arange(7) == 3, np.nan, 2.0)
    spectrum = Spectrum(WAVELENGTHS, values)
    np.testing.assert_allclose(normalised(spectrum, "area").values, values / 600)
    np.testing.assert_allclose(normalised(spectrum, "maximum").values, values / 2)


def test_derivative_of_a_parabola_is_exact_on_any_spacing() -> None:
    parabola = Spectrum(WAVELENGTHS, 3 + 2 * WAVELENGTHS + 0.5 * WAVELENGTHS**2)
    np.testing.assert_allclose(first_derivative(parabola).values[1:-1], 2 + WAVELENGTHS[1:-1])
    np.testing.assert_allclose(
        first_derivative(reversed_(parabola)).values[1:-1], (2 + WAVELENGTHS[1:-1])[::-1]
    )


def test_derivative_has_no_bounds_and_needs_two_bands() -> None:
    found = first_derivative(SPECTRUM)
    assert (found.lower, found.upper, found.spread) == (None, None, "")
    with pytest.raises(SpectrumError, match="two or more bands"):
        first_derivative(curve([500.0], [1.0]))


@given(st.lists(st.integers(1, 50), min_size=7, max_size=7))
def test_continuum_is_that_of_spectral(values: list[int]) -> None:
    spectrum = Spectrum(WAVELENGTHS, np.array(values) / 50)
    expected = spectral.remove_continuum(spectrum.values, WAVELENGTHS)
    np.testing.assert_allclose(continuum_removed(spectrum).values, expected, rtol=1e-9)
    np.testing.assert_allclose(
        continuum_removed(reversed_(spectrum)).values, expected[::-1], rtol=1e-9
    )


def test_continuum_spans_gaps_and_is_not_below_zero() -> None:
    values = np.where(np.arange(7) == 4, np.nan, VALUES)
    found = continuum_removed(Spectrum(WAVELENGTHS, values)).values
    keep = np.arange(7) != 4
    np.testing.assert_allclose(
        found[keep], spectral.remove_continuum(VALUES[keep], WAVELENGTHS[keep])
    )
    assert np.isnan(found[4])
    assert np.isnan(continuum_removed(Spectrum(WAVELENGTHS, -VALUES)).values).all()
    assert np.isnan(continuum_removed(Spectrum(WAVELENGTHS, np.nan * VALUES)).values).all()


def test_resampling_is_linear_and_takes_the_bounds_along() -> None:
    found = resampled(SPECTRUM, [400, 405, 545, 700])
    np.testing.assert_allclose(found.values, [0.2, 0.35, 0.55, 0.35])
    np.testing.assert_allclose(bounds(found)[1], found.values + 0.2)
    np.testing.assert_allclose(resampled(reversed_(SPECTRUM), [405, 545]).values, [0.35, 0.55])


@pytest.mark.parametrize("wavelength", [399.9, 700.1, np.nan])
def test_resampling_never_extrapolates(wavelength: float) -> None:
    with pytest.raises(SpectrumError, match="spectra are not extrapolated"):
        resampled(SPECTRUM, [500, wavelength])


@pytest.mark.parametrize(
    "change", [first_derivative, continuum_removed, lambda s: resampled(s, 410)]
)
def test_wavelengths_that_go_to_and_fro_are_refused(change: Any) -> None:
    with pytest.raises(SpectrumError, match="that rise or fall"):
        change(curve([400.0, 420, 410], [1.0, 2, 3]))


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
