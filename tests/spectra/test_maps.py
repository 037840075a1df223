"""The table of maps: what each needs, what it makes, and how it is seen; and colour differences."""

from dataclasses import replace

import colour
import numpy as np
import pytest
from tests.spectra.conftest import curve

from napari_mst.cube import SpectralCube
from napari_mst.cube.colour import linear_to_srgb, render_srgb
from napari_mst.errors import Cancelled, CubeError, SpectrumError
from napari_mst.photo.photo import Photo
from napari_mst.spectra.library import colour_checker
from napari_mst.spectra.map_kind import MapInputs
from napari_mst.spectra.maps import MAPS, MOST_CLASSES, band_ratio, colour_difference
from napari_mst.watch import Watch

WAVELENGTHS = np.linspace(400, 700, 7)
RNG = np.random.default_rng(8)
CUBE = SpectralCube(RNG.uniform(0.1, 0.9, (7, 40, 36)).astype(np.float32), WAVELENGTHS)
INPUTS = MapInputs(
    CUBE,
    spectra=(curve(WAVELENGTHS, CUBE.data[:, 1, 1], name="leaf", colour="#123456"),),
    photo=CUBE.render(full_scale=1.0),
    reference=SpectralCube(CUBE.data * np.float32(0.9), WAVELENGTHS),
)

MISSING = {
    "spectra": "Expected one or more spectra to classify by, got none",
    "photo": "Expected a photo of the size of the cube, got none",
    "reference": "Expected a reference cube, got none",
}


@pytest.mark.parametrize("name", MAPS)
def test_every_map_has_the_size_of_its_cube_and_the_content_that_it_says(name: str) -> None:
    kind = MAPS[name]
    result = kind.make(INPUTS)
    for plane in result.planes:
        assert plane.pixels.shape == (40, 36)
        is_whole = np.issubdtype(plane.pixels.dtype, np.integer)
        assert is_whole or kind.content != "labels"
    assert bool(result.names) == (kind.content == "labels")


@pytest.mark.parametrize("name", [name for name in MAPS if MAPS[name].needs])
def test_what_a_map_lacks_is_said(name: str) -> None:
    needs = MAPS[name].needs
    assert needs is not None
    with pytest.raises(SpectrumError, match=MISSING[needs]):
        MAPS[name].make(MapInputs(CUBE))


@pytest.mark.parametrize("name", [name for name in MAPS if MAPS[name].lines])
def test_lines_begin_within_the_cube_and_another_number_of_them_is_refused(name: str) -> None:
    kind = MAPS[name]
    first = kind.first_wavelengths(CUBE)
    assert len(first) == len(kind.lines)
    assert all(400 <= wavelength <= 700 for wavelength in first)
    explicit = kind.make(replace(INPUTS, wavelengths=first))
    np.testing.assert_array_equal(explicit.planes[0].pixels, kind.make(INPUTS).planes[0].pixels)
    with pytest.raises(SpectrumError, match=f"Expected {len(first)} wavelengths"):
        kind.make(replace(INPUTS, wavelengths=(500.0,)))


@pytest.mark.parametrize("name", [name for name in MAPS if MAPS[name].number])
def test_default_number_is_within_its_range(name: str) -> None:
    number = MAPS[name].number
    assert number is not None
    assert number.low <= number.default <= number.high
    assert MAPS[name].filled(INPUTS).number == number.default


def test_numbers_and_wavelengths_reach_the_functions() -> None:
    assert len(MAPS["components"].make(replace(INPUTS, number=5)).planes) == 5
    assert len(MAPS["clusters"].make(replace(INPUTS, number=3)).names) == 3
    nothing = MAPS["classes"].make(replace(INPUTS, number=0.1)).planes[0].pixels
    assert nothing[1, 1] == 1
    assert nothing.sum() == 1
    ratio = MAPS["ratio"].make(replace(INPUTS, wavelengths=(650, 450))).planes[0].pixels
    np.testing.assert_array_equal(ratio, band_ratio(CUBE, 650, 450))


def test_classes_have_the_names_and_colours_of_their_spectra() -> None:
    result = MAPS["classes"].make(INPUTS)
    assert (result.names, result.tints) == (("leaf",), ("#123456",))


def test_too_many_spectra_are_refused() -> None:
    many = replace(INPUTS, spectra=[*INPUTS.spectra] * (MOST_CLASSES + 1))
    with pytest.raises(
        SpectrumError, match="Expected at most 250 spectra to classify by, got more"
    ):
        MAPS["classes"].make(many)


@pytest.mark.parametrize(
    "name", ["classes", "clusters", "components", "anomalies", "reference-rmse"]
)
def test_long_maps_report_and_heed_a_cancel(name: str) -> None:
    shares: list[float] = []
    MAPS[name].make(INPUTS, Watch(shares.append))
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0, 1)
    shares.clear()
    with pytest.raises(Cancelled):
        MAPS[name].make(INPUTS, Watch(shares.append, lambda: bool(shares)))
    assert len(shares) == 1


def test_limits_leave_out_the_outermost_values_and_what_is_no_number() -> None:
    values = np.append(np.linspace(0, 100, 101), np.nan)
    low, high = MAPS["anomalies"].limits_of(values)
    assert (low, high) == pytest.approx((1, 99))


def test_signed_limits_have_zero_in_the_middle() -> None:
    low, high = MAPS["reference-difference"].limits_of(np.linspace(-10, 90, 101))
    assert low == -high == pytest.approx(-89)


@pytest.mark.parametrize("value", [0.5, np.nan])
def test_constant_map_has_limits_with_a_range(value: float) -> None:
    low, high = MAPS["ratio"].limits_of(np.full((4, 4), value))
    assert high > low


def test_known_range_is_the_limits() -> None:
    assert MAPS["normalised-difference"].limits_of(np.zeros(3)) == (-1, 1)


PATCHES = colour_checker()
BANDS = PATCHES[0].wavelengths
CHART = SpectralCube(np.stack([patch.values for patch in PATCHES], axis=1).reshape(31, 4, 6), BANDS)


def test_difference_from_a_photo_is_colour_sciences() -> None:
    rng = np.random.default_rng(2)
    changed = CHART.render(full_scale=1.0) + rng.integers(-20, 20, (4, 6, 3))
    photo = np.clip(changed, 0, 255).astype(np.uint8)
    seen = linear_to_srgb(np.clip(render_srgb(CHART.data, BANDS), 0, 1))
    seen_lab = colour.XYZ_to_Lab(colour.sRGB_to_XYZ(np.moveaxis(seen, 0, -1)))
    photo_lab = colour.XYZ_to_Lab(colour.sRGB_to_XYZ(photo / 255))
    expected = np.asarray(colour.delta_E(seen_lab, photo_lab, method="CIE 2000"))
    np.testing.assert_allclose(colour_difference(CHART, photo), expected, atol=0.03)
    assert expected.max() > 5


def test_linear_photo_is_compared_as_it_looks() -> None:
    linear = np.clip(render_srgb(CHART.data, BANDS), 0, 1)
    photo = Photo.from_array(np.moveaxis(linear, 0, -1), encoding="linear")
    assert colour_difference(CHART, photo).max() < 0.01


def test_what_is_no_number_is_black_and_has_no_difference() -> None:
    data = CHART.data.copy()
    data[:, 1, 2] = np.nan
    photo = np.full((4, 6, 3), 0.5, dtype=np.float32)
    photo[3, 3] = np.nan
    cube = SpectralCube(data, BANDS)
    expected = np.zeros((4, 6), dtype=bool)
    expected[1, 2] = expected[3, 3] = True
    np.testing.assert_array_equal(np.isnan(colour_difference(cube, photo)), expected)


def test_difference_from_a_photo_reports_and_heeds_a_cancel() -> None:
    shares: list[float] = []
    photo = CHART.render(full_scale=1.0)
    colour_difference(CHART, photo, watch=shares.append)
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0, 1)
    with pytest.raises(Cancelled):
        colour_difference(CHART, photo, watch=Watch(is_cancelled=lambda: True))


def test_what_has_no_colour_is_refused() -> None:
    with pytest.raises(CubeError, match="cover 450-650 nm for a colour, got 0-30 band"):
        colour_difference(
            SpectralCube(CHART.data, np.arange(31.0), "band"), np.zeros((4, 6, 3), np.uint8)
        )
    with pytest.raises(SpectrumError, match="RGB photo of 4 x 6 pixels, got 3 channels of 6 x 4"):
        colour_difference(CHART, np.full((6, 4, 3), 9, np.uint8))
