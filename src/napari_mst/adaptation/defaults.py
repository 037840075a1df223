"""The hyperparameters from which every adaptation starts.

They were fitted to simulated scenes of measured reflectances, never to those that judge.
`lab/benchmarks/fit_known_spectra.py --scenes 60` draws the scenes and fits by the error of what 1
to 64 random spots tell about all other pixels. Two numbers are not its own: the noise was raised by
judgement, and the factor of the bands comes from 40 simulated scenes of 96 x 96 pixels.
"""

import numpy as np
from numpy.typing import NDArray

from napari_mst.adaptation.kernel import Kernel

KERNEL = Kernel(
    everywhere=0.00235,
    colour=0.00821,
    place=0.00302,
    chroma_length=0.303,
    brightness_length=1.65,
    place_length=0.3,
    place_colour=13.4,
    # 1 %: simulated truths have hardly any noise, and no instrument is better
    noise=1e-4,
)

BAND_FACTOR = 2.06
"""Standard deviations to each side between which nine in ten values of simulated scenes lie."""

_BAND_WAVELENGTHS = np.arange(400.0, 701, 10)
_BAND_SCALE = np.array(
    [
        *(2.76, 1.63, 1.04, 0.56, 0.21, 0.12, 0.24, 0.22, 0.25, 0.35, 0.48, 0.53, 0.51, 0.22, 0.11),
        *(0.12, 0.26, 0.51, 0.88, 0.49, 0.26, 0.21, 0.41, 0.82, 1.39, 1.39, 1.59, 2.08, 2.80, 3.64),
        4.92,
    ]
)


def band_scale(wavelengths: NDArray[np.float64]) -> NDArray[np.float64]:
    """Factors (B,) on the variance of the kernel at *wavelengths*, held beyond their ends."""
    return np.asarray(np.interp(wavelengths, _BAND_WAVELENGTHS, _BAND_SCALE))
