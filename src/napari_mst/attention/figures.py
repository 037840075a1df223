"""A figure of attention matrices for notebooks and papers.

It needs matplotlib: `pip install "napari-mst[figures]"`.
"""

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from napari_mst.attention.record import AttentionRecord, block_title
from napari_mst.errors import AttentionError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLORMAP = "inferno"

COLUMNS = 5
"""Heads in a row of the figure."""

INCHES = 2.4
"""Side of one matrix."""


def attention_figure(record: AttentionRecord, blocks: Sequence[str] | None = None) -> "Figure":
    """The attention of all heads of *blocks*, on one scale from 0 to the largest.

    By default these are all blocks that were recorded.

    Raises
    ------
    AttentionError
        If matplotlib is missing, the record is empty, or a block is not in it.
    """
    figure_class = _figure_class()
    heads = _titled_heads(record, list(blocks or record))
    columns = min(COLUMNS, len(heads))
    rows = -(-len(heads) // columns)
    figure = figure_class(figsize=(INCHES * columns, INCHES * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    # One scale for all heads, so that their colours can be compared.
    largest = max(float(matrix.max()) for _, matrix in heads)
    for axis, (title, matrix) in zip(axes, heads, strict=False):
        image = axis.imshow(matrix, vmin=0, vmax=largest, cmap=COLORMAP)
        axis.set_title(title, fontsize=7)
        axis.tick_params(labelsize=6)
    for axis in axes[len(heads) :]:
        axis.axis("off")
    figure.supxlabel("query channel j (feature channels, not wavelengths)", fontsize=8)
    figure.supylabel("key channel i", fontsize=8)
    figure.colorbar(image, ax=list(axes), label="attention A_ij; each row sums to 1", shrink=0.6)
    return figure


def _titled_heads(
    record: AttentionRecord, blocks: list[str]
) -> list[tuple[str, NDArray[np.float32]]]:
    """The title and the matrix (d, d) of every head of *blocks*."""
    titled = []
    for name in blocks or [""]:  # of an empty record, any block is the one that is missing
        matrices = record[name].attention
        heads, depth, _ = matrices.shape
        title = block_title(name, heads * depth)
        titled += [(f"{title}, head {head}", matrix) for head, matrix in enumerate(matrices)]
    return titled


def _figure_class() -> "type[Figure]":
    """The class of figures of matplotlib."""
    try:
        import_module("matplotlib.pyplot")  # once it is loaded, notebooks show figures
        found: object = import_module("matplotlib.figure").Figure
    except ImportError:
        found = None
    # Where matplotlib is missing, colour-science puts mocks of its modules into their place.
    if not isinstance(found, type):
        advice = 'Run: pip install "napari-mst[figures]"'
        raise AttentionError(f"Expected matplotlib for a figure, got none. {advice}.")
    return found
