"""An estimate and its reference at the same bands: those that the reference covers.

Letters: B bands of the estimate, R bands of the reference, b bands that are compared.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from napari_mst.cube import SpectralCube
from napari_mst.errors import SpectrumError
from napari_mst.metrics import DARK
from napari_mst.spectra.matching import FEWEST_BANDS
from napari_mst.spectra.spectrum import Spectrum, Values
from napari_mst.spectra.transforms import resampled


@dataclass(frozen=True, eq=False)
class Alignment:
    """Takes the numbers of two cubes to the bands at which they are compared.

    Attributes
    ----------
    bands
        (B,) True for the bands of the estimate that the reference covers.
    weights
        (b, R) weights that interpolate the reference to these bands; None where both cubes have
        the same wavelengths.
    """

    bands: NDArray[np.bool_]
    weights: Values | None

    def of_estimate(self, values: Values) -> Values:
        """(b, ...) of the (B, ...) *values* of the estimate."""
        return values[self.bands]

    def of_reference(self, values: Values) -> Values:
        """(b, ...) of the (R, ...) *values* of the reference."""
        if self.weights is None:
            return values
        return np.tensordot(self.weights, values, axes=1)


def align(cube: SpectralCube, reference: SpectralCube) -> Alignment:
    """The alignment by which *cube* is compared with *reference*.

    Raises
    ------
    SpectrumError
        If the images differ in size, or share fewer than two bands.
    """
    if cube.shape[1:] != reference.shape[1:]:
        raise SpectrumError(
            f"Expected a reference of {cube.shape[1]} x {cube.shape[2]} pixels, got "
            f"{reference.shape[1]} x {reference.shape[2]}. Choose one of the same scene and size."
        )
    bands = shared_bands(cube, reference)
    if np.array_equal(cube.wavelengths, reference.wavelengths):
        return Alignment(bands, None)
    # Interpolation is linear, so that of one spectrum a band gives the weights of all pixels.
    columns = []
    for row in np.eye(len(reference.wavelengths)):
        unit_spectrum = Spectrum(reference.wavelengths, row, reference.unit)
        columns.append(resampled(unit_spectrum, cube.wavelengths[bands]).values)
    return Alignment(bands, np.stack(columns, axis=1))


def numbers_in_both(estimate: Values, reference: Values) -> NDArray[np.bool_]:
    """Pixels, (...), whose values (b, ...) are numbers in both."""
    return np.asarray(np.isfinite(estimate).all(axis=0) & np.isfinite(reference).all(axis=0))


def relative_errors(estimate: Values, reference: Values, dark: float = DARK) -> Values:
    """Mean relative error of each pixel, (...) of two (b, ...); NaN where the reference is dark."""
    lit = (reference > dark).all(axis=0)
    # Dark pixels would divide by zero or nearly so; their result is not used.
    divisor = np.where(lit, reference, 1)
    relative = (np.abs(estimate - reference) / divisor).mean(axis=0)
    return np.where(lit, relative, np.nan)


def shared_bands(
    estimate: SpectralCube | Spectrum, reference: SpectralCube | Spectrum
) -> NDArray[np.bool_]:
    """(B,) True for the bands of *estimate* within the range of *reference*.

    Raises `SpectrumError` if fewer than two are.
    """
    wavelengths = estimate.wavelengths
    low = reference.wavelengths.min()
    high = reference.wavelengths.max()
    is_same_unit = estimate.unit == reference.unit
    bands = np.asarray((wavelengths >= low) & (wavelengths <= high) & is_same_unit)
    if bands.sum() < FEWEST_BANDS:
        raise SpectrumError(
            "Expected a reference that shares two or more bands with "
            f"{wavelengths.min():g}-{wavelengths.max():g} {estimate.unit}, "
            f"got {low:g}-{high:g} {reference.unit}. Choose another."
        )
    return bands
