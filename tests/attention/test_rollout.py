"""The rollout of a stage: (A + I) / 2 of its blocks, and the convolutions between them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from napari_mst.attention.record import BlockAttention
from napari_mst.attention.recorder import record_attention
from napari_mst.attention.rollout import rollouts
from napari_mst.base.arrays import Doubles
from napari_mst.networks.mst_plus_plus import MSTPlusPlus

NAME = "stages.0"


@pytest.fixture(scope="module")
def network() -> MSTPlusPlus:
    torch.manual_seed(0)
    return MSTPlusPlus(out_bands=6, stages=2).eval()


@pytest.fixture(scope="module")
def blocks(network: MSTPlusPlus) -> dict[str, BlockAttention]:
    """Blocks that attend unevenly."""
    rng = np.random.default_rng(0)
    with record_attention(network) as record, torch.inference_mode():
        network(torch.rand(1, 3, 16, 16))
    uneven = {}
    for name, matrices in record.blocks.items():
        shares = rng.random(matrices.attention.shape).astype(np.float32) ** 6
        shares /= shares.sum(-1, keepdims=True)
        uneven[name] = replace(matrices, attention=shares)
    return uneven


def test_a_recorded_run_has_the_rollout_of_each_stage(network: MSTPlusPlus) -> None:
    with record_attention(network) as record, torch.inference_mode():
        network(torch.rand(1, 3, 16, 16))
    assert list(record.rollouts) == ["stages.0", "stages.1"]
    for stage, matrix in record.rollouts.items():
        assert matrix.shape == (6, 6)
        assert_allclose(matrix.sum(axis=1), 1, atol=1e-6)
        assert_array_equal(matrix, rollouts(network, record.blocks)[stage])


def test_pixels_that_attend_to_pixels_have_no_rollout() -> None:
    network = MSTPlusPlus(out_bands=8, stages=1, attention="window", window=4).eval()
    with record_attention(network) as record, torch.inference_mode():
        network(torch.rand(1, 3, 16, 16))
    assert not record.rollouts


def with_identity(blocks: dict[str, BlockAttention], name: str) -> dict[str, BlockAttention]:
    """The blocks with one whose output is its input."""
    only = blocks[name].attention
    return blocks | {
        name: replace(blocks[name], attention=np.eye(len(only[0]), dtype=np.float32)[None])
    }


def half_mixed(matrices: BlockAttention) -> Doubles:
    return (np.asarray(matrices.attention[0], np.float64) + np.eye(6)) / 2


def test_the_first_block_mixes_first_and_the_last_one_last(
    network: MSTPlusPlus, blocks: dict[str, BlockAttention]
) -> None:
    whole = rollouts(network, blocks)[NAME]
    first, last = f"{NAME}.encoder.0", f"{NAME}.decoder.1"
    after_first = rollouts(network, with_identity(blocks, first))[NAME]
    assert_allclose(after_first @ half_mixed(blocks[first]), whole, atol=1e-6)
    before_last = rollouts(network, with_identity(blocks, last))[NAME]
    assert_allclose(half_mixed(blocks[last]) @ before_last, whole, atol=1e-6)


def test_convolutions_count_by_the_size_of_their_weights(
    network: MSTPlusPlus, blocks: dict[str, BlockAttention]
) -> None:
    """With blocks that mix nothing, channels go where the weights lead."""
    stage = network.stages[0]
    still = blocks
    for name in blocks:
        attention = blocks[name].attention
        eye = np.broadcast_to(np.eye(attention.shape[-1], dtype=np.float32), attention.shape)
        still = still | {name: replace(blocks[name], attention=eye)}

    def shares(weight: torch.Tensor, out: int) -> Doubles:
        sizes = np.abs(weight.detach().double().numpy())
        total = np.moveaxis(sizes, out, 0).sum(axis=(2, 3))
        return np.asarray(total / total.sum(axis=1, keepdims=True))

    deep = shares(stage.down[1].weight, 0) @ (half := shares(stage.down[0].weight, 0))
    risen = shares(stage.fuse[0].weight, 0) @ np.vstack(
        [shares(stage.up[0].weight, 1) @ deep, half]
    )
    up = shares(stage.up[1].weight, 1) @ risen
    expected = shares(stage.fuse[1].weight, 0) @ np.vstack([up, np.eye(6)])
    assert_allclose(rollouts(network, still)[NAME], expected, atol=1e-6)
