"""The kernel of the Gaussian process: how much the errors of two pixels have in common.

An error is the log of true over estimated reflectance. Part of it is the same all over the scene,
part drifts with colour and brightness, part belongs to a colour, and part to a colour at a place.
Rasmussen & Williams, Gaussian Processes for Machine Learning (MIT Press 2006), chapter 4.

The colour of a pixel is the one that the estimated spectrum shows, not the pixel of the photo. On a
clean photo both are one to half a code; on a noisy one the estimate is the calmer of the two; and a
cube from a file still has it without the photo. Letters: B bands, m, n points.
"""

from dataclasses import dataclass

import numpy as np

from napari_mst.arrays import Doubles, Floats
from napari_mst.cube.colour import srgb_response

# linear light, about one code of 8 bits: below it the ratios of the channels are rounding
_DARKEST = 0.003
_TINY = 1e-12  # under the root, whose slope at 0 is infinite


def features_of_spectra(spectra: Floats, places: Floats, wavelengths: Doubles) -> Doubles:
    """Features (n, 6) of *spectra* (n, B) at *places* (n, 2), shares of the longer side.

    They are the colour (logarithms of red, green and blue over their geometric mean), the
    brightness (the logarithm of red + green + blue), and the place.
    """
    light = np.maximum(spectra @ srgb_response(wavelengths), 0) + _DARKEST
    logs = np.log(light)
    brightness = np.log(light.sum(axis=1, keepdims=True))
    return np.hstack([logs - logs.mean(axis=1, keepdims=True), brightness, places])


@dataclass(frozen=True)
class Kernel:
    """The hyperparameters: variances in squared log reflectance, lengths in units of features.

    Attributes
    ----------
    everywhere
        Variance of the error that all pixels share.
    colour
        Variance of the error that pixels of one colour share, within `chroma_length` and
        `brightness_length`.
    place
        Variance of the error that similar colours share at one place, within `place_length`;
        colours count `place_colour` times less than in `colour`.
    noise
        Variance of the error that no two spots share.
    """

    everywhere: float
    colour: float
    place: float
    chroma_length: float
    brightness_length: float
    place_length: float
    place_colour: float
    noise: float

    def __call__(self, first: Doubles, second: Doubles) -> Doubles:
        """Covariance (m, n) of the errors at features (m, 6) and (n, 6), without noise."""
        lengths = np.array([self.chroma_length] * 3 + [self.brightness_length])
        colour = _distance(first[:, :4] / lengths, second[:, :4] / lengths)
        place = _distance(first[:, 4:] / self.place_length, second[:, 4:] / self.place_length)
        near = colour / self.place_colour**2 + place
        covariance = self.everywhere + self.colour * np.exp(-colour / 2)
        covariance += self.place * np.exp(-np.sqrt(near + _TINY))
        return covariance

    def own(self, points: Doubles) -> Doubles:
        """Variance (n,) of the error at each of *points* (n, 6), without noise."""
        variance = self.everywhere + self.colour + self.place
        return np.where(np.isfinite(points).all(axis=1), variance, np.nan)


def _distance(first: Doubles, second: Doubles) -> Doubles:
    """Squared distances (m, n), never negative by rounding."""
    squares = np.square(first).sum(axis=1)[:, None] + np.square(second).sum(axis=1)
    squares -= 2 * (first @ second.T)
    return np.maximum(squares, 0, out=squares)


# The hyperparameters from which every adaptation starts. They were fitted to simulated scenes of
# measured reflectances, never to those that judge. `lab/benchmarks/fit_known_spectra.py --scenes
# 60` draws the scenes and fits by the error of what 1 to 64 random spots predict about all other
# pixels. Two numbers are not its own: the noise was raised by judgement, and the factor of the
# bands comes from 40 simulated scenes of 96 x 96 pixels.

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

_BAND_SCALE = np.array(
    [
        *(2.76, 1.63, 1.04, 0.56, 0.21, 0.12, 0.24, 0.22, 0.25, 0.35, 0.48, 0.53, 0.51, 0.22, 0.11),
        *(0.12, 0.26, 0.51, 0.88, 0.49, 0.26, 0.21, 0.41, 0.82, 1.39, 1.39, 1.59, 2.08, 2.80, 3.64),
        4.92,
    ]
)


def band_scale(wavelengths: Doubles) -> Doubles:
    """Factors (B,) on the variance of the kernel at *wavelengths*, held beyond their ends."""
    return np.interp(wavelengths, np.arange(400.0, 701, 10), _BAND_SCALE)
