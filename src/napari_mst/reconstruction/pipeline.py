"""The walk of a photo to its cube, from top to bottom."""

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
"""The share of the progress of a first computation that seeing the photo takes, about."""


SAMPLE_SQUARES = 4
"""Squares along each side of the sample."""

SAMPLE_SIDE = 32
"""Pixels along each side of a square of the sample."""

_TINY = 1e-30  # instead of the largest value of a photo that is all black


class PreparedPhoto:
    """A photo as the network sees it: prepared once, then planned, previewed, run and looked at.

    Its extrema, its light and its noise are measured when they are first needed. `shape` is (H, W)
    of the part that the options of *setup* name.

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
        """The plan of a run; see `Reconstructor.plan_for`."""
        job = self._decided(as_progress(progress))
        plan = _plan(job)
        return replace(plan, error=self._error_of(job)[1]) if job.setup.is_narrow else plan

    def preview(self, progress: ProgressLike = None) -> SpectralCube:
        """The cube of the photo averaged down; see `Reconstructor.preview`."""
        # The error first, since it belongs to an exact run.
        job = self._noted(self._prepared(as_progress(progress)))
        return run_and_correct(decided(averaged_down(job)))

    def reconstruct(self, progress: ProgressLike = None) -> SpectralCube:
        """The cube of the photo; see `Reconstructor.reconstruct`."""
        return run_and_correct(self._noted(self._decided(as_progress(progress))))

    def reconstruct_lazy(
        self,
        progress: ProgressLike = None,
        *,
        estimate: bool = False,
        add_up: "Callable[[Job], Statistics] | None" = None,
    ) -> SpectralCube:
        """The cube, computed where it is looked at; see `Reconstructor.reconstruct_lazy`.

        *add_up* has the statistics of the photo from elsewhere.
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
        """The planes that *compute* makes of it instead of a cube, and their history.

        Errors are those of `Reconstructor.reconstruct`.
        """
        is_new = self._denoised_job is None
        job = self.job(progress)
        part = progress.part(PREPARING, 1) if is_new else progress
        result = run(replace(job, compute=compute, progress=part), _plan(job))
        return result.planes, provenance_of(result)

    def provenance(self, progress: Progress = NO_PROGRESS) -> Provenance:
        """The history of what is made of it; errors are those of `job`."""
        return provenance_of(RunResult(self.job(progress), Plan(), np.empty(0)))

    def job(self, progress: Progress = NO_PROGRESS) -> Job:
        """The job of the photo up to the network.

        Raises
        ------
        CameraError
            If the photo cannot show its light.
        Cancelled
            As soon as *progress* is cancelled; the next call begins again.
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
        """The `measured_error` of 16 bits on the part, measured when it is first asked for."""
        if self._error is None:
            self._error = measured_error(job)
        return self._error

    def _noted(self, job: Job) -> Job:
        """The *job* with its error and a note of it; the same in a precision that is exact."""
        if not job.setup.is_narrow:
            return job
        largest, text = self._error_of(job)
        note = f"Computed in {job.options.precision}: {text}."
        return replace(job.noted(note), precision_error=largest)


def run_and_correct(job: Job) -> SpectralCube:
    """The cube of a *job* that is prepared, and whose denoising is decided."""
    plan = _plan(job)
    start, stop = shares_of_run(job)
    seen = denoised(job, job.progress.part(0, start))
    result = run(seen.stage(start, stop), plan)
    check_finite(result.planes, job)
    # With the photo as it was shot, whose noise limits how far its colours can be trusted.
    correction = correct(job.stage(stop, 1), result.planes)
    return build_cube(result, correction)


def _plan(job: Job) -> Plan:
    return plan_run(job.setup, *job.part.shape, bytes_to_denoise(job))


def measured_error(job: Job) -> tuple[float, str]:
    """Runs a sample of the photo of *job* in float32 and in its own precision, and compares.

    Gives the largest error, as a share of the largest value, and a clause for a person.
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
    """The result of *job* in a *precision*, and the processor's time of a run that is warm."""
    plan = Plan(precision=precision)
    run_once(job, plan)
    start = process_time()
    result = run_once(job, plan)
    return result.astype(np.float64), process_time() - start


def _no_gain(job: Job, ratio: float) -> str:
    """A clause that says so where 16 bits take *ratio* times the time of float32, 1 or more."""
    # A GPU has too little to do in a sample.
    if job.setup.device.device.type != "cpu" or ratio < 1:
        return ""
    return f", where it took {ratio:.1f} times as long: float32 is faster on this processor"
