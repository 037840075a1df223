"""Tables and formulas of colour, judged by colour-science."""

import colour
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from napari_mst.cube.colour import (
    XYZ_TO_SRGB,
    colour_matching_functions,
    illuminant,
    linear_estimate,
    linear_to_srgb,
    render_srgb,
    srgb_response,
    srgb_to_linear,
)

BANDS = np.arange(400, 701, 10.0)
SHAPE = colour.SpectralShape(380, 780, 5)
OBSERVER = colour.MSDS_CMFS["CIE 1931 2 Degree Standard Observer"]
CODES = np.linspace(0, 1, 4097)


def test_observer_is_cie_1931() -> None:
    assert_allclose(
        colour_matching_functions(SHAPE.wavelengths),
        OBSERVER.copy().align(SHAPE).values,
        atol=1e-12,
    )


@pytest.mark.parametrize("name", ["D65", "A"])
def test_illuminant_is_the_cies(name: str) -> None:
    expected = colour.SDS_ILLUMINANTS[name].copy().align(SHAPE).values
    assert_allclose(illuminant(name, SHAPE.wavelengths), expected, atol=6e-5)
    assert illuminant(name, 560) == 100


def test_observer_is_blind_outside_its_table() -> None:
    assert not colour_matching_functions([300, 379, 781, 1000]).any()


def test_srgb_matrix_is_the_standards() -> None:
    assert_allclose(XYZ_TO_SRGB, colour.RGB_COLOURSPACES["sRGB"].matrix_XYZ_to_RGB, atol=1e-4)


def test_srgb_curves_are_colour_sciences() -> None:
    assert_allclose(srgb_to_linear(CODES), colour.models.eotf_sRGB(CODES), rtol=1e-12, atol=1e-15)
    assert_allclose(
        linear_to_srgb(CODES), colour.models.eotf_inverse_sRGB(CODES), rtol=1e-12, atol=1e-15
    )


@given(st.floats(-0.5, 2))
def test_srgb_curves_are_inverse(value: float) -> None:
    code = np.asarray(value)
    assert linear_to_srgb(srgb_to_linear(code)) == pytest.approx(value, abs=1e-6)


def test_srgb_curves_keep_float32() -> None:
    assert srgb_to_linear(CODES.astype(np.float32)).dtype == np.float32


def test_white_is_white() -> None:
    assert_allclose(srgb_response(BANDS).sum(axis=0), 1)


def test_colour_chart_renders_as_colour_science_renders_it() -> None:
    shape = colour.SpectralShape(400, 700, 10)
    observer, light = (
        table.copy().align(shape) for table in (OBSERVER, colour.SDS_ILLUMINANTS["D65"])
    )
    chips = [chip.copy().align(shape) for chip in colour.SDS_COLOURCHECKERS["ISO 17321-1"].values()]
    xyz = [colour.sd_to_XYZ(chip, observer, light, method="Integration") / 100 for chip in chips]
    rendered = render_srgb(np.transpose([chip.values for chip in chips])[:, None], BANDS)
    expected = xyz @ colour.RGB_COLOURSPACES["sRGB"].matrix_XYZ_to_RGB.T
    assert_allclose(rendered[:, 0].T, expected, atol=0.004)


def test_single_band_is_rendered() -> None:
    assert srgb_response([550]).shape == (1, 3)


def test_linear_estimate_is_exact_for_spectra_of_three_dimensions() -> None:
    rng = np.random.default_rng(0)
    spectra = rng.random((50, 3)) @ rng.random((3, 31))
    response = srgb_response(BANDS)
    estimate = linear_estimate(spectra, response)
    assert estimate.shape == (31, 3)
    assert_allclose(spectra @ response @ estimate.T, spectra, atol=1e-10)
