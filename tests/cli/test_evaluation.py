"""`napari-mst evaluate`: the table of models, inputs and scenes."""

from pathlib import Path

import numpy as np
from tests.cli.conftest import (
    Run,
)

from napari_mst.evaluation.baselines import BASELINES
from napari_mst.models import MODELS


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
    table_of_means, bands = out.split("in the 90 % error band, at nm")
    assert table_of_means.count("mstpp-srgb") == table_of_means.count("least squares 3 to 31") == 2
    assert bands.count("mstpp-srgb") == 2
    assert len(table.read_text().splitlines()) == 1 + 2 * (len(BASELINES) + 1) * 3
    code, out, _ = run("evaluate", tmp_path, "--no-baselines", "--per-scene", "--input", "clean")
    assert (code, out.count("second")) == (
        0,
        2 * len([card for card in MODELS.values() if card.file and not card.needs_camera]),
    )


def test_evaluate_refuses_an_unknown_input_and_a_folder_without_cubes(
    run: Run, tmp_path: Path
) -> None:
    code, out, err = run("evaluate", tmp_path)
    assert (code, out) == (2, "")
    assert "Expected cube files" in err
    code, out, err = run("evaluate", tmp_path, "--input", "fog")
    assert (code, out) == (2, "")
    assert "got 'fog'" in err
