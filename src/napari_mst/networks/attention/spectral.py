"""Spectral-wise multi-head self-attention (S-MSA) and its block (SAB), as in MST++.

Letters: N batch, C feature channels, H rows, W columns, h heads of d = C/h channels.

Attention is between *channels*: a token is a channel at all pixels. The attention therefore needs
only the C x C Gram matrix G of the features, since for q_i = (Wq X)_i and k_j = (Wk X)_j

    k q^T = Wk G Wq^T        |q_i|^2 = (Wq G Wq^T)_ii        |k_j|^2 = (Wk G Wk^T)_jj .

The result, W concat(A v), is linear in X and folds into one C x C mixing matrix M = W blockdiag(A)
Wv. S-MSA thus accumulates G (over any pieces of the image), folds it into M, and applies M pixel by
pixel.

References: Cai et al., "MST++: Multi-stage Spectral-wise Transformer for Efficient Spectral
Reconstruction", CVPRW 2022, doi:10.1109/CVPRW56347.2022.00090.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from napari_mst.networks.attention.layer_norm import ChannelNorm
from napari_mst.networks.attention.query import (
    check_heads,
    check_one,
    check_query,
    listed,
    unmasked,
)
from napari_mst.networks.attention_spec import AttentionSpec, QueryWeights
from napari_mst.networks.forms import NORM_EPS
from napari_mst.networks.network import Pass

HALO = 3
"""Pixels around a tile that a published block needs: 2 for positions, 1 for the FFN."""

BLOCK_VALUES = 15
"""Working numbers of a block per pixel and channel.

They are three hidden layers of 4 C channels, the input, its attention and the output.
"""

_CPU_CHUNK = 1024  # pixels multiplied at once on a CPU
_GPU_CHUNK = 64  # and on a GPU, in float32: short sums round less


def gram(x: Tensor) -> Tensor:
    """Gram matrix of the channels, summed over pixels: (N, C, H, W) -> (N, C, C), float64.

    Products and sums are float64 on a CPU. On a GPU, where float64 can be 64 times slower, runs of
    64 pixels are multiplied in the precision of *x* and only their sum is float64 (float32 on MPS,
    which lacks float64). 16-bit features are multiplied in float32, and only sums of a thousand
    products are float64. Either way the Gram matrix of 100 megapixels is as accurate as that of a
    small image.
    """
    pixels = x.flatten(2).mT
    if torch.compiler.is_exporting():  # the graph would fix the number of chunks
        return pixels.double().mT @ pixels.double()
    products = torch.float32 if x.dtype.itemsize == 2 else torch.float64
    if x.device.type == "cpu":
        chunks = (chunk.to(products) for chunk in pixels.split(_CPU_CHUNK, dim=1))
        return functools.reduce(torch.add, (_own_products(chunk).double() for chunk in chunks))
    wide = torch.float32 if x.device.type == "mps" else torch.float64
    pixels = pixels.to(torch.promote_types(x.dtype, torch.float32))
    runs = F.pad(pixels, (0, 0, 0, -pixels.shape[1] % _GPU_CHUNK)).unflatten(1, (-1, _GPU_CHUNK))
    return (runs.mT @ runs).sum(1, dtype=wide)


class PositionBranch(nn.Sequential):
    """The position branch of MST++: two depthwise 3x3 convolutions of the values, with GELU."""

    halo: int | None = HALO
    """Pixels around a tile that a block with this branch needs; None for the whole map."""

    def __init__(self, channels: int) -> None:
        super().__init__(
            nn.Conv2d(channels, channels, 3, padding=1, groups=channels, bias=False),
            nn.GELU(),
            nn.Conv2d(channels, channels, 3, padding=1, groups=channels, bias=False),
        )


class PlaceEmbedding(nn.Sequential):
    """Positions as described in texts: an embedding of each pixel's row and column, -1 to 1.

    A tile does not know its place, so a run computes a block with this branch in one piece.
    """

    halo = None

    def __init__(self, channels: int) -> None:
        super().__init__(nn.Conv2d(2, channels, 1), nn.GELU(), nn.Conv2d(channels, channels, 1))

    def forward(self, values: Tensor) -> Tensor:
        """(N, C, H, W) -> (1, C, H, W); only the size of the input matters."""
        axes = (torch.linspace(-1, 1, side) for side in values.shape[2:])
        places = torch.stack(torch.meshgrid(*axes, indexing="ij"))
        embedded: Tensor = super().forward(places[None].to(values))  # type: ignore[no-untyped-call]
        return embedded


def _own_products(pixels: Tensor) -> Tensor:
    """Products of all pairs of channels over P pixels: (N, P, C) -> (N, C, C)."""
    # NumPy does not record gradients, which training needs.
    if torch.is_grad_enabled():
        return pixels.mT @ pixels
    # NumPy exploits the symmetry of the result, and takes half the time of torch.
    values = pixels.numpy()
    with np.errstate(invalid="ignore"):  # infinity beyond float16; a run checks its totals
        return torch.from_numpy(values.swapaxes(1, 2) @ values)


class SpectralAttention(nn.Module):
    """S-MSA: `forward` is `apply_mixing(x, mixing(attention(gram(x))))`; a run calls the parts.

    *channels* must be divisible by *heads*. The learnt sigma of each head is `rescale`, (h, 1, 1).
    `softmax` has no parameters: a forward hook on it sees the logits and the (N, h, d, d)
    attention. *has_cosines* divides scores by the norms of keys and queries, as published, and
    *make_position* makes the position branch.
    """

    def __init__(
        self,
        channels: int,
        heads: int,
        has_cosines: bool = True,
        make_position: Callable[[int], nn.Module] = PositionBranch,
    ) -> None:
        super().__init__()
        check_heads(channels, heads)
        self.heads = heads
        self.has_cosines = has_cosines
        self.to_q = nn.Linear(channels, channels, bias=False)
        self.to_k = nn.Linear(channels, channels, bias=False)
        self.to_v = nn.Linear(channels, channels, bias=False)
        self.rescale = nn.Parameter(torch.ones(heads, 1, 1))
        self.softmax = nn.Softmax(dim=-1)
        self.proj = nn.Linear(channels, channels)
        self.pos: Any = make_position(channels)

    def attention(self, gram: Tensor) -> Tensor:
        """Gram matrix (N, C, C) -> attention A (N, h, d, d) in its precision; rows sum to 1."""
        # Queries and keys are never computed: their products and norms follow from the Gram matrix.
        q = self.to_q.weight.to(gram)
        k = self.to_k.weight.to(gram)
        # The published code multiplies keys by queries, in this order: a row is a key channel.
        kq = k @ gram @ q.mT
        scores = kq / (self.norms(k, gram)[:, :, None] * self.norms(q, gram)[:, None, :])
        sides = (self.heads, -1)
        blocks = scores.unflatten(2, sides).unflatten(1, sides).diagonal(dim1=1, dim2=3)
        return self.softmax(blocks.movedim(-1, 1) * self.rescale.to(gram))

    def norms(self, weight: Tensor, gram: Tensor) -> Tensor:
        """Norms (N, C) of the channels of queries or keys, by which scores are divided."""
        squares = ((weight @ gram) * weight).sum(-1)
        # `normalize` clamps the norm at this epsilon, so the square is clamped at its square.
        norms = squares.clamp_min(NORM_EPS**2).sqrt()
        return norms if self.has_cosines else torch.ones_like(norms)

    def mixing(self, attention: Tensor, values: Tensor | None = None) -> Tensor:
        """Attention (N, h, d, d) -> the mixing matrix M (N, C, C) with W concat(A v) = M x.

        *values* (C, C) replaces Wv.
        """
        # Concatenated heads are one matrix product, into which the projection folds as well.
        weight = self.to_v.weight if values is None else values
        value = weight.to(attention).unflatten(0, (self.heads, -1))
        attended = (attention @ value).flatten(1, 2)
        return self.proj.weight.to(attention) @ attended

    def apply_mixing(self, x: Tensor, mixing: Tensor) -> Tensor:
        """M x + bias + pos(Wv x), which is local for given M: exact two pixels away from a cut."""
        # As published, the position embedding is computed from the values before attention.
        value = F.conv2d(x, self.to_v.weight[:, :, None, None])
        # Pixel by pixel, so that a GPU adds maps with adjacent channels.
        mixed = torch.baddbmm(self.proj.bias, x.flatten(2).mT, mixing.to(x).mT)
        return self.pos(value) + mixed.mT.unflatten(2, x.shape[2:])

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, C, H, W)."""
        return self.apply_mixing(x, self.mixing(self.attention(gram(x))))

    def weights(self, x: Tensor, query: Sequence[int]) -> QueryWeights:
        """The weights of the d channels of each head for its channel *query*, 0 to d - 1.

        They are row *query* of A, which the published code computes from a key channel: the weights
        of the values in that output channel. *x* is (1, C, H, W).

        Raises
        ------
        AttentionError
            If the heads lack this channel, or there are several maps.
        """
        check_one(x, 4)
        depth = x.shape[1] // self.heads
        check_query(query, (depth,))
        (channel,) = query
        return unmasked(self.attention(gram(x))[0, :, channel], listed(depth))


class FeedForward(nn.Module):
    """LayerNorm over channels, then 1x1 to 4C, GELU, depthwise 3x3, GELU, 1x1 back to C."""

    def __init__(self, channels: int, expansion: int = 4) -> None:
        super().__init__()
        hidden = expansion * channels
        self.norm = ChannelNorm(channels)
        self.expand = nn.Conv2d(channels, hidden, 1, bias=False)
        self.depthwise = nn.Conv2d(hidden, hidden, 3, padding=1, groups=hidden, bias=False)
        self.reduce = nn.Conv2d(hidden, channels, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, C, H, W)."""
        hidden = F.gelu(self.expand(self.norm(x)))
        return self.reduce(F.gelu(self.depthwise(hidden)))


class FullFeedForward(FeedForward):
    """Three full convolutions, as in the text of a paper: the middle one is not depthwise."""

    def __init__(self, channels: int, expansion: int = 4) -> None:
        super().__init__(channels, expansion)
        hidden = expansion * channels
        self.depthwise = nn.Conv2d(hidden, hidden, 3, padding=1, bias=False)


class SpectralAttentionBlock(nn.Module):
    """SAB: x + S-MSA(x), then x + FFN(LayerNorm(x)).

    *norm_before_attention* adds the LayerNorm that the text of the paper puts before S-MSA, but the
    published weights lack. Scores, positions and feed-forward network are as published; a subclass
    may use the variants in the text: False, `PlaceEmbedding` and `FullFeedForward`.
    """

    align = 1

    has_cosines = True
    make_position: type[nn.Module] = PositionBranch
    make_feed_forward: type[FeedForward] = FeedForward

    def __init__(self, channels: int, heads: int, norm_before_attention: bool = False) -> None:
        super().__init__()
        self.has_norm = norm_before_attention
        self.norm = ChannelNorm(channels) if norm_before_attention else nn.Identity()
        self.attention = SpectralAttention(channels, heads, self.has_cosines, self.make_position)
        self.feed_forward = self.make_feed_forward(channels)

    @property
    def halo(self) -> int | None:
        """Pixels around a tile on which the whole block depends; None for the whole map."""
        halo: int | None = self.attention.pos.halo
        return halo

    @property
    def channel_attention(self) -> SpectralAttention:
        """The attention between channels, the only one in this block."""
        return self.attention

    def channel_input(self, x: Tensor) -> Tensor:
        """The features whose channels attend to each other: (N, C, H, W) -> (N, C, H, W)."""
        return self.norm(x)

    def input_gram(self, x: Tensor) -> Tensor:
        """Gram matrix of the input, after its LayerNorm if there is one: (N, C, H, W) -> (N, C, C).

        Only this part of the block depends on all pixels, and it is additive over them.
        """
        return gram(self.channel_input(x))

    def mixing(self, gram: Tensor, _pixels: int = 0) -> Tensor:
        """Gram matrix of the whole image -> mixing matrix M, both (N, C, C)."""
        return self.attention.mixing(self.attention.attention(gram))

    def prepared(self, source: Pass) -> Pass:
        """*source*, which also adds up the Gram matrix of its map and folds it for this block."""
        return replace(source, statistic=self.input_gram, fold=self.mixing)

    def passes(self, name: str, source: str) -> list[Pass]:
        """The pass of this block from the `prepared` map *source* to the map *name*."""
        channels = self.attention.to_v.in_features
        block = Pass(
            name,
            (source,),
            self.apply_mixing,
            channels,
            halo=self.halo,
            uses=source,
            work=self.local_work,
            values=BLOCK_VALUES * channels,
            attention=(channel_attention_spec(name, self),),
            block=self,
        )
        return [block]

    @property
    def local_work(self) -> int:
        """Multiplications and additions of `apply_mixing` per pixel."""
        attention = self.attention
        of_all = sum(parameter.numel() for parameter in self.parameters())
        # The matrices of q and k are applied only to the Gram matrix, once per image.
        return of_all - attention.to_q.weight.numel() - attention.to_k.weight.numel()

    def apply_mixing(self, x: Tensor, mixing: Tensor) -> Tensor:
        """The local part: (N, C, H, W) -> (N, C, H, W), exact `halo` pixels away from a cut."""
        x = self.attended_and_mixed(x, mixing)
        return x + self.feed_forward(x)

    def attended_and_mixed(self, x: Tensor, mixing: Tensor) -> Tensor:
        """The first half, x + S-MSA(x), with its mixing matrix: (N, C, H, W) -> (N, C, H, W)."""
        return x + self.mixed(x, mixing)

    def mixed(self, x: Tensor, mixing: Tensor) -> Tensor:
        """S-MSA(x), with its mixing matrix: (N, C, H, W) -> (N, C, H, W)."""
        return self.attention.apply_mixing(self.channel_input(x), mixing)

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, C, H, W)."""
        return self.apply_mixing(x, self.mixing(self.input_gram(x)))


def channel_attention_spec(name: str, block: Any) -> AttentionSpec:
    """The `AttentionSpec` of the `channel_attention` of *block*, for its pass."""
    attention: SpectralAttention = block.channel_attention
    channels = attention.to_v.in_features
    return AttentionSpec(
        block=name,
        channels=channels,
        heads=attention.heads,
        softmax=attention.softmax,
        parts=block,
    )
