"""`python -m lab`: files, a card that says how they were made, and one's prediction interval."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from lab import simulated, training
from lab.tests.conftest import Run
from napari_mst import load_model
from napari_mst.models.cards import WEIGHTS
from napari_mst.training.settings import FitSettings, TrainingPlan


@pytest.mark.parametrize(
    "name", [pytest.param("mstpp-srgb", marks=pytest.mark.slow), "pixelwise-srgb"]
)
def test_retrain_writes_a_model_whose_card_says_how_it_was_made(
    run: Run, tmp_path: Path, name: str
) -> None:
    target = tmp_path / "model.safetensors"
    assert run("retrain", name, "-o", target, "--steps", "0", "--seed", "5")[0] == 0
    model = load_model(target)
    assert model.card.name == name
    assert f"made by `python -m lab retrain {name} --steps 0 " in model.card.reference
    assert "--seed 5" in model.card.reference
    assert model.assumptions == ()


@pytest.mark.parametrize(
    ("name", "arguments", "sentence"),
    [
        ("model.pth", (), "Expected a name ending in .safetensors, got model.pth"),
        ("model.safetensors", ("--size", "64"), "Expected settings of pixelwise-srgb, got --size"),
    ],
)
def test_retrain_refuses_a_name_and_a_setting_that_cannot_be(
    run: Run, tmp_path: Path, name: str, arguments: tuple[str, ...], sentence: str
) -> None:
    code, out, err = run("retrain", "pixelwise-srgb", "-o", tmp_path / name, *arguments)
    assert (code, out) == (2, "")
    assert sentence in err
    assert not (tmp_path / name).exists()


def test_calibrate_prints_the_numbers_that_it_writes(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The real number of scenes takes minutes.
    monkeypatch.setattr(training, "_SCENES", 2)
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


def test_train_learns_from_simulated_scenes_without_cubes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulated, "HELD_OUT_SCENES", 2)
    output = tmp_path / "mine.safetensors"
    plan = TrainingPlan(output, network="mst-s", device="cpu", report_every=1)
    training.train_on_scenes(plan=plan, steps=1, settings=FitSettings(size=16))
    card = load_model(output).card
    assert card.training_data.startswith("Simulated scenes of measured reflectances, 1 steps")
    assert card.has_intervals


@pytest.mark.slow
def test_two_processes_fit_one_model_that_says_so(tmp_path: Path) -> None:
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    target = tmp_path / "model.safetensors"
    command = ["-m", "lab", "retrain", "mstpp-srgb", "-o", str(target), "--steps", "2"]
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, *launch, *command], check=True, capture_output=True, cwd=root)
    assert "--nproc-per-node 2" in load_model(target).card.reference
    state = torch.load(tmp_path / "model.checkpoint", weights_only=True)
    assert state["step"] == 2
