"""How far an estimated cube is from its reference: plain functions of two (B, H, W) arrays.

Dark pixels make relative measures meaningless, so each function says which pixels it counts.
"""

import numpy as np
from numpy.typing import NDArray

Cube = NDArray[np.floating]

DARK = 0.02
"""Reflectance at or below which a pixel has no relative error and no spectral angle."""


def mrae(estimate: Cube, reference: Cube, dark: float = DARK) -> float:
    """Mean relative absolute error |e - r| / r over pixels whose reference exceeds *dark* in all bands; NaN if none."""
    lit = (reference > dark).all(axis=0)
    expected = reference[:, lit].astype(np.float64)
    return _mean(np.abs(estimate[:, lit] - expected) / expected)


def rmse(estimate: Cube, reference: Cube) -> float:
    """Root mean squared error over all pixels and bands, in the unit of the cubes."""
    return float(np.sqrt(np.mean(np.square(estimate.astype(np.float64) - reference))))


def psnr(estimate: Cube, reference: Cube, peak: float = 1.0) -> float:
    """Peak signal-to-noise ratio in dB over all pixels and bands; infinite for equal cubes."""
    error = rmse(estimate, reference)
    return float(20 * np.log10(peak / error)) if error else float("inf")


def spectral_angles(estimate: Cube, reference: Cube, dark: float = DARK) -> NDArray[np.float64]:
    """Angle between the two spectra of each pixel in degrees, (H, W).

    It is NaN where the reference's mean is not above *dark*, or a spectrum is zero.
    Kruse et al., Remote Sens. Environ. 44 (1993) 145, doi:10.1016/0034-4257(93)90013-N.
    """
    e, r = estimate.astype(np.float64), reference.astype(np.float64)
    norms = np.linalg.norm(e, axis=0) * np.linalg.norm(r, axis=0)
    lit = (r.mean(axis=0) > dark) & (norms > 0)
    cosine = np.divide((e * r).sum(axis=0), norms, out=np.full(norms.shape, np.nan), where=lit)
    return np.asarray(np.degrees(np.arccos(np.clip(cosine, -1, 1))))


def spectral_angle(estimate: Cube, reference: Cube, dark: float = DARK) -> float:
    """Mean of `spectral_angles` over the pixels that have one, in degrees (the usual label is SAM); NaN if none."""
    angles = spectral_angles(estimate, reference, dark)
    return _mean(angles[~np.isnan(angles)])


def _mean(values: NDArray[np.float64]) -> float:
    return float(values.mean()) if values.size else float("nan")
