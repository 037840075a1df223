"""White from a patch and flat fields on the command line."""

from pathlib import Path

import numpy as np
import pytest
import tifffile

from napari_mst import read_cube
from napari_mst.cli.main import main
from napari_mst.photo.cameras import unbalanced_response

MODEL = ("--model", "mstpp-camera", "--device", "cpu")
CAMERA = ("--camera", "Nikon_D5100")


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    """A grey wall of 20 %, with a patch of 50 % in its corner, under lamp A."""
    white = unbalanced_response("Nikon_D5100", "A").sum(axis=0)
    image = np.full((32, 40, 3), 0.2)
    image[:12, :12] = 0.5
    values = (image * white / white.max() * 60_000).astype(np.uint16)
    tifffile.imwrite(tmp_path / "photo.tif", values, photometric="rgb")
    tifffile.imwrite(tmp_path / "frame.tif", np.full_like(values, values[0, 0]), photometric="rgb")
    return tmp_path / "photo.tif"


@pytest.mark.parametrize(
    "arguments",
    [
        ("--unbalanced", "--white-patch", "5,5", "--patch-reflectance", "0.5"),
        ("--unbalanced", "--white-patch", "1:9,1:9", "--patch-reflectance", "0.5"),
        ("--white-frame", "frame.tif", "--patch-reflectance", "0.5"),
        ("--white-frame", "frame.tif", "--white-patch", "5,5", "--patch-reflectance", "0.5"),
    ],
    ids=["pixel", "rectangle", "frame", "frame-and-patch"],
)
def test_grey_surface_gives_light_and_level_without_any_number(
    photo: Path,
    arguments: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(photo.parent)
    target = photo.with_name("cube.hdr")
    assert main(["reconstruct", str(photo), "-o", str(target), *MODEL, *CAMERA, *arguments]) == 0
    assert "illuminant A" in capsys.readouterr().err
    cube = read_cube(target)
    assert cube.provenance.illuminant == "A"
    # the network takes every grey for darker at 400 nm
    np.testing.assert_allclose(cube.data[1:, 20:, 20:].mean(axis=(1, 2)), 0.2, atol=0.03)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--white-patch", "5,5"), "degrees off the photo's own white"),
        (("--unbalanced", "--white-patch", "5,50"), "got row 5, column 50"),
        (("--unbalanced", "--white-patch", "5,5", "--white", "9"), "got both"),
        (("--dark-frame", "photo.tif"), "Expected --white-frame with --dark-frame"),
    ],
)
def test_patch_that_cannot_be_used_is_refused_in_one_sentence(
    photo: Path,
    arguments: tuple[str, ...],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    target = photo.with_name("cube.hdr")
    assert main(["reconstruct", str(photo), "-o", str(target), *MODEL, *CAMERA, *arguments]) == 2
    captured = capsys.readouterr().err
    assert message in captured
    assert captured.count("error:") == 1
    assert not target.exists()


def test_patch_of_several_photos_has_to_be_in_a_named_one(
    photo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    patch = ("--unbalanced", "--white-patch", "5,5", "--patch-reflectance", "0.5")
    folder = photo.with_name("cubes")
    folder.mkdir()
    arguments = ["reconstruct", str(photo), str(photo.with_name("frame.tif")), "-o", str(folder)]
    arguments += [*MODEL, *CAMERA, *patch]
    assert main(arguments) == 2
    assert "Expected one photo with --white-patch, got 2" in capsys.readouterr().err
    assert main([*arguments, "--patch-photo", str(photo)]) == 0
    capsys.readouterr()
    assert main([*arguments, "--patch-photo", str(photo)]) == 0
    assert "2 of 2 cubes are of this run" in capsys.readouterr().err
