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
"""Pixels from which on it is worth it."""
MOST_CHANGED = 0.25
"""Share of the pixels beyond which all are read again."""


@dataclass(eq=False)
class Sums:
    """Of the pixels of *region*: their values and squares about *centre*, (B,) each."""

    data: "weakref.ref[NDArray[Any]]"
    region: Region
    centre: Values
    values: Values
    squares: Values

    @classmethod
    def of(cls, data: NDArray[Any], region: Region) -> "Sums":
        """By reading every pixel."""
        mean, deviation = mean_and_std(pixel_blocks(data, region), len(data))
        return cls(weakref.ref(data), region, mean, np.zeros(len(data)), deviation**2 * region.size)

    def moved(self, data: NDArray[Any], region: Region) -> "Sums":
        """Of another *region*, by reading those pixels that only one of both has."""
        came, went = _differences(region, self.region, data.shape[2])
        if came.size + went.size > MOST_CHANGED * region.size:
            return Sums.of(data, region)
        flat, values, squares = data.reshape(len(data), -1), self.values.copy(), self.squares.copy()
        for pixels, sign in ((came, 1), (went, -1)):
            off = np.take(flat, pixels, axis=1) - self.centre[:, None]
            values += sign * off.sum(axis=1)
            squares += sign * np.einsum("bn,bn->b", off, off)
        return Sums(self.data, region, self.centre, values, squares)

    def mean_and_std(self) -> tuple[Values, Values]:
        """(B,) mean and standard deviation."""
        off = self.values / self.region.size
        return self.centre + off, np.sqrt(np.maximum(self.squares / self.region.size - off**2, 0))


class MovingMeans:
    """Remembers the large region that was read last; used by one thread at a time."""

    def __init__(self) -> None:
        self._last: tuple[Hashable, Sums] | None = None

    def forget(self) -> None:
        """Remember nothing."""
        self._last = None

    def mean_and_std(
        self, slot: Hashable, cube: SpectralCube, region: Region
    ) -> tuple[Values, Values] | None:
        """(B,) mean and deviation of the *region* that is called *slot*; None if it is better read as any other.

        That is so if it is small, not in memory or mapped in one piece, or has pixels that are not numbers.
        """
        data: Any = cube.data
        if region.size < LARGE or not isinstance(data, np.ndarray) or not data.flags.c_contiguous:
            return None
        last, self._last = self._last, None
        is_known = last is not None and last[0] == slot and last[1].data() is data
        sums = (
            last[1].moved(data, region) if last is not None and is_known else Sums.of(data, region)
        )
        if not np.isfinite(sums.values + sums.centre).all():
            return None
        self._last = slot, sums
        return sums.mean_and_std()


def _differences(one: Region, two: Region, width: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Pixels of an image of *width* columns, counted along its rows, that only *one* has, and only *two*."""
    first = np.minimum((one.row, one.column), (two.row, two.column))
    ends = [np.add((region.row, region.column), region.mask.shape) for region in (one, two)]
    masks = np.zeros((2, *(np.maximum(*ends) - first)), dtype=bool)
    for mask, region in zip(masks, (one, two), strict=True):
        row, column = (region.row, region.column) - first
        mask[row : row + region.mask.shape[0], column : column + region.mask.shape[1]] = region.mask
    rows, columns = np.nonzero(masks[0] ^ masks[1])
    of_one, pixels = masks[0][rows, columns], (rows + first[0]) * width + columns + first[1]
    return pixels[of_one], pixels[~of_one]
