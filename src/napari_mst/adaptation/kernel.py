"""The kernel of the Gaussian process: how much the errors of two pixels have in common.

An error is the log of true over estimated reflectance. Part of it is the same all over the scene,
part drifts with colour and brightness, part belongs to a colour, and part to a colour at a place.
Rasmussen & Williams, Gaussian Processes for Machine Learning (MIT Press 2006), chapter 4. Letters:
m, n points.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from napari_mst.adaptation.features import BRIGHTNESS, CHROMA, PLACE

_TINY = 1e-12  # under the root, whose slope at 0 is infinite


@dataclass(frozen=True)
class Kernel:
    """The hyperparameters: variances in squared log reflectance, lengths in units of features.

    Attributes
    ----------
    everywhere
        Variance of what all pixels share.
    colour
        Variance of what pixels of one colour share, within `chroma_length` and `brightness_length`.
    place
        Variance of what pixels of about one colour share at one place, within `place_length`;
        colours count `place_colour` times less than in `colour`.
    noise
        Variance of what no two spots share.
    """

    everywhere: float
    colour: float
    place: float
    chroma_length: float
    brightness_length: float
    place_length: float
    place_colour: float
    noise: float

    def __call__(
        self, first: NDArray[np.float64], second: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Covariance (m, n) of the errors at features (m, 6) and (n, 6), without noise."""
        colour = self._colour_distance(first, second)
        place = _distance(first[:, PLACE] / self.place_length, second[:, PLACE] / self.place_length)
        near = colour / self.place_colour**2 + place
        covariance = self.everywhere + self.colour * np.exp(-colour / 2)
        covariance += self.place * np.exp(-np.sqrt(near + _TINY))
        return covariance

    def own(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Variance (n,) of the error at each of *points* (n, 6), without noise."""
        variance = self.everywhere + self.colour + self.place
        is_known = np.isfinite(points).all(axis=1)
        return np.where(is_known, variance, np.nan)

    def _colour_distance(
        self, first: NDArray[np.float64], second: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        lengths = np.array([self.chroma_length] * 3 + [self.brightness_length])
        colours = slice(CHROMA.start, BRIGHTNESS.stop)
        return _distance(first[:, colours] / lengths, second[:, colours] / lengths)


def _distance(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """Squared distances (m, n), never negative by rounding."""
    squares = np.square(first).sum(axis=1)[:, None] + np.square(second).sum(axis=1)
    squares -= 2 * (first @ second.T)
    return np.asarray(np.maximum(squares, 0, out=squares))
