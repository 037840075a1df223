"""Cubes computed on demand: only the parts that are read, and exactly.

A pixel of a cube depends on the statistics of the whole photo, which are small, and on the photo
around it. After one pass over the photo for the statistics, any part can be computed.

Letters: B bands, H rows, W columns; h, w sides of a part.
"""

from dataclasses import replace
from itertools import product

import numpy as np
import torch

from napari_mst.base.arrays import Array, DType, Floats
from napari_mst.base.memory import free_host_memory
from napari_mst.cube.lazy import KEPT_BYTES, Lazy, Read, cached
from napari_mst.engine.crop import Known, execute_crop
from napari_mst.engine.plan import MARGIN, Plan
from napari_mst.engine.steps import photo_window
from napari_mst.engine.windows import Window
from napari_mst.photo.photo import Photo
from napari_mst.reconstruction.colour_fidelity.code_cells import ColourCheck
from napari_mst.reconstruction.colour_fidelity.correction import REGION, Correction, aim, corrected
from napari_mst.reconstruction.colour_fidelity.photo_noise import Noise, removed_noise
from napari_mst.reconstruction.denoising import decided, denoised
from napari_mst.reconstruction.job import Job
from napari_mst.reconstruction.lazy_statistics import (
    Statistics,
    added_up,
    estimated,
    keep,
    recalled,
)
from napari_mst.reconstruction.preparing import averaged_down
from napari_mst.reconstruction.running import RunResult, check_finite, least_of, response_of

TILE = 128
"""Side in pixels of the tiles that are computed and cached."""
ALONE = 2**10
"""Reads of fewer pixels bypass the tiles, so that hovering does not wait for a tile."""
NO_QUALITY = np.empty((0, 0), np.float32)
"""Placeholder for the colour error, which is unknown until pixels are computed."""
AT_ONCE = 2**16
"""Largest number of pixels computed at once."""
_BYTES = 3000  # taken by each of these pixels, with its surroundings
COARSE_FROM = 2**21
"""Photo size in pixels from which viewers also get an averaged-down cube."""
NOISE_SIDE = 2**10
"""Side in pixels of the middle of a photo, whose noise stands for the photo in an estimate."""


def on_demand(
    job: Job, shot: Photo, is_estimate: bool = False, statistics: Statistics | None = None
) -> tuple[RunResult, Correction | None]:
    """Return the result of a denoised *job* as `Lazy` planes, and its colour correction.

    *shot* is the part before denoising. By default, *statistics* come from the cache or are summed
    now; for an estimate without cached ones, they come from a few squares.

    Raises
    ------
    Cancelled
        Soon after the progress of *job* was cancelled.
    OutOfMemory
        As `run`.
    """
    plan = Plan()
    is_given = statistics is not None
    statistics = statistics or recalled(job)
    is_new = is_given or statistics is None
    if statistics is None and is_estimate:
        statistics = estimated(job.stage(0, 0.8))
    if statistics is None:
        statistics, plan = added_up(job.stage(0, 0.9))
    known, noise = statistics.known, statistics.noise
    data = _raw(job, known)
    correction = None
    if job.setup.corrects_colour:
        if is_new:
            noise = _noise(job, shot, data, bool(statistics.error))
        is_jpeg = noise is not None and noise.is_jpeg
        correction = Correction(NO_QUALITY, aim(_check(job, data, shot), noise), is_jpeg)
    if is_new and not is_given and not statistics.error:
        keep(job, Statistics(known, noise))
    kept = min(KEPT_BYTES, _most_memory(job) // 4)
    numbers = cached(_finished(job, data, shot, noise), (len(data), TILE, TILE), ALONE, kept)
    if shot.shape[0] * shot.shape[1] >= COARSE_FROM:
        small = decided(averaged_down(replace(job, part=shot, denoising=None)))
        seen = _raw(denoised(small, job.progress), known)
        numbers.coarse = np.asarray(_finished(small, seen, small.part, None))
    return RunResult(_noted(job, statistics.error), plan, numbers), correction


def _most_memory(job: Job) -> int:
    """Return the memory in bytes that the cube may take while it is read."""
    memory = job.options.memory
    return int(MARGIN * free_host_memory()) if memory is None else memory


def _noted(job: Job, error: float) -> Job:
    if not error:
        return job
    note = (
        "Estimated from squares of the photo, off by about "
        f"{error:.2%} of the largest value at most, as two halves of the squares differ."
    )
    return replace(job.noted(note), estimate_error=error)


def _noise(job: Job, shot: Photo, data: Lazy, is_estimate: bool) -> Noise | None:
    """Measure the noise that the network removes from the photo; for an estimate, in its middle."""
    part = shot
    if is_estimate:
        top, left = (max(0, (side - NOISE_SIDE) // 2) // REGION * REGION for side in shot.shape)
        window = Window(top, top + NOISE_SIDE, left, left + NOISE_SIDE).clipped(shot.shape)
        part, data = shot.cropped(window), data.part(slice(None), window.rows, window.columns)
    return removed_noise(_check(job, data, part), job.progress.part(0.9, 1))


def _check(job: Job, data: Array | Lazy, shot: Photo) -> ColourCheck:
    return ColourCheck(data, shot, response_of(job).astype(np.float32), least_of(job))


def _raw(job: Job, known: Known) -> Lazy:
    """Return the uncorrected output of the network."""
    program = job.setup.network.program()
    dtype = torch.empty(0, dtype=program.dtype).numpy().dtype
    shape = (program.output.channels, *job.part.shape)
    return Lazy(job.photo.name, shape, dtype, _estimated(job, known, dtype))


def _estimated(job: Job, known: Known, dtype: DType) -> Read:
    """Return a reader that computes the cube of a photo with *known* statistics."""
    program, photo = job.setup.network.program(), job.part
    sizes = program.sizes(*photo.shape)
    at_once = min(AT_ONCE, _most_memory(job) // (2 * _BYTES))

    def estimate(window: Window) -> Floats:
        """Compute *window* of the cube from the part of the photo on which it depends."""
        # Reflection at the end of a photo adds fewer than `multiple` pixels.
        reach = photo_window(program, window, sizes).joined(window).grown(program.multiple)
        seen = reach.aligned(program.grain).clipped(photo.shape)
        source = replace(job, part=photo.cropped(seen)).source()
        (top, bottom), (left, right) = ((at.start, at.stop) for at in window.inside(seen))
        numbers = execute_crop(program, known, source, Window(top, bottom, left, right))
        check_finite(numbers, job)
        return numbers

    def part(bands: range, rows: range, columns: range) -> Array:
        numbers = np.empty((len(bands), len(rows), len(columns)), dtype)
        # Only a few pixels are computed at a time.
        height = min(len(rows), TILE)
        width = max(1, at_once // height)
        for top, left in product(range(0, len(rows), height), range(0, len(columns), width)):
            down, across = rows[top : top + height], columns[left : left + width]
            window = Window(down.start, down[-1] + 1, across.start, across[-1] + 1)
            part = estimate(window)[bands.start : bands.stop : bands.step]
            inside = part[:, :: down.step, :: across.step]
            numbers[:, top : top + height, left : left + width] = inside
        return numbers

    return part


def _finished(job: Job, raw: Lazy, shot: Photo, noise: Noise | None) -> Lazy:
    """Return *raw* values corrected to the colours of the photo *shot* with this *noise*.

    They are NaN where the photo is unknown.
    """

    def part(bands: range, rows: range, columns: range) -> Array:
        window = Window(rows.start, rows[-1] + 1, columns.start, columns[-1] + 1)
        # In a noisy photo, a pixel is corrected by the regions whose centres surround it.
        side = 1 if noise is None else REGION
        grown = window.grown(side // 2).aligned(side).clipped(shot.shape)
        numbers: Array = raw[:, grown.rows, grown.columns]
        photo = shot.cropped(grown)
        if job.setup.corrects_colour:
            corrected(_check(job, numbers, photo), noise)
        if photo.valid is not None:
            numbers[:, ~photo.valid] = np.nan
        down, across = window.inside(grown)
        step = slice(bands.start, bands.stop, bands.step)
        return numbers[step, down, across][:, :: rows.step, :: columns.step]

    return Lazy(raw.name, raw.shape, raw.dtype, part)
