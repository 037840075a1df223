"""The calibration: nine in ten values lie in the band, and the weights stay what they are."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file

from napari_mst.errors import CheckpointError
from napari_mst.models import load_model
from napari_mst.models.cards import WEIGHTS
from napari_mst.reconstruction.error_bands import margins
from napari_mst.training import calibrate
from napari_mst.training.calibrate import needed_factors


def test_value_at_the_edge_of_the_band_needs_its_factor() -> None:
    estimate = np.full((31, 2, 3), 0.4, np.float32)
    below, above = margins(estimate)
    np.testing.assert_allclose(needed_factors(estimate, estimate + 1.5 * above), 1.5, rtol=1e-4)
    np.testing.assert_allclose(needed_factors(estimate, estimate - 2.5 * below), 2.5, rtol=1e-4)


def test_calibration_writes_the_card_and_leaves_the_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibrate, "_SCENES", 2)
    bundled, copy = WEIGHTS / "pixelwise-srgb.safetensors", tmp_path / "copy.safetensors"
    shutil.copy(bundled, copy)
    card = calibrate.calibrate(copy)
    model = load_model(copy)
    assert model.card.error_factor == card.error_factor
    assert model.card.error_factor > 0.5
    before, after = load_file(bundled), load_file(copy)
    assert all((before[key] == after[key]).all() for key in before)


def test_file_without_a_card_is_refused(authors: Any) -> None:
    with pytest.raises(CheckpointError, match="with a card"):
        calibrate.calibrate(authors.weights)
