"""Mean spectra of all labels of an image, in one pass: the cells of a segmentation, by thousands.

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
from napari_mst.spectra.label_groups import Groups, Moments, Numbers, label_groups, label_numbers
from napari_mst.spectra.regions import Spread, spread_name
from napari_mst.spectra.spectrum import STD, Origin, Spectrum, Values
from napari_mst.spectra.strips import raw_strips
from napari_mst.watch import Watch, Watched, watching

T = TypeVar("T")


class Labelled(Mapping[int, T], Generic[T]):
    """The results for all labels, by number; each is made when it is asked for.

    Attributes
    ----------
    numbers
        (N,) the labels, rising.
    curves
        (N, B) their mean values.
    """

    def __init__(self, numbers: Numbers, curves: Values, make: Callable[[int], T]) -> None:
        self.numbers = numbers
        self.curves = curves
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


def label_spectra(  # noqa: PLR0913 (public, its options by name)
    cube: SpectralCube,
    labels: Numbers,
    spread: Spread = STD,
    *,
    cube_name: str = "",
    pixel_area: float = 1.0,
    area_unit: str = "pixel",
    watch: Watched = None,
) -> Labelled[Spectrum]:
    """The mean spectrum of every label of an (H, W) image but 0, in one pass over the cube.

    Each is what `regions.region_spectrum` gives for the pixels of the label.

    Raises
    ------
    SpectrumError
        If *labels* is not an image of whole numbers of the size of the cube, or *spread* is
        unknown.
    Cancelled
        Soon after *watch* was cancelled.

    Notes
    -----
    =======  ===================================
    cube     any unit: reflectance, radiance
    labels   (H, W) whole numbers; 0 is no label
    returns  float64 in the unit of the cube
    =======  ===================================

    Examples
    --------
    >>> cube = nm.SpectralCube(np.arange(24.0).reshape(2, 3, 4), [500, 600])
    >>> labels = np.array([[0, 1, 1, 1], [0, 2, 2, 2], [2, 2, 2, 2]])
    >>> spectra = nm.label_spectra(cube, labels)
    >>> list(spectra), spectra[1].values
    ([1, 2], array([ 2., 14.]))
    """
    checked = _checked(np.ma.filled(np.asanyarray(labels), 0), cube)
    kind = spread_name(spread)
    source = _Labels(cube, checked, label_numbers(checked), watching(watch))
    found = _averages(source, spread)
    # The spectra are made later; they must not keep the cube alive until then.
    wavelengths = cube.wavelengths
    unit = cube.unit
    numbers = source.numbers

    def made(at: int) -> Spectrum:
        pixels = int(found.pixels[at])
        size = int(found.sizes[at])
        name = f"label {numbers[at]}"
        origin = Origin(
            cube_name,
            region=name,
            pixels=pixels,
            excluded=size - pixels,
            area=float(size * pixel_area),
            area_unit=area_unit,
        )
        lower = None if found.lower is None else found.lower[at]
        upper = None if found.upper is None else found.upper[at]
        return Spectrum(wavelengths, found.mean[at], unit, name, "", lower, upper, kind, origin)

    return Labelled(numbers, found.mean, made)


@dataclass(frozen=True, eq=False)
class _Labels:
    """A cube and an (H, W) image of labels; *numbers* (N,) are the labels, rising."""

    cube: SpectralCube
    labels: Numbers
    numbers: Numbers
    watch: Watch

    def strips(self) -> Iterator[tuple[slice, Groups, NDArray[Any]]]:
        """Rows with labelled pixels, these pixels, and the (B, k, W) numbers there."""
        for rows, strip in raw_strips(self.cube, self.watch):
            groups = label_groups(self.labels, self.numbers, rows)
            if groups is not None:
                yield rows, groups, strip


@dataclass(frozen=True, eq=False)
class _Averages:
    """The means of all labels.

    Attributes
    ----------
    mean, lower, upper
        (N, B); no bounds if none are wanted.
    pixels, sizes
        (N,) pixels that count, and all pixels.
    """

    mean: Values
    lower: Values | None
    upper: Values | None
    pixels: NDArray[np.int64]
    sizes: NDArray[np.int64]


def _checked(labels: Numbers, cube: SpectralCube) -> Numbers:
    if labels.shape != cube.shape[1:] or labels.dtype.kind not in "iub":
        raise SpectrumError(
            f"Expected an image of whole numbers of {cube.shape[1]} x {cube.shape[2]} pixels, "
            f"got {labels.dtype} of {' x '.join(map(str, labels.shape))}. "
            "Take the labels of this cube."
        )
    # A mask is an image of one label, 1.
    return labels.astype(np.uint8) if labels.dtype.kind == "b" else labels


def _averages(source: _Labels, spread: Spread) -> _Averages:
    """Mean and bounds of every label."""
    moments = _moments(source)
    sizes = moments.count
    gaps = np.zeros_like(moments.mean, dtype=bool)
    if not np.isfinite(moments.mean).all():
        # Some value is not a number. A second pass leaves such pixels out, which is seldom needed.
        source, gaps = _without_gaps(source)
        moments = _moments(source, gaps)
        gaps |= moments.count == 0
    mean = np.where(gaps, np.nan, moments.mean).T
    lower: Values | None = None
    upper: Values | None = None
    if spread == STD:
        deviation = np.where(gaps, np.nan, moments.deviation()).T
        lower = mean - deviation
        upper = mean + deviation
    elif not isinstance(spread, str):
        low, high = _percentiles(source, spread)
        lower = np.where(gaps.T, np.nan, low)
        upper = np.where(gaps.T, np.nan, high)
    return _Averages(mean, lower, upper, moments.count, sizes)


def _moments(source: _Labels, gaps: NDArray[np.bool_] | None = None) -> Moments:
    """Count, mean and deviation of each label and band; values in *gaps* (B, N) count as 0."""
    moments = Moments(len(source.numbers), len(source.cube.data))
    with np.errstate(invalid="ignore"):
        for _, groups, strip in source.strips():
            values = groups.of_image(strip)
            if gaps is not None:
                values[groups.spread_out(gaps[:, groups.labels])] = 0
            moments.add(groups, values)
    return moments


def _without_gaps(source: _Labels) -> tuple[_Labels, NDArray[np.bool_]]:
    """The labels without pixels that do not count, and (B, N) where a label has no number at all.

    A pixel does not count if it is not a number in a band where its label has some.
    """
    has_numbers = np.zeros((len(source.cube.data), len(source.numbers)), dtype=bool)
    for _, groups, strip in source.strips():
        is_finite = np.isfinite(groups.of_image(strip))
        has_numbers[:, groups.labels] |= np.logical_or.reduceat(is_finite, groups.starts, axis=1)
    counted = source.labels.copy()
    for rows, groups, strip in source.strips():
        is_wanted = groups.spread_out(has_numbers[:, groups.labels])
        is_good = np.isfinite(groups.of_image(strip)) | ~is_wanted
        counts = is_good.all(axis=0) & is_wanted.any(axis=0)
        part = counted[rows].reshape(-1)
        part[groups.order[~counts]] = 0
        counted[rows] = part.reshape(-1, source.labels.shape[1])
    return _Labels(source.cube, counted, source.numbers, source.watch), ~has_numbers


def _percentiles(source: _Labels, spread: tuple[float, float]) -> tuple[Values, Values]:
    """Two (N, B) percentiles of each label, one band at a time; NaN for a label without pixels."""
    data = source.cube.data
    found = np.full((2, len(source.numbers), len(data)), np.nan)
    groups = Groups.of(source.labels, source.numbers)
    ends = groups.starts + groups.sizes
    parts = [slice(*pair) for pair in zip(groups.starts.tolist(), ends.tolist(), strict=True)]
    at = np.array(spread)[:, None] / 100 * (groups.sizes - 1)
    below = np.floor(at).astype(int)
    above = np.minimum(below + 1, groups.sizes - 1)
    for band in range(len(data)):
        values = np.asarray(data[band]).reshape(-1)[groups.order]
        for part in parts:
            values[part].sort()
        low = values[groups.starts + below].astype(np.float64)
        high = values[groups.starts + above].astype(np.float64)
        found[:, groups.labels, band] = low + (high - low) * (at - below)
        source.watch.reach((band + 1) / len(data))
    return found[0], found[1]
