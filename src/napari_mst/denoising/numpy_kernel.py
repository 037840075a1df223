"""Non-local means of a block of pixels in NumPy: the reference of `kernel`, and its stand-in.

Letters: C channels, K values, h, w sides of a block, d pixels that one looks at to each side,
o half a patch.
"""

from itertools import product
from typing import NamedTuple

import numpy as np

from napari_mst.base.arrays import Doubles


class ImageBlock(NamedTuple):
    """A block of pixels, with all the pixels that they look at.

    Attributes
    ----------
    image
        (C, h + 2 (o + d), w + 2 (o + d)): the image, reflected at its edges, and zeros.
    values
        (K, h + 2 d, w + 2 d): the numbers that are averaged, and zeros; the last plane is 1 where
        pixels are known.
    taps
        (2 o + 1,): weights of a patch along one axis, which add up to 1.
    distance
        The pixels to each side that a pixel looks at.
    scale
        The negative factor that takes squared differences to the exponent of a weight.
    free
        The squared difference that noise alone explains.
    """

    image: Doubles
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

    def moved(self, down: int, right: int, more: int = 0) -> tuple[slice, slice]:
        """The rows and columns of the tile, moved, and *more* of them."""
        rows = slice(self.top + down, self.bottom + down + more)
        return rows, slice(self.left + right, self.right + right + more)


def attend(block: ImageBlock, tile: Tile) -> Doubles:
    """The sums (K, rows, columns) of the values of *block*, by their weights."""
    distance, border = block.distance, len(block.taps) - 1
    here = block.image[:, *tile.moved(distance, distance, border)]
    sums = np.zeros((len(block.values), tile.bottom - tile.top, tile.right - tile.left))
    for down, right in product(range(2 * distance + 1), repeat=2):
        off: Doubles = here - block.image[:, *tile.moved(down, right, border)]
        squares = np.square(off).sum(axis=0)
        squared = _filtered(_filtered(squares, block.taps).T, block.taps).T
        weights = np.exp(np.maximum(squared - block.free, 0.0) * block.scale)
        sums += weights * block.values[:, *tile.moved(down, right)]
    return sums


def _filtered(image: Doubles, taps: Doubles) -> Doubles:
    """*image* filtered along its last axis, which loses a patch less one pixel."""
    length = image.shape[1] - len(taps) + 1
    # In one order, wherever a pixel lies: a product of matrices has another one for each shape.
    return sum(tap * image[:, i : i + length] for i, tap in enumerate(taps))
