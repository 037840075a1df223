"""Non-local means of a photo.

Patches are compared on the scale on which noise is the same everywhere, and light is averaged in
linear values, which noise does not shift. The result has the type of the photo, rounded as that is.

Letters: B bands, H rows, W columns.
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from napari_mst.base.arrays import Doubles, Floats
from napari_mst.base.progress import NO_PROGRESS, Progress
from napari_mst.cube.colour import linear_to_srgb
from napari_mst.denoising.sensor_noise import SensorNoise, estimated_noise
from napari_mst.denoising.streaming import Filter, non_local_rows
from napari_mst.photo.photo import Photo

BEST_H = 1.2
"""The h of "auto", in units of the noise: best on the CAVE scenes of 0.8 to 1.5."""

PATCH = 5
DISTANCE = 9

LEAST_CODES = 8.0
"""The least h, in 8-bit codes, for looking at weights: with it any photo shows some."""

ROUNDING = 12**-0.5
"""The noise of rounding to 8 bits, in codes: a photo with less counts as one without noise."""

# Rounding noise expressed as photon noise, whose scale is close to that of sRGB codes.
_ROUNDED = SensorNoise(gain=(ROUNDING / SensorNoise(1.0, 0.0).codes) ** 2, floor=0.0)


@dataclass(frozen=True)
class Denoising:
    """Non-local means of a photo: its *noise*, and *h* in units of that noise."""

    noise: SensorNoise
    h: float

    @property
    def codes(self) -> float:
        """h in 8-bit sRGB codes at middle grey."""
        return self.h * self.noise.codes

    @property
    def filter(self) -> Filter:
        """The filter on the scale on which noise has a standard deviation of 1."""
        return Filter(self.h, PATCH, DISTANCE, sigma=1.0)

    def stabilised(self, photo: Photo, start: int = 0, stop: int | None = None) -> Doubles:
        """(3, rows, W): the pixels of *photo*, or of some of its rows, on that scale."""
        stop = photo.shape[0] if stop is None else stop
        return self.noise.stabilised(photo.rows(start, stop, linear=True))


def denoising_to_look_at(
    photo: Photo, codes: float | None = None, progress: Progress = NO_PROGRESS
) -> Denoising:
    """Choose a denoising of *photo* whose weights can be looked at even if the photo is clean.

    The strength h in 8-bit *codes* is by default the larger of `BEST_H` times the noise of the
    photo and `LEAST_CODES`. Noise below `ROUNDING` counts as that, and so does noise that too few
    unclipped pixels show.

    Raises
    ------
    DenoisingError
        If *codes* are not above 0.
    Cancelled
        As soon as *progress* is cancelled.
    """
    if codes is not None:
        Filter(codes)  # refuses an impossible h before the noise is estimated
    noise = estimated_noise(photo, progress)
    if noise is None or noise.codes < ROUNDING:
        noise = _ROUNDED
    codes = max(BEST_H * noise.codes, LEAST_CODES) if codes is None else codes
    return Denoising(noise, codes / noise.codes)


def denoised_photo(photo: Photo, how: Denoising, progress: Progress = NO_PROGRESS) -> Photo:
    """*photo* denoised, of unchanged type and encoding.

    Raises
    ------
    Cancelled
        Soon after *progress* was cancelled.
    """
    is_known = np.ones(photo.shape, dtype=bool) if photo.valid is None else photo.valid
    pixels = np.empty(photo.pixels.shape, dtype=photo.pixels.dtype)
    image, light = partial(how.stabilised, photo), partial(photo.rows, linear=True)
    for rows, means in non_local_rows(image, light, is_known, how.filter, progress):
        pixels[:, rows] = _stored(photo, np.where(is_known[rows], means, 0.0))
    return replace(photo, pixels=pixels, unconverted=None)


def _stored(photo: Photo, linear: Doubles) -> Floats:
    """Encode *linear* light like the values of *photo*."""
    encoded = linear_to_srgb(linear) if photo.encoding == "srgb" else linear
    in_units: Floats = encoded * photo.full_scale
    if photo.pixels.dtype.kind == "u":
        in_units = np.rint(in_units.clip(0, np.iinfo(photo.pixels.dtype).max))
    return in_units
