"""The attention of a network while it runs: a recorder of all its matrices.

The recorder is a forward hook on the softmax that each attention says (`Attends`), which the
network itself and every mode of the engine call once a block. Letters: h heads of d channels.
"""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor, nn

from napari_mst.arrays import Singles
from napari_mst.attention.blocks import attention_blocks, layer_names, pixel_blocks
from napari_mst.attention.record import AttentionRecord, BlockAttention
from napari_mst.errors import AttentionError

if TYPE_CHECKING:
    from napari_mst.models import Model


@contextmanager
def record_attention(model: "Model | nn.Module") -> Iterator[AttentionRecord]:
    """A record of the attention of *model* in this block of code; the last run counts.

    It hears the network itself and all runs of `Reconstructor`, on every device. Runs in other
    threads, and recorders in other threads, are left alone. Of blocks between pixels it has the
    shapes only; a network without any attention leaves the record empty.

    Raises
    ------
    AttentionError
        In the run, if it is of several photos at once.

    Notes
    -----
    =======  ==========================================
    returns  shares 0-1 whose rows add up to 1; float32
    =======  ==========================================

    Examples
    --------
    >>> model = nm.load_model("mstpp-srgb")
    >>> with nm.record_attention(model) as record:
    ...     cube = nm.Reconstructor(model).reconstruct(np.full((16, 16, 3), 128, np.uint8))
    >>> [name for name in record if "bottleneck" in name]
    ['stages.0.bottleneck']
    """
    network: nn.Module = model if isinstance(model, nn.Module) else model.network
    blocks = attention_blocks(network)
    first = next(iter(blocks), "")
    between_pixels = {name: block.described for name, block in pixel_blocks(network).items()}
    record = AttentionRecord(pixel_blocks=between_pixels, layers=layer_names(network))
    thread = threading.get_ident()

    def hear(name: str, _: nn.Module, logits: tuple[Tensor], attention: Tensor) -> None:
        # A hook hears the network in every thread, and a record is of one of them.
        if threading.get_ident() != thread:
            return
        if name == first:
            record.blocks.clear()  # a new run
        record.blocks[name] = BlockAttention(_matrices(logits[0]), _matrices(attention))

    with ExitStack() as hooks:
        for name, block in blocks.items():
            softmax = block.attends.softmax
            if softmax is not None:
                handle = softmax.register_forward_hook(partial(hear, name))
                hooks.callback(handle.remove)
        yield record


def _matrices(tensor: Tensor) -> Singles:
    """(1, h, d, d) -> (h, d, d), on the CPU."""
    if len(tensor) != 1:
        raise AttentionError(
            f"Expected one photo while attention is recorded, got a batch of {len(tensor)}."
        )
    return tensor[0].detach().cpu().numpy().astype(np.float32)
