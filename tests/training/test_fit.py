"""The fits start where they should, learn, are deterministic, and continue."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.training.conftest import scene_of, smooth_scene

from napari_mst.engine.device import DeviceChoice
from napari_mst.networks.pixelwise import PixelwiseNetwork
from napari_mst.training.fit import (
    Fit,
    FitOptions,
    FitProgress,
    reconstruction_loss,
    start_network,
)
from napari_mst.training.settings import FitSettings
from napari_mst.training.sources import Cubes, degraded_at

SMALL = FitSettings(steps=4, size=16, stages=1, warm_up=1)
torch.manual_seed(0)
PIXELWISE = PixelwiseNetwork(width=8).requires_grad_(False)
SOURCE = Cubes([scene_of(smooth_scene(80, 48))], 1, 16)


def start(checkpoint: Path, settings: FitSettings = SMALL) -> Fit:
    options = FitOptions(SOURCE)
    return Fit(settings, checkpoint, options, start_network(settings, PIXELWISE))


def weights(network: torch.nn.Module) -> torch.Tensor:
    return torch.cat([value.flatten() for value in network.state_dict().values()])


def test_network_starts_near_the_pixelwise_estimate() -> None:
    photos, _ = SOURCE.draw(0, 2, 0)
    network = start_network(SMALL, PIXELWISE)
    expected, started = PIXELWISE(photos), network(photos).detach()
    assert (started - expected).abs().mean() < 0.05 * expected.abs().mean()


@pytest.mark.parametrize("precisions", [("float32",), ("float32", "bfloat16")])
def test_features_have_16_bits_only_where_that_is_fast(
    precisions: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DeviceChoice, "precisions", precisions)
    half = start(tmp_path / "checkpoint")
    types: list[torch.dtype] = []
    half.network.stages[0].mapping.register_forward_hook(
        lambda _, __, made: types.append(made.dtype)
    )
    half.take_step()
    assert types == [torch.bfloat16 if "bfloat16" in precisions else torch.float32]


def test_stopped_fit_continues_to_the_same_weights(tmp_path: Path) -> None:
    whole = start(tmp_path / "whole").run(report_every=2)
    stopped = start(tmp_path / "stopped")
    stopped.take_step()
    stopped.take_step()
    stopped.save_checkpoint()
    continued = start(tmp_path / "stopped")
    assert continued.step == 2
    assert torch.equal(weights(whole), weights(continued.run()))


@pytest.mark.slow
def test_photos_drawn_ahead_by_any_number_of_processes_fit_the_same_weights(
    tmp_path: Path,
) -> None:
    reports: list[FitProgress] = []
    options = FitOptions(SOURCE, report=reports.append, loader_workers=2)
    network = start_network(SMALL, PIXELWISE)
    ahead = Fit(SMALL, tmp_path / "ahead", options, network).run(report_every=2)
    assert torch.equal(weights(ahead), weights(start(tmp_path / "here").run(report_every=2)))
    assert [report.step for report in reports] == [2, 4]
    for report in reports:
        assert report.photos == pytest.approx(1 / report.seconds)
        assert 0 < report.waiting <= 1
        assert f"{report.waiting:.0%} waiting for photos" in str(report)


@pytest.mark.slow
def test_fit_learns(tmp_path: Path) -> None:
    settings = replace(SMALL, steps=60, warm_up=10, learning_rate=1e-3, average_decay=0.8)
    job = start(tmp_path / "checkpoint", settings)
    before = job.validate()
    job.run(report_every=100)
    assert job.validate() < before


def test_learning_rate_warms_up_and_ends_near_zero() -> None:
    settings = FitSettings(steps=100, warm_up=10, learning_rate=1.0)
    rates = [settings.learning_rate_at(step) for step in range(101)]
    assert rates[0] == 0.1
    assert max(rates) == 1.0
    assert rates[100] == pytest.approx(0.01)


def test_the_curriculum_goes_from_noise_to_what_must_stay() -> None:
    settings = FitSettings(steps=100)
    shares = [degraded_at(settings.progress_at(step)) for step in (0, 25, 50, 100)]
    assert shares == sorted(shares, reverse=True)
    tolerances = [settings.tolerance_at(step) for step in range(101)]
    assert tolerances == sorted(tolerances, reverse=True)
    assert (tolerances[0], tolerances[100]) == pytest.approx((0.3, 0.005))


def test_network_that_knows_the_curriculum_begins_with_the_last() -> None:
    new, curriculum_start = FitSettings(steps=100), FitSettings(steps=100, curriculum_start=1)
    assert (
        curriculum_start.progress_at(0) == curriculum_start.progress_at(100) == new.progress_at(100)
    )
    assert curriculum_start.tolerance_at(0) == new.tolerance_at(100)


def test_perfect_estimate_has_no_loss_and_a_wrong_colour_has_one() -> None:
    _, cubes = SOURCE.draw(0, 2, 0)
    response = SOURCE.response
    colours = torch.einsum("nbhw,bc->nchw", cubes, response).clamp(0, 1)
    assert reconstruction_loss(cubes, cubes, response, colours).max() < 1e-6
    assert reconstruction_loss(cubes, cubes, response, 0.9 * colours).min() > 1e-3


RANK = """
import sys
from pathlib import Path
import numpy as np
import torch
from napari_mst.networks.pixelwise import PixelwiseNetwork
from napari_mst.training.fit import Fit, FitOptions, join_processes, start_network
from napari_mst.training.scenes import Scene
from napari_mst.training.settings import FitSettings
from napari_mst.training.sources import Cubes
torch.manual_seed(0)
pixelwise = PixelwiseNetwork(width=8).requires_grad_(False)
device = join_processes("cpu")
folder = Path(sys.argv[1])
settings = FitSettings(steps=3, size=16, stages=1, warm_up=1)
network = start_network(settings, pixelwise)
cube = np.load(folder / "cube.npy")
source = Cubes([Scene("scene", cube, np.ones(cube.shape[1:], bool))], 1, 16)
fit = Fit(settings, folder / "none", FitOptions(source, device), network)
for _ in range(3):
    fit.take_step()
torch.save(fit.network.state_dict(), folder / f"{fit.rank} of {fit.processes}")
torch.distributed.destroy_process_group()
"""


def learnt_by_two(folder: Path) -> list[dict[str, torch.Tensor]]:
    """The weights that each of two processes has in the end."""
    folder.mkdir()
    script = folder / "rank.py"
    script.write_text(RANK)
    np.save(folder / "cube.npy", smooth_scene(80, 48))
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [sys.executable, *launch, str(script), str(folder)]
    subprocess.run(command, check=True, capture_output=True, timeout=240)
    files = sorted(folder.glob("* of 2"))
    return [torch.load(file, weights_only=True) for file in files]


@pytest.mark.slow
def test_two_processes_learn_the_same_weights_and_again(tmp_path: Path) -> None:
    first, second = learnt_by_two(tmp_path / "once")
    again, _ = learnt_by_two(tmp_path / "again")
    alone = start(tmp_path / "checkpoint", replace(SMALL, steps=3))
    for _ in range(3):
        alone.take_step()
    own = alone.network.state_dict()
    assert all(torch.equal(value, second[key]) for key, value in first.items())
    assert all(torch.equal(value, again[key]) for key, value in first.items())
    # Each process draws photos of its own, so two learn something else than one.
    assert not all(torch.equal(value, own[key]) for key, value in first.items())


def test_gradients_are_the_mean_of_all_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = start(tmp_path / "checkpoint")
    # Another process has twice ours.
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda flat: flat.mul_(3))
    job.processes = 2
    for parameter in job.trained:
        parameter.grad = torch.ones_like(parameter)
    job.share_gradients()
    assert all((parameter.grad == 1.5).all() for parameter in job.trained)
