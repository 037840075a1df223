"""How far an estimated cube is from its reference: plain functions of two (B, H, W) arrays.

Dark pixels make relative measures meaningless, so each function says which pixels it counts.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_mst.colour import render_lab

Cube = NDArray[np.floating]

DARK = 0.02
"""Reflectance at or below which a pixel has no relative error and no spectral angle."""

CORE = (420.0, 680.0)
"""Wavelengths (nm) between which a photo tells anything about the spectrum: outside, the eye sees almost nothing."""

CORE_MEAN = 0.05
"""Mean reflectance from which on a pixel is bright enough to count for `core_mrae`."""


def mrae(estimate: Cube, reference: Cube, dark: float = DARK) -> float:
    """Mean relative absolute error |e - r| / r over pixels whose reference exceeds *dark* in all bands; NaN if none."""
    lit = (reference > dark).all(axis=0)
    expected = reference[:, lit].astype(np.float64)
    return _mean(np.abs(estimate[:, lit] - expected) / expected)


def core_pixels(reference: Cube, dark: float = DARK) -> NDArray[np.bool_]:
    """Where (H, W) the reference's mean is at least `CORE_MEAN`, and all its bands exceed *dark*."""
    return np.asarray((reference.mean(axis=0) >= CORE_MEAN) & (reference > dark).all(axis=0))


def core_bands(wavelengths: ArrayLike) -> NDArray[np.bool_]:
    """Which of *wavelengths* (nm), (B,), lie within `CORE`."""
    at = np.asarray(wavelengths, dtype=np.float64)
    return (at >= CORE[0]) & (at <= CORE[1])


def core_mrae(estimate: Cube, reference: Cube, wavelengths: ArrayLike) -> float:
    """`mrae` where a photo tells something: in `core_bands`, over `core_pixels`; NaN if there are none."""
    bands, lit = core_bands(wavelengths), core_pixels(reference)
    expected = reference[bands][:, lit].astype(np.float64)
    return _mean(np.abs(estimate[bands][:, lit] - expected) / expected)


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


def colour_difference(
    estimate: Cube, reference: Cube, wavelengths: ArrayLike, light: str = "D65"
) -> float:
    """Mean CIEDE2000 between the colours of two reflectance cubes under *light*, over all pixels."""
    return _mean(delta_e(*(render_lab(cube, wavelengths, light) for cube in (estimate, reference))))


def delta_e(first: NDArray[np.floating], second: NDArray[np.floating]) -> NDArray[np.float64]:
    """CIEDE2000 between two arrays of CIELAB colours, (3, ...) each; the result has no first axis.

    ISO/CIE 11664-6:2022; Sharma, Wu, Dalal, Color Res. Appl. 30 (2005) 21, doi:10.1002/col.20070.
    """
    (l1, a1, b1), (l2, a2, b2) = first.astype(np.float64), second.astype(np.float64)
    grey = 1.5 - 0.5 * _chroma_weight((np.hypot(a1, b1) + np.hypot(a2, b2)) / 2)
    a1, a2 = a1 * grey, a2 * grey
    c1, c2 = np.hypot(a1, b1), np.hypot(a2, b2)
    h1, h2 = (np.degrees(np.arctan2(b, a)) % 360 for a, b in ((a1, b1), (a2, b2)))
    turn = np.where(c1 * c2 == 0, 0, (h2 - h1 + 180) % 360 - 180)
    hue = np.where(c1 * c2 == 0, h1 + h2, (h1 + h2) / 2 + np.where(np.abs(h1 - h2) > 180, 180, 0))
    light, chroma = (l1 + l2) / 2, (c1 + c2) / 2
    lightness = (l2 - l1) / (1 + 0.015 * (light - 50) ** 2 / np.sqrt(20 + (light - 50) ** 2))
    saturation = (c2 - c1) / (1 + 0.045 * chroma)
    rotation = (
        2
        * np.sqrt(c1 * c2)
        * np.sin(np.radians(turn / 2))
        / (1 + 0.015 * chroma * _hue_weight(hue))
    )
    blue = (
        2
        * _chroma_weight(chroma)
        * np.sin(np.radians(60 * np.exp(-(((hue % 360 - 275) / 25) ** 2))))
    )
    return np.asarray(
        np.sqrt(lightness**2 + saturation**2 + rotation**2 - blue * saturation * rotation)
    )


def _chroma_weight(chroma: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.sqrt(chroma**7 / (chroma**7 + 25.0**7)))


def _hue_weight(hue: NDArray[np.float64]) -> NDArray[np.float64]:
    terms = ((-0.17, 1, -30), (0.24, 2, 0), (0.32, 3, 6), (-0.20, 4, -63))
    return np.asarray(
        1 + sum(weight * np.cos(np.radians(times * hue + shift)) for weight, times, shift in terms)
    )


def _mean(values: NDArray[np.float64]) -> float:
    return float(values.mean()) if values.size else float("nan")
