"""Non-local means of a block of pixels in NumPy: the reference of `kernel`, and its stand-in.

Each pixel gets the same operations of IEEE 754 in the same order, wherever it lies in a block. So a
part of an image has the very bits of the whole. Letters: C channels, K values, h, w sides of a
block, o half a patch.

So its exponential function is one of operations that NumPy and compiled code do alike: with x = n
ln 2 + r and |r| <= ln(2) / 2, exp(x) is 2^n exp(r), and exp(r) is its Taylor polynomial. Cody &
Waite, Software Manual for the Elementary Functions (1980), chapter 6.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from napari_mst.arrays import Doubles

LEAST = -700.0
"""The least argument. Below it results would be denormal, which is slow, and weigh nothing."""

_LOG2_E = 1.4426950408889634

# Both add up to ln 2. The product of n and the first has no rounding error.
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10

# 1.5 x 2^52: a float64 that it is added to loses its fraction, and its lowest bits are then n.
_TO_WHOLE = 6755399441055744.0
_EXPONENT_BIT = 52


def exponential(x: Any) -> Any:
    """exp(x) of float64 numbers or an array, `LEAST` <= x <= 0, to 2e-16 of the result.

    There is no branch, so that a compiler takes several numbers at a time.
    """
    shifted = x * _LOG2_E + _TO_WHOLE
    n = shifted - _TO_WHOLE
    r = (x - n * _LN2_HIGH) - n * _LN2_LOW
    p = r * (1 / 6227020800) + 1 / 479001600
    p = p * r + 1 / 39916800
    p = p * r + 1 / 3628800
    p = p * r + 1 / 362880
    p = p * r + 1 / 40320
    p = p * r + 1 / 5040
    p = p * r + 1 / 720
    p = p * r + 1 / 120
    p = p * r + 1 / 24
    p = p * r + 1 / 6
    p = p * r + 1 / 2
    p = p * r + 1
    p = p * r + 1
    bits = np.float64(p).view(np.int64) + (np.float64(shifted).view(np.int64) << _EXPONENT_BIT)
    return np.int64(bits).view(np.float64)


class Block(NamedTuple):
    """Some pixels, and all that they look at.

    Attributes
    ----------
    padded
        (C, h + 2 o, w + 2 o): the image, reflected at its edges.
    values
        (K, h, w): the numbers that are averaged.
    taps
        (2 o + 1,): weights of a patch along one axis, which add up to 1.
    distance
        The pixels to each side that a pixel looks at.
    scale
        The negative factor that takes squared differences to the exponent of a weight.
    free
        The squared difference that noise alone explains.
    """

    padded: Doubles
    values: Doubles
    taps: Doubles
    distance: int
    scale: float
    free: float


class Tile(NamedTuple):
    """The pixels of a block that are computed: rows top to bottom, columns left to right."""

    top: int
    bottom: int
    left: int
    right: int


def attend(block: Block, tile: Tile, means: Doubles) -> None:
    """Put the non-local means of the pixels of *tile* into *means* (K, rows, columns)."""
    total = np.zeros(means.shape[1:])
    means[:] = 0
    for down, right, near in _shifts(block, tile):
        weights = _weights(block, near, down, right)
        here = np.s_[near.top - tile.top : near.bottom - tile.top, _columns(near, tile)]
        total[here] += weights
        others = np.s_[near.top + down : near.bottom + down, near.left + right : near.right + right]
        for mean, plane in zip(means, block.values, strict=True):
            mean[here] += weights * plane[others]
    means /= total


def _columns(near: Tile, tile: Tile) -> slice:
    return slice(near.left - tile.left, near.right - tile.left)


def _shifts(block: Block, tile: Tile) -> Iterator[tuple[int, int, Tile]]:
    """Every shift to another pixel, and the part of *tile* from which it stays in the block."""
    _, height, width = block.values.shape
    reach = range(-block.distance, block.distance + 1)
    for down in reach:
        top = max(tile.top, -down)
        bottom = min(tile.bottom, height - down)
        for right in reach:
            left = max(tile.left, -right)
            end = min(tile.right, width - right)
            if top < bottom and left < end:
                yield down, right, Tile(top, bottom, left, end)


def _weights(block: Block, near: Tile, down: int, right: int) -> Doubles:
    """The weights of the pixels that lie *down* and *right* of those of *near*."""
    border = len(block.taps) - 1
    rows = slice(near.top, near.bottom + border)
    columns = slice(near.left, near.right + border)
    other_rows = slice(rows.start + down, rows.stop + down)
    other_columns = slice(columns.start + right, columns.stop + right)
    squares = np.zeros((rows.stop - rows.start, columns.stop - columns.start))
    for channel in block.padded:
        off = channel[rows, columns] - channel[other_rows, other_columns]
        squares += off * off
    along_rows = _filtered(squares, block.taps, near.right - near.left, axis=1)
    squared = _filtered(along_rows, block.taps, near.bottom - near.top, axis=0)
    exponent = np.maximum(squared - block.free, 0.0) * block.scale
    weights: Doubles = exponential(np.maximum(exponent, LEAST))
    return weights


def _filtered(image: Doubles, taps: Doubles, length: int, axis: int) -> Doubles:
    """*image* filtered along *axis*, which is shortened to *length*."""

    def moved(tap: int) -> Any:
        part = slice(tap, tap + length)
        return image[:, part] if axis else image[part]

    sums: Doubles = taps[0] * moved(0)
    for tap in range(1, len(taps)):
        sums += taps[tap] * moved(tap)
    return sums
