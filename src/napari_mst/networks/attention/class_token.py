"""The attention of the vision transformer, and the patches that its class token attends to.

The first token, the class token, belongs to no patch: it collects information about the whole
photo, and its row of the attention shows from which patches. Letters: N batch, T tokens (the class
token and the patches), C features, h heads, L blocks.

References: Dosovitskiy et al., "An Image is Worth 16x16 Words", ICLR 2021, arXiv:2010.11929;
Abnar & Zuidema, "Quantifying Attention Flow in Transformers", ACL 2020,
doi:10.18653/v1/2020.acl-main.385.
"""

import functools
from collections.abc import Sequence

import torch
from torch import Tensor

from napari_mst.networks.attention.heads import Heads
from napari_mst.networks.attention.query import check_one, check_query, listed, unmasked
from napari_mst.networks.attention_spec import QueryWeights


class MultiHeadAttention(Heads):
    """Every token attends to all tokens: (N, T, C) -> (N, T, C)."""

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
            If the token does not exist, or there are several sequences.
        """
        check_one(x, 3)
        check_query(query, x.shape[1:2])
        (token,) = query
        queries, keys, _ = self.split(x)
        scores = self.scores(queries[:, :, token : token + 1], keys)
        return unmasked(scores.softmax(-1)[0, :, 0], listed(x.shape[1]))


_OWN_SHARE = 0.5  # share of the residual connection, from Abnar & Zuidema


def rollout(attentions: Sequence[Tensor]) -> Tensor:
    """Attention rollout: the shares of the input tokens in each output token, over all blocks.

    Each block is the mean of its heads, averaged with the residual connection; the blocks are
    multiplied (Abnar & Zuidema 2020).

    Parameters
    ----------
    attentions
        The attention (..., h, T, T) of each block, in order.

    Returns
    -------
    (..., T, T): the row of a token sums to 1.
    """
    return functools.reduce(lambda total, step: step @ total, map(_with_residual, attentions))


def _with_residual(attention: Tensor) -> Tensor:
    mean = attention.mean(-3)
    itself = torch.eye(mean.shape[-1]).to(mean)
    return _OWN_SHARE * itself + (1 - _OWN_SHARE) * mean
