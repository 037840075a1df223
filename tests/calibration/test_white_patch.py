"""White, balance and light from a grey patch, and flat fields."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from napari_mst import Acquisition, FlatField, Photo
from napari_mst.base.arrays import Array
from napari_mst.base.errors import CameraError, PhotoError
from napari_mst.calibration.white_patch import GreyPatch, acquisition_from_patch
from napari_mst.cube.colour import reflectances, stored
from napari_mst.photo.cameras import OF_SENSOR, load_illuminants, unbalanced_response
from napari_mst.photo.raw import Shot

CAMERA = "Nikon_D5100"
PATCH = GreyPatch((20, 20), 0.5)
USUAL = [name for name in load_illuminants() if name not in stored("lamps31.npz")]


def sensor(spectrum: Array | float, light: str, exposure: float = 0.8) -> Array:
    """The values (3,) of a surface, white being *exposure* in the brightest channel."""
    response = unbalanced_response(CAMERA, light)
    white = response.sum(axis=0).max()
    return np.asarray((np.full(31, spectrum) @ response) * exposure / white)


def photo_of(values: Array, noise: float = 0.01) -> Photo:
    rng = np.random.default_rng(0)
    image = values * (1 + noise * rng.standard_normal((40, 40, 3)))
    return Photo.from_array((image.clip(0, 1) * 65535).astype(np.uint16), encoding="linear")


@pytest.mark.parametrize("light", USUAL)
def test_one_grey_patch_tells_white_balance_and_light(light: str) -> None:
    acquisition = acquisition_from_patch(
        photo_of(sensor(0.5, light)), PATCH, CAMERA, start=OF_SENSOR
    )
    white = sensor(1.0, light)
    assert acquisition.white == pytest.approx(white[1] * 65535, rel=0.01)
    assert_allclose(acquisition.gains, white[1] / white, rtol=0.01)
    found, true = (sensor(1.0, name) for name in (acquisition.illuminant, light))
    # another light is taken only where its white is nearly the same
    assert_allclose(found / found[1], true / true[1], rtol=0.05)


@pytest.mark.parametrize("lamp", ["LED-B3", "FL3.12"])
def test_grey_patch_under_another_lamp_tells_a_usual_light_of_its_colour(lamp: str) -> None:
    acquisition = acquisition_from_patch(
        photo_of(sensor(0.5, lamp)), PATCH, CAMERA, start=OF_SENSOR
    )
    assert acquisition.illuminant in USUAL
    found, true = (sensor(1.0, name) for name in (acquisition.illuminant, lamp))
    cosine = found @ true / np.linalg.norm(found) / np.linalg.norm(true)
    assert np.degrees(np.arccos(cosine)) < 5


def test_white_as_shot_is_the_start_of_a_raw_photo() -> None:
    def raw_photo(as_shot: str) -> Photo:
        red, green, blue = sensor(1.0, as_shot) / sensor(1.0, as_shot)[1]
        shot = Shot(camera=CAMERA, neutral=(red, green, blue * 1.1))
        return replace(photo, shot=shot)

    photo = photo_of(sensor(0.5, "A"))
    assert acquisition_from_patch(raw_photo("A"), PATCH) == acquisition_from_patch(
        photo, PATCH, CAMERA, start=OF_SENSOR
    )
    daylight = raw_photo("D65")
    with pytest.raises(PhotoError, match="degrees off the camera's own white"):
        acquisition_from_patch(daylight, PATCH)
    assert acquisition_from_patch(daylight, PATCH, start=OF_SENSOR).illuminant == "A"


def test_most_colours_of_a_chart_are_not_grey() -> None:
    chart = reflectances()["iset_macbethChart"]
    red_patch = chart[np.argmax(chart[:, 25] - chart[:, 12])]
    for light in ("D65", "A"):
        photo = photo_of(sensor(red_patch, light))
        with pytest.raises(PhotoError, match=r"Expected a grey patch, got one that is .* degrees"):
            acquisition_from_patch(photo, PATCH, CAMERA, start=OF_SENSOR)


def uneven() -> Array:
    image = np.full((40, 40, 3), 0.2)
    image[::2] = 0.6
    return image


@pytest.mark.parametrize(
    ("image", "place", "message"),
    [
        (np.full((40, 40, 3), 1.0), (20, 20), "100% of its pixels clipped"),
        (np.full((40, 40, 3), 1e-4), (20, 20), "above the noise, got 0.0"),
        (uneven(), (20, 20), "Expected an even patch"),
        (uneven(), (40, 20), "within 40 rows x 40 columns, got row 40"),
        (uneven(), (30, 50, 0, 9), "got rows 30 to 50"),
    ],
    ids=["clipped", "dark", "uneven", "outside", "rectangle-outside"],
)
def test_patch_that_tells_nothing_is_refused_in_one_sentence(
    image: Array, place: Any, message: str
) -> None:
    photo = Photo.from_array((image * 65535).astype(np.uint16), encoding="linear")
    with pytest.raises(PhotoError, match=message) as error:
        acquisition_from_patch(photo, GreyPatch(place), CAMERA, start=OF_SENSOR)
    assert len(str(error.value)) < 300


def test_encoded_photo_and_impossible_reflectance_are_refused() -> None:
    with pytest.raises(PhotoError, match="Expected a linear photo to measure its white in"):
        acquisition_from_patch(Photo.from_array(uneven()), PATCH, CAMERA)
    with pytest.raises(PhotoError, match="Expected the reflectance of a grey patch"):
        GreyPatch((1, 1), 18)


def test_light_of_balanced_values_has_to_be_told() -> None:
    photo = photo_of(np.array([0.4, 0.4, 0.4]))
    with pytest.raises(CameraError, match="illuminant of a photo that is balanced already"):
        acquisition_from_patch(photo, PATCH, CAMERA)
    acquisition = acquisition_from_patch(photo, PATCH, CAMERA, "D50")
    assert (acquisition.illuminant, round(acquisition.white / 65535, 2)) == ("D50", 0.8)
    with pytest.raises(CameraError, match="Expected the camera of the photo, got none"):
        acquisition_from_patch(photo, PATCH)


def test_measured_balance_is_three_numbers_however_they_are_written() -> None:
    acquisition = Acquisition(CAMERA, "A", balance="0.6, 1.2,0.3")
    assert acquisition.balance == "0.5 1 0.25"
    assert_allclose(acquisition.gains, [2, 1, 4])
    assert Acquisition(CAMERA, "A", balance=acquisition.balance) == acquisition
    for text in ("0.5 1", "0.5 1 0", "0.5 1 nan", "auto"):
        with pytest.raises(CameraError, match="or three numbers"):
            Acquisition(CAMERA, "A", balance=text)


def test_flat_field_undoes_vignetting_and_balance() -> None:
    rows, columns = np.mgrid[-1:1:40j, -1:1:40j]
    vignette = (1 - 0.3 * (rows**2 + columns**2))[..., None]
    reflectance = np.random.default_rng(0).random((40, 40, 1)) * 0.8 + 0.1
    tint, dark = np.array([0.5, 0.9, 0.4]), 0.05
    frames = [(part * vignette * tint + dark) / 1.1 for part in (reflectance, np.ones((40, 40, 1)))]
    photo, white = (
        Photo.from_array((frame * 65535).astype(np.uint16), encoding="linear") for frame in frames
    )
    black = Photo.from_array(np.full((40, 40, 3), dark / 1.1 * 65535, np.uint16), encoding="linear")
    flat_field = FlatField(white, black)
    flat = flat_field.corrected(photo)
    assert_allclose(flat.pixels, np.broadcast_to(reflectance[..., 0], (3, 40, 40)), atol=1e-3)
    assert flat.sha256 == flat_field.sha256_of(photo.sha256) != photo.sha256
    assert "divided by the white frame" in flat.assumptions[-1]
    of_arrays = FlatField(*(np.moveaxis(each.pixels, 0, -1) for each in (white, black)))
    again = of_arrays.corrected(np.moveaxis(photo.pixels, 0, -1))
    assert_array_equal(again.pixels, flat.pixels)
    others = (
        FlatField(white),
        FlatField(photo, black),
        FlatField(white, replace(black, sha256="")),
    )
    hashes = {flat.sha256, *(other.sha256_of(photo.sha256) for other in others)}
    assert len(hashes) == 4  # each frame counts


def test_frames_that_do_not_fit_are_refused() -> None:
    white = photo_of(np.array([0.5, 0.5, 0.5]))
    with pytest.raises(PhotoError, match="of one size, got 40 x 40 and 20 x 40"):
        FlatField(white).corrected(white.cropped((0, 20, 0, 40)))
    with pytest.raises(PhotoError, match="pixels clipped"):
        FlatField(photo_of(np.array([0.5, 1.0, 0.5])))
    with pytest.raises(PhotoError, match="Expected linear photos for a flat field"):
        FlatField(Photo.from_array(uneven()))


@pytest.mark.parametrize(("white", "dark"), [(0.1, 0.6), (0.6, 0.6), (0.0, 0.0), (0.0, None)])
def test_frames_that_are_swapped_equal_or_black_are_refused(
    white: float, dark: float | None
) -> None:
    frame = photo_of(np.array([0.7, 0.7, white]))
    darkness = None if dark is None else photo_of(np.array([0.1, 0.1, dark]))
    with pytest.raises(PhotoError, match=r"white frame brighter .*% of full scale.*Swap"):
        FlatField(frame, darkness)


def test_pixels_that_the_white_frame_does_not_light_are_left_out() -> None:
    white = np.full((8, 8, 3), 30_000, np.uint16)
    white[2, 3, 1] = 10
    frame = Photo.from_array(white, encoding="linear")
    flat = FlatField(frame).corrected(frame)
    assert flat.valid is not None
    assert np.argwhere(~flat.valid).tolist() == [[2, 3]]
    assert (flat.pixels[:, 2, 3] == 0).all()
