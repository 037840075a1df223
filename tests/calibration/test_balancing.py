"""The white balance of sRGB photos: told, corrected and said, in Python and on the command line."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from PIL import Image

import napari_mst as nm
from lab.compositions import ColourfulSimulator
from napari_mst.base.errors import PhotoError
from napari_mst.calibration.balancing import WhiteBalance, balance_for
from napari_mst.calibration.white_patch import PatchPlace, angle_between, patch_values
from napari_mst.cli.main import main
from napari_mst.cube.colour import linear_to_srgb
from napari_mst.photo.cameras import unbalanced_response

MODEL = ("--model", "pixelwise-srgb", "--device", "cpu")
PATCH = (slice(0, 12), slice(0, 12))
LAMP = "Planck 2600 K"


def codes_under(light: str, index: int = 0) -> np.ndarray:
    """A simulated scene in 8 bits, with a grey card in its corner, by a camera set to daylight."""
    (scene,) = ColourfulSimulator(900 + index, 64, held_out=True).draw_scenes(1).numpy()
    scene[:, *PATCH] = 0.5
    seen = np.einsum("bhw,bc->hwc", scene, unbalanced_response("sRGB", light))
    white = unbalanced_response("sRGB", light).sum(axis=0)
    codes = linear_to_srgb((seen / white.max()).clip(0, 1)) * 255
    return np.rint(codes).astype(np.uint8)


def degrees_off_grey(photo: nm.Photo) -> float:
    """How far the grey card is off grey."""
    return float(angle_between(patch_values(photo, (6, 6)), np.ones(3)))


@pytest.fixture
def orange(tmp_path: Path) -> Path:
    Image.fromarray(codes_under(LAMP)).save(tmp_path / "orange.png")
    return tmp_path / "orange.png"


def test_estimate_brings_white_nearer_to_grey_and_daylight_is_left_alone() -> None:
    photos = [nm.Photo.from_array(codes_under(LAMP, index)) for index in range(4)]
    told = [nm.light.white_balance(photo) for photo in photos]
    true = [degrees_off_grey(photo) for photo in photos]
    pairs = zip(photos, told, strict=True)
    left = [degrees_off_grey(balance.corrected(photo)) for photo, balance in pairs]
    assert np.mean(left) < 0.5 * np.mean(true)
    assert all(balance.is_far for balance in told)
    daylight = [nm.Photo.from_array(codes_under("D65", index)) for index in range(4)]
    assert sum(nm.light.white_balance(photo).is_far for photo in daylight) <= 1


def test_dark_and_masked_pixels_stay_as_they_are() -> None:
    values = np.full((4, 5, 3), 0.5, np.float32)
    values[0, 0] = np.nan
    values[1, 1] = 0
    better = WhiteBalance((1, 0.5, 0.5)).corrected(nm.Photo.from_array(values))
    assert better.valid is not None
    assert not better.valid[0, 0]
    assert_array_equal(better.pixels[:, 0, 0], 0)
    assert_array_equal(better.pixels[:, 1, 1], 0)


@pytest.mark.parametrize("white", [(1, 0, 1), (1, np.nan, 1), (1, 1)])
def test_white_without_a_colour_is_refused(white: tuple[float, float, float]) -> None:
    with pytest.raises(PhotoError, match="Expected red, green and blue of white above 0"):
        WhiteBalance(white)


def test_light_outside_srgb_has_a_white_too(orange: Path) -> None:
    sodium = replace(nm.light.estimate(orange, "sRGB"), illuminant="HP1")
    assert balance_for(sodium).white == pytest.approx((1, 0.252, 0.02), abs=1e-3)


def test_linear_photo_is_refused() -> None:
    photo = nm.Photo.from_array(np.full((4, 5, 3), 0.5), encoding="linear")
    with pytest.raises(PhotoError, match="Expected an sRGB photo to correct its white balance"):
        nm.light.white_balance(photo)
    with pytest.raises(PhotoError, match="Expected an sRGB photo to correct its white balance"):
        WhiteBalance((1, 0.5, 0.5)).corrected(photo)


@pytest.mark.parametrize("where", ["estimate", "6,6", "2:10,2:10"])
def test_shell_makes_the_cube_of_python_and_its_history_says_so(orange: Path, where: str) -> None:
    target = orange.with_suffix(".hdr")
    arguments = ["reconstruct", str(orange), "-o", str(target), *MODEL]
    assert main([*arguments, "--balance", where]) == 0
    cube = nm.read_cube(target)
    photo = nm.Photo.read(orange)
    places: dict[str, PatchPlace] = {"6,6": (6, 6), "2:10,2:10": (2, 10, 2, 10)}
    place = places.get(where)
    correction: Any = nm.light.white_balance(photo)
    if place is not None:
        correction = nm.light.calibrate_greys(photo, [nm.light.GreyPatch(place)])
    corrected = correction.corrected(photo)
    expected = nm.Reconstructor(nm.load_model("pixelwise-srgb"), "cpu").reconstruct(corrected)
    assert_array_equal(cube.data, expected.data)
    assert cube.provenance.source_sha256 == corrected.sha256 != photo.sha256
    told = "The white balance was corrected: white 1.00"
    if place is not None:
        told = "The tone curve and the white were corrected by one grey patch"
    assert told in " ".join(cube.provenance.assumptions)


def test_nothing_is_corrected_unless_asked_for_and_then_only_what_is_far(
    orange: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Image.fromarray(codes_under("D65", 1)).save(orange.with_name("daylight.png"))
    photos = [str(orange), str(orange.with_name("daylight.png"))]
    plain, cubes = orange.with_name("plain"), orange.with_name("cubes")
    assert main(["reconstruct", *photos, "-o", str(plain), *MODEL]) == 0
    told = capsys.readouterr().err
    assert "The white balance was" not in told
    assert "orange.png: The photo seems to have a white that is" in told
    arguments = ["reconstruct", *photos, "-o", str(cubes), *MODEL, "--balance", "estimate"]
    assert main(arguments) == 0
    told = capsys.readouterr().err
    assert "orange.png: The white balance was corrected" in told
    assert "daylight.png: The white balance was left as it is" in told
    assert main(arguments) == 0
    assert "2 of 2 cubes are of this run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--balance", "nonsense"), "expected a pixel like 120,80"),
        (("--balance", "6,600"), "Expected a pixel within 64 rows x 64 columns"),
        (("--balance", "estimate", "--linear"), "Expected an sRGB photo"),
        (
            ("--balance", "estimate", "--chart", "1,1", "1,50", "50,50", "50,1"),
            "Expected --chart alone, got --balance as well",
        ),
    ],
    ids=["word", "outside", "linear", "chart"],
)
def test_balance_that_cannot_be_corrected_is_refused_in_one_sentence(
    orange: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    target = orange.with_suffix(".hdr")
    try:
        status = main(["reconstruct", str(orange), "-o", str(target), *MODEL, *arguments])
    except SystemExit as exit_of_argparse:
        status = int(str(exit_of_argparse.code))
    assert status == 2
    assert message in capsys.readouterr().err
