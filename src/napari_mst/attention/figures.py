"""A figure of attention matrices for notebooks and papers; needs matplotlib (`pip install "napari-mst[figures]"`)."""

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

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
    """The attention of all heads of *blocks* (default: all that were recorded), on one scale from 0 to the largest.

    Raises
    ------
    AttentionError
        If matplotlib is missing, the record is empty, or a block is not in it.
    """
    figure_class = _figure_class()
    heads = [
        (
            f"{block_title(name, len(matrices.attention) * matrices.attention.shape[1])}, head {head}",
            matrix,
        )
        for name, matrices in ((name, record[name]) for name in (blocks or record or ("",)))
        for head, matrix in enumerate(matrices.attention)
    ]
    columns = min(COLUMNS, len(heads))
    rows = -(-len(heads) // columns)
    figure = figure_class(figsize=(INCHES * columns, INCHES * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
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


def _figure_class() -> "type[Figure]":
    """That of matplotlib. Where it is missing, colour-science puts mocks of its modules into their place."""
    try:
        import_module("matplotlib.pyplot")  # once it is loaded, notebooks show figures
        found: object = import_module("matplotlib.figure").Figure
    except ImportError:
        found = None
    if not isinstance(found, type):
        advice = 'Run: pip install "napari-mst[figures]"'
        raise AttentionError(f"Expected matplotlib for a figure, got none. {advice}.")
    return found
