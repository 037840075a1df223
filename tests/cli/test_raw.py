"""RAW photos on the command line: the camera of the file, the white as shot, and refusals."""

from pathlib import Path

import numpy as np
import pytest
from tests.raw_photos import Camera, write_dng

import napari_mst
from napari_mst import Capture, Photo
from napari_mst.cli.main import main
from napari_mst.photo.cameras import load_cameras, unbalanced_response

pytest.importorskip("rawpy")

MODEL = ("--model", "mstpp-camera", "--device", "cpu")
LIGHT = ("--illuminant", "A")


def scene(camera: str = "Nikon_D5100", light: str = "A") -> np.ndarray:
    """A grey wall with a darker half, as the sensor sees it, and its white."""
    white = unbalanced_response(camera, light).sum(axis=0)
    image = np.full((32, 40, 3), 0.5) * white / white.max()
    image[16:] /= 2
    return image


def neutral(light: str = "A") -> tuple[float, float, float]:
    red, green, blue = unbalanced_response("Nikon_D5100", light).sum(axis=0)
    return float(red), float(green), float(blue)


def test_camera_of_the_file_and_white_as_shot_give_the_cube_of_the_api(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_dng(tmp_path / "photo.dng", scene(), Camera(neutral=neutral()))
    target = tmp_path / "cube.hdr"
    assert main(["reconstruct", str(path), "-o", str(target), *MODEL, *LIGHT]) == 0
    told = capsys.readouterr().err
    assert "the photo was taken by Nikon_D5100, as its file says" in told
    assert "The white balance is that of the file, as shot." in told
    cube = napari_mst.read_cube(target)
    reconstructor = napari_mst.Reconstructor(
        napari_mst.load_model("mstpp-camera"), "cpu", capture=Capture("Nikon_D5100", "A")
    )
    np.testing.assert_array_equal(cube.data, reconstructor.reconstruct(path).data)
    assert cube.provenance.encoding == "linear"
    # a grey wall is grey only if it was balanced as shot
    wall = cube.data[:, 4:12].mean(axis=(1, 2))
    assert wall.std() / wall.mean() < 0.1


@pytest.mark.parametrize(
    ("arguments", "cameras", "message"),
    [
        ((*MODEL, *LIGHT), ["Acme Snap"], "Expected a camera with measured sensitivities, got"),
        ((*MODEL, *LIGHT), ["NIKON D5100", "NIKON D700"], "Expected photos of one camera"),
        ((), ["NIKON D5100"], "Use mstpp-camera with the illuminant"),
    ],
    ids=["unknown", "several", "srgb-model"],
)
def test_what_a_raw_photo_cannot_say_is_refused_in_one_sentence(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    cameras: list[str],
    message: str,
) -> None:
    paths = [
        str(write_dng(tmp_path / f"{number}.dng", scene(), Camera("NIKON", model)))
        for number, model in enumerate(cameras)
    ]
    target = tmp_path / ("cubes" if len(paths) > 1 else "cube.hdr")
    assert main(["reconstruct", *paths, "-o", str(target), *arguments]) == 2
    captured = capsys.readouterr().err
    assert message in captured
    assert captured.count("error:") == 1


def test_raw_photo_without_its_white_asks_for_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_dng(tmp_path / "photo.dng", scene(), Camera(neutral=None))
    arguments = ["reconstruct", str(path), "-o", str(tmp_path / "cube.hdr"), *MODEL, *LIGHT]
    assert main(arguments) == 2
    assert "Expected the white balance of the camera in photo.dng" in capsys.readouterr().err
    assert main([*arguments, "--unbalanced"]) == 0


def test_light_of_a_raw_photo_is_estimated_where_the_user_says_so(tmp_path: Path) -> None:
    path = write_dng(tmp_path / "photo.dng", scene(), Camera(neutral=neutral()))
    for arguments in (("--illuminant", "estimate"), ("--unbalanced",)):
        target = tmp_path / f"{arguments[-1].strip('-')}.hdr"
        assert main(["reconstruct", str(path), "-o", str(target), *MODEL, *arguments]) == 0
        provenance = napari_mst.read_cube(target).provenance
        assert (provenance.camera, provenance.is_light_estimated) == ("Nikon_D5100", True)


def test_other_names_of_a_camera_are_known() -> None:
    from napari_mst.photo.aliases import ALIASES
    from napari_mst.photo.cameras import matching_camera

    for alias, name in ALIASES.items():
        assert name in load_cameras()
        brand, _, model = alias.partition(" ")
        assert matching_camera(brand, alias) == matching_camera(brand, model) == name
    assert matching_camera("Arashi Vision", "Insta360 X5") == "Arashi_Vision_Insta360_X5"


def test_batch_knows_the_cubes_of_its_raw_photos_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_dng(tmp_path / "photo.dng", scene(), Camera(neutral=neutral()))
    (tmp_path / "cubes").mkdir()
    arguments = ["reconstruct", str(tmp_path), "-o", str(tmp_path / "cubes"), *MODEL, *LIGHT]
    assert main(arguments) == 0
    capsys.readouterr()
    assert main(arguments) == 0
    assert "1 of 1 cubes are of this run" in capsys.readouterr().err
    assert Photo.read(tmp_path / "photo.dng").shot is not None
