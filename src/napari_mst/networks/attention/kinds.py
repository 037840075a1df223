"""`ATTENTIONS`: the kinds of attention for the U-shape of MST++.

To add a kind, write a block in this folder and a row of `ATTENTIONS`. The name of the row is the
value of `MSTPlusPlus(attention=...)` and of `napari-mst train --attention`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor, nn

from napari_mst.base.errors import CheckpointError
from napari_mst.base.extensions import load_extensions
from napari_mst.networks.attention.blocks import (
    LIKE_SPECTRAL,
    AttentionBlock,
    GlobalBlock,
    HybridBlock,
    NoAttention,
    PlainBlock,
    WindowBlock,
)
from napari_mst.networks.attention.heads import DEFAULTS, HeadOptions
from napari_mst.networks.attention.overlapping import OverlappingAttention
from napari_mst.networks.attention.patches import PatchAttention
from napari_mst.networks.attention.spectral import SpectralAttentionBlock
from napari_mst.networks.attention.transformer_block import PatchMerging
from napari_mst.networks.attention.window_attention import (
    ShiftedWindowAttention,
    WindowAttention,
    WindowGeometry,
)

# Keys in blocks that also have windows
_HALF_OF_HYBRID, _PERCEPTRON = "spectral.to_q.weight", "feed_forward.0.weight"

Block = Any
"""A module with the methods `prepared` and `passes`, like `SpectralAttentionBlock`."""

MOST_GLOBAL_PIXELS = 1 << 16
"""Most pixels of a photo, 256 x 256, that may all attend to each other.

Twice as many take four times as long.
"""

LARGEST_WINDOW = 64
"""Largest side of a window in pixels: 4,096 pixels attend to each other."""


class BlockPlace(NamedTuple):
    """The place of a block in the U-shape, and its options.

    Attributes
    ----------
    channels, heads
        Channels of the block, and its heads, which divide the channels.
    window
        Side of a window in pixels, for attention in windows.
    has_norm
        True for a LayerNorm before the attention.
    number
        Index of the block in its stage, 0 to 4.
    """

    channels: int
    heads: int
    window: int
    has_norm: bool
    number: int


def halving(channels: int) -> nn.Module:
    """A convolution that halves a map and doubles its *channels*, as published."""
    return nn.Conv2d(channels, 2 * channels, 4, 2, 1, bias=False)


@dataclass(frozen=True)
class AttentionKind:
    """One row of `ATTENTIONS`.

    Attributes
    ----------
    title
        The attention in a few words, for people.
    make
        Creates the block of a place.
    recognises
        True if the weights of a block, by their names in it, are of this kind.
    has_norm
        True for a LayerNorm before the attention by default, as published.
    has_windows
        True if the photo is padded until windows divide the maps at every level.
    most_pixels
        Most pixels of a photo; 0 for any number.
    make_down
        Creates the module that halves a map and doubles its channels.
    """

    title: str
    make: Callable[[BlockPlace], Block]
    recognises: Callable[[Mapping[str, Tensor]], bool]
    has_norm: bool = True
    has_windows: bool = False
    most_pixels: int = 0
    make_down: Callable[[int], nn.Module] = halving


def geometry_of(block: Mapping[str, Tensor]) -> WindowGeometry | None:
    """The window geometry in the weights of a block; None without windows.

    Raises
    ------
    CheckpointError
        If the geometry is impossible.
    """
    stored = block.get("attention.geometry")
    if stored is None:
        return None
    sides = stored.double().flatten().tolist()
    is_sane = len(sides) == len(WindowGeometry._fields) and all(
        side.is_integer() and 0 <= side <= 2 * LARGEST_WINDOW for side in sides
    )
    if not is_sane or not 1 <= sides[0] <= LARGEST_WINDOW:
        raise CheckpointError(
            f"Expected windows of 1 to {LARGEST_WINDOW} pixels in the weights, got {sides[:3]}. "
            "Ask for another copy of the file."
        )
    return WindowGeometry(*map(int, sides))


def check_geometry(network: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Refuse weights of other windows or shifts, which would fit by their shapes.

    Raises
    ------
    CheckpointError
        If a block of *state* has windows of another size than the block of *network*.
    """
    for name, module in network.named_modules():
        if isinstance(module, WindowAttention):
            stored = geometry_of({"attention.geometry": state[f"{name}.geometry"]})
            if stored != module.sides:
                raise CheckpointError(
                    f"Expected windows of {tuple(module.sides)} (side, keys, shift) in {name}, "
                    f"got {stored and tuple(stored)}. Ask for another copy of the file."
                )


def _windows(block: Mapping[str, Tensor]) -> tuple[bool, bool] | None:
    """Tell whether the windows of a block are shifted, and overlap; None without windows."""
    geometry = geometry_of(block)
    if geometry is None or {_HALF_OF_HYBRID, _PERCEPTRON} & block.keys():
        return None
    return geometry.shift > 0, geometry.keys > geometry.window


# Which of the five blocks of a stage have shifted windows, as in the comparison of attention kinds.
_TURNS = (False, True, False, True, True)


def _shifted_windows(
    place: BlockPlace, options: HeadOptions = LIKE_SPECTRAL
) -> ShiftedWindowAttention:
    shift = place.window // 2 if _TURNS[place.number] else 0
    return ShiftedWindowAttention(*place[:3], shift, options)


ATTENTIONS: dict[str, AttentionKind] = {
    "spectral": AttentionKind(
        "spectral attention, between channels",
        lambda place: SpectralAttentionBlock(place.channels, place.heads, place.has_norm),
        lambda block: "attention.to_q.weight" in block,
        has_norm=False,
    ),
    "window": AttentionKind(
        "attention in windows",
        lambda place: WindowBlock(WindowAttention(*place[:3], LIKE_SPECTRAL), place.has_norm),
        lambda block: _windows(block) == (False, False),
        has_windows=True,
    ),
    "shifted": AttentionKind(
        "attention in shifted windows",
        lambda place: WindowBlock(_shifted_windows(place), place.has_norm),
        lambda block: _windows(block) == (True, False),
        has_windows=True,
    ),
    "overlapping": AttentionKind(
        "attention to overlapping windows",
        lambda place: WindowBlock(
            OverlappingAttention(*place[:3], options=LIKE_SPECTRAL), place.has_norm
        ),
        lambda block: _windows(block) == (False, True),
        has_windows=True,
    ),
    "hybrid": AttentionKind(
        "spectral attention and shifted windows",
        lambda place: HybridBlock(_shifted_windows(place), place.has_norm),
        lambda block: _HALF_OF_HYBRID in block,
        has_windows=True,
    ),
    "global": AttentionKind(
        "attention between all pixels",
        lambda place: GlobalBlock(
            PatchAttention(*place[:2], options=LIKE_SPECTRAL), place.has_norm
        ),
        lambda block: "attention.to_qkv.weight" in block and "attention.geometry" not in block,
        most_pixels=MOST_GLOBAL_PIXELS,
    ),
    "mixed": AttentionKind(
        "another attention in each block, and patch merging",
        lambda place: _MIXED[place.number](place),
        lambda block: _PERCEPTRON in block,
        has_windows=True,
        most_pixels=16 * MOST_GLOBAL_PIXELS,  # in the block at a quarter of the sides
        make_down=PatchMerging,
    ),
    "none": AttentionKind(
        "no attention, convolutions only",
        lambda place: AttentionBlock(NoAttention(place.channels), place.has_norm),
        lambda block: "attention.to_v.weight" in block and "attention.to_q.weight" not in block,
    ),
}
"""Attention kinds by name. A block is built by the first kind that recognises its weights."""

_MIXED: tuple[Callable[[BlockPlace], Block], ...] = (
    ATTENTIONS["window"].make,
    lambda place: PlainBlock(_shifted_windows(place, DEFAULTS), place.has_norm),
    ATTENTIONS["global"].make,
    ATTENTIONS["overlapping"].make,
    ATTENTIONS["hybrid"].make,
)


load_extensions("attention")
