"""Training and calibration on simulated scenes: `train` without cubes, and `calibrate`."""

from functools import wraps
from pathlib import Path

import torch

from lab.camera_scenes import TRAINING_LIGHTS
from lab.simulated import SceneSimulator, Simulated
from napari_mst.cli.arguments import Command
from napari_mst.cli.training import train_model, trained
from napari_mst.models import ModelCard, load_model
from napari_mst.photo.cameras import Acquisition, camera_response
from napari_mst.training.calibrate import calibrate
from napari_mst.training.inputs import HELD_OUT_CAMERAS
from napari_mst.training.settings import FitSettings, TrainingPlan

_SEED = 990
_SCENES = 128
_SIZE = FitSettings.size
# Every held-out camera five times, every light two or three times.
_CAMERA_SCENES = 40


@wraps(train_model)
def train_on_scenes(*, plan: TrainingPlan, settings: FitSettings, steps: int | None = None) -> None:
    """Train as `napari-mst train` does, without --cubes on simulated scenes."""
    response = torch.from_numpy(camera_response(plan.camera, plan.light)).float()
    scenes = Simulated(settings.seed, settings.size, response)
    trained(plan, settings, steps, None if plan.cubes else scenes)


def calibrated(path: Path) -> ModelCard:
    """Measure the prediction interval of the model in the file *path*, into its card.

    Scenes are made of spectra that no model has seen, and of the size of those in training.
    """
    needs_camera = load_model(path).card.needs_camera
    simulator = SceneSimulator(_SEED, _SIZE, held_out=True)
    count = _CAMERA_SCENES if needs_camera else _SCENES
    cubes = [simulator.draw(1)[1][0].numpy() for _ in range(count)]
    acquisitions = []
    if needs_camera:  # cameras that training never saw
        acquisitions = [
            Acquisition(
                HELD_OUT_CAMERAS[index % len(HELD_OUT_CAMERAS)],
                TRAINING_LIGHTS[index % len(TRAINING_LIGHTS)],
            )
            for index in range(count)
        ]
    return calibrate(path, cubes, acquisitions)


def calibrate_files(files: tuple[Path, ...]) -> None:
    """Measure the prediction interval of each model, into the card of its file, and print it.

    Parameters
    ----------
    files : FILE
        weights file with a card (.safetensors); its card is changed

    Examples
    --------
    napari-mst calibrate mine.safetensors
    """
    for file in files:
        card = calibrated(file)
        print(file.name, flush=True)
        for kind, numbers in card.error_band.items():
            by_band = " ".join(f"{number:.2f}" for number in numbers)
            print(f"  {kind:7} {by_band}", flush=True)


TRAIN = Command("train", "train a new model, also on simulated scenes", train_on_scenes)
CALIBRATE = Command(
    "calibrate", "measure the prediction interval of a model, into its file", calibrate_files
)
