"""The noise of a sensor, whose variance grows with the light, estimated from a photo.

Photons arrive at random, which gives a variance in proportion to the signal, and reading them adds
a constant one: sigma^2(y) = gain y + floor, for a signal y of linear light, 0-1. Foi, Trimeche,
Katkovnik & Egiazarian, IEEE Trans. Image Process. 17 (2008) 1737, doi:10.1109/TIP.2008.2001399.

Blocks of 8 x 8 pixels are transformed to cosines. Of those with the least coarse detail, the finest
detail is noise: white noise has as much of both, independently, so that the choice does not favour
blocks of little noise. Blocks of like brightness together give a variance for that brightness, and
a line through all of them is the noise of a sensor. Ponomarenko et al., SPIE 6497 (2007) 64970O,
doi:10.1117/12.711526; Colom & Buades, IPOL 3 (2013) 173, doi:10.5201/ipol.2013.45.

Two things are added. A texture is light and shadow on a surface, and changes all channels in
proportion to its colour, while the noise of each channel is independent: the part that the
channels share is subtracted from their variance. And places with more texture are weighted less.

Letters: C channels, n blocks, m coefficients.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np

from napari_mst.base.arrays import Doubles, Floats, Indices, Singles
from napari_mst.base.progress import Progress, ProgressLike, as_progress
from napari_mst.cube.colour import linear_to_srgb
from napari_mst.photo.photo import Photo, PhotoLike, as_photo

MIDDLE_GREY = 0.18
"""The signal at which the noise is quoted as one number: a surface of 18 % reflectance."""

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

    def stabilised(self, linear: Floats) -> Doubles:
        """*linear* light on the scale on which noise has a standard deviation of 1 everywhere.

        It is the generalised Anscombe transform 2 / gain sqrt(gain y + 3/8 gain^2 + floor), less
        its value at 0, so that a gain of 0 needs no special case. Murtagh, Starck & Bijaoui,
        Astron. Astrophys. Suppl. 112 (1995) 179.
        """
        signal = np.maximum(linear.astype(np.float64), 0)
        dark = self.floor + 0.375 * self.gain**2 + _LEAST_VARIANCE
        return 2 * signal / (np.sqrt(self.gain * signal + dark) + np.sqrt(dark))

    def light(self, stabilised: Doubles) -> Doubles:
        """The linear light, 0 or more, whose noisy values have this mean when *stabilised*.

        A mean of roots is less than the root of the mean, by gain / 4 of light, except in darkness.
        Mäkitalo & Foi, IEEE Trans. Image Process. 20 (2011) 99, doi:10.1109/TIP.2010.2056693.
        """
        dark = np.sqrt(self.floor + 0.375 * self.gain**2 + _LEAST_VARIANCE)
        less = self.gain / 4 * (stabilised / 2).clip(0, 1)
        return np.maximum(stabilised * (self.gain * stabilised / 4 + dark) + less, 0)


SIDE = 8
"""Pixels along each side of a block."""

_BLOCKS = 1 << 15  # examined, about
_LEAST_STEP = 2  # pixels from one block to the next, at least: closer ones add nothing
_FEWEST = 200  # blocks from which noise is estimated

_BINS = 8  # of brightness, of each channel
_FLATTEST = 0.03  # share of the blocks of a bin that count, and the fewest of them
_FEWEST_FLAT = 20
_CLIPPED = 0.02  # share of the pixels of a block that may be clipped: one

# Coefficients by the sum of their two frequencies, which are 0 to 7.
_FREQUENCY = np.add.outer(np.arange(SIDE), np.arange(SIDE))
_IS_COARSE = (_FREQUENCY >= 1) & (_FREQUENCY <= 5)
_IS_FINE = (_FREQUENCY >= 9) & (_FREQUENCY <= 14)

COSINES = np.cos(np.pi / SIDE * (np.arange(SIDE) + 0.5) * np.arange(SIDE)[:, None])
COSINES *= np.sqrt(2 / SIDE)
COSINES[0] /= np.sqrt(2)
"""The orthonormal cosines of a block, as rows."""

_ROUNDS = 20  # of the fit of the line
_TINY = 1e-9  # less than the variance of any photo
_NEAR = 0.05  # a bin that is off the line by this share, or less, counts fully
_SHARED = 4  # texture that channels share makes the fine detail left without it less certain


class _Blocks(NamedTuple):
    """The blocks of a photo, except their pixels, which would take much memory.

    Attributes
    ----------
    places
        (n, 2): the first row and column of each.
    means
        (C, n), in linear light.
    roughness
        (C, n): the variance of coarse detail.
    clipped
        (C, n): the share of pixels that are clipped or unknown.
    """

    places: Indices
    means: Doubles
    roughness: Doubles
    clipped: Doubles


def estimated_noise(
    photo: PhotoLike, progress: ProgressLike = None, gains: Sequence[float] = (1.0, 1.0, 1.0)
) -> SensorNoise | None:
    """The noise of *photo*, or None where it has too few blocks that are not clipped.

    A balanced photo has the values of its sensor times *gains* (3,); the noise is the sensor's.

    On photos with simulated noise the standard deviation comes out within 15 %. Photos that were
    JPEG, or that a camera has smoothed, have little fine detail left and so hardly any noise.

    Raises
    ------
    Cancelled
        As soon as *progress* is cancelled.

    Notes
    -----
    =======  ========================================================
    photo    uint8 0-255, uint16 0-65535 or float 0-1; sRGB or linear
    returns  variance in linear light, 0-1
    =======  ========================================================

    Examples
    --------
    >>> grain = np.random.default_rng(0).normal(0.3, 0.02, (128, 128, 3))
    >>> noise = nm.estimated_noise(nm.Photo.from_array(grain, encoding="linear"))
    >>> round(noise.sigma(0.3), 3)
    0.019
    """
    photo = as_photo(photo)
    if min(photo.shape) < SIDE:
        return None
    bins = _flat_bins(_blocks(photo, as_progress(progress)), photo, np.asarray(gains))
    if bins is None:
        return None
    gain, floor = _line(*bins)
    _, fine, coarse, _ = bins
    whiteness = float(np.median(fine / np.maximum(coarse, _TINY)))
    return SensorNoise(gain, floor, whiteness)


def _blocks(photo: Photo, progress: Progress) -> _Blocks:
    """Blocks from all over *photo*, row of blocks by row of blocks."""
    height, width = photo.shape
    step = max(_LEAST_STEP, round((height * width / _BLOCKS) ** 0.5))
    lefts = np.arange(0, width - SIDE + 1, step)
    collected = []
    for top in range(0, height - SIDE + 1, step):
        progress.check()
        coefficients = _coefficients(_windows(photo.rows(top, top + SIDE, linear=True), step))
        stored = _windows(photo.rows(top, top + SIDE, linear=False), step)
        places = np.stack([np.full_like(lefts, top), lefts])
        means = coefficients[..., 0, 0] / SIDE
        roughness = np.square(coefficients[..., _IS_COARSE]).mean(axis=2)
        clipped = ((stored <= 0) | (stored >= 1)).mean(axis=(2, 3))
        collected.append((places, means, roughness, clipped))
    places, *rest = (np.concatenate(parts, axis=1) for parts in zip(*collected, strict=True))
    return _Blocks(places.T, *rest)


def _detail(photo: Photo, places: Indices) -> tuple[Doubles, Doubles]:
    """Coefficients (C, n, m) of the coarse and of the fine detail of the blocks at *places*."""
    pixels = [
        photo.cropped((top, top + SIDE, left, left + SIDE)).rows(linear=True)
        for top, left in places.tolist()
    ]
    coefficients = _coefficients(np.stack(pixels, axis=1))
    return coefficients[..., _IS_COARSE], coefficients[..., _IS_FINE]


def _coefficients(blocks: Singles) -> Doubles:
    """The cosine coefficients of *blocks* (C, n, SIDE, SIDE), of the same shape."""
    return COSINES @ blocks.astype(np.float64) @ COSINES.T


def _windows(rows: Singles, step: int) -> Singles:
    """Blocks (C, n, SIDE, SIDE) of *rows* (C, SIDE, W), one every *step* columns."""
    views = np.lib.stride_tricks.sliding_window_view(rows, SIDE, axis=2)[:, :, ::step]
    return views.transpose(0, 2, 1, 3)


def _flat_bins(blocks: _Blocks, photo: Photo, gains: Doubles) -> Doubles | None:
    """The flattest places (4, bins) of every channel and brightness; None with too few blocks.

    The rows are the mean signal, in linear light; the variances of fine and of coarse detail; and
    the variance of fine detail that the channels share, which is not in that of fine detail. They
    are those of the sensor, whose values were multiplied by *gains*.
    """
    bins = []
    for channel, means in enumerate(blocks.means):
        usable = np.flatnonzero(blocks.clipped[channel] < _CLIPPED)
        if len(usable) < _FEWEST:
            continue
        edges = np.quantile(means[usable], np.linspace(0, 1, _BINS + 1))
        for low, high in pairwise(edges):
            alike = usable[(means[usable] >= low) & (means[usable] <= high)]
            if len(alike) >= _FEWEST_FLAT:
                bins.append(_bin(blocks, channel, alike, photo) / gains[channel] ** [1, 2, 2, 2])
    return np.array(bins).T if bins else None


def _bin(blocks: _Blocks, channel: int, alike: Indices, photo: Photo) -> Doubles:
    """The column (4,) of `_flat_bins` of one *channel*, in the flattest of *alike* blocks."""
    roughness = blocks.roughness[channel, alike]
    count = max(int(len(alike) * _FLATTEST), _FEWEST_FLAT)
    flat = alike[np.argsort(roughness, kind="stable")[:count]]
    colour = blocks.means[:, flat].mean(axis=1)
    coarse, fine = (_covariance(detail) for detail in _detail(photo, blocks.places[flat]))
    signal = colour[channel]
    texture = _shared(fine, colour)[channel]
    noise = fine[channel, channel] - texture - _rounding(photo, signal)
    return np.array([signal, noise, (np.diag(coarse) - _shared(coarse, colour))[channel], texture])


def _covariance(coefficients: Doubles) -> Doubles:
    """The covariance (C, C) of the channels of *coefficients* (C, n, m), whose mean is 0."""
    flat = coefficients.reshape(len(coefficients), -1)
    return flat @ flat.T / flat.shape[1]


def _shared(covariance: Doubles, colour: Doubles) -> Doubles:
    """The variance (C,) that the channels share in proportion to their *colour*."""
    pairs = list(combinations(range(len(colour)), 2))
    products = np.array([colour[a] * colour[b] for a, b in pairs])
    shared = np.array([covariance[a, b] for a, b in pairs])
    strength = (shared @ products) / max(products @ products, _TINY)
    return max(strength, 0.0) * colour**2


def _rounding(photo: Photo, signal: float) -> float:
    """The variance, in linear light, that comes from rounding to the whole numbers of *photo*."""
    if photo.pixels.dtype.kind != "u":
        return 0.0
    step = 1 / photo.full_scale
    if photo.encoding == "srgb":
        nearby = linear_to_srgb(np.array([signal, signal * 1.01 + 1e-4]))
        step *= (signal * 0.01 + 1e-4) / float(nearby[1] - nearby[0])
    return step**2 / 12


def _line(signal: Doubles, fine: Doubles, coarse: Doubles, shared: Doubles) -> tuple[float, float]:
    """Gain and floor, not negative, of the line through the variance *fine* over the *signal*.

    Errors count in units of the variance that is expected, together with the texture in which the
    noise was found. Bins that are off are weighted less with distance.
    """
    terms = np.stack([signal, np.ones_like(signal)], axis=1)
    texture = _SHARED * shared + np.abs(coarse)
    trust = np.ones_like(fine)
    expected = np.full_like(fine, max(float(np.median(np.abs(fine))), _TINY))
    gain = floor = 0.0
    for _ in range(_ROUNDS):
        weight = trust / (expected + texture)
        gain, floor = _not_negative(terms * weight[:, None], fine * weight)
        expected = np.maximum(gain * signal + floor, _TINY)
        off = np.abs(fine / expected - 1)
        trust = 1 / np.sqrt(np.maximum(off, _NEAR))
    return gain, floor


def _not_negative(terms: Doubles, wanted: Doubles) -> tuple[float, float]:
    """The least squares of two *terms* (n, 2) with factors of 0 or more.

    Where the free solution has a negative factor, that one is 0. To import `scipy.optimize` for
    `nnls`, which finds the same, takes 0.4 s.
    """
    free = np.linalg.lstsq(terms, wanted)[0]
    if free.min() >= 0:
        return float(free[0]), float(free[1])
    gain, floor = np.maximum(terms.T @ wanted / np.square(terms).sum(axis=0), 0)
    off = [
        np.square(wanted - factor * term).sum()
        for factor, term in zip((gain, floor), terms.T, strict=True)
    ]
    return (float(gain), 0.0) if off[0] <= off[1] else (0.0, float(floor))
