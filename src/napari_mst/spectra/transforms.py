"""Curves in another form: normalised, differentiated, without continuum, at other wavelengths.

Most functions take a `Spectrum` and return one. Gaps (NaN) stay gaps. `WAYS` has what is done to
every pixel of a cube. Here are also the bands at which two spectra can be compared. Letters: B
bands, n pixels.
"""

from collections.abc import Callable, Mapping
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from napari_mst.arrays import Doubles, Indices, Mask
from napari_mst.cube import SpectralCube
from napari_mst.cube.spectrum import Spectrum
from napari_mst.errors import SpectrumError, shown

_LEAST_WINDOW = 3  # of a parabola; of two bands it is a line

FEWEST_BANDS = 2
"""Fewest bands on which two spectra are compared: one band has no angle."""


def normalised(spectrum: Spectrum, to: Literal["area", "maximum"]) -> Spectrum:
    """*spectrum* and its bounds divided by one number.

    Everything is NaN if that number is zero or not a number.

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
    """*spectrum* changed in one of the `WAYS`, without bounds; gaps stay gaps, and do not count.

    Raises
    ------
    SpectrumError
        If there are too few bands.
    """
    order = _rising_numbers(spectrum)
    values = np.full(spectrum.values.shape, np.nan)
    if order.size:
        ordered = spectrum.values[order, None], spectrum.wavelengths[order]
        values[order] = WAYS[way](*ordered, window)[:, 0]
    return spectrum.with_values(values)


def fitted(values: Doubles, at: Doubles, window: int, derivative: int = 0) -> Doubles:
    """The parabola through *window* bands around each, or one of its derivatives, (B, n).

    *values* are (B, n), at the wavelengths *at* (B,), of any spacing. On an even one this is the
    filter of Savitzky & Golay, Analytical Chemistry 36 (1964) 1627, doi:10.1021/ac60214a047; the
    first and the last bands have the parabola of the nearest whole window.

    Raises
    ------
    SpectrumError
        If the window spans more bands than there are, or too few for the derivative.
    """
    window = min(window, len(at)) if window == _LEAST_WINDOW else window
    if not derivative < window <= len(at):
        raise SpectrumError(
            f"Expected {max(window, derivative + 1)} or more bands to fit parabolas to, "
            f"got {len(at)}. Take more bands, or a smaller window."
        )
    first = np.clip(np.arange(len(at)) - window // 2, 0, len(at) - window)
    bands = first[:, None] + np.arange(window)
    # Powers of small numbers are told apart better.
    scale = np.ptp(at[bands], axis=1)[:, None]
    powers = ((at[bands] - at[:, None]) / scale)[..., None] ** np.arange(min(3, window))
    weights = np.linalg.pinv(powers)[:, derivative] * max(1, derivative) / scale**derivative
    return np.stack([each @ values[span] for each, span in zip(weights, bands, strict=True)])


def _under_continuum(values: Doubles, at: Doubles, _: int) -> Doubles:
    """*values* over their upper convex hull; NaN where that is not above zero.

    Clark & Roush, J. Geophys. Res. 89 (1984) 6329, doi:10.1029/JB089iB07p06329.
    """
    from spectral import spectral_continuum

    hull = spectral_continuum(np.ascontiguousarray(values.T), at).T
    return np.divide(values, hull, out=np.full(hull.shape, np.nan), where=hull > 0)


CONTINUUM_REMOVED = "continuum removed"
"""The quantity of a cube without its continuum, and the name of that way."""

WAYS: Mapping[str, Callable[[Doubles, Doubles, int], Doubles]] = {
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
"""What is done to the values (B, n) of pixels at rising wavelengths (B,), by its name.

The number is that of bands which a filter spans: Savitzky-Golay, as `fitted`. Absorbance is
-log10(reflectance), and the last one its inverse; the others lose what their inverse would need.
"""


def resampled(spectrum: Spectrum, wavelengths: ArrayLike) -> Spectrum:
    """*spectrum* and its bounds at other *wavelengths* of the same unit, interpolated linearly.

    Raises
    ------
    SpectrumError
        If a wavelength is outside those of the spectrum, since there is no extrapolation.
    """
    at = np.atleast_1d(np.asarray(wavelengths, dtype=np.float64))
    order = rising_order(spectrum.wavelengths)
    low, high = spectrum.wavelengths[order[[0, -1]]]
    if not ((at >= low) & (at <= high)).all():
        raise SpectrumError(
            f"Expected wavelengths within {low:g}-{high:g} {spectrum.unit}, "
            f"got {at.min():g}-{at.max():g}. Choose others; spectra are not extrapolated."
        )
    # np.interp wants rising wavelengths.
    rising = spectrum.wavelengths[order]
    return spectrum.each(lambda values: np.interp(at, rising, values[order]), wavelengths=at)


def _rising_numbers(spectrum: Spectrum) -> Indices:
    order = rising_order(spectrum.wavelengths)
    return order[np.isfinite(spectrum.values[order])]


def rising_order(wavelengths: Doubles) -> Indices:
    """Indices of the bands by rising wavelength: those of two detectors may overlap in a file."""
    return np.argsort(wavelengths, kind="stable")


def covered_bands(estimate: SpectralCube | Spectrum, *references: SpectralCube | Spectrum) -> Mask:
    """(B,) True for the bands of *estimate* within the range of all *references*, in their unit."""
    at = estimate.wavelengths
    bands = np.ones(at.shape, dtype=bool)
    for reference in references:
        measured = reference.wavelengths
        bands &= (at >= measured.min()) & (at <= measured.max()) & (estimate.unit == reference.unit)
    return bands


def shared_bands(estimate: SpectralCube | Spectrum, *references: SpectralCube | Spectrum) -> Mask:
    """(B,) True for the bands of *estimate* within the range of all *references*.

    Raises `SpectrumError` if fewer than two are.
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
