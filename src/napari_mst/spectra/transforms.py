"""Curves in another form: normalised, differentiated, without continuum, at other wavelengths.

Each function takes a `Spectrum` and returns one. Gaps (NaN) stay gaps. Here are also the bands at
which two spectra can be compared. Letters: B bands.
"""

from collections.abc import Iterable
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from napari_mst.arrays import Doubles, Indices, Mask
from napari_mst.cube import SpectralCube
from napari_mst.errors import SpectrumError
from napari_mst.spectra.spectrum import Spectrum

FEWEST_BANDS = 2
"""Fewest bands on which two spectra are compared: one band has no angle."""


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
    rising_order(spectrum.wavelengths)
    if spectrum.values.size < 2:
        raise SpectrumError("Expected two or more bands for a derivative, got one.")
    return spectrum.with_values(np.gradient(spectrum.values, spectrum.wavelengths))


def continuum_removed(spectrum: Spectrum) -> Spectrum:
    """*spectrum* divided by its continuum, the upper convex hull over the wavelengths.

    It is 1 where it touches the hull, and NaN where the hull is not above zero. Bounds are left
    out. Clark & Roush, J. Geophys. Res. 89 (1984) 6329, doi:10.1029/JB089iB07p06329. Raises
    `SpectrumError` if the wavelengths neither rise nor fall.
    """
    from spectral import spectral_continuum

    order = rising_order(spectrum.wavelengths)
    order = order[np.isfinite(spectrum.values[order])]
    values = np.full(spectrum.values.shape, np.nan)
    if order.size:
        ordered = spectrum.values[order]
        continuum = spectral_continuum(ordered, spectrum.wavelengths[order])
        values[order] = np.divide(ordered, continuum, out=values[order], where=continuum > 0)
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


def _divisor(spectrum: Spectrum, to: str | float) -> float:
    if to == "maximum":
        return float(np.nanmax(spectrum.values, initial=-np.inf))
    if to == "area":
        order = rising_order(spectrum.wavelengths)
        order = order[np.isfinite(spectrum.values[order])]
        return float(np.trapezoid(spectrum.values[order], spectrum.wavelengths[order]))
    if isinstance(to, str):
        raise SpectrumError(f"Expected 'area', 'maximum' or a wavelength, got {to[:30]!r}.")
    return float(resampled(spectrum, to).values[0])


def rising_order(wavelengths: Doubles) -> Indices:
    """Indices of the bands by rising wavelength.

    Raises `SpectrumError` if the wavelengths neither rise nor fall.
    """
    steps = np.diff(wavelengths)
    if not ((steps > 0).all() or (steps < 0).all()):
        raise SpectrumError(
            "Expected wavelengths that rise or fall from band to band, got others. Sort the bands."
        )
    return np.argsort(wavelengths)


def covered_bands(
    estimate: SpectralCube | Spectrum, references: Iterable[SpectralCube | Spectrum]
) -> Mask:
    """(B,) True for the bands of *estimate* within the range of all *references*, in their unit."""
    at = estimate.wavelengths
    bands = np.ones(at.shape, dtype=bool)
    for reference in references:
        measured = reference.wavelengths
        bands &= (at >= measured.min()) & (at <= measured.max()) & (estimate.unit == reference.unit)
    return bands


def shared_bands(estimate: SpectralCube | Spectrum, reference: SpectralCube | Spectrum) -> Mask:
    """(B,) True for the bands of *estimate* within the range of *reference*.

    Raises `SpectrumError` if fewer than two are.
    """
    bands = covered_bands(estimate, [reference])
    if bands.sum() < FEWEST_BANDS:
        ours, theirs = (
            f"{each.wavelengths.min():g}-{each.wavelengths.max():g} {each.unit}"
            for each in (estimate, reference)
        )
        raise SpectrumError(
            f"Expected a reference that shares two or more bands with {ours}, got {theirs}. "
            "Choose another."
        )
    return bands
