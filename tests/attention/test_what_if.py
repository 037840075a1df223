"""What a head does: the network itself, run with equal weights in the head."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from napari_mst import Reconstructor, load_model
from napari_mst.attention.recorder import record_attention
from napari_mst.attention.what_if import AttentionChange, HeadEffects
from napari_mst.base.errors import AttentionError
from napari_mst.networks import Network
from napari_mst.networks.attention_spec import ChangedWeights, with_weights
from napari_mst.networks.mst_plus_plus import MSTPlusPlus

BLOCK, HEAD = "stages.0.encoder.1", 1
PARTS = {"spectral": ["attention"], "shifted": ["attention"], "hybrid": ["attention", "spectral"]}
"""The parts of a block that attend, in each kind."""


def photo() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (28, 36, 3), dtype=np.uint8)


def reconstructor(network: Network) -> Reconstructor:
    model = replace(load_model("mstpp-srgb"), network=network.eval().requires_grad_(False))
    return Reconstructor(model, "cpu", precision="float64", correct_colour=False)


def cube(network: Network) -> np.ndarray:
    data = reconstructor(network).reconstruct(photo()).data
    return np.asarray(data, np.float64)


@pytest.mark.parametrize("kind", PARTS)
def test_the_effect_is_that_of_scores_that_are_all_the_same(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    network = MSTPlusPlus(stages=1, attention=kind, window=4)
    without = copy.deepcopy(network)
    for part in PARTS[kind]:
        # At a scale of 0, and without a bias of places, only the mask of windows is left.
        without.get_submodule(f"{BLOCK}.{part}").get_parameter("rescale").data[HEAD] = 0
    before = cube(network)
    expected = np.abs(cube(without) - before).mean(0)
    with monkeypatch.context() as small:
        small.setattr("napari_mst.engine.run.Execution.tile", lambda *_: (16, 16))
        made = HeadEffects(reconstructor(network), photo()).map(BLOCK, HEAD)
    assert_allclose(made.values, expected, rtol=0, atol=1e-6)
    assert expected.mean() > 1e-5
    assert_array_equal(cube(network), before)


def test_shares_are_of_the_effect_of_all_heads_and_a_region_lies_in_its_photo() -> None:
    torch.manual_seed(0)
    network = MSTPlusPlus(stages=1)
    progress: list[float] = []
    region = (3, 24, 4, 32)
    effects = HeadEffects(reconstructor(network), photo(), region=region, progress=progress.append)
    found = effects.shares()
    assert found.provenance.region == "3:24,4:32"
    shares = found.blocks
    assert progress == sorted(progress)
    assert [len(heads) for heads in shares.values()] == [1, 2, 4, 2, 1]
    made = effects.map(BLOCK, HEAD)
    assert made.offset == (3.0, 4.0)
    assert shares[BLOCK][HEAD] == pytest.approx(made.values.mean() / effects.map().values.mean())


def test_a_vision_transformer_with_equal_weights_gives_another_answer() -> None:
    network = load_model("light-vit").network
    softmaxes = [
        part for name, part in network.named_modules() if name.endswith("attention.softmax")
    ]
    changed = with_weights(network, {each: ChangedWeights(equal=[0]) for each in softmaxes})
    seen = torch.rand(1, network.in_bands, 64, 64)
    assert len(softmaxes) == 3
    assert not torch.allclose(changed(seen), network(seen))
    torch.testing.assert_close(network(seen), load_model("light-vit").network(seen))


def with_sigma(network: Network, factor: float) -> Network:
    changed = copy.deepcopy(network)
    for name, parameter in changed.named_parameters():
        if name.endswith("rescale"):
            parameter.data *= factor
    return changed


def test_a_temperature_divides_sigma() -> None:
    torch.manual_seed(0)
    network = MSTPlusPlus(stages=1)
    effects = HeadEffects(reconstructor(network), photo())
    assert_allclose(
        effects.changed(AttentionChange(temperature=4)),
        cube(with_sigma(network, 1 / 4)),
        rtol=0,
        atol=1e-6,
    )
    assert_allclose(effects.unchanged(), cube(network), rtol=0, atol=1e-6)


def test_the_matrices_of_another_photo_stand_for_those_of_this_one() -> None:
    torch.manual_seed(0)
    network = with_sigma(MSTPlusPlus(stages=1), 8)
    own, other = photo(), np.flip(photo(), axis=2) // 2
    with record_attention(network) as of_own:
        cube(network)
    effects = HeadEffects(reconstructor(network), other)
    with record_attention(network) as of_other:
        effects.unchanged()
    same = effects.changed(AttentionChange(record=of_other))
    assert_allclose(same, effects.unchanged(), rtol=0, atol=1e-6)
    foreign = effects.changed(AttentionChange(record=of_own))
    assert np.abs(foreign - same).max() > 1e-4
    assert own.shape == other.shape


def test_a_silent_head_is_one_without_values() -> None:
    torch.manual_seed(0)
    network = MSTPlusPlus(stages=1)
    without = copy.deepcopy(network)
    projection = without.get_parameter(f"{BLOCK}.attention.proj.weight")
    depth = 31  # channels of a head
    projection.data[:, HEAD * depth : (HEAD + 1) * depth] = 0
    made = HeadEffects(reconstructor(network), photo()).changed(
        AttentionChange(silent={BLOCK: [HEAD]})
    )
    assert_allclose(made, cube(without), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (AttentionChange(temperature=0), "Expected a temperature above 0, got 0"),
        (AttentionChange(silent={"stages.7": [0]}), "Expected a block of"),
        (AttentionChange(equal={BLOCK: [2]}), "Expected head 0 to 1"),
    ],
)
def test_a_change_that_cannot_be_is_refused(change: AttentionChange, message: str) -> None:
    with pytest.raises(AttentionError, match=message):
        HeadEffects(reconstructor(MSTPlusPlus(stages=1)), photo()).changed(change)


def test_matrices_of_another_network_are_refused() -> None:
    effects = HeadEffects(reconstructor(MSTPlusPlus(stages=1)), photo())
    with record_attention(MSTPlusPlus(width=16, out_bands=16, stages=1).eval()) as record:
        pass
    with pytest.raises(AttentionError, match="got those of another network"):
        effects.changed(AttentionChange(record=record))


@pytest.mark.parametrize(
    ("block", "head", "message"),
    [
        ("stages.7", 0, "Expected a block of stages.0.encoder.0, .*got .stages.7."),
        (BLOCK, 2, "Expected head 0 to 1"),
    ],
)
def test_a_head_that_is_not_there_is_refused(block: str, head: int, message: str) -> None:
    with pytest.raises(AttentionError, match=message):
        HeadEffects(reconstructor(MSTPlusPlus(stages=1)), photo()).map(block, head)


def test_a_network_without_weights_to_change_is_refused() -> None:
    with pytest.raises(AttentionError, match="one without a softmax"):
        HeadEffects(Reconstructor(load_model("pixelwise-srgb"), "cpu"), photo()).shares()


def test_a_record_hears_the_network_itself_and_not_what_is_changed() -> None:
    torch.manual_seed(0)
    network = MSTPlusPlus(stages=1)
    with record_attention(network) as expected:
        cube(network)
    with record_attention(network) as record:
        HeadEffects(reconstructor(network), photo()).map("stages.0.encoder.0", 0)
    for block in expected:
        assert_array_equal(record[block].attention, expected[block].attention)
