"""Maps of two bands: their ratio, and their normalised difference.

Letters: H rows, W columns.
"""

import numpy as np
from numpy.typing import NDArray

from napari_mst.cube import SpectralCube
from napari_mst.errors import SpectrumError
from napari_mst.spectra.spectrum import Map


def band_ratio(cube: SpectralCube, numerator: float, denominator: float) -> Map:
    """Ratio of the bands nearest to two wavelengths, (H, W); NaN where the denominator is zero.

    The wavelengths are in the unit of *cube*. Raises `SpectrumError` if one is outside its range.
    """
    return _quotient(_band(cube, numerator), _band(cube, denominator))


def normalised_difference(cube: SpectralCube, first: float, second: float) -> Map:
    """(a - b) / (a + b) of the bands nearest to two wavelengths, (H, W); NaN where a + b is zero.

    The wavelengths are in the unit of *cube*. Raises `SpectrumError` if one is outside its range.
    """
    a = _band(cube, first)
    b = _band(cube, second)
    return _quotient(a - b, a + b)


def band_near(cube: SpectralCube, wavelength: float) -> int:
    """Index of the band nearest to *wavelength*.

    Raises `SpectrumError` outside the range of *cube*.
    """
    low = cube.wavelengths.min()
    high = cube.wavelengths.max()
    if not low <= wavelength <= high:
        raise SpectrumError(
            f"Expected a wavelength within {low:g}-{high:g} {cube.unit}, got {wavelength:g}."
        )
    return cube.nearest_band(wavelength)


def _quotient(numerator: NDArray[np.float64], denominator: NDArray[np.float64]) -> Map:
    result = np.full(numerator.shape, np.nan)
    np.divide(numerator, denominator, out=result, where=denominator != 0)
    # A tiny denominator can still overflow, and no map shows infinity.
    result[~np.isfinite(result)] = np.nan
    return result.astype(np.float32)


def _band(cube: SpectralCube, wavelength: float) -> NDArray[np.float64]:
    band = cube.data[band_near(cube, wavelength)]
    return np.asarray(band).astype(np.float64)
