"""Measures one head of a block at every pixel of a photo while the network runs.

Letters: C channels of a block, d channels of a head, h, w pixels of a piece of its input, i key
channel, j query channel, A attention, k keys, q queries, v values.
"""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from math import lcm

import torch
from torch import Tensor

from napari_mst.attention.record_views import Selection
from napari_mst.attention.recorder import attentions
from napari_mst.networks.attention.kinds import Block
from napari_mst.networks.network import Pass, Program


class HeadProbe:
    """Evaluates the head and channels of *selection* in *block* on any piece of the block's input.

    *gram* is the Gram matrix (1, C, C) of the whole input. Methods take (1, C, h, w) and return
    (h, w) or (C, h, w), valid `block.halo` pixels or more from a cut. If the selection has all
    channels, they are summed.
    """

    def __init__(self, selection: Selection, block: Block, gram: Tensor) -> None:
        module = block.channel_attention
        matrix = module.attention(gram)
        depth = matrix.shape[-1]
        selection.check(module.heads, depth)
        span = slice(selection.head * depth, (selection.head + 1) * depth)
        key_weight = module.to_k.weight.to(gram)
        query_weight = module.to_q.weight.to(gram)
        value_weight = module.to_v.weight.to(gram)[span]
        # Weights are divided by the norms of their channels, so products of pixels sum to logits.
        sigma = module.rescale[selection.head].to(gram)[0]
        keys = sigma * key_weight[span] / module.norms(key_weight, gram)[0, span, None]
        queries = query_weight[span] / module.norms(query_weight, gram)[0, span, None]
        projection = module.proj.weight.to(gram)[:, span]
        self._block = block
        self._mixing = module.mixing(matrix)
        self._steps = torch.cat([keys, queries, value_weight])
        self._key = _chosen(keys, selection.key).sum(0)
        self._query = _chosen(queries, selection.query).sum(0)
        self._value = _chosen(matrix[0, selection.head] @ value_weight, selection.key)
        self._projection = _chosen(projection.mT, selection.key).mT

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
        """The contribution (C, h, w) of the chosen channels of (A v)(p) to the block's output."""
        return self._project(self._projection @ self._value, x)

    def attention_branch(self, x: Tensor) -> Tensor:
        """The residual (C, h, w) that S-MSA, with its positional branch, adds to the input."""
        return self._block.mixed(x, self._mixing)[0]

    def feed_forward_branch(self, x: Tensor) -> Tensor:
        """The residual (C, h, w) that the feed-forward network adds after attention."""
        return self._block.feed_forward(self._block.attended_and_mixed(x, self._mixing))[0]

    def steps(self, x: Tensor) -> Tensor:
        """|x(p)|, then sigma k(p) / |k|, q(p) / |q| and v(p) of all d channels: (1 + 3 d, h, w)."""
        features = x[0].norm(dim=0)[None]
        return torch.cat([features, self._project(self._steps, x)])

    def output(self, x: Tensor) -> Tensor:
        """The output of the block, (C, h, w)."""
        return self._block.apply_mixing(x, self._mixing)[0]

    def _project(self, weights: Tensor, x: Tensor) -> Tensor:
        return torch.einsum("oc,chw->ohw", weights.to(x.dtype), self._block.channel_input(x)[0])


def _chosen(rows: Tensor, index: int | None) -> Tensor:
    return rows if index is None else rows[index : index + 1]


def tapped(
    program: Program,
    selection: Selection,
    compute: Callable[[HeadProbe, Tensor], Tensor],
    planes: int = 1,
    stride: int = 1,
) -> Program:
    """Return *program* up to the input of the selected block, followed by a pass that measures it.

    *compute* takes the selected head and any piece of that input (1, C, h, w) to (planes, h, w),
    valid the block's `halo` or more from a cut. The result covers the whole padded photo at the
    resolution of the block; every *stride*-th row and column is kept.
    """
    attending = attentions(program, between_pixels=False)[selection.block]
    source, parts = attending.source, attending.spec.parts
    *before, writer = program.until(source).passes
    # The Gram matrix of the input makes a probe here instead of a mixing matrix.
    probed = replace(writer, fold=lambda gram, _pixels: HeadProbe(selection, parts, gram))

    def measured(x: Tensor, head: HeadProbe) -> Tensor:
        values = compute(head, x).reshape(1, planes, *x.shape[-2:])
        return values[..., ::stride, ::stride]

    shown = Pass(
        "map",
        (source,),
        measured,
        planes,
        halo=parts.halo,
        scale=Fraction(1, stride),
        # The kept part of a tile begins at a window, and at a pixel that the stride keeps.
        align=lcm(parts.align, stride),
        uses=source,
        is_kept=False,
        work=float(attending.spec.channels),
    )
    return replace(program, passes=(*before, probed, shown), is_cropped=False)
