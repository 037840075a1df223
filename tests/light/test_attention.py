"""Attention over the patches of a photo: its maps and rows are exact, and asked for by name."""

import numpy as np
import pytest

from napari_mst.errors import AttentionError
from napari_mst.light.estimate import LightAttention

BLOCKS, HEADS, GRID = 2, 3, 4
TOKENS = GRID**2 + 1


@pytest.fixture
def attention() -> LightAttention:
    drawn = np.random.default_rng(0).random((BLOCKS, HEADS, TOKENS, TOKENS))
    return LightAttention(drawn / drawn.sum(-1, keepdims=True))


def test_a_map_and_the_share_of_the_class_token_sum_to_one(attention: LightAttention) -> None:
    for block, head in ((0, 1), (-1, None), (1, 2)):
        own = attention.class_token_map(block, head)
        row = attention.blocks[block].mean(0) if head is None else attention.blocks[block, head]
        assert own.shape == (GRID, GRID)
        assert own.sum() + row[0, 0] == pytest.approx(1, abs=1e-12)
    rollout = attention.rollout
    np.testing.assert_allclose(rollout.sum(-1), 1, atol=1e-12)
    assert attention.rollout_map.sum() + rollout[0, 0] == pytest.approx(1, abs=1e-12)


def test_rollout_multiplies_the_blocks_with_half_of_each_passed_by(
    attention: LightAttention,
) -> None:
    first, second = (0.5 * np.eye(TOKENS) + 0.5 * block.mean(0) for block in attention.blocks)
    np.testing.assert_allclose(attention.rollout, second @ first, atol=1e-14)


def test_the_row_of_a_patch_is_its_own(attention: LightAttention) -> None:
    told = attention.patch_map((2, 1), block=1, head=0)
    row = attention.blocks[1, 0, 1 + 2 * GRID + 1]
    np.testing.assert_array_equal(told, row[1:].reshape(GRID, GRID))


@pytest.mark.parametrize(
    ("pixel", "patch"),
    [((0, 0), (0, 0)), ((99, 199), (3, 3)), ((25, 100), (1, 2)), ((-5, 999), (0, 3))],
)
def test_every_pixel_has_a_patch(
    attention: LightAttention, pixel: tuple[int, int], patch: tuple[int, int]
) -> None:
    assert attention.patch_at(pixel, (100, 200)) == patch


def test_what_is_not_there_is_refused_in_a_sentence(attention: LightAttention) -> None:
    with pytest.raises(AttentionError, match="Expected a patch from 0,0 to 3,3, got 4,0"):
        attention.patch_map((4, 0))
    with pytest.raises(AttentionError, match=r"2 blocks and 3 heads.* got block 2, head None"):
        attention.class_token_map(2)
    with pytest.raises(AttentionError, match="got block 0, head 3"):
        attention.class_token_map(0, 3)
