"""A photo as the network that tells the light sees it, whatever camera took it.

A known camera's values are taken to one common space, that of the sRGB observer under equal power,
by a 3 x 3 matrix. There a pixel is its colour relative to the mean colour of the photo's bright
parts (shades of grey), and its brightness; that mean colour itself stands beside it. So the network
learns how far the true white is off a good first guess. Letters: N photos, P pixels.

References: Finlayson & Trezzi, "Shades of Gray and Colour Constancy", CIC 2004, 37-41.
"""

import functools
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from napari_mst.photo.cameras import camera_response
from napari_mst.simulation.lights import common_response, known_lights, log_ratios
from napari_mst.simulation.spectra import load_reflectances

CHANNELS = 5
"""Channels of the picture that the network is given."""

CLIPPED = 0.99
"""Share of the full scale from which on a value tells no colour."""

_POWER = 4  # of the mean: between grey world (1) and the brightest (infinity)
_BRIGHT = 0.98  # quantile of the brightness that counts as white
_DARK = 2e-3  # added to colours, relative to white: the dark has none
_GAMMA = 0.45
_LIMIT = 3.0  # of a logarithm of colours
_WIDEST = 2.0  # the same for the mean colour
_LEAST = 1e-4

# Every 17th reflectance under every third light says enough of a matrix of nine numbers.
_SPECTRA_STEP = 17
_LIGHT_STEP = 3


class Picture(NamedTuple):
    """The input of the network, and the colour that its answer is relative to.

    Attributes
    ----------
    channels
        (N, 5, P): two logarithmic ratios relative to the mean colour, brightness, and the mean
        colour.
    mean_colour
        (N, 2): logarithmic ratios of the bright parts' mean.
    """

    channels: Tensor
    mean_colour: Tensor


@functools.lru_cache(maxsize=128)
def to_common(camera: str) -> NDArray[np.float64]:
    """(3, 3): takes values of a *camera*, balanced for equal power, to the common space.

    It is the best for measured reflectances under known lights, by the relative error.
    """
    spectra = np.concatenate(list(load_reflectances()[1].values())).clip(0, 1)[::_SPECTRA_STEP]
    lights = list(known_lights().values())[::_LIGHT_STEP]
    stimuli = np.concatenate([spectra * light.power for light in lights])
    seen = stimuli @ camera_response(camera, "E")
    wanted = stimuli @ common_response().double().numpy()
    weight = 1 / (wanted.sum(1, keepdims=True) + 0.05)
    matrix, *_ = np.linalg.lstsq(seen * weight, wanted * weight, rcond=None)
    return np.asarray(matrix)


def picture(common: Tensor, is_known: Tensor) -> Picture:
    """The channels of pixels (N, 3, P) in the common space.

    Pixels that are not known (N, P), as clipped ones, look black and grey.
    """
    known = common.clamp_min(0) * is_known[:, None]
    white = _white(known)
    mean = _mean_colour(known)
    colour = log_ratios((common.clamp_min(0) + _DARK * white[:, None]).movedim(1, -1))
    relative = (colour.movedim(-1, 1) - mean[..., None]).clamp(-_LIMIT, _LIMIT)
    brightness = 2 * (known.mean(1) / white).clamp(0, 1.5) ** _GAMMA - 1
    seen = torch.cat([relative * is_known[:, None], brightness[:, None]], dim=1)
    beside = mean[..., None].expand(-1, -1, seen.shape[-1])
    return Picture(torch.cat([seen, beside], dim=1), mean)


def _white(known: Tensor) -> Tensor:
    """The brightness (N, 1) that counts as white."""
    brightness = known.mean(1)
    place = max(int(_BRIGHT * brightness.shape[1]), 1)
    return brightness.kthvalue(place, dim=1, keepdim=True).values.clamp_min(_LEAST)


def _mean_colour(known: Tensor) -> Tensor:
    """Logarithmic ratios (N, 2) of the mean of the bright parts."""
    # A power of small numbers would be lost in single precision.
    largest = known.amax((1, 2), keepdim=True).clamp_min(_LEAST)
    mean = ((known / largest) ** _POWER).mean(2).clamp_min(1e-8) ** (1 / _POWER)
    return log_ratios(mean).clamp(-_WIDEST, _WIDEST)
