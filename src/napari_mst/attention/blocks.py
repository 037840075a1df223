"""The attentions of a network, by the names of their blocks, as its passes say them."""

from typing import NamedTuple

from torch import nn

from napari_mst.attention.record import PixelBlock
from napari_mst.networks.attends import Attends
from napari_mst.networks.network import Pass, Program


class Attending(NamedTuple):
    """A pass, and one of the attentions in it."""

    by: Pass
    attends: Attends

    @property
    def source(self) -> str:
        """The name of the map that the attention sees."""
        return self.by.reads[0]

    @property
    def described(self) -> PixelBlock:
        """A block in which pixels attend to pixels, in numbers."""
        said = self.attends
        return PixelBlock(said.channels, said.heads, said.window, said.keys, said.shift)


def attentions(program: Program, *, between_pixels: bool) -> dict[str, Attending]:
    """The attentions of *program* between pixels, or between channels, by block.

    They are in the order in which they run; empty if there are none.
    """
    return {
        attends.block: Attending(each, attends)
        for each in program.passes
        for attends in each.attends
        if (attends.weights is not None) == between_pixels
    }


def attention_blocks(network: nn.Module) -> dict[str, Attending]:
    """The blocks of *network* in which channels attend to channels, by name."""
    return _of_network(network, between_pixels=False)


def pixel_blocks(network: nn.Module) -> dict[str, Attending]:
    """The blocks of *network* in which pixels attend to pixels, by name."""
    return _of_network(network, between_pixels=True)


def _of_network(network: nn.Module, *, between_pixels: bool) -> dict[str, Attending]:
    # Other modules say no passes, and so no attention.
    program = getattr(network, "program", None)
    return {} if program is None else attentions(program(), between_pixels=between_pixels)
