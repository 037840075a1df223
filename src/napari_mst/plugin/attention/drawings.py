"""The drawings of the attention dock: matrices, a head step by step, and a pixel; without Qt."""

from collections.abc import Iterable, Iterator
from html import escape
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from napari_mst.attention.record_views import AttentionMap, AttentionSteps
from napari_mst.base.arrays import Array, Floats
from napari_mst.base.errors import shown
from napari_mst.plugin.attention.attention_model import RecordedHead

if TYPE_CHECKING:
    from napari_mst.attention.six_attentions import SideBySide

STEPS = {
    "X": (
        "<b>features X</b><br>{channels} x {photo}",
        "What enters the block: the norm of all channels of X.",
    ),
    "K": ("<b>keys K</b>, i = {i}<br>{d} x {photo}", "<i>K = W<sub>K</sub> X</i>"),
    "Q": ("<b>queries Q</b>, j = {j}<br>{d} x {photo}", "<i>Q = W<sub>Q</sub> X</i>"),
    "V": ("<b>values V</b>, j = {j}<br>{d} x {photo}", "<i>V = W<sub>V</sub> X</i>"),
    "kq": (
        "<b>keys by queries</b>: sum {logit:.3f}<br>{photo}",
        "<i>k<sub>i</sub> q<sub>j</sub></i> at each pixel",
    ),
    "L": (
        "<b>scores L</b>: {logit:.3f}<br>{d} x {d}",
        "<i>L<sub>ij</sub></i>: the sum of <i>k<sub>i</sub> q<sub>j</sub></i> over all pixels",
    ),
    "A": (
        "<b>attention A</b>: {share:.4f}<br>{d} x {d}",
        "<i>A</i> = softmax of each row of <i>L</i>; white: equal weights, red: up to four times",
    ),
    "AV": (
        "<b>result A V</b>, i = {i}<br>{d} x {photo}",
        "row <i>i</i> of <i>A V</i>: <i>V</i> weighted by row <i>i</i> of <i>A</i>",
    ),
}
"""The steps in the order of the formulas: a caption, which ends with the size, and the formula."""
DECIDED = "What it decided"
STORY = {
    "What the block saw": "{channels} maps of learnt features, which earlier layers made of the "
    "photo. Bright: pixels where they are large.",
    "What it made of them": "Each head mixes them into keys, queries and values, {d} of each. This "
    "is key {i}: red above zero, blue below.",
    "What it compared": "Key {i} times query {j}, pixel by pixel: red where they agree. The sum "
    "over all pixels is one score for the whole photo, {score:.2f}.",
    DECIDED: "A softmax turns each row of scores into shares that add up to 1. Channel {i} takes "
    "most from channel {j}: {share:.1%}, {times:.1f} times an equal share.",
    "What it mixed": "Output {i} is the sum of all {d} values, each by its share. The shares are "
    "the same at every pixel.",
    "What that changed": "The same output less the one of equal shares, in the same colours. It is "
    "{change:.0%} of the output: where it is white, attention did not matter.",
}
"""The six pictures of the story of a head: a title, and two sentences."""
MATRICES = ("L", "A")
"""Pictures of channel matrices, whose cells can be clicked."""
UNSIGNED = ("X",)
"""Pictures of values that are never negative."""
NAME = 22
"""Letters of a run's name that fit above a matrix when two stand side by side."""
CLIPPED = 0.5
"""Per cent of the pixels outside the colour range, so that a few extremes do not pale the rest."""

OCTAVES = 2.0
"""Weights two octaves above equal weights, four times as large, get the last colour."""

CellRange = tuple[int, int, int, int]
"""Column and row of the first cell, number of columns, and number of rows."""


class Drawing(NamedTuple):
    """A picture to draw: (rows, columns) values, or colours, below a title and perhaps a text.

    Attributes
    ----------
    limits
        The values of the first and the last colour; a negative first value selects signed colours.
    tip
        The tooltip, such as a formula.
    framed
        The cells to put a frame around.
    is_matrix
        True if a click chooses a cell.
    text
        Sentences between the title and the picture.
    """

    title: str
    values: Array
    limits: tuple[float, float]
    tip: str = ""
    framed: CellRange | None = None
    is_matrix: bool = False
    text: str = ""


def window_pictures(photo: Array, made: AttentionMap) -> list[Drawing]:
    """Draw the part of *photo* under the weights of *made*, and the weights; frame the pixel."""
    most = 1.0 if photo.dtype.kind == "f" else float(np.iinfo(photo.dtype).max)
    high, pitch = float(made.values.max()), made.pitch
    row, column = np.subtract(made.pixel or made.corner, made.corner).tolist()
    pixel = (column, row, pitch, pitch)
    weight = (column // pitch, row // pitch, 1, 1)
    weights = f"and their weights:<br>black 0, bright {high:.3f}"
    return [
        Drawing("The pixels of its window", photo, (0.0, most), framed=pixel),
        Drawing(weights, made.values, (0.0, high), framed=weight),
    ]


def six_pictures(six: "SideBySide") -> Iterator[Drawing]:
    """Draw all attentions of a pixel, with a frame around it where they are between pixels."""
    row, column = six.place
    pixel = (column, row, 1, 1)
    for number, (title, equation, lines, image) in enumerate(six.pictures):
        # The last attention is between channels.
        framed = pixel if number < len(six.answers) - 1 else None
        text = f"<b>{title}</b><br>{lines}".replace("\n", "<br>")
        yield Drawing(text, image, (0.0, 255.0), equation, framed)


def steps_pictures(steps: AttentionSteps, key: int, query: int) -> Iterator[Drawing]:
    """Draw all steps of a head for key channel i = *key* and query channel j = *query*."""
    logits, attention = steps.matrices.logits[0], steps.matrices.attention[0]
    k, q = steps.keys[key], steps.queries[query]
    values: dict[str, Floats] = {
        "X": steps.features,
        "K": k,
        "Q": q,
        "V": steps.values[query],
        "kq": k * q,
        "L": logits,
        "A": beside_equal(attention),
        "AV": steps.attended(key),
    }
    channels, rows, columns = steps.size
    said = {
        "i": key,
        "j": query,
        "channels": channels,
        "d": len(logits),
        "photo": f"{rows} x {columns}",
        "logit": logits[key, query],
        "share": attention[key, query],
    }
    for name, (caption, formula) in STEPS.items():
        is_matrix = name in MATRICES
        # A matrix has no extremes to clip: each of its cells counts.
        high = _high(values[name], 0 if is_matrix else CLIPPED)
        limits = (0.0 if name in UNSIGNED else -high, high)
        if name == "A":
            limits = (-OCTAVES, OCTAVES)
        cell = (query, key, 1, 1) if is_matrix else None
        yield Drawing(caption.format(**said), values[name], limits, formula, cell, is_matrix)


def story_pictures(steps: AttentionSteps, key: int) -> Iterator[Drawing]:
    """Show in six pictures, in order, what a head does for its output channel i = *key*."""
    logits, attention = steps.matrices.logits[0], steps.matrices.attention[0]
    depth = len(logits)
    partner = int(attention[key].argmax())
    compared = steps.keys[key] * steps.queries[partner]
    mixed = steps.attended(key)
    changed = mixed - steps.values.mean(axis=0)
    size = float(np.linalg.norm(mixed))
    said = {
        "channels": steps.size[0],
        "d": depth,
        "i": key,
        "j": partner,
        "score": logits[key, partner],
        "share": attention[key, partner],
        "times": attention[key, partner] * depth,
        "change": float(np.linalg.norm(changed)) / size if size else 0.0,
    }
    # Both outputs share one scale, so that a small change looks small.
    high = _high(mixed)
    pictures: list[tuple[Floats, float]] = [
        (steps.features, _high(steps.features)),
        (steps.keys[key], _high(steps.keys[key])),
        (compared, _high(compared)),
        (beside_equal(attention), OCTAVES),
        (mixed, high),
        (changed, high),
    ]
    for number, ((title, text), (values, limit)) in enumerate(
        zip(STORY.items(), pictures, strict=True), 1
    ):
        is_matrix = title == DECIDED
        yield Drawing(
            f"<b>{number}. {title}</b>",
            values,
            (0.0 if number == 1 else -limit, limit),
            framed=(partner, key, 1, 1) if is_matrix else None,
            is_matrix=is_matrix,
            text=text.format(**said),
        )


def _high(values: Floats, clipped: float = CLIPPED) -> float:
    """The value of the last colour of a picture."""
    return float(np.percentile(np.abs(values), 100 - clipped)) or 1.0


def matrix_pictures(
    heads: Iterable[RecordedHead], key: int | None, query: int | None
) -> Iterator[Drawing]:
    """Draw the matrices of *heads*, with key channels i down and queries j across.

    The chosen cell is framed, or a whole row or column where one channel is None.
    """
    for chosen in heads:
        depth = chosen.channels
        top, height = (0, depth) if key is None else (key, 1)
        left, width = (0, depth) if query is None else (query, 1)
        block, _, head = chosen.title.rpartition(", ")
        run = escape(shown(chosen.recording.name, NAME))
        title = f"{block}<br>{head}<br>{run}"
        framed = (left, top, width, height)
        weights = beside_equal(chosen.weights)
        yield Drawing(title, weights, (-OCTAVES, OCTAVES), framed=framed, is_matrix=True)


def rollout_pictures(chosen: RecordedHead) -> Iterator[Drawing]:
    """Draw the rollout of each stage of the run of *chosen*."""
    for number, matrix in enumerate(chosen.recording.record.rollouts.values(), 1):
        title = f"stage {number}, all blocks<br>rollout, {len(matrix)} x {len(matrix)}<br>"
        yield Drawing(title, beside_equal(matrix), (-OCTAVES, OCTAVES))


def beside_equal(weights: Floats) -> Floats:
    """Compare *weights* (n, d), whose rows add up to 1, with equal weights of 1 / d, in octaves.

    1 is twice as large, -1 half as large. On this scale equal weights have the same colour in every
    head, and small differences stay pale.
    """
    with np.errstate(divide="ignore"):
        octaves = np.log2(weights * weights.shape[-1])
    return np.clip(octaves, -OCTAVES, OCTAVES)
