"""The commands with a model that is told the camera, and what the files remember of it."""

from pathlib import Path

import numpy as np
import pytest
import tifffile
from PIL import Image

import napari_mst
from napari_mst import Capture, Photo
from napari_mst.cli.main import main
from napari_mst.photo.cameras import load_cameras, load_illuminants

TOLD = ("--camera", "Nikon_D5100", "--illuminant", "A")
MODEL = ("--model", "mstpp-camera", "--device", "cpu")


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    values = np.random.default_rng(0).integers(100, 60_000, (8, 9, 3), dtype=np.uint16)
    tifffile.imwrite(tmp_path / "raw.tif", values, photometric="rgb")
    return tmp_path / "raw.tif"


def test_cube_is_that_of_the_api_and_the_files_know_the_camera(
    photo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    targets = [photo.with_name(name) for name in ("cube.hdr", "cube.tif", "cube.npz")]
    for target in targets:
        assert (
            main(["reconstruct", str(photo), "-o", str(target), *MODEL, *TOLD, "--white", "50000"])
            == 0
        )
    reconstructor = napari_mst.Reconstructor(
        napari_mst.load_model("mstpp-camera"), "cpu", capture=Capture("Nikon_D5100", "A", 50_000.0)
    )
    expected = reconstructor.reconstruct(Photo.read(photo, encoding="linear"))
    for target in targets:
        cube = napari_mst.read_cube(target)
        np.testing.assert_array_equal(cube.data, expected.data)
        assert cube.provenance == expected.provenance
    capsys.readouterr()
    assert main(["info", str(targets[0])]) == 0
    lines = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    assert ["camera", "Nikon_D5100"] in lines
    assert ["illuminant", "A"] in lines


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Expected the camera and the illuminant of the photo for the model mstpp-camera"),
        (TOLD[:2], "got no --illuminant"),
        (TOLD[2:], "got no --camera"),
        (("--white", "9"), "Expected --camera and --illuminant with --white"),
        (("--camera", "Nikon_D5101", "--illuminant", "A"), "got 'Nikon_D5101'"),
        ((*TOLD, "--white", "-4"), "above 0, got -4.0"),
        (("--model", "mstpp-srgb", *TOLD), "Expected no camera for the model mstpp-srgb"),
    ],
    ids=["nothing", "camera", "illuminant", "white", "unknown", "negative", "model"],
)
def test_what_is_missing_or_wrong_is_refused_in_one_sentence(
    photo: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    target = photo.with_name("cube.hdr")
    assert main(["reconstruct", str(photo), "-o", str(target), *MODEL, *arguments]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("error:") == 1
    assert not target.exists()


def test_eight_bits_are_refused_unless_they_are_said_to_be_linear(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, target = tmp_path / "photo.png", tmp_path / "cube.hdr"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (6, 9, 3), dtype=np.uint8)).save(path)
    arguments = ["reconstruct", str(path), "-o", str(target), *MODEL, *TOLD]
    assert main(arguments) == 2
    assert (
        "photo.png: Expected linear values of 16 bits or floats, got 8 bits"
        in capsys.readouterr().err
    )
    assert main([*arguments, "--linear"]) == 0


def test_batch_goes_on_only_where_the_camera_is_the_same(
    photo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = photo.with_name("other.tif")
    tifffile.imwrite(other, tifffile.imread(photo) // 2, photometric="rgb")
    folder = photo.with_name("cubes")
    folder.mkdir()
    arguments = ["reconstruct", str(photo), str(other), "-o", str(folder), *MODEL]
    assert main([*arguments, *TOLD]) == 0
    capsys.readouterr()
    assert main([*arguments, *TOLD]) == 0
    assert "2 of 2 cubes are of this run" in capsys.readouterr().err
    assert main([*arguments, "--camera", "Nikon_D5100", "--illuminant", "D65"]) == 2
    assert "got raw.img which exists" in capsys.readouterr().err


def test_attention_of_a_linear_photo_needs_the_camera_too(
    photo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["attention", str(photo), "-o", str(photo.with_suffix(".npz")), *MODEL]
    assert main(arguments) == 2
    assert "Expected the camera" in capsys.readouterr().err
    assert main([*arguments, *TOLD]) == 0
    assert napari_mst.read_attention(photo.with_suffix(".npz")).provenance.camera == "Nikon_D5100"


def test_cameras_and_illuminants_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cameras"]) == 0
    lines = {line.strip() for line in capsys.readouterr().out.splitlines()}
    assert {*load_cameras(), *load_illuminants()} <= lines
    assert main(["models"]) == 0
    models = capsys.readouterr().out
    assert "needs       --camera and --illuminant" in models
    assert "light-vit: Tells the light" in models


def test_the_light_of_an_unbalanced_photo_is_estimated_unless_it_is_named(
    photo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    camera = ("--camera", "Nikon_D5100", "--unbalanced")
    targets = [photo.with_name(f"{name}.hdr") for name in ("left", "asked", "named")]
    illuminants: tuple[tuple[str, ...], ...] = (
        (),
        ("--illuminant", "Estimate"),
        ("--illuminant", "A"),
    )
    for target, illuminant in zip(targets, illuminants, strict=True):
        arguments = ["reconstruct", str(photo), "-o", str(target), *MODEL, *camera, *illuminant]
        assert main(arguments) == 0
        told = "illuminant was estimated from the photo" in capsys.readouterr().err
        assert told == (illuminant != ("--illuminant", "A"))
    left, asked, named = (napari_mst.read_cube(target) for target in targets)
    np.testing.assert_array_equal(left.data, asked.data)
    assert left.provenance.is_light_estimated
    assert (named.provenance.illuminant, named.provenance.is_light_estimated) == ("A", False)
    assert main(["info", str(targets[0])]) == 0
    assert "is light estimated" in capsys.readouterr().out


def test_a_balanced_photo_cannot_tell_its_light(
    photo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = photo.with_name("cube.hdr")
    told = ("--camera", "Nikon_D5100", "--illuminant", "estimate")
    assert main(["reconstruct", str(photo), "-o", str(target), *MODEL, *told]) == 2
    assert "got a white-balanced photo, which hides it" in capsys.readouterr().err
    assert not target.exists()


def test_a_batch_with_estimated_lights_goes_on(
    photo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = photo.with_name("cubes")
    folder.mkdir()
    arguments = ["reconstruct", str(photo), "-o", str(folder), *MODEL]
    told = ("--camera", "Nikon_D5100", "--unbalanced")
    assert main([*arguments, *told]) == 0
    capsys.readouterr()
    assert main([*arguments, *told]) == 0
    assert "1 of 1 cubes are of this run" in capsys.readouterr().err


def test_attention_in_an_estimated_light_is_that_in_the_light_told(photo: Path) -> None:
    files = [photo.with_name(f"{name}.npz") for name in ("estimated", "told")]
    camera = ("--camera", "Nikon_D5100", "--unbalanced")
    assert main(["attention", str(photo), "-o", str(files[0]), *MODEL, *camera]) == 0
    record = napari_mst.read_attention(files[0])
    light = ("--illuminant", record.provenance.illuminant)
    assert main(["attention", str(photo), "-o", str(files[1]), *MODEL, *camera, *light]) == 0
    other = napari_mst.read_attention(files[1])
    for name in record:
        assert np.isfinite(record[name].attention).all()
        np.testing.assert_array_equal(record[name].attention, other[name].attention)
