"""Means and deviations of labelled pixels, for many labels in one pass.

A region is an image with a single label. Letters: B bands; h, w sides of the image of labels; n
labelled pixels and m labels of a block; N labels in all.
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
"""Pixels read at a time if reading copies them, as from a chunked cube."""
BLOCK_PIXELS = 2**13
"""Pixels averaged at a time; as float64 they fit into a processor's cache."""

LabelNumbers = NDArray[np.integer[Any]]
"""Integers: an image of labels, or the labels themselves."""

PixelArea = tuple[float, str]
"""Area of one pixel, and its unit."""
IN_PIXELS: PixelArea = (1.0, "pixel")
"""Measures areas in pixels."""

Spread = Literal["std", ""]
"""Bounds around a mean: one standard deviation away, or none."""


@dataclass(frozen=True, eq=False)
class Groups:
    """The labelled pixels of a block, sorted by label.

    Attributes
    ----------
    order
        (n,) index of each pixel in the flattened block.
    starts, sizes
        (m,) first pixel and number of pixels of each label.
    labels
        (m,) place of each label among all labels, 0 to N - 1.
    """

    order: Indices
    starts: Indices
    sizes: Indices
    labels: Indices

    @classmethod
    def of(cls, part: LabelNumbers, numbers: LabelNumbers) -> "Groups":
        """Group the nonzero pixels of *part* (h, w); *numbers* (N,) are all labels, ascending."""
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
        """Return the values (B, n) of the labelled pixels of a *block* (B, h, w), as float64."""
        flat = block.reshape(len(block), -1)
        # One label that covers the block: the pixels are in order already.
        is_whole = len(self.starts) == 1 and self.order.size == flat.shape[1]
        return (flat if is_whole else np.take(flat, self.order, axis=1)).astype(np.float64)

    def total(self, values: Doubles) -> Doubles:
        """Return the sums (B, m) of *values* (B, n) over each label."""
        return np.add.reduceat(values, self.starts, axis=1)

    def spread_out(self, values: Any) -> Any:
        """Give each pixel the value of its label: (B, m) *values* become (B, n)."""
        return values if len(self.sizes) == 1 else np.repeat(values, self.sizes, axis=-1)


class Moments:
    """Count, mean and squared deviation of B bands of N labels, accumulated block by block.

    Blocks are merged as in Chan, Golub & LeVeque, The American Statistician 37 (1983) 242,
    doi:10.2307/2683386.

    Attributes
    ----------
    count
        (B, N) number of finite values in each band of each label.
    """

    def __init__(self, bands: int, labels: int = 1) -> None:
        self.count, self._mean, self._squares = np.zeros((3, bands, labels))

    def add(self, groups: Groups, values: Doubles) -> None:
        """Add *values* (B, n), which are overwritten; NaN and infinity are skipped."""
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
        """(B, N) means; NaN where there are no finite values."""
        return np.where(self.count != 0, self._mean, np.nan)

    @property
    def deviation(self) -> Doubles:
        """(B, N) standard deviations; NaN where there are no finite values."""
        with np.errstate(invalid="ignore"):
            return np.sqrt(self._squares / self.count)


@dataclass(frozen=True, eq=False)
class Pixels:
    """The labelled pixels of an image.

    Attributes
    ----------
    labels
        (h, w); 0 marks pixels without a label.
    numbers
        (N,) the labels, ascending.
    row, column
        Position of the first pixel of *labels* in the image.
    """

    labels: LabelNumbers
    numbers: LabelNumbers
    row: int = 0
    column: int = 0
    progress: Progress = NO_PROGRESS

    @property
    def columns(self) -> slice:
        """Image columns covered by the labels."""
        return slice(self.column, self.column + self.labels.shape[1])

    def blocks(self, *cubes: Array) -> Iterator[tuple[slice, Groups, list[Doubles]]]:
        """Yield rows of the labels, their pixels, and the values (B, n) of each of the *cubes*."""
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
    """Mean spectra of N labels.

    Attributes
    ----------
    mean, deviation
        (N, B) mean and standard deviation.
    spread
        Kind of bounds around the mean.
    pixels, sizes
        (N,) averaged pixels, in the band with the fewest, and all pixels.
    """

    mean: Doubles
    deviation: Doubles
    spread: Spread
    pixels: Doubles
    sizes: Doubles

    def fields(self, at: int, origin: Origin, pixel_area: PixelArea) -> dict[str, Any]:
        """Return the fields of the `Spectrum` of label number *at*, including its full *origin*."""
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
    """Return mean and deviation of every label of *pixels* in *cube*, with NaN in bad bands.

    Each band averages the pixels with a finite value there; it is NaN if there are none.
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
