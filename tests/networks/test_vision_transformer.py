"""The vision transformer is that of timm, its attention is exact, and its weights load strictly."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from torch import Tensor

from napari_mst.base.errors import CheckpointError
from napari_mst.networks.attention.class_token import MultiHeadAttention, rollout
from napari_mst.networks.vision_transformer import (
    TransformerHyperparameters,
    VisionTransformer,
    build_vision_transformer,
)

SMALL = TransformerHyperparameters(
    in_bands=2, outputs=3, size=12, patch=4, features=8, depth=2, heads=2, hidden=12
)


def small() -> VisionTransformer:
    torch.manual_seed(0)
    return VisionTransformer(SMALL).eval().requires_grad_(False)


@pytest.fixture(scope="module")
def timm(shared_data: Path) -> dict[str, NDArray[np.floating]]:
    """Weights, a photo and all that the transformer of timm makes of it, in float64."""
    with np.load(shared_data / "attention" / "vit_004.npz") as stored:
        return dict(stored)


def test_every_layer_is_that_of_timm(timm: dict[str, NDArray[np.floating]]) -> None:
    weights = {key[2:]: torch.from_numpy(timm[key]) for key in timm if key.startswith("w/")}
    heads = torch.tensor(float(timm["in/heads"]))
    network = build_vision_transformer({**weights, "heads": heads}).double()
    encoding = network.encoded(torch.from_numpy(timm["in/image"]).double()[None])
    for index, tokens in enumerate(encoding.layers):
        assert_allclose(tokens[0], timm[f"out/z{index}"], rtol=0, atol=1e-9)
    for index, attention in enumerate(encoding.attentions):
        assert_allclose(attention[0], timm[f"out/attention_{index}"], rtol=0, atol=1e-9)
    assert_allclose(encoding.tokens[0], timm["out/tokens"], rtol=0, atol=1e-9)
    assert_allclose(encoding.outputs[0], timm["out/logits"], rtol=0, atol=1e-9)
    rolled = rollout(encoding.attentions)
    assert_allclose(rolled[0], timm["out/rollout"], rtol=0, atol=1e-9)


def test_rows_of_attention_and_rollout_sum_to_one() -> None:
    encoding = small().double().encoded(torch.rand(3, 2, 12, 12, dtype=torch.float64))
    for attention in (*encoding.attentions, rollout(encoding.attentions)):
        torch.testing.assert_close(attention.sum(-1), torch.ones_like(attention[..., 0]))
        assert (attention >= 0).all()


def test_a_hook_on_the_softmax_hears_the_attention() -> None:
    network = small()
    heard: list[Tensor] = []
    for part in network.modules():
        if isinstance(part, MultiHeadAttention):
            part.softmax.register_forward_hook(lambda _part, _given, made: heard.append(made))
    encoding = network.encoded(torch.rand(1, 2, 12, 12))
    assert len(heard) == SMALL.depth
    for own, told in zip(heard, encoding.attentions, strict=True):
        torch.testing.assert_close(own, told)


def test_all_patches_at_their_places_are_the_photo() -> None:
    network, photo = small(), torch.rand(2, 2, 12, 12)
    order = torch.stack([torch.randperm(9), torch.randperm(9)])
    rows = photo.unfold(2, 4, 4).unfold(3, 4, 4).flatten(2, 3).movedim(2, 1)
    patches = torch.stack([own[places] for own, places in zip(rows, order, strict=True)])
    told = network.encoded_patches(patches, order).outputs
    torch.testing.assert_close(told, network.outputs(photo))


def test_a_photo_of_another_size_is_averaged_first() -> None:
    network, photo = small(), torch.rand(1, 2, 12, 12)
    larger = photo.repeat_interleave(3, 2).repeat_interleave(2, 3)
    torch.testing.assert_close(network.outputs(larger), network.outputs(photo))


@pytest.mark.parametrize("sides", [(8, 20), (20, 8), (4, 40)], ids=str)
def test_the_photo_says_how_patches_lie_that_make_no_square(sides: tuple[int, int]) -> None:
    torch.manual_seed(0)
    state = VisionTransformer(replace(SMALL, size=8, width=20)).state_dict()
    network = build_vision_transformer(state).double()
    photo = torch.rand(1, 2, *sides, dtype=torch.float64)
    cut = photo.unfold(2, 4, 4).unfold(3, 4, 4).flatten(2, 3).movedim(2, 1)
    expected = network.encoded_patches(cut, torch.arange(10)[None])
    torch.testing.assert_close(network.outputs(photo), expected.outputs)
    larger = torch.rand(1, 2, 8, 20).double().repeat_interleave(3, 2).repeat_interleave(2, 3)
    assert network.encoded(larger).tokens.shape == (1, 11, 8)


def test_saved_weights_build_the_same_network() -> None:
    network, photo = small(), torch.rand(1, 2, 12, 12)
    again = build_vision_transformer(network.state_dict())
    assert again.hyperparameters == SMALL
    torch.testing.assert_close(again.outputs(photo), network.outputs(photo))


@pytest.mark.parametrize(
    "changed",
    [
        {"head.bias": torch.zeros(9)},
        {"heads": torch.tensor(3.0)},
        {"heads": torch.tensor(float("nan"))},
        {"pos_embed": torch.zeros(1, 1, 8)},
        {"more": torch.zeros(1)},
        {"patch_embed.proj.weight": torch.zeros(8, 2, 4)},
        {"blocks.0.perceptron.0.weight": None},
    ],
    ids=str,
)
def test_other_tensors_are_refused_in_a_sentence(changed: dict[str, Tensor | None]) -> None:
    state = {**small().state_dict(), **changed}
    given = {key: value for key, value in state.items() if value is not None}
    with pytest.raises(CheckpointError, match="vision transformer, got"):
        build_vision_transformer(given)
