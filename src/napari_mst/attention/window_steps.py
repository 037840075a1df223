"""One head of a block with windows, step by step, on the window of a pixel of a photo.

Tokens are columns here, as in `patch_steps`, and rows in the code of the network: every matrix is
the transpose of the one that a run computes. Letters: C channels, d channels of a head, n pixels
that ask, m pixels that answer, as many but for overlapping windows.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from napari_mst.attention.head_steps import BETWEEN, OF_PIXELS, HeadSteps, Places, Step, sums_told
from napari_mst.attention.pixel_weights import PixelWeights
from napari_mst.cube import Provenance
from napari_mst.networks.attention.windows import WindowAttention, WindowTokens

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
) -> tuple[Step, ...]:
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
        _of_pixels("Q'", _scaled_query(attention, head), queries, at[0]),
        _of_pixels("K'", _scaled_key(attention), keys, at[1]),
        *_shares(one, scores, mask, shares),
        *_result(one, shares),
    )


def _features(one: _Shown, is_normed: bool) -> list[Step]:
    """The steps that show the features before the projections."""
    asking, answering = one.at
    told = "LayerNorm of the features" if is_normed else "features"
    formula = f"{told} of {len(asking)} pixels"
    steps = [_of_pixels("X", formula, one.tokens.features[0], asking)]
    if one.name_of_keys != "X":
        formula = f"those of the {len(answering)} pixels that answer"
        steps.append(_of_pixels(one.name_of_keys, formula, one.tokens.features[1], answering))
    return steps


def _projections(one: _Shown) -> list[Step]:
    """Queries and keys."""
    asking, answering = one.at
    of_queries, of_keys, _ = one.weights
    queries, keys = one.tokens.queries[one.head], one.tokens.keys[one.head]
    return [
        _learnt("W_Q", "weights of the queries", of_queries),
        _of_pixels("Q", f"W_Q X{one.bias}", queries, asking),
        _learnt("W_K", "weights of the keys", of_keys),
        _of_pixels("K", f"W_K {one.name_of_keys}{one.bias}", keys, answering),
    ]


def _shares(one: _Shown, scores: Tensor, mask: Tensor, shares: Tensor) -> list[Step]:
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
    values = _numbers(shares.mT)
    formula = f"softmax of the columns of {added}"
    return [*steps, Step("A", formula, values, sums_told(values, 0), answering, asking)]


def _result(one: _Shown, shares: Tensor) -> list[Step]:
    """Values, their averages, and what the head adds to the features."""
    asking, answering = one.at
    values = one.tokens.values[one.head]
    attended = shares @ values
    steps = [
        _learnt("W_V", "weights of the values", one.weights[2]),
        _of_pixels("V", f"W_V {one.name_of_keys}{one.bias}", values, answering),
        _of_pixels("O", "V A", attended, asking),
    ]
    if not isinstance(one.attention.proj, nn.Linear):
        return steps
    projection = one.attention.proj.weight[:, _span(one.attention, one.head)]
    return [
        *steps,
        _learnt("W_O", "weights of the projection after the heads", projection),
        _of_pixels("Y", "W_O O, what this head adds", attended @ projection.mT, asking),
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


def _of_pixels(name: str, formula: str, tokens: Tensor, at: Places) -> Step:
    return Step(name, formula, _numbers(tokens.mT), OF_PIXELS, columns=at)


def _between(name: str, formula: str, matrix: Tensor, at: tuple[Places, Places]) -> Step:
    asking, answering = at
    return Step(name, formula, _numbers(matrix.mT), BETWEEN, answering, asking)


def _learnt(name: str, formula: str, weights: Tensor) -> Step:
    return Step(name, formula, _numbers(weights), _LEARNT)


def _numbers(matrix: Tensor) -> NDArray[np.float64]:
    numbers: NDArray[np.float64] = matrix.detach().double().cpu().numpy()
    return numbers
