"""Single-head attention over columns, as written in textbooks.

Letters: D features of a token, n tokens, d channels of queries and keys, e channels of values.

The columns of X (D, n) are tokens. With Q = W_Q X, K = W_K X and V = W_V X,

    S = K^T Q / sqrt(d)        O = V A

Row i of S belongs to key i and column j to query j, so column j of the result is the sum of all
values weighted by column j of A: o_j = sum_i A_ij v_i. Two readings of "A = softmax(S)" are found:

- **columns** are normalised, sum_i A_ij = 1. Each o_j is an average of the values. This is *scaled
  dot-product attention* (Vaswani et al., "Attention is all you need", NeurIPS 2017,
  arXiv:1706.03762), which has tokens in rows, the transpose of this notation.
- **rows** are normalised, sum_j A_ij = 1, and V A is formed all the same. Every *key* is then
  distributed among the queries, and o_j is not an average of values. This is the literal reading of
  such texts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from napari_mst.networks.attention.query import check_query, listed, unmasked
from napari_mst.networks.attention_spec import QueryWeights

TokenAxis = Literal["columns", "rows"]
"""The axis of A that sums to 1; columns in scaled dot-product attention."""


@dataclass(frozen=True, eq=False)
class SingleHeadSteps:
    """All matrices of a single head.

    Attributes
    ----------
    queries, keys
        Q and K, (d, n).
    values
        V, (e, n).
    scores
        S, (n, n): row i is key i, column j is query j.
    attention
        A, (n, n), with the axes of S.
    output
        O = V A, (e, n).
    """

    queries: Tensor
    keys: Tensor
    values: Tensor
    scores: Tensor
    attention: Tensor
    output: Tensor


class SingleHeadAttention(nn.Module):
    """One head over the columns of a matrix, in either reading.

    Parameters
    ----------
    features, channels, value_channels
        D, d and e: the weights of `query` and `key` are (d, D), those of `value` (e, D).
    reading
        "columns" (scaled dot-product attention) or "rows" (the literal reading).
    """

    def __init__(
        self,
        features: int,
        channels: int,
        value_channels: int,
        reading: TokenAxis = "columns",
    ) -> None:
        super().__init__()
        self.reading = reading
        self.query = nn.Linear(features, channels, bias=False)
        self.key = nn.Linear(features, channels, bias=False)
        self.value = nn.Linear(features, value_channels, bias=False)

    def steps(self, x: Tensor) -> SingleHeadSteps:
        """All matrices on the way from X (D, n) to O."""
        queries = self.query.weight @ x
        keys = self.key.weight @ x
        values = self.value.weight @ x
        scores = keys.mT @ queries / len(queries) ** 0.5
        attention = scores.softmax(0 if self.reading == "columns" else 1)
        return SingleHeadSteps(queries, keys, values, scores, attention, values @ attention)

    def forward(self, x: Tensor) -> Tensor:
        """X, (D, n), to O, (e, n)."""
        return self.steps(x).output

    def weights(self, x: Tensor, query: Sequence[int]) -> QueryWeights:
        """The weights of the values in one column of O: column *query* of A, as (1, n).

        They sum to 1 in the reading "columns" only.

        Raises
        ------
        AttentionError
            If the column does not exist.
        """
        check_query(query, x.shape[1:])
        (column,) = query
        return unmasked(self.steps(x).attention[:, column][None], listed(x.shape[1]))
