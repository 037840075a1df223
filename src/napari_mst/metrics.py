"""Distances of an estimated cube from its reference: plain functions of two (B, H, W) arrays.

Dark pixels make relative measures meaningless, so each function says which pixels it counts.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_mst.illuminants import DAYLIGHT, Light, render_lab

Cube = NDArray[np.floating]
"""(B, H, W) numbers."""

DARK = 0.02
"""Reflectance at or below which a pixel has no relative error and no spectral angle."""

CORE = (420.0, 680.0)
"""Wavelengths (nm) between which a photo tells something of the spectrum.

Outside, the eye sees almost nothing.
"""

CORE_MEAN = 0.05
"""Mean reflectance from which on a pixel is bright enough to count for `core_mrae`."""


def mrae(estimate: Cube, reference: Cube, dark: float = DARK) -> float:
    """Mean relative absolute error |e - r| / r; NaN if no pixel counts.

    Pixels count whose *reference* exceeds *dark* in all bands.
    """
    lit = (reference > dark).all(axis=0)
    expected = reference[:, lit].astype(np.float64)
    return _mean(np.abs(estimate[:, lit] - expected) / expected)


def core_pixels(reference: Cube, dark: float = DARK) -> NDArray[np.bool_]:
    """The mask (H, W) of pixels that count for `core_mrae`.

    The mean of their *reference* is at least `CORE_MEAN`, and all its bands exceed *dark*.
    """
    is_bright = reference.mean(axis=0) >= CORE_MEAN
    return np.asarray(is_bright & (reference > dark).all(axis=0))


def core_bands(wavelengths: ArrayLike) -> NDArray[np.bool_]:
    """The mask (B,) of *wavelengths* (nm) that lie within `CORE`."""
    at = np.asarray(wavelengths, dtype=np.float64)
    return (at >= CORE[0]) & (at <= CORE[1])


def core_mrae(estimate: Cube, reference: Cube, wavelengths: ArrayLike) -> float:
    """`mrae` where a photo tells something: in `core_bands`, over `core_pixels`; NaN if none."""
    bands = core_bands(wavelengths)
    lit = core_pixels(reference)
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
    # Rounding can take the cosine of equal spectra beyond 1.
    return np.asarray(np.degrees(np.arccos(np.clip(cosine, -1, 1))))


def spectral_angle(estimate: Cube, reference: Cube, dark: float = DARK) -> float:
    """Mean of `spectral_angles` over the pixels that have one, in degrees; NaN if none.

    The usual label is SAM.
    """
    angles = spectral_angles(estimate, reference, dark)
    return _mean(angles[~np.isnan(angles)])


def colour_difference(
    estimate: Cube, reference: Cube, wavelengths: ArrayLike, light: Light = DAYLIGHT
) -> float:
    """Mean CIEDE2000 between the colours of two reflectance cubes under *light*, all pixels."""
    first = render_lab(estimate, wavelengths, light)
    second = render_lab(reference, wavelengths, light)
    return _mean(delta_e(first, second))


def delta_e(first: NDArray[np.floating], second: NDArray[np.floating]) -> NDArray[np.float64]:
    """CIEDE2000 between two arrays of CIELAB colours, (3, ...) each; the result has no first axis.

    ISO/CIE 11664-6:2022; Sharma, Wu, Dalal, Color Res. Appl. 30 (2005) 21, doi:10.1002/col.20070.
    """
    l1, a1, b1 = first.astype(np.float64)
    l2, a2, b2 = second.astype(np.float64)
    # The axis from green to red is stretched near grey, where differences are seen better.
    stretch = 1.5 - 0.5 * _chroma_weight((np.hypot(a1, b1) + np.hypot(a2, b2)) / 2)
    a1 = a1 * stretch
    a2 = a2 * stretch
    c1 = np.hypot(a1, b1)
    c2 = np.hypot(a2, b2)
    h1 = np.degrees(np.arctan2(b1, a1)) % 360
    h2 = np.degrees(np.arctan2(b2, a2)) % 360
    is_grey = c1 * c2 == 0  # a grey has no hue: the mean is then the other's
    turn = np.where(is_grey, 0, (h2 - h1 + 180) % 360 - 180)
    halfway = (h1 + h2) / 2 + np.where(np.abs(h1 - h2) > 180, 180, 0)
    hue = np.where(is_grey, h1 + h2, halfway)
    chroma = (c1 + c2) / 2
    off_middle = ((l1 + l2) / 2 - 50) ** 2
    lightness = (l2 - l1) / (1 + 0.015 * off_middle / np.sqrt(20 + off_middle))
    saturation = (c2 - c1) / (1 + 0.045 * chroma)
    arc = 2 * np.sqrt(c1 * c2) * np.sin(np.radians(turn / 2))
    rotation = arc / (1 + 0.015 * chroma * _hue_weight(hue))
    # Blue colours of other saturation look like those of another hue.
    angle = np.radians(60 * np.exp(-(((hue % 360 - 275) / 25) ** 2)))
    blue = 2 * _chroma_weight(chroma) * np.sin(angle)
    squares = lightness**2 + saturation**2 + rotation**2
    return np.asarray(np.sqrt(squares - blue * saturation * rotation))


def _chroma_weight(chroma: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.sqrt(chroma**7 / (chroma**7 + 25.0**7)))


def _hue_weight(hue: NDArray[np.float64]) -> NDArray[np.float64]:
    total = np.zeros(hue.shape)
    for weight, times, shift in ((-0.17, 1, -30), (0.24, 2, 0), (0.32, 3, 6), (-0.20, 4, -63)):
        total = total + weight * np.cos(np.radians(times * hue + shift))
    return np.asarray(1 + total)


def _mean(values: NDArray[np.float64]) -> float:
    return float(values.mean()) if values.size else float("nan")
