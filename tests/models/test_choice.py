"""The model for a photo: one rule for the window, the shell and Python, and a sentence about it."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import napari_mst as nm
from napari_mst.cli.main import main
from napari_mst.models import MODELS
from napari_mst.models.cards import PHOTOGRAPHED, RENDERED, model_for, reason_for

CODES = np.full((12, 16, 3), 128, np.uint8)
GREY = [nm.light.GreyPatch((5, 5))]

needs_photographed = pytest.mark.skipif(
    PHOTOGRAPHED not in MODELS, reason=f"{PHOTOGRAPHED} is not bundled"
)


@pytest.mark.parametrize(
    ("photo", "is_exact"),
    [
        (nm.Photo.from_array(CODES), False),
        (nm.Photo.from_array(CODES.astype(np.int64)), False),
        (nm.Photo.from_array(CODES.astype(np.uint16) * 257), True),
        (nm.Photo.from_array(CODES / 255), True),
        (nm.light.calibrate_greys(CODES, GREY).corrected(CODES), True),
    ],
    ids=["bytes", "bytes in wide integers", "16 bits", "floats", "greys"],
)
def test_colours_are_exact_of_more_than_bytes_or_once_greys_corrected_them(
    photo: nm.Photo, is_exact: bool
) -> None:
    assert bool(photo.exact_by) == is_exact


def test_balanced_photo_of_a_camera_stays_one() -> None:
    balance = nm.light.white_balance(nm.Photo.from_array(CODES))
    assert not balance.corrected(CODES).exact_by


@needs_photographed
@pytest.mark.parametrize("exact_by", ["", "rendering"])
def test_python_takes_the_model_of_the_rule_and_says_so(exact_by: str) -> None:
    cube = nm.reconstruct(CODES, calibrated_by=exact_by)
    assert cube.provenance.model == model_for(exact_by) == (RENDERED if exact_by else PHOTOGRAPHED)
    assert reason_for(cube.provenance.model, exact_by) in cube.provenance.assumptions
    named = nm.reconstruct(CODES, RENDERED, calibrated_by=exact_by)
    assert named.provenance.model == RENDERED


@needs_photographed
def test_shell_takes_the_model_of_each_photo(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    Image.fromarray(CODES).save(tmp_path / "photos" / "camera.jpg")
    nm_16 = np.full((12, 16), 40_000, np.uint16)
    Image.fromarray(nm_16).save(tmp_path / "photos" / "deep.tif")
    command = ["reconstruct", str(tmp_path / "photos"), "-o", str(tmp_path / "cubes")]
    assert main(command) == 0
    models = {
        name: nm.read_cube(tmp_path / "cubes" / f"{name}.hdr").provenance.model
        for name in ("camera", "deep")
    }
    assert models == {"camera": PHOTOGRAPHED, "deep": RENDERED}
    for name, arguments in (("told", ["--calibrated-by", "rendering"]), ("named", [])):
        target = tmp_path / f"{name}.hdr"
        one = ["reconstruct", str(tmp_path / "photos" / "camera.jpg"), "-o", str(target)]
        model = [] if arguments else ["--model", RENDERED]
        assert main([*one, *arguments, *model]) == 0
        assert nm.read_cube(target).provenance.model == RENDERED


def test_other_models_need_no_reason() -> None:
    assert reason_for("pixelwise-srgb", "") == ""
