"""The attentions that the passes of a network declare, and a recorder of their matrices.

The recorder is a forward hook on the softmax of each attention (`AttentionSpec`), which the network
and every mode of the engine call once per block. Letters: h heads of d channels.
"""

import threading
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from torch import Tensor, nn

from napari_mst.attention.record import AttentionRecord, BlockAttention, PixelBlock
from napari_mst.attention.rollout import rollouts
from napari_mst.base.arrays import Singles
from napari_mst.base.errors import AttentionError, shown
from napari_mst.networks.attention_spec import AttentionSpec
from napari_mst.networks.network import Pass, Program

if TYPE_CHECKING:
    from napari_mst.models import Model


class Attending(NamedTuple):
    """An attention, and the pass that contains it."""

    by: Pass
    spec: AttentionSpec

    @property
    def source(self) -> str:
        """Name of the map that the attention reads."""
        return self.by.reads[0]

    @property
    def described(self) -> PixelBlock:
        """The sizes of a block in which pixels attend to pixels."""
        spec = self.spec
        return PixelBlock(spec.channels, spec.heads, spec.window, spec.keys, spec.shift)


def attentions(program: Program, *, between_pixels: bool) -> dict[str, Attending]:
    """Return the attentions of *program* between pixels, or between channels, by block.

    They are in the order in which they run.
    """
    return {
        spec.block: Attending(each, spec)
        for each in program.passes
        for spec in each.attention
        if (spec.weights is not None) == between_pixels
    }


def check_name(name: str, names: Collection[str], thing: str = "block") -> None:
    """Raise `AttentionError`, which lists *names*, if the *name* of a *thing* is not among them."""
    if name not in names:
        listed = shown(", ".join(names), 180)
        raise AttentionError(f"Expected a {thing} of {listed}, got {shown(name, 40)!r}.")


def attention_blocks(network: nn.Module) -> dict[str, Attending]:
    """Return the blocks of *network* in which channels attend to channels, by name."""
    return attentions(_program(network), between_pixels=False)


def pixel_blocks(network: nn.Module) -> dict[str, Attending]:
    """Return the blocks of *network* in which pixels attend to pixels, by name."""
    return attentions(_program(network), between_pixels=True)


def _program(network: nn.Module) -> Program:
    # Other modules declare no passes and therefore no attention.
    return getattr(network, "program", lambda: Program(()))()


@contextmanager
def record_attention(model: "Model | nn.Module") -> Iterator[AttentionRecord]:
    """Record the attention of *model* within a `with` block; the last run counts.

    The recorder watches the network itself and all runs of `Reconstructor`, on every device. It
    ignores runs in other threads. For blocks between pixels it records only the shapes; a network
    without attention leaves the record empty.

    Raises
    ------
    AttentionError
        During the run, if it processes several photos at once.

    Notes
    -----
    =======  ==========================================
    returns  shares 0-1 whose rows add up to 1; float32
    =======  ==========================================

    Examples
    --------
    >>> model = nm.load_model("mstpp-srgb")
    >>> with nm.attention.recording(model) as record:
    ...     cube = nm.Reconstructor(model).reconstruct(np.full((16, 16, 3), 128, np.uint8))
    >>> [name for name in record if "bottleneck" in name]
    ['stages.0.bottleneck']
    """
    network: nn.Module = model if isinstance(model, nn.Module) else model.network
    blocks = attention_blocks(network)
    first, last = next(iter(blocks), ""), next(reversed(blocks), "")
    between_pixels = {name: block.described for name, block in pixel_blocks(network).items()}
    record = AttentionRecord(
        pixel_blocks=between_pixels, layers=[each.writes for each in _program(network).passes]
    )
    thread = threading.get_ident()

    def on_forward(name: str, _: nn.Module, logits: tuple[Tensor], attention: Tensor) -> None:
        # Hooks are called in every thread, but a record belongs to one thread.
        if threading.get_ident() != thread:
            return
        if name == first:
            record.blocks.clear()  # a new run
            record.rollouts.clear()
        record.blocks[name] = BlockAttention(_matrices(logits[0]), _matrices(attention))
        if name == last and not between_pixels:
            record.rollouts.update(rollouts(network, record.blocks))

    with ExitStack() as hooks:
        for name, block in blocks.items():
            softmax = block.spec.softmax
            if softmax is not None:
                handle = softmax.register_forward_hook(partial(on_forward, name))
                hooks.callback(handle.remove)
        yield record


def _matrices(tensor: Tensor) -> Singles:
    """Move (1, h, d, d) to the CPU as (h, d, d)."""
    if len(tensor) != 1:
        raise AttentionError(
            f"Expected one photo while attention is recorded, got a batch of {len(tensor)}."
        )
    return tensor[0].detach().cpu().numpy().astype(np.float32)
