"""The labelled pixels of an image, grouped by label, and sums over each group.

Letters: B bands, k rows of a strip, W columns; n labelled pixels of a strip; m labels in it, N in
all.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_mst.spectra.spectrum import Values

Numbers = NDArray[np.integer[Any]]
"""Whole numbers: an image of labels, or the labels themselves."""


@dataclass(frozen=True, eq=False)
class Groups:
    """The labelled pixels of a strip, those of one label side by side.

    Attributes
    ----------
    order
        (n,) where each pixel is in the flattened strip.
    starts, sizes
        (m,) the first pixel of each label, and how many it has.
    labels
        (m,) which of the labels each group is, 0 to N - 1.
    """

    order: NDArray[np.intp]
    starts: NDArray[np.intp]
    sizes: NDArray[np.intp]
    labels: NDArray[np.intp]

    @classmethod
    def of(cls, part: Numbers, numbers: Numbers) -> "Groups":
        """The pixels of *part* (k, W) that are not 0; *numbers* (N,) are all labels, rising."""
        flat = part.reshape(-1)
        order = np.flatnonzero(flat)
        order = order[np.argsort(flat[order], kind="stable")]
        found = flat[order]
        if not found.size:
            return cls(order, order, order, np.searchsorted(numbers, found))
        starts = np.flatnonzero(np.diff(found, prepend=found[:1] - 1))
        sizes = np.diff(starts, append=order.size)
        return cls(order, starts, sizes, np.searchsorted(numbers, found[starts]))

    def only(self, wanted: NDArray[np.bool_]) -> "Groups":
        """The pixels that are *wanted*, (n,)."""
        sizes = np.add.reduceat(wanted, self.starts, dtype=np.intp)
        is_kept = sizes > 0
        starts = (np.cumsum(sizes) - sizes)[is_kept]
        return Groups(self.order[wanted], starts, sizes[is_kept], self.labels[is_kept])

    def of_image(self, strip: NDArray[Any]) -> Values:
        """(B, n) float64 of the numbers (B, k, W) of a strip."""
        return np.take(strip.reshape(len(strip), -1), self.order, axis=1).astype(np.float64)

    def total(self, values: Values) -> Values:
        """(B, m) sums over each label of (B, n) *values*."""
        return np.asarray(np.add.reduceat(values, self.starts, axis=1))

    def spread_out(self, values: Any) -> Any:
        """(B, n) of (B, m) *values*: each pixel gets that of its label."""
        return np.repeat(values, self.sizes, axis=-1)


class Moments:
    """Count, mean and squared deviations of each label, strip by strip.

    Strips are merged as in `regions.mean_and_std`.
    """

    def __init__(self, labels: int, bands: int) -> None:
        self.count = np.zeros(labels, dtype=np.int64)
        self.mean = np.zeros((bands, labels))
        self._squares = np.zeros((bands, labels))

    def add(self, groups: Groups, values: Values) -> None:
        """Count (B, n) *values* in, which are overwritten."""
        at = groups.labels
        new = groups.sizes
        before = self.count[at]
        mean = groups.total(values) / new
        values -= groups.spread_out(mean)
        step = mean - self.mean[:, at]
        squares = groups.total(np.square(values, out=values))
        self._squares[:, at] += squares + step**2 * (before * new / (before + new))
        self.mean[:, at] += step * (new / (before + new))
        self.count[at] += new

    def deviation(self) -> Values:
        """(B, N) standard deviations; NaN for a label without pixels."""
        with np.errstate(invalid="ignore"):
            return np.asarray(np.sqrt(self._squares / self.count))


def label_numbers(labels: Numbers) -> Numbers:
    """(N,) the values of an image of labels but 0, rising."""
    numbers = np.unique(labels)
    return np.asarray(numbers[numbers != 0])


def label_groups(labels: Numbers, numbers: Numbers, rows: slice) -> Groups | None:
    """The labelled pixels of some *rows*; None if there are none."""
    groups = Groups.of(labels[rows], numbers)
    return groups if groups.order.size else None
