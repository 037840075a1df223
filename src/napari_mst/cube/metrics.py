"""Errors of an estimated cube against its reference: plain functions of two (B, H, W) arrays.

Relative errors are meaningless in dark pixels, so each function states which pixels it counts.
"""

import numpy as np
from numpy.typing import ArrayLike

from napari_mst.base.arrays import Doubles, Floats, Mask, doubles
from napari_mst.cube.illuminants import DAYLIGHT, Light, render_lab

CubeData = Floats
"""(B, H, W) numbers."""

DARK = 0.02
"""Reflectance at or below which a pixel has no relative error and no spectral angle."""

CORE = (420.0, 680.0)
"""Range of wavelengths (nm) in which a photo constrains the spectrum.

Outside it, the eye sees almost nothing.
"""

CORE_MEAN = 0.05
"""Smallest mean reflectance of a pixel that counts for `core_mrae`."""


def mrae(estimate: CubeData, reference: CubeData) -> float:
    """Mean relative absolute error |e - r| / r; NaN if no pixel counts.

    A pixel counts if its *reference* exceeds `DARK` in all bands.
    """
    return _relative(estimate, reference, np.all(reference > DARK, axis=0))


def core_pixels(reference: CubeData) -> Mask:
    """Mask (H, W) of the pixels that count for `core_mrae`.

    Their *reference* has a mean of at least `CORE_MEAN`, and exceeds `DARK` in all bands.
    """
    is_bright = reference.mean(axis=0) >= CORE_MEAN
    return is_bright & (reference > DARK).all(axis=0)


def core_bands(wavelengths: ArrayLike) -> Mask:
    """Mask (B,) of the *wavelengths* (nm) within `CORE`."""
    at = doubles(wavelengths)
    return (at >= CORE[0]) & (at <= CORE[1])


def core_mrae(estimate: CubeData, reference: CubeData, wavelengths: ArrayLike) -> float:
    """`mrae` over `core_bands` and `core_pixels`; NaN if there are none."""
    bands = core_bands(wavelengths)
    return _relative(estimate[bands], reference[bands], core_pixels(reference))


def _relative(estimate: CubeData, reference: CubeData, lit: Mask) -> float:
    expected = reference[:, lit].astype(np.float64)
    return _mean(np.abs(estimate[:, lit] - expected) / expected)


def rmse(estimate: CubeData, reference: CubeData) -> float:
    """Root mean squared error over all pixels and bands, in the unit of the cubes."""
    return float(np.sqrt(np.mean(np.square(estimate.astype(np.float64) - reference))))


def psnr(estimate: CubeData, reference: CubeData, peak: float = 1.0) -> float:
    """Peak signal-to-noise ratio in dB over all pixels and bands; infinite for equal cubes."""
    error = rmse(estimate, reference)
    return float(20 * np.log10(peak / error)) if error else float("inf")


def spectral_angles(estimate: CubeData, reference: CubeData, dark: float = DARK) -> Doubles:
    """Angle between the two spectra of each pixel in degrees, (H, W).

    NaN where the mean of the reference is not above *dark*, or a spectrum is zero.
    Kruse et al., Remote Sens. Environ. 44 (1993) 145, doi:10.1016/0034-4257(93)90013-N.
    """
    e, r = estimate.astype(np.float64), reference.astype(np.float64)
    norms = np.linalg.norm(e, axis=0) * np.linalg.norm(r, axis=0)
    lit = (r.mean(axis=0) > dark) & (norms > 0)
    cosine = np.divide((e * r).sum(axis=0), norms, out=np.full(norms.shape, np.nan), where=lit)
    # Rounding can take the cosine of equal spectra beyond 1.
    return np.degrees(np.arccos(np.clip(cosine, -1, 1)))


def spectral_angle(estimate: CubeData, reference: CubeData, dark: float = DARK) -> float:
    """Mean of `spectral_angles` over the pixels that have one, in degrees; NaN if none.

    The usual label is SAM.
    """
    angles = spectral_angles(estimate, reference, dark)
    return _mean(angles[~np.isnan(angles)])


def colour_difference(
    estimate: CubeData, reference: CubeData, wavelengths: ArrayLike, light: Light = DAYLIGHT
) -> float:
    """Mean CIEDE2000 between the colours of two reflectance cubes under *light*, all pixels."""
    first = render_lab(estimate, wavelengths, light)
    second = render_lab(reference, wavelengths, light)
    return _mean(delta_e(first, second))


def delta_e(first: Floats, second: Floats) -> Doubles:
    """CIEDE2000 between two arrays of CIELAB colours, (3, ...) each; the result has no first axis.

    ISO/CIE 11664-6:2022; Sharma, Wu, Dalal, Color Res. Appl. 30 (2005) 21, doi:10.1002/col.20070.
    Computed by scikit-image.
    """
    from skimage import color

    return color.deltaE_ciede2000(first, second, channel_axis=0)


def _mean(values: Doubles) -> float:
    return float(values.mean()) if values.size else float("nan")
