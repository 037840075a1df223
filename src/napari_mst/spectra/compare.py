"""How far a spectrum, a region or a whole cube is from its reference: error curves, MRAE, RMSE, spectral angle, maps.

Both are compared at the bands of the estimate within the range of the reference, which is interpolated to them.
Metrics: `napari_mst.metrics`. Letters: B bands, H rows, W columns; n pixels.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from napari_mst.cube import SpectralCube
from napari_mst.errors import SpectrumError
from napari_mst.metrics import DARK, mrae, rmse, spectral_angles
from napari_mst.spectra.labels import Labelled, Moments, Numbers, label_groups, label_numbers
from napari_mst.spectra.matching import FEWEST_BANDS
from napari_mst.spectra.regions import Region, check_inside, mean_and_std, pixel_blocks, region_name
from napari_mst.spectra.spectrum import STD, Map, Origin, Spectrum, Values
from napari_mst.spectra.strips import raw_strips, strips
from napari_mst.spectra.transforms import resampled
from napari_mst.watch import IsCancelled, Progress, Watch

Measure = Literal["difference", "rmse", "mrae", "angle"]


@dataclass(frozen=True, eq=False)
class Comparison:
    """An estimate against its reference.

    Attributes
    ----------
    error
        Estimate minus reference at each band; for a region the mean over its pixels and one standard deviation.
    mrae, rmse, angle
        Mean over the pixels; the angle in degrees. NaN where no pixel is bright enough (`metrics.DARK`).
    pixels
        How many were compared; others are not numbers in one of the two.
    """

    error: Spectrum
    mrae: float
    rmse: float
    angle: float
    pixels: int


def compare_spectra(estimate: Spectrum, reference: Spectrum, dark: float = DARK) -> Comparison:
    """*estimate* against *reference*, two curves.

    Raises
    ------
    SpectrumError
        If they share fewer than two bands.
    """
    bands = _shared(estimate.wavelengths, estimate.unit, reference.wavelengths, reference.unit)
    wavelengths, values = estimate.wavelengths[bands], estimate.values[bands]
    expected = resampled(reference, wavelengths).values
    good = np.isfinite(values) & np.isfinite(expected)
    curve = Spectrum(wavelengths, values - expected, estimate.unit, estimate.name, estimate.colour)
    if not good.any():
        return Comparison(curve, np.nan, np.nan, np.nan, 0)
    e, r = values[good, None], expected[good, None]
    angle = float(spectral_angles(e, r, dark)[0])
    return Comparison(curve, mrae(e, r, dark), rmse(e, r), angle, 1)


def compare_region(
    cube: SpectralCube, reference: SpectralCube, region: Region, dark: float = DARK
) -> Comparison:
    """The pixels of *region* in *cube* against the same pixels of *reference*, a few at a time.

    Raises
    ------
    SpectrumError
        If the images differ in size, or share fewer than two bands.
    """
    check_inside(cube, region)
    bands, aligned = _aligned(cube, reference)
    scores = np.zeros(6)

    def differences() -> Iterator[Values]:
        for ours, theirs in zip(
            pixel_blocks(cube.data, region), pixel_blocks(reference.data, region), strict=True
        ):
            e, r = ours[bands], aligned(theirs)
            good = np.isfinite(e).all(axis=0) & np.isfinite(r).all(axis=0)
            scores[:] += _scores(e[:, good], r[:, good], dark)
            yield e[:, good] - r[:, good]

    mean, deviation = mean_and_std(differences(), int(bands.sum()))
    squares, count, relative, lit, angles, angled = scores
    name = region_name(region)
    error = Spectrum(
        cube.wavelengths[bands], mean, cube.unit, name, "", mean - deviation, mean + deviation, STD
    )
    error = replace(
        error, origin=replace(region.origin, pixels=int(count), excluded=region.size - int(count))
    )
    return Comparison(
        error,
        _ratio(relative, lit),
        _ratio(squares, count) ** 0.5,
        _ratio(angles, angled),
        int(count),
    )


def compare_labels(
    cube: SpectralCube,
    reference: SpectralCube,
    labels: Numbers,
    progress: Progress | None = None,
    is_cancelled: IsCancelled | None = None,
) -> Labelled[Comparison]:
    """Every label of an (H, W) image but 0 as `compare_region` compares one, in one pass over both cubes.

    Raises
    ------
    SpectrumError
        As `compare_region`.
    Cancelled
        Soon after *is_cancelled* returned true.
    """
    bands, aligned = _aligned(cube, reference)
    numbers = label_numbers(labels)
    moments, scores = Moments(len(numbers), int(bands.sum())), np.zeros((6, len(numbers)))
    sizes = np.zeros(len(numbers), dtype=int)
    for rows, strip in raw_strips(cube, Watch(progress, is_cancelled)):
        if (groups := label_groups(labels, numbers, rows)) is None:
            continue
        sizes[groups.labels] += groups.sizes
        e = groups.of_image(strip)[bands]
        r = aligned(groups.of_image(np.asarray(reference.data[:, rows])))
        good = np.asarray(np.isfinite(e).all(axis=0) & np.isfinite(r).all(axis=0))
        if good.any():
            e, r, groups = e[:, good], r[:, good], groups.only(good)
            scores[:, groups.labels] += groups.total(_pixel_scores(e, r))
            moments.add(groups, e - r)
    squares, count, relative, lit, angles, angled = scores
    mean, deviation = np.where(moments.count > 0, moments.mean, np.nan).T, moments.deviation().T
    wavelengths, unit = cube.wavelengths[bands], cube.unit  # what is made later holds no cube

    def made(at: int) -> Comparison:
        name, pixels = f"label {numbers[at]}", int(count[at])
        bounds = mean[at] - deviation[at], mean[at] + deviation[at]
        origin = Origin(region=name, pixels=pixels, excluded=int(sizes[at]) - pixels)
        error = Spectrum(wavelengths, mean[at], unit, name, "", *bounds, STD, origin)
        root, relative_error = _ratio(squares[at], count[at]) ** 0.5, _ratio(relative[at], lit[at])
        return Comparison(error, relative_error, root, _ratio(angles[at], angled[at]), pixels)

    return Labelled(numbers, mean, made)


def error_map(
    cube: SpectralCube,
    reference: SpectralCube,
    measure: Measure = "rmse",
    progress: Progress | None = None,
    is_cancelled: IsCancelled | None = None,
) -> Map:
    """How far each pixel of *cube* is from that of *reference*, (H, W), over all bands that they share.

    *measure* is "difference" (mean of cube minus reference), "rmse", "mrae", or "angle" in degrees; NaN where a value
    is not a number, and for the last two where the reference is dark (`metrics.DARK`).

    Raises
    ------
    SpectrumError
        If the images differ in size, or share fewer than two bands; or *measure* is another.
    Cancelled
        Soon after *is_cancelled* returned true.
    """
    if measure not in _MEASURES:
        raise SpectrumError(f"Expected one of {', '.join(_MEASURES)}, got {str(measure)[:30]!r}.")
    bands, aligned = _aligned(cube, reference)
    result = np.empty(cube.shape[1:], dtype=np.float32)
    for rows, strip in strips(cube, Watch(progress, is_cancelled)):
        e, r = strip[bands], aligned(np.asarray(reference.data[:, rows]).astype(np.float64))
        bad = ~(np.isfinite(e).all(axis=0) & np.isfinite(r).all(axis=0))
        e[:, bad] = r[:, bad] = np.nan
        result[rows] = _MEASURES[measure](e, r)
    return result


def _relative(e: Values, r: Values) -> Values:
    lit = (r > DARK).all(axis=0)
    return np.where(lit, (np.abs(e - r) / np.where(lit, r, 1)).mean(axis=0), np.nan)


_MEASURES: dict[str, Callable[[Values, Values], Values]] = {
    "difference": lambda e, r: np.asarray((e - r).mean(axis=0)),
    "rmse": lambda e, r: np.asarray(np.sqrt(np.square(e - r).mean(axis=0))),
    "mrae": _relative,
    "angle": spectral_angles,
}


def _pixel_scores(e: Values, r: Values) -> Values:
    """(6, n) what `_scores` sums, of each pixel."""
    relative, angles = _relative(e, r), spectral_angles(e, r)
    squares, ones = np.square(e - r).mean(axis=0), np.ones(e.shape[1])
    return np.asarray(
        np.nan_to_num(
            np.stack([squares, ones, relative, ~np.isnan(relative), angles, ~np.isnan(angles)])
        )
    )


def _scores(e: Values, r: Values, dark: float) -> Values:
    """Sum of squared errors and pixels; of relative errors and lit pixels; of angles and pixels that have one."""
    count, lit = e.shape[1], int((r > dark).all(axis=0).sum())
    angles = spectral_angles(e, r, dark)
    angles = angles[~np.isnan(angles)]
    squares = count * rmse(e, r) ** 2 if count else 0.0
    return np.array(
        [squares, count, lit * mrae(e, r, dark) if lit else 0.0, lit, angles.sum(), angles.size]
    )


def _ratio(total: float, count: float) -> float:
    return float(total / count) if count else float("nan")


def _shared(wavelengths: Values, unit: str, others: Values, other_unit: str) -> NDArray[np.bool_]:
    """Which *wavelengths* are within the *others*. Raises `SpectrumError` if fewer than two are."""
    bands = (wavelengths >= others.min()) & (wavelengths <= others.max()) & (unit == other_unit)
    if bands.sum() < FEWEST_BANDS:
        raise SpectrumError(
            f"Expected a reference that shares two or more bands with {wavelengths.min():g}-{wavelengths.max():g} "
            f"{unit}, got {others.min():g}-{others.max():g} {other_unit}. Choose another."
        )
    return np.asarray(bands)


def _aligned(
    cube: SpectralCube, reference: SpectralCube
) -> tuple[NDArray[np.bool_], Callable[[Values], Values]]:
    """Which bands of *cube* are compared, and the function that takes the numbers of *reference* (B, ...) to them."""
    if cube.shape[1:] != reference.shape[1:]:
        raise SpectrumError(
            f"Expected a reference of {cube.shape[1]} x {cube.shape[2]} pixels, got "
            f"{reference.shape[1]} x {reference.shape[2]}. Choose one of the same scene and size."
        )
    bands = _shared(cube.wavelengths, cube.unit, reference.wavelengths, reference.unit)
    if np.array_equal(cube.wavelengths, reference.wavelengths):
        return bands, lambda values: values
    units = (
        Spectrum(reference.wavelengths, row, reference.unit)
        for row in np.eye(len(reference.wavelengths))
    )
    weights = np.stack([resampled(unit, cube.wavelengths[bands]).values for unit in units], axis=1)
    return bands, lambda values: np.tensordot(weights, values, axes=1)
