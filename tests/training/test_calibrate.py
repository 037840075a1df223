"""The calibration: nine in ten values lie in the band, and the weights stay what they are."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from safetensors.torch import load_file
from tests.training.conftest import smooth_scene

from napari_mst.base.errors import CheckpointError
from napari_mst.models import load_model
from napari_mst.models.cards import CAMERA, FACTOR, JPEG, NOISE, WEIGHTS
from napari_mst.training import calibrate
from napari_mst.training.calibrate import Judged, doubts, factors

CUBES = [smooth_scene(48, 48, turn) for turn in range(4)]
BUNDLED = WEIGHTS / "pixelwise-srgb.safetensors"


def judged(error: float = 0.3) -> Judged:
    """Two bands of 1,000 values: errors up to *error* and twice that, margins of 0.1."""
    errors = np.linspace(0, error, 1001)
    one = np.ones((2, 1001))
    return Judged(np.stack([errors, 2 * errors]), 0.1 * one, 0.5 * one)


def test_factors_hold_nine_in_ten_values_of_each_band() -> None:
    assert_allclose(factors(judged()), [2.7, 5.4])


def test_doubts_hold_with_the_factors_what_factors_alone_do_not() -> None:
    factor = np.array([2.0, 6.0])
    doubt = doubts(judged(), factor)
    assert_allclose(doubt, [np.sqrt(0.27**2 - 0.2**2) / 0.5, 0])
    half = np.hypot(factor[:, None] * judged().margin, doubt[:, None] * judged().estimate)
    held = (judged().error <= half + 1e-12).mean(axis=1)
    assert_allclose(held, [0.9, 1.0], atol=0.01)


def test_calibration_writes_the_card_and_leaves_the_weights(tmp_path: Path) -> None:
    copy = tmp_path / "copy.safetensors"
    shutil.copy(BUNDLED, copy)
    card = calibrate.calibrate(copy, CUBES)
    assert calibrate.calibrate(copy, CUBES) == card
    model = load_model(copy)
    assert model.card == card
    assert list(card.error_band) == [FACTOR, NOISE, JPEG, CAMERA]
    means = [np.mean(card.error_band[kind]) for kind in (NOISE, JPEG, CAMERA)]
    assert means == sorted(means)
    assert means[0] > 0.01
    before, after = load_file(BUNDLED), load_file(copy)
    assert all((before[key] == after[key]).all() for key in before)


def test_dark_cubes_give_no_band() -> None:
    model = load_model("pixelwise-srgb")
    assert calibrate.measured_band(model, [np.zeros((31, 16, 16), np.float32)]) == {}


def test_file_without_a_card_is_refused(authors: Any) -> None:
    with pytest.raises(CheckpointError, match="with a card"):
        calibrate.calibrate(authors.weights, [])
