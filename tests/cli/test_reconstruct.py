"""`napari-mst reconstruct`: one photo, as a shell sees it: exit status, output and files."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.cli.conftest import Run, assert_is_one_error, contents, raising

import napari_mst
from napari_mst.base.errors import OutOfMemory
from napari_mst.cube.provenance import UNCALIBRATED
from napari_mst.engine.device import choose_device
from napari_mst.reconstruction.pipeline import PreparedPhoto

WAYS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "": ({}, {}),
    "--region 1:5,0:7 --ensemble": ({}, {"region": (1, 5, 0, 7), "ensemble": True}),
    "--denoise off": ({"denoise": "off"}, {}),
    "--denoise 0.8": ({"denoise": 0.8}, {}),
    "--model pixelwise-srgb": ({}, {}),
    "--model pixelwise-srgb --no-colour-correction": ({"correct_colour": False}, {}),
}
"""Options, and what they are to `Reconstructor` and to its `reconstruct`."""


@pytest.mark.parametrize("options", WAYS)
def test_cube_equals_that_of_the_api_bit_for_bit(
    run: Run, photo: Path, weights: Path, options: str
) -> None:
    target = photo.with_name("cube.hdr")
    code, out, err = run("reconstruct", photo, "-o", target, *options.split())
    settings, asked = WAYS[options]
    model = napari_mst.load_model("pixelwise-srgb" if "--model" in options else weights)
    expected = napari_mst.Reconstructor(model, "cpu", **settings).reconstruct(photo, **asked)
    cube = napari_mst.read_cube(target)
    assert (code, out) == (0, f"{target}\n")
    assert np.array_equal(cube.data, expected.data)
    assert cube.provenance == expected.provenance
    assert bool(cube.provenance.correction) == (options == "--model pixelwise-srgb")
    assert "note: running on cpu" in err
    assert "100%" in err


def test_linear_photos_are_not_decoded(run: Run, photo: Path, weights: Path) -> None:
    assert run("reconstruct", photo, "--linear", "-o", photo.with_name("cube.tif"))[0] == 0
    source = napari_mst.Photo.read(photo, encoding="linear")
    expected = napari_mst.Reconstructor(napari_mst.load_model(weights), "cpu").reconstruct(source)
    assert np.array_equal(napari_mst.read_cube(photo.with_name("cube.tif")).data, expected.data)


def test_what_was_assumed_is_noted(run: Run, photo: Path) -> None:
    Image.open(photo).convert("L").save(photo)
    code, _, err = run("reconstruct", photo, "-o", photo.with_name("cube.hdr"))
    assert code == 0
    assert [
        line for line in err.splitlines() if line.startswith("note: photo.png: ") and "rey" in line
    ]


def test_format_says_what_is_written_into_a_folder(run: Run, photo: Path, tmp_path: Path) -> None:
    assert (
        run("reconstruct", photo, "-o", tmp_path, "--format", "tiff")[1]
        == f"{tmp_path / 'photo.tif'}\n"
    )


def test_a_cube_that_is_a_folder_is_replaced_not_filled(run: Run, photo: Path) -> None:
    target = photo.with_name("cube.zarr")
    for _ in range(2):
        assert run("reconstruct", photo, "-o", target, "--overwrite")[1] == f"{target}\n"
    assert not list(target.glob("*.hdr"))


def test_a_mistyped_photo_is_told_before_torch_is_loaded(tmp_path: Path) -> None:
    code = (
        "import sys; from napari_mst.cli.main import main; status = main(sys.argv[1:]); "
        "sys.exit('torch' in sys.modules or status - 2)"
    )
    command = [sys.executable, "-c", code, "reconstruct", "no.jpg", "-o", f"{tmp_path}/a.hdr"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr.startswith("error: no.jpg: Expected an image file, got none")


def test_only_photo_that_fails_is_refused(
    run: Run, photo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PreparedPhoto, "reconstruct", raising(OutOfMemory("Expected more memory.")))
    assert run("reconstruct", photo, "-o", photo.with_name("cube.hdr"))[0] == 2


@pytest.mark.parametrize(
    ("photos", "output", "message"),
    [
        ("photo.tif", "nowhere/cube.hdr", "Expected an existing folder"),
        ("photo.tif", "x" * 300 + ".hdr", "name too long"),
        ("photo.tif", "cube.docx", ".hdr"),
        ("photo.tif", "old.hdr", "old.hdr which exists"),
        ("photo.tif", "photo.tif --overwrite", "got the photo photo.tif"),
        ("photo.tif", "cube.hdr --format tiff", "Expected a folder with --format"),
        ("photo.tif photo.PNG", ".", "got photo.tif and photo.PNG for photo.hdr"),
        ("photo.tif Photo.png", ".", "got photo.tif and Photo.png for Photo.hdr"),
        ("photo.tif other.png", "cube.hdr", "Expected a folder for several cubes, got cube.hdr"),
    ],
    ids=[
        "081-missing-folder",
        "081-long-name",
        "081-unknown-format",
        "082-target-exists",
        "082-target-is-the-photo",
        "081-two-formats",
        "087-names-differ-in-suffix",
        "087-names-differ-in-case",
        "081-several-cubes-in-one-file",
    ],
)
def test_bad_input(
    run: Run, photo: Path, monkeypatch: pytest.MonkeyPatch, photos: str, output: str, message: str
) -> None:
    """Refused before anything is computed; nothing changes on disk."""
    monkeypatch.setattr(napari_mst.Reconstructor, "__init__", raising(AssertionError))
    monkeypatch.chdir(photo.parent)
    Image.open(photo).save("photo.tif")
    Path("old.hdr").write_text("precious")
    before = contents(photo.parent)
    code, out, err = run("reconstruct", *photos.split(), "-o", *output.split())
    assert (code, out) == (2, "")
    assert_is_one_error(err, message)
    assert contents(photo.parent) == before


def test_error_bands_are_written_beside_the_cube(run: Run, photo: Path, tmp_path: Path) -> None:
    target = tmp_path / "cube.hdr"
    arguments = ("-o", target, "--model", "pixelwise-srgb", "--intervals")
    code, out, err = run("reconstruct", photo, *arguments)
    assert code == 0
    assert f"{photo.name}: prediction intervals {UNCALIBRATED}" in err
    assert [Path(line).name for line in out.splitlines()] == [
        "cube.hdr",
        "cube_lower.hdr",
        "cube_upper.hdr",
    ]
    lower, cube, upper = (
        napari_mst.read_cube(tmp_path / f"cube{side}.hdr").data for side in ("_lower", "", "_upper")
    )
    assert (lower <= cube).all()
    assert (cube <= upper).all()
    target.unlink()
    target.with_suffix(".img").unlink()
    code, _, err = run("reconstruct", photo, *arguments)
    assert code == 2
    assert "cube_lower.img" in err


def test_saved_error_bands_say_what_calibrates_them(run: Run, photo: Path, tmp_path: Path) -> None:
    target = tmp_path / "cube.hdr"
    arguments = ("--model", "pixelwise-srgb", "--intervals", "--calibrated-by", "a chart")
    code, _, err = run("reconstruct", photo, "-o", target, *arguments)
    assert code == 0
    assert f"{photo.name}: prediction intervals calibrated by a chart" in err
    for name in ("cube_lower.hdr", "cube_upper.hdr"):
        note = napari_mst.read_cube(tmp_path / name).provenance.assumptions[-1]
        assert note.endswith("; calibrated by a chart.")


def test_16_bits_and_a_budget_are_told_kept_and_shown(run: Run, photo: Path) -> None:
    if "bfloat16" not in choose_device("cpu").precisions:
        pytest.skip("not on this processor")
    target = photo.with_name("cube.hdr")
    options = ("--precision", "bfloat16", "--memory", "0.5")
    code, _, err = run("reconstruct", photo, "-o", target, *options)
    assert code == 0
    assert re.search(
        r"note: photo.png: needs \d+ MB of memory, in bfloat16: off float32 by .* of this photo\n",
        err,
    )
    code, out, _ = run("info", target)
    assert re.search(r"precision +bfloat16\n", out)
    assert re.search(r"precision error +0\.0", out)
    assert re.search(r"assumed +Computed in bfloat16: off float32 by ", out)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--precision float16", "Expected a precision of cpu (float32, float64), got 'float16'."),
        ("--intervals", "calibrated prediction interval"),
        ("--memory 0.001", "MB of free memory for 6 x 9 pixels on cpu, got 1 MB"),
    ],
)
def test_options_that_cannot_be_met_are_refused_before_the_run(
    run: Run, photo: Path, monkeypatch: pytest.MonkeyPatch, options: str, message: str
) -> None:
    monkeypatch.setattr("napari_mst.engine.device.computes_in", lambda dtype: dtype.itemsize == 4)
    code, out, err = run("reconstruct", photo, "-o", photo.with_name("cube.hdr"), *options.split())
    assert (code, out) == (2, "")
    assert_is_one_error(err.splitlines()[-1], message)
    assert not photo.with_name("cube.hdr").exists()


@pytest.mark.parametrize(
    ("option", "values", "message"),
    [
        ("--region", "1:5", "like 100:300,0:512"),
        ("--memory", "0 -1 nan much", "Expected a size in GB, as 4 or 0.5, got {!r}."),
        (
            "--denoise",
            "on 0 -1 nan inf",
            "Expected auto, off or a number above 0, as 1.2, got {!r}.",
        ),
    ],
)
def test_options_that_cannot_be_read_are_refused(
    run: Run,
    photo: Path,
    capsys: pytest.CaptureFixture[str],
    option: str,
    values: str,
    message: str,
) -> None:
    for value in values.split():
        with pytest.raises(SystemExit, match="2"):
            run("reconstruct", photo, "-o", photo.with_name("cube.hdr"), f"{option}={value}")
        assert message.format(value) in capsys.readouterr().err
