"""A figure of attention matrices for notebooks and papers.

It needs matplotlib: `pip install "napari-mst[figures]"`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from napari_mst.errors import AttentionError
from napari_mst.plotting import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLORMAP = "inferno"

COLUMNS = 5
"""Heads in a row of the figure."""

INCHES = 2.4
"""Side of one matrix."""

TitledHead = tuple[str, NDArray[np.float32]]
"""The title and the matrix (d, d) of one head."""


def heads_figure(heads: Sequence[TitledHead]) -> "Figure":
    """The matrices of *heads*, at least one, on one scale from 0 to the largest value of all.

    Raises `AttentionError` if matplotlib is missing.
    """
    columns = min(COLUMNS, len(heads))
    rows = -(-len(heads) // columns)
    size = (INCHES * columns, INCHES * rows)
    figure = new_figure(AttentionError, figsize=size, layout="constrained")
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
