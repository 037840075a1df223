"""Calibrate the error band of a model: `napari-mst calibrate FILE ...` writes it into the card.

The factor is such that nine in ten values of simulated scenes lie in the band. The scenes are made
of spectra that no model has seen; the bands and pixels are those that `core_mrae` counts. The
photos are like those in training, in size as well: 36 % are clean, the others noisy, JPEG or both.
There is one factor for all, so on clean photos the band is wider than it has to be, and on bad ones
narrower. Clean simulated photos alone would give half of it or less, and hold seven in ten values
on real scenes, whose materials are less like the measured ones (docs/training.md).
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.torch import load_file

from napari_mst.colour import linear_to_srgb
from napari_mst.errors import CheckpointError
from napari_mst.evaluation.baselines import GRID
from napari_mst.metrics import core_bands, core_pixels
from napari_mst.models import Model, load_model
from napari_mst.models.cards import ModelCard
from napari_mst.models.seal import write_weights
from napari_mst.photo.cameras import Capture, load_illuminants
from napari_mst.photo.photo import Photo
from napari_mst.reconstruction.error_bands import margins
from napari_mst.reconstruction.reconstructor import Reconstructor
from napari_mst.simulation.camera_scenes import HELD_OUT_CAMERAS, CameraSimulator
from napari_mst.simulation.scenes import SceneSimulator
from napari_mst.training.fit import FitSettings

COVERED = 0.9
_SEED = 990
_SCENES = 128
_SIZE = FitSettings.size
# Every held-out camera five times, every light three times.
_CAMERA_SCENES = 45


def calibrate(path: Path) -> ModelCard:
    """Measure the factor of the model in the weights file at *path*, and write it into its card.

    Raises
    ------
    CheckpointError
        If the file has no card, or is not of reflectances at 400, 410, ..., 700 nm.
    """
    model = load_model(path)
    is_on_grid = np.array_equal(model.card.wavelengths, GRID)
    # A model without a card has one that was assumed.
    if not is_on_grid or model.card.quantity != "reflectance" or model.assumptions:
        raise CheckpointError(
            f"Expected a model of reflectance at 400-700 nm with a card, got {path.name}."
        )
    if model.card.needs_camera:
        factor = _factor(_needed_by_camera(model))
    else:
        factor = calibrated_factor(Reconstructor(model, "cpu"))
    card = replace(model.card, error_factor=round(factor, 3))
    write_weights(path, load_file(path), card)
    return card


def calibrated_factor(reconstructor: Reconstructor) -> float:
    """The factor by which margins have to grow to hold `COVERED` of the values.

    The margins are those around the estimates of *reconstructor*.
    """
    return _factor(_needed(reconstructor))


def _factor(needed: Iterator[NDArray[np.floating]]) -> float:
    return float(np.quantile(np.concatenate(list(needed)), COVERED))


def _needed(reconstructor: Reconstructor) -> Iterator[NDArray[np.floating]]:
    """The factor that each value of each scene needs."""
    simulator = SceneSimulator(_SEED, _SIZE, held_out=True)
    bands = core_bands(GRID)
    for _ in range(_SCENES):
        photos, cubes = simulator.draw(1)
        photo = photos[0].numpy()
        cube = cubes[0].numpy()
        codes = np.rint(linear_to_srgb(photo) * 255).astype(np.uint8)
        estimate = reconstructor.reconstruct(np.moveaxis(codes, 0, -1)).data
        yield needed_factors(estimate, cube)[bands][:, core_pixels(cube)].ravel()


def _needed_by_camera(model: Model) -> Iterator[NDArray[np.floating]]:
    """The factor that each value of each linear photo needs.

    Each scene has another camera, which training never saw, and another light.
    """
    simulator = CameraSimulator(_SEED, _SIZE, held_out=True)
    lights = list(load_illuminants())
    bands = core_bands(GRID)
    for index in range(_CAMERA_SCENES):
        camera = HELD_OUT_CAMERAS[index % len(HELD_OUT_CAMERAS)]
        capture = Capture(camera, lights[index % len(lights)])
        photos, cubes = simulator.draw_with(capture)
        photo = photos[0].numpy()
        cube = cubes[0].numpy()
        codes = np.rint(photo * 65535).astype(np.uint16)
        reconstructor = Reconstructor(model, "cpu", capture=capture)
        estimate = reconstructor.reconstruct(Photo.from_array(codes, encoding="linear")).data
        yield needed_factors(estimate, cube)[bands][:, core_pixels(cube)].ravel()


def needed_factors(
    estimate: NDArray[np.floating], reference: NDArray[np.floating]
) -> NDArray[np.floating]:
    """The factor (B, H, W) by which each margin around *estimate* grows to hold *reference*."""
    below, above = margins(estimate)
    error = reference - estimate
    margin = np.where(error > 0, above, below).clip(np.finfo(np.float32).tiny)
    return np.asarray(np.abs(error) / margin)
