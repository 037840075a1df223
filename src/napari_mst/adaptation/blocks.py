"""The pixels of a coarse cube as blocks of the fine one.

A block may end within a pixel, whose share then counts. Letters: B bands, H rows, W columns of the
fine image; h, w of the coarse one; k rows of a strip.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Edges = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Blocks:
    """The edges of blocks: *rows* (h + 1,), *columns* (w + 1,) in fine pixels of *shape* (H, W)."""

    rows: Edges
    columns: Edges
    shape: tuple[int, int]

    @property
    def count(self) -> tuple[int, int]:
        """(h, w)."""
        return len(self.rows) - 1, len(self.columns) - 1

    def centres(self) -> NDArray[np.float64]:
        """Row and column of the centre of every block (h w, 2), in fine pixels."""
        rows, columns = (_centres(edges) for edges in (self.rows, self.columns))
        grid = np.meshgrid(rows, columns, indexing="ij")
        return np.stack([axis.ravel() for axis in grid], axis=1)


def blocks_of(shape: tuple[int, int], count: tuple[int, int], shift: tuple[float, float]) -> Blocks:
    """*count* (h, w) blocks all over an image (H, W), moved by *shift* and cut at its border."""
    edges = [
        np.clip(np.linspace(0, length, number + 1) + by, 0, length)
        for length, number, by in zip(shape, count, shift, strict=True)
    ]
    return Blocks(edges[0], edges[1], shape)


class BlockSums:
    """Adds up the rows of an image, as they come, over blocks."""

    def __init__(self, blocks: Blocks, channels: int) -> None:
        self._blocks = blocks
        self._sums = np.zeros((channels + 1, *blocks.count))

    def add(self, rows: slice, values: NDArray[np.floating]) -> None:
        """Add the *values* (C, k, W) of some *rows*; a pixel with a NaN does not count."""
        is_known = np.isfinite(values).all(axis=0)
        known = np.where(is_known, values, 0)
        counted = np.concatenate([known, is_known[None]]).astype(np.float64)
        across = _between_edges(counted, self._blocks.columns)
        weights = _overlaps(self._blocks.rows, rows)
        touched = np.flatnonzero(weights.any(axis=1))
        if touched.size:
            part = slice(touched[0], touched[-1] + 1)
            self._sums[:, part] += np.einsum("hk,ckw->chw", weights[part], across)

    def means(self) -> NDArray[np.float64]:
        """Means (C, h, w) over the pixels that count; NaN for blocks without any."""
        area = self._sums[-1]
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(np.where(area > 0, self._sums[:-1] / area, np.nan))


def spread_between(values: NDArray[np.float64], blocks: Blocks, rows: slice) -> NDArray[np.float64]:
    """*values* (B, h, w) at all pixels of *rows* (B, k, W), linear between the blocks' centres."""
    down = _weights(_centres(blocks.rows), np.arange(float(rows.start), rows.stop) + 0.5)
    across = _weights(_centres(blocks.columns), np.arange(float(blocks.shape[1])) + 0.5)
    along_rows = np.tensordot(down, values, axes=(1, 1))
    return np.asarray(np.moveaxis(along_rows @ across.T, 0, 1))


def _centres(edges: Edges) -> Edges:
    return np.add(edges[1:], edges[:-1]) / 2


def _between_edges(values: NDArray[np.float64], edges: Edges) -> NDArray[np.float64]:
    """Sums (C, k, w) of *values* (C, k, W) between the column *edges*, with shares of pixels."""
    totals = np.zeros((*values.shape[:2], values.shape[2] + 1))
    np.cumsum(values, axis=2, out=totals[:, :, 1:])
    whole = np.floor(edges).astype(int).clip(0, values.shape[2] - 1)
    at_edges = totals[:, :, whole] + values[:, :, whole] * (edges - whole)
    return np.diff(at_edges, axis=2)


def _overlaps(edges: Edges, rows: slice) -> NDArray[np.float64]:
    """Share of each of some *rows* that lies in each block (h, k)."""
    top = np.arange(rows.start, rows.stop)
    upper = np.minimum(edges[1:, None], top + 1)
    return np.asarray((upper - np.maximum(edges[:-1, None], top)).clip(0))


def _weights(centres: NDArray[np.float64], at: NDArray[np.float64]) -> NDArray[np.float64]:
    """The weights (k, n) of the *centres* (n,) at the places *at* (k,)."""
    units = np.eye(len(centres))
    return np.stack([np.interp(at, centres, unit) for unit in units], axis=1)
