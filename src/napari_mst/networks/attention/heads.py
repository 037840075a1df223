"""Multi-head attention: projections, scores, softmax, and concatenation of the heads.

Letters: C channels, h heads of d = C/h channels, T tokens.

    q, k, v = x W_qkv + b        A = softmax(score(q, k) + B)        y = concat(A v) W + c

B is a bias that a mechanism may add to the scores: relative positions, or a mask. Rows are queries
and columns are keys, so rows of A sum to 1. The score of a query and a key is one of

    scaled    q k^T / sqrt(d)              Vaswani et al., NeurIPS 2017, arXiv:1706.03762
    plain     q k^T                        texts that omit the root
    cosine    s q k^T / (|q| |k|)          s is learnt per head: Liu et al., "Swin Transformer
                                           V2", CVPR 2022, arXiv:2111.09883; MST++ between channels
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from napari_mst.networks.attention.query import check_heads, check_memory
from napari_mst.networks.attention_spec import QueryWeights

ScoreKind = Literal["scaled", "plain", "cosine"]
"""The similarity measure of a query and a key."""

_COSINE_SCALE = 8.0  # initial s: at 1, the 64 keys of a window would have nearly equal weights


@dataclass(frozen=True)
class HeadOptions:
    """Variants of multi-head attention.

    Attributes
    ----------
    score
        The score of a query and a key.
    has_bias
        True if queries, keys and values have a bias b.
    has_projection
        True if W and c mix the heads at the end; else the heads are only concatenated.
    """

    score: ScoreKind = "scaled"
    has_bias: bool = True
    has_projection: bool = True


DEFAULTS = HeadOptions()
"""The heads of most transformers."""


class Heads(nn.Module, ABC):
    """Base of the mechanisms with several heads.

    `softmax` has no parameters: a forward hook on it sees scores and attention.

    Raises
    ------
    ModelError
        If the number of heads does not divide the number of channels.
    """

    takes_maps = True
    """True if `forward` takes maps (N, C, H, W), False for sequences of tokens (N, T, C)."""

    def __init__(self, channels: int, heads: int, options: HeadOptions = DEFAULTS) -> None:
        super().__init__()
        check_heads(channels, heads)
        self.channels = channels
        self.heads = heads
        self.options = options
        self.to_qkv = nn.Linear(channels, 3 * channels, bias=options.has_bias)
        self.proj = nn.Linear(channels, channels) if options.has_projection else nn.Identity()
        if options.score == "cosine":
            self.rescale = nn.Parameter(torch.full((heads, 1, 1), _COSINE_SCALE))
        self.softmax = nn.Softmax(dim=-1)

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """The attended values, mixed by the projection, in the shape of *x*."""

    @abstractmethod
    def weights(self, x: Tensor, query: Sequence[int]) -> QueryWeights:
        """The weights of the keys of one *query*, and where they lie."""

    @property
    def value_weight(self) -> Tensor:
        """The weights of the values, (C, C)."""
        return self.to_qkv.weight[2 * self.channels :]

    def split(self, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of tokens (..., T, C), each (..., h, T, d)."""
        queries, keys, values = self.to_qkv(tokens).chunk(3, dim=-1)
        return self.in_heads(queries), self.in_heads(keys), self.in_heads(values)

    def in_heads(self, tokens: Tensor) -> Tensor:
        """(..., T, C) -> (..., h, T, d)."""
        return tokens.unflatten(-1, (self.heads, -1)).transpose(-3, -2)

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        """The score of every query with every key, (..., h, queries, keys)."""
        check_memory((*queries.shape[:-1], keys.shape[-2]), queries.dtype)
        queries, keys = self.scaled(queries, keys)
        return queries @ keys.mT

    def scaled(self, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Queries and keys whose products are the scores."""
        if self.options.score == "cosine":
            queries = F.normalize(queries, dim=-1) * self.rescale
            keys = F.normalize(keys, dim=-1)
        elif self.options.score == "scaled":
            queries = queries / queries.shape[-1] ** 0.5
        return queries, keys

    def joined(self, attended: Tensor) -> Tensor:
        """Heads (..., h, T, d), concatenated and mixed: (..., T, C)."""
        return self.proj(attended.transpose(-3, -2).flatten(-2))
