"""Reference spectra are refused where they can be no reflectance of the cube, and brought to its
bands elsewhere."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from napari_mst.base.errors import SpectrumError
from napari_mst.cube import SpectralCube
from napari_mst.cube.spectrum import Spectrum
from napari_mst.references.reference_spectrum import (
    ReferenceSpectrum,
    at_wavelengths,
    check_references,
    reference_values,
)

GRID = np.arange(400.0, 701, 10)
CUBE = SpectralCube(np.full((31, 6, 9), 0.5, np.float32), GRID)


def spectrum(wavelengths: np.ndarray, values: np.ndarray, unit: str = "nm") -> Spectrum:
    return Spectrum(wavelengths, values, unit=unit)


def test_values_at_the_bands_are_taken_as_they_are() -> None:
    values = np.linspace(0.1, 0.7, 31)
    assert_array_equal(reference_values(CUBE, [ReferenceSpectrum(1, 2, values)])[0], values)


def test_fine_spectrum_is_averaged_over_the_response_of_a_band() -> None:
    fine = np.arange(350.0, 1001)
    ripple = 0.5 + 0.3 * np.cos(2 * np.pi * fine / 5)  # two periods a band: its mean is flat
    found = at_wavelengths(spectrum(fine, ripple), GRID)
    assert_allclose(found, 0.5, atol=1e-3)


def test_three_samples_within_a_band_are_averaged() -> None:
    fine = np.arange(350.0, 801, 5)
    found = at_wavelengths(spectrum(fine, np.where(fine % 10 == 0, 0.2, 0.6)), GRID)
    assert_allclose(found, 0.4)


@pytest.mark.parametrize(("first", "last"), [(390, 710), (391, 709), (400, 700)])
def test_bands_at_the_ends_are_averaged_only_where_their_whole_response_is_known(
    first: int, last: int
) -> None:
    """On a parabola a mean lies above the value, the more of the response is missing the more."""
    bands = np.arange(400.0, 701, 10)
    at = np.arange(first, last + 1.0)
    found = at_wavelengths(Spectrum(at, ((at - 300) / 500) ** 2), bands)
    around = np.arange(-9.0, 10)
    weights = 10 - np.abs(around)
    means = ((bands[:, None] + around - 300) / 500) ** 2 @ weights / weights.sum()
    is_whole = (bands - 10 >= first) & (bands + 10 <= last)
    expected = np.where(is_whole, means, ((bands - 300) / 500) ** 2)
    assert_allclose(found, expected, rtol=1e-9)


def test_straight_line_stays_straight_on_any_wavelengths() -> None:
    for step in (1.0, 3.3, 10.0, 20.0):
        at = np.arange(380.0, 731, step)  # of 3.3 nm, more samples lie on one side of a band
        found = at_wavelengths(spectrum(at, at / 1000), GRID)
        assert_allclose(found, GRID / 1000, rtol=1e-3)


def test_falling_wavelengths_are_as_good_as_rising_ones() -> None:
    at = np.arange(390.0, 721, 4)
    values = np.sqrt(at / 1000)
    rising = at_wavelengths(spectrum(at, values), GRID)
    falling = at_wavelengths(spectrum(at[::-1], values[::-1]), GRID)
    assert_array_equal(rising, falling)


def test_there_is_no_extrapolation_and_no_way_over_a_gap() -> None:
    at = np.arange(450.0, 701, 5)
    values = np.full(at.shape, 0.4)
    values[(at > 520) & (at < 580)] = np.nan
    found = at_wavelengths(spectrum(at, values), GRID)
    assert_array_equal(np.isnan(found), (GRID < 450) | ((GRID > 520) & (GRID < 580)))


def fitted(one: Any) -> None:
    check_references(CUBE, [one])
    reference_values(CUBE, [one])


Make = Callable[[], object]
BAD: dict[str, tuple[Make, str]] = {
    "even window": (lambda: ReferenceSpectrum(1, 1, np.ones(31), window=2), "window of 1, 3, 5"),
    "uncertainty": (
        lambda: ReferenceSpectrum(1, 1, np.ones(31), 3, -0.1),
        "uncertainty from 0 to 1",
    ),
    "hidden": (
        lambda: ReferenceSpectrum(1, 1, np.ones(31), hidden=2.0),
        "a hidden error from 0 to 1, got 2.0",
    ),
    "NaN uncertainty": (lambda: ReferenceSpectrum(1, 1, np.ones(31), 3, np.nan), "uncertainty"),
    "NaN": (lambda: ReferenceSpectrum(1, 1, np.full(31, np.nan)), "got NaN or infinity"),
    "all gaps": (
        lambda: ReferenceSpectrum(1, 1, spectrum(GRID, np.full(31, np.nan))),
        "about 0 to 1 at row 1, column 1, got none",
    ),
    "negative": (lambda: ReferenceSpectrum(1, 1, np.full(31, -0.1)), "got -0.1 to "),
    "radiance": (lambda: ReferenceSpectrum(1, 1, np.full(31, 80.0)), "got 80 to 80. Divide"),
    "zeros": (lambda: ReferenceSpectrum(1, 1, np.zeros(31)), "got 0 to 0. "),
    "image": (lambda: ReferenceSpectrum(1, 1, np.ones((31, 2))), "list of numbers"),
    "text": (lambda: ReferenceSpectrum(1, 1, "white"), "list of numbers"),
    "outside": (
        lambda: fitted(ReferenceSpectrum(6, 0, np.ones(31))),
        "Expected a pixel within 6 rows x 9 columns",
    ),
    "negative row": (
        lambda: fitted(ReferenceSpectrum(-1, 0, np.ones(31))),
        "Expected a pixel within",
    ),
    "band count": (
        lambda: fitted(ReferenceSpectrum(1, 1, np.ones(30))),
        "Expected 31 values, one a band",
    ),
    "unit": (
        lambda: fitted(ReferenceSpectrum(1, 1, spectrum(GRID, np.ones(31), "band"))),
        "wavelengths in nm",
    ),
    "no overlap": (
        lambda: fitted(ReferenceSpectrum(1, 1, spectrum(GRID + 500, np.ones(31)))),
        "got 0 within 900-1200",
    ),
    "narrow": (
        lambda: fitted(ReferenceSpectrum(1, 1, spectrum(GRID[:10], np.ones(10)))),
        "got 10 within 400-490",
    ),
    "other things": (lambda: fitted((2, 3)), "Expected reference spectra, got tuple"),
    "between pixels": (
        lambda: ReferenceSpectrum(1.5, 1, np.ones(31)),  # type: ignore[arg-type]
        "whole number as the row of a reference spectrum",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_reflectance_or_does_not_fit_the_cube_is_refused(name: str) -> None:
    make, message = BAD[name]
    with pytest.raises(SpectrumError, match=message) as caught:
        make()
    assert len(str(caught.value)) < 300


def test_two_spectra_of_one_spot_are_refused() -> None:
    one = ReferenceSpectrum(2, 3, np.ones(31))
    with pytest.raises(SpectrumError, match="got two at row 2, column 3"):
        check_references(CUBE, [one, ReferenceSpectrum(2, 3, np.full(31, 0.5))])
    check_references(CUBE, [one, ReferenceSpectrum(2, 3, np.ones(31), window=1)])
