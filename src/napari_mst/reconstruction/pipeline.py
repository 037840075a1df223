"""The pipeline from a photo to its cube, from top to bottom."""

from collections.abc import Callable
from dataclasses import replace
from time import process_time
from typing import TYPE_CHECKING

import numpy as np

from napari_mst.base.arrays import Doubles
from napari_mst.base.errors import ModelError
from napari_mst.base.progress import NO_PROGRESS, Progress, ProgressLike, as_progress
from napari_mst.cube import Provenance, SpectralCube
from napari_mst.engine.plan import Plan
from napari_mst.photo.photo import Photo
from napari_mst.reconstruction.cube_history import build_cube, provenance_of
from napari_mst.reconstruction.denoising import bytes_to_denoise, decided, denoised
from napari_mst.reconstruction.job import Compute, Job
from napari_mst.reconstruction.preparing import averaged_down, prepared_job
from napari_mst.reconstruction.running import (
    Planes,
    RunResult,
    check_finite,
    correct,
    plan_run,
    run,
    run_once,
    shares_of_run,
)
from napari_mst.reconstruction.setup import UNTURNED, Setup

if TYPE_CHECKING:
    from napari_mst.reconstruction.lazy_statistics import Statistics

PREPARING = 0.1
"""Approximate share of the first computation's progress that preparing the photo takes."""


SAMPLE_SQUARES = 4
"""Squares along each side of the sample."""

SAMPLE_SIDE = 32
"""Side in pixels of a square of the sample."""

_TINY = 1e-30  # divisor for a photo that is all black


class PreparedPhoto:
    """A photo as the network sees it: prepared once, for plans, previews, runs and explorers.

    Extrema, light and noise are measured when they are first needed. `shape` is (H, W) of the part
    named by the options of *setup*.

    Raises
    ------
    PhotoError
        If that part is empty or reaches beyond the photo.
    """

    def __init__(self, setup: Setup, photo: Photo) -> None:
        region = setup.options.region
        self.photo = photo
        self.shape: tuple[int, int] = (photo if region is None else photo.cropped(region)).shape
        self._setup = setup
        self._error: tuple[float, str] | None = None
        self._prepared_job: Job | None = None
        self._decided_job: Job | None = None
        self._denoised_job: Job | None = None

    def plan(self, progress: ProgressLike = None) -> Plan:
        """Plan a run; see `Reconstructor.plan_for`."""
        job = self._decided(as_progress(progress))
        plan = _plan(job)
        return replace(plan, error=self._error_of(job)[1]) if job.setup.is_narrow else plan

    def preview(self, progress: ProgressLike = None) -> SpectralCube:
        """Reconstruct the photo averaged down; see `Reconstructor.preview`."""
        # The error is measured first, as it belongs to the full photo.
        job = self._noted(self._prepared(as_progress(progress)))
        return run_and_correct(decided(averaged_down(job)))

    def reconstruct(self, progress: ProgressLike = None) -> SpectralCube:
        """Reconstruct the cube of the photo; see `Reconstructor.reconstruct`."""
        return run_and_correct(self._noted(self._decided(as_progress(progress))))

    def reconstruct_lazy(
        self,
        progress: ProgressLike = None,
        *,
        estimate: bool = False,
        add_up: "Callable[[Job], Statistics] | None" = None,
    ) -> SpectralCube:
        """Return the cube, computed where it is read; see `Reconstructor.reconstruct_lazy`.

        *add_up* may supply the statistics of the photo.
        """
        if self._setup.is_narrow or self._setup.options.ensemble:
            raise ModelError(
                "Expected a precision of 32 bits or more and no ensemble to open a photo, got "
                f"{self._setup.options.precision}. Use `run_and_correct` for the whole cube."
            )
        # Statistics are kept as tensors.
        from napari_mst.reconstruction.on_demand import on_demand

        _ = self._setup.network
        progress = as_progress(progress)
        seen = self._decided(progress.part(0, PREPARING))
        stage = replace(denoised(seen), progress=progress.part(PREPARING, 1))
        statistics = None if add_up is None else add_up(stage)
        return build_cube(*on_demand(stage, seen.part, estimate, statistics))

    def compute(
        self, compute: Compute, progress: Progress = NO_PROGRESS
    ) -> tuple[Planes, Provenance]:
        """Return the planes that *compute* makes instead of a cube, and their history.

        Raises the errors of `Reconstructor.reconstruct`.
        """
        is_new = self._denoised_job is None
        job = self.job(progress)
        part = progress.part(PREPARING, 1) if is_new else progress
        result = run(replace(job, compute=compute, progress=part), _plan(job))
        return result.planes, provenance_of(result)

    def provenance(self, progress: Progress = NO_PROGRESS) -> Provenance:
        """Return the history of results from this photo; raises the errors of `job`."""
        return provenance_of(RunResult(self.job(progress), Plan(), np.empty(0)))

    def job(self, progress: Progress = NO_PROGRESS) -> Job:
        """Return the job of the photo, ready for the network.

        Raises
        ------
        CameraError
            If the light cannot be estimated from the photo.
        Cancelled
            Soon after *progress* was cancelled; the next call starts again.
        """
        if self._denoised_job is None:
            part = progress.part(0, PREPARING)
            self._denoised_job = denoised(self._decided(part), part)
        return self._denoised_job

    def _prepared(self, progress: Progress) -> Job:
        if self._prepared_job is None:
            self._prepared_job = prepared_job(self._setup, self.photo)
        return replace(self._prepared_job, progress=progress)

    def _decided(self, progress: Progress) -> Job:
        if self._decided_job is None:
            self._decided_job = decided(self._prepared(progress))
        return replace(self._decided_job, progress=progress)

    def _error_of(self, job: Job) -> tuple[float, str]:
        """Return the `measured_error` of 16 bits on the part, measured once."""
        if self._error is None:
            self._error = measured_error(job)
        return self._error

    def _noted(self, job: Job) -> Job:
        """Return *job* with its error and a note about it; unchanged in exact precisions."""
        if not job.setup.is_narrow:
            return job
        largest, text = self._error_of(job)
        note = f"Computed in {job.options.precision}: {text}."
        return replace(job.noted(note), precision_error=largest)


def run_and_correct(job: Job) -> SpectralCube:
    """Return the cube of a prepared *job* whose denoising is decided."""
    plan = _plan(job)
    start, stop = shares_of_run(job)
    seen = denoised(job, job.progress.part(0, start))
    result = run(seen.stage(start, stop), plan)
    check_finite(result.planes, job)
    # The photo before denoising, whose noise limits how far its colours can be trusted.
    correction = correct(job.stage(stop, 1), result.planes)
    return build_cube(result, correction)


def _plan(job: Job) -> Plan:
    return plan_run(job.setup, *job.part.shape, bytes_to_denoise(job))


def measured_error(job: Job) -> tuple[float, str]:
    """Compare a sample of the photo of *job* in float32 and in the job's precision.

    Returns the largest error, as a share of the largest value, and a clause that describes it.
    """
    sample = replace(
        job,
        orientations=(UNTURNED,),
        part=job.part.sampled(SAMPLE_SQUARES, SAMPLE_SIDE),
        compute=job.setup.cube_of,
        progress=Progress(
            is_cancelled=job.progress.is_cancelled
        ),  # its progress is none of the run's
    )
    exact, seconds = _timed(sample, "float32")
    narrow, narrow_seconds = _timed(sample, job.options.precision)
    off = np.abs(narrow - exact) / max(float(np.abs(exact).max()), _TINY)
    largest, rms = float(off.max()), float(np.sqrt((off**2).mean()))
    rows, columns = sample.part.shape
    return largest, (
        f"off float32 by {largest:.2%} of the largest value at most "
        f"and {rms:.3%} rms, on {rows} x {columns} pixels of this photo"
        f"{_no_gain(job, narrow_seconds / seconds)}"
    )


def _timed(job: Job, precision: str) -> tuple[Doubles, float]:
    """Return the result of *job* in a *precision*, and the processor time of a warm run."""
    plan = Plan(precision=precision)
    run_once(job, plan)
    start = process_time()
    result = run_once(job, plan)
    return result.astype(np.float64), process_time() - start


def _no_gain(job: Job, ratio: float) -> str:
    """Return a clause if 16 bits take longer than float32, by a *ratio* of 1 or more, else ""."""
    # A sample is too small to time a GPU.
    if job.setup.device.device.type != "cpu" or ratio < 1:
        return ""
    return f", where it took {ratio:.1f} times as long: float32 is faster on this processor"
