"""Training by the command: from scratch, on cubes, through a camera, stopped, continued."""

import csv
import math
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.training.conftest import scene_of, smooth_scene

from napari_mst import load_model
from napari_mst.base.errors import CubeFileError, ModelError
from napari_mst.cli import main as cli
from napari_mst.cube.colour import SRGB_D65
from napari_mst.models.cards import FACTOR, NOISE, WEIGHTS
from napari_mst.networks import NETWORKS, Kind, Network
from napari_mst.networks.attention.kinds import ATTENTIONS
from napari_mst.networks.mst_plus_plus import MSTPlusPlus
from napari_mst.networks.network import Program
from napari_mst.networks.pixelwise import PixelwiseNetwork
from napari_mst.networks.shared_modules import Chain
from napari_mst.photo.cameras import GRID, Acquisition
from napari_mst.photo.photo import Photo
from napari_mst.reconstruction.reconstructor import Reconstructor
from napari_mst.training import sources
from napari_mst.training.fit import Fit, FitOptions, FitProgress, start_network
from napari_mst.training.scenes import Scene
from napari_mst.training.settings import FitSettings, TrainingPlan
from napari_mst.training.sources import Cubes
from napari_mst.training.train import train

PLAN = partial(TrainingPlan, Path("mine.safetensors"))
TINY = ("--steps", "2", "--size", "16", "--device", "cpu", "--report-every", "1")
RANDOM = np.random.default_rng(0)
SOURCE = Cubes([scene_of(smooth_scene(80, 48))], 1, 16)


@pytest.fixture(autouse=True)
def _few_held_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "HELD_OUT_SCENES", 2)


@pytest.fixture
def cubes(tmp_path: Path) -> Path:
    folder = tmp_path / "cubes"
    folder.mkdir()
    for name in ("first", "second"):
        cube = RANDOM.uniform(0, 1, (31, 48, 40)).astype(np.float32)
        np.savez(folder / f"{name}.npz", cube=cube, wavelengths=GRID)
    return folder


@pytest.fixture
def command(cubes: Path, tmp_path: Path) -> list[str]:
    """The beginning of a command that trains quickly."""
    return ["train", "-o", str(tmp_path / "mine.safetensors"), "--cubes", str(cubes), *TINY]


def scene(rows: int = 40, columns: int = 32, value: float | None = None) -> Scene:
    shape = (31, rows, columns)
    cube = RANDOM.uniform(0, 1, shape) if value is None else np.full(shape, value)
    return Scene("scene", cube.astype(np.float32), np.ones((rows, columns), bool))


def test_command_trains_from_scratch_logs_and_says_how(
    tmp_path: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "mine.safetensors"
    assert cli.main(command) == 0
    assert capsys.readouterr().out.endswith(f"measuring the prediction interval\n{output}\n")
    card = load_model(output).card
    assert (card.name, card.rendering) == ("mine", SRGB_D65)
    assert card.has_intervals
    assert "2 cubes of the folder cubes, 2 steps" in card.training_data
    rows = list(csv.DictReader(output.with_suffix(".csv").read_text().splitlines()))
    assert [row["step"] for row in rows] == ["1", "2"]
    assert all(float(row["held_out"]) > 0 for row in rows)


def test_command_goes_on_from_a_model_on_cubes_of_the_user(tmp_path: Path, cubes: Path) -> None:
    start, output = tmp_path / "start.safetensors", tmp_path / "tuned.safetensors"
    shutil.copy(WEIGHTS / "mstpp-srgb.safetensors", start)
    assert (
        cli.main(["train", "-o", str(output), "--from", str(start), "--cubes", str(cubes), *TINY])
        == 0
    )
    before, after = load_model(start), load_model(output)
    assert "2 cubes of the folder cubes, begun with start.safetensors" in after.card.training_data
    assert any(
        (a != b).any()
        for a, b in zip(before.network.parameters(), after.network.parameters(), strict=True)
    )
    frozen = (
        model.network.get_submodule("pixelwise").state_dict().values() for model in (before, after)
    )
    assert all(torch.equal(a, b) for a, b in zip(*frozen, strict=True))


def test_model_for_another_camera_refines_the_estimate_for_cameras(
    tmp_path: Path, command: list[str]
) -> None:
    assert cli.main([*command, "--camera", "Nikon_D5100", "--light", "A"]) == 0
    model = load_model(tmp_path / "mine.safetensors")
    assert model.card.needs_camera
    assert list(model.card.error_band) == [FACTOR, NOISE]
    assert "Nikon_D5100 under A" in model.card.title
    acquisition = Acquisition("Nikon_D5100", "A")
    photo = Photo.from_array(np.full((3, 16, 16), 0.5, np.float32), encoding="linear")
    cube = Reconstructor(model, "cpu", acquisition=acquisition).reconstruct(photo)
    assert np.isfinite(cube.data).all()
    assert cube.provenance.camera == "Nikon_D5100"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--from", "pixelwise-srgb"), "Expected MST++ of 31 bands"),
        (("--cubes", "."), "Expected cube files"),
        (("--attention", "window", "--from", "mstpp-srgb"), "got --from"),
        (("--no-norm-before-attention", "--from", "mstpp-srgb"), "Leave one out"),
        (("--network", "mst-xl"), "Expected a network of mst++, mst-s, mst-m, mst-l, hdnet"),
        (("--network", "edsr", "--attention", "window"), "for the usual network, got --network"),
        (("--window", "4"), "an attention with windows for a window of 4 pixels, got spectral"),
        (("--window", "4", "--from", "mstpp-hybrid"), "got --from"),
    ],
)
def test_what_cannot_be_trained_is_refused(
    tmp_path: Path,
    command: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main([*command, *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "mine.safetensors").exists()


@pytest.mark.parametrize(
    ("record", "wrong", "message"),
    [
        (FitSettings, {"size": 65}, "size divisible by 8, got 1, 1 and 65"),
        (FitSettings, {"size": 0}, "got 1, 1 and 0"),
        (FitSettings, {"batch": 0}, "got 0, 1 and 96"),
        (FitSettings, {"stages": 0}, "got 1, 0 and 96"),
        (FitSettings, {"steps": -1}, "got -1 and 0.0015"),
        (FitSettings, {"learning_rate": math.nan}, "got 26000 and nan"),
        (FitSettings, {"learning_rate": 0.0}, "got 26000 and 0"),
        (PLAN, {"report_every": 0}, "at least 1 step between reports"),
        (PLAN, {"start": "mstpp-srgb", "network": "edsr"}, "got both. Leave one out."),
        (PLAN, {"patience": -1}, "got 500, -1 and 0"),
        (PLAN, {"loader_workers": -1}, "got 500, 0 and -1"),
        (TrainingPlan, {"output": Path("mine.pth")}, "a name ending in .safetensors, got mine.pth"),
    ],
)
def test_settings_that_cannot_be_are_refused_in_python_too(
    record: Callable[..., object], wrong: dict[str, Any], message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        record(**wrong)


def test_without_cubes_nothing_is_trained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["train", "-o", str(tmp_path / "mine.safetensors"), *TINY]) == 2
    assert "Expected --cubes FOLDER to learn from, got none" in capsys.readouterr().err


def test_cubes_are_drawn_by_index_and_their_bottom_is_held_out() -> None:
    upper, lower = scene(80, 32, value=0.3), scene(80, 32, value=0.3)
    lower.cube[:, 64:] = 0.0
    source = Cubes([upper, lower], 1, 16)
    (photos, cubes), (again, _), (other, _) = (source.draw(index, 4, 0) for index in (1, 1, 2))
    assert torch.equal(photos, again)
    assert not torch.equal(photos, other)
    assert photos.shape == (4, 3, 16, 16)
    assert cubes.min() > 0
    assert (source.held_out()[1] == 0).any()


def test_small_cube_is_refused() -> None:
    with pytest.raises(CubeFileError, match="Expected 32 x 16 pixels in scene, got 20 x 32"):
        Cubes([scene(20, 32)], 1, 16)


def test_fit_ends_when_it_gets_no_better_and_keeps_the_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    pixelwise = PixelwiseNetwork(width=8).requires_grad_(False)
    losses = iter([3.0, 1.0, 2.0, 2.0, 2.0])
    monkeypatch.setattr(Fit, "validate", lambda self: next(losses))
    settings = FitSettings(steps=5, size=16, warm_up=1)
    seen: dict[int, dict[str, torch.Tensor]] = {}

    def keep(progress: FitProgress) -> None:
        seen[progress.step] = {
            key: value.clone() for key, value in job.average.state_dict().items()
        }

    network = start_network(settings, pixelwise)
    options = FitOptions(SOURCE, patience=2, report=keep)
    job = Fit(settings, tmp_path / "checkpoint", options, network)
    best = job.run(report_every=1)
    assert job.step == 4
    assert job.best_loss == 1
    assert all(torch.equal(value, seen[2][key]) for key, value in best.state_dict().items())
    network = start_network(settings, pixelwise)
    resumed = Fit(settings, tmp_path / "checkpoint", FitOptions(SOURCE, patience=2), network)
    assert torch.equal(resumed.run().conv_out.weight, seen[2]["conv_out.weight"])


@pytest.mark.parametrize("acquisition", [None, Acquisition("Nikon_D5100", "A")])
def test_cubes_are_seen_by_the_camera_clean_noisy_or_compressed(
    acquisition: Acquisition | None,
) -> None:
    source = Cubes([scene_of(smooth_scene(80, 48))], 1, 16, acquisition)
    photos, cubes = source.draw(0, 16, 0)
    rendered = torch.einsum("nbhw,bc->nchw", cubes, source.response).clamp(0, 1)
    off = (photos - rendered).abs().mean((1, 2, 3))
    assert off.median() < 0.02
    assert (off < 0.003).any()
    assert (off > 0.005).any()


@pytest.mark.slow
def test_two_processes_train_by_the_command(tmp_path: Path, command: list[str]) -> None:
    output, script = tmp_path / "mine.safetensors", tmp_path / "run.py"
    script.write_text(
        f"import sys\nfrom napari_mst.cli.main import main\nsys.exit(main({command!r}))"
    )
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    subprocess.run([sys.executable, *launch, str(script)], check=True, timeout=240)
    assert len(list(csv.DictReader(output.with_suffix(".csv").read_text().splitlines()))) == 2
    assert load_model(output).card.name == "mine"


@pytest.mark.parametrize(
    "kind",
    [
        "hybrid --window 4",
        pytest.param("global", marks=pytest.mark.slow),
        pytest.param("spectral --norm-before-attention", marks=pytest.mark.slow),
    ],
)
def test_a_kind_of_attention_is_trained_saved_loaded_and_run(
    kind: str, tmp_path: Path, command: list[str]
) -> None:
    output = tmp_path / "mine.safetensors"
    assert cli.main([*command, "--attention", *kind.split()]) == 0
    model = load_model(output)
    network = model.network
    assert isinstance(network, MSTPlusPlus)
    name, *_ = kind.split()
    assert network.hyperparameters.attention == name
    has_norm = "norm" in kind or name != "spectral"
    assert network.hyperparameters.norm_before_attention == has_norm
    assert network.hyperparameters.window == (4 if "window" in kind else 8)
    if kind != "spectral":
        assert model.card.reference == f"napari-mst train --attention {kind}".replace(
            " --attention spectral", ""
        )
    assert ATTENTIONS[name].title in model.card.title or name == "spectral"
    assert network(torch.rand(1, 3, 9, 12)).isfinite().all()


def test_a_checkpoint_of_another_attention_is_refused(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The weights of windows and of shifted windows have the same shapes."""
    command = [*command, "--attention"]
    assert cli.main([*command, "window"]) == 0
    assert cli.main([*command, "shifted"]) == 2
    assert "Expected mine.checkpoint to be of the same network" in capsys.readouterr().err


class Mean(Network):
    """The spectrum is a 1x1 convolution of the photo, as a package of others may bring it."""

    in_bands = 3

    def __init__(self, bands: int = 31) -> None:
        super().__init__()
        self.out_bands = bands
        self.conv = torch.nn.Conv2d(3, bands, 1)

    def program(self) -> Program:
        passes = Chain()
        passes.add("bands", self.conv)
        return self.program_of(passes)


def build_mean(weights: Mapping[str, torch.Tensor]) -> Mean:
    network = Mean()
    network.load_state_dict({key: value.float() for key, value in weights.items()})
    return network.eval()


MEAN = Kind(
    "Mean",
    lambda weights: set(weights) == {"conv.weight", "conv.bias"},
    build_mean,
    new={"mean": Mean, "mean of 5": partial(Mean, 5)},
)


@pytest.mark.parametrize("name", [pytest.param("hdnet", marks=pytest.mark.slow), "mst-s", "mean"])
def test_a_network_of_another_kind_is_trained_saved_loaded_and_run(
    name: str, tmp_path: Path, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(NETWORKS, "mean", MEAN)
    output = tmp_path / "mine.safetensors"
    assert cli.main([*command, "--network", name]) == 0
    model = load_model(output)
    makers = {word: make for kind in NETWORKS.values() for word, make in kind.new.items()}
    begun = makers[name]()
    assert type(model.network) is type(begun)
    assert len(model.network.state_dict()) == len(begun.state_dict())
    assert model.assumptions == ()
    assert (model.card.is_linear, model.card.normalisation) == (True, "none")
    assert model.card.reference == f"napari-mst train --network {name}"
    assert model.card.title == f"{name.upper()} for sRGB photos under D65"
    assert model.card.has_intervals
    assert model.network(torch.rand(1, 3, 16, 16)).isfinite().all()


def test_a_network_of_other_bands_is_refused_in_python_too(
    tmp_path: Path, cubes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(NETWORKS, "mean", MEAN)
    plan = TrainingPlan(tmp_path / "mine.safetensors", network="mean of 5", cubes=cubes)
    with pytest.raises(ModelError, match=r"31 bands of photos, got mean of 5 of 3 .* and 5 bands"):
        train(plan, FitSettings(steps=1, size=16))
    with pytest.raises(ModelError, match=r"mst-l, .*, mean, mean of 5, got of mine. Choose one."):
        train(replace(plan, network="of mine"), FitSettings(steps=1, size=16))


def test_the_help_names_every_network_that_is_trained_anew() -> None:
    (told,) = re.findall(r"another kind: (.*?)or one that", str(TrainingPlan.__doc__), re.DOTALL)
    named = [part.split()[0] for part in told.split(",") if part.strip()]
    assert sorted(named) == sorted(word for kind in NETWORKS.values() for word in kind.new)
