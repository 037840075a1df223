"""`napari-mst retrain` and `calibrate`: files with a card; `train` has tests in tests/training."""

import shutil
from pathlib import Path

import pytest
from tests.cli.conftest import Run, assert_is_one_error

from napari_mst import load_model
from napari_mst.models.cards import WEIGHTS
from napari_mst.training import calibrate


@pytest.mark.parametrize("name", ["mstpp-srgb", "pixelwise-srgb"])
def test_retrain_writes_a_model_whose_card_says_how_it_was_made(
    run: Run, tmp_path: Path, name: str
) -> None:
    target = tmp_path / "model.safetensors"
    assert run("retrain", name, "-o", target, "--steps", "0", "--seed", "5")[0] == 0
    card = load_model(target).card
    assert card.name == name
    assert f"made by `napari-mst retrain {name} --steps 0 " in card.reference
    assert "--seed 5" in card.reference


def test_retrain_refuses_a_name_that_is_no_weights_file(run: Run, tmp_path: Path) -> None:
    code, out, err = run("retrain", "pixelwise-srgb", "-o", tmp_path / "model.pth")
    assert (code, out) == (2, "")
    assert_is_one_error(err, "Expected a name ending in .safetensors, got model.pth")


def test_calibrate_prints_the_numbers_that_it_writes(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The real number of scenes takes minutes.
    monkeypatch.setattr(calibrate, "_SCENES", 2)
    copy = tmp_path / "copy.safetensors"
    shutil.copy(WEIGHTS / "pixelwise-srgb.safetensors", copy)
    code, out, _ = run("calibrate", copy)
    band = load_model(copy).card.error_band
    assert code == 0
    name, *lines = out.splitlines()
    assert name == "copy.safetensors"
    assert {line.split()[0] for line in lines} == band.keys()
    for line in lines:
        kind, *numbers = line.split()
        assert numbers == [f"{number:.2f}" for number in band[kind]]
