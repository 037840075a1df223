"""Mean spectra of a large region while it is dragged: only the pixels that come and go are read.

Letters: B bands, H rows, W columns; n pixels.
"""

import weakref
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_mst.cube import SpectralCube
from napari_mst.spectra.regions import Region, mean_and_std, pixel_blocks
from napari_mst.spectra.spectrum import Values

LARGE = 2**17
"""Fewest pixels of a region for which this is worth it."""
MOST_CHANGED = 0.25
"""Share of the pixels that may come and go; beyond it, all are read again."""


@dataclass(eq=False)
class Sums:
    """Sums over the pixels of a region.

    Attributes
    ----------
    data
        The numbers of the cube, which this does not keep alive.
    centre
        (B,) a value near the mean, which is subtracted first so that no digits are lost.
    values, squares
        (B,) sums of the differences from *centre*, and of their squares.
    """

    data: "weakref.ref[NDArray[Any]]"
    region: Region
    centre: Values
    values: Values
    squares: Values

    @classmethod
    def of(cls, data: NDArray[Any], region: Region) -> "Sums":
        """Read every pixel of *region*."""
        mean, deviation = mean_and_std(pixel_blocks(data, region), len(data))
        return cls(weakref.ref(data), region, mean, np.zeros(len(data)), deviation**2 * region.size)

    def moved(self, data: NDArray[Any], region: Region) -> "Sums":
        """The sums of another *region*; only the pixels that one of both lacks are read."""
        came, went = _differences(region, self.region, data.shape[2])
        if came.size + went.size > MOST_CHANGED * region.size:
            return Sums.of(data, region)
        flat = data.reshape(len(data), -1)
        values = self.values.copy()
        squares = self.squares.copy()
        for pixels, sign in ((came, 1), (went, -1)):
            off = np.take(flat, pixels, axis=1) - self.centre[:, None]
            values += sign * off.sum(axis=1)
            squares += sign * np.einsum("bn,bn->b", off, off)
        return Sums(self.data, region, self.centre, values, squares)

    def mean_and_std(self) -> tuple[Values, Values]:
        """(B,) mean and standard deviation."""
        off = self.values / self.region.size
        # Rounding may leave a variance a little below zero.
        variance = np.maximum(self.squares / self.region.size - off**2, 0)
        return self.centre + off, np.sqrt(variance)


class MovingMeans:
    """Remembers the large region that was read last. Only one thread at a time may use it."""

    def __init__(self) -> None:
        self._last: tuple[Hashable, Sums] | None = None

    def forget(self) -> None:
        """Remember nothing."""
        self._last = None

    def mean_and_std(
        self, slot: Hashable, cube: SpectralCube, region: Region
    ) -> tuple[Values, Values] | None:
        """(B,) mean and deviation of *region*; None if it is better read in the usual way.

        *slot* says which region was dragged here. The usual way is better if the region is small,
        the cube is not in one piece in memory or in a memory map, or a value is not a number.
        """
        data: Any = cube.data
        if region.size < LARGE or not isinstance(data, np.ndarray) or not data.flags.c_contiguous:
            return None
        last = self._last
        self._last = None
        if last is not None and last[0] == slot and last[1].data() is data:
            sums = last[1].moved(data, region)
        else:
            sums = Sums.of(data, region)
        if not np.isfinite(sums.values + sums.centre).all():
            return None
        self._last = slot, sums
        return sums.mean_and_std()


def _differences(one: Region, two: Region, width: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The pixels that only *one* has, and the pixels that only *two* has.

    They are numbered along the rows of an image of *width* columns.
    """
    # Both masks in the smallest box that holds them.
    top = min(one.row, two.row)
    left = min(one.column, two.column)
    bottom = max(region.box[0].stop for region in (one, two))
    right = max(region.box[1].stop for region in (one, two))
    masks = np.zeros((2, bottom - top, right - left), dtype=bool)
    for mask, region in zip(masks, (one, two), strict=True):
        height, breadth = region.mask.shape
        row = region.row - top
        column = region.column - left
        mask[row : row + height, column : column + breadth] = region.mask
    rows, columns = np.nonzero(masks[0] ^ masks[1])
    is_of_one = masks[0][rows, columns]
    pixels = (rows + top) * width + columns + left
    return pixels[is_of_one], pixels[~is_of_one]
