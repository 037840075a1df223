"""A photo as the network that tells the light sees it, whatever camera took it.

A known camera's values are taken to one common space, that of the sRGB observer under equal power,
by a 3 x 3 matrix. The photo is cut into cells. The picture shows each cell twice, its mean and its
brightest part, since a highlight has the colour of the light and is lost in a mean. Both are
colours relative to the mean colour of the photo's bright parts (shades of grey), and a brightness.
That mean colour itself, and other first guesses of the white, stand beside them. So the network
learns how far the true white is off a good first guess. Letters: N photos, P cells.

References: Finlayson & Trezzi, "Shades of Gray and Colour Constancy", CIC 2004, 37-41.
"""

import functools
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from napari_mst.light.lights import Doubles, common_response, known_lights, log_ratios
from napari_mst.photo.cameras import camera_response
from napari_mst.simulation.spectra import measured_reflectances

CHANNELS = 18
"""Channels of the picture that the network is given."""

CLIPPED = 0.99
"""Share of the full scale from which on a value tells no colour."""

# Powers of means: grey world (1), shades of grey, and one that only the brightest parts count in.
_GREY_WORLD = 1
_SHADES = 4
_BRIGHTEST = 12
_BRIGHT = 0.98  # quantile of the brightness that counts as white
_DARK = 2e-3  # added to colours, relative to white: the dark has none
_GAMMA = 0.45
_LIMIT = 3.0  # of a logarithm of colours
_WIDEST = 2.0  # the same for the mean colour
_LEAST = 1e-4
_SMALLEST = 1e-30  # of a mean of powers

# Every 17th reflectance under every third light says enough of a matrix of nine numbers.
_SPECTRA_STEP = 17
_LIGHT_STEP = 3


class Cells(NamedTuple):
    """One colour of each cell of photos.

    Attributes
    ----------
    common
        (N, 3, P): colours in the common space.
    is_known
        (N, P): False for cells that are clipped or invalid.
    """

    common: Tensor
    is_known: Tensor

    @property
    def known(self) -> Tensor:
        """(N, 3, P): the colours, 0 where they are not known."""
        return self.common.clamp_min(0) * self.is_known[:, None]


class Picture(NamedTuple):
    """The input of the network, and the colour that its answer is relative to.

    Attributes
    ----------
    channels
        (N, 18, P). Of the means and of the brightest parts: two logarithmic ratios relative to the
        mean colour, the brightness, and both ratios times brightness. Then the mean colour, and
        three other guesses of the white relative to it.
    mean_colour
        (N, 2): logarithmic ratios of the bright parts' mean.
    """

    channels: Tensor
    mean_colour: Tensor


@functools.lru_cache(maxsize=128)
def to_common(camera: str) -> Doubles:
    """(3, 3): takes values of a *camera*, balanced for equal power, to the common space.

    It is the best for measured reflectances under known lights, by the relative error.
    """
    return common_matrices(camera_response(camera, "E"))


def common_matrices(responses: Doubles) -> Doubles:
    """(..., 3, 3): those of `to_common`, for *responses* (..., 31, 3) under equal power."""
    moments, wanted = _moments()
    transposed = responses.swapaxes(-1, -2)
    return np.asarray(np.linalg.solve(transposed @ moments @ responses, transposed @ wanted))


@functools.cache
def _moments() -> tuple[Doubles, Doubles]:
    """Weighted second moments (31, 31) of stimuli, and those with their common colours (31, 3)."""
    spectra = measured_reflectances().clip(0, 1)[::_SPECTRA_STEP]
    lights = list(known_lights().values())[::_LIGHT_STEP]
    stimuli = np.concatenate([spectra * light.power for light in lights])
    response = common_response().double().numpy()
    weighted = stimuli / ((stimuli @ response).sum(1, keepdims=True) + 0.05)
    moments = weighted.T @ weighted
    return moments, moments @ response


def picture(means: Cells, brightest: Cells) -> Picture:
    """The channels of photos, of which each cell has a mean and a brightest part.

    Cells that are not known, as clipped ones, look black and grey.
    """
    white = _white(means.known)
    mean_colour = _shades_of_grey(brightest.known, _SHADES)
    guesses = (
        _shades_of_grey(means.known, _GREY_WORLD),
        _shades_of_grey(means.known, _BRIGHTEST),
        _shades_of_grey(brightest.known, _BRIGHTEST),
    )
    beside = torch.cat([mean_colour, *(guess - mean_colour for guess in guesses)], dim=1)
    channels = [
        _seen(means, white, mean_colour),
        _seen(brightest, white, mean_colour),
        beside[..., None].expand(-1, -1, means.common.shape[-1]),
    ]
    return Picture(torch.cat(channels, dim=1), mean_colour)


def _seen(cells: Cells, white: Tensor, mean_colour: Tensor) -> Tensor:
    """Five channels (N, 5, P): two of colour, brightness, and the two again, weighed by it."""
    colour = log_ratios((cells.common.clamp_min(0) + _DARK * white[:, None]).movedim(1, -1))
    relative = (colour.movedim(-1, 1) - mean_colour[..., None]).clamp(-_LIMIT, _LIMIT)
    relative = relative * cells.is_known[:, None]
    brightness = 2 * (cells.known.mean(1) / white).clamp(0, 1.5) ** _GAMMA
    # One linear map of a patch cannot weigh colours by brightness, which tells whites from hues.
    weighed = relative * brightness[:, None]
    return torch.cat([relative, brightness[:, None] - 1, weighed], dim=1)


def _white(known: Tensor) -> Tensor:
    """The brightness (N, 1) that counts as white."""
    brightness = known.mean(1)
    place = max(int(_BRIGHT * brightness.shape[1]), 1)
    return brightness.kthvalue(place, dim=1, keepdim=True).values.clamp_min(_LEAST)


def _shades_of_grey(known: Tensor, power: int) -> Tensor:
    """Logarithmic ratios (N, 2) of the mean colour by this *power*."""
    # A power of small numbers would be lost in single precision.
    largest = known.amax((1, 2), keepdim=True).clamp_min(_LEAST)
    mean = ((known / largest) ** power).mean(2).clamp_min(_SMALLEST) ** (1 / power)
    return log_ratios(mean).clamp(-_WIDEST, _WIDEST)
