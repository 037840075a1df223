"""`blocks.attend`, compiled by numba: the same operations in the same order, and so the same bits.

It goes row by row, so that what is added up for a shift stays in the fastest cache.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from napari_mst.denoising.blocks import LEAST, Block, Tile, exponential
from napari_mst.engine.kernels.caching import compiled

_exponential = njit(inline="always")(exponential)


@njit
def _filter_row(block: Block, row: int, near: Tile, shift: Any, sums: Any) -> None:
    """Put the squared differences of one *row* of the padded image, filtered, into *sums* (w,)."""
    down, right = shift
    border = len(block.taps) - 1
    width = near.right - near.left
    squares = np.zeros(width + border)
    for channel in range(block.padded.shape[0]):
        here = block.padded[channel, row, near.left : near.right + border]
        start = near.left + right
        there = block.padded[channel, row + down, start : start + width + border]
        for x in range(width + border):
            off = here[x] - there[x]
            squares[x] += off * off
    for x in range(width):
        sums[x] = block.taps[0] * squares[x]
    for tap in range(1, border + 1):
        for x in range(width):
            sums[x] += block.taps[tap] * squares[x + tap]


@njit
def _weigh_row(block: Block, rows: Any, weights: Any, width: int) -> None:
    """Put the weights of *width* pixels into *weights*, from filtered *rows* of their patches."""
    for x in range(width):
        weights[x] = block.taps[0] * rows[0, x]
    for tap in range(1, len(block.taps)):
        for x in range(width):
            weights[x] += block.taps[tap] * rows[tap, x]
    for x in range(width):
        exponent = max(weights[x] - block.free, 0.0) * block.scale
        weights[x] = _exponential(max(exponent, LEAST))


@njit
def _divide(means: Any, total: Any) -> None:
    for k in range(len(means)):
        means[k] /= total


@njit
def _add_row(weights: Any, others: Any, sums: Any) -> None:
    for x in range(len(others)):
        sums[x] += weights[x] * others[x]


@compiled
def attend(block: Block, tile: Tile, means: NDArray[np.float64]) -> None:
    """Put the non-local means of the pixels of *tile* into *means* (K, rows, columns)."""
    border = len(block.taps) - 1
    count, height, width = block.values.shape
    rows = np.empty((tile.bottom - tile.top + border, tile.right - tile.left))
    weights = np.empty(tile.right - tile.left)
    total = np.zeros(means.shape[1:])
    means[:] = 0.0
    for down in range(-block.distance, block.distance + 1):
        top = max(tile.top, -down)
        bottom = min(tile.bottom, height - down)
        for right in range(-block.distance, block.distance + 1):
            left = max(tile.left, -right)
            end = min(tile.right, width - right)
            if top >= bottom or left >= end:
                continue
            near = Tile(top, bottom, left, end)
            columns = slice(left - tile.left, end - tile.left)
            for row in range(top, bottom + border):
                _filter_row(block, row, near, (down, right), rows[row - top])
            for row in range(top, bottom):
                _weigh_row(block, rows[row - top :], weights, end - left)
                sums = total[row - tile.top, columns]
                for x in range(end - left):
                    sums[x] += weights[x]
                for k in range(count):
                    others = block.values[k, row + down, left + right : end + right]
                    _add_row(weights, others, means[k, row - tile.top, columns])
    _divide(means, total)
