"""One head of a network with windows, step by step: each matrix against its formula and the run."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from tests.attention.test_pixels import heard, photo, reconstructor_of

from napari_mst.attention.head_steps import MatrixStep, WindowSteps
from napari_mst.attention.pixels import PixelExplorer
from napari_mst.base.errors import AttentionError

Matrix = NDArray[np.float64]
BLOCK = "stages.0.encoder.1"
CORNER = (1, 1)  # its shifted window reaches to the opposite borders


@cache
def explorer(kind: str, folder: Path) -> PixelExplorer:
    return PixelExplorer(reconstructor_of(kind, folder), photo())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("networks")


def unit(columns: Matrix) -> Matrix:
    lengths: Matrix = np.sqrt(np.square(columns).sum(0))
    return columns / lengths


@pytest.mark.parametrize("kind", ["window", "shifted", "overlapping", "hybrid"])
def test_every_matrix_is_what_its_formula_says(kind: str, folder: Path) -> None:
    one = explorer(kind, folder)
    found = one.steps(BLOCK, 1, *CORNER)
    scale = one.blocks[BLOCK].spec.parts.attention.get_parameter("rescale")[1].item()
    of_keys = "X_K" if kind == "overlapping" else "X"
    for name, features in (("Q", "X"), ("K", of_keys), ("V", of_keys)):
        assert_allclose(found[name], found[f"W_{name}"] @ found[features], atol=1e-12)
    assert_allclose(found["Q'"], scale * unit(found["Q"]))
    is_real = np.square(found["K"]).sum(0) > 0  # beyond the map of overlapping windows keys are 0
    assert_allclose(found["K'"][:, is_real], unit(found["K"][:, is_real]))
    assert_allclose(found["S"], found["K'"].T @ found["Q'"], atol=1e-12)
    has_mask = kind in ("shifted", "hybrid")
    assert has_mask == any(step.name == "M" for step in found.steps)
    powers = np.exp(found["S"] + found["B"] + (found["M"] if has_mask else 0))
    assert_allclose(found["A"], powers / powers.sum(0))
    assert_allclose(found["O"], found["V"] @ found["A"], atol=1e-12)
    assert_allclose(found["Y"], found["W_O"] @ found["O"], atol=1e-12)
    assert np.abs(found["B"]).max() > 0.1
    formula = step_of(found, "Q'").formula
    assert formula == f"s Q / |Q| of each column, s = {scale:.4g}"


@pytest.mark.parametrize("kind", ["shifted", "overlapping"])
def test_a_column_of_the_weights_is_that_of_the_pixel(kind: str, folder: Path) -> None:
    found = explorer(kind, folder).steps(BLOCK, 1, *CORNER)
    weights = step_of(found, "A")
    assert weights.columns is not None
    (own,) = np.flatnonzero((weights.columns == found.pixel.query).all(1))
    assert_allclose(weights.values[:, own], found.pixel.weights[1], atol=1e-12)
    assert_array_equal(np.asarray(weights.rows), found.pixel.places)


def test_heads_together_are_the_attention_of_the_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("napari_mst.engine.run.Execution.tile", lambda *_: (1024, 1024))
    one = explorer("shifted", folder)
    attention = one.blocks[BLOCK].spec.parts.attention
    with torch.inference_mode():
        attended = attention(heard(reconstructor_of("shifted", folder), BLOCK))[0].numpy()
        bias = attention.proj(torch.zeros(62, dtype=torch.float64)).numpy()
    for row, column in (CORNER, (20, 28)):
        heads = [one.steps(BLOCK, head, row, column) for head in (0, 1)]
        places = step_of(heads[0], "Y").columns
        assert places is not None
        expected = attended[:, *(places.T // 2)]
        result = heads[0]["Y"] + heads[1]["Y"] + bias[:, None]
        assert_allclose(result, expected, rtol=0, atol=1e-12)


def step_of(found: WindowSteps, name: str) -> MatrixStep:
    return next(step for step in found.steps if step.name == name)


def test_what_has_no_windows_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AttentionError, match=r"Expected windows of at most 576 .* between all"):
        explorer("global", folder).steps(BLOCK, 0, 0, 0)
    monkeypatch.setattr("napari_mst.attention.pixels.MOST_TOKENS", 35)
    with pytest.raises(AttentionError, match=r"Expected windows of at most 35 pixels .* got 36"):
        explorer("overlapping", folder).steps(BLOCK, 0, 0, 0)
    with pytest.raises(AttentionError, match="Expected head 0 to 1 in stages"):
        explorer("window", folder).steps(BLOCK, 2, 0, 0)
