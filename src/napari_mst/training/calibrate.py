"""Calibrates the prediction intervals of a model on unseen cubes, and writes them into its card.

Photos of the cubes are simulated in four ways. For each, the interval must enclose nine in ten
values of every band, over the pixels that `core_mrae` counts:

- without errors, which gives the factors on the distances of the pixelwise network,
- with noise, with noise and JPEG, and from an unknown camera, each of which gives doubts that widen
  the first interval.

Doubts are shares of the spectrum, so the intervals of clean photos are wider than simulated scenes
require. Real scenes need this, since their materials differ from the measured ones
(docs/prediction_intervals.md). Letters: B bands, H rows, W columns, n values of a band.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors.torch import load_file

from napari_mst.base.arrays import Floats
from napari_mst.base.errors import CheckpointError
from napari_mst.cube.metrics import core_pixels
from napari_mst.models import Model, load_model
from napari_mst.models.cards import CAMERA, FACTOR, JPEG, NOISE, ModelCard
from napari_mst.models.seal import write_weights
from napari_mst.photo.cameras import GRID, Acquisition
from napari_mst.reconstruction.model_intervals import margins
from napari_mst.reconstruction.reconstructor import Reconstructor
from napari_mst.training.inputs import Input, training_cameras

COVERED = 0.9
_SEED = 990
_STRIDE = 3  # of counted pixels along rows and columns, since neighbours add little
_DIGITS = 3
_DARKEST = 1e-6  # smallest divisor, for networks that have learnt little

# Guesses for an unknown camera, not fitted to measured photos.
_KELVIN = (5000.0, 8000.0)  # its white balance in daylight of 6504 K
_STOPS = 0.5  # of exposure, up or down
_CONTRAST = (1.0, 1.4)
_FINE_JPEG = (75, 96)  # qualities written by cameras
_ANY_JPEG = (40, 96)
_NOISE = (2e-4, 2e-3)  # variance over signal: photos of moderate noise


class Judged(NamedTuple):
    """Core values of simulated scenes compared with their estimates, each (B, n).

    Attributes
    ----------
    error
        Distance of the estimate from the truth.
    margin
        The network's distance on the side of the truth.
    estimate
        The estimate itself.
    """

    error: Floats
    margin: Floats
    estimate: Floats


def calibrate(
    path: Path, cubes: Iterable[Floats], acquisitions: Sequence[Acquisition] = ()
) -> ModelCard:
    """Measure the prediction intervals of the weights file at *path*; write them into its card.

    Parameters
    ----------
    cubes
        Reflectances (31, H, W) that the model was not trained on.
    acquisitions
        Cameras and lights of the photos, used in turn, for models that need them.

    Raises
    ------
    CheckpointError
        If the file has no card, or is not of reflectances at 400, 410, ..., 700 nm.
    """
    model = load_model(path)
    is_on_grid = np.array_equal(model.card.wavelengths, GRID)
    # A model without a card has assumptions instead.
    if not is_on_grid or model.card.quantity != "reflectance" or model.assumptions:
        raise CheckpointError(
            f"Expected a model of reflectance at 400-700 nm with a card, got {path.name}."
        )
    card = replace(model.card, error_band=measured_band(model, list(cubes), acquisitions))
    write_weights(path, load_file(path), card)
    return card


def measured_band(
    model: Model, cubes: Sequence[Floats], acquisitions: Sequence[Acquisition] = ()
) -> dict[str, tuple[float, ...]]:
    """Measure the factors and doubts for the card of *model*; empty if the *cubes* are dark."""
    exact = _judge(model, _EXACT, cubes, acquisitions)
    if not exact.error.size:
        return {}
    factor = factors(exact)
    band = {FACTOR: _rounded(factor)}
    kinds = (NOISE,) if model.card.needs_camera else (NOISE, JPEG, CAMERA)
    for kind in kinds:
        band[kind] = _rounded(doubts(_judge(model, kind, cubes, acquisitions), factor))
    return band


def factors(judged: Judged) -> Floats:
    """Return the factor (B,) on margins that makes them enclose `COVERED` of the values."""
    margin = judged.margin.clip(_DARKEST)
    return np.quantile(judged.error / margin, COVERED, axis=1)


def doubts(judged: Judged, factor: Floats) -> Floats:
    """Return the share (B,) of the estimate that must be added to margins times *factor*."""
    is_open = np.square(judged.error) - np.square(factor[:, None] * judged.margin)
    estimate = judged.estimate.clip(_DARKEST)
    return np.quantile(np.sqrt(is_open.clip(0)) / estimate, COVERED, axis=1)


def compared(estimate: Floats, reference: Floats) -> Judged:
    """Compare the core values of *reference* (B, H, W) with *estimate*."""
    core = core_pixels(reference)
    below, above = margins(estimate)
    error = reference - estimate
    margin = np.where(error > 0, above, below)
    return Judged(np.abs(error)[:, core], margin[:, core], estimate[:, core])


_EXACT = "exact"


def _drawn(kind: str, random: np.random.Generator) -> Mapping[str, Any]:
    """Draw the arguments of an `Input` for a photo of this *kind*."""
    words: dict[str, Any] = {}
    if kind == _EXACT:
        return words
    if kind == CAMERA:
        words["camera"] = str(random.choice(training_cameras()))
        words["kelvin"] = random.uniform(*_KELVIN)
        words["exposure"] = 2 ** random.uniform(-_STOPS, _STOPS)
        words["contrast"] = random.uniform(*_CONTRAST)
    low, high = _NOISE
    words["noise"] = low * (high / low) ** random.random()  # log-uniform
    if kind != NOISE:
        words["noise"] *= random.integers(2)
        words["quality"] = int(random.integers(*(_FINE_JPEG if kind == CAMERA else _ANY_JPEG)))
    return words


def _judge(
    model: Model, kind: str, cubes: Sequence[Floats], acquisitions: Sequence[Acquisition]
) -> Judged:
    """Judge *model* on photos of one *kind* of the *cubes*."""
    random = np.random.default_rng(_SEED)
    every = np.s_[:, ::_STRIDE, ::_STRIDE]
    judged = []
    for index, cube in enumerate(cubes):
        acquisition = acquisitions[index % len(acquisitions)] if acquisitions else None
        shot = Input(kind, acquisition=acquisition, **_drawn(kind, random))
        reconstructor = Reconstructor(model, "cpu", acquisition=acquisition)
        estimate = reconstructor.reconstruct(shot.photo(cube, str(index)))
        judged.append(compared(np.ascontiguousarray(estimate.data[every]), cube[every]))
    return Judged(*(np.concatenate(arrays, axis=1) for arrays in zip(*judged, strict=True)))


def _rounded(numbers: Floats) -> tuple[float, ...]:
    return tuple(round(float(number), _DIGITS) for number in numbers)
