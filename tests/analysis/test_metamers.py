"""Metamers: exactly one colour under the response, different ones under another light."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray

import napari_mst as nm
from napari_mst.analysis.library import colour_checker
from napari_mst.analysis.metamers import COUNT, Metamers, matrix_r, metameric_blacks
from napari_mst.base.errors import CameraError, SpectrumError
from napari_mst.cube.colour import colour_matching_functions, illuminant
from napari_mst.photo.cameras import camera_response

CHART = colour_checker()
GRID = CHART[0].wavelengths


def observer(light: str = "D65") -> NDArray[np.float64]:
    """X, Y and Z of the CIE 1931 observer, straight from its tables."""
    weights = colour_matching_functions(GRID) * illuminant(light, GRID)[:, None]
    return weights / weights[:, 1].sum()


def ends(family: Metamers) -> list[nm.Spectrum]:
    """The metamers at both limits of each black."""
    return [
        family.moved(black, amount) for black in family.blacks for amount in family.limits(black)
    ]


def test_matrix_r_is_the_formula_of_cohen_and_kappauf() -> None:
    a = observer()
    r = matrix_r(a)
    assert_allclose(r, a @ np.linalg.inv(a.T @ a) @ a.T, atol=1e-12)
    assert_allclose(r @ r, r, atol=1e-12)
    assert_allclose(r @ a, a, atol=1e-12)


def test_a_spectrum_is_its_fundamental_and_its_black() -> None:
    family = nm.metamers(CHART[1])
    fundamental, black = family.fundamental.values, family.black.values
    assert_allclose(fundamental + black, CHART[1].values)
    assert_allclose(fundamental @ observer(), CHART[1].values @ observer(), atol=1e-12)
    assert_allclose(black @ observer(), 0, atol=1e-12)
    assert_allclose(fundamental @ black, 0, atol=1e-12)


@pytest.mark.parametrize("patch", range(24))
def test_metamers_have_one_colour_in_the_light_and_others_in_another(patch: int) -> None:
    family = nm.metamers(CHART[patch])
    for other in ends(family):
        tristimulus = other.values @ observer()
        assert_allclose(tristimulus, CHART[patch].values @ observer(), atol=1e-12)
        assert family.difference(other) < 1e-9
    assert max(family.difference(other, "A") for other in ends(family)) > 1


@pytest.mark.parametrize("light", ["D65", "A"])
def test_a_camera_tells_metamers_no_better(light: str) -> None:
    response = camera_response("Nikon_D5100", light)
    family = nm.metamers(CHART[4], response)
    for other in ends(family):
        assert_allclose(other.values @ response, family.colour(CHART[4]), atol=1e-12)
        # An eye is another observer: it sees them apart in the very light of the photo.
        assert family.difference(other, light) > 0.1


def test_reflectances_stay_within_zero_and_one_and_reach_an_end() -> None:
    family = nm.metamers(CHART[7])
    for other in ends(family):
        assert other.values.min() > -1e-12
        assert other.values.max() < 1 + 1e-12
        assert min(abs(other.values.min()), abs(1 - other.values.max())) < 1e-12


def test_a_spectrum_outside_zero_and_one_gets_no_further_out() -> None:
    family = nm.metamers(replace(CHART[3], values=CHART[3].values + 0.3))
    assert family.spectrum.values.max() > 1.1
    for other in ends(family):
        assert other.values.min() > -1e-12
        assert (other.values <= np.maximum(family.spectrum.values, 1) + 1e-12).all()


def test_blacks_are_orthonormal_and_cross_zero_once_more_each() -> None:
    blacks = metameric_blacks(GRID, observer())
    assert_allclose(blacks @ blacks.T, np.eye(COUNT), atol=1e-12)
    assert [(np.diff(np.sign(black)) != 0).sum() for black in blacks] == [3, 4, 5, 6, 7, 8]


def test_the_order_of_the_bands_does_not_matter() -> None:
    turned = metameric_blacks(GRID[::-1], observer()[::-1])
    assert_allclose(turned[:, ::-1], metameric_blacks(GRID, observer()), atol=1e-9)


def test_there_are_all_but_three_blacks() -> None:
    assert len(nm.metamers(CHART[0], count=99).blacks) == 28


def test_a_metamer_takes_on_the_black_of_another_spectrum() -> None:
    family = nm.metamers(CHART[0])
    other = family.moved(family.toward(CHART[1]), 1)
    assert_allclose(nm.metamers(other).black.values, nm.metamers(CHART[1]).black.values)
    assert_allclose(family.colour(other), family.colour(CHART[0]), atol=1e-12)
    with pytest.raises(SpectrumError, match="31 wavelengths of the first, got 30 others"):
        family.toward(nm.Spectrum(GRID[1:], np.ones(30)))


GAP = np.where(GRID == 500, np.nan, 0.5)


@pytest.mark.parametrize(
    ("spectrum", "message"),
    [
        (nm.Spectrum(GRID, GAP), "without gaps"),
        (nm.Spectrum(GRID, 3000 * CHART[0].values), "reflectances of 0 to 1, got 1.*Divide them"),
        (nm.Spectrum(GRID + 500, CHART[0].values), "cover 450-650 nm, got 900-1200 nm"),
        (nm.Spectrum(GRID, CHART[0].values, unit="band"), "400-700 band"),
        (nm.Spectrum(np.array([400.0, 500, 700]), np.full(3, 0.2)), "four bands or more"),
    ],
)
def test_what_has_no_metamers_is_refused(spectrum: nm.Spectrum, message: str) -> None:
    with pytest.raises(SpectrumError, match=message):
        nm.metamers(spectrum)


@pytest.mark.parametrize("response", [np.ones((31, 3)), observer()[:30], observer()[:, :2]])
def test_a_response_has_three_independent_channels(response: NDArray[np.float64]) -> None:
    with pytest.raises(SpectrumError, match="31 bands and 3 independent channels"):
        nm.metamers(CHART[0], response)


def test_a_light_that_nobody_knows_is_refused() -> None:
    with pytest.raises(CameraError, match="got 'moon'"):
        nm.metamers(CHART[0]).difference(CHART[1], "moon")
