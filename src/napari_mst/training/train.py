"""Trains MST++ on the user's cubes, from scratch or from a model: `napari-mst train`.

Several GPUs or processes: `torchrun --nproc-per-node 2 --no-python napari-mst train ...`.
"""

import copy
import csv
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from napari_mst.base.errors import CheckpointError, ModelError, shown
from napari_mst.cube.colour import SRGB_D65
from napari_mst.engine.device import choose_device
from napari_mst.models import ModelCard, load_model
from napari_mst.networks import NETWORKS, Network
from napari_mst.networks.camera import CameraNetwork
from napari_mst.photo.cameras import CAMERA_RGB, GRID, SRGB, Acquisition
from napari_mst.training.calibrate import calibrate
from napari_mst.training.fit import (
    Fit,
    FitOptions,
    FitProgress,
    join_processes,
    save,
    start_network,
)
from napari_mst.training.scenes import read_scenes
from napari_mst.training.settings import FitSettings, TrainingPlan
from napari_mst.training.sources import Cubes, TrainingSource


def train(
    plan: TrainingPlan, settings: FitSettings, source: TrainingSource | None = None
) -> ModelCard | None:
    """Fit a network and write the best version, as float16, with its card.

    An interrupted fit continues from its checkpoint. With several processes, only rank 0 writes and
    returns the card; the others return None.

    Parameters
    ----------
    source
        Photos and cubes to learn from, instead of the cubes of *plan*.

    Raises
    ------
    CheckpointError
        If the model to start from does not have 31 bands of reflectance at 400-700 nm.
    CubeFileError
        If the cubes, the camera or the light cannot be used.
    ModelError
        If there is nothing to learn from.
    """
    source = source or _cubes(plan, settings)
    device = join_processes(choose_device(plan.device).name)
    network = _start(plan, settings, source)
    curriculum_start = 1.0 if plan.start else settings.curriculum_start
    fit = Fit(
        replace(settings, learns_cubes=plan.cubes is not None, curriculum_start=curriculum_start),
        plan.output.with_suffix(".checkpoint"),
        FitOptions(source, device, plan.patience, partial(_log, plan), plan.loader_workers),
        network,
    )
    best = fit.run(plan.report_every)
    if fit.rank != 0:
        return None
    card = _card(plan, settings, source, fit)
    save(best, plan.output, card)
    if not card.rendering:
        return card
    print("measuring the prediction interval", flush=True)  # takes a while without further output
    _, cubes = source.held_out()
    acquisitions = [Acquisition(plan.camera, plan.light)] if card.needs_camera else []
    return calibrate(plan.output, cubes.numpy(), acquisitions)


def _cubes(plan: TrainingPlan, settings: FitSettings) -> Cubes:
    if plan.cubes is None:
        raise ModelError("Expected --cubes FOLDER to learn from, got none. Name your cubes.")
    scenes = read_scenes(plan.cubes, plan.full_scale, plan.reading)
    return Cubes(scenes, settings.seed, settings.size, plan.acquisition)


def _start(plan: TrainingPlan, settings: FitSettings, source: TrainingSource) -> Network:
    """Return the network to train: a new one, or a copy of that of the model to continue from.

    The network gets the camera of *source* if it needs one. A new network for a camera other than
    sRGB refines the estimate of the bundled model for cameras.
    """
    if plan.network:
        return _new(plan.network, settings)
    network: Any
    if plan.start:
        network = _copied(plan.start)
    elif plan.acquisition is None:
        network = start_network(settings)
    else:
        of_cameras: Any = load_model("mstpp-camera").network
        network = start_network(settings, of_cameras.pixelwise)
    if isinstance(getattr(network, "pixelwise", None), CameraNetwork):
        network.pixelwise.set_response(source.response)
    return network


def _copied(name: str) -> Any:
    """Copy the network of the model *name*, with its pixelwise estimate frozen."""
    model = load_model(name)
    if not hasattr(model.network, "stages") or not np.array_equal(model.card.wavelengths, GRID):
        raise CheckpointError(
            f"Expected MST++ of 31 bands at 400-700 nm to start from, got {model.card.name}."
        )
    network: Any = copy.deepcopy(model.network).requires_grad_(True).train()
    if hasattr(network, "pixelwise"):
        network.pixelwise.requires_grad_(False)
    return network


def _new(name: str, settings: FitSettings) -> Network:
    """Make a new network of another kind, with initial weights from the seed."""
    if settings.attention_options:
        raise ModelError(
            "Expected --attention, --window or --norm-before-attention for the usual network, got "
            "--network. Leave one out."
        )
    makers = {word: make for kind in NETWORKS.values() for word, make in kind.new.items()}
    if name not in makers:
        known = ", ".join(makers)
        raise ModelError(f"Expected a network of {known}, got {shown(name, 40)}. Choose one.")
    torch.manual_seed(settings.seed)
    network = makers[name]()
    if (network.in_bands, network.out_bands) != (3, len(GRID)):
        raise ModelError(
            f"Expected a network that makes {len(GRID)} bands of photos, got {shown(name, 40)} of "
            f"{network.in_bands} channels and {network.out_bands} bands. Choose another."
        )
    return network


def _card(plan: TrainingPlan, settings: FitSettings, source: TrainingSource, fit: Fit) -> ModelCard:
    """Return the card of the model: its purpose and its origin."""
    photos, domain = "sRGB photos", "8-bit sRGB photos"
    if plan.camera != SRGB:
        photos = domain = f"linear, white-balanced RGB of {Path(plan.camera).stem}"
    light = Path(plan.light).stem
    made_of = "simulated scenes of measured reflectances"
    if isinstance(source, Cubes):
        made_of = f"{len(source)} cubes of the folder {plan.cubes.name if plan.cubes else ''}"
    network = plan.network.upper() or fit.network.hyperparameters.title
    # There is no name for the rendering of a single other camera or light.
    rendering = SRGB_D65 if plan.acquisition is None else ""
    if isinstance(getattr(fit.network, "pixelwise", None), CameraNetwork):
        rendering = CAMERA_RGB
    chosen = plan.network and f" --network {plan.network}"
    begun = f", begun with {Path(plan.start).name}" if plan.start else ""
    return ModelCard(
        name=plan.output.stem,
        title=f"{network} for {photos} under {light}",
        wavelengths=tuple(GRID.tolist()),
        is_linear=True,
        normalisation="none",
        quantity="reflectance",
        domain=f"{domain} under {light}, of scenes like those that it was trained on.",
        training_data=f"{made_of}{begun}, {fit.step} steps, seed {settings.seed}.".capitalize(),
        accuracy={"held-out scenes": {"loss": round(fit.best_loss, 4)}},
        reference=f"napari-mst train{chosen or settings.attention_options}",
        rendering=rendering,
    )


def _log(plan: TrainingPlan, progress: FitProgress) -> None:
    """Print a report and append it to the log."""
    print(progress, flush=True)
    path = plan.output.with_suffix(".csv")
    is_new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        if is_new:
            writer.writerow(progress._fields)
        writer.writerow(progress)
