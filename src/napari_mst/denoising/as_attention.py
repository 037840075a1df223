"""Non-local means written as self-attention: softmax(Q K^T / h^2) V.

The filter is by Buades, Coll & Morel, CVPR 2005, doi:10.1109/CVPR.2005.38. Wang et al., CVPR 2018,
doi:10.1109/CVPR.2018.00813, say that self-attention is a case of it. A token is the patch around a
pixel, t, as a vector. Its embedding is Xi(t) = [|t|^2, t, 1], and with

    Q = Xi W_Q,  W_Q = diag(1, sqrt 2, ..., sqrt 2, 1)
    K = Xi W_K,  W_K = the same in the middle, -1 in two corners
    V = Xi W_V,  W_V = what picks the pixel itself out of its patch

the product of a query and a key is -|t_p|^2 + 2 t_p t_q - |t_q|^2: minus the squared difference of
both patches. The softmax of a row makes weights of it that add up to 1.

Letters: C channels, H rows, W columns, T numbers of a token, n tokens.
"""

import numpy as np

from napari_mst.base.arrays import Doubles
from napari_mst.denoising.streaming import Filter


def projections(length: int) -> tuple[Doubles, Doubles, Doubles]:
    """The matrices of the attention that is non-local means, for tokens of T = *length* numbers.

    Those of queries and keys are (T + 2, T + 2), that of values is (T + 2, T).
    """
    queries = np.diag([1.0, *[np.sqrt(2)] * length, 1.0])
    keys = queries.copy()
    keys[0, 0] = keys[-1, -1] = 0.0
    # The squared length of a query meets the constant of a key, and the other way round.
    keys[0, -1] = keys[-1, 0] = -1.0
    values = np.zeros((length + 2, length))
    values[1:-1] = np.eye(length)
    return queries, keys, values


def tokens(padded: Doubles, using: Filter) -> Doubles:
    """The patch around every pixel of an image (C, H, W) as a row: (H W, C patch^2).

    *padded* is the image with the border of its patches around it. The numbers of a token are
    weighed so that a squared difference is the mean over patch and channels.
    """
    patches = np.lib.stride_tricks.sliding_window_view(padded, (using.patch, using.patch), (1, 2))
    weights = np.outer(using.taps, using.taps) / len(padded)
    weighed: Doubles = patches * np.sqrt(weights)
    _, height, width, *_ = patches.shape
    return weighed.transpose(1, 2, 0, 3, 4).reshape(height * width, -1)


def embedding(token: Doubles) -> Doubles:
    """Xi of each token (n, T): (n, T + 2)."""
    squared = np.square(token).sum(axis=1, keepdims=True)
    return np.concatenate([squared, token, np.ones_like(squared)], axis=1)


def attention(queries: Doubles, keys: Doubles, using: Filter) -> Doubles:
    """The weights (n, m) that tokens *queries* (n, T) give to tokens *keys* (m, T).

    Each row adds up to 1. The squared difference that noise explains, 2 sigma^2, counts as none.
    """
    of_queries, of_keys, _ = projections(queries.shape[1])
    product = (embedding(queries) @ of_queries) @ (embedding(keys) @ of_keys).T
    exponent = np.minimum(product + 2 * using.sigma**2, 0) / using.h**2
    weights = np.exp(exponent - exponent.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)
