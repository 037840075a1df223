"""The known lights, and the input that the network receives of a photo.

A 3 x 3 matrix takes the values of a known camera to one common space, the sRGB observer under equal
power. The photo is divided into cells. The network's picture has the mean and the brightest part of
each cell, since a highlight has the colour of the light but is lost in a mean. Both are given as a
brightness, and as colours relative to the mean colour of the photo's bright parts (shades of grey).
This mean colour, and other first guesses of the white, are further channels. So the network learns
the difference between the true white and a good first guess. Letters: N photos, P cells.

References: Finlayson & Trezzi, "Shades of Gray and Colour Constancy", CIC 2004, 37-41.

The known lights are radiators, phases of daylight and lamps. The network's posterior over them is a
mixture of families, each with a Gaussian white. A white is given by two numbers, the logarithms of
red over green and of blue over green in the common space. Letters: F families, K known lights.
"""

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from napari_mst.base.arrays import Array, Doubles, Indices, Mask, Singles
from napari_mst.base.errors import PhotoError
from napari_mst.cube.colour import measured_reflectances
from napari_mst.photo.cameras import SRGB, camera_response, load_illuminants
from napari_mst.photo.lights import FAMILIES, Family, daylight, planckian
from napari_mst.photo.photo import Photo

_PLANCK_MIREDS = np.linspace(100, 480, 39)  # 10,000 K to 2,083 K
_DAYLIGHT_MIREDS = np.linspace(60, 250, 39)  # 16,667 K to 4,000 K
_LIKE_DAYLIGHT = ("B", "C", "E", "flash", "D50", "D55", "D65", "D75")
_GLOWING = ("A", "horizon", "tungsten")
_LEAST_RATIO = 0.01


@functools.cache
def known_lights() -> Mapping[str, tuple[Family, Doubles]]:
    """Return all lights by their `Acquisition` names: radiators, phases of daylight and lamps.

    Each entry has the family, and the relative spectral power (31,) with mean 1.
    """
    lights: dict[str, tuple[Family, Doubles]] = {}
    for mired in _PLANCK_MIREDS:
        kelvin = round(1e6 / mired)
        lights[f"Planck {kelvin} K"] = "Planck", planckian(kelvin)
    for mired in _DAYLIGHT_MIREDS:
        kelvin = round(1e6 / mired)
        lights[f"daylight {kelvin} K"] = "daylight", daylight(kelvin)
    for name, power in load_illuminants().items():
        lights[name] = _family_of(name), power / power.mean()
    return MappingProxyType(lights)


def _family_of(name: str) -> Family:
    """Return the family of a light from `load_illuminants`."""
    if name in _GLOWING:
        return "Planck"
    if name in _LIKE_DAYLIGHT:
        return "daylight"
    return "LED" if name.startswith("LED") else "fluorescent"


ArrayOrTensor = Any
"""An array, or a tensor during training; the code is the same."""


def module_of(numbers: ArrayOrTensor) -> Any:
    """Return NumPy for an array, torch for a tensor; both have functions of the same names."""
    return np if isinstance(numbers, np.ndarray | np.generic) else import_module("torch")


def log_ratios(white: ArrayOrTensor) -> ArrayOrTensor:
    """Return the logarithms of red over green and of blue over green: (..., 3) -> (..., 2).

    Ratios are clipped at 1 : 100, since sodium lamps have negative blue in sRGB.
    """
    numbers = module_of(white)
    ratios = numbers.stack([white[..., 0], white[..., 2]], axis=-1) / white[..., 1:2]
    return numbers.log(ratios.clip(min=_LEAST_RATIO))


@functools.cache
def common_response() -> Singles:
    """Return the sRGB observer under equal power (31, 3), whose space is common to all cameras."""
    return camera_response(SRGB, "E").astype(np.float32)


_NUMBERS = 6  # outputs per family: share, white (2), and shape of a Gaussian (3)
OUTPUTS = _NUMBERS * len(FAMILIES)
"""Number of outputs of the network."""

# Mean whites of the families, the guess for a photo without information.
_USUAL = ((0.38, -0.52), (-0.18, 0.06), (0.23, -0.50), (0.38, -0.60))
# Weight of the photo's mean colour in the first guess; the usual white has the rest.
_OWN = 0.7
_STEP = 0.5
# Logarithms of the inverse widths of a Gaussian, e^2.5 = 12 being a width of 0.08.
_INVERSE_WIDTH = 2.5
_WIDTHS = (-1.0, 5.5)
_SKEW = 5.0


class LightPosterior(NamedTuple):
    """The posterior over families and whites of photos.

    Attributes
    ----------
    log_shares
        (N, F) log probabilities of the families.
    whites
        (N, F, 2) mean of each family's Gaussian.
    log_widths, skews
        (N, F, 2) and (N, F): Cholesky factor of each inverse covariance, as logarithms of the
        diagonal, and the off-diagonal element.
    """

    log_shares: ArrayOrTensor
    whites: ArrayOrTensor
    log_widths: ArrayOrTensor
    skews: ArrayOrTensor

    def log_densities(self, white: ArrayOrTensor) -> ArrayOrTensor:
        """Return each family's log density (N, K, F) at whites (N, K, 2) or (K, 2)."""
        off = white[..., None, :] - self.whites[:, None]
        inverse_width = module_of(white).exp(self.log_widths[:, None])
        first = inverse_width[..., 0] * off[..., 0]
        second = inverse_width[..., 1] * off[..., 1] + self.skews[:, None] * off[..., 0]
        squares = first**2 + second**2
        return self.log_widths.sum(-1)[:, None] - squares / 2 - math.log(2 * math.pi)


def posterior_of(outputs: ArrayOrTensor, mean_colour: ArrayOrTensor) -> LightPosterior:
    """Convert *outputs* (N, 24) for photos with these mean colours (N, 2) to a posterior."""
    module = module_of(outputs)
    numbers = outputs.reshape(*outputs.shape[:-1], len(FAMILIES), _NUMBERS)
    usual = module.asarray(_USUAL, dtype=outputs.dtype, device=outputs.device)
    guess = (1 - _OWN) * usual + _OWN * mean_colour[:, None]
    return LightPosterior(
        log_shares=_log_softmax(numbers[..., 0]),
        whites=guess + _STEP * numbers[..., 1:3],
        log_widths=(numbers[..., 3:5] + _INVERSE_WIDTH).clip(*_WIDTHS),
        skews=_SKEW * numbers[..., 5],
    )


def _log_softmax(logits: ArrayOrTensor) -> ArrayOrTensor:
    """Return the logarithms of the softmax along the last axis."""
    module = module_of(logits)
    off = logits - module.amax(logits, axis=-1, keepdims=True)
    return off - module.log(module.exp(off).sum(axis=-1, keepdims=True))


@dataclass(frozen=True, eq=False)
class KnownLights:
    """Known lights: *names* and *families* (K), *powers* (K, 31) with mean 1, *whites* (K, 2)."""

    names: tuple[str, ...]
    families: NDArray[np.str_]
    powers: Doubles
    whites: Singles

    def probabilities(self, posterior: LightPosterior) -> Doubles:
        """Return the probability (K,) of each light, averaged over the N views of one photo.

        The share of a family is divided among its lights by the density at their whites.
        """
        told = LightPosterior(*(np.asarray(each, np.float64) for each in posterior))
        densities = told.log_densities(self.whites)
        shares = np.exp(told.log_shares)
        by_light = np.zeros(densities.shape[:2])
        for index, family in enumerate(FAMILIES):
            of_family = self.families == family
            within = np.exp(_log_softmax(densities[:, of_family, index]))
            by_light[:, of_family] = shares[:, index, None] * within
        return np.asarray(by_light.mean(0))


@functools.cache
def light_table(without: str = "") -> KnownLights:
    """Return all known lights except *without*."""
    lights = {name: light for name, light in known_lights().items() if name != without}
    families, powers = (np.array(each) for each in zip(*lights.values(), strict=True))
    whites = powers.astype(np.float32) @ common_response()
    return KnownLights(tuple(lights), families, powers, log_ratios(whites))


CHANNELS = 18
"""Channels of the network's input picture."""

CLIPPED = 0.99
"""Share of full scale from which on a value counts as clipped."""

# Powers of means: grey world (1), shades of grey, and one dominated by the brightest parts.
_GREY_WORLD = 1
_SHADES = 4
_BRIGHTEST = 12
_BRIGHT = 0.98  # quantile of the brightness that counts as white
_DARK = 2e-3  # added to colours, relative to white, to neutralise dark cells
_GAMMA = 0.45
_LIMIT = 3.0  # for log colours
_WIDEST = 2.0  # for the log mean colour
_LEAST = 1e-4
_SMALLEST = 1e-30  # of a mean of powers

# Every 17th reflectance under every third light is enough to fit a 3 x 3 matrix.
_SPECTRA_STEP = 17
_LIGHT_STEP = 3


class CellColours(NamedTuple):
    """One colour of each cell of photos.

    Attributes
    ----------
    common
        (N, 3, P) colours in the common space.
    is_known
        (N, P) mask, False for cells that are clipped or invalid.
    """

    common: ArrayOrTensor
    is_known: ArrayOrTensor

    @property
    def references(self) -> ArrayOrTensor:
        """Colours (N, 3, P), 0 where they are unknown."""
        return self.common.clip(min=0) * self.is_known[:, None]


@functools.lru_cache(maxsize=128)
def to_common(camera: str) -> Doubles:
    """Return the matrix (3, 3) from a *camera*, balanced for equal power, to the common space.

    It minimises the relative error for measured reflectances under known lights.
    """
    return common_matrices(camera_response(camera, "E"))


def common_matrices(responses: Doubles) -> Doubles:
    """Return the `to_common` matrices (..., 3, 3) for *responses* (..., 31, 3) to equal power."""
    moments, target = _moments()
    transposed = responses.swapaxes(-1, -2)
    return np.asarray(np.linalg.solve(transposed @ moments @ responses, transposed @ target))


@functools.cache
def _moments() -> tuple[Doubles, Doubles]:
    """Return weighted second moments of stimuli (31, 31), and with their common colours (31, 3)."""
    spectra = measured_reflectances().clip(0, 1)[::_SPECTRA_STEP]
    lights = list(known_lights().values())[::_LIGHT_STEP]
    stimuli = np.concatenate([spectra * power for _, power in lights])
    response = common_response().astype(np.float64)
    weighted = stimuli / ((stimuli @ response).sum(1, keepdims=True) + 0.05)
    moments = weighted.T @ weighted
    return moments, moments @ response


def picture(means: CellColours, brightest: CellColours) -> tuple[ArrayOrTensor, ArrayOrTensor]:
    """Return the input of the network for photos, from the mean and brightest part of each cell.

    The input has channels (N, 18, P). For the means, and for the brightest parts, they are two log
    ratios relative to the mean colour, the brightness, and both ratios times brightness. Further
    channels are the mean colour, and three other guesses of the white relative to it. The second
    result is the mean colour (N, 2), to which the answer is relative, as log ratios of the mean of
    bright parts.

    Unknown cells, such as clipped ones, are black and grey.
    """
    white = _white(means.references)
    mean_colour = _shades_of_grey(brightest.references, _SHADES)
    guesses = (
        _shades_of_grey(means.references, _GREY_WORLD),
        _shades_of_grey(means.references, _BRIGHTEST),
        _shades_of_grey(brightest.references, _BRIGHTEST),
    )
    module = module_of(means.common)
    beside = module.concat([mean_colour, *(guess - mean_colour for guess in guesses)], axis=1)
    channels = [
        _seen(means, white, mean_colour),
        _seen(brightest, white, mean_colour),
        module.broadcast_to(beside[..., None], (*beside.shape, means.common.shape[-1])),
    ]
    return module.concat(channels, axis=1), mean_colour


def _seen(cells: CellColours, white: ArrayOrTensor, mean_colour: ArrayOrTensor) -> ArrayOrTensor:
    """Return five channels (N, 5, P): two colours, brightness, and the colours times brightness."""
    module = module_of(white)
    colour = log_ratios(module.moveaxis(cells.common.clip(min=0) + _DARK * white[:, None], 1, -1))
    relative = (module.moveaxis(colour, -1, 1) - mean_colour[..., None]).clip(-_LIMIT, _LIMIT)
    relative = relative * cells.is_known[:, None]
    brightness = 2 * (cells.references.mean(1) / white).clip(0, 1.5) ** _GAMMA
    # A linear map of a patch cannot weight colours by brightness, which separates white from hues.
    weighed = relative * brightness[:, None]
    return module.concat([relative, brightness[:, None] - 1, weighed], axis=1)


def _white(values: ArrayOrTensor) -> ArrayOrTensor:
    """Return the brightness (N, 1) that counts as white."""
    brightness = values.mean(1)
    place = max(int(_BRIGHT * brightness.shape[1]), 1)
    order = brightness.argsort(axis=1)[:, place - 1]
    photos = module_of(values).arange(len(order))
    return brightness[photos, order][:, None].clip(min=_LEAST)


def _shades_of_grey(values: ArrayOrTensor, power: int) -> ArrayOrTensor:
    """Return log ratios (N, 2) of the mean colour with this *power*."""
    # Powers of small numbers would underflow in single precision.
    largest = module_of(values).amax(values, axis=(1, 2), keepdims=True).clip(min=_LEAST)
    mean = ((values / largest) ** power).mean(2).clip(min=_SMALLEST) ** (1 / power)
    return log_ratios(mean).clip(-_WIDEST, _WIDEST)


_SAMPLES = 8  # pixels read along each side of a cell
_FEW = 4  # brightest of these 64 pixels that make up the brightest part
_POWER = 6  # of shades of grey, as in its paper


class Sample(NamedTuple):
    """A sample of the pixels of a photo, in S x S cells.

    *means* (3, S, S) average all unclipped pixels of a cell, *brightest* (3, S, S) the brightest
    few. *is_known* (S, S) marks cells with unclipped pixels. *bright* (3,) is the mean colour of
    the bright parts of the whole photo (shades of grey).
    """

    means: Doubles
    brightest: Doubles
    is_known: Mask
    bright: Doubles


def sampled(photo: Photo, side: int) -> Sample:
    """Sample pixels all over a photo in *side* x *side* cells, enough for its colours.

    Raises
    ------
    PhotoError
        If all sampled pixels are black or clipped.
    """
    values, is_known = _samples(photo, side * _SAMPLES)
    if not values.any():
        raise PhotoError(
            "Expected a photo with colours to estimate its light, got only black and clipped "
            "pixels. Name the illuminant."
        )
    # Divided first, as powers of small numbers would underflow.
    largest = values.max()
    bright = ((values / largest) ** _POWER).mean(axis=(1, 2)) ** (1 / _POWER)
    cells = _in_cells(values)
    counts = _in_cells(is_known).sum(axis=-1)
    means = cells.sum(axis=-1) / np.maximum(counts, 1)
    return Sample(means, _brightest(cells, counts), counts > 0, bright)


def _samples(photo: Photo, side: int) -> tuple[Doubles, Mask]:
    """Return linear values (3, *side*, *side*), 0 where unknown, and a mask of known ones."""
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
    """Return the mean colour (3, S, S) of the brightest samples (3, S, S, 64) in each cell."""
    # Stable, so that every machine picks the same among equally bright samples.
    order = (-cells.sum(axis=0)).argsort(axis=-1, kind="stable")[..., :_FEW]
    picked = np.take_along_axis(cells, order[None], axis=-1)
    return picked.sum(axis=-1) / counts.clip(1, _FEW)


def _spaced(length: int, number: int) -> Indices:
    """Return *number* evenly spaced indices along an axis of this *length*."""
    return np.asarray((np.arange(number) + 0.5) * length / number, dtype=np.intp)
