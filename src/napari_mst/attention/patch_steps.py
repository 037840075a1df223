"""Single-head attention on the pixels of a small patch of a photo, with the numbers of each matrix.

The head is that of non-local means between single pixels (see `denoising.attention`), whose
matrices are known: no training is needed, and its result is the patch denoised by itself.
A pixel is a column of X, its embedding Xi(t) = [|t|^2, t, 1] of its colour t on the scale on which
noise has a standard deviation of 1.

Letters: n pixels, D = 5 numbers of a pixel, d channels of queries and keys, e of values.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from napari_mst.denoising.attention import embedding, projections
from napari_mst.denoising.photos import Denoising
from napari_mst.errors import AttentionError
from napari_mst.networks.attention.single_head import Reading, SingleHeadAttention
from napari_mst.photo.photo import Photo

MOST_SIDE = 16
"""Pixels along a side of a patch, at most: 256 columns of numbers."""

COLOURS = 3


class Step(NamedTuple):
    """A matrix on the way, and how it comes about."""

    name: str
    formula: str
    values: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PatchSteps:
    """Every matrix of a single head, for the pixels of a patch.

    Attributes
    ----------
    row, column, side
        The first pixel of the patch, and the pixels along each of its sides.
    steps
        In the order in which they are computed.
    reading
        The axis of A that adds up to 1: "columns", or "rows" as a text has it to the letter.
    """

    row: int
    column: int
    side: int
    steps: tuple[Step, ...]
    reading: Reading

    def __getitem__(self, name: str) -> NDArray[np.float64]:
        """The values of a step."""
        return next(step.values for step in self.steps if step.name == name)


def patch_steps(
    photo: Photo, how: Denoising, corner: tuple[int, int], side: int, reading: Reading
) -> PatchSteps:
    """Every matrix of a single head for *side* x *side* pixels of *photo* from *corner* on.

    *how* tells noise and h. The patch is moved to lie on the photo.

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
    if not (0 <= row < height and 0 <= column < width):
        raise AttentionError(
            f"Expected a pixel within {height} rows x {width} columns, got {row}, {column}. "
            "Choose one that lies on the photo."
        )
    row = min(row, height - side)
    column = min(column, width - side)
    patch = photo.cropped((row, row + side, column, column + side))
    tokens = how.stabilised(patch).reshape(COLOURS, -1).T
    features = torch.from_numpy(embedding(tokens).T.copy())
    head = _head(how.h, reading)
    with torch.inference_mode():
        found = head.steps(features)
    n = side * side
    steps = (
        Step("X", f"Xi of {n} pixels: |t|^2, t, 1", _numbers(features)),
        Step("W_Q", "sqrt(d) / (3 h^2) diag(1, sqrt 2, ..., 1)", _numbers(head.query.weight)),
        Step("Q", "W_Q X", _numbers(found.queries)),
        Step("W_K", "sqrt 2 in the middle, -1 in two corners", _numbers(head.key.weight)),
        Step("K", "W_K X", _numbers(found.keys)),
        Step("W_V", "picks the colour t", _numbers(head.value.weight)),
        Step("V", "W_V X", _numbers(found.values)),
        Step("S", "K^T Q / sqrt(d) = -|t_i - t_j|^2 / (3 h^2)", _numbers(found.scores)),
        Step("A", f"softmax of the {reading} of S", _numbers(found.attention)),
        Step("O", "V A", _numbers(found.output)),
    )
    return PatchSteps(row, column, side, steps, reading)


def _head(h: float, reading: Reading) -> SingleHeadAttention:
    """The head of non-local means between single pixels of three colours."""
    matrices = projections(COLOURS)
    depth = COLOURS + 2
    head = SingleHeadAttention(depth, depth, COLOURS, reading).double().requires_grad_(False)
    # The head divides scores by the root of its channels, and the filter by h^2 and the colours.
    scale = depth**0.5 / (COLOURS * h**2)
    # Tokens are rows there and columns here.
    head.query.weight.copy_(torch.from_numpy(scale * matrices.queries.T))
    head.key.weight.copy_(torch.from_numpy(matrices.keys.T.copy()))
    head.value.weight.copy_(torch.from_numpy(matrices.values.T.copy()))
    return head


def _numbers(matrix: Tensor) -> NDArray[np.float64]:
    numbers: NDArray[np.float64] = matrix.detach().numpy()
    return numbers
