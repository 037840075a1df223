"""Features of a pixel: its colour, its brightness and its place.

The colour is the one that the estimated spectrum shows, not the pixel of the photo. On a clean
photo both are one to half a code; on a noisy one the estimate is the calmer of the two; and a cube
from a file still has it without the photo.

Letters: B bands, n points.
"""

import numpy as np
from numpy.typing import NDArray

from napari_mst.colour import srgb_response

CHROMA = slice(0, 3)
"""The features that are colour: logarithms of red, green and blue over their geometric mean."""
BRIGHTNESS = slice(3, 4)
"""The feature that is brightness: the logarithm of red + green + blue."""
PLACE = slice(4, 6)
"""The features that are the place: row and column over the longer side of the image."""
COUNT = 6

# linear light, about one code of 8 bits: below it the ratios of the channels are rounding
_DARKEST = 0.003


def features_of_spectra(
    spectra: NDArray[np.floating], places: NDArray[np.floating], wavelengths: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Features (n, 6) of *spectra* (n, B) at *places* (n, 2), shares of the longer side."""
    light = np.maximum(spectra @ srgb_response(wavelengths), 0) + _DARKEST
    logs = np.log(light)
    features = np.empty((len(spectra), COUNT))
    features[:, CHROMA] = logs - logs.mean(axis=1, keepdims=True)
    features[:, BRIGHTNESS] = np.log(light.sum(axis=1, keepdims=True))
    features[:, PLACE] = places
    return features
