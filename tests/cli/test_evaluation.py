"""`napari-mst evaluate`: the table of models, inputs and scenes."""

from pathlib import Path

import numpy as np
import pytest
from tests.cli.conftest import Run

from napari_mst.training.scoring import BASELINES


def test_evaluate_prints_and_writes_every_method_input_and_scene(
    run: Run, tmp_path: Path, weights: Path
) -> None:
    cube = np.random.default_rng(0).uniform(0.1, 0.9, (31, 9, 9)).astype(np.float32)
    for name in ("first", "second"):
        np.savez(tmp_path / f"{name}.npz", cube=cube, wavelengths=np.arange(400.0, 701, 10))
    table = tmp_path / "scores.csv"
    arguments = (
        "--input",
        "clean",
        "--input",
        "JPEG 75",
        "--model",
        "mstpp-srgb",
        "--device",
        "cpu",
        "--csv",
        table,
    )
    code, out, _ = run("evaluate", tmp_path, *arguments)
    assert code == 0
    assert out.count("mstpp-srgb") == out.count("least squares 3 to 31") == 2
    assert len(table.read_text().splitlines()) == 1 + 2 * (len(BASELINES) + 1) * 3
    code, out, _ = run("evaluate", tmp_path, "--no-baselines", "--per-scene", "--input", "clean")
    assert (code, out.count("second")) == (0, len(["mstpp-photo", "mstpp-srgb", "pixelwise-srgb"]))


def test_evaluate_judges_several_cameras(run: Run, tmp_path: Path) -> None:
    cube = np.random.default_rng(0).uniform(0.1, 0.9, (31, 16, 16)).astype(np.float32)
    np.savez(tmp_path / "scene.npz", cube=cube, wavelengths=np.arange(400.0, 701, 10))
    plain = (tmp_path, "--input", "clean", "--device", "cpu", "--per-scene")
    cameras = ("--camera", "Nikon_D850", "--camera", "sRGB", "--illuminant", "A")
    code, out, _ = run("evaluate", *plain, *cameras)
    assert code == 0
    assert out.count("scene Nikon_D850 A") == 2
    assert "least squares scene" in out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("", "Expected cube files"),
        ("--input fog", "got 'fog'"),
        ("--illuminant A", "Expected --camera with --illuminant"),
    ],
)
def test_evaluate_refuses_what_cannot_be(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: str, sentence: str
) -> None:
    try:
        code, out, err = run("evaluate", tmp_path, *arguments.split())
        assert (out, len(err.splitlines())) == ("", 1)
    except SystemExit as refusal:
        code, err = int(str(refusal.code)), capsys.readouterr().err
    assert code == 2
    assert sentence in err
