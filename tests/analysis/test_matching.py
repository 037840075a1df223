"""Matches against `spectral.spectral_angles`."""

import numpy as np
import pytest
import spectral
from tests.analysis.conftest import curve

from napari_mst.analysis.classification import best_matches
from napari_mst.analysis.library import colour_checker
from napari_mst.base.errors import SpectrumError
from napari_mst.cube.spectrum import Spectrum

LIBRARY = colour_checker()
WAVELENGTHS = LIBRARY[0].wavelengths


def test_angles_are_those_of_spectral_and_rise() -> None:
    picked = Spectrum(WAVELENGTHS, np.linspace(0.1, 0.9, 31) ** 2)
    members = np.stack([entry.values for entry in LIBRARY])
    expected = np.degrees(spectral.spectral_angles(picked.values[None, None], members)[0, 0])
    found = best_matches(picked, LIBRARY)
    np.testing.assert_allclose([match.angle for match in found], np.sort(expected), atol=1e-6)
    assert [match.spectrum for match in found] == [LIBRARY[index] for index in expected.argsort()]
    assert [match.spectrum for match in best_matches(picked, LIBRARY, 3)] == [
        match.spectrum for match in found[:3]
    ]


def test_only_the_common_range_counts() -> None:
    """A library of finer bands, some beyond the spectrum: compared at its bands within both."""
    fine = np.arange(520.0, 900.0, 2)
    entry = Spectrum(fine, np.interp(fine, WAVELENGTHS, LIBRARY[1].values))
    match = best_matches(LIBRARY[1], [entry])[0]
    assert match.bands == np.sum(WAVELENGTHS >= 520)
    assert match.angle == pytest.approx(0, abs=1e-5)


def test_gaps_are_left_out() -> None:
    holed = Spectrum(WAVELENGTHS, np.where(np.arange(31) % 4 == 0, np.nan, LIBRARY[2].values))
    best = best_matches(holed, LIBRARY, 1)[0]
    assert (best.spectrum, best.bands) == (LIBRARY[2], 23)


def test_what_cannot_be_compared_is_not_listed() -> None:
    others = [
        curve([900.0, 1000.0], [1.0, 2.0]),
        Spectrum(WAVELENGTHS, np.zeros(31)),
        Spectrum(WAVELENGTHS, np.full(31, np.nan)),
        Spectrum(WAVELENGTHS, np.ones(31), "Wavenumber"),
    ]
    assert [match.spectrum for match in best_matches(LIBRARY[0], [*others, LIBRARY[0]])] == [
        LIBRARY[0]
    ]
    with pytest.raises(
        SpectrumError, match="shares wavelengths in nm with the spectrum, got none such among 4"
    ):
        best_matches(LIBRARY[0], others)
