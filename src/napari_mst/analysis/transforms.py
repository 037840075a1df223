"""Transforms of spectra: normalisation, derivatives, continuum removal and resampling.

Most functions take a `Spectrum` and return one. Gaps (NaN) stay gaps. `TRANSFORMS` lists the
transforms that apply to every pixel of a cube. This module also finds the bands at which spectra
can be compared, and resamples cubes. Letters: B bands, H rows, W columns; M bands of the result; n
pixels.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from napari_mst.analysis.strips import new_planes, raw_strips
from napari_mst.base.arrays import Doubles, Indices, Mask, Singles
from napari_mst.base.errors import CubeError, SpectrumError, shown
from napari_mst.base.progress import Progress, ProgressLike, as_progress
from napari_mst.cube import SpectralCube
from napari_mst.cube.colour import interpolation
from napari_mst.cube.parts import ABOUT_BANDS
from napari_mst.cube.spectrum import Spectrum

_LEAST_WINDOW = 3  # for a parabola; over two bands it is a line

FEWEST_BANDS = 2
"""Fewest bands on which spectra are compared: a single band has no angle."""


def normalised(spectrum: Spectrum, to: Literal["area", "maximum"]) -> Spectrum:
    """Divide *spectrum* and its bounds by one number.

    All values become NaN if that number is zero or NaN.

    Parameters
    ----------
    to
        "area": the integral over the wavelengths (trapezoids) becomes 1. "maximum": the largest
        value becomes 1.
    """
    order = _rising_numbers(spectrum)
    values, at = spectrum.values[order], spectrum.wavelengths[order]
    divisor = np.trapezoid(values, at) if to == "area" else values.max(initial=-np.inf)
    return spectrum.each(lambda values: values * (1 / divisor if divisor else np.nan))


def transformed(spectrum: Spectrum, way: str, window: int = 3) -> Spectrum:
    """Apply one of the `TRANSFORMS` to *spectrum*; bounds are dropped, and gaps are kept.

    Raises
    ------
    SpectrumError
        If there are too few bands.
    """
    order = _rising_numbers(spectrum)
    values = np.full(spectrum.values.shape, np.nan)
    if order.size:
        ordered = spectrum.values[order, None], spectrum.wavelengths[order]
        values[order] = TRANSFORMS[way](*ordered, window)[:, 0]
    return spectrum.with_values(values)


def fitted(values: Doubles, at: Doubles, window: int, derivative: int = 0) -> Doubles:
    """Fit a parabola to *window* bands around each band; return it, or a *derivative*, (B, n).

    *values* are (B, n), at wavelengths *at* (B,) of any spacing. On an even spacing this is the
    filter of Savitzky & Golay, Analytical Chemistry 36 (1964) 1627, doi:10.1021/ac60214a047. The
    first and last bands use the parabola of the nearest whole window.

    Raises
    ------
    SpectrumError
        If there are fewer bands than the window spans, or too few for the derivative.
    """
    window = min(window, len(at)) if window == _LEAST_WINDOW else window
    if not derivative < window <= len(at):
        raise SpectrumError(
            f"Expected {max(window, derivative + 1)} or more bands to fit parabolas to, "
            f"got {len(at)}. Take more bands, or a smaller window."
        )
    first = np.clip(np.arange(len(at)) - window // 2, 0, len(at) - window)
    bands = first[:, None] + np.arange(window)
    # Distances are scaled to keep the matrix of their powers well conditioned.
    scale = np.ptp(at[bands], axis=1)[:, None]
    powers = ((at[bands] - at[:, None]) / scale)[..., None] ** np.arange(min(3, window))
    weights = np.linalg.pinv(powers)[:, derivative] * max(1, derivative) / scale**derivative
    return np.stack([each @ values[span] for each, span in zip(weights, bands, strict=True)])


def _under_continuum(values: Doubles, at: Doubles, _: int) -> Doubles:
    """Divide *values* by their upper convex hull; NaN where the hull is not above zero.

    Clark & Roush, J. Geophys. Res. 89 (1984) 6329, doi:10.1029/JB089iB07p06329.
    """
    hull = _upper_hull(values, at)
    is_above = hull > 0
    return values / hull if is_above.all() else np.where(is_above, values / hull, np.nan)


def _upper_hull(values: Doubles, at: Doubles) -> Doubles:
    """Return the upper convex hull (B, n) of each pixel, built along the steepest lines."""
    nearest = 1e-9 * np.ptp(at)  # bands of two detectors may share a wavelength
    # A corner missed by rounding would let the line run past it.
    rounding = 1e-13 * np.abs(values).max(axis=0)

    def steepest(band: int) -> Doubles:
        steps = np.maximum(at[band + 1 :] - at[band], nearest)[:, None]
        slopes = values[band + 1 :] - values[band]
        slopes *= 1 / steps
        return slopes.max(axis=0, initial=-np.inf)

    hull = values.copy()
    slope = steepest(0)
    for band in range(1, len(at)):
        line = hull[band - 1] + slope * (at[band] - at[band - 1])
        is_corner = values[band] >= line - rounding
        np.copyto(hull[band], line, where=~is_corner)
        np.copyto(slope, steepest(band), where=is_corner)
    return hull


CONTINUUM_REMOVED = "continuum removed"
"""Quantity of a cube after continuum removal, and name of that transform."""

TRANSFORMS: Mapping[str, Callable[[Doubles, Doubles, int], Doubles]] = {
    CONTINUUM_REMOVED: _under_continuum,
    "first derivative": lambda values, at, window: fitted(values, at, window, 1),
    "second derivative": lambda values, at, window: fitted(values, at, window, 2),
    "smoothed": fitted,
    "normalised to area": lambda values, at, _: values / np.trapezoid(values, at, axis=0),
    "normalised to maximum": lambda values, *_: values / values.max(axis=0),
    "standard normal variate": lambda values, *_: (values - values.mean(0)) / values.std(0),
    "absorbance": lambda values, *_: -np.log10(values),
    "reflectance of absorbance": lambda values, *_: 10**-values,
}
"""Transforms by name: functions of pixel values (B, n) at ascending wavelengths (B,).

The integer is the number of bands that a Savitzky-Golay filter spans, as in `fitted`. Absorbance is
-log10(reflectance), and the last transform inverts it; the others cannot be inverted.
"""


def resampled(spectrum: Spectrum, wavelengths: ArrayLike) -> Spectrum:
    """Interpolate *spectrum* and its bounds linearly at other *wavelengths* of the same unit.

    Raises
    ------
    SpectrumError
        If a wavelength lies outside the range of the spectrum, since nothing is extrapolated.
    """
    at = np.atleast_1d(np.asarray(wavelengths, dtype=np.float64))
    order = rising_order(spectrum.wavelengths)
    low, high = spectrum.wavelengths[order[[0, -1]]]
    if not ((at >= low) & (at <= high)).all():
        raise SpectrumError(
            f"Expected wavelengths within {low:g}-{high:g} {spectrum.unit}, "
            f"got {at.min():g}-{at.max():g}. Choose others; spectra are not extrapolated."
        )
    # np.interp needs ascending wavelengths.
    rising = spectrum.wavelengths[order]
    return spectrum.each(lambda values: np.interp(at, rising, values[order]), wavelengths=at)


def _rising_numbers(spectrum: Spectrum) -> Indices:
    order = rising_order(spectrum.wavelengths)
    return order[np.isfinite(spectrum.values[order])]


def rising_order(wavelengths: Doubles) -> Indices:
    """Indices of the bands by ascending wavelength; the bands of two detectors may overlap."""
    return np.argsort(wavelengths, kind="stable")


def covered_bands(estimate: SpectralCube | Spectrum, *references: SpectralCube | Spectrum) -> Mask:
    """Return a mask (B,) of the bands of *estimate* that all *references* cover, in their unit."""
    at = estimate.wavelengths
    bands = np.ones(at.shape, dtype=bool)
    for reference in references:
        measured = reference.wavelengths
        bands &= (at >= measured.min()) & (at <= measured.max()) & (estimate.unit == reference.unit)
    return bands


def shared_bands(estimate: SpectralCube | Spectrum, *references: SpectralCube | Spectrum) -> Mask:
    """Return a mask (B,) of the bands of *estimate* that all *references* cover.

    Raises `SpectrumError` if there are fewer than two such bands.
    """
    bands = covered_bands(estimate, *references)
    if bands.sum() < FEWEST_BANDS:
        ours, *theirs = (
            f"{each.wavelengths.min():g}-{each.wavelengths.max():g} {each.unit}"
            for each in (estimate, *references)
        )
        raise SpectrumError(
            f"Expected a reference that shares two or more bands with {ours}, "
            f"got {shown(', '.join(theirs), 60)}. Choose another."
        )
    return bands


MOST_OUTSIDE = 0.05
"""Largest share of a response that may lie outside the wavelengths of the cube."""


def resample(
    cube: SpectralCube,
    to: ArrayLike | Sequence[Spectrum],
    *,
    widths: ArrayLike | None = None,
    progress: ProgressLike = None,
) -> SpectralCube:
    """Resample *cube* to other bands, in float32, a few rows at a time.

    Metadata about single bands are dropped; other metadata stay.

    Parameters
    ----------
    cube
        Cube with ascending or descending wavelengths in nm.
    to
        Wavelengths in nm (M,), at which bands are interpolated linearly. Or M spectra, the
        responses of a sensor in nm: each new band is the mean of the spectrum weighted by a
        response, and lies at the centre of gravity of that response.
    widths
        Full widths at half maximum in nm, one or (M,), of bands at the wavelengths *to*: each new
        band is then the mean under a Gaussian of that width. Widths below the band spacing of the
        cube have no effect.

    Raises
    ------
    CubeError
        If the cube has no ascending or descending wavelengths in nm; if a wavelength lies outside
        their range; if widths are not above 0, or do not match the wavelengths in number; if more
        than a twentieth of a response lies outside the cube, or if a response is nowhere above
        zero.
    Cancelled
        Soon after *progress* was cancelled.

    Notes
    -----
    =======  =====================================================
    cube     any unit; wavelengths in nm
    to       nm; or responses of 0 or more, relative to each other
    widths   nm, above 0
    returns  float32 in the unit of the cube
    =======  =====================================================

    Examples
    --------
    >>> cube = nm.SpectralCube(np.zeros((3, 40, 50), np.float32), [500, 550, 600])
    >>> nm.resample(cube, [510, 520], widths=10).shape
    (2, 40, 50)
    >>> green = nm.Spectrum([500, 550, 600], [0, 1, 0], name="green")
    >>> nm.resample(cube, [green]).wavelengths
    array([550.])
    """
    _check(cube)
    metadata = {key: cube.metadata[key] for key in cube.metadata if key not in ABOUT_BANDS}
    if isinstance(to, Sequence) and to and isinstance(to[0], Spectrum):
        responses = [response for response in to if isinstance(response, Spectrum)]
        matrix = np.stack([_weights(cube.wavelengths, response) for response in responses])
        centres = matrix @ cube.wavelengths
        metadata["band names"] = tuple(response.name for response in responses)
    else:
        centres = np.atleast_1d(np.asarray(to, dtype=np.float64))
        matrix = _between_bands(cube.wavelengths, centres)
        if widths is not None:
            _widen(matrix, cube.wavelengths, centres, np.asarray(widths, dtype=np.float64))
    data = _mixed(cube, matrix, as_progress(progress))
    return replace(
        cube,
        data=data,
        wavelengths=centres,
        metadata=metadata,
        provenance=cube.provenance.with_cut(f"resampled to {len(data)} bands"),
        colour_error=None,
    )


def _mixed(cube: SpectralCube, matrix: Doubles, progress: Progress) -> Singles:
    """Multiply the spectrum of each pixel by *matrix* (M, B): (M, H, W)."""
    data = new_planes(len(matrix), cube)
    for rows, strip in raw_strips(cube, progress):
        for band, weights in enumerate(matrix):
            # Bands without weight are left out, since 0 times NaN is NaN.
            used = np.flatnonzero(weights)
            data[band, rows] = np.tensordot(weights[used], strip[used].astype(np.float64), axes=1)
    return data


def _check(cube: SpectralCube) -> None:
    steps = np.diff(cube.wavelengths)
    if not cube.has_wavelengths or not ((steps > 0).all() or (steps < 0).all()):
        raise CubeError(
            f"Expected a cube with wavelengths in nm that rise or fall, got unit "
            f"{shown(cube.unit)}. Sort its bands, or give it wavelengths."
        )


def _between_bands(wavelengths: Doubles, at: Doubles) -> Doubles:
    """Return the matrix (M, B) that interpolates a spectrum linearly at the wavelengths *at*."""
    low = wavelengths.min()
    high = wavelengths.max()
    is_inside = (at >= low) & (at <= high)
    if at.ndim != 1 or not at.size or not is_inside.all():
        raise CubeError(
            f"Expected wavelengths within {low:g}-{high:g} nm, got {shown(at.tolist(), 60)}. "
            "Choose others; spectra are not extrapolated."
        )
    return interpolation(at, wavelengths)


def _widen(matrix: Doubles, wavelengths: Doubles, centres: Doubles, widths: Doubles) -> None:
    """Replace the rows of *matrix* whose new bands span several bands by Gaussians."""
    if widths.shape not in ((), (1,), centres.shape) or not (widths > 0).all():
        raise CubeError(
            f"Expected 1 or {len(centres)} widths above 0 nm, got {shown(widths.tolist(), 60)}. "
            "Give one for each wavelength."
        )
    steps = _steps(wavelengths)
    for row, (centre, width) in enumerate(np.broadcast(centres, widths)):
        if width > steps[np.abs(wavelengths - centre).argmin()]:
            at = centre + width * np.linspace(-1.5, 1.5, 121)
            shape = 0.5 ** (2 * (at - centre) / width) ** 2
            matrix[row] = _weights(wavelengths, Spectrum(at, shape, name=f"{centre:g} nm"))


def _weights(wavelengths: Doubles, response: Spectrum) -> Doubles:
    """Return the weights (B,) of the bands under one response; their sum is 1."""
    name = shown(response.name or "a response", 40)
    if not response.has_wavelengths:
        raise CubeError(f"Expected wavelengths in nm for {name}, got {shown(response.unit)}.")
    order = np.argsort(response.wavelengths)
    sampled = response.wavelengths[order]
    values = np.nan_to_num(response.values[order])
    is_outside = (sampled < wavelengths.min()) | (sampled > wavelengths.max())
    areas = values * _steps(sampled)
    if areas.sum() <= 0 or areas[is_outside].sum() > MOST_OUTSIDE * areas.sum():
        raise CubeError(
            f"Expected {name} within {wavelengths.min():g}-{wavelengths.max():g} nm and above "
            f"zero, got {sampled[0]:g}-{sampled[-1]:g} nm. Leave this band out."
        )
    # With uneven spacing, each band weighs as much as the range that it represents.
    weights = np.interp(wavelengths, sampled, values, left=0, right=0) * _steps(wavelengths)
    if not weights.any():
        raise CubeError(
            f"Expected {name} to span a band of the cube, got one between two bands. "
            "Give its wavelength instead."
        )
    return weights / weights.sum()


def _steps(wavelengths: Doubles) -> Doubles:
    """Return the spacing (B,) of *wavelengths*; 1 for a single wavelength."""
    return np.abs(np.gradient(wavelengths)) if wavelengths.size > 1 else np.ones(1)
