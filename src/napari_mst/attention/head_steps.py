"""Attention weights of a pixel, and one head between pixels step by step, with every matrix.

The head belongs to a windowed block, on the window around a pixel of a photo, or it is a single
head on the pixels of a small patch. Tokens are columns here but rows in the code of a network, so
every matrix is the transpose of the matrix in a run.

The single head computes non-local means between single pixels (see `denoising.as_attention`). Its
matrices are known, so it needs no training, and its result is the denoised patch. A pixel is a
column of X, the embedding Xi(t) = [|t|^2, t, 1] of its colour t. Colours are on the scale on which
noise is constant, times the 8-bit codes of the noise at middle grey.

Letters: C channels, d channels of a head, n query pixels, m key pixels; n = m except in overlapping
windows.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from napari_mst.attention.overlays import WEIGHTS
from napari_mst.attention.record import PixelBlock
from napari_mst.attention.record_views import AttentionMap, Selection
from napari_mst.base.arrays import Brief, Doubles, Mask
from napari_mst.base.errors import AttentionError, check_pixel
from napari_mst.cube import Provenance
from napari_mst.denoising.as_attention import embedding, projections
from napari_mst.denoising.photo_denoising import Denoising
from napari_mst.networks.attention.query import square
from napari_mst.networks.attention.single_head import SingleHeadAttention, TokenAxis
from napari_mst.networks.attention.window_attention import WindowAttention, WindowTokens
from napari_mst.photo.photo import Photo

Places = NDArray[np.int64]
"""(n, 2) row and column of n pixels of the photo."""


@dataclass(frozen=True, eq=False, repr=False)
class PixelWeights(Brief):
    """The attention weights of one pixel of a photo over its keys, in one block.

    Attributes
    ----------
    block
        Name of the block.
    weights
        (h, keys); the weights of each head sum to 1.
    places
        (keys, 2) row and column of the photo at which each key begins. Keys beyond the photo are
        padding.
    regions
        (keys,) part of a shifted window in which each key lies; only keys in the part of the pixel
        have weight. All 0 if windows are not shifted.
    query
        Row and column of the photo at which the query begins.
    pitch
        Side of a query or key in pixels of the photo.
    sides
        The block, with its window sides in keys.
    provenance
        History of the run.
    """

    block: str
    weights: Doubles
    places: Places
    regions: NDArray[np.int64]
    query: tuple[int, int]
    pitch: int
    sides: PixelBlock
    provenance: Provenance = field(default_factory=Provenance)

    def maps(self, corner: tuple[int, int] = (0, 0)) -> list[AttentionMap]:
        """Return a map of the weights for each head; *corner* is the first pixel of the region."""
        images, first = self.planes()
        row, column = np.add(first, corner)
        middle = (self.pitch - 1) / 2
        pixel = self.query[0] + corner[0], self.query[1] + corner[1]
        return [
            AttentionMap(
                values=image.astype(np.float32),
                overlay=WEIGHTS.name,
                unit=WEIGHTS.unit,
                selection=Selection(self.block, head),
                pitch=self.pitch,
                offset=(float(row + middle), float(column + middle)),
                total=float(image.sum()),
                provenance=self.provenance,
                pixel=pixel,
            )
            for head, image in enumerate(images)
        ]

    def planes(self) -> tuple[Doubles, tuple[int, int]]:
        """Return the weights as images (h, rows, columns) with one value per key, and their origin.

        The origin is the row and column of the photo of the first key, for a layer of scale
        `pitch`.
        """
        is_heard = self.weights.sum(0) > 0
        places = self.places[is_heard]
        first = places.min(0)
        rows, columns = ((places - first) // self.pitch).T
        images = np.zeros((len(self.weights), rows.max() + 1, columns.max() + 1))
        images[:, rows, columns] = self.weights[:, is_heard]
        return images, (int(first[0]), int(first[1]))

    @property
    def effective_keys(self) -> Doubles:
        """Effective number of keys in each head, (h,): 1 / sum of the squared weights."""
        return 1 / np.square(self.weights).sum(-1)

    @property
    def heard(self) -> Mask:
        """(keys,) mask of the keys that the mask of shifted windows leaves to the query."""
        is_query = (self.places == self.query).all(1)
        return self.regions == self.regions[is_query]

    def around(self, chosen: Mask) -> tuple[int, int, int, int]:
        """Return the rectangle of the photo around the *chosen* keys, in the form of `Outline`."""
        places = self.places[chosen]
        top, left = places.min(0).tolist()
        bottom, right = (places.max(0) + self.pitch).tolist()
        return top, bottom, left, right


Outline = tuple[str, tuple[int, int, int, int]]
"""A rectangle of the photo: its role, and first row, one past the last, first column, one past the
last. It may reach into the padding beyond the photo."""


def outlines(weights: PixelWeights) -> list[Outline]:
    """Return the outlines that explain the *weights* of a pixel, from the largest to the pixel.

    Roles are "pixel" for the pixel, "window" for its window of queries, "keys" for the larger
    window of its keys, and "masked" for a part of a shifted window that the mask hides from it.
    """
    pitch = weights.pitch
    row, column = weights.query
    pixel = ("pixel", (row, row + pitch, column, column + pitch))
    if not weights.sides.window:
        return [pixel]
    is_heard = weights.heard
    top, bottom, left, right = keys = weights.around(is_heard)
    masked = [
        ("masked", weights.around(weights.regions == region))
        for region in np.unique(weights.regions[~is_heard])
    ]
    rim = (weights.sides.keys - weights.sides.window) // 2 * pitch
    window = ("window", (top + rim, bottom - rim, left + rim, right - rim))
    return [*masked, *([("keys", keys)] if rim else []), window, pixel]


BETWEEN = "Row i is key i, column j is query j."
"""Caption of a matrix between pixels."""

_ABOUT = (
    "The weights of this head, the same for all pixels.",
    "A column is a pixel, named by its row and column in the photo.",
    BETWEEN,
)
"""Captions of matrices without pixels, with pixels as columns, and between pixels."""


class MatrixStep(NamedTuple):
    """The matrix of one step.

    Attributes
    ----------
    name, formula
        Symbol of the matrix, and the formula that computes it.
    about
        A sentence on how to read it.
    rows, columns
        Pixels that the rows or columns stand for; None if they are not pixels.
    """

    name: str
    formula: str
    values: Doubles
    about: str
    rows: Places | None = None
    columns: Places | None = None


@dataclass(frozen=True, eq=False)
class HeadSteps:
    """Every matrix of a head, in order of computation."""

    steps: tuple[MatrixStep, ...]

    def __getitem__(self, name: str) -> Doubles:
        """Return the values of the step called *name*."""
        return next(step.values for step in self.steps if step.name == name)


def _step(name: str, formula: str, matrix: Tensor, *at: Places) -> MatrixStep:
    """Return the step of a *matrix*; *at* gives the pixels of its columns and rows, if any."""
    values = matrix.detach().double().cpu().numpy()
    columns, rows, *_ = (*at, None, None)
    return MatrixStep(name, formula, values, _ABOUT[len(at)], rows, columns)


def _with_sums(weights: MatrixStep, axis: int) -> MatrixStep:
    """Add to the caption the sums of the weights along columns (*axis* 0) or rows (1)."""
    sums = weights.values.sum(axis)
    which = "rows" if axis else "columns"
    span = f"{sums.min():.6f} to {sums.max():.6f}"
    return weights._replace(about=f"{BETWEEN} Each of the {which} adds up to 1: {span}.")


@dataclass(frozen=True, eq=False)
class WindowSteps(HeadSteps):
    """Every matrix of a head on the window of a *pixel*, whose weights are a column of A."""

    pixel: PixelWeights

    @property
    def provenance(self) -> Provenance:
        """History of the run."""
        return self.pixel.provenance


def window_steps(
    attention: WindowAttention,
    tokens: WindowTokens,
    head: int,
    at: tuple[Places, Places],
    is_normed: bool,
) -> tuple[MatrixStep, ...]:
    """Return the matrices of *head* of *attention* for the *tokens* of a window.

    *at* holds the places of the query pixels and of the key pixels in the photo. *is_normed* is
    True if a LayerNorm precedes the attention.
    """
    asking, answering = at
    of_asking, of_answering = tokens.features
    features = "LayerNorm of the features" if is_normed else "features"
    steps = [_step("X", f"{features} of {len(asking)} pixels", of_asking.mT, asking)]
    x = "X"
    if len(asking) != len(answering):
        x = "X_K"
        formula = f"those of the {len(answering)} pixels that answer"
        steps.append(_step(x, formula, of_answering.mT, answering))

    depth = attention.channels // attention.heads
    span = slice(head * depth, (head + 1) * depth)
    of_query, of_key, of_value = (part[span] for part in attention.to_qkv.weight.chunk(3))
    bias = " + b" if attention.options.has_bias else ""
    query_formula, key_formula = _scaled(attention, head)
    queries, keys = (part[head] for part in attention.scaled(tokens.queries, tokens.keys))
    scores = queries @ keys.mT
    steps += [
        _step("W_Q", "weights of the queries", of_query),
        _step("Q", f"W_Q X{bias}", tokens.queries[head].mT, asking),
        _step("W_K", "weights of the keys", of_key),
        _step("K", f"W_K {x}{bias}", tokens.keys[head].mT, answering),
        _step("W_V", "weights of the values", of_value),
        _step("V", f"W_V {x}{bias}", tokens.values[head].mT, answering),
        _step("Q'", query_formula, queries.mT, asking),
        _step("K'", key_formula, keys.mT, answering),
        _step("S", "K'^T Q'", scores.mT, asking, answering),
        _step("B", "bias of the relative places", tokens.bias[head].mT, asking, answering),
    ]
    added = "S + B"
    mask = torch.zeros_like(scores).masked_fill(tokens.is_apart.to(scores.device), -torch.inf)
    if attention.sides.shift:
        added = "S + B + M"
        formula = "-inf between parts of a shifted window, else 0"
        steps.append(_step("M", formula, mask.mT, asking, answering))
    shares = (scores + tokens.bias[head] + mask).softmax(-1)
    weights = _step("A", f"softmax of the columns of {added}", shares.mT, asking, answering)
    attended = shares @ tokens.values[head]
    steps += [_with_sums(weights, 0), _step("O", "V A", attended.mT, asking)]
    if attention.options.has_projection:
        projection = attention.proj.get_parameter("weight")[:, span]
        formula = "weights of the projection after the heads"
        steps.append(_step("W_O", formula, projection))
        added_by_head = projection @ attended.mT
        steps.append(_step("Y", "W_O O, what this head adds", added_by_head, asking))
    return tuple(steps)


def _scaled(attention: WindowAttention, head: int) -> tuple[str, str]:
    """Return the formulas of the scaled queries and keys."""
    if attention.options.score == "cosine":
        scale = attention.get_parameter("rescale")[head].item()
        return f"s Q / |Q| of each column, s = {scale:.4g}", "K / |K| of each column"
    return "Q / sqrt(d)" if attention.options.score == "scaled" else "Q", "K"


MOST_SIDE = 16
"""Largest side of a patch in pixels, for matrices of 256 columns."""

COLOURS = 3


@dataclass(frozen=True, eq=False)
class PatchSteps(HeadSteps):
    """Every matrix of a single head on the pixels of a patch; *corner* is its first pixel."""

    corner: tuple[int, int]


def patch_steps(
    photo: Photo, how: Denoising, corner: tuple[int, int], side: int, reading: TokenAxis
) -> PatchSteps:
    """Return every matrix of a single head on *side* x *side* pixels of *photo* from *corner* on.

    *how* gives the noise and h. A patch that would leave the photo is moved back onto it.

    Raises
    ------
    AttentionError
        If the side is not 1 to `MOST_SIDE` pixels, or the corner is not on the photo.
    """
    height, width = photo.shape
    most = min(MOST_SIDE, height, width)
    if not 1 <= side <= most:
        raise AttentionError(
            f"Expected a patch of 1 to {most} pixels a side, got {side}. Choose another one."
        )
    row, column = corner
    check_pixel(AttentionError, row, column, photo.shape)
    row, column = min(row, height - side), min(column, width - side)
    patch = photo.cropped((row, row + side, column, column + side))
    tokens = how.noise.codes * how.stabilised(patch).reshape(COLOURS, -1).T
    features = torch.from_numpy(embedding(tokens).T.copy())
    head = filter_head(how.codes, reading)
    with torch.inference_mode():
        made = head.steps(features)
    at: Places = square((row, column), side).numpy()
    scores = "K^T Q / sqrt(d) = -|t_i - t_j|^2 / (3 h^2)"
    of_query = "sqrt(d) / (3 h^2) diag(1, sqrt 2, ..., 1)"
    of_key = "sqrt 2 in the middle, -1 in two corners"
    weights = _step("A", f"softmax of the {reading} of S", made.attention, at, at)
    steps = (
        _step("X", f"Xi of {len(at)} pixels: |t|^2, t, 1; t in 8-bit codes", features, at),
        _step("W_Q", of_query, head.query.weight),
        _step("Q", "W_Q X", made.queries, at),
        _step("W_K", of_key, head.key.weight),
        _step("K", "W_K X", made.keys, at),
        _step("W_V", "picks the colour t", head.value.weight),
        _step("V", "W_V X", made.values, at),
        _step("S", scores, made.scores, at, at),
        _with_sums(weights, 0 if reading == "columns" else 1),
        _step("O", "V A", made.output, at),
    )
    return PatchSteps(steps, (row, column))


def filter_head(h: float, reading: TokenAxis = "columns") -> SingleHeadAttention:
    """Return the head that computes non-local means between single pixels of three colours."""
    queries, keys, values = projections(COLOURS)
    depth = COLOURS + 2
    head = SingleHeadAttention(depth, depth, COLOURS, reading).double().requires_grad_(False)
    # The head divides scores by the root of its channels; the filter by h^2 and the colours.
    scale = depth**0.5 / (COLOURS * h**2)
    # Tokens are rows there and columns here.
    head.query.weight.copy_(torch.from_numpy(scale * queries.T))
    head.key.weight.copy_(torch.from_numpy(keys.T.copy()))
    head.value.weight.copy_(torch.from_numpy(values.T.copy()))
    return head
