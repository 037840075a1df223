"""Colour images against colour-science and numpy."""

from typing import Any

import colour
import numpy as np
import pytest

from napari_mst.colour import linear_to_srgb, render_srgb
from napari_mst.cube import SpectralCube, pictures
from napari_mst.errors import Cancelled, SpectrumError
from napari_mst.photo.photo import Photo
from napari_mst.spectra import strips
from napari_mst.spectra.colours import colour_difference, true_colour
from napari_mst.spectra.library import colour_checker
from napari_mst.watch import Watch

CHART = colour_checker()
WAVELENGTHS = CHART[0].wavelengths
CUBE = SpectralCube(
    np.stack([patch.values for patch in CHART], axis=1).reshape(31, 4, 6), WAVELENGTHS
)


@pytest.fixture(autouse=True, params=[6, 2**20])
def _strips(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strips, "STRIP_PIXELS", request.param)
    monkeypatch.setattr(pictures, "STRIP", 31 * request.param)


def judged() -> np.ndarray:
    """The chart as colour-science renders it: 8-bit sRGB, (4, 6, 3)."""
    shape = colour.SpectralShape(400, 700, 10)
    cmfs = colour.MSDS_CMFS["CIE 1931 2 Degree Standard Observer"].copy().align(shape)
    light = colour.SDS_ILLUMINANTS["D65"].copy().align(shape)
    xyz = [
        colour.sd_to_XYZ(
            colour.SpectralDistribution(patch.values, WAVELENGTHS),
            cmfs,
            light,
            method="Integration",
        )
        for patch in CHART
    ]
    return np.asarray(np.clip(colour.XYZ_to_sRGB(np.array(xyz) / 100), 0, 1)).reshape(4, 6, 3)


def test_true_colour_is_colour_sciences() -> None:
    found = true_colour(CUBE)
    assert found.dtype == np.uint8
    assert np.abs(found - 255 * judged()).max() <= 1.5


def test_difference_from_a_photo_is_colour_sciences() -> None:
    rng = np.random.default_rng(2)
    photo = np.clip(true_colour(CUBE) + rng.integers(-20, 20, (4, 6, 3)), 0, 255).astype(np.uint8)
    seen = linear_to_srgb(np.clip(render_srgb(CUBE.data, WAVELENGTHS), 0, 1))
    seen_lab = colour.XYZ_to_Lab(colour.sRGB_to_XYZ(np.moveaxis(seen, 0, -1)))
    photo_lab = colour.XYZ_to_Lab(colour.sRGB_to_XYZ(photo / 255))
    expected = np.asarray(colour.delta_E(seen_lab, photo_lab, method="CIE 2000"))
    np.testing.assert_allclose(colour_difference(CUBE, photo), expected, atol=0.03)
    assert expected.max() > 5


def test_own_photo_differs_by_its_rounding_only() -> None:
    assert colour_difference(CUBE, true_colour(CUBE)).max() < 0.7


def test_linear_photo_is_compared_as_it_looks() -> None:
    linear = np.clip(render_srgb(CUBE.data, WAVELENGTHS), 0, 1)
    photo = Photo.from_array(np.moveaxis(linear, 0, -1), encoding="linear")
    assert colour_difference(CUBE, photo).max() < 0.01


def test_what_is_no_number_is_black_and_has_no_difference() -> None:
    data = CUBE.data.copy()
    data[:, 1, 2] = np.nan
    photo = np.full((4, 6, 3), 0.5, dtype=np.float32)
    photo[3, 3] = np.nan
    cube = SpectralCube(data, WAVELENGTHS)
    assert not true_colour(cube)[1, 2].any()
    expected = np.zeros((4, 6), dtype=bool)
    expected[1, 2] = expected[3, 3] = True
    np.testing.assert_array_equal(np.isnan(colour_difference(cube, photo)), expected)


@pytest.mark.parametrize(
    "make", [true_colour, lambda cube, **watch: colour_difference(cube, true_colour(cube), **watch)]
)
def test_progress_and_cancel(make: Any) -> None:
    shares: list[float] = []
    make(CUBE, watch=shares.append)
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0, 1)
    with pytest.raises(Cancelled):
        make(CUBE, watch=Watch(is_cancelled=lambda: True))


def test_what_has_no_colour_is_refused() -> None:
    infrared = SpectralCube(CUBE.data, WAVELENGTHS + 100)
    with pytest.raises(SpectrumError, match="cover 450-650 nm for the true colour, got 500-800 nm"):
        true_colour(infrared)
    with pytest.raises(SpectrumError, match="got 0-30 band"):
        colour_difference(
            SpectralCube(CUBE.data, np.arange(31.0), "band"), np.zeros((4, 6, 3), np.uint8)
        )
    with pytest.raises(SpectrumError, match="RGB photo of 4 x 6 pixels, got 3 channels of 6 x 4"):
        colour_difference(CUBE, np.full((6, 4, 3), 9, np.uint8))
