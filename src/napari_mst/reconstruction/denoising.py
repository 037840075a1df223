"""Denoises a noisy photo by non-local Bayes before the network sees it.

Although the networks were trained with noise, filtering first improves the results of noisy photos;
it worsens those of clean ones (docs/denoising.md). So `decided` measures the noise of the whole
photo.
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

# Photos with less noise than this, in 8-bit codes at middle grey, are not denoised. Clean CAVE
# scenes have at most 0.6, except one that is recognised by its texture; denoising helps from 1.8.
_LEAST_CODES = 1.6

# No sensor has more noise: such an image is a drawing or a test pattern of random pixels.
_MOST_CODES = 30.0

# See `SensorNoise.whiteness`: clean texture that looks this noisy reaches at most 0.06, scenes with
# a noise variance of 1e-3 over the signal at least 0.25.
_LEAST_WHITENESS = 0.2


def decided(job: Job) -> Job:
    """Return *job* with the settings for denoising its photo, if it needs denoising.

    A preview is denoised by the noise that is left in it, a region by the noise of the whole photo.
    """
    choice = job.options.denoise
    card = job.setup.model.card
    # Denoising was measured to help these models.
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
    """Return the gains of the photo's channels relative to the sensor."""
    acquisition = job.options.acquisition
    if acquisition is None or job.photo.shot is not None:
        return 1.0, 1.0, 1.0
    red, green, blue = (1 / (acquisition.white_of_sensor * acquisition.gains)).tolist()
    return red, green, blue


def denoised(job: Job, progress: Progress | None = None) -> Job:
    """Return *job* with its part denoised as `decided`, and a note about it.

    A region gets the same pixels as in the whole denoised photo. Without *progress*, pixels are
    denoised when they are read.

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
    """Return the approximate memory of denoising in bytes, including what stays during the run."""
    if job.denoising is None:
        return 0
    return job.part.pixels.size * kept_as(job.part)[0].itemsize + working_bytes()


def _is_noisy(photo: Photo, noise: SensorNoise) -> bool:
    """True if *noise* is sensor noise, and a filter removes more of it than of the photo."""
    is_noise = noise.whiteness >= _LEAST_WHITENESS
    is_large = _LEAST_CODES <= noise.codes <= _MOST_CODES
    return is_noise and is_large and not has_jpeg_grid(Cells(photo, np.zeros(3)))
