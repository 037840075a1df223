"""A photo as the network sees it, made once and looked at any number of times."""

import numpy as np
from numpy.typing import NDArray

from napari_mst.cube import Provenance
from napari_mst.engine.plan import Plan
from napari_mst.photo.photo import Photo
from napari_mst.reconstruction import pipeline
from napari_mst.reconstruction.job import Compute, Job
from napari_mst.reconstruction.provenance import provenance_of
from napari_mst.reconstruction.running import RunResult
from napari_mst.reconstruction.setup import Setup
from napari_mst.watch import UNWATCHED, Watch

SEEING = 0.1
"""The share of the progress of a first computation that seeing the photo takes, about."""


class SeenPhoto:
    """Tells the light of *photo* and denoises it, if need be, when it is looked at first.

    `shape` is (H, W) of the part that the options of *setup* name.

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
        self._job: Job | None = None

    def job(self, watch: Watch = UNWATCHED) -> Job:
        """The job of the photo up to the network.

        Raises
        ------
        CameraError
            If the photo cannot tell its light.
        Cancelled
            As soon as *watch* says so; it is then made anew the next time.
        """
        if self._job is None:
            self._job = pipeline.see(self._setup, self.photo, watch.part(0, SEEING))
        return self._job

    def provenance(self, watch: Watch = UNWATCHED) -> Provenance:
        """The history of whatever is made of it; errors are those of `job`."""
        return provenance_of(RunResult(self.job(watch), Plan(), np.empty(0)))

    def compute(
        self, compute: Compute, watch: Watch = UNWATCHED
    ) -> tuple[NDArray[np.floating], Provenance]:
        """The planes that *compute* makes of it instead of a cube, and their history.

        Errors are those of `Reconstructor.reconstruct`.
        """
        is_new = self._job is None
        job = self.job(watch)
        return pipeline.compute_planes(job, compute, watch.part(SEEING, 1) if is_new else watch)
