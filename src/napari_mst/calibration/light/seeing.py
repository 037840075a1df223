"""The lights that a photo may have been taken in, and the photo as the network sees it.

A 3 x 3 matrix takes a known camera's values to one common space: the sRGB observer under equal
power. The photo is cut into cells. The picture shows each cell twice, its mean and its brightest
part, since a highlight has the colour of the light and is lost in a mean. Both are colours relative
to the mean colour of the photo's bright parts (shades of grey), and a brightness. That mean colour
itself, and other first guesses of the white, stand beside them. So the network learns how far the
true white is off a good first guess. Letters: N photos, P cells.

References: Finlayson & Trezzi, "Shades of Gray and Colour Constancy", CIC 2004, 37-41.

The lights are known ones: radiators, phases of daylight and lamps. The posterior that the network
gives of them is a mixture of families, each with its white as a Gaussian. A white is two numbers,
the logarithms of red over green and of blue over green in the common space. Letters: F families, K
known lights.
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
    """All lights by the names that an `Acquisition` takes: radiators, phases of daylight and lamps.

    Each is its family, and its relative spectral power (31,) of mean 1.
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
    """The family of a light of `load_illuminants`."""
    if name in _GLOWING:
        return "Planck"
    if name in _LIKE_DAYLIGHT:
        return "daylight"
    return "LED" if name.startswith("LED") else "fluorescent"


ArrayOrTensor = Any
"""An array, or a tensor in training: they are computed alike."""


def module_of(numbers: ArrayOrTensor) -> Any:
    """NumPy for an array, torch for a tensor: both have functions of the same names."""
    return np if isinstance(numbers, np.ndarray | np.generic) else import_module("torch")


def log_ratios(white: ArrayOrTensor) -> ArrayOrTensor:
    """Logarithms of red over green and of blue over green: (..., 3) -> (..., 2).

    They end at 1 : 100, since sodium lamps have less than no blue in sRGB.
    """
    numbers = module_of(white)
    ratios = numbers.stack([white[..., 0], white[..., 2]], axis=-1) / white[..., 1:2]
    return numbers.log(ratios.clip(min=_LEAST_RATIO))


@functools.cache
def common_response() -> Singles:
    """(31, 3): the sRGB observer under equal power, in whose space all cameras are compared."""
    return camera_response(SRGB, "E").astype(np.float32)


_NUMBERS = 6  # of each family: its share, a white, and three of a Gaussian's shape
OUTPUTS = _NUMBERS * len(FAMILIES)
"""Outputs that the network needs."""

# The mean whites of the families' lights, the guess for a photo that shows nothing.
_USUAL = ((0.38, -0.52), (-0.18, 0.06), (0.23, -0.50), (0.38, -0.60))
# Weight of the photo's own mean colour in the first guess; the usual white has the rest.
_OWN = 0.7
_STEP = 0.5
# Logarithms of the inverse widths of a Gaussian, e^2.5 = 12 being a width of 0.08.
_INVERSE_WIDTH = 2.5
_WIDTHS = (-1.0, 5.5)
_SKEW = 5.0


class LightPosterior(NamedTuple):
    """The families and whites that photos may have.

    Attributes
    ----------
    log_shares
        (N, F): logarithms of the families' probabilities.
    whites
        (N, F, 2): the mean of each family's Gaussian.
    log_widths, skews
        (N, F, 2) and (N, F): the Cholesky factor of each inverse covariance: logarithms of its
        diagonal, and the number beside it.
    """

    log_shares: ArrayOrTensor
    whites: ArrayOrTensor
    log_widths: ArrayOrTensor
    skews: ArrayOrTensor

    def log_densities(self, white: ArrayOrTensor) -> ArrayOrTensor:
        """Logarithm of each family's density at whites (N, K, 2) or (K, 2): (N, K, F)."""
        off = white[..., None, :] - self.whites[:, None]
        inverse_width = module_of(white).exp(self.log_widths[:, None])
        first = inverse_width[..., 0] * off[..., 0]
        second = inverse_width[..., 1] * off[..., 1] + self.skews[:, None] * off[..., 0]
        squares = first**2 + second**2
        return self.log_widths.sum(-1)[:, None] - squares / 2 - math.log(2 * math.pi)


def posterior_of(outputs: ArrayOrTensor, mean_colour: ArrayOrTensor) -> LightPosterior:
    """The meaning of outputs (N, 24) for photos of these mean colours (N, 2)."""
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
    """Logarithms of the shares along the last axis."""
    module = module_of(logits)
    off = logits - module.amax(logits, axis=-1, keepdims=True)
    return off - module.log(module.exp(off).sum(axis=-1, keepdims=True))


@dataclass(frozen=True, eq=False)
class KnownLights:
    """Known lights: *names* and *families* (K), *powers* (K, 31) of mean 1, *whites* (K, 2)."""

    names: tuple[str, ...]
    families: NDArray[np.str_]
    powers: Doubles
    whites: Singles

    def probabilities(self, posterior: LightPosterior) -> Doubles:
        """The probability (K,) of each light: the mean over the N views of one photo.

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
    """All known lights but the one called *without*."""
    lights = {name: light for name, light in known_lights().items() if name != without}
    families, powers = (np.array(each) for each in zip(*lights.values(), strict=True))
    whites = powers.astype(np.float32) @ common_response()
    return KnownLights(tuple(lights), families, powers, log_ratios(whites))


CHANNELS = 18
"""Channels of the picture that the network is given."""

CLIPPED = 0.99
"""Least share of the full scale of a clipped value."""

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

    common: ArrayOrTensor
    is_known: ArrayOrTensor

    @property
    def references(self) -> ArrayOrTensor:
        """(N, 3, P): the colours, 0 where they are not known."""
        return self.common.clip(min=0) * self.is_known[:, None]


@functools.lru_cache(maxsize=128)
def to_common(camera: str) -> Doubles:
    """(3, 3): takes values of a *camera*, balanced for equal power, to the common space.

    It is the best for measured reflectances under known lights, by the relative error.
    """
    return common_matrices(camera_response(camera, "E"))


def common_matrices(responses: Doubles) -> Doubles:
    """(..., 3, 3): the matrices of `to_common`, for *responses* (..., 31, 3) under equal power."""
    moments, target = _moments()
    transposed = responses.swapaxes(-1, -2)
    return np.asarray(np.linalg.solve(transposed @ moments @ responses, transposed @ target))


@functools.cache
def _moments() -> tuple[Doubles, Doubles]:
    """Weighted second moments (31, 31) of stimuli, and those with their common colours (31, 3)."""
    spectra = measured_reflectances().clip(0, 1)[::_SPECTRA_STEP]
    lights = list(known_lights().values())[::_LIGHT_STEP]
    stimuli = np.concatenate([spectra * power for _, power in lights])
    response = common_response().astype(np.float64)
    weighted = stimuli / ((stimuli @ response).sum(1, keepdims=True) + 0.05)
    moments = weighted.T @ weighted
    return moments, moments @ response


def picture(means: CellColours, brightest: CellColours) -> tuple[ArrayOrTensor, ArrayOrTensor]:
    """The input of the network for photos: a mean and a brightest part for each cell.

    It is the channels (N, 18, P): of the means and of the brightest parts two logarithmic ratios
    relative to the mean colour, the brightness, and both ratios times brightness; then the mean
    colour, and three other guesses of the white relative to it. Beside it is the mean colour (N, 2)
    itself, to which the answer is relative: logarithmic ratios of the bright parts' mean.

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
    """Five channels (N, 5, P): two of colour, brightness, and the two again, weighed by it."""
    module = module_of(white)
    colour = log_ratios(module.moveaxis(cells.common.clip(min=0) + _DARK * white[:, None], 1, -1))
    relative = (module.moveaxis(colour, -1, 1) - mean_colour[..., None]).clip(-_LIMIT, _LIMIT)
    relative = relative * cells.is_known[:, None]
    brightness = 2 * (cells.references.mean(1) / white).clip(0, 1.5) ** _GAMMA
    # One linear map of a patch cannot weigh colours by brightness, which parts whites from hues.
    weighed = relative * brightness[:, None]
    return module.concat([relative, brightness[:, None] - 1, weighed], axis=1)


def _white(values: ArrayOrTensor) -> ArrayOrTensor:
    """The brightness (N, 1) that counts as white."""
    brightness = values.mean(1)
    place = max(int(_BRIGHT * brightness.shape[1]), 1)
    order = brightness.argsort(axis=1)[:, place - 1]
    photos = module_of(values).arange(len(order))
    return brightness[photos, order][:, None].clip(min=_LEAST)


def _shades_of_grey(values: ArrayOrTensor, power: int) -> ArrayOrTensor:
    """Logarithmic ratios (N, 2) of the mean colour by this *power*."""
    # A power of small numbers would be lost in single precision.
    largest = module_of(values).amax(values, axis=(1, 2), keepdims=True).clip(min=_LEAST)
    mean = ((values / largest) ** power).mean(2).clip(min=_SMALLEST) ** (1 / power)
    return log_ratios(mean).clip(-_WIDEST, _WIDEST)


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
