"""The light of simulated photos is told well enough, and what tells nothing is refused."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray

import napari_mst as nm
from lab.compositions import ColourfulSimulator
from napari_mst.base.errors import CameraError, PhotoError
from napari_mst.calibration.light.estimating import LightEstimate, warning_of
from napari_mst.cube.colour import linear_to_srgb
from napari_mst.photo.cameras import OF_SENSOR, light_power, unbalanced_response
from napari_mst.photo.photo import Encoding, Photo

CAMERA = "Nikon_D850"  # training never sees it
FULL = 65535.0


def sensor_photo(light: str, camera: str = CAMERA, index: int = 0) -> Photo:
    """A linear photo of a simulated scene, as the sensor of *camera* gives it."""
    (scene,) = ColourfulSimulator(900 + index, 64, held_out=True).draw_scenes(1).numpy()
    values = np.einsum("bhw,bc->hwc", scene, unbalanced_response(camera, light))
    codes = np.rint(np.clip(values / np.quantile(values, 0.995), 0, 1) * FULL)
    return Photo.from_array(codes.astype(np.uint16), encoding="linear", full_scale=FULL)


def encoded(photo: Photo) -> Photo:
    """The same photo in 8-bit sRGB."""
    codes = np.rint(linear_to_srgb(photo.pixels / FULL) * 255).astype(np.uint8)
    return Photo.from_array(np.moveaxis(codes, 0, -1))


def angle(first: NDArray[np.floating], second: NDArray[np.floating]) -> float:
    cosine = first @ second / (np.linalg.norm(first) * np.linalg.norm(second))
    return float(np.rad2deg(np.arccos(min(cosine, 1))))


def error(told: LightEstimate, light: str) -> float:
    return angle(told.white, unbalanced_response(told.camera, light).sum(axis=0))


@pytest.fixture(scope="module")
def told() -> LightEstimate:
    return nm.light.estimate(sensor_photo("A"), CAMERA)


def test_whites_are_told_much_better_than_daylight_for_every_photo() -> None:
    lights = ("A", "F11", "LED-B2", "daylight 9000 K", "0.5 A + 0.5 D65", "Planck 2300 K")
    # The first scene is nearly of one colour, which no network tells from a light.
    photos = [(light, index) for light in lights for index in range(8)]
    own = [error(nm.light.estimate(sensor_photo(a, index=i), CAMERA), a) for a, i in photos]
    daylight = unbalanced_response(CAMERA, "D65").sum(axis=0)
    guessed = [angle(daylight, unbalanced_response(CAMERA, a).sum(axis=0)) for a, _ in photos]
    assert np.mean(own) < 4
    assert np.mean(own) < 0.5 * np.mean(guessed)


def test_probabilities_and_their_order_make_sense(told: LightEstimate) -> None:
    shares = [each.probability for each in told.candidates]
    assert shares == sorted(shares, reverse=True)
    assert 0 < sum(shares) <= 1 + 1e-6
    assert len(told.candidates) <= 3
    assert str(told).startswith(told.candidates[0].name)
    assert_allclose(told.attention.sum(-1), 1, atol=1e-12)
    assert told.attention_map.shape == (8, 8)
    passed = np.eye(65)
    for block in told.attention:
        passed = (np.eye(65) + block.mean(0)) / 2 @ passed
    assert_allclose(told.attention_map.ravel(), passed[0, 1:], atol=1e-12)


def test_the_illuminant_has_a_name_that_a_capture_takes(told: LightEstimate) -> None:
    acquisition = nm.Acquisition(CAMERA, told.illuminant, balance=OF_SENSOR)
    assert_allclose(acquisition.white_of_sensor, told.white)
    assert_allclose(light_power(told.illuminant), told.power)
    for candidate in told.candidates:
        nm.Acquisition(CAMERA, candidate.name)
        assert candidate.white[1] == pytest.approx(1)


def test_exposure_changes_little_where_nothing_is_clipped() -> None:
    photo = sensor_photo("A")
    bright, dark = (
        Photo.from_array(photo.pixels // share, encoding="linear", full_scale=FULL)
        for share in (2, 6)
    )
    whites = [nm.light.estimate(each, CAMERA).white for each in (bright, dark)]
    assert angle(*whites) < 0.5


def test_photos_of_any_size_and_with_holes_are_told() -> None:
    pixels = np.moveaxis(sensor_photo("A").pixels, 0, -1).astype(np.float32) / np.float32(FULL)
    for part in (pixels[30:31, 30:31], pixels[:3, :50], pixels[:50, :7]):
        assert nm.light.estimate(Photo.from_array(part, encoding="linear"), CAMERA).candidates
    holed = pixels.copy()
    holed[10:20] = np.nan
    whole = nm.light.estimate(Photo.from_array(pixels, encoding="linear"), CAMERA)
    rest = nm.light.estimate(Photo.from_array(holed, encoding="linear"), CAMERA)
    assert angle(whole.white, rest.white) < 5


@pytest.mark.parametrize(
    ("pixels", "camera", "message"),
    [
        (np.zeros((4, 5, 3), np.uint16), CAMERA, "got only black and clipped"),
        (np.full((4, 5, 3), 65535, np.uint16), CAMERA, "got only black and clipped"),
        (np.full((4, 5, 3), 500, np.uint16), "Nikon_D851", "got 'Nikon_D851'"),
        (np.full((4, 5, 3), 500, np.uint16), "estimate", "Expected the name of a camera"),
        (np.full((4, 5, 3), 90, np.uint8), CAMERA, "linear values of Nikon_D850 .* got sRGB"),
    ],
    ids=["black", "clipped", "camera", "estimate", "encoded"],
)
def test_what_tells_nothing_is_refused(pixels: NDArray[Any], camera: str, message: str) -> None:
    encoding: Encoding = "srgb" if pixels.dtype == np.uint8 else "linear"
    photo = Photo.from_array(pixels, encoding=encoding)
    with pytest.raises((PhotoError, CameraError), match=message):
        nm.light.estimate(photo, camera)


def test_only_srgb_photos_far_from_daylight_are_warned_of() -> None:
    plain = [sensor_photo("D65", "sRGB", index) for index in range(10)]
    lamp = [sensor_photo("Planck 2300 K", "sRGB", index) for index in range(10)]
    assert not any(warning_of(photo) for photo in (*plain, *lamp))  # these are linear
    warnings = [warning_of(encoded(photo)) for photo in lamp]
    # A simulated scene may be all of one colour, which no photo tells from a light.
    assert sum(bool(warning_of(encoded(photo))) for photo in plain) <= 1
    assert sum(bool(warning) for warning in warnings) >= 8
    assert all("white that is" in warning for warning in warnings if warning)
