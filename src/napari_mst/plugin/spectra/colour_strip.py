"""The strip of colours below the curves: the visible spectrum."""

import numpy as np
from numpy.typing import NDArray

from napari_mst import colour

VISIBLE = (380, 780)
"""nm; the range of the strip of colours."""
DIM = 0.25
"""Share of the brightest wavelength below which a wavelength is drawn darker."""


def visible_spectrum(wavelengths: NDArray[np.float64]) -> NDArray[np.uint8]:
    """The colours of monochromatic light at *wavelengths* (nm), (n, 3) sRGB.

    No screen can show them: negative values are clipped. Each colour is made as bright as it gets,
    except at the ends of the spectrum, where the eye sees little.
    """
    rgb = np.clip(colour.colour_matching_functions(wavelengths) @ colour.XYZ_TO_SRGB.T, 0, None)
    rgb /= np.maximum(rgb.max(axis=1, keepdims=True), DIM * rgb.max())
    return np.round(255 * colour.linear_to_srgb(rgb)).astype(np.uint8)
