"""One head between pixels, step by step: every matrix on the way with all its numbers.

It is a head of a block with windows, on the window of a pixel of a photo, or a single head on the
pixels of a small patch. Tokens are columns here and rows in the code of a network: every matrix is
the transpose of the one that a run computes.

The single head is that of non-local means between single pixels (see `denoising.attention`), whose
matrices are known: no training is needed, and its result is the patch denoised by itself. A pixel
is a column of X, its embedding Xi(t) = [|t|^2, t, 1] of its colour t, in 8-bit codes: on the scale
on which noise is the same everywhere, times the codes of the noise at middle grey.

Letters: C channels, d channels of a head, n pixels that ask, m pixels that answer: as many, except
in overlapping windows.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from napari_mst.arrays import Doubles
from napari_mst.attention.pixel_weights import PixelWeights
from napari_mst.cube import Provenance
from napari_mst.denoising.attention import embedding, projections
from napari_mst.denoising.photos import Denoising
from napari_mst.errors import AttentionError, check_pixel
from napari_mst.networks.attention.query import square
from napari_mst.networks.attention.single_head import Reading, SingleHeadAttention
from napari_mst.networks.attention.windows import WindowAttention, WindowTokens
from napari_mst.photo.photo import Photo

Places = NDArray[np.int64]
"""(n, 2): row and column of the photo of each of n pixels."""

BETWEEN = "Row i is key i, column j is query j."
"""The caption of a matrix between pixels."""

OF_PIXELS = "A column is a pixel, named by its row and column in the photo."
"""The caption of a matrix with a column for each pixel."""


class MatrixStep(NamedTuple):
    """A matrix on the way.

    Attributes
    ----------
    name, formula
        What it is called, and how it comes about.
    about
        How it is to be read, in a sentence.
    rows, columns
        The pixels that its rows or columns stand for; None where they stand for other numbers.
    """

    name: str
    formula: str
    values: Doubles
    about: str
    rows: Places | None = None
    columns: Places | None = None


@dataclass(frozen=True, eq=False)
class HeadSteps:
    """Every matrix of a head, in the order in which they are computed."""

    steps: tuple[MatrixStep, ...]

    def __getitem__(self, name: str) -> Doubles:
        """The values of a step."""
        return next(step.values for step in self.steps if step.name == name)


def _sums_said(values: Doubles, axis: int) -> str:
    """Say what the weights of each column (*axis* 0) or row (1) add up to."""
    sums = values.sum(axis)
    which = "rows" if axis else "columns"
    return f"{BETWEEN} Each of the {which} adds up to 1: {sums.min():.6f} to {sums.max():.6f}."


def _numbers(matrix: Tensor) -> Doubles:
    """A matrix of a step, in float64."""
    values: Doubles = matrix.detach().double().cpu().numpy()
    return values


def _of_pixels(name: str, formula: str, matrix: Tensor, at: Places) -> MatrixStep:
    """The step of a *matrix* with a column for each pixel."""
    return MatrixStep(name, formula, _numbers(matrix), OF_PIXELS, columns=at)


_LEARNT = "The weights are those of the network, of this head."


@dataclass(frozen=True, eq=False)
class WindowSteps(HeadSteps):
    """Every matrix of a *head* for the window of a *pixel*, whose weights are a column of A."""

    pixel: PixelWeights
    head: int

    @property
    def provenance(self) -> Provenance:
        """The history of the run whose head it is."""
        return self.pixel.provenance


class _WindowHead(NamedTuple):
    """A head of an attention on one window, and the places of its pixels in the photo.

    *at* are the places of the pixels that ask, and of those that answer.
    """

    attention: WindowAttention
    tokens: WindowTokens
    head: int
    at: tuple[Places, Places]

    @property
    def span(self) -> slice:
        """The channels of the head."""
        depth = self.attention.channels // self.attention.heads
        return slice(self.head * depth, (self.head + 1) * depth)

    @property
    def of_keys(self) -> str:
        """The name of the features of the pixels that answer."""
        asking, answering = self.at
        return "X" if len(asking) == len(answering) else "X_K"

    def asking(self, name: str, formula: str, tokens: Tensor) -> MatrixStep:
        """The step of numbers (n, C) of the pixels that ask."""
        return _of_pixels(name, formula, tokens.mT, self.at[0])

    def answering(self, name: str, formula: str, tokens: Tensor) -> MatrixStep:
        """The step of numbers (m, C) of the pixels that answer."""
        return _of_pixels(name, formula, tokens.mT, self.at[1])

    def between(self, name: str, formula: str, matrix: Tensor) -> MatrixStep:
        """The step of a matrix (n, m) between the pixels."""
        asking, answering = self.at
        return MatrixStep(name, formula, _numbers(matrix.mT), BETWEEN, answering, asking)

    def features(self, is_normed: bool) -> list[MatrixStep]:
        """The features before the projections."""
        count_asking, count_answering = map(len, self.at)
        features = "LayerNorm of the features" if is_normed else "features"
        asking, answering = self.tokens.features
        steps = [self.asking("X", f"{features} of {count_asking} pixels", asking)]
        if self.of_keys != "X":
            formula = f"those of the {count_answering} pixels that answer"
            steps.append(self.answering(self.of_keys, formula, answering))
        return steps

    def projections(self) -> list[MatrixStep]:
        """Queries, keys and values, each behind its weights."""
        bias = " + b" if self.attention.options.has_bias else ""
        of_query, of_key, of_value = self.attention.to_qkv.weight.chunk(3)
        tokens, head = self.tokens, self.head
        return [
            _learnt("W_Q", "weights of the queries", of_query[self.span]),
            self.asking("Q", f"W_Q X{bias}", tokens.queries[head]),
            _learnt("W_K", "weights of the keys", of_key[self.span]),
            self.answering("K", f"W_K {self.of_keys}{bias}", tokens.keys[head]),
            _learnt("W_V", "weights of the values", of_value[self.span]),
            self.answering("V", f"W_V {self.of_keys}{bias}", tokens.values[head]),
        ]

    def shares(self) -> tuple[list[MatrixStep], Tensor]:
        """Scores, what is added to them, and their softmax A, which is returned as well."""
        tokens, head = self.tokens, self.head
        queries, keys = (part[head] for part in self.attention.scaled(tokens.queries, tokens.keys))
        scores = queries @ keys.mT
        mask = torch.zeros_like(scores).masked_fill(tokens.is_apart.to(scores.device), -torch.inf)
        steps = [
            self.asking("Q'", _scaled_query(self.attention, head), queries),
            self.answering("K'", _scaled_key(self.attention), keys),
            self.between("S", "K'^T Q'", scores),
            self.between("B", "bias of the relative places", tokens.bias[head]),
        ]
        added = "S + B"
        if self.attention.sides.shift:
            added = "S + B + M"
            formula = "-inf between parts of a shifted window, else 0"
            steps.append(self.between("M", formula, mask))
        shares = (scores + tokens.bias[head] + mask).softmax(-1)
        weights = self.between("A", f"softmax of the columns of {added}", shares)
        about = _sums_said(weights.values, 0)
        return [*steps, weights._replace(about=about)], shares

    def result(self, shares: Tensor) -> list[MatrixStep]:
        """Averages of the values, and what the head adds to the features."""
        attended = shares @ self.tokens.values[self.head]
        steps = [self.asking("O", "V A", attended)]
        if self.attention.options.has_projection:
            projection = self.attention.proj.get_parameter("weight")[:, self.span]
            steps += [
                _learnt("W_O", "weights of the projection after the heads", projection),
                self.asking("Y", "W_O O, what this head adds", attended @ projection.mT),
            ]
        return steps


def window_steps(
    attention: WindowAttention,
    tokens: WindowTokens,
    head: int,
    at: tuple[Places, Places],
    is_normed: bool,
) -> tuple[MatrixStep, ...]:
    """The matrices of *head* of *attention* for the *tokens* of a window.

    *at* are the places of the pixels that ask and of those that answer, in the photo. *is_normed*
    says whether a LayerNorm stands before the attention.
    """
    window = _WindowHead(attention, tokens, head, at)
    steps, shares = window.shares()
    return (
        *window.features(is_normed),
        *window.projections(),
        *steps,
        *window.result(shares),
    )


def _scaled_query(attention: WindowAttention, head: int) -> str:
    if attention.options.score == "cosine":
        scale = attention.get_parameter("rescale")[head].item()
        return f"s Q / |Q| of each column, s = {scale:.4g}"
    return "Q / sqrt(d)" if attention.options.score == "scaled" else "Q"


def _scaled_key(attention: WindowAttention) -> str:
    return "K / |K| of each column" if attention.options.score == "cosine" else "K"


def _learnt(name: str, formula: str, weights: Tensor) -> MatrixStep:
    return MatrixStep(name, formula, _numbers(weights), _LEARNT)


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
    steps = _steps(head, features, square((row, column), side).numpy())
    return PatchSteps(steps, row, column, side)


def _steps(head: SingleHeadAttention, features: Tensor, at: Places) -> tuple[MatrixStep, ...]:
    """Every matrix of *head* for the *features* of the pixels *at* their places."""
    with torch.inference_mode():
        head_steps = head.steps(features)
    reading = head.reading
    shares = _numbers(head_steps.attention)
    of_shares = _sums_said(shares, 0 if reading == "columns" else 1)
    scores = "K^T Q / sqrt(d) = -|t_i - t_j|^2 / (3 h^2)"

    def of_filter(name: str, formula: str, layer: torch.nn.Linear) -> MatrixStep:
        return MatrixStep(name, formula, _numbers(layer.weight), _OF_FILTER)

    return (
        _of_pixels("X", f"Xi of {len(at)} pixels: |t|^2, t, 1; t in 8-bit codes", features, at),
        of_filter("W_Q", "sqrt(d) / (3 h^2) diag(1, sqrt 2, ..., 1)", head.query),
        _of_pixels("Q", "W_Q X", head_steps.queries, at),
        of_filter("W_K", "sqrt 2 in the middle, -1 in two corners", head.key),
        _of_pixels("K", "W_K X", head_steps.keys, at),
        of_filter("W_V", "picks the colour t", head.value),
        _of_pixels("V", "W_V X", head_steps.values, at),
        MatrixStep("S", scores, _numbers(head_steps.scores), BETWEEN, at, at),
        MatrixStep("A", f"softmax of the {reading} of S", shares, of_shares, at, at),
        _of_pixels("O", "V A", head_steps.output, at),
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
