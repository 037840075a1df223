"""Rules of attention mechanisms: weights are those of the forward pass; bad input is refused."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from napari_mst.base.errors import AttentionError, ModelError, NapariMstError, OutOfMemory
from napari_mst.networks.attention import patches, query
from napari_mst.networks.attention.class_token import MultiHeadAttention
from napari_mst.networks.attention.heads import HeadOptions, Heads
from napari_mst.networks.attention.overlapping import OverlappingAttention
from napari_mst.networks.attention.patches import PatchAttention
from napari_mst.networks.attention.single_head import SingleHeadAttention, TokenAxis
from napari_mst.networks.attention.spectral import SpectralAttention, gram
from napari_mst.networks.attention.transformer_block import ConvolutionMerging, stacked_neighbours
from napari_mst.networks.attention.window_attention import ShiftedWindowAttention, WindowAttention
from napari_mst.networks.attention_spec import QueryWeights

COSINE = HeadOptions("cosine", has_bias=False)
MAPS: dict[str, Callable[[], Heads]] = {
    "window": lambda: WindowAttention(6, 2, 4),
    "window, cosine": lambda: WindowAttention(6, 3, 5, COSINE),
    "shifted": lambda: ShiftedWindowAttention(6, 2, 4),
    "shifted by one": lambda: ShiftedWindowAttention(6, 2, 4, 1, COSINE),
    "overlapping": lambda: OverlappingAttention(6, 2, 4),
    "overlapping, cosine": lambda: OverlappingAttention(6, 2, 8, 0.25, COSINE),
    "pixels": lambda: PatchAttention(6, 2, options=COSINE),
    "patches": lambda: PatchAttention(6, 2, 3),
}
SIZES = [(8, 12), (9, 14), (3, 2)]


def made(kind: str) -> Heads:
    torch.manual_seed(0)
    attention = MAPS[kind]().double().requires_grad_(False)
    for parameter in attention.parameters():  # position tables begin as zeros
        parameter.add_(torch.randn_like(parameter), alpha=0.3)
    return attention


def image_of(height: int, width: int) -> Tensor:
    return torch.randn(1, 6, height, width, generator=torch.Generator().manual_seed(1)).double()


def queries_of(height: int, width: int) -> list[tuple[int, int]]:
    middle = (height // 2, width // 2)
    return [(0, 0), middle, (height - 1, 0), (0, width - 1), (height - 1, width - 1)]


def values_at(attention: Heads, x: Tensor, places: Tensor) -> Tensor:
    """The values of the pixels at *places*, (h, keys, d).

    Zeros lie beyond the map, as each mechanism puts them there.
    """
    room = x.new_zeros(x.shape[1], x.shape[2] + 24, x.shape[3] + 24)
    room[:, 8 : 8 + x.shape[2], 8 : 8 + x.shape[3]] = x[0]
    pixels = room[:, places[:, 0] + 8, places[:, 1] + 8].T
    values = attention.to_qkv(pixels)[:, 2 * attention.channels :]
    if isinstance(attention, OverlappingAttention):  # filled up before, its rim after
        reach = [-(-side // attention.window) * attention.window for side in x.shape[2:]]
        is_inside = (places >= 0).all(1) & (places < torch.tensor(reach)).all(1)
        values = values * is_inside[:, None]
    return attention.in_heads(values)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("kind", [kind for kind in MAPS if kind != "patches"])
def test_weights_and_values_at_their_places_give_the_forward_pass(
    kind: str, size: tuple[int, int]
) -> None:
    attention, x = made(kind), image_of(*size)
    result = attention(x)
    for row, column in queries_of(*size):
        own = attention.weights(x, (row, column))
        torch.testing.assert_close(own.weights.sum(-1), torch.ones(attention.heads).double())
        attended = own.weights[:, None] @ values_at(attention, x, own.places)
        expected = result[0, :, row, column]
        torch.testing.assert_close(attention.joined(attended)[0], expected)


def test_a_patch_is_a_token() -> None:
    attention, x = made("patches"), image_of(6, 9)
    assert isinstance(attention, PatchAttention)
    tokens = attention.tokens(x)
    alike = MultiHeadAttention(54, 2).double().requires_grad_(False)
    alike.load_state_dict(attention.state_dict())
    assert tokens.shape == (1, 6, 54)
    torch.testing.assert_close(tokens[0, 1].view(6, 3, 3), x[0, :, :3, 3:6])
    torch.testing.assert_close(attention.tokens(attention(x)), alike(tokens))
    own, of_tokens = attention.weights(x, (4, 8)), alike.weights(tokens, (5,))
    torch.testing.assert_close(own.weights, of_tokens.weights)
    assert own.places[-1].tolist() == [3, 6]


def test_queries_in_parts_and_keys_in_any_order_change_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    attention, x = made("pixels"), image_of(9, 14)
    assert isinstance(attention, PatchAttention)
    expected = attention(x)
    monkeypatch.setattr(patches, "MOST_SCORES", 1000)
    known = attention.keys_and_values(x)
    shuffled = known[:, torch.randperm(known.shape[1])]
    torch.testing.assert_close(attention.attend(x[..., 3:5, :], shuffled), expected[..., 3:5, :])


@pytest.mark.parametrize("size", [(8, 12), (9, 14), (4, 12)], ids=str)
@pytest.mark.parametrize("kind", ["shifted", "shifted by one"])
def test_a_shifted_window_does_not_reach_over_the_border(kind: str, size: tuple[int, int]) -> None:
    attention, x = made(kind), image_of(*size)
    for query_place in queries_of(*size):
        own = attention.weights(x, query_place)
        is_heard = (own.weights > 0).all(0)
        far = (own.places - torch.tensor(query_place)).abs().amax(1) >= 4
        assert not (is_heard & far).any()
        at_query = (own.places == torch.tensor(query_place)).all(1)
        torch.testing.assert_close(is_heard, own.regions == own.regions[at_query])


def test_an_axis_of_one_window_is_not_shifted() -> None:
    attention, x = made("shifted"), image_of(4, 4)
    plain = made("window")
    plain.load_state_dict({**attention.state_dict(), "geometry": plain.geometry})
    torch.testing.assert_close(attention(x), plain(x))


def test_keys_of_overlapping_windows_surround_their_queries() -> None:
    own = made("overlapping").weights(image_of(8, 12), (5, 1))
    assert own.places.min(0).values.tolist() == [3, -1]
    assert own.places.max(0).values.tolist() == [8, 4]


def test_effective_keys_are_all_where_weights_are_equal_and_one_where_one_has_all() -> None:
    weights = torch.tensor([[0.25] * 4, [0, 1, 0, 0]])
    torch.testing.assert_close(
        query.unmasked(weights, query.listed(4)).effective_keys, torch.tensor([4.0, 1.0])
    )


def test_spectral_weights_are_the_rows_of_its_attention() -> None:
    torch.manual_seed(0)
    attention = SpectralAttention(6, 2).double().requires_grad_(False)
    x = image_of(5, 7)
    own = attention.weights(x, (1,))
    torch.testing.assert_close(own.weights, attention.attention(gram(x))[0, :, 1])
    assert own.places.flatten().tolist() == [0, 1, 2]


def test_scores_of_the_text_are_products_of_all_pixels_without_norms() -> None:
    torch.manual_seed(0)
    attention = SpectralAttention(6, 2, has_cosines=False).double().requires_grad_(False)
    pixels = 0.3 * image_of(5, 7).flatten(2)[0]
    keys, queries = (part.weight @ pixels for part in (attention.to_k, attention.to_q))
    expected = (keys[:3] @ queries[:3].mT).softmax(-1)
    torch.testing.assert_close(attention.attention(pixels[None] @ pixels.mT[None])[0, 0], expected)


def test_only_columns_of_scaled_dot_product_attention_sum_to_one() -> None:
    torch.manual_seed(0)
    x = torch.randn(5, 7)
    sums = {}
    readings: tuple[TokenAxis, ...] = ("columns", "rows")
    for reading in readings:
        head = SingleHeadAttention(5, 3, 4, reading)
        sums[reading] = head.weights(x, (2,)).weights.sum().item()
    assert sums["columns"] == pytest.approx(1)
    assert sums["rows"] != pytest.approx(1)


def test_the_merging_of_the_text_is_a_convolution_of_the_same_neighbours() -> None:
    torch.manual_seed(0)
    merging, x = ConvolutionMerging(6).double(), image_of(7, 10)
    assert merging(x).shape == (1, 12, 4, 5)
    stacked = stacked_neighbours(x)
    torch.testing.assert_close(stacked[0, 6:12, 1, 2], x[0, :, 3, 4])
    torch.testing.assert_close(stacked[0, 12:18, 1, 2], x[0, :, 2, 5])
    torch.testing.assert_close(stacked[0, 6:12, 3], torch.zeros(6, 5).double())


def test_gradients_reach_every_weight() -> None:
    for kind in MAPS:
        attention = made(kind).requires_grad_()
        attention(image_of(8, 12)).square().sum().backward()
        for name, parameter in attention.named_parameters():
            assert parameter.grad is not None, (kind, name)
            assert parameter.grad.abs().max() > 0, (kind, name)


def weights_of(
    attention: Heads | SpectralAttention, x: Tensor, *place: int
) -> Callable[[], QueryWeights]:
    return lambda: attention.weights(x, place)


IMAGE = image_of(8, 12)
REFUSED: dict[str, tuple[Callable[[], object], type[NapariMstError], str]] = {
    "heads": (lambda: WindowAttention(6, 4), ModelError, r"divides 6 channels, got 4.*1, 2, 3, 6"),
    "no heads": (lambda: SpectralAttention(6, 0), ModelError, r"divides 6 channels, got 0"),
    "window": (lambda: WindowAttention(6, 2, 0), ModelError, r"window of 1 pixel or more, got 0"),
    "shift": (lambda: ShiftedWindowAttention(6, 2, 4, 4), ModelError, r"shift of 0 to 3.*got 4"),
    "odd overlap": (lambda: OverlappingAttention(6, 2, 6), ModelError, r"even number.*got 3"),
    "query outside": (weights_of(made("window"), IMAGE, 8, 0), AttentionError, r"8 x 12, got \(8"),
    "query before": (weights_of(made("overlapping"), IMAGE, 0, -1), AttentionError, r"got \(0, -1"),
    "part of a pixel": (
        lambda: made("window").weights(IMAGE, (0.5, 0)),  # type: ignore[arg-type]
        AttentionError,
        r"\(0.5, 0",
    ),
    "half a head": (lambda: WindowAttention(6, 1.5), ModelError, r"got 1.5"),  # type: ignore[arg-type]
    "query of a row": (weights_of(made("shifted"), IMAGE, 3), AttentionError, r"8 x 12, got \(3\)"),
    "no such channel": (weights_of(SpectralAttention(6, 2), IMAGE, 3), AttentionError, r"within 3"),
    "batch": (weights_of(made("pixels"), IMAGE.expand(2, -1, -1, -1), 0, 0), AttentionError, "one"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused_in_one_sentence(case: str) -> None:
    ask, kind, message = REFUSED[case]
    with pytest.raises(kind, match=rf"(?s)Expected .*{message}") as caught:
        ask()
    assert len(str(caught.value)) < 300


def test_more_tokens_than_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("napari_mst.base.memory.free_host_memory", lambda: 10**9)
    attention = MultiHeadAttention(2, 1)
    with pytest.raises(OutOfMemory, match=r"Expected 4\.8 GB .* 20,000 tokens .*got 1\.0 GB"):
        attention(torch.zeros(1, 20_000, 2))
