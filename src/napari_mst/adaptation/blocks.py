"""The pixels of a coarse cube as blocks of the fine one, and by how many pixels they are shifted.

A block may end within a pixel, whose share then counts. Letters: B bands, C channels, H rows, W
columns of the fine image; h, w of the coarse one; k rows of a strip.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from napari_mst.adaptation.kernel import Doubles

_FARTHEST = 6
"""Fine pixels that a coarse cube may be off, in each direction."""
_HALVES = (-0.5, 0.0, 0.5)  # pixels, tried around the best whole shift
_DARKEST = 0.01  # linear light, under the logarithm


@dataclass(frozen=True, eq=False)
class Blocks:
    """The edges of blocks: *rows* (h + 1,), *columns* (w + 1,) in fine pixels of *shape* (H, W)."""

    rows: Doubles
    columns: Doubles
    shape: tuple[int, int]

    @property
    def count(self) -> tuple[int, int]:
        """(h, w)."""
        return len(self.rows) - 1, len(self.columns) - 1

    def centres(self) -> Doubles:
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

    def means(self) -> Doubles:
        """Means (C, h, w) over the pixels that count; NaN for blocks without any."""
        area = self._sums[-1]
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(np.where(area > 0, self._sums[:-1] / area, np.nan))


def spread_between(values: Doubles, blocks: Blocks, rows: slice) -> Doubles:
    """*values* (B, h, w) at all pixels of *rows* (B, k, W), linear between the blocks' centres."""
    down = _weights(_centres(blocks.rows), np.arange(float(rows.start), rows.stop) + 0.5)
    across = _weights(_centres(blocks.columns), np.arange(float(blocks.shape[1])) + 0.5)
    along_rows = np.tensordot(down, values, axes=(1, 1))
    return np.asarray(np.moveaxis(along_rows @ across.T, 0, 1))


def _centres(edges: Doubles) -> Doubles:
    return np.add(edges[1:], edges[:-1]) / 2


def _between_edges(values: Doubles, edges: Doubles) -> Doubles:
    """Sums (C, k, w) of *values* (C, k, W) between the column *edges*, with shares of pixels."""
    return np.diff(_at_edges(np.pad(values.cumsum(axis=2), ((0, 0), (0, 0), (1, 0))), edges))


def _at_edges(totals: Doubles, edges: Doubles) -> Doubles:
    """*totals* (..., W + 1) at fractional *edges* (w,) of their columns, linear in between."""
    whole = np.floor(edges).astype(int).clip(0, totals.shape[-1] - 2)
    before = totals[..., whole]
    return np.asarray(before + (totals[..., whole + 1] - before) * (edges - whole))


def _overlaps(edges: Doubles, rows: slice) -> Doubles:
    """Share of each of some *rows* that lies in each block (h, k)."""
    top = np.arange(rows.start, rows.stop)
    upper = np.minimum(edges[1:, None], top + 1)
    return np.asarray((upper - np.maximum(edges[:-1, None], top)).clip(0))


def _weights(centres: Doubles, at: Doubles) -> Doubles:
    """The weights (k, n) of the *centres* (n,) at the places *at* (k,)."""
    units = np.eye(len(centres))
    return np.stack([np.interp(at, centres, unit) for unit in units], axis=1)


FARTHEST = 6
"""Fine pixels that a coarse cube may be off, in each direction."""


def best_shift(
    light: NDArray[np.floating], coarse_light: NDArray[np.floating]
) -> tuple[float, float]:
    """The shift (rows, columns) at which *light* (3, H, W) looks most like the coarse one.

    Both are linear; a gain of the coarse one does not matter. All whole shifts are tried, then half
    ones around.
    """
    # Sums over all pixels above and to the left; unknown pixels are dark.
    sums = np.nan_to_num(light.astype(np.float64)).cumsum(axis=1).cumsum(axis=2)
    totals = np.pad(sums, ((0, 0), (1, 0), (1, 0)))
    logs = np.log(np.maximum(coarse_light, 0) + _DARKEST)

    def difference(shift: tuple[float, float]) -> float:
        return _difference(totals, logs, shift)

    whole = [float(shift) for shift in range(-_FARTHEST, _FARTHEST + 1)]
    first = min(product(whole, whole), key=difference)
    around = [(first[0] + down, first[1] + right) for down, right in product(_HALVES, _HALVES)]
    return min([first, *around], key=difference)


def _difference(totals: Doubles, logs: Doubles, shift: tuple[float, float]) -> float:
    """Mean difference of the logarithms, without what all pixels share."""
    _, height, width = totals.shape
    blocks = blocks_of((height - 1, width - 1), logs.shape[1:], shift)
    rows = _at_edges(totals.swapaxes(1, 2), blocks.rows).swapaxes(1, 2)
    sums = np.diff(np.diff(_at_edges(rows, blocks.columns), axis=1))
    area = np.outer(np.diff(blocks.rows), np.diff(blocks.columns))
    is_whole = area > 0.5 * area.max()
    means = sums[:, is_whole] / area[is_whole]
    differences = np.log(np.maximum(means, 0) + _DARKEST) - logs[:, is_whole]
    centred = differences - np.nanmedian(differences, axis=1, keepdims=True)
    return float(np.nanmean(np.abs(centred)))
