"""Means and deviations of labelled pixels, many labels in one pass: a region is an image of one.

Letters: B bands, h, w of the image of labels, n labelled pixels of a block; m labels in it, N in
all.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from napari_mst.base.arrays import Array, Doubles, Indices, Mask
from napari_mst.base.errors import SpectrumError, shown
from napari_mst.base.progress import NO_PROGRESS, Progress
from napari_mst.cube import SpectralCube
from napari_mst.cube.gaps import in_all_bands, usable
from napari_mst.cube.spectrum import STD, Origin

READ_PIXELS = 2**18
"""Number of pixels read at a time if reading copies them, as from a chunked cube."""
BLOCK_PIXELS = 2**13
"""Pixels that are averaged at a time; as float64 they stay in a processor's cache."""

LabelNumbers = NDArray[np.integer[Any]]
"""Whole numbers: an image of labels, or the labels themselves."""

PixelArea = tuple[float, str]
"""The area that one pixel covers, and its unit."""
IN_PIXELS: PixelArea = (1.0, "pixel")
"""Areas are numbers of pixels."""

Spread = Literal["std", ""]
"""Bounds of a mean: one standard deviation away, or none."""


@dataclass(frozen=True, eq=False)
class Groups:
    """The labelled pixels of a block, sorted by label.

    Attributes
    ----------
    order
        (n,) where each pixel is in the flattened block.
    starts, sizes
        (m,) the first pixel of each label, and how many it has.
    labels
        (m,) which of the labels each group is, 0 to N - 1.
    """

    order: Indices
    starts: Indices
    sizes: Indices
    labels: Indices

    @classmethod
    def of(cls, part: LabelNumbers, numbers: LabelNumbers) -> "Groups":
        """The pixels of *part* (h, w) that are not 0; *numbers* (N,) are all labels, rising."""
        flat = part.reshape(-1)
        order = np.flatnonzero(flat != 0)
        if len(numbers) > 1:
            order = order[np.argsort(flat[order], kind="stable")]
        ordered = flat[order]
        starts = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))
        sizes = np.diff(starts, append=order.size)
        return cls(order, starts, sizes, np.searchsorted(numbers, ordered[starts]))

    def only(self, chosen: Mask) -> "Groups":
        """Return the *chosen* pixels, (n,)."""
        if chosen.all():
            return self
        sizes = np.add.reduceat(chosen, self.starts, dtype=np.intp)
        is_kept = sizes > 0
        starts = (np.cumsum(sizes) - sizes)[is_kept]
        return Groups(self.order[chosen], starts, sizes[is_kept], self.labels[is_kept])

    def of_image(self, block: Array) -> Doubles:
        """(B, n) float64 of the numbers (B, h, w) of a block."""
        flat = block.reshape(len(block), -1)
        # All pixels in their order are the block itself.
        is_whole = len(self.starts) == 1 and self.order.size == flat.shape[1]
        return (flat if is_whole else np.take(flat, self.order, axis=1)).astype(np.float64)

    def total(self, values: Doubles) -> Doubles:
        """(B, m) sums over each label of (B, n) *values*."""
        return np.add.reduceat(values, self.starts, axis=1)

    def spread_out(self, values: Any) -> Any:
        """(B, n) of (B, m) *values*: each pixel gets the value of its label."""
        return values if len(self.sizes) == 1 else np.repeat(values, self.sizes, axis=-1)


class Moments:
    """Count, mean and squared deviations of B bands of each of N labels, block by block.

    Blocks are merged as in Chan, Golub & LeVeque, The American Statistician 37 (1983) 242,
    doi:10.2307/2683386.

    Attributes
    ----------
    count
        (B, N) how many numbers each band of each label has.
    """

    def __init__(self, bands: int, labels: int = 1) -> None:
        self.count, self._mean, self._squares = np.zeros((3, bands, labels))

    def add(self, groups: Groups, values: Doubles) -> None:
        """Count (B, n) *values* in, which are overwritten; NaN and infinity do not count."""
        at = groups.labels
        is_none = ~np.isfinite(values)
        np.copyto(values, 0, where=is_none)
        count = groups.total(1.0 - is_none)
        mean = groups.total(values) / np.maximum(count, 1)
        values -= groups.spread_out(mean)
        np.copyto(values, 0, where=is_none)
        squares = groups.total(np.square(values, out=values))
        share = count / np.maximum(self.count[:, at] + count, 1)
        step = mean - self._mean[:, at]
        self._squares[:, at] += squares + step**2 * (self.count[:, at] * share)
        self._mean[:, at] += step * share
        self.count[:, at] += count

    @property
    def mean(self) -> Doubles:
        """(B, N); NaN where there are no numbers."""
        return np.where(self.count != 0, self._mean, np.nan)

    @property
    def deviation(self) -> Doubles:
        """(B, N) standard deviations; NaN where there are no numbers."""
        with np.errstate(invalid="ignore"):
            return np.sqrt(self._squares / self.count)


@dataclass(frozen=True, eq=False)
class Pixels:
    """The labelled pixels of an image.

    Attributes
    ----------
    labels
        (h, w); a pixel of the label 0 does not count.
    numbers
        (N,) the labels, rising.
    row, column
        Where the first pixel of *labels* lies in the image.
    """

    labels: LabelNumbers
    numbers: LabelNumbers
    row: int = 0
    column: int = 0
    progress: Progress = NO_PROGRESS

    @property
    def columns(self) -> slice:
        """The columns of the image that the labels cover."""
        return slice(self.column, self.column + self.labels.shape[1])

    def blocks(self, *cubes: Array) -> Iterator[tuple[slice, Groups, list[Doubles]]]:
        """Rows of the labels, the pixels there, and the (B, n) numbers of each of the *cubes*."""
        height, width = self.labels.shape
        step = max(1, BLOCK_PIXELS // width)
        read_rows = step * max(1, READ_PIXELS // BLOCK_PIXELS)
        self.progress.reach(0.0)
        for top in range(0, height, read_rows):
            bottom = min(height, top + read_rows)
            if self.labels[top:bottom].any():
                key = (slice(None), slice(self.row + top, self.row + bottom), self.columns)
                strips = [np.asarray(cube[key]) for cube in cubes]
                for start in range(0, bottom - top, step):
                    rows = slice(top + start, min(bottom, top + start + step))
                    groups = Groups.of(self.labels[rows], self.numbers)
                    read = [groups.of_image(strip[:, start : start + step]) for strip in strips]
                    yield rows, groups, read
            self.progress.reach(bottom / height)


@dataclass(frozen=True, eq=False)
class Averages:
    """The means of N labels.

    Attributes
    ----------
    mean, deviation
        (N, B).
    spread
        The bounds that are wanted.
    pixels, sizes
        (N,) pixels that count, in the band that has the fewest, and all pixels.
    """

    mean: Doubles
    deviation: Doubles
    spread: Spread
    pixels: Doubles
    sizes: Doubles

    def fields(self, at: int, origin: Origin, pixel_area: PixelArea) -> dict[str, Any]:
        """Return the fields of the `Spectrum` of label number *at*, with its *origin* completed."""
        pixels, size = int(self.pixels[at]), int(self.sizes[at])
        area, unit = float(size * pixel_area[0]), pixel_area[1]
        excluded = size - pixels
        origin = replace(origin, pixels=pixels, excluded=excluded, area=area, area_unit=unit)
        fields = {"values": self.mean[at], "origin": origin}
        if not self.spread:
            return fields
        mean, deviation = self.mean[at], self.deviation[at]
        return fields | {"lower": mean - deviation, "upper": mean + deviation, "spread": STD}


def averages(pixels: Pixels, cube: SpectralCube, spread: Spread) -> Averages:
    """Mean and deviation of every label of *pixels* in *cube*, NaN in bad bands.

    Each band counts only pixels that have a number there, and is NaN without any.
    """
    if spread not in ("", STD):
        raise SpectrumError(f"Expected spread 'std' or '', got {shown(spread, 30)!r}.")
    data = usable(cube).data
    moments = Moments(len(data), len(pixels.numbers))
    sizes = np.zeros(len(pixels.numbers))
    for _, groups, (values,) in pixels.blocks(data):
        sizes[groups.labels] += groups.sizes
        moments.add(groups, values)
    mean = in_all_bands(cube, moments.mean.T)
    deviation = in_all_bands(cube, moments.deviation.T)
    fewest = np.where(moments.count > 0, moments.count, np.inf).min(axis=0)
    return Averages(mean, deviation, spread, np.where(np.isfinite(fewest), fewest, 0), sizes)
