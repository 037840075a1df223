"""The fit for cameras: many cameras, none held out, the same weights again, one command."""

from pathlib import Path

import numpy as np
import pytest
import torch

from lab import fit_camera, training
from lab.camera_scenes import CameraScenes, CameraSimulator
from lab.fit_camera import CameraFit, fit_camera_network, pixelwise_of, start_camera_network
from lab.fit_pixelwise import PixelwiseSettings
from lab.tests.conftest import Run
from napari_mst import load_model
from napari_mst.networks.camera import CameraNetwork
from napari_mst.photo.cameras import CAMERA_RGB, GRID, Acquisition, camera_response, load_cameras
from napari_mst.training import sources
from napari_mst.training.inputs import HELD_OUT_CAMERAS, training_cameras
from napari_mst.training.settings import FitSettings

SMALL = FitSettings(steps=4, size=16, warm_up=1)


def quiet(_: object) -> None:
    """Report nothing."""


TINY = PixelwiseSettings(steps=3, batch=128, width=8)


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few photos judge, calibrate and make the components."""
    for module, name, value in (
        (fit_camera, "SAMPLE", 500),
        (fit_camera, "JUDGED", 2),
        (fit_camera, "PIXEL_STEPS", 3),
        (training, "_CAMERA_SCENES", 2),
    ):
        monkeypatch.setattr(module, name, value)


def weights(network: torch.nn.Module) -> torch.Tensor:
    return torch.cat([value.flatten() for value in network.state_dict().values()])


def test_nine_cameras_are_never_trained_with() -> None:
    assert len(training_cameras()) == 44
    assert set(HELD_OUT_CAMERAS) | set(training_cameras()) == set(load_cameras())
    assert not set(HELD_OUT_CAMERAS) & set(training_cameras())


def test_held_out_photos_are_of_held_out_cameras() -> None:
    responses, _ = CameraSimulator(0, held_out=True).draw_responses(200)
    trained, _ = CameraSimulator(0).draw_responses(200)
    assert not torch.isclose(responses[:, None], trained[None], atol=1e-6).all(-1).all(-1).any()


def test_photo_is_that_of_the_response_that_was_told() -> None:
    told: list[torch.Tensor] = []
    scenes = CameraScenes(0, 16, told.append)
    photos, cubes = scenes.draw(3, 2, 0.5)
    assert torch.equal(told[-1], scenes.response)
    seen = torch.einsum("nbhw,bc->nchw", cubes, scenes.response).clamp(0, 1)
    assert (photos - seen).abs().median() < 0.02
    again, _ = scenes.draw(3, 2, 0.5)
    other, _ = scenes.draw(4, 2, 0.5)
    assert torch.equal(photos, again)
    assert not torch.equal(photos, other)


def test_noise_is_larger_where_a_channel_is_amplified_more() -> None:
    simulator = CameraSimulator(0, size=64)
    simulator.response = torch.from_numpy(camera_response("Nikon_D5100", "A")).float()
    simulator.gains = torch.from_numpy(1 / Acquisition("Nikon_D5100", "A").white_of_sensor).float()
    noisy = torch.cat([simulator.photograph(torch.full((1, 31, 64, 64), 0.4)) for _ in range(30)])
    red, green, blue = noisy.std((0, 2, 3))
    assert blue > red
    assert blue > 1.3 * green


def test_network_starts_as_the_linear_estimate() -> None:
    network = start_camera_network(0, width=8)
    responses, _ = CameraSimulator(1).draw_responses(4)
    simulator = CameraSimulator(2)
    photos, spectra = simulator.draw_pixels_of(responses, 200)
    network.set_response(responses)
    linear = (network.linear_estimate() @ photos[..., 0])[..., None].clamp(0.05, 1)
    assert (network(photos).clamp(0.05, 1) - linear).abs().mean() < 0.05
    assert photos.shape == (4, 3, 200, 1)
    assert spectra.shape == (4, 31, 200, 1)


def test_pixelwise_fit_learns_and_is_the_same_again(capsys: pytest.CaptureFixture[str]) -> None:
    settings = PixelwiseSettings(steps=12, batch=256, width=16, warm_up=2)
    first, again = (fit_camera_network(settings, report_every=6) for _ in range(2))
    assert torch.equal(weights(first), weights(again))
    losses = [float(line.split()[3]) for line in capsys.readouterr().out.splitlines()]
    assert losses[1] < losses[0]


def test_stopped_fit_continues_to_the_same_weights_without_its_first_part(tmp_path: Path) -> None:
    pixelwise = fit_camera_network(TINY)
    whole = CameraFit(SMALL, tmp_path / "whole", pixelwise, report=quiet).run(report_every=2)
    stopped = CameraFit(SMALL, tmp_path / "stopped", pixelwise, report=quiet)
    stopped.take_step()
    stopped.take_step()
    stopped.save_checkpoint()
    kept = pixelwise_of(tmp_path / "stopped")
    assert isinstance(kept, CameraNetwork)
    continued = CameraFit(SMALL, tmp_path / "stopped", kept, report=quiet)
    assert continued.step == 2
    assert torch.equal(weights(whole), weights(continued.run(report_every=2)))
    assert pixelwise_of(tmp_path / "nothing") is None


def scenes(folder: Path) -> Path:
    folder.mkdir()
    cube = np.random.default_rng(0).uniform(0.1, 0.9, (31, 32, 16)).astype(np.float32)
    np.savez(folder / "scene.npz", cube=cube, wavelengths=GRID)
    return folder


@pytest.mark.slow
def test_one_command_makes_the_file_with_its_card(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fit_camera, "HELD_OUT_CAMERAS", HELD_OUT_CAMERAS[:2])
    monkeypatch.setattr(sources, "HELD_OUT_SCENES", 2)
    output = tmp_path / "mine.safetensors"
    real = scenes(tmp_path / "real")
    sizes = ("--steps", "2", "--size", "16", "--report-every", "1")
    assert run("retrain", "mstpp-camera", "-o", output, *sizes, "--scenes", real)[0] == 0
    card = load_model(output).card
    assert (card.name, card.rendering) == ("mine", CAMERA_RGB)
    assert card.has_intervals
    assert [name for name in card.accuracy if "scenes of real, 2 cameras not trained with" in name]
    assert "retrain mstpp-camera --steps 2" in card.reference
    tuned = tmp_path / "tuned.safetensors"
    camera = ("--camera", "Nikon_D5100", "--illuminant", "A")
    assert run("train", "--from", output, "--cubes", real, *camera, "-o", tuned, *sizes)[0] == 0
    assert load_model(tuned).card.rendering == CAMERA_RGB
