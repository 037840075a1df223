"""Cubes of which only what somebody looks at is computed, and exactly.

A pixel of a cube depends on the statistics of the whole photo, which are small, and on the photo
around it. So after one pass over the photo, which keeps the statistics only, any part can follow.

Letters: B bands, H rows, W columns; h, w those of a part.
"""

from dataclasses import replace
from itertools import product

import numpy as np
import torch

from napari_mst.arrays import Array, DType, Floats
from napari_mst.cube.lazy import Lazy, Read, kept
from napari_mst.engine.crop import Known, execute_crop
from napari_mst.engine.features import PhotoRows
from napari_mst.engine.plan import Plan, PlannedRun, make_plan
from napari_mst.engine.run import execute
from napari_mst.engine.windows import Window
from napari_mst.networks.network import Folded, Pass, Program
from napari_mst.photo.photo import Photo
from napari_mst.reconstruction.consistency.cells import ColourCheck
from napari_mst.reconstruction.consistency.correction import REGION, Correction, aim, corrected
from napari_mst.reconstruction.consistency.noise import Noise, removed_noise
from napari_mst.reconstruction.denoising import bytes_to_denoise
from napari_mst.reconstruction.job import Job
from napari_mst.reconstruction.running import RunResult, least_of, response_of, run
from napari_mst.watch import Watch

TILE = 128
"""Pixels along each side of the tiles that are computed and kept."""
ALONE = 2**10
"""Fewer pixels than these are computed alone, so that a hover does not wait for a tile."""
NO_QUALITY = np.empty((0, 0), np.float32)
"""The quality of pixels of which none is computed yet."""
AT_ONCE = 2**16
"""Pixels that are computed at once, at most: with their surroundings they take about 200 MB."""


def on_demand(job: Job, shot: Photo) -> tuple[RunResult, Correction | None]:
    """The result of a denoised *job* as `Lazy` planes, and how its colours are corrected.

    *shot* is its part before it was denoised. The statistics are computed now.

    Raises
    ------
    Cancelled
        Soon after the watch of *job* was cancelled.
    OutOfMemory
        As `run`.
    """
    known, plan = _statistics(job.stage(0, 0.9))
    program = job.setup.program
    shape = (program.output.channels, *shot.shape)
    dtype = torch.empty(0, dtype=program.dtype).numpy().dtype
    raw = Lazy(job.photo.name, shape, dtype, _estimated(program, known, job.source(), dtype))
    check = noise = correction = None
    if job.setup.corrects_colour:
        check = ColourCheck(raw, shot, response_of(job).astype(np.float32), least_of(job))
        noise = removed_noise(check, job.watch.part(0.9, 1))
        correction = Correction(NO_QUALITY, aim(check, noise), noise is not None and noise.is_jpeg)
    finished = Lazy(raw.name, shape, dtype, _finished(raw, shot, check, noise))
    return RunResult(job, plan, kept(finished, (shape[0], TILE, TILE), ALONE)), correction


def _statistics(job: Job) -> tuple[Known, Plan]:
    """The statistics of the photo that the passes of its network use, and the plan of that run."""
    setup = job.setup
    device, program = setup.device.device, setup.program
    plan = Plan()
    folded: Folded = {}
    makers = [each.writes for each in program.passes if each.statistic is not None]
    if makers:
        # The engine gives a result for each pixel: one thin plane, which nobody looks at.
        last = Pass("thin", (makers[-1],), lambda features: features[:, :1], 1, work=1.0)
        thin = program.until(makers[-1], last)

        def compute(source: PhotoRows, plan: Plan, watch: Watch) -> Floats:
            folded.update(execute(thin, source, device, plan, watch).folded)
            return np.empty((1, 1, 1), np.float32)

        options = setup.options
        needs = PlannedRun(
            thin, *job.part.shape, device, options.precision, beside=bytes_to_denoise(job)
        )
        plan = make_plan(needs, options.memory, options.device_memory)
        plan = run(replace(job, compute=compute), plan).plan
    return Known(folded, device=device), plan


def _estimated(program: Program, known: Known, source: PhotoRows, dtype: DType) -> Read:
    """Computes the cube of a photo whose statistics are *known*, where it is read."""

    def part(bands: range, rows: range, columns: range) -> Array:
        numbers = np.empty((len(bands), len(rows), len(columns)), dtype)
        # A few pixels are computed at a time.
        height = min(len(rows), TILE)
        width = max(1, AT_ONCE // height)
        for top, left in product(range(0, len(rows), height), range(0, len(columns), width)):
            down, across = rows[top : top + height], columns[left : left + width]
            window = Window(down.start, down[-1] + 1, across.start, across[-1] + 1)
            part = execute_crop(program, known, source, window)
            inside = part[bands.start : bands.stop : bands.step, :: down.step, :: across.step]
            numbers[:, top : top + height, left : left + width] = inside
        return numbers

    return part


def _finished(raw: Lazy, shot: Photo, check: ColourCheck | None, noise: Noise | None) -> Read:
    """Gives the *raw* numbers in the colours of a photo, which has some *noise*, as it was *shot*.

    They are NaN where the photo is unknown.
    """

    def part(bands: range, rows: range, columns: range) -> Array:
        window = Window(rows.start, rows[-1] + 1, columns.start, columns[-1] + 1)
        # A noisy photo is corrected by regions, each beside its neighbours.
        side = 1 if noise is None else REGION
        grown = window.grown(side - 1).aligned(side).clipped(shot.shape)
        numbers: Array = raw[:, grown.rows, grown.columns]
        photo = shot.cropped(grown)
        if check is not None:
            corrected(ColourCheck(numbers, photo, check.response, check.least), noise)
        if photo.valid is not None:
            numbers[:, ~photo.valid] = np.nan
        down, across = window.inside(grown)
        step = slice(bands.start, bands.stop, bands.step)
        return numbers[step, down, across][:, :: rows.step, :: columns.step]

    return part
