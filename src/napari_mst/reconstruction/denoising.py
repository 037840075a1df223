"""Denoise a photo by non-local Bayes before the network sees it, where it is noisy.

The networks here were trained on noise, and yet a filter before them does better on noisy photos,
while it harms clean ones (docs/denoising.md). So `decided` asks the whole photo how noisy it is.
"""

from dataclasses import replace

import numpy as np

from napari_mst.base.progress import Progress
from napari_mst.cube.colour import SRGB_D65
from napari_mst.cube.lazy import part_of
from napari_mst.denoising.nl_bayes import (
    NLBayes,
    denoised_pixels,
    denoised_where_read,
    kept_as,
    working_bytes,
)
from napari_mst.denoising.sensor_noise import SensorNoise, estimated_noise
from napari_mst.engine.windows import Window, whole
from napari_mst.photo.cameras import CAMERA_RGB
from napari_mst.photo.photo import Photo
from napari_mst.reconstruction.colour_fidelity.code_cells import Cells
from napari_mst.reconstruction.colour_fidelity.photo_noise import has_jpeg_grid
from napari_mst.reconstruction.job import Job

# Photos with less noise than this, in 8-bit codes at middle grey, are left as they are. Clean CAVE
# scenes have 0.6 at most, except one, whose texture gives it away; from 1.8 on denoising helps.
_LEAST_CODES = 1.6

# No sensor has more; what has is no photo, but a drawing or a test pattern of random pixels.
_MOST_CODES = 30.0

# See `SensorNoise.whiteness`: clean texture has up to 0.06 where its detail passes for so much
# noise, and scenes with a variance of 1e-3 over the signal have 0.25 at least.
_LEAST_WHITENESS = 0.2


def decided(job: Job) -> Job:
    """The *job* with the way in which its photo is to be denoised, if it is.

    A preview is denoised by what noise is left in it, and a region by the noise of the whole photo.
    """
    choice = job.options.denoise
    card = job.setup.model.card
    # The models for which denoising was found to help.
    is_measured = card.rendering in (SRGB_D65, CAMERA_RGB)
    if choice == "off" or (choice == "auto" and not is_measured):
        return job
    photo = job.part if job.is_preview else job.photo
    gains = _gains(job)
    noise = estimated_noise(photo, job.progress, gains)
    if noise is None and choice != "auto":
        return job.noted(
            "The photo was not denoised: too few of its pixels are unclipped to measure its noise."
        )
    if noise is None or (choice == "auto" and not _is_noisy(photo, noise)):
        return job
    return replace(job, denoising=NLBayes(noise, 1.0 if choice == "auto" else float(choice), gains))


def _gains(job: Job) -> tuple[float, float, float]:
    """The factors by which the channels of the photo are larger than in the sensor."""
    acquisition = job.options.acquisition
    if acquisition is None or job.photo.shot is not None:
        return 1.0, 1.0, 1.0
    red, green, blue = (1 / (acquisition.white_of_sensor * acquisition.gains)).tolist()
    return red, green, blue


def denoised(job: Job, progress: Progress | None = None) -> Job:
    """The *job* with its part denoised as `decided` says, which a note says.

    A region gets the same pixels as in the whole denoised photo. Without a *progress*, pixels
    are denoised where they are read.

    Raises
    ------
    Cancelled
        Soon after *progress* was cancelled.
    """
    how = job.denoising
    if how is None:
        return job
    if job.options.region is not None and not job.is_preview:
        photo, window = job.photo, Window(*job.options.region)
    else:
        photo, window = job.part, whole(job.part.shape)
    if progress is None:
        lazy = denoised_where_read(photo, how)
        pixels = part_of(lazy, slice(None), window.rows, window.columns)
    else:
        pixels = denoised_pixels(photo, how, window, progress)
    note = f"The photo was denoised before the network: {how}."
    _, scale = kept_as(photo)
    part = replace(job.part, pixels=pixels, full_scale=scale, unconverted=None)
    return replace(job.noted(note), part=part)


def bytes_to_denoise(job: Job) -> int:
    """About the bytes of memory that denoising takes, and what it keeps through the run."""
    if job.denoising is None:
        return 0
    return job.part.pixels.size * kept_as(job.part)[0].itemsize + working_bytes()


def _is_noisy(photo: Photo, noise: SensorNoise) -> bool:
    """True if *noise* is that of a sensor, and a filter takes more of it than of the photo."""
    is_noise = noise.whiteness >= _LEAST_WHITENESS
    is_large = _LEAST_CODES <= noise.codes <= _MOST_CODES
    return is_noise and is_large and not has_jpeg_grid(Cells(photo, np.zeros(3)))
