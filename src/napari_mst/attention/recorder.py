"""The attention of MST++ while it runs: a recorder of all its matrices, and one head of a block seen at every pixel.

The recorder is a forward hook on the parameterless softmax of each block, which every engine mode calls once a block.
Letters: N batch, C channels of a block, h heads of d channels, i key channel, j query channel.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from napari_mst.attention.record import AttentionRecord, BlockAttention, Selection
from napari_mst.errors import AttentionError
from napari_mst.networks.attention.spectral import (
    HALO,
    SpectralAttention,
    SpectralAttentionBlock,
    channel_norms,
)
from napari_mst.networks.network import Pass, Program

if TYPE_CHECKING:
    from napari_mst.models import Model


Probe = Callable[[SpectralAttentionBlock, Tensor], Callable[[Tensor], Tensor]]
"""A block and the Gram matrix of its input -> a function of any piece (1, C, h, w) of that input: (planes, h, w)."""


def attention_blocks(network: nn.Module) -> dict[str, SpectralAttentionBlock]:
    """The spectral attention blocks of *network* by name, in the order in which they run; empty if it has none."""
    return {
        name: part
        for name, part in network.named_modules()
        if isinstance(part, SpectralAttentionBlock)
    }


@contextmanager
def record_attention(model: "Model | nn.Module") -> Iterator[AttentionRecord]:
    """A record of the attention of every run of *model* in this block of code and this thread; the last run counts.

    It hears the network itself and all runs of `Reconstructor`, on every device. Runs in other threads, and recorders
    in other threads, are left alone. A network without spectral attention leaves the record empty.

    Raises
    ------
    AttentionError
        In the run, if it is of several photos at once.

    Examples
    --------
    >>> with record_attention(model) as record:
    ...     cube = Reconstructor(model).reconstruct(photo)
    >>> record["stages.0.bottleneck"].attention.shape
    (4, 31, 31)
    """
    network: nn.Module = model if isinstance(model, nn.Module) else model.network
    record, thread = AttentionRecord(), threading.get_ident()
    blocks = attention_blocks(network)

    def hear(name: str, _: nn.Module, logits: tuple[Tensor], attention: Tensor) -> None:
        if threading.get_ident() == thread:
            if name == next(iter(blocks)):
                record.blocks.clear()  # a new run
            record.blocks[name] = BlockAttention(_matrices(logits[0]), _matrices(attention))

    with ExitStack() as hooks:
        for name, block in blocks.items():
            handle = block.attention.softmax.register_forward_hook(partial(hear, name))
            hooks.callback(handle.remove)
        yield record


def _matrices(tensor: Tensor) -> NDArray[np.float32]:
    """(1, h, d, d) -> (h, d, d), on the CPU."""
    if len(tensor) != 1:
        raise AttentionError(
            f"Expected one photo while attention is recorded, got a batch of {len(tensor)}."
        )
    return tensor[0].detach().cpu().numpy().astype(np.float32)


class HeadProbe:
    """A head of *block*, with its key and query channels of *selection*, on any piece of the block's input.

    *gram* is the Gram matrix (1, C, C) of the whole input. Methods take (1, C, h, w) and return (h, w) or (C, h, w);
    what they make of a cut is right `HALO` pixels away from it. Where the selection has all channels, they are summed.
    """

    def __init__(self, selection: Selection, block: SpectralAttentionBlock, gram: Tensor) -> None:
        module = block.attention
        matrix = module.attention(gram)
        depth = matrix.shape[-1]
        selection.check(module.heads, depth)
        span = slice(selection.head * depth, (selection.head + 1) * depth)
        key_weight, query_weight, value_weight = (
            layer.weight.to(gram) for layer in (module.to_k, module.to_q, module.to_v)
        )
        sigma = module.rescale[selection.head].to(gram)[0]
        keys = sigma * key_weight[span] / channel_norms(key_weight, gram)[0, span, None]
        queries = query_weight[span] / channel_norms(query_weight, gram)[0, span, None]
        self._block, self._mixing = block, module.mixing(matrix)
        self._steps = torch.cat([keys, queries, value_weight[span]])
        self._key = _chosen(keys, selection.key).sum(0)
        self._query = _chosen(queries, selection.query).sum(0)
        self._value = _chosen(matrix[0, selection.head] @ value_weight[span], selection.key)
        self._projection = _chosen(module.proj.weight.to(gram)[:, span].mT, selection.key).mT

    def key(self, x: Tensor) -> Tensor:
        """sigma k_i(p) / |k_i|, (h, w)."""
        return self._project(self._key[None], x)[0]

    def query(self, x: Tensor) -> Tensor:
        """q_j(p) / |q_j|, (h, w)."""
        return self._project(self._query[None], x)[0]

    def attended(self, x: Tensor) -> Tensor:
        """(A v)_i(p) of the chosen key channels, (1 or d, h, w)."""
        return self._project(self._value, x)

    def contribution(self, x: Tensor) -> Tensor:
        """What the chosen channels of (A v)(p) add to the output of the block through its projection, (C, h, w)."""
        return self._project(self._projection @ self._value, x)

    def attention_branch(self, x: Tensor) -> Tensor:
        """What S-MSA adds to the input of the block, positional branch included, (C, h, w)."""
        return self._block.attention.apply_mixing(self._block.norm(x), self._mixing)[0]

    def feed_forward_branch(self, x: Tensor) -> Tensor:
        """What the feed-forward network adds to the block, (C, h, w)."""
        return self._block.feed_forward(x + self.attention_branch(x))[0]

    def steps(self, x: Tensor) -> Tensor:
        """|x(p)|, then of all d channels sigma k(p) / |k|, q(p) / |q| and v(p): (1 + 3 d, h, w)."""
        return torch.cat([x[0].norm(dim=0)[None], self._project(self._steps, x)])

    def output(self, x: Tensor) -> Tensor:
        """The output of the block, (C, h, w)."""
        return self._block.apply_mixing(x, self._mixing)[0]

    def _project(self, weights: Tensor, x: Tensor) -> Tensor:
        return torch.einsum("oc,chw->ohw", weights.to(x.dtype), self._block.norm(x)[0])


def _chosen(rows: Tensor, index: int | None) -> Tensor:
    return rows if index is None else rows[index : index + 1]


def probe(compute: Callable[[HeadProbe, Tensor], Tensor], selection: Selection) -> Probe:
    """*compute* of an overlay as a probe: it measures any piece of the input of a block."""
    return lambda block, gram: partial(compute, HeadProbe(selection, block, gram))


def tapped(program: Program, block: str, probe: Probe, planes: int = 1, stride: int = 1) -> Program:
    """The program that maps the input of *block* with *probe*: the passes up to there and one more.

    Its result is (planes, h, w) at the resolution of the block, of the whole padded photo; of rows and columns every
    *stride*-th is kept. What the probe makes of a piece has to be right `HALO` pixels away from a cut.
    """
    own = program.writer(block)
    (source,) = own.reads
    attended: SpectralAttentionBlock = own.local.__self__  # type: ignore[attr-defined]
    known = replace(program.writer(source), fold=lambda gram, _pixels: probe(attended, gram))

    def measured(x: Tensor, measure: Callable[[Tensor], Tensor]) -> Tensor:
        values = measure(x)
        return values.reshape(1, planes, *x.shape[-2:])[..., ::stride, ::stride]

    shown = Pass(
        "map",
        (source,),
        measured,
        planes,
        halo=HALO,
        scale=Fraction(1, stride),
        uses=source,
        is_kept=False,
        work=float(own.channels),
    )
    return program.replaced(known).until(source, shown)


def folded(program: Program, record: AttentionRecord) -> dict[str, Tensor]:
    """The mixing matrices of all blocks, from the attention of a *record*: what `engine.run` folds Gram matrices to."""
    mixing = {}
    for each in program.passes:
        if each.writes in record:
            attention: SpectralAttention = each.local.__self__.attention  # type: ignore[attr-defined]
            recorded = torch.from_numpy(record[each.writes].attention)[None]
            mixing[each.uses] = attention.mixing(recorded.to(attention.rescale))
    return mixing
