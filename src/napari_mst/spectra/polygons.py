"""The pixels inside a polygon, by the even-odd rule.

Letters: h, w of the box around the polygon.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from napari_mst.spectra.spectrum import Values

Mask = NDArray[np.bool_]

ON_EDGE = 1e-9
"""Distance in pixels within which a pixel centre lies on an edge."""


class _Edge(NamedTuple):
    """One side of a polygon, from its upper to its lower end."""

    row: float
    column: float
    end_row: float
    end_column: float

    @property
    def is_level(self) -> bool:
        """True if it runs along a row."""
        return self.end_row - self.row <= ON_EDGE

    def rows(self, height: int) -> NDArray[np.intp]:
        """The rows of the box that it meets."""
        first = max(0, np.ceil(self.row - ON_EDGE))
        last = min(height - 1, np.floor(self.end_row + ON_EDGE))
        return np.arange(first, last + 1, dtype=int)


def polygon_mask(corners: Values, height: int, width: int) -> Mask:
    """(h, w) True for the pixels whose centres are inside the polygon or on its edge.

    *corners* are (row, column) in the box. What the polygon encloses twice is outside.
    """
    crossings = np.zeros((height, width + 1), dtype=bool)
    on_edge = np.zeros((height, width), dtype=bool)
    for start, end in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        (row, column), (end_row, end_column) = sorted((tuple(start), tuple(end)))
        edge = _Edge(row, column, end_row, end_column)
        if edge.is_level:
            _mark_level(on_edge, edge)
        else:
            _mark_slanted(crossings, on_edge, edge)
    # From left to right, each crossing of the outline turns outside into inside and back.
    inside = np.logical_xor.accumulate(crossings[:, :width], axis=1)
    return inside | on_edge


def _mark_level(on_edge: Mask, edge: _Edge) -> None:
    """Mark the pixels on an edge along a row. Such an edge is crossed nowhere."""
    left = max(0, int(np.ceil(edge.column - ON_EDGE)))
    right = int(np.floor(edge.end_column + ON_EDGE)) + 1
    on_edge[edge.rows(len(on_edge)), left : max(left, right)] = True


def _mark_slanted(crossings: Mask, on_edge: Mask, edge: _Edge) -> None:
    """Mark where an edge crosses the rows, and the pixels that lie on it."""
    height, width = on_edge.shape
    rows = edge.rows(height)
    slope = (edge.end_column - edge.column) / (edge.end_row - edge.row)
    at = edge.column + (rows - edge.row) * slope
    nearest = np.rint(at)
    is_on = (np.abs(at - nearest) <= ON_EDGE) & (nearest >= 0) & (nearest < width)
    on_edge[rows[is_on], nearest[is_on].astype(int)] = True
    # The lower end belongs to the next edge, so that a corner is crossed once.
    is_crossed = (rows >= edge.row) & (rows < edge.end_row)
    first_right = np.clip(np.ceil(at[is_crossed]), 0, width).astype(int)
    crossings[rows[is_crossed], first_right] ^= True
