"""A ColorChecker in a photo tells what its colours mean."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from PIL import Image

from napari_mst import Acquisition, Chart, Photo, calibrate
from napari_mst.base.errors import CameraError, PhotoError
from napari_mst.calibration.chart import CHARTS as KINDS
from napari_mst.calibration.chart import chart_colours
from napari_mst.calibration.chart_calibration import _SMALL, _errors, _fit_colours
from napari_mst.cube import SpectralCube
from napari_mst.cube.colour import colour_matching_functions, linear_to_srgb, srgb_response
from napari_mst.photo.cameras import GRID, camera_response, chart_responses, unbalanced_response
from napari_mst.photo.profiles import of_coding
from napari_mst.references.reference_spectrum import patches_of
from napari_mst.references.refining import spots_of

SIDE = 12
CORNERS = ((20.0, 20.0), (20.0, 80.0), (56.0, 80.0), (56.0, 20.0))
CHART = Chart(CORNERS)
PATCHES = KINDS["classic"].patches
CHARTS = {  # the corner patches of two photos, in their order
    "colorchecker-classic-mini.jpg": ((380.0, 69.0), (91.0, 69.0), (91.0, 240.0), (380.0, 240.0)),
    "classic.png": ((58.0, 225.0), (330.0, 225.0), (330.0, 58.0), (58.0, 58.0)),
}

Array = NDArray[Any]


def scene() -> Array:
    """A grey wall with the chart on it: (31, 80, 100)."""
    cube = np.full((31, 80, 100), 0.3)
    for spectrum, (row, column) in zip(KINDS["classic"].reflectances, CHART.centres, strict=True):
        top, left = round(row) - SIDE // 2, round(column) - SIDE // 2
        cube[:, top : top + SIDE, left : left + SIDE] = spectrum[:, None, None]
    return cube


def linear_photo(camera: str, light: str, exposure: float = 0.9) -> Photo:
    response = unbalanced_response(camera, light)
    raw = np.einsum("bhw,bc->hwc", scene(), response / response.sum(axis=0).max())
    values = np.rint(raw * exposure * 65535).astype(np.uint16)
    return Photo.from_array(values, encoding="linear")


def encoded_photo(gains: Array, gamma: float = 1.0) -> Photo:
    linear = np.einsum("bhw,bc->hwc", scene(), srgb_response(GRID)).clip(0)
    codes = linear_to_srgb((linear * gains).clip(0, 1) ** gamma)
    return Photo.from_array(np.rint(codes * 255).astype(np.uint8))


@pytest.mark.parametrize("light", ["D65", "A", "F11"])
@pytest.mark.parametrize("exposure", [0.9, 0.45])
def test_linear_photo_tells_white_and_the_response_of_camera_and_light(
    light: str, exposure: float
) -> None:
    calibration = calibrate(linear_photo("Canon_EOS_R5", light, exposure), CHART)
    acquisition = calibration.acquisition
    assert acquisition is not None
    white = unbalanced_response("Canon_EOS_R5", light).sum(axis=0)
    expected = white / white.max() * exposure * 65535
    assert_allclose(acquisition.white / acquisition.gains, expected, rtol=0.02)
    true = camera_response("Canon_EOS_R5", light)
    mean = chart_responses().mean.T
    assert np.abs(acquisition.response - true).sum() < 0.5 * np.abs(mean - true).sum()
    assert calibration.means.after < 0.02
    # the history of a cube tells it by this name
    again = Acquisition(
        acquisition.camera, acquisition.illuminant, acquisition.white, acquisition.balance
    )
    assert_array_equal(again.response, acquisition.response)


@pytest.mark.parametrize(
    ("gains", "gamma"),
    [(np.array([1.0, 1.0, 1.0]), 1.0), (np.array([1.0, 0.7, 0.35]), 1.0), (np.full(3, 0.5), 1.2)],
    ids=["right", "lamp", "dark-with-a-curve"],
)
def test_encoded_photo_gets_the_colours_of_the_chart(gains: Array, gamma: float) -> None:
    photo = encoded_photo(gains, gamma)
    calibration = calibrate(photo, CHART)
    assert calibration.acquisition is None
    right = calibration.corrected(photo)
    assert (right.encoding, right.shape) == ("srgb", photo.shape)
    wall = right.rows(0, 1, linear=True)[:, 0, 0]
    assert_allclose(wall, 0.3, atol=0.02)
    assert calibration.means.after < max(0.06, 0.5 * calibration.means.before)
    assert right.sha256 != photo.sha256
    assert "calibrated with a chart" in right.assumptions[-1]


@pytest.mark.parametrize("gamma", [0.85, 1.0, 1.2])
def test_tone_curve_is_found_between_the_steps_that_are_tried(gamma: float) -> None:
    photo = encoded_photo(np.full(3, 0.9), gamma)
    assert calibrate(photo, CHART).means.left_out < 0.015


def test_corners_may_begin_anywhere_and_go_either_way() -> None:
    photo = linear_photo("Nikon_D5100", "D65")
    first = calibrate(photo, CHART)
    for start in range(4):
        corners = (CORNERS[start:] + CORNERS[:start])[:: 1 if start % 2 else -1]
        assert calibrate(photo, Chart(corners)).chart.corners == CORNERS  # type: ignore[arg-type]
    assert first.chart == CHART


SG = Chart(((15.0, 15.0), (15.0, 145.0), (105.0, 145.0), (105.0, 15.0)), "digital-sg")


def digital_sg(response: Array) -> Array:
    """The colours (120, 160, 3) of a Digital SG on a wall; its black patches are as the wall."""
    cube = np.full((31, 120, 160), 0.05)
    for spectrum, (row, column) in zip(KINDS["digital-sg"].reflectances, SG.centres, strict=True):
        top, left = round(row) - 3, round(column) - 3
        cube[:, top : top + 7, left : left + 7] = spectrum[:, None, None]
    return np.einsum("bhw,bc->hwc", cube, response).clip(0)


@pytest.mark.parametrize("turn", [0, 2])
def test_digital_sg_calibrates_photos_of_both_kinds(turn: int) -> None:
    corners = SG.corners[turn:] + SG.corners[:turn]
    given = Chart(corners, "digital-sg")  # type: ignore[arg-type]
    response = unbalanced_response("Canon_EOS_R5", "A")
    raw = np.rint(digital_sg(response / response.sum(axis=0).max()) * 60_000).astype(np.uint16)
    told = calibrate(Photo.from_array(raw, encoding="linear"), given)
    assert told.chart == SG  # all its corners are white: its colours tell which is which
    assert told.means.after < 0.02
    assert len(told.patches) == len(patches_of(told)) == 125
    colours = digital_sg(srgb_response(GRID)) * (0.8, 0.6, 0.4)
    codes = np.rint(linear_to_srgb(colours.clip(0, 1)) * 255).astype(np.uint8)
    calibration = calibrate(Photo.from_array(codes), given)
    assert calibration.means.after < 0.3 * calibration.means.before


def test_spectra_of_the_digital_sg_have_the_colours_that_its_maker_publishes() -> None:
    colour = pytest.importorskip("colour")
    published = colour.CCS_COLOURCHECKERS["ColorCheckerSG - Before November 2014"]
    kind = KINDS["digital-sg"]
    light = colour.SDS_ILLUMINANTS["D50"].copy().align(colour.SpectralShape(400, 700, 10)).values
    weights = colour_matching_functions(GRID) * light[:, None]
    white = colour.xy_to_XYZ(published.illuminant)
    seen = kind.reflectances @ weights / weights.sum(axis=0) * white
    true = np.array([colour.xyY_to_XYZ(published.data[name]) for name in kind.patches])
    labs = [colour.XYZ_to_Lab(xyz, published.illuminant) for xyz in (seen, true)]
    off = np.linalg.norm(labs[0] - labs[1], axis=1)
    assert off.mean() < 1
    assert off.max() < 6


def test_kinds_of_charts_are_complete_and_others_are_refused() -> None:
    for name, kind in KINDS.items():
        assert kind.reflectances.shape == (len(kind.patches), 31)
        assert len(kind.places) == len(set(map(tuple, kind.places))) == len(kind.patches)
        greys = kind.reflectances[list(kind.greys)].mean(axis=1)
        assert (np.diff(greys) < 0).all()
        assert len(Chart(CORNERS, name).centres) == len(kind.patches)
    with pytest.raises(PhotoError, match="Expected a chart classic, passport, digital-sg, got"):
        Chart(CORNERS, "nano")


def test_report_tells_patch_by_patch_before_after_and_left_out() -> None:
    calibration = calibrate(encoded_photo(np.array([1.0, 0.7, 0.35])), CHART)
    assert [patch.name for patch in calibration.patches] == list(PATCHES)
    assert calibration.means.after < calibration.means.left_out < calibration.means.before
    lines = calibration.table().splitlines()
    assert lines[0].split("\t") == ["patch", "before", "after", "left out"]
    assert lines[-1].startswith("mean\t")
    assert len(lines) == 26


COVERED = (8, 9, 14, 15)
"""Two rows and two columns in the middle of the chart."""


def covered(photo: Photo, chart: Chart, share: float) -> Photo:
    """*photo* with the patches `COVERED` by a brown thing of this *share* of its range."""
    pixels = np.moveaxis(photo.pixels, 0, -1).copy()
    half = 2 * chart.window // 3
    for row, column in np.rint(chart.centres[list(COVERED)]).astype(int):
        place = np.s_[row - half : row + half + 1, column - half : column + half + 1]
        pixels[place] = np.array([share, 0.8 * share, 0.6 * share]) * photo.full_scale
    return Photo.from_array(pixels, encoding=photo.encoding)


@pytest.mark.parametrize("encoding", ["linear", "srgb"])
@pytest.mark.parametrize("share", [0.05, 0.8], ids=["dark", "bright"])
def test_patches_that_the_rest_contradict_are_named_and_left_out(
    encoding: str, share: float
) -> None:
    linear = linear_photo("Nikon_D5100", "A")
    photo = linear if encoding == "linear" else encoded_photo(np.array([1.0, 0.7, 0.35]))
    calibration = calibrate(covered(photo, CHART, share), CHART)
    assert calibration.contradicting == COVERED
    assert calibration.means.left_out < 0.015
    names = ", ".join(PATCHES[number] for number in COVERED)
    assert calibration.table().endswith(f"The other patches contradict {names}: left out.")
    assert len(patches_of(calibration)) == 20
    if encoding == "srgb":
        assert names in calibration.corrected(photo).assumptions[-1]


def test_calibration_that_would_make_the_colours_worse_is_refused() -> None:
    """Patches that are off in ways of their own are nothing that a correction could learn."""
    photo = encoded_photo(np.ones(3))
    pixels = np.moveaxis(photo.pixels, 0, -1).copy()
    factors = np.random.default_rng(1).uniform(0.85, 1.15, (24, 3))
    for (row, column), factor in zip(np.rint(CHART.centres).astype(int), factors, strict=True):
        place = np.s_[row - 6 : row + 6, column - 6 : column + 6]
        pixels[place] = np.minimum(pixels[place] * factor, 248)
    message = "betters the colours, got patches 16% off before and 1[78]% after"
    with pytest.raises(PhotoError, match=message) as error:
        calibrate(Photo.from_array(pixels), CHART)
    assert len(str(error.value)) < 300


def covered_file(path: Path, chart: Chart, share: float, folder: Path) -> Path:
    """A PNG of the photo in *path*, with its colour profile, on which something covers patches."""
    with Image.open(path) as image:
        stored = Photo.from_array(np.asarray(image.convert("RGB")))
        pixels = np.moveaxis(covered(stored, chart, share).pixels, 0, -1).astype(np.uint8)
        Image.fromarray(pixels).save(folder / "a.png", icc_profile=image.info["icc_profile"])
    return folder / "a.png"


@pytest.mark.parametrize(
    ("name", "share"),
    [
        pytest.param(name, share, marks=[] if (at + to) % 2 else pytest.mark.slow)
        for at, name in enumerate(CHARTS)
        for to, share in enumerate((0.1, 0.8))
    ],
)
def test_real_photos_are_nearer_to_the_chart_and_of_a_covered_one_as_near(
    shared_data: Path, tmp_path: Path, name: str, share: float
) -> None:
    """Both are in wider gamuts than sRGB, in which whole patches of them would be clipped."""
    path = shared_data / "charts" / name
    photo = Photo.read(path)
    assert photo.unconverted
    whole = calibrate(photo, Chart(CHARTS[name]))
    assert whole.contradicting == ()
    assert whole.means.left_out < 0.2
    assert whole.means.left_out < 0.7 * whole.means.before
    found = calibrate(covered_file(path, whole.chart, share, tmp_path), Chart(CHARTS[name]))
    assert set(found.contradicting) <= set(COVERED)
    colours = np.maximum(chart_colours(photo, whole.chart), _SMALL)
    is_seen = ~np.isin(np.arange(24), COVERED)
    best = _errors(_fit_colours(colours, is_seen, "classic"), colours)[is_seen].mean()
    assert _errors(found.correction, colours)[is_seen].mean() < 1.15 * best


def test_glare_between_the_patches_is_no_overexposed_chart() -> None:
    """It lies where the patches of a chart the other way round would be."""
    photo = encoded_photo(np.array([0.8, 0.7, 0.5]))
    pixels = np.moveaxis(photo.pixels, 0, -1).copy()
    for row in np.rint(CHART.centres[:, 0]).astype(int):
        pixels[row - SIDE // 2 : row - SIDE // 2 + 3] = 255
    glaring = calibrate(pixels, CHART)
    assert glaring.means == calibrate(photo, CHART).means


WIDE = {"Display P3": (12, 13), "BT.2020": (9, 1)}
"""Primaries and curve of H.273."""
ORANGE = 6
CYAN = {17}
"""Its red is below 0 in sRGB, and less than the others say where a camera exaggerates colours."""


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
@pytest.mark.parametrize("name", WIDE)
def test_patches_outside_srgb_are_not_at_full_scale(name: str, dtype: str) -> None:
    """A camera exaggerates colours: orange has a red above 1 in sRGB, and one below 1 as stored."""
    space = of_coding(*WIDE[name])
    assert space
    seen = np.einsum("bhw,bc->hwc", scene(), srgb_response(GRID))
    linear = seen + 0.5 * (seen - seen.mean(axis=2, keepdims=True))
    assert linear.max() > 1.04
    codes = imagecodecs.cms_transform(
        linear_to_srgb(linear).astype(np.float32),
        bytes(imagecodecs.cms_profile("srgb")),
        space.profile,
        colorspace="rgb",
        outcolorspace="rgb",
        intent=imagecodecs.CMS.INTENT.RELATIVE_COLORIMETRIC,
    )
    assert codes.max() < 0.99
    stored = np.rint(codes.clip(0, 1) * np.iinfo(dtype).max).astype(dtype)
    photo = Photo.from_array(stored).in_srgb(space)

    light = photo.light()
    is_stored = (codes > 0).all(axis=2)
    assert is_stored.mean() > 0.8
    expected = np.moveaxis(linear, -1, 0)[:, is_stored]
    assert_allclose(light[:, is_stored], expected, atol=0.02 if dtype == "uint8" else 1e-3)
    part = photo.cropped((20, 40, 20, 50))
    assert_array_equal(part.light(3, 7), light[:, 23:27, 20:50])

    calibration = calibrate(photo, CHART)
    assert CYAN.issuperset(calibration.contradicting)
    assert calibration.means.left_out < 0.05
    row, column = np.rint(CHART.centres[ORANGE]).astype(int)
    orange = calibration.corrected(photo).rows(row, row + 1, linear=True)[:, 0, column]
    assert_allclose(orange, seen[row, column], atol=0.015)


def test_patches_are_known_spectra_at_their_places() -> None:
    calibration = calibrate(linear_photo("Nikon_D5100", "D65"), CHART)
    spots = spots_of(SpectralCube(scene().astype(np.float32), GRID), patches_of(calibration))
    assert_allclose(spots.errors, 0, atol=1e-4)


def test_patches_hide_what_they_are_off_only_when_they_are_left_out() -> None:
    calibration = calibrate(encoded_photo(np.array([1.0, 0.7, 0.35])), CHART, unused=3)
    reports = [one for number, one in enumerate(calibration.patches) if number != 3]
    for one, report in zip(patches_of(calibration), reports, strict=True):
        assert report.after**2 + one.hidden**2 == pytest.approx(report.left_out**2)
    assert max(one.hidden for one in patches_of(calibration)) > 0.02


def test_windows_lie_within_their_patches_seen_askew() -> None:
    chart = Chart(((10.0, 10.0), (30.0, 150.0), (100.0, 140.0), (80.0, 20.0)))
    centres = chart.centres
    assert_allclose(centres[[0, 5, 23, 18]], chart.corners, atol=1e-9)
    nearest = min(np.linalg.norm(b - a) for a, b in pairwise(centres[:6]))
    assert chart.window % 2 == 1
    assert chart.window < 0.5 * nearest


def white(photo: Photo) -> Photo:
    return Photo.from_array(np.full((80, 100, 3), 65535, np.uint16), encoding="linear")


def noise(photo: Photo) -> Photo:
    values = np.random.default_rng(0).integers(100, 60_000, (80, 100, 3)).astype(np.uint16)
    return Photo.from_array(values, encoding="linear")


def small(photo: Photo) -> Photo:
    return photo.cropped((0, 50, 0, 100))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (white, "100% of the pixels clipped where its patch 'dark skin' should be"),
        (noise, "between the corners, got patches in another order of light and dark"),
        (small, "Expected the chart within 50 rows x 100 columns"),
    ],
)
def test_what_is_no_chart_is_refused_in_one_sentence(change: Any, message: str) -> None:
    photo = change(linear_photo("Nikon_D5100", "D65"))
    with pytest.raises(PhotoError, match=message) as error:
        calibrate(photo, CHART)
    assert len(str(error.value)) < 300


@pytest.mark.parametrize(
    ("top", "left", "bottom", "right"), [(31, 19, 68, 63), (12, 27, 39, 69), (32, 20, 68, 80)]
)
def test_frame_that_lies_beside_the_patches_is_refused(
    top: float, left: float, bottom: float, right: float
) -> None:
    """Fits of the first two have a white below 0."""
    beside = Chart(((top, left), (top, right), (bottom, right), (bottom, left)))
    with pytest.raises(PhotoError, match="patches in another order of light and dark"):
        calibrate(linear_photo("Nikon_D5100", "D65"), beside)


def test_chart_whose_greys_are_all_covered_still_calibrates() -> None:
    photo = linear_photo("Nikon_D5100", "D65")
    pixels = np.moveaxis(photo.pixels, 0, -1).copy()
    pixels[50:] = pixels[0, 0]
    calibration = calibrate(Photo.from_array(pixels, encoding="linear"), CHART)
    assert calibration.contradicting == tuple(KINDS["classic"].greys)
    assert calibration.means.left_out < 0.01


def test_impossible_corners_and_damaged_records_are_refused() -> None:
    with pytest.raises(PhotoError, match="Expected four corners"):
        Chart(CORNERS[:3])  # type: ignore[arg-type]
    with pytest.raises(PhotoError, match="span a chart, got an area of 0"):
        Chart(((0, 0), (10, 10), (20, 20), (30, 30)))
    with pytest.raises(CameraError, match="Expected 12 numbers of a camera"):
        Acquisition("chart 1 2 3", "E")
