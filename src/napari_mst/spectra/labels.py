"""Mean spectra of all labels of an image, in one pass over the cube: the cells of a segmentation, by the thousands.

What is not a number is treated as in `regions.region_spectrum`, label by label.
Letters: B bands, H rows, W columns; n labelled pixels of a strip; m labels in it, N in all.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from napari_mst.cube import SpectralCube
from napari_mst.errors import SpectrumError
from napari_mst.spectra.regions import Spread, spread_name
from napari_mst.spectra.spectrum import STD, Origin, Spectrum, Values
from napari_mst.spectra.strips import raw_strips
from napari_mst.watch import IsCancelled, Progress, Watch

Numbers = NDArray[np.integer[Any]]
T = TypeVar("T")


class Labelled(Mapping[int, T], Generic[T]):
    """What was found for each label, by its number; each is made when it is asked for.

    Attributes
    ----------
    numbers
        (N,) the labels, rising.
    curves
        (N, B) of all of them.
    """

    def __init__(self, numbers: Numbers, curves: Values, make: Callable[[int], T]) -> None:
        self.numbers, self.curves = numbers, curves
        self._make = make

    def __getitem__(self, number: int) -> T:
        at = int(np.searchsorted(self.numbers, number))
        if at == len(self.numbers) or self.numbers[at] != number:
            raise KeyError(number)
        return self._make(at)

    def __iter__(self) -> Iterator[int]:
        return iter(self.numbers.tolist())

    def __len__(self) -> int:
        return len(self.numbers)


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
        (m,) which of the labels each is, 0 to N - 1.
    """

    order: NDArray[np.intp]
    starts: NDArray[np.intp]
    sizes: NDArray[np.intp]
    labels: NDArray[np.intp]

    @classmethod
    def of(cls, part: Numbers, numbers: Numbers) -> "Groups":
        """The pixels of *part* (k, W) that are not 0; *numbers* (N,) are all labels, rising."""
        flat = part.reshape(-1)
        here = np.flatnonzero(flat)
        here = here[np.argsort(flat[here], kind="stable")]
        found = flat[here]
        starts = np.flatnonzero(np.diff(found, prepend=found[:1] - 1)) if found.size else here
        return cls(
            here, starts, np.diff(starts, append=here.size), np.searchsorted(numbers, found[starts])
        )

    def only(self, wanted: NDArray[np.bool_]) -> "Groups":
        """The *wanted* (n,) of the pixels."""
        sizes = np.add.reduceat(wanted, self.starts, dtype=np.intp)
        kept = sizes > 0
        starts = (np.cumsum(sizes) - sizes)[kept]
        return Groups(self.order[wanted], starts, sizes[kept], self.labels[kept])

    def of_image(self, strip: NDArray[Any]) -> Values:
        """(B, n) float64 of the numbers (B, k, W)."""
        return np.take(strip.reshape(len(strip), -1), self.order, axis=1).astype(np.float64)

    def total(self, values: Values) -> Values:
        """(B, m) sums of (B, n)."""
        return np.asarray(np.add.reduceat(values, self.starts, axis=1))

    def spread_out(self, values: Any) -> Any:
        """(B, n) of (B, m)."""
        return np.repeat(values, self.sizes, axis=-1)


class Moments:
    """Count, mean and squared deviations of each label, strip by strip; merged as in `regions.mean_and_std`."""

    def __init__(self, labels: int, bands: int) -> None:
        self.count = np.zeros(labels, dtype=np.int64)
        self.mean, self._squares = np.zeros((bands, labels)), np.zeros((bands, labels))

    def add(self, groups: Groups, values: Values) -> None:
        """Count *values* (B, n) in, which are overwritten."""
        at, new = groups.labels, groups.sizes
        before = self.count[at]
        mean = groups.total(values) / new
        values -= groups.spread_out(mean)
        step = mean - self.mean[:, at]
        self._squares[:, at] += groups.total(np.square(values, out=values)) + step**2 * (
            before * new / (before + new)
        )
        self.mean[:, at] += step * (new / (before + new))
        self.count[at] += new

    def deviation(self) -> Values:
        """(B, N) standard deviations; NaN of a label without pixels."""
        with np.errstate(invalid="ignore"):
            return np.asarray(np.sqrt(self._squares / self.count))


def label_spectra(
    cube: SpectralCube,
    labels: Numbers,
    spread: Spread = STD,
    *,
    cube_name: str = "",
    pixel_area: float = 1.0,
    area_unit: str = "pixel",
    progress: Progress | None = None,
    is_cancelled: IsCancelled | None = None,
) -> Labelled[Spectrum]:
    """The mean spectrum of every label of an (H, W) image but 0, as `regions.region_spectrum` gives it for one.

    Raises
    ------
    SpectrumError
        If *labels* is not an image of whole numbers of the size of the cube, or *spread* is another.
    Cancelled
        Soon after *is_cancelled* returned true.
    """
    labels, watch = np.asarray(labels), Watch(progress, is_cancelled)
    if labels.shape != cube.shape[1:] or labels.dtype.kind not in "iub":
        raise SpectrumError(
            f"Expected an image of whole numbers of {cube.shape[1]} x {cube.shape[2]} pixels, got {labels.dtype} of "
            f"{' x '.join(map(str, labels.shape))}. Take the labels of this cube."
        )
    kind = spread_name(spread)
    labels = labels.astype(np.uint8) if labels.dtype.kind == "b" else labels
    numbers = label_numbers(labels)
    found = _moments(cube, labels, numbers, watch)
    sizes, counted, gaps = found.count, labels, np.zeros_like(found.mean, dtype=bool)
    if not np.isfinite(found.mean).all():
        counted, gaps = _without_gaps(cube, labels, numbers, watch)
        found = _moments(cube, counted, numbers, watch, gaps)
        gaps |= found.count == 0
    mean, deviation = (np.where(gaps, np.nan, one).T for one in (found.mean, found.deviation()))
    bounds: tuple[Any, Any] = (
        (mean - deviation, mean + deviation) if spread == STD else (None, None)
    )
    if not isinstance(spread, str):
        low, high = _percentiles(cube, counted, numbers, spread, watch)
        bounds = np.where(gaps.T, np.nan, low), np.where(gaps.T, np.nan, high)

    wavelengths, unit = cube.wavelengths, cube.unit  # what is made later holds no cube

    def made(at: int) -> Spectrum:
        pixels, name = int(found.count[at]), f"label {numbers[at]}"
        lower, upper = (None if one is None else one[at] for one in bounds)
        area = float(sizes[at] * pixel_area)
        excluded = int(sizes[at]) - pixels
        origin = Origin(
            cube_name, region=name, pixels=pixels, excluded=excluded, area=area, area_unit=area_unit
        )
        return Spectrum(wavelengths, mean[at], unit, name, "", lower, upper, kind, origin)

    return Labelled(numbers, mean, made)


def label_numbers(labels: Numbers) -> Numbers:
    """(N,) the values of an image of labels but 0, rising."""
    numbers = np.unique(labels)
    return np.asarray(numbers[numbers != 0])


def label_groups(labels: Numbers, numbers: Numbers, rows: slice) -> Groups | None:
    """The labelled pixels of some *rows*; None if there are none."""
    groups = Groups.of(labels[rows], numbers)
    return groups if groups.order.size else None


def _moments(
    cube: SpectralCube,
    labels: Numbers,
    numbers: Numbers,
    watch: Watch,
    gaps: NDArray[np.bool_] | None = None,
) -> Moments:
    """Of each label and band; what is in *gaps* (B, N) counts as 0."""
    moments = Moments(len(numbers), len(cube.data))
    with np.errstate(invalid="ignore"):
        for rows, strip in raw_strips(cube, watch):
            if (groups := label_groups(labels, numbers, rows)) is not None:
                values = groups.of_image(strip)
                if gaps is not None:
                    values[groups.spread_out(gaps[:, groups.labels])] = 0
                moments.add(groups, values)
    return moments


def _without_gaps(
    cube: SpectralCube, labels: Numbers, numbers: Numbers, watch: Watch
) -> tuple[Numbers, NDArray[np.bool_]]:
    """*labels* without pixels that are no number in a band where their label has some; and (B, N) where it has none."""
    has_numbers = np.zeros((len(cube.data), len(numbers)), dtype=bool)
    for rows, strip in raw_strips(cube, watch):
        if (groups := label_groups(labels, numbers, rows)) is not None:
            finite = np.isfinite(groups.of_image(strip))
            has_numbers[:, groups.labels] |= np.logical_or.reduceat(finite, groups.starts, axis=1)
    counted = labels.copy()
    for rows, strip in raw_strips(cube, watch):
        if (groups := label_groups(labels, numbers, rows)) is not None:
            wanted = groups.spread_out(has_numbers[:, groups.labels])
            good = (np.isfinite(groups.of_image(strip)) | ~wanted).all(axis=0) & wanted.any(axis=0)
            part = counted[rows].reshape(-1)
            part[groups.order[~good]] = 0
            counted[rows] = part.reshape(-1, labels.shape[1])
    return counted, ~has_numbers


def _percentiles(
    cube: SpectralCube, labels: Numbers, numbers: Numbers, spread: tuple[float, float], watch: Watch
) -> tuple[Values, Values]:
    """Two (N, B) percentiles of each label, one band at a time; NaN of a label without pixels."""
    found = np.full((2, len(numbers), len(cube.data)), np.nan)
    groups = Groups.of(labels, numbers)
    ends = zip(groups.starts.tolist(), (groups.starts + groups.sizes).tolist(), strict=True)
    parts = [slice(*pair) for pair in ends]
    at = np.array(spread)[:, None] / 100 * (groups.sizes - 1)
    below = np.floor(at).astype(int)
    above = np.minimum(below + 1, groups.sizes - 1)
    for band in range(len(cube.data)):
        values = np.asarray(cube.data[band]).reshape(-1)[groups.order]
        for part in parts:
            values[part].sort()
        low, high = (values[groups.starts + one].astype(np.float64) for one in (below, above))
        found[:, groups.labels, band] = low + (high - low) * (at - below)
        watch.reach((band + 1) / len(cube.data))
    return found[0], found[1]
