"""One head between pixels, step by step: every matrix on the way with all its numbers.

It is a head of a block with windows, on the window of a pixel of a photo, or that of `patch_steps`.
Tokens are columns here and rows in the code of the network: every matrix is the transpose of the
one that a run computes. Letters: C channels, d channels of a head, n pixels
that ask, m pixels that answer, as many but for overlapping windows.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from napari_mst.attention.pixel_weights import PixelWeights
from napari_mst.cube import Provenance
from napari_mst.networks.attention.windows import WindowAttention, WindowTokens

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
    values: NDArray[np.float64]
    about: str
    rows: Places | None = None
    columns: Places | None = None


@dataclass(frozen=True, eq=False)
class HeadSteps:
    """Every matrix of a head, in the order in which they are computed."""

    steps: tuple[MatrixStep, ...]

    def __getitem__(self, name: str) -> NDArray[np.float64]:
        """The values of a step."""
        return next(step.values for step in self.steps if step.name == name)


def sums_told(values: NDArray[np.float64], axis: int) -> str:
    """Say what the weights of each column (*axis* 0) or row (1) add up to."""
    sums = values.sum(axis)
    which = "rows" if axis else "columns"
    return f"{BETWEEN} Each of the {which} adds up to 1: {sums.min():.6f} to {sums.max():.6f}."


def numbers(matrix: Tensor) -> NDArray[np.float64]:
    """A matrix of a step, in float64."""
    values: NDArray[np.float64] = matrix.detach().double().cpu().numpy()
    return values


def of_pixels(name: str, formula: str, matrix: Tensor, at: Places) -> MatrixStep:
    """The step of a *matrix* with a column for each pixel."""
    return MatrixStep(name, formula, numbers(matrix), OF_PIXELS, columns=at)


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


class _Shown(NamedTuple):
    """A head of an attention on one window, and the places of its pixels in the photo.

    *at* are the places of the pixels that ask, and of those that answer.
    """

    attention: WindowAttention
    tokens: WindowTokens
    head: int
    at: tuple[Places, Places]

    @property
    def name_of_keys(self) -> str:
        """The name of the features of the pixels that answer."""
        asking, answering = self.at
        return "X" if len(asking) == len(answering) else "X_K"

    @property
    def weights(self) -> list[Tensor]:
        """W_Q, W_K and W_V of the head, (d, C) each."""
        own = _span(self.attention, self.head)
        return [part[own] for part in self.attention.to_qkv.weight.chunk(3)]

    @property
    def bias(self) -> str:
        """The bias of the projections as a formula writes it, or nothing."""
        return " + b" if self.attention.options.has_bias else ""


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
    one = _Shown(attention, tokens, head, at)
    queries, keys = (part[head] for part in attention.scaled(tokens.queries, tokens.keys))
    scores = queries @ keys.mT
    is_apart = tokens.is_apart.to(scores.device)
    mask = torch.zeros_like(scores).masked_fill(is_apart, -torch.inf)
    shares = (scores + tokens.bias[head] + mask).softmax(-1)
    return (
        *_features(one, is_normed),
        *_projections(one),
        of_pixels("Q'", _scaled_query(attention, head), queries.mT, at[0]),
        of_pixels("K'", _scaled_key(attention), keys.mT, at[1]),
        *_shares(one, scores, mask, shares),
        *_result(one, shares),
    )


def _features(one: _Shown, is_normed: bool) -> list[MatrixStep]:
    """The steps that show the features before the projections."""
    asking, answering = one.at
    told = "LayerNorm of the features" if is_normed else "features"
    formula = f"{told} of {len(asking)} pixels"
    steps = [of_pixels("X", formula, one.tokens.features[0].mT, asking)]
    if one.name_of_keys != "X":
        formula = f"those of the {len(answering)} pixels that answer"
        steps.append(of_pixels(one.name_of_keys, formula, one.tokens.features[1].mT, answering))
    return steps


def _projections(one: _Shown) -> list[MatrixStep]:
    """Queries and keys."""
    asking, answering = one.at
    of_queries, of_keys, _ = one.weights
    queries, keys = one.tokens.queries[one.head], one.tokens.keys[one.head]
    return [
        _learnt("W_Q", "weights of the queries", of_queries),
        of_pixels("Q", f"W_Q X{one.bias}", queries.mT, asking),
        _learnt("W_K", "weights of the keys", of_keys),
        of_pixels("K", f"W_K {one.name_of_keys}{one.bias}", keys.mT, answering),
    ]


def _shares(one: _Shown, scores: Tensor, mask: Tensor, shares: Tensor) -> list[MatrixStep]:
    """Scores, what is added to them, and their softmax."""
    asking, answering = one.at
    steps = [
        _between("S", "K'^T Q'", scores, one.at),
        _between("B", "bias of the relative places", one.tokens.bias[one.head], one.at),
    ]
    added = "S + B"
    if one.attention.sides.shift:
        added = "S + B + M"
        formula = "-inf between parts of a shifted window, else 0"
        steps.append(_between("M", formula, mask, one.at))
    values = numbers(shares.mT)
    formula = f"softmax of the columns of {added}"
    return [*steps, MatrixStep("A", formula, values, sums_told(values, 0), answering, asking)]


def _result(one: _Shown, shares: Tensor) -> list[MatrixStep]:
    """Values, their averages, and what the head adds to the features."""
    asking, answering = one.at
    values = one.tokens.values[one.head]
    attended = shares @ values
    steps = [
        _learnt("W_V", "weights of the values", one.weights[2]),
        of_pixels("V", f"W_V {one.name_of_keys}{one.bias}", values.mT, answering),
        of_pixels("O", "V A", attended.mT, asking),
    ]
    if not isinstance(one.attention.proj, nn.Linear):
        return steps
    projection = one.attention.proj.weight[:, _span(one.attention, one.head)]
    return [
        *steps,
        _learnt("W_O", "weights of the projection after the heads", projection),
        of_pixels("Y", "W_O O, what this head adds", (attended @ projection.mT).mT, asking),
    ]


def _span(attention: WindowAttention, head: int) -> slice:
    """The channels of a head."""
    depth = attention.channels // attention.heads
    return slice(head * depth, (head + 1) * depth)


def _scaled_query(attention: WindowAttention, head: int) -> str:
    if attention.options.score == "cosine":
        scale = attention.get_parameter("rescale")[head].item()
        return f"s Q / |Q| of each column, s = {scale:.4g}"
    return "Q / sqrt(d)" if attention.options.score == "scaled" else "Q"


def _scaled_key(attention: WindowAttention) -> str:
    return "K / |K| of each column" if attention.options.score == "cosine" else "K"


def _between(name: str, formula: str, matrix: Tensor, at: tuple[Places, Places]) -> MatrixStep:
    asking, answering = at
    return MatrixStep(name, formula, numbers(matrix.mT), BETWEEN, answering, asking)


def _learnt(name: str, formula: str, weights: Tensor) -> MatrixStep:
    return MatrixStep(name, formula, numbers(weights), _LEARNT)
