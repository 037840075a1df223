"""A photo as the network that estimates the light sees it, by any camera.

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

from napari_mst.arrays import Array, Doubles, Indices, Mask
from napari_mst.cube.colour import measured_reflectances
from napari_mst.errors import PhotoError
from napari_mst.light.lights import common_response, known_lights, log_ratios
from napari_mst.photo.cameras import camera_response
from napari_mst.photo.photo import Photo

CHANNELS = 18
"""Channels of the picture that the network is given."""

CLIPPED = 0.99
"""Share of the full scale from which on a value counts as clipped."""

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


class CellColours(NamedTuple):
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


@functools.lru_cache(maxsize=128)
def to_common(camera: str) -> Doubles:
    """(3, 3): takes values of a *camera*, balanced for equal power, to the common space.

    It is the best for measured reflectances under known lights, by the relative error.
    """
    return common_matrices(camera_response(camera, "E"))


def common_matrices(responses: Doubles) -> Doubles:
    """(..., 3, 3): those of `to_common`, for *responses* (..., 31, 3) under equal power."""
    moments, target = _moments()
    transposed = responses.swapaxes(-1, -2)
    return np.asarray(np.linalg.solve(transposed @ moments @ responses, transposed @ target))


@functools.cache
def _moments() -> tuple[Doubles, Doubles]:
    """Weighted second moments (31, 31) of stimuli, and those with their common colours (31, 3)."""
    spectra = measured_reflectances().clip(0, 1)[::_SPECTRA_STEP]
    lights = list(known_lights().values())[::_LIGHT_STEP]
    stimuli = np.concatenate([spectra * power for _, power in lights])
    response = common_response().double().numpy()
    weighted = stimuli / ((stimuli @ response).sum(1, keepdims=True) + 0.05)
    moments = weighted.T @ weighted
    return moments, moments @ response


def picture(means: CellColours, brightest: CellColours) -> tuple[Tensor, Tensor]:
    """The input of the network for photos, of which each cell has a mean and a brightest part.

    It is the channels (N, 18, P): of the means and of the brightest parts two logarithmic ratios
    relative to the mean colour, the brightness, and both ratios times brightness; then the mean
    colour, and three other guesses of the white relative to it. Beside it is the mean colour (N, 2)
    itself, to which the answer is relative: logarithmic ratios of the bright parts' mean.

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
    return torch.cat(channels, dim=1), mean_colour


def _seen(cells: CellColours, white: Tensor, mean_colour: Tensor) -> Tensor:
    """Five channels (N, 5, P): two of colour, brightness, and the two again, weighed by it."""
    colour = log_ratios((cells.common.clamp_min(0) + _DARK * white[:, None]).movedim(1, -1))
    relative = (colour.movedim(-1, 1) - mean_colour[..., None]).clamp(-_LIMIT, _LIMIT)
    relative = relative * cells.is_known[:, None]
    brightness = 2 * (cells.known.mean(1) / white).clamp(0, 1.5) ** _GAMMA
    # One linear map of a patch cannot weigh colours by brightness, which parts whites from hues.
    weighed = relative * brightness[:, None]
    return torch.cat([relative, brightness[:, None] - 1, weighed], dim=1)


def _white(values: Tensor) -> Tensor:
    """The brightness (N, 1) that counts as white."""
    brightness = values.mean(1)
    place = max(int(_BRIGHT * brightness.shape[1]), 1)
    return brightness.kthvalue(place, dim=1, keepdim=True).values.clamp_min(_LEAST)


def _shades_of_grey(values: Tensor, power: int) -> Tensor:
    """Logarithmic ratios (N, 2) of the mean colour by this *power*."""
    # A power of small numbers would be lost in single precision.
    largest = values.amax((1, 2), keepdim=True).clamp_min(_LEAST)
    mean = ((values / largest) ** power).mean(2).clamp_min(_SMALLEST) ** (1 / power)
    return log_ratios(mean).clamp(-_WIDEST, _WIDEST)


_SAMPLES = 8  # pixels on a side that are read of each cell
_FEW = 4  # the brightest of these 64 make up the brightest part
_POWER = 6  # of shades of grey, as in its paper


class Sample(NamedTuple):
    """Some pixels of a photo, S x S of its cells.

    *means* (3, S, S) are of all pixels of a cell that are not clipped, *brightest* (3, S, S) of a
    few of them. *is_known* (S, S) marks cells that have any, and *bright* (3,) is the mean colour
    of the brightest in the whole photo (shades of grey).
    """

    means: Doubles
    brightest: Doubles
    is_known: Mask
    bright: Doubles


def sampled(photo: Photo, side: int) -> Sample:
    """Some pixels all over a photo, in *side* x *side* cells: they are enough for its colours.

    Raises
    ------
    PhotoError
        If all of them are black or clipped.
    """
    values, is_known = _samples(photo, side * _SAMPLES)
    if not values.any():
        raise PhotoError(
            "Expected a photo with colours to estimate its light, got only black and clipped "
            "pixels. Name the illuminant."
        )
    # Divided first: a power of small numbers would be lost.
    largest = values.max()
    bright = ((values / largest) ** _POWER).mean(axis=(1, 2)) ** (1 / _POWER)
    cells = _in_cells(values)
    counts = _in_cells(is_known).sum(axis=-1)
    means = cells.sum(axis=-1) / np.maximum(counts, 1)
    return Sample(means, _brightest(cells, counts), counts > 0, bright)


def _samples(photo: Photo, side: int) -> tuple[Doubles, Mask]:
    """Linear values (3, *side*, *side*), 0 where not known, and which are."""
    rows, columns = (_spaced(length, side) for length in photo.shape)
    sample = Photo(photo.pixels[:, rows[:, None], columns], photo.full_scale, photo.encoding)
    values = sample.rows(linear=True).astype(np.float64)
    is_known = np.all(sample.rows(linear=False) < CLIPPED, axis=0)
    if photo.valid is not None:
        is_known = np.logical_and(is_known, photo.valid[np.ix_(rows, columns)])
    return values.clip(0) * is_known, np.asarray(is_known, dtype=np.bool_)


def _in_cells(samples: Array) -> Array:
    """(..., 8 S, 8 S) -> (..., S, S, 64)."""
    side = samples.shape[-1] // _SAMPLES
    cells = samples.reshape(*samples.shape[:-2], side, _SAMPLES, side, _SAMPLES)
    return cells.swapaxes(-3, -2).reshape(*samples.shape[:-2], side, side, _SAMPLES**2)


def _brightest(cells: Doubles, counts: Indices) -> Doubles:
    """The mean colour (3, S, S) of the brightest of the samples (3, S, S, 64) of each cell."""
    # Stable, so that equally bright samples are picked alike on every machine.
    order = (-cells.sum(axis=0)).argsort(axis=-1, kind="stable")[..., :_FEW]
    picked = np.take_along_axis(cells, order[None], axis=-1)
    return picked.sum(axis=-1) / counts.clip(1, _FEW)


def _spaced(length: int, number: int) -> Indices:
    """*number* indices at equal distances all over an axis of this *length*."""
    return np.asarray((np.arange(number) + 0.5) * length / number, dtype=np.intp)
