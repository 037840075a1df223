"""Cubes as pictures, judged by colour-science and Pillow."""

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import colour
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image, ImageCms

import napari_mst as nm
from napari_mst.analysis.library import colour_checker
from napari_mst.base.arrays import Doubles
from napari_mst.base.errors import CameraError, Cancelled, CubeError, NapariMstError, SaveError
from napari_mst.base.progress import Progress
from napari_mst.cube import pictures
from napari_mst.cube.illuminants import illuminant_names, illuminant_power
from napari_mst.cube.pictures import composite_of, paint
from napari_mst.formats.picture_files import write_picture

CHART = colour_checker()
BANDS = CHART[0].wavelengths
CUBE = nm.SpectralCube(np.stack([one.values for one in CHART], axis=1).reshape(31, 4, 6), BANDS)
OBSERVER = colour.MSDS_CMFS["CIE 1931 2 Degree Standard Observer"]
LEDS = [name for name in illuminant_names() if name.startswith("LED")]


def judged(light: str, *, is_chromatically_adapted: bool) -> Doubles:
    """Linear sRGB of the chart under *light*, (4, 6, 3), as colour-science has it."""
    shape = colour.SpectralShape(400, 700, 10)
    power = colour.SDS_ILLUMINANTS[light].copy().align(shape)
    patches = [colour.SpectralDistribution(one.values, BANDS) for one in CHART]
    white = colour.SpectralDistribution(np.ones(31), BANDS)
    observer = OBSERVER.copy().align(shape)
    seen = [
        colour.sd_to_XYZ(one, observer, power, method="Integration") / 100
        for one in (*patches, white)
    ]
    xyz = np.array(seen, dtype=np.float64)
    daylight = np.linalg.inv(colour.models.RGB_COLOURSPACE_sRGB.matrix_XYZ_to_RGB).sum(axis=1)
    if is_chromatically_adapted:
        adapted = colour.chromatic_adaptation(
            xyz, xyz[-1], daylight, method="Von Kries", transform="Bradford"
        )
        xyz = np.asarray(adapted, dtype=np.float64)
    linear = xyz @ colour.models.RGB_COLOURSPACE_sRGB.matrix_XYZ_to_RGB.T
    brightest = 1.0 if is_chromatically_adapted else linear[-1].max()
    return np.asarray(linear[:-1] / brightest).reshape(4, 6, 3)


@pytest.mark.parametrize("is_chromatically_adapted", [True, False])
@pytest.mark.parametrize("light", ["D65", "A", "LED-B3", "LED-RGB1"])
def test_rendering_is_colour_sciences(light: str, is_chromatically_adapted: bool) -> None:
    expected = judged(light, is_chromatically_adapted=is_chromatically_adapted)
    encoded = colour.cctf_encoding(np.clip(expected, 0, 1), function="sRGB")
    found = CUBE.render(light, adapted=is_chromatically_adapted)
    assert found.dtype == np.uint8
    assert found.shape == (4, 6, 3)
    assert np.abs(found - 255 * encoded).max() < 1.5


@pytest.mark.parametrize("light", illuminant_names())
def test_white_is_white_under_any_light(light: str) -> None:
    white = nm.SpectralCube(np.ones((31, 1, 1)), BANDS)
    assert white.render(light).tolist() == [[[255, 255, 255]]]
    assert white.render(light, adapted=False).max() == 255


def test_unadapted_lamp_light_is_reddish() -> None:
    white = nm.SpectralCube(np.ones((31, 1, 1)), BANDS)
    red, green, blue = white.render("a", adapted=False)[0, 0].tolist()
    assert red > green > blue


@pytest.mark.parametrize("name", LEDS)
def test_leds_are_the_cies(name: str) -> None:
    expected = colour.SDS_ILLUMINANTS[name]
    assert_allclose(illuminant_power(name, expected.wavelengths), expected.values, atol=1e-6)


def test_light_comes_from_a_file_or_a_spectrum(tmp_path: Path) -> None:
    at = np.arange(380.0, 781, 5)
    power = illuminant_power("A", at)
    rows = [f"{one:g},{value:.9g}" for one, value in zip(at[::-1], power[::-1], strict=True)]
    file = tmp_path / "lamp.csv"
    file.write_text("\n".join(["wavelength (nm),power", *rows]))
    expected = CUBE.render("A")
    assert_array_equal(CUBE.render(file), expected)
    assert_array_equal(CUBE.render(nm.Spectrum(at[::-1], power[::-1])), expected)


def test_bands_that_are_far_apart_or_unordered_are_integrated() -> None:
    order = np.random.default_rng(0).permutation(31)
    shuffled = nm.SpectralCube(CUBE.data[order], BANDS[order])
    near = np.abs(shuffled.render("A").astype(int) - CUBE.render("A"))
    assert near.max() <= 3
    coarse = nm.SpectralCube(np.full((5, 1, 1), 0.5), np.array([440.0, 500, 560, 620, 680]))
    red, green, blue = coarse.render("LED-B3")[0, 0].tolist()
    assert red == green == blue == 188


def test_bands_that_the_file_calls_bad_do_not_count() -> None:
    data = CUBE.data.copy()
    data[15] = np.nan
    marks = np.ones(31, dtype=int)
    marks[15] = 0
    cube = nm.SpectralCube(data, BANDS, metadata={"bbl": tuple(marks.tolist())})
    assert np.abs(cube.render().astype(int) - CUBE.render()).max() <= 4


def test_full_scale_says_what_is_white() -> None:
    stored = replace(CUBE, data=(CUBE.data * 4000).astype(np.uint16), quantity="")
    assert np.abs(stored.render(full_scale=4000).astype(int) - CUBE.render()).max() <= 1
    with pytest.raises(CubeError, match="numbers of unknown meaning"):
        stored.render()
    with pytest.raises(CubeError, match="full scale above 0, got 0"):
        stored.render(full_scale=0)


def test_reflectance_is_shown_as_it_is_rendered() -> None:
    assert_array_equal(CUBE.composite(), CUBE.render())


def test_picture_is_the_same_strip_by_strip(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = CUBE.render()
    monkeypatch.setattr(pictures, "STRIP", 31 * 6)
    assert_array_equal(CUBE.render(), whole)
    part = slice(1, 4, 2), slice(2, 5)
    painted = paint(CUBE, composite_of(CUBE), part)
    assert_array_equal(painted, whole[1:4:2, 2:5])


def infrared(**metadata: Any) -> nm.SpectralCube:
    data = np.random.default_rng(1).uniform(100, 900, (40, 30, 20))
    return nm.SpectralCube(data, np.linspace(550, 2500, 40), quantity="radiance", metadata=metadata)


def shown_bands(cube: nm.SpectralCube) -> list[int]:
    recipe = composite_of(cube)
    return [int(recipe.bands[row]) for row in recipe.weights.argmax(axis=0)]


def test_default_bands_of_the_header_are_shown_where_there_is_no_colour() -> None:
    assert shown_bands(infrared(**{"default bands": (30, 20, 10)})) == [29, 19, 9]
    assert shown_bands(infrared(**{"default bands": "{30, 20, 10}"})) == [29, 19, 9]
    assert shown_bands(infrared(**{"default bands": (7,)})) == [6, 6, 6]
    visible = replace(CUBE, metadata={"default bands": (1, 2, 3)})
    assert_array_equal(visible.composite(), CUBE.composite())


def test_near_infrared_is_red_in_a_false_colour() -> None:
    cube = infrared()
    wanted = [cube.nearest_band(one) for one in (860, 650, 550)]
    assert shown_bands(cube) == wanted
    assert shown_bands(infrared(**{"default bands": (99, 1, 1)})) == wanted


@pytest.mark.parametrize("unit", ["band", "nm"])
def test_other_ranges_are_divided_evenly(unit: str) -> None:
    cube = nm.SpectralCube(np.random.default_rng(2).random((11, 5, 4)), np.arange(11.0), unit)
    assert shown_bands(cube) == [8, 5, 2]
    single = nm.SpectralCube(cube.data[:1], cube.wavelengths[:1], unit)
    assert shown_bands(single) == [0, 0, 0]


def test_three_wavelengths_can_be_chosen() -> None:
    cube = infrared()
    found = cube.composite((2500, 1500, 550))
    recipe = composite_of(cube, (2500, 1500, 550))
    assert recipe.title == "2500, 1500, 550 nm"
    low, high = np.percentile(cube.data[cube.nearest_band(2500)], (1, 99))
    assert_allclose((recipe.tone.black[0], recipe.tone.white[0]), (low, high), rtol=1e-3)
    assert found[..., 0].min() == 0
    assert found[..., 0].max() == 255
    with pytest.raises(CubeError, match="within 550-2500 nm, red first, got 300, 700, 600"):
        cube.composite((300, 700, 600))


def brightness(cube: nm.SpectralCube) -> float:
    """Median brightness, 0-1, of the pixels that a picture is made for."""
    values = np.nan_to_num(cube.data.astype(np.float64))
    return float(np.median(cube.composite().mean(axis=-1)[values.any(axis=0)]) / 255)


def test_any_cube_is_neither_dark_nor_glaring() -> None:
    rng = np.random.default_rng(3)
    base = rng.random((31, 40, 30))
    for data in (base**9, base**0.02, base * 1e-6, base * 65535 + 1e4, -base, base * 0 + 7):
        for quantity in ("reflectance", "radiance"):
            cube = nm.SpectralCube(data, BANDS, quantity=quantity)
            assert 0.2 <= brightness(cube) <= 0.8
            assert 0.2 <= brightness(replace(cube, unit="band")) <= 0.8


def test_a_value_that_most_pixels_share_leaves_the_others_their_contrast() -> None:
    data = np.full((31, 40, 30), 7.0)
    data[:, :4] = 9
    found = nm.SpectralCube(data, BANDS, quantity="radiance").composite()
    assert found[0, 0].min() == 255
    assert found[-1, -1].max() < 200


def test_border_and_missing_pixels_do_not_change_the_picture() -> None:
    cube = replace(CUBE, data=(CUBE.data * 1000 + 7).astype(np.int32), quantity="")
    framed = np.zeros((31, 8, 60), dtype=np.int32)
    framed[:, 2:6, 30:36] = cube.data
    expected = cube.composite()
    found = replace(cube, data=framed).composite()
    assert_array_equal(found[2:6, 30:36], expected)
    assert found.any(axis=-1).sum() <= 24
    framed[framed == 0] = -9999
    ignoring = replace(cube, data=framed, metadata={"data ignore value": -9999.0})
    assert_array_equal(ignoring.composite(), found)
    missing = np.where(framed == -9999, np.nan, framed.astype(np.float32))
    assert_array_equal(replace(cube, data=missing).composite(), found)


def test_nothing_but_missing_pixels_is_black() -> None:
    cube = nm.SpectralCube(np.full((31, 3, 2), np.nan), BANDS)
    assert not cube.composite().any()
    assert not cube.render().any()


def test_every_shared_envi_file_is_seen(shared_data: Path) -> None:
    seen = 0
    for header in sorted((shared_data / "envi").glob("*/*.hdr")):
        try:
            cube = nm.read_cube(header)
        except NapariMstError:
            continue
        seen += 1
        median = np.median(cube.composite().mean(axis=-1)) / 255
        assert 0.2 <= median <= 0.8, header.name
    assert seen >= 7


def test_render_and_composite_report_and_stop() -> None:
    for make in (CUBE.render, CUBE.composite):
        shares: list[float] = []
        make(progress=shares.append)
        assert (shares[0], shares[-1]) == (0, 1)
        with pytest.raises(Cancelled):
            make(progress=Progress(is_cancelled=lambda: True))


def test_what_cannot_be_rendered_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CubeError, match="cover 450-650 nm for a colour, got 550-2500 nm"):
        infrared().render(full_scale=900)
    with pytest.raises(CameraError, match="a light as LED-B3, LED-B"):
        CUBE.render("LED-B33")
    with pytest.raises(CameraError, match="a CSV file or a light"):
        CUBE.render("x" * 300)
    file = tmp_path / "lamp.csv"
    file.write_text("nm,power\n500,1\n600,1\n")
    with pytest.raises(CameraError, match=r"from 400 to 700 nm in lamp.csv"):
        CUBE.render(file)
    file.write_text("nothing")
    with pytest.raises(CameraError, match=r"rows of a wavelength and one value in lamp\.csv"):
        CUBE.render(file)


def test_saved_picture_has_its_profile_and_its_facts(tmp_path: Path) -> None:
    picture = CUBE.render("A")
    path = write_picture(tmp_path / "chart.PNG", picture, "Chart", {"illuminant": "A"})
    with Image.open(path) as image:
        assert_array_equal(np.asarray(image), picture)
        profile = ImageCms.ImageCmsProfile(io.BytesIO(image.info["icc_profile"]))
        assert "sRGB" in ImageCms.getProfileDescription(profile)
        assert json.loads(image.info["napari_mst"]) == {"illuminant": "A"}
    with pytest.raises(SaveError, match=r"exists|there"):
        write_picture(path, picture, "Chart", {})
    with pytest.raises(SaveError, match=r"ending in .png, got .chart.jpg"):
        write_picture(tmp_path / "chart.jpg", picture, "Chart", {})
