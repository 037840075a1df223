"""The attentions of a network, by the names of their blocks, as its passes say them."""

from collections.abc import Collection
from typing import NamedTuple

from torch import nn

from napari_mst.attention.record import PixelBlock
from napari_mst.errors import AttentionError, shown
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


def check_name(name: str, names: Collection[str], thing: str = "block") -> None:
    """Refuse the *name* of a *thing* that is not among *names*, with a list of those."""
    if name not in names:
        listed = shown(", ".join(names), 180)
        raise AttentionError(f"Expected a {thing} of {listed}, got {shown(name, 40)!r}.")


def attention_blocks(network: nn.Module) -> dict[str, Attending]:
    """The blocks of *network* in which channels attend to channels, by name."""
    return attentions(_program(network), between_pixels=False)


def pixel_blocks(network: nn.Module) -> dict[str, Attending]:
    """The blocks of *network* in which pixels attend to pixels, by name."""
    return attentions(_program(network), between_pixels=True)


def layer_names(network: nn.Module) -> list[str]:
    """The names of all maps that *network* writes on its way, in the order in which it does."""
    return [each.writes for each in _program(network).passes]


def _program(network: nn.Module) -> Program:
    # Other modules say no passes, and so no attention.
    program: Program = getattr(network, "program", lambda: Program(()))()
    return program
