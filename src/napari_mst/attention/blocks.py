"""The blocks of a network that attend, by their names, and the maps that they hear."""

from torch import nn

from napari_mst.attention.record import PixelBlock
from napari_mst.networks.attention.blocks import GlobalBlock, HybridBlock, WindowBlock
from napari_mst.networks.attention.spectral import SpectralAttentionBlock
from napari_mst.networks.network import Pass, Program

ChannelBlock = SpectralAttentionBlock | HybridBlock
"""A block in which channels attend to channels."""

AttendingBlock = WindowBlock | GlobalBlock
"""A block in which pixels attend to pixels; a `HybridBlock` is of both kinds."""


def attention_blocks(network: nn.Module) -> dict[str, ChannelBlock]:
    """The blocks of *network* with spectral attention by name, in the order in which they run.

    Empty if it has none.
    """
    return {name: part for name, part in network.named_modules() if isinstance(part, ChannelBlock)}


def pixel_blocks(network: nn.Module) -> dict[str, AttendingBlock]:
    """The blocks of *network* in which pixels attend to pixels, by name; empty if there are none.

    They are in the order of the modules: encoder, bottleneck, decoder of each stage.
    """
    return {
        name: part for name, part in network.named_modules() if isinstance(part, AttendingBlock)
    }


def described(block: AttendingBlock) -> PixelBlock:
    """A *block* in which pixels attend to pixels, in numbers."""
    attention = block.attention
    if isinstance(block, GlobalBlock):
        return PixelBlock(attention.channels, attention.heads)
    return PixelBlock(attention.channels, attention.heads, *block.attention.sides)


def attending_pass(program: Program, block: str) -> Pass:
    """The pass of *block* in which its attention is applied; it reads the map that enters it."""
    own = program.writer(block)
    # Spectral blocks are one pass; in others the feed-forward network is a pass of its own.
    return own if own.uses else program.writer(own.reads[0])


def source_map(program: Program, block: str) -> str:
    """The map that enters *block*, by its name."""
    (source,) = attending_pass(program, block).reads
    return source
