"""The hyperparameters from which every adaptation starts.

They were fitted to simulated scenes of measured reflectances, never to those that judge:
`benchmarks/ fit_known_spectra.py` draws the scenes, fits by the error of what 1 to 64 random spots
tell about all other pixels, and prints what stands here.
"""

import numpy as np
from numpy.typing import NDArray

from napari_mst.adaptation.kernel import Kernel

KERNEL = Kernel(
    everywhere=0.0012,
    chroma_drift=0.0008,
    brightness_drift=0.0008,
    colour=0.0147,
    place=0.0041,
    chroma_length=0.6,
    brightness_length=1.4,
    place_length=0.39,
    place_colour=2.98,
    noise=0.0001,
)

_BAND_WAVELENGTHS = np.arange(400.0, 701, 10)
_BAND_SCALE = np.ones(31)


def band_scale(wavelengths: NDArray[np.float64]) -> NDArray[np.float64]:
    """Factors (B,) on the variance of the kernel at *wavelengths*, held beyond their ends."""
    return np.interp(wavelengths, _BAND_WAVELENGTHS, _BAND_SCALE)
