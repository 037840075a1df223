"""The job that makes a cube of every photo in a folder, as the batch of the command line does."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from napari_mst.base.errors import PhotoError, plain, shown
from napari_mst.base.progress import Progress
from napari_mst.batch.batch import Batch
from napari_mst.batch.execution import check_workers, connected, outcomes
from napari_mst.batch.jobs import BatchJob, check_names, find_photos, folders_for, plan_jobs
from napari_mst.calibration.grey_scale import GreyScale
from napari_mst.cube import Provenance, SpectralCube
from napari_mst.models.cards import RENDERED
from napari_mst.photo.cameras import load_cameras, matching_camera
from napari_mst.photo.files import camera_named_in
from napari_mst.photo.photo import Photo
from napari_mst.photo.raw_header import is_raw_file
from napari_mst.plugin.jobs.task import Reports
from napari_mst.plugin.jobs.workspace import Request, SideJob

if TYPE_CHECKING:
    from napari_mst.plugin.jobs.workspace import Correction
    from napari_mst.reconstruction.reconstructor import Reconstructor

CUBES = "cubes"
"""The folder of the cubes, inside the folder of the photos."""
SUFFIX = ".hdr"


@dataclass(frozen=True, eq=False)
class Folder:
    """A folder of photos: the source of a job that takes no single photo."""

    path: Path
    region: None = None

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self.path.name


def folder_request(settings: Request, is_linear: bool = False, scheduler: str = "") -> Request:
    """Order the cubes of all photos in the `Folder` that is the source of *settings*.

    With *is_linear*, photos of 8 bits are linear, too. The workers of the dask *scheduler*, if
    there is one, make the cubes. The patches of a chart correct the spectra of the photo that shows
    it, and of no other.
    """
    greys = settings.patches
    if isinstance(greys, GreyScale):
        # The photos of a folder do not show the greys, which correct them instead of their cubes.
        corrections = (*settings.corrections, greys)
        settings = replace(settings, model=RENDERED, corrections=corrections, patches=None)
    make = partial(reconstruct_folder, is_linear, scheduler)
    job = SideJob(make, is_of_photo=True, lines=lambda report: report)
    return replace(settings, job=job)


@dataclass(frozen=True)
class FolderRun:
    """Makes the cubes of a folder; with *is_linear*, photos of 8 bits are linear, too."""

    reconstructor: "Reconstructor"
    corrections: tuple["Correction", ...]
    is_linear: bool

    def history(self, photo: Path, sha256: str) -> Provenance:
        """See `batch.History`."""
        for correction in self.corrections:
            sha256 = correction.sha256_of(sha256)
        is_linear = bool(self.reconstructor.acquisition) or is_raw_file(photo)
        return self.reconstructor.origin(sha256, "linear" if is_linear else "srgb")

    def cubes(
        self, job: BatchJob, _: set[Path], progress: Progress
    ) -> Iterator[tuple[Path, SpectralCube]]:
        """See `batch.Cubes`."""
        acquisition = self.reconstructor.acquisition
        if acquisition is not None:
            settings, own = acquisition.camera, matching_camera(*camera_named_in(job.photo))
            if own and own != settings and settings in load_cameras():
                raise PhotoError(f"It was taken by {own}, and the settings are for {settings}.")
        photo = Photo.read(job.photo, encoding="linear" if acquisition else None)
        if acquisition is not None and not self.is_linear:
            photo.check_linear()
        for correction in self.corrections:
            photo = correction.corrected(photo)
        yield job.target, self.reconstructor.prepare(photo).reconstruct(progress)


def reconstruct_folder(
    is_linear: bool, scheduler: str, request: Request, reports: Reports
) -> list[str]:
    """Make the cubes of a folder; cubes from the same settings are kept.

    Returns
    -------
    A sentence that says where the cubes are, and a line for each photo that failed, and why.
    """
    source: Any = request.source
    folder: Path = source.path
    output, notes = folder / CUBES, list[str]()
    jobs = plan_jobs(find_photos([folder], output, notes.append), output, SUFFIX, with_bands=False)
    check_names(jobs)
    failures: list[str] = []
    with folders_for(jobs), connected(0, scheduler) as (client, share):
        check_workers(client, jobs, output)
        if request.options.memory is None:
            request = replace(request, options=replace(request.options, memory=share))
        run = FolderRun(request.reconstructor(reports), request.corrections, is_linear)

        def say(number: int) -> None:
            if client is not None:
                reports.say(f"{number} of {len(jobs)} photos done\n{client.dashboard_link}")
            elif number < len(jobs):
                reports.say(f"Photo {number + 1} of {len(jobs)}: {shown(jobs[number].name, 40)}")

        say(0)
        ended = outcomes(Batch(run.cubes, run.history), jobs, client, reports)
        for number, (job, error) in enumerate(ended, 1):
            reports.reach(number / len(jobs))
            say(number)
            if error is not None:
                reason = plain(error).removeprefix(f"{job.photo.name}: ")
                failures.append(f"{shown(job.name, 60)}: {reason}")
    failed = f" {len(failures)} failed: see the details." if failures else ""
    sentence = f"{len(jobs) - len(failures)} of {len(jobs)} cubes are in {output}.{failed}"
    return [sentence, *failures, *notes]
