"""MST++ against the authors' outputs, against its plain formula, and at every size."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from tests.conftest import source_of
from torch import Tensor
from torch.nn import functional as F

from napari_mst.base.errors import ModelError
from napari_mst.engine.run import execute
from napari_mst.models import load_model
from napari_mst.networks.attention.spectral import SpectralAttention, gram
from napari_mst.networks.layout import renamed
from napari_mst.networks.mst_plus_plus import (
    PUBLISHED,
    MSTPlusPlus,
    build_mst_plus_plus,
)
from napari_mst.networks.network import pad, reflected_index

SIZES = ["48x61", "30x20", "8x8", "5x9"]


@pytest.fixture(scope="module")
def published(authors: Any) -> MSTPlusPlus:
    network = load_model(authors.weights).network
    assert isinstance(network, MSTPlusPlus)
    return network


@pytest.mark.usefixtures("executor")
@pytest.mark.parametrize("size", SIZES)
def test_output_is_the_authors_whole_and_streamed(
    size: str, published: MSTPlusPlus, authors: Any
) -> None:
    photo, expected = authors.photos[size], authors.outputs[size]
    with torch.inference_mode():
        whole = published(torch.from_numpy(photo)[None])[0].numpy()
    streamed = execute(published.program(), source_of(photo), torch.device("cpu")).numbers
    for bands in (whole, streamed):
        assert np.abs(bands - expected).max() <= 1e-5 * np.abs(expected).max()


def test_every_published_key_has_its_place(authors: Any) -> None:
    published = torch.load(authors.weights, weights_only=True)["state_dict"]
    ours = renamed(published, PUBLISHED)
    own = {key: value.shape for key, value in MSTPlusPlus().state_dict().items()}
    assert {key: value.shape for key, value in ours.items()} == own


def test_network_has_the_published_size() -> None:
    network = MSTPlusPlus()
    assert sum(parameter.numel() for parameter in network.parameters()) == 1_619_625
    assert len(network.state_dict()) == 227


SIDES = [(1, 1), (1, 16), (2, 2), (3, 3), (4, 4), (8, 3), (4, 1)]
ODD_SIDES = [(5, 9), (13, 7), (8, 17), (23, 16)]


@pytest.mark.parametrize(
    ("height", "width"),
    SIDES + ODD_SIDES,
    ids=[*(f"057-{s}" for s in SIDES), *(f"058-{s}" for s in ODD_SIDES)],
)
def test_bad_input(height: int, width: int) -> None:
    torch.manual_seed(0)
    network = MSTPlusPlus(stages=1, width=4, out_bands=6)
    bands = network(torch.rand(2, 3, height, width))
    assert bands.shape == (2, 6, height, width)
    assert bands.isfinite().all()


@pytest.mark.parametrize(
    "parameters",
    [
        {"in_bands": 1, "out_bands": 1, "stages": 1, "width": 1},
        {"in_bands": 4, "out_bands": 10, "stages": 2},
        {"in_bands": 3, "out_bands": 31, "stages": 1, "width": 8},
        {"in_bands": 3, "out_bands": 7, "stages": 1, "norm_before_attention": True},
    ],
    ids=str,
)
def test_network_of_any_size_is_rebuilt_from_its_tensors(parameters: dict[str, Any]) -> None:
    torch.manual_seed(0)
    network = MSTPlusPlus(**parameters).eval()
    rebuilt = build_mst_plus_plus(network.state_dict())
    assert rebuilt.hyperparameters == network.hyperparameters
    photo = torch.rand(1, parameters["in_bands"], 10, 12)
    torch.testing.assert_close(rebuilt(photo), network(photo), rtol=0, atol=0)


@pytest.mark.parametrize("name", ["in_bands", "out_bands", "stages", "width"])
@pytest.mark.parametrize("value", [0, -1, 2.0, True, "3"])
def test_parameter_that_is_no_positive_integer_is_refused(name: str, value: Any) -> None:
    with pytest.raises(
        ModelError, match=f"Expected {name} to be a positive integer, got {value!r}"
    ):
        MSTPlusPlus(**{name: value})


def test_norm_before_attention_is_an_option() -> None:
    plain, normed = (
        dict(MSTPlusPlus(norm_before_attention=has).named_parameters()) for has in (False, True)
    )
    extra = set(normed) - set(plain)
    assert len(extra) == 2 * 15
    assert all(".norm." in name and "feed_forward" not in name for name in extra)


def direct_attention(module: SpectralAttention, x: Tensor) -> Tensor:
    """S-MSA as the paper writes it: q, k and v of all pixels, attention between their channels."""
    n, channels, height, width = x.shape
    tokens = x.flatten(2).mT
    q, k, v = (
        project(tokens).unflatten(2, (module.heads, -1)).permute(0, 2, 3, 1)
        for project in (module.to_q, module.to_k, module.to_v)
    )
    scores = F.normalize(k, dim=-1) @ F.normalize(q, dim=-1).mT
    attended = (scores * module.rescale).softmax(-1) @ v
    mixed = module.proj(attended.flatten(1, 2).mT).mT
    value = v.reshape(n, channels, height, width)
    return mixed.unflatten(2, (height, width)) + module.pos(value)


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_folded_attention_and_its_gradients_are_the_direct_ones(heads: int) -> None:
    torch.manual_seed(heads)
    module = SpectralAttention(8, heads).double()
    x = torch.randn(2, 8, 9, 11, dtype=torch.float64, requires_grad=True)
    inputs = (x, *module.parameters())
    folded, direct = module(x), direct_attention(module, x)
    torch.testing.assert_close(folded, direct, rtol=1e-11, atol=1e-12)
    weights = torch.randn_like(direct)
    for one, other in zip(
        torch.autograd.grad((folded * weights).sum(), inputs),
        torch.autograd.grad((direct * weights).sum(), inputs),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_gram_matrix_is_the_same_with_and_without_gradients(dtype: torch.dtype) -> None:
    x = torch.randn(2, 5, 70, 80).to(dtype)
    with torch.inference_mode():
        without = gram(x)
    assert without.dtype == torch.float64
    tolerance = 1e-6 if dtype == torch.bfloat16 else 1e-14
    assert (without - gram(x)).abs().max() <= tolerance * without.max()
    assert torch.equal(without, without.mT)


def test_attention_of_a_black_image_is_finite() -> None:
    assert SpectralAttention(4, 2)(torch.zeros(1, 4, 3, 3)).isfinite().all()


@pytest.mark.parametrize(("height", "width"), [(5, 9), (8, 8), (12, 15)])
def test_padding_is_torchs_reflection_where_that_exists(height: int, width: int) -> None:
    photo = torch.rand(1, 3, height, width)
    expected = F.pad(photo, (0, -width % 8, 0, -height % 8), mode="reflect")
    torch.testing.assert_close(pad(photo, 8), expected, rtol=0, atol=0)


@pytest.mark.parametrize("length", range(1, 20))
def test_padding_steps_to_neighbours(length: int) -> None:
    index = reflected_index(length, 8).tolist()
    assert index[:length] == list(range(length))
    assert len(index) % 8 == 0
    assert all(abs(a - b) == 1 for a, b in pairwise(index)) or length == 1
