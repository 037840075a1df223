"""Curves in another form: normalised, differentiated, without continuum, at other wavelengths.

Each function takes a `Spectrum` and returns one. Gaps (NaN) stay gaps. Letters: B bands.
"""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from napari_mst.errors import SpectrumError
from napari_mst.spectra.spectrum import Spectrum


def normalised(spectrum: Spectrum, to: Literal["area", "maximum"] | float) -> Spectrum:
    """*spectrum* and its bounds divided by one number.

    Everything is NaN if that number is zero or not a number.

    Parameters
    ----------
    to
        "area": the integral over the wavelengths (trapezoids) becomes 1. "maximum": the largest
        value becomes 1. A wavelength: the value there, interpolated linearly, becomes 1.

    Raises
    ------
    SpectrumError
        If the wavelength is outside the spectrum; or if the wavelengths neither rise nor fall,
        except for "maximum".
    """
    divisor = _divisor(spectrum, to)
    factor = 1 / divisor if divisor and np.isfinite(divisor) else np.nan
    return spectrum.each(lambda values: values * factor)


def first_derivative(spectrum: Spectrum) -> Spectrum:
    """Change of value per unit of the wavelengths, as nm, (B,).

    These are second-order differences on any spacing: Fornberg, Mathematics of Computation 51
    (1988) 699, doi:10.1090/S0025-5718-1988-0935077-0. Bounds are left out. Raises `SpectrumError`
    if there are fewer than two bands, or their wavelengths neither rise nor fall.
    """
    _order(spectrum)
    if spectrum.values.size < 2:
        raise SpectrumError("Expected two or more bands for a derivative, got one.")
    return spectrum.with_values(np.gradient(spectrum.values, spectrum.wavelengths))


def continuum_removed(spectrum: Spectrum) -> Spectrum:
    """*spectrum* divided by its continuum, the upper convex hull over the wavelengths.

    It is 1 where it touches the hull, and NaN where the hull is not above zero. Bounds are left
    out. Clark & Roush, J. Geophys. Res. 89 (1984) 6329, doi:10.1029/JB089iB07p06329. Raises
    `SpectrumError` if the wavelengths neither rise nor fall.
    """
    order = _order(spectrum)
    order = order[np.isfinite(spectrum.values[order])]
    hull: list[int] = []
    for band in order.tolist():
        # A band that lies below the line to the next one is not on the hull.
        while len(hull) > 1 and not _turns_down(spectrum, hull[-2], hull[-1], band):
            hull.pop()
        hull.append(band)
    values = np.full(spectrum.values.shape, np.nan)
    if hull:
        continuum = np.interp(
            spectrum.wavelengths, spectrum.wavelengths[hull], spectrum.values[hull]
        )
        np.divide(spectrum.values, continuum, out=values, where=continuum > 0)
    return spectrum.with_values(values)


def resampled(spectrum: Spectrum, wavelengths: ArrayLike) -> Spectrum:
    """*spectrum* and its bounds at other *wavelengths* of the same unit, interpolated linearly.

    Raises
    ------
    SpectrumError
        If a wavelength is outside those of the spectrum, since there is no extrapolation; or if
        the wavelengths of the spectrum neither rise nor fall.
    """
    at = np.atleast_1d(np.asarray(wavelengths, dtype=np.float64))
    order = _order(spectrum)
    low, high = spectrum.wavelengths[order[[0, -1]]]
    if not ((at >= low) & (at <= high)).all():
        raise SpectrumError(
            f"Expected wavelengths within {low:g}-{high:g} {spectrum.unit}, "
            f"got {at.min():g}-{at.max():g}. Choose others; spectra are not extrapolated."
        )
    # np.interp wants rising wavelengths.
    rising = spectrum.wavelengths[order]
    return spectrum.each(lambda values: np.interp(at, rising, values[order]), wavelengths=at)


def _divisor(spectrum: Spectrum, to: str | float) -> float:
    if to == "maximum":
        return float(np.nanmax(spectrum.values, initial=-np.inf))
    if to == "area":
        order = _order(spectrum)
        order = order[np.isfinite(spectrum.values[order])]
        values = spectrum.values[order]
        widths = np.diff(spectrum.wavelengths[order])
        return float(widths @ (values[1:] + values[:-1]) / 2)
    if isinstance(to, str):
        raise SpectrumError(f"Expected 'area', 'maximum' or a wavelength, got {to[:30]!r}.")
    return float(resampled(spectrum, to).values[0])


def _order(spectrum: Spectrum) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Indices of the bands by rising wavelength.

    Raises `SpectrumError` if the wavelengths neither rise nor fall.
    """
    steps = np.diff(spectrum.wavelengths)
    if (steps > 0).all():
        return np.arange(spectrum.values.size)
    if (steps < 0).all():
        return np.arange(spectrum.values.size)[::-1]
    raise SpectrumError(
        "Expected wavelengths that rise or fall from band to band, got others. Sort the bands."
    )


def _turns_down(spectrum: Spectrum, first: int, middle: int, last: int) -> bool:
    """True if the way over the three bands bends downwards at the *middle* one."""
    x = spectrum.wavelengths
    y = spectrum.values
    to_middle = (x[middle] - x[first], y[middle] - y[first])
    to_last = (x[last] - x[first], y[last] - y[first])
    cross = to_middle[0] * to_last[1] - to_middle[1] * to_last[0]
    return bool(cross < 0)
