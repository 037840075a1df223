"""Unmixing: shares and endmembers are those that made a scene, and those of scipy and spectral."""

from typing import Any, get_args

import numpy as np
import pytest
import spectral
from numpy.testing import assert_allclose
from scipy.optimize import minimize, nnls

import napari_mst as nm
from napari_mst.analysis.classification import Constraint, abundances, endmembers
from napari_mst.base.errors import SpectrumError
from napari_mst.cube import SpectralCube
from napari_mst.cube.spectrum import Spectrum

WAVELENGTHS = np.linspace(400, 1000, 12)
RNG = np.random.default_rng(5)
MEMBERS = RNG.uniform(0.05, 0.9, (4, 12))
SPECTRA = [
    Spectrum(WAVELENGTHS, values, name=f"m{number}") for number, values in enumerate(MEMBERS)
]
SHARES = np.moveaxis(RNG.dirichlet((0.5, 0.5, 0.5, 0.5), (18, 25)), 2, 0)
PURE = [(0, 3), (4, 20), (9, 9), (17, 24)]
for number, (row, column) in enumerate(PURE):
    SHARES[:, row, column] = np.eye(4)[number]
MIXED = SpectralCube(np.einsum("pb,phw->bhw", MEMBERS, SHARES), WAVELENGTHS)
NOISY = SpectralCube(MIXED.data + RNG.normal(0, 0.1, MIXED.shape), WAVELENGTHS)


@pytest.mark.parametrize("constraint", get_args(Constraint))
def test_shares_of_a_mixture_are_those_that_it_was_mixed_of(constraint: Constraint) -> None:
    *shares, residual = abundances(MIXED, SPECTRA, constraint).data
    assert_allclose(shares, SHARES, atol=1e-6)
    assert residual.max() < 1e-6


def test_the_purest_pixels_are_found() -> None:
    names = {f"pixel {row}, {column}" for row, column in PURE}
    assert {spectrum.name for spectrum in endmembers(MIXED, 4)} == names
    made = nm.maps.unmixed(MIXED, 4)
    assert made.titles[-1] == "residual"
    assert set(made.titles[:-1]) == names
    assert made.data[-1].max() < 1e-6


def test_free_shares_are_spectrals_and_non_negative_ones_scipys() -> None:
    pixels = np.moveaxis(NOISY.data, 0, 2)
    judge = spectral.unmix(pixels, MEMBERS)
    assert_allclose(
        abundances(NOISY, SPECTRA, "free").data[:-1], judge.transpose(2, 0, 1), atol=1e-6
    )
    *shares, residual = abundances(NOISY, SPECTRA, "non-negative").data
    expected = np.apply_along_axis(lambda pixel: nnls(MEMBERS.T, pixel)[0], 2, pixels)
    assert_allclose(shares, expected.transpose(2, 0, 1), atol=1e-6)
    left = pixels - expected @ MEMBERS
    assert_allclose(residual, np.sqrt(np.square(left).mean(axis=2)), atol=1e-6)


def test_shares_that_add_up_to_one_are_the_best_of_these() -> None:
    shares = abundances(NOISY, SPECTRA, "sum to one").data[:-1]
    assert shares.min() >= 0
    assert_allclose(shares.sum(axis=0), 1, atol=1e-6)
    assert (shares == 0).any(axis=0).mean() > 0.3
    whole = {"type": "eq", "fun": lambda a: a.sum() - 1}
    for row, column in ((0, 0), (3, 7), (8, 2), (14, 21), (17, 5)):
        pixel = NOISY.data[:, row, column]
        best = minimize(
            lambda a, pixel=pixel: np.square(a @ MEMBERS - pixel).sum(),
            np.full(4, 0.25),
            bounds=[(0, 1)] * 4,
            constraints=whole,
            options={"ftol": 1e-15},
        )
        assert_allclose(shares[:, row, column], best.x, atol=2e-6)


def test_a_pixel_without_a_number_has_no_shares() -> None:
    data = MIXED.data.copy()
    data[3, 5, 5] = np.nan
    planes = abundances(SpectralCube(data, WAVELENGTHS), SPECTRA).data
    assert np.isnan(planes[:, 5, 5]).all()
    assert np.isnan(planes).sum() == 5


@pytest.mark.parametrize(
    ("run", "of", "message"),
    [
        (endmembers, (MIXED, 1), "Expected 2 to 12 endmembers, got 1"),
        (endmembers, (MIXED, 6), "Expected 6 pixels that differ, got fewer"),
        (abundances, (MIXED, []), "Expected one or more spectra"),
        (abundances, (MIXED, [*SPECTRA, SPECTRA[0]]), "none is a mixture of others"),
        (abundances, (MIXED, SPECTRA, "most"), "Expected a constraint of sum to one, non-negative"),
    ],
)
def test_what_cannot_be_unmixed_is_refused(run: Any, of: Any, message: str) -> None:
    with pytest.raises(SpectrumError, match=message):
        run(*of)
