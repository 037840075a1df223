"""Comparison of a cube with a reference: as a whole, as a map, by region and by label.

The reference is interpolated to the bands of the estimate that it covers. Only pixels with finite
values in both cubes count. `cube.metrics` defines the metrics. Letters: B bands, H rows, W columns;
b compared bands; n pixels; N labels.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np

from napari_mst.analysis.label_means import LabelNumbers, Moments, Pixels
from napari_mst.analysis.regions import (
    Labelled,
    Region,
    check_inside,
    labelled_pixels,
    pixels_of,
    region_name,
)
from napari_mst.analysis.strips import strips
from napari_mst.analysis.transforms import TRANSFORMS, shared_bands
from napari_mst.base.arrays import Doubles, Mask, Singles
from napari_mst.base.errors import SpectrumError, shown
from napari_mst.base.progress import ProgressLike, as_progress
from napari_mst.cube import SpectralCube
from napari_mst.cube.colour import interpolation
from napari_mst.cube.gaps import usable
from napari_mst.cube.metrics import DARK, spectral_angles
from napari_mst.cube.spectrum import STD, Origin, Spectrum

Measure = Literal["difference", "rmse", "mrae", "angle"]
"""Error measures of `error_map`."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """Errors of an estimate against its reference.

    Attributes
    ----------
    error
        Estimate minus reference at each band, averaged over the pixels of a region; bounds lie one
        standard deviation away.
    mrae, rmse, angle
        Errors over all pixels; the angle is the mean in degrees. NaN if no pixel is bright enough
        (`metrics.DARK`).
    pixels
        Number of compared pixels: those with finite values in both cubes.
    """

    error: Spectrum
    mrae: float
    rmse: float
    angle: float
    pixels: int


def compare_region(
    cube: SpectralCube, reference: SpectralCube, region: Region, dark: float = DARK
) -> Comparison:
    """Compare the pixels of *region* in *cube* with the same pixels of *reference*.

    Pixels are read a few at a time.

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
    >>> comparison = nm.compare_region(cube, reference, nm.Region.of_window(2, 2, (4, 5), window=3))
    >>> round(comparison.mrae, 2), round(comparison.rmse, 2), comparison.pixels
    (0.25, 0.1, 9)
    """
    check_inside(cube, region)
    scores = Scores(cube, reference, pixels_of(region), dark)
    return scores.comparison(0, region_name(region), region.origin)


def compare_labels(
    cube: SpectralCube,
    reference: SpectralCube,
    labels: LabelNumbers,
    progress: ProgressLike = None,
) -> Labelled[Comparison]:
    """Compare every label but 0 of an (H, W) image, as `compare_region` does, in one pass.

    Raises
    ------
    SpectrumError
        If the images differ in size, or share fewer than two bands.
    Cancelled
        Soon after *progress* was cancelled.
    """
    pixels = labelled_pixels(cube, labels, progress)
    scores = Scores(cube, reference, pixels)

    def made(at: int) -> Comparison:
        name = f"label {pixels.numbers[at]}"
        return scores.comparison(at, name, Origin(region=name))

    return Labelled(pixels.numbers, scores.mean.T, made)


def cube_errors(
    cube: SpectralCube, reference: SpectralCube, progress: ProgressLike = None
) -> "Scores":
    """Compare all of *cube* with *reference*, as a single label, a few rows at a time.

    Raises
    ------
    SpectrumError
        If the images differ in size, share fewer than two bands, or have no pixel with finite
        values in both.
    Cancelled
        Soon after *progress* was cancelled.
    """
    everything = Pixels(
        np.ones(cube.shape[1:], np.uint8), np.array([1]), progress=as_progress(progress)
    )
    scores = Scores(cube, reference, everything)
    if not scores.pixels.any():
        raise SpectrumError(
            "Expected pixels that are numbers in both cubes, got none. Choose another reference."
        )
    return scores


class Scores:
    """Errors of a cube over the pixels of N labels; every metric is a mean of these errors.

    Attributes
    ----------
    mean, deviation
        (b, N) mean and standard deviation of estimate minus reference.
    wavelengths
        (b,) wavelengths of the compared bands, in *unit*.
    band_rmse, band_mrae
        (b, N) errors band by band; MRAE is NaN where no pixel is bright enough.
    rmse, mrae, angle
        (N,) errors over all bands; the angle is the mean in degrees.
    pixels, sizes
        (N,) number of compared pixels, and of all pixels.
    """

    def __init__(
        self, cube: SpectralCube, reference: SpectralCube, pixels: Pixels, dark: float = DARK
    ) -> None:
        cube, reference = usable(cube), usable(reference)
        bands, at_bands = align(cube, reference)
        # Comparisons are built later; until then they must not keep the cube alive.
        self.wavelengths = cube.wavelengths[bands]
        self.unit = cube.unit
        count = len(pixels.numbers)
        errors, relative = (Moments(len(self.wavelengths), count) for _ in range(2))
        angles = Moments(1, count)
        self.sizes = np.zeros(count, dtype=int)
        for _, groups, (estimate, expected) in pixels.blocks(cube.data, reference.data):
            self.sizes[groups.labels] += groups.sizes
            ours = estimate[bands]
            theirs = at_bands(expected)
            good = numbers_in_both(ours, theirs)
            counted = groups.only(good)
            ours, theirs = ours[:, good], theirs[:, good]
            lit = np.asarray((theirs > dark).all(axis=0))
            shares = np.abs(ours[:, lit] - theirs[:, lit]) / theirs[:, lit]
            relative.add(counted.only(lit), shares)
            turns = spectral_angles(ours, theirs, dark)
            has_angle = ~np.isnan(turns)
            angles.add(counted.only(has_angle), turns[None, has_angle])
            errors.add(counted, ours - theirs)
        self.pixels = errors.count[0]
        self.mean = errors.mean
        self.deviation = errors.deviation
        # The mean square is the squared mean plus the variance.
        self.band_rmse = np.hypot(self.mean, self.deviation)
        self.rmse = np.sqrt(np.square(self.band_rmse).mean(axis=0))
        # All bands have the same pixels, so the mean over bands is the mean over all values.
        self.band_mrae = relative.mean
        self.mrae = self.band_mrae.mean(axis=0)
        self.angle = angles.mean[0]

    def comparison(self, at: int, name: str, origin: Origin) -> Comparison:
        """Return the comparison of label number *at*."""
        mean = self.mean[:, at]
        deviation = self.deviation[:, at]
        pixels = int(self.pixels[at])
        error = Spectrum(
            self.wavelengths,
            mean,
            self.unit,
            name,
            lower=mean - deviation,
            upper=mean + deviation,
            spread=STD,
            origin=replace(origin, pixels=pixels, excluded=int(self.sizes[at]) - pixels),
        )
        mrae, rmse, angle = (float(score[at]) for score in (self.mrae, self.rmse, self.angle))
        return Comparison(error, mrae, rmse, angle, pixels)


def error_map(
    cube: SpectralCube,
    reference: SpectralCube,
    measure: Measure = "rmse",
    progress: ProgressLike = None,
) -> Singles:
    """Error (H, W) of each pixel of *cube* against *reference*, over the bands they share.

    *measure* is "difference" (mean of cube minus reference), "rmse", "mrae", or "angle" in degrees.
    A pixel is NaN where a value is not finite and, for the last two, where the reference is dark
    (`metrics.DARK`).

    Raises
    ------
    SpectrumError
        If the images differ in size or share fewer than two bands, or *measure* is unknown.
    Cancelled
        Soon after *progress* was cancelled.
    """
    if measure not in _MEASURES:
        raise SpectrumError(f"Expected one of {', '.join(_MEASURES)}, got {str(measure)[:30]!r}.")
    measured = _MEASURES[measure]
    result = np.empty(cube.shape[1:], dtype=np.float32)
    bands, at_bands = align(cube, reference)
    for rows, values in strips(cube, as_progress(progress)):
        ours = values[bands]
        theirs = at_bands(np.asarray(reference.data[:, rows]).astype(np.float64))
        is_bad = ~numbers_in_both(ours, theirs)
        ours[:, is_bad] = theirs[:, is_bad] = np.nan
        result[rows] = measured(ours, theirs)
    return result


def align(cube: SpectralCube, reference: SpectralCube) -> tuple[Mask, Callable[[Doubles], Doubles]]:
    """Return the bands (B,) of *cube* that *reference* covers, and a resampling function.

    The function takes values (R, ...) of the reference to the covered bands (b, ...).

    Raises
    ------
    SpectrumError
        If the images differ in size or share fewer than two bands, or if only one of them holds
        transformed spectra.
    """
    quantities = {cube.quantity, reference.quantity}
    # Other quantities are named by files, and two names may mean the same.
    if len(quantities) > 1 and quantities & TRANSFORMS.keys():
        ours, theirs = (shown(each.quantity, 40) or "unknown" for each in (cube, reference))
        raise SpectrumError(
            f"Expected a reference of the same quantity, {ours}, got {theirs}. Choose another."
        )
    if cube.shape[1:] != reference.shape[1:]:
        raise SpectrumError(
            f"Expected a reference of {cube.shape[1]} x {cube.shape[2]} pixels, got "
            f"{reference.shape[1]} x {reference.shape[2]}. Choose one of the same scene and size."
        )
    bands = shared_bands(cube, reference)
    if np.array_equal(cube.wavelengths, reference.wavelengths):
        return bands, lambda values: values
    weights = interpolation(cube.wavelengths[bands], reference.wavelengths)
    return bands, partial(np.tensordot, weights, axes=1)


def numbers_in_both(estimate: Doubles, reference: Doubles) -> Mask:
    """Mask (...) of the pixels with finite values (b, ...) in both."""
    return np.asarray(np.isfinite(estimate).all(axis=0) & np.isfinite(reference).all(axis=0))


def _relative_errors(estimate: Doubles, reference: Doubles) -> Doubles:
    """Mean relative error (...) of each pixel of (b, ...); NaN where the reference is dark."""
    lit = (reference > DARK).all(axis=0)
    bright = np.where(lit, reference, np.nan)
    return (np.abs(estimate - bright) / bright).mean(axis=0)


def psnr(rmse: Doubles, peak: float) -> Doubles:
    """Peak signal-to-noise ratio in dB for *rmse*, where white has the value *peak*."""
    with np.errstate(divide="ignore"):
        return 20 * np.log10(peak / rmse)


_MEASURES: dict[str, Callable[[Doubles, Doubles], Doubles]] = {
    "difference": lambda estimate, reference: (estimate - reference).mean(axis=0),
    "rmse": lambda estimate, reference: np.sqrt(np.square(estimate - reference).mean(axis=0)),
    "mrae": _relative_errors,
    "angle": spectral_angles,
}
