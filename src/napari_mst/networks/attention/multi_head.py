"""Multi-head self-attention (MSA) over a sequence of tokens.

Letters: N batch, T tokens, C channels, h heads of d = C/h channels.

    y = concat_h(softmax(q_h k_h^T / sqrt(d)) v_h) W + c

Paper: Vaswani et al., "Attention is all you need", NeurIPS 2017, arXiv:1706.03762. Texts that write
it without 1/sqrt(d) or without the projection W are `HeadOptions(score="plain")` and
`HeadOptions(has_projection=False)`.
"""

from collections.abc import Sequence

from torch import Tensor

from napari_mst.networks.attention.heads import Heads
from napari_mst.networks.attention.query import (
    QueryWeights,
    check_one,
    check_query,
    listed,
    unmasked,
)


class MultiHeadAttention(Heads):
    """Every token attends to all: (N, T, C) -> (N, T, C)."""

    takes_maps = False

    def forward(self, x: Tensor) -> Tensor:
        """(N, T, C) -> (N, T, C)."""
        attention, values = self.attention(x)
        return self.joined(attention @ values)

    def attention(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Tokens (N, T, C) -> attention A (N, h, T, T), whose rows sum to 1, and values v."""
        queries, keys, values = self.split(x)
        return self.softmax(self.scores(queries, keys)), values

    def weights(self, x: Tensor, query: Sequence[int]) -> QueryWeights:
        """The weights of all T tokens for the token *query*; *x* is (1, T, C).

        Raises
        ------
        AttentionError
            If there is no such token, or more than one sequence.
        """
        check_one(x, 3)
        check_query(query, x.shape[1:2])
        (token,) = query
        queries, keys, _ = self.split(x)
        scores = self.scores(queries[:, :, token : token + 1], keys)
        return unmasked(scores.softmax(-1)[0, :, 0], listed(x.shape[1]))
