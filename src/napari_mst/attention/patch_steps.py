"""Single-head attention on the pixels of a small patch of a photo, with the numbers of each matrix.

The head is that of non-local means between single pixels (see `denoising.attention`), whose
matrices are known: no training is needed, and its result is the patch denoised by itself.
A pixel is a column of X, its embedding Xi(t) = [|t|^2, t, 1] of its colour t, in 8-bit codes: on
the scale on which noise is the same everywhere, times the codes of the noise at middle grey.

Letters: n pixels, D = 5 numbers of a pixel, d channels of queries and keys, e of values.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from napari_mst.attention.head_steps import (
    BETWEEN,
    HeadSteps,
    MatrixStep,
    Places,
    numbers,
    of_pixels,
    sums_said,
)
from napari_mst.denoising.attention import embedding, projections
from napari_mst.denoising.photos import Denoising
from napari_mst.errors import AttentionError, check_pixel
from napari_mst.networks.attention.single_head import Reading, SingleHeadAttention
from napari_mst.photo.photo import Photo

MOST_SIDE = 16
"""Pixels along a side of a patch, at most: 256 columns of numbers."""

COLOURS = 3


_OF_FILTER = "The weights are those of non-local means between single pixels."


@dataclass(frozen=True, eq=False)
class PatchSteps(HeadSteps):
    """Every matrix of a single head, for the pixels of a patch.

    Attributes
    ----------
    row, column, side
        The first pixel of the patch, and the pixels along each of its sides.
    """

    row: int
    column: int
    side: int


def patch_steps(
    photo: Photo, how: Denoising, corner: tuple[int, int], side: int, reading: Reading
) -> PatchSteps:
    """Every matrix of a single head for *side* x *side* pixels of *photo* from *corner* on.

    *how* has the noise and h. The patch is moved to lie on the photo.

    Raises
    ------
    AttentionError
        If the side is not 1 to `MOST_SIDE` pixels, or the corner is not on the photo.
    """
    height, width = photo.shape
    if not 1 <= side <= min(MOST_SIDE, height, width):
        raise AttentionError(
            f"Expected a patch of 1 to {min(MOST_SIDE, height, width)} pixels a side, got {side}. "
            "Choose another one."
        )
    row, column = corner
    check_pixel(AttentionError, row, column, photo.shape)
    row = min(row, height - side)
    column = min(column, width - side)
    patch = photo.cropped((row, row + side, column, column + side))
    tokens = how.noise.codes * how.stabilised(patch).reshape(COLOURS, -1).T
    features = torch.from_numpy(embedding(tokens).T.copy())
    head = filter_head(how.codes, reading)
    return PatchSteps(_steps(head, features, places_of(row, column, side)), row, column, side)


def places_of(row: int, column: int, side: int) -> Places:
    """Rows and columns of the pixels of a patch, (side^2, 2)."""
    down, across = np.divmod(np.arange(side * side), side)
    return np.stack([row + down, column + across], axis=1)


def _steps(head: SingleHeadAttention, features: Tensor, at: Places) -> tuple[MatrixStep, ...]:
    """Every matrix of *head* for the *features* of the pixels *at* their places."""
    with torch.inference_mode():
        head_steps = head.steps(features)
    reading = head.reading
    shares = numbers(head_steps.attention)
    of_shares = sums_said(shares, 0 if reading == "columns" else 1)
    scores = "K^T Q / sqrt(d) = -|t_i - t_j|^2 / (3 h^2)"

    def of_filter(name: str, formula: str, layer: torch.nn.Linear) -> MatrixStep:
        return MatrixStep(name, formula, numbers(layer.weight), _OF_FILTER)

    return (
        of_pixels("X", f"Xi of {len(at)} pixels: |t|^2, t, 1; t in 8-bit codes", features, at),
        of_filter("W_Q", "sqrt(d) / (3 h^2) diag(1, sqrt 2, ..., 1)", head.query),
        of_pixels("Q", "W_Q X", head_steps.queries, at),
        of_filter("W_K", "sqrt 2 in the middle, -1 in two corners", head.key),
        of_pixels("K", "W_K X", head_steps.keys, at),
        of_filter("W_V", "picks the colour t", head.value),
        of_pixels("V", "W_V X", head_steps.values, at),
        MatrixStep("S", scores, numbers(head_steps.scores), BETWEEN, at, at),
        MatrixStep("A", f"softmax of the {reading} of S", shares, of_shares, at, at),
        of_pixels("O", "V A", head_steps.output, at),
    )


def filter_head(h: float, reading: Reading = "columns") -> SingleHeadAttention:
    """The head of non-local means between single pixels of three colours."""
    queries, keys, values = projections(COLOURS)
    depth = COLOURS + 2
    head = SingleHeadAttention(depth, depth, COLOURS, reading).double().requires_grad_(False)
    # The head divides scores by the root of its channels, and the filter by h^2 and the colours.
    scale = depth**0.5 / (COLOURS * h**2)
    # Tokens are rows there and columns here.
    head.query.weight.copy_(torch.from_numpy(scale * queries.T))
    head.key.weight.copy_(torch.from_numpy(keys.T.copy()))
    head.value.weight.copy_(torch.from_numpy(values.T.copy()))
    return head
