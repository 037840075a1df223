"""Each mechanism gives what torch, torchvision and HAT give: ../shared/data/attention."""

from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from napari_mst.networks.attention.class_token import MultiHeadAttention
from napari_mst.networks.attention.heads import HeadOptions, Heads
from napari_mst.networks.attention.layer_norm import ChannelNorm
from napari_mst.networks.attention.overlapping import OverlappingAttention
from napari_mst.networks.attention.patches import PatchAttention
from napari_mst.networks.attention.single_head import SingleHeadAttention, TokenAxis
from napari_mst.networks.attention.transformer_block import (
    PUBLISHED,
    PatchMerging,
    TransformerBlock,
)
from napari_mst.networks.attention.window_attention import (
    ShiftedWindowAttention,
    WindowAttention,
    hat_index,
)
from napari_mst.networks.layout import renamed

M = TypeVar("M", bound=nn.Module)

OTHERS = [
    (r"(?<![^.])self_attn\.in_proj_", "attention.to_qkv."),
    (r"(?<![^.])self_attn\.out_proj\.", "attention.proj."),
    (r"(?<![^.])in_proj_", "to_qkv."),
    (r"(?<![^.])(?:linear1|mlp\.0)\.", "perceptron.0."),
    (r"(?<![^.])(?:linear2|mlp\.3)\.", "perceptron.2."),
    (r"(?<![^.])relative_position_bias_table$", "position.table"),
]
"""Keys of torch's encoder layer, of torchvision's Swin blocks and of HAT's OCAB, and ours."""

OF_BLOCK = [(r"^(to_qkv|proj|position)\.", r"attention.\1.")]
"""HAT has the parts of its attention in the block itself."""


class Case:
    """One file of reference arrays."""

    def __init__(self, folder: Path, name: str) -> None:
        with np.load(folder / "attention" / f"{name}.npz") as stored:
            self.arrays: dict[str, NDArray[np.float64]] = dict(stored)
        self.weights = {
            key.removeprefix("w/"): torch.from_numpy(value).double()
            for key, value in self.arrays.items()
            if key.startswith("w/")
        }

    def number(self, name: str) -> int:
        return int(self.arrays[f"in/{name}"])

    def tensor(self, name: str) -> Tensor:
        return torch.from_numpy(self.arrays[name]).double()

    def as_map(self, name: str) -> Tensor:
        """(H, W, C) as it is stored -> (1, C, H, W)."""
        return self.tensor(name).permute(2, 0, 1)[None]

    def windows(self, channels: int) -> WindowAttention:
        heads, window, shift = map(self.number, ("heads", "window", "shift"))
        if shift:
            return ShiftedWindowAttention(channels, heads, window, shift)
        return WindowAttention(channels, heads, window)

    def loaded(self, module: M) -> M:
        module.double().eval().requires_grad_(False)
        of_block = OF_BLOCK if isinstance(module, TransformerBlock) else []
        # The geometry is ours: published files do not have it.
        ours = renamed(self.weights, [*OTHERS, *PUBLISHED, *of_block])
        module.load_state_dict(dict(module.named_buffers()) | ours)
        return module


def agree(got: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("reading", ["columns", "rows"])
def test_single_head_in_both_readings(shared_data: Path, reading: TokenAxis) -> None:
    case = Case(shared_data, "single_head_001")
    sizes = [case.weights[f"W_{letter}"].shape for letter in "QKV"]
    head = SingleHeadAttention(sizes[0][1], sizes[0][0], sizes[2][0], reading).double()
    names = {"query": "W_Q", "key": "W_K", "value": "W_V"}
    head.load_state_dict({f"{own}.weight": case.weights[name] for own, name in names.items()})
    steps = head.steps(case.tensor("in/X"))
    agree(steps.scores, case.tensor("out/S"))
    agree(steps.attention, case.tensor(f"out/A_{reading}"))
    agree(steps.output, case.tensor(f"out/O_{reading}"))


@pytest.mark.parametrize(("score", "result"), [("scaled", "out/y"), ("plain", "out/y_unscaled")])
def test_multi_head_with_and_without_the_root(shared_data: Path, score: str, result: str) -> None:
    case = Case(shared_data, "msa_003")
    tokens = case.tensor("in/x")[None]
    heads = len(case.arrays["out/attention"])
    options = HeadOptions(score, has_bias=False, has_projection=False)  # type: ignore[arg-type]
    attention = case.loaded(MultiHeadAttention(tokens.shape[-1], heads, options))
    agree(attention(tokens)[0], case.tensor(result))
    if score == "scaled":
        rows = [attention.weights(tokens, (query,)).weights for query in range(tokens.shape[1])]
        agree(torch.stack(rows, dim=1), case.tensor("out/attention"))


def test_attention_between_pixels_is_that_between_tokens(shared_data: Path) -> None:
    case = Case(shared_data, "msa_003")
    tokens = case.tensor("in/x")
    heads = len(case.arrays["out/attention"])
    options = HeadOptions(has_bias=False, has_projection=False)
    attention = case.loaded(PatchAttention(tokens.shape[-1], heads, options=options))
    image = tokens.T.unflatten(1, (2, -1))[None]
    agree(attention(image)[0].flatten(1).T, case.tensor("out/y"))


def test_layer_norm(shared_data: Path) -> None:
    case = Case(shared_data, "layer_norm_003")
    tokens = case.tensor("in/x")
    norm = case.loaded(ChannelNorm(tokens.shape[-1]))
    agree(norm(tokens.T[None, :, :, None])[0, :, :, 0].T, case.tensor("out/y"))


def test_transformer_block(shared_data: Path) -> None:
    case = Case(shared_data, "transformer_block_003")
    tokens = case.tensor("in/x")[None]
    attention = MultiHeadAttention(tokens.shape[-1], case.number("heads"))
    block = case.loaded(TransformerBlock(attention, len(case.weights["linear1.bias"])))
    agree(block(tokens)[0], case.tensor("out/y"))


@pytest.mark.parametrize("name", ["8x12_4_0", "8x12_4_2", "10x13_4_2"])
def test_windows_and_shifted_windows(shared_data: Path, name: str) -> None:
    case = Case(shared_data, f"swin_window_{name}")
    image = case.as_map("in/x")
    attention = case.loaded(case.windows(image.shape[1]))
    agree(attention(image), case.as_map("out/y"))


def test_swin_block(shared_data: Path) -> None:
    case = Case(shared_data, "swin_block")
    image = case.as_map("in/x")
    hidden = len(case.weights["mlp.0.bias"])
    block = case.loaded(TransformerBlock(case.windows(image.shape[1]), hidden))
    agree(block(image), case.as_map("out/y"))


def test_patch_merging(shared_data: Path) -> None:
    case = Case(shared_data, "patch_merging")
    image = case.as_map("in/x")
    agree(case.loaded(PatchMerging(image.shape[1]))(image), case.as_map("out/y"))


def test_overlapping_cross_attention(shared_data: Path) -> None:
    case = Case(shared_data, "hat_ocab_8x12_4")
    image, window = case.as_map("in/x"), case.number("window")
    ratio = float(case.arrays["in/ratio"])
    attention = OverlappingAttention(image.shape[1], case.number("heads"), window, ratio)
    block = case.loaded(TransformerBlock(attention, len(case.weights["mlp.fc1.bias"])))
    agree(block(image), case.as_map("out/y"))
    index = hat_index(window, attention.key_window)
    rows = len(case.weights["relative_position_bias_table"])
    np.testing.assert_array_equal(index, case.arrays["in/relative_index"] % rows)
    normal = block.norm_attention(image.movedim(1, -1)).movedim(-1, 1)
    queries = [attention.weights(normal, divmod(index, window)) for index in range(window**2)]
    weights = torch.stack([one.weights for one in queries], dim=1)[:, :16]
    agree(weights, case.tensor("out/attention_window_0_first_16_queries"))


def test_every_mechanism_with_heads_is_compared_here() -> None:
    compared = {
        MultiHeadAttention,
        OverlappingAttention,
        PatchAttention,
        ShiftedWindowAttention,
        WindowAttention,
    }
    found, waiting = set[type](), [Heads]
    while waiting:
        kinds = waiting.pop().__subclasses__()
        found.update(kinds)
        waiting += kinds
    assert {kind for kind in found if kind.__module__.startswith("napari_mst")} == compared
