"""Attention between all pixels, or all patches, of a map: a vision transformer's (ViT's) tokens.

Letters: N batch, C channels, H rows, W columns, p side of a patch, T = HW/p^2 tokens.

A token is a patch, the p^2 C numbers of its p x p pixels with all channels; with p = 1 it is a
pixel. Every token attends to the whole map. Paper: Dosovitskiy et al., "An image is worth 16x16
words", ICLR 2021, arXiv:2010.11929.

Keys and values are two numbers for each number of the map. The T x T scores of a photo fit into no
memory. Without gradients they are computed for some queries at a time, at most `MOST_SCORES`
numbers, and on most devices torch computes even fewer at once. A hook on `softmax` therefore never
sees scores; `weights` computes the scores of one query.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from napari_mst.networks.attention.heads import DEFAULTS, HeadOptions, Heads
from napari_mst.networks.attention.query import check_pixel, unmasked
from napari_mst.networks.attention.window_attention import (
    check_window,
    filled_up,
    partitioned,
    united,
)
from napari_mst.networks.attention_spec import QueryWeights

MOST_SCORES = 1 << 22
"""Most attention scores held in memory at once; a single query needs one for each key."""


class PatchAttention(Heads):
    """Global self-attention: (N, C, H, W) -> (N, C, H, W), padded with zeros to whole patches.

    The map has *channels* channels; a token has *patch*^2 times as many.

    Raises
    ------
    ModelError
        If the heads do not divide the numbers of a token.
    """

    def __init__(
        self, channels: int, heads: int, patch: int = 1, options: HeadOptions = DEFAULTS
    ) -> None:
        check_window(patch)
        super().__init__(channels * patch**2, heads, options)
        self.patch = patch

    def tokens(self, x: Tensor) -> Tensor:
        """The patches of a map: (N, C, H, W) -> (N, T, C p^2), each in the order (C, p, p)."""
        patches = partitioned(filled_up(x, self.patch), self.patch)
        return patches.movedim(-1, 3).flatten(3).flatten(1, 2)

    def keys_and_values(self, x: Tensor) -> Tensor:
        """The keys and values of a map for all its pixels: (N, C, H, W) -> (N, T, 2 C p^2).

        Parts of a map may be computed separately and concatenated in any order.
        """
        return self._projected(self.tokens(x), slice(self.channels, None))

    def attend(self, x: Tensor, keys_and_values: Tensor) -> Tensor:
        """The attended values of *x*, part of a map, for the *keys_and_values* of the whole map."""
        height, width = x.shape[-2:]
        queries = self._projected(self.tokens(x), slice(self.channels))
        keys, values = map(self.in_heads, keys_and_values.chunk(2, dim=-1))
        queries, keys = self.scaled(self.in_heads(queries), keys)
        attended = [
            F.scaled_dot_product_attention(some, keys, values, scale=1.0)
            for some in self._chunks(queries, keys)
        ]
        tokens = self.joined(torch.cat(attended, dim=-2))
        across = -(-width // self.patch)
        patches = tokens.unflatten(1, (-1, across)).unflatten(3, (-1, self.patch, self.patch))
        return united(patches.movedim(3, -1))[..., :height, :width]

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, C, H, W)."""
        return self.attend(x, self.keys_and_values(x))

    def weights(self, x: Tensor, query: Sequence[int]) -> QueryWeights:
        """The weights of all patches for the patch of the pixel *query* (row, column).

        `places` are the first pixels of the patches. *x* is (1, C, H, W).

        Raises
        ------
        AttentionError
            If the query lies outside the map, or there are several maps.
        """
        check_pixel(x, query)
        height, width = (-(-side // self.patch) for side in x.shape[-2:])
        row, column = (index // self.patch for index in query)
        queries, keys, _ = self.split(self.tokens(x))
        token = row * width + column
        scores = self.scores(queries[:, :, token : token + 1], keys)
        places = torch.cartesian_prod(torch.arange(height), torch.arange(width)) * self.patch
        return unmasked(scores.softmax(-1)[0, :, 0], places)

    def _projected(self, tokens: Tensor, part: slice) -> Tensor:
        """A *part* of the queries, keys and values of *tokens*."""
        bias = self.to_qkv.bias[part] if self.options.has_bias else None
        return F.linear(tokens, self.to_qkv.weight[part], bias)

    def _chunks(self, queries: Tensor, keys: Tensor) -> Sequence[Tensor]:
        """The queries in parts whose scores fit into memory."""
        # Gradients would keep all scores anyway, and chunks take longer in total.
        if torch.is_grad_enabled():
            return (queries,)
        batch, heads, _, _ = queries.shape
        return queries.split(max(MOST_SCORES // (batch * heads * keys.shape[-2]), 1), dim=-2)
