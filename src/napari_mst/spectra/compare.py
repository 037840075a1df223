"""Comparison of a spectrum, a region or a label with its reference.

Both are compared at the bands of the estimate within the range of the reference, which is
interpolated to them. Metrics: `napari_mst.metrics`. Letters: B bands, H rows, W columns; b bands
that are compared; n pixels; N labels.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from napari_mst.cube import SpectralCube
from napari_mst.metrics import DARK, mrae, rmse, spectral_angles
from napari_mst.spectra.alignment import (
    Alignment,
    align,
    numbers_in_both,
    relative_errors,
    shared_bands,
)
from napari_mst.spectra.label_groups import Groups, Moments, Numbers, label_groups, label_numbers
from napari_mst.spectra.labels import Labelled
from napari_mst.spectra.regions import Region, check_inside, mean_and_std, pixel_blocks, region_name
from napari_mst.spectra.spectrum import STD, Origin, Spectrum, Values
from napari_mst.spectra.strips import raw_strips
from napari_mst.spectra.transforms import resampled
from napari_mst.watch import Watched, watching


@dataclass(frozen=True, eq=False)
class Comparison:
    """An estimate against its reference.

    Attributes
    ----------
    error
        Estimate minus reference at each band; for a region the mean over its pixels, with bounds
        one standard deviation away.
    mrae, rmse, angle
        Over all pixels; the angle is the mean in degrees. NaN where no pixel is bright enough
        (`metrics.DARK`).
    pixels
        How many pixels were compared; the others are not numbers in one of the two.
    """

    error: Spectrum
    mrae: float
    rmse: float
    angle: float
    pixels: int


def compare_spectra(estimate: Spectrum, reference: Spectrum, dark: float = DARK) -> Comparison:
    """Compare two curves.

    Raises
    ------
    SpectrumError
        If they share fewer than two bands.
    """
    bands = shared_bands(estimate, reference)
    wavelengths = estimate.wavelengths[bands]
    values = estimate.values[bands]
    expected = resampled(reference, wavelengths).values
    good = np.isfinite(values) & np.isfinite(expected)
    curve = Spectrum(wavelengths, values - expected, estimate.unit, estimate.name, estimate.colour)
    if not good.any():
        return Comparison(curve, np.nan, np.nan, np.nan, 0)
    ours = values[good, None]
    theirs = expected[good, None]
    angle = float(spectral_angles(ours, theirs, dark)[0])
    return Comparison(curve, mrae(ours, theirs, dark), rmse(ours, theirs), angle, 1)


class _Scores(NamedTuple):
    """Sums over pixels, in total or for each of N labels, from which the metrics follow.

    Attributes
    ----------
    squares, pixels
        Squared errors (means over the bands), and pixels.
    relative, lit
        Relative errors, and pixels that are bright enough to have one.
    angles, angled
        Spectral angles in degrees, and pixels that have one.
    """

    squares: Values
    pixels: Values
    relative: Values
    lit: Values
    angles: Values
    angled: Values

    def comparison(self, error: Spectrum, at: int) -> Comparison:
        """The comparison of label number *at*, whose error curve is known."""
        return Comparison(
            error,
            mrae=_ratio(self.relative[at], self.lit[at]),
            rmse=_ratio(self.squares[at], self.pixels[at]) ** 0.5,
            angle=_ratio(self.angles[at], self.angled[at]),
            pixels=int(self.pixels[at]),
        )


def compare_region(
    cube: SpectralCube, reference: SpectralCube, region: Region, dark: float = DARK
) -> Comparison:
    """Compare the pixels of *region* in *cube* with the same pixels of *reference*.

    They are read a few at a time.

    Raises
    ------
    SpectrumError
        If the images differ in size, or share fewer than two bands.

    Notes
    -----
    ===============  ================================================================
    cube, reference  reflectance, 0 to about 1, or both in one other unit
    dark             in that unit: darker values have no relative error and no angle
    returns          MRAE as a share, RMSE in the unit of the cubes, angle in degrees
    ===============  ================================================================

    Examples
    --------
    >>> cube = nm.SpectralCube(np.full((3, 4, 5), 0.5, np.float32), [500, 550, 600])
    >>> reference = nm.SpectralCube(np.full((3, 4, 5), 0.4, np.float32), [500, 550, 600])
    >>> found = nm.compare_region(cube, reference, nm.Region.of_window(2, 2, (4, 5), window=3))
    >>> round(found.mrae, 2), round(found.rmse, 2), found.pixels
    (0.25, 0.1, 9)
    """
    check_inside(cube, region)
    alignment = align(cube, reference)
    total = np.zeros((len(_Scores._fields), 1))

    def differences() -> Iterator[Values]:
        for ours, theirs in _region_pairs(cube, reference, region, alignment):
            total[:, 0] += _pixel_scores(ours, theirs, dark).sum(axis=1)
            yield ours - theirs

    mean, deviation = mean_and_std(differences(), int(alignment.bands.sum()))
    scores = _Scores(*total)
    pixels = int(scores.pixels[0])
    origin = replace(region.origin, pixels=pixels, excluded=region.size - pixels)
    error = Spectrum(
        cube.wavelengths[alignment.bands],
        mean,
        cube.unit,
        region_name(region),
        lower=mean - deviation,
        upper=mean + deviation,
        spread=STD,
        origin=origin,
    )
    return scores.comparison(error, 0)


def compare_labels(
    cube: SpectralCube,
    reference: SpectralCube,
    labels: Numbers,
    watch: Watched = None,
) -> Labelled[Comparison]:
    """Compare every label of an (H, W) image but 0, as `compare_region` does, in one pass.

    Raises
    ------
    SpectrumError
        If the images differ in size, or share fewer than two bands.
    Cancelled
        Soon after *watch* was cancelled.
    """
    alignment = align(cube, reference)
    sums = _LabelSums(label_numbers(labels), int(alignment.bands.sum()))
    for rows, strip in raw_strips(cube, watching(watch)):
        groups = label_groups(labels, sums.numbers, rows)
        if groups is not None:
            ours = alignment.of_estimate(groups.of_image(strip))
            stored = groups.of_image(np.asarray(reference.data[:, rows]))
            sums.add(groups, ours, alignment.of_reference(stored))
    mean = np.where(sums.moments.count > 0, sums.moments.mean, np.nan).T
    deviation = sums.moments.deviation().T
    scores = _Scores(*sums.total)
    # The comparisons are made later; they must not keep the cube alive until then.
    wavelengths = cube.wavelengths[alignment.bands]
    unit = cube.unit

    def made(at: int) -> Comparison:
        name = f"label {sums.numbers[at]}"
        pixels = int(scores.pixels[at])
        error = Spectrum(
            wavelengths,
            mean[at],
            unit,
            name,
            lower=mean[at] - deviation[at],
            upper=mean[at] + deviation[at],
            spread=STD,
            origin=Origin(region=name, pixels=pixels, excluded=int(sums.sizes[at]) - pixels),
        )
        return scores.comparison(error, at)

    return Labelled(sums.numbers, mean, made)


class _LabelSums:
    """Sums over the pixels of N labels, strip by strip.

    Attributes
    ----------
    numbers
        (N,) the labels, rising.
    sizes
        (N,) all pixels of each label.
    moments
        Count, mean and deviation of the errors.
    total
        (6, N) what `_Scores` sums.
    """

    def __init__(self, numbers: Numbers, bands: int) -> None:
        self.numbers = numbers
        self.sizes = np.zeros(len(numbers), dtype=int)
        self.moments = Moments(len(numbers), bands)
        self.total = np.zeros((len(_Scores._fields), len(numbers)))

    def add(self, groups: Groups, ours: Values, theirs: Values) -> None:
        """Add the pixels of a strip, (b, n) in the estimate and in the reference."""
        self.sizes[groups.labels] += groups.sizes
        good = numbers_in_both(ours, theirs)
        if not good.any():
            return
        groups = groups.only(good)
        ours = ours[:, good]
        theirs = theirs[:, good]
        self.total[:, groups.labels] += groups.total(_pixel_scores(ours, theirs))
        self.moments.add(groups, ours - theirs)


def _region_pairs(
    cube: SpectralCube, reference: SpectralCube, region: Region, alignment: Alignment
) -> Iterator[tuple[Values, Values]]:
    """The pixels of *region* that are numbers in both cubes, two arrays of (b, n) at a time."""
    blocks = zip(pixel_blocks(cube.data, region), pixel_blocks(reference.data, region), strict=True)
    for estimate_block, reference_block in blocks:
        ours = alignment.of_estimate(estimate_block)
        theirs = alignment.of_reference(reference_block)
        good = numbers_in_both(ours, theirs)
        yield ours[:, good], theirs[:, good]


def _pixel_scores(ours: Values, theirs: Values, dark: float = DARK) -> Values:
    """(6, n) what `_Scores` sums, for each pixel of two arrays of (b, n)."""
    relative = relative_errors(ours, theirs, dark)
    angles = spectral_angles(ours, theirs, dark)
    rows = _Scores(
        squares=np.square(ours - theirs).mean(axis=0),
        pixels=np.ones(ours.shape[1]),
        relative=np.nan_to_num(relative),
        lit=np.isfinite(relative).astype(float),
        angles=np.nan_to_num(angles),
        angled=np.isfinite(angles).astype(float),
    )
    return np.stack(rows)


def _ratio(total: float, count: float) -> float:
    return float(total / count) if count else float("nan")
