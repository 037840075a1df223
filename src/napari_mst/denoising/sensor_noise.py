"""The noise of a sensor: its variance grows with the light.

Photons arrive at random, which gives a variance in proportion to the signal, and reading them adds
a constant one: sigma^2(y) = gain y + floor, for a signal y of linear light, 0-1. Foi, Trimeche,
Katkovnik & Egiazarian, IEEE Trans. Image Process. 17 (2008) 1737, doi:10.1109/TIP.2008.2001399.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from napari_mst.colour import linear_to_srgb

MIDDLE_GREY = 0.18
"""The signal at which one number stands for all of the noise: a surface of 18 % reflectance."""

_STEP = 1e-4  # of light, to either side, for the slope of a curve
_CODES = 255
_LEAST_VARIANCE = 1e-12  # a photo without noise needs a scale, too


@dataclass(frozen=True)
class SensorNoise:
    """The noise of a photo.

    Attributes
    ----------
    gain
        Variance over signal; not negative.
    floor
        Variance where there is no light; not negative.
    whiteness
        The variance of the finest detail of flat places over that of their coarser detail. It is 1
        or more for noise, whose detail is equal at all sizes, and far below for texture.
    """

    gain: float
    floor: float
    whiteness: float = 1.0

    def sigma(self, signal: float = MIDDLE_GREY) -> float:
        """The standard deviation at a *signal*, both in linear light."""
        return float(np.sqrt(self.gain * signal + self.floor))

    @property
    def codes(self) -> float:
        """The standard deviation at middle grey, in 8-bit sRGB codes."""
        ends = linear_to_srgb(np.array([MIDDLE_GREY - _STEP, MIDDLE_GREY + _STEP]))
        slope = float(ends[1] - ends[0]) / (2 * _STEP)
        return self.sigma() * slope * _CODES

    def stabilised(self, linear: NDArray[np.floating]) -> NDArray[np.float64]:
        """*linear* light on the scale on which noise has a standard deviation of 1 everywhere.

        It is the generalised Anscombe transform 2 / gain sqrt(gain y + 3/8 gain^2 + floor), less
        its value at 0, so that a gain of 0 needs no case of its own. Murtagh, Starck & Bijaoui,
        Astron. Astrophys. Suppl. 112 (1995) 179.
        """
        signal = np.maximum(linear.astype(np.float64), 0)
        dark = self.floor + 0.375 * self.gain**2 + _LEAST_VARIANCE
        scaled: NDArray[np.float64] = (
            2 * signal / (np.sqrt(self.gain * signal + dark) + np.sqrt(dark))
        )
        return scaled
