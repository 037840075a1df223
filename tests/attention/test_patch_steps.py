"""Single-head attention on a patch: its matrices are those of non-local means between pixels."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from napari_mst.attention.head_steps import patch_steps
from napari_mst.base.errors import AttentionError
from napari_mst.denoising.as_attention import attention, tokens
from napari_mst.denoising.photo_denoising import Denoising
from napari_mst.denoising.sensor_noise import SensorNoise
from napari_mst.denoising.streaming import Filter
from napari_mst.photo.photo import Photo

HOW = Denoising(SensorNoise(1e-3, 1e-5), 2.0)
PHOTO = Photo.from_array(
    np.random.default_rng(0).random((12, 15, 3)).astype(np.float32), encoding="linear"
)


def test_the_result_is_the_patch_denoised_by_itself() -> None:
    steps = patch_steps(PHOTO, HOW, (3, 5), 4, "columns")
    patch = HOW.noise.codes * HOW.stabilised(PHOTO.cropped((3, 7, 5, 9)))
    # The filter itself averages in float32; this is its formula in float64.
    using = Filter(HOW.codes, patch=1)
    compared = tokens(patch, using)
    expected = attention(compared, compared, using) @ patch.reshape(3, -1).T
    assert_allclose(steps["O"], expected.T, rtol=1e-9)
    assert_allclose(steps["A"].sum(0), 1)
    assert_allclose(steps["V"].reshape(patch.shape), patch)


@pytest.mark.parametrize(("reading", "axis"), [("columns", 0), ("rows", 1)])
def test_every_matrix_is_what_its_formula_says(reading: str, axis: int) -> None:
    steps = patch_steps(PHOTO, HOW, (0, 0), 3, reading)  # type: ignore[arg-type]
    x = steps["X"]
    assert x.shape == (5, 9)
    for name in "QKV":
        assert_allclose(steps[name], steps[f"W_{name}"] @ x)
    assert_allclose(steps["S"], steps["K"].T @ steps["Q"] / np.sqrt(5), atol=1e-9)
    powers = np.exp(steps["S"])
    assert_allclose(steps["A"], powers / powers.sum(axis, keepdims=True))
    assert_allclose(steps["O"], steps["V"] @ steps["A"])


def test_a_patch_at_the_border_is_moved_onto_the_photo() -> None:
    steps = patch_steps(PHOTO, HOW, (11, 14), 4, "columns")
    assert steps.corner == (8, 11)


@pytest.mark.parametrize(
    ("corner", "side", "message"),
    [
        ((0, 0), 13, "Expected a patch of 1 to 12 pixels a side, got 13"),
        ((12, 0), 4, "Expected a pixel within 12 rows x 15 columns, got row 12, column 0"),
    ],
)
def test_an_impossible_patch_is_refused(corner: tuple[int, int], side: int, message: str) -> None:
    with pytest.raises(AttentionError, match=message):
        patch_steps(PHOTO, HOW, corner, side, "columns")
