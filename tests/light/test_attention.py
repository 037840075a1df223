"""Attention over the patches of a photo: its map is exact."""

import numpy as np
import pytest

from napari_mst.light.estimating import LightAttention

BLOCKS, HEADS, GRID = 2, 3, 4
TOKENS = GRID**2 + 1


@pytest.fixture
def attention() -> LightAttention:
    drawn = np.random.default_rng(0).random((BLOCKS, HEADS, TOKENS, TOKENS))
    return LightAttention(drawn / drawn.sum(-1, keepdims=True))


def test_a_map_and_the_share_of_the_class_token_sum_to_one(attention: LightAttention) -> None:
    rollout = attention.rollout
    np.testing.assert_allclose(rollout.sum(-1), 1, atol=1e-12)
    assert attention.rollout_map.shape == (GRID, GRID)
    assert attention.rollout_map.sum() + rollout[0, 0] == pytest.approx(1, abs=1e-12)


def test_rollout_multiplies_the_blocks_with_half_of_each_passed_by(
    attention: LightAttention,
) -> None:
    first, second = (0.5 * np.eye(TOKENS) + 0.5 * block.mean(0) for block in attention.blocks)
    np.testing.assert_allclose(attention.rollout, second @ first, atol=1e-14)
