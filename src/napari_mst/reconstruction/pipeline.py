"""The walk of a photo to its cube, from top to bottom."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from napari_mst.cube import Provenance, SpectralCube
from napari_mst.engine.plan import Plan
from napari_mst.photo.photo import Photo
from napari_mst.reconstruction.denoising import bytes_to_denoise, decided, denoised
from napari_mst.reconstruction.job import Compute, Job
from napari_mst.reconstruction.on_demand import on_demand
from napari_mst.reconstruction.preparing import averaged_down, prepare
from napari_mst.reconstruction.provenance import build_cube, provenance_of
from napari_mst.reconstruction.running import (
    Planes,
    RunResult,
    correct,
    plan_run,
    run,
    shares_of_run,
)
from napari_mst.reconstruction.setup import Setup
from napari_mst.reconstruction.statistics import Statistics
from napari_mst.watch import UNWATCHED, Watch, Watched, watching

SEEING = 0.1
"""The share of the progress of a first computation that seeing the photo takes, about."""


class SeenPhoto:
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
        self._prepared_job: Job | None = None
        self._decided_job: Job | None = None
        self._denoised_job: Job | None = None

    def plan(self, watch: Watched = None) -> Plan:
        """The plan of a run; see `Reconstructor.plan_for`."""
        return _plan(self._decided(watching(watch)))

    def preview(self, watch: Watched = None) -> SpectralCube:
        """The cube of the photo averaged down; see `Reconstructor.preview`."""
        return reconstruct(decided(averaged_down(self._prepared(watching(watch)))))

    def reconstruct(self, watch: Watched = None) -> SpectralCube:
        """The cube of the photo; see `Reconstructor.reconstruct`."""
        return reconstruct(self._decided(watching(watch)))

    def open(
        self,
        watch: Watched = None,
        *,
        estimate: bool = False,
        add_up: Callable[[Job], Statistics] | None = None,
    ) -> SpectralCube:
        """The cube of the photo, computed where it is looked at; see `Reconstructor.open`.

        *add_up* has the statistics of the photo from elsewhere.
        """
        watch = watching(watch)
        seen = self._decided(watch.part(0, SEEING))
        stage = replace(denoised(seen), watch=watch.part(SEEING, 1))
        statistics = None if add_up is None else add_up(stage)
        return build_cube(*on_demand(stage, seen.part, estimate, statistics))

    def compute(self, compute: Compute, watch: Watch = UNWATCHED) -> tuple[Planes, Provenance]:
        """The planes that *compute* makes of it instead of a cube, and their history.

        Errors are those of `Reconstructor.reconstruct`.
        """
        is_new = self._denoised_job is None
        job = self.job(watch)
        part = watch.part(SEEING, 1) if is_new else watch
        result = run(replace(job, compute=compute, watch=part), _plan(job))
        return result.planes, provenance_of(result)

    def provenance(self, watch: Watch = UNWATCHED) -> Provenance:
        """The history of what is made of it; errors are those of `job`."""
        return provenance_of(RunResult(self.job(watch), Plan(), np.empty(0)))

    def job(self, watch: Watch = UNWATCHED) -> Job:
        """The job of the photo up to the network.

        Raises
        ------
        CameraError
            If the photo cannot show its light.
        Cancelled
            As soon as *watch* says so; the next call begins again.
        """
        if self._denoised_job is None:
            part = watch.part(0, SEEING)
            self._denoised_job = denoised(self._decided(part), part)
        return self._denoised_job

    def _prepared(self, watch: Watch) -> Job:
        if self._prepared_job is None:
            self._prepared_job = prepare(self._setup, self.photo)
        return replace(self._prepared_job, watch=watch)

    def _decided(self, watch: Watch) -> Job:
        if self._decided_job is None:
            self._decided_job = decided(self._prepared(watch))
        return replace(self._decided_job, watch=watch)


def reconstruct(job: Job) -> SpectralCube:
    """The cube of a *job* that is prepared, and whose denoising is decided."""
    plan = _plan(job)
    start, stop = shares_of_run(job)
    seen = denoised(job, job.watch.part(0, start))
    result = run(seen.stage(start, stop), plan)
    # With the photo as it was shot, whose noise limits how far its colours can be trusted.
    correction = correct(job.stage(stop, 1), result.planes)
    return build_cube(result, correction)


def _plan(job: Job) -> Plan:
    return plan_run(job.setup, *job.part.shape, bytes_to_denoise(job))
