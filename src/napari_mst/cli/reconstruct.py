"""The command `reconstruct`: cubes from one photo or a whole batch."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from napari_mst.base.errors import ModelError, SaveError, shown
from napari_mst.base.progress import NO_PROGRESS, Progress
from napari_mst.batch.batch import Batch
from napari_mst.batch.execution import check_workers, connected, outcomes
from napari_mst.batch.jobs import (
    ASIDE,
    BatchJob,
    band_targets,
    check_names,
    check_outputs,
    claimed,
    files_of,
    find_photos,
    folders_for,
    holds_several,
    is_there,
    may_stay,
    plan_jobs,
)
from napari_mst.batch.storage import named, url_of
from napari_mst.cli.acquisition_answers import UNANSWERED, AcquisitionAnswers
from napari_mst.cli.arguments import DONE, SOME_FAILED
from napari_mst.cli.console import note, progress_bar, report
from napari_mst.cli.control_c import GRACE_OF_WORKERS, asked_to_stop
from napari_mst.cli.photo_options import PhotoOptions, load_reconstructor
from napari_mst.cli.shared_options import OutputFile
from napari_mst.cube import Provenance, SpectralCube
from napari_mst.formats import FORMATS, read_cube
from napari_mst.models.cards import model_for
from napari_mst.reconstruction.options import DEFAULTS, RunOptions, is_rank

if TYPE_CHECKING:
    from distributed import Client

    from napari_mst.reconstruction.reconstructor import Reconstructor

SUFFIXES = {form.name: form.suffixes[0] for form in FORMATS if form.suffixes}
"""Suffix of the cubes in a folder, by name of the format."""

CUBES = "cubes"
"""Default folder for several cubes."""


@dataclass(frozen=True)
class Run:
    """One call of `reconstruct`: makes cubes with one or several models.

    Attributes
    ----------
    reconstructors
        Reconstructors by name of the model: the named model, or the defaults for these photos.
    is_batch
        True if the cubes go into a folder, where finished cubes stay and other runs share the work.
    """

    reconstructors: Mapping[str, "Reconstructor"]
    photos: PhotoOptions
    is_batch: bool

    def history(self, photo: Path, sha256: str) -> Provenance:
        """See `HistoryOf`."""
        known_by = self.photos.sha256_of(photo, sha256)
        return self.reconstructor_of(photo).origin(known_by, self.photos.encoding_of(photo))

    def reconstructor_of(self, photo: Path) -> "Reconstructor":
        """Return the reconstructor for the file *photo*."""
        first, *others = self.reconstructors.values()
        if not others:
            return first
        return self.reconstructors[self.photos.model_of(photo, first.options.calibrated_by)]

    def cubes(
        self, job: BatchJob, done: set[Path], progress: Progress
    ) -> Iterator[tuple[Path, SpectralCube]]:
        """See `CubesOf`."""
        cube = None
        if job.target not in done:
            cube = self._reconstruct(job, progress)
            yield job.target, cube
        if done.issuperset(job.bands):
            return
        from napari_mst.references.intervals import intervals_in_files

        whole = read_cube(job.target) if cube is None else cube
        note(f"{job.name}: prediction intervals {whole.provenance.calibration}")
        with progress_bar(f"{job.name}: prediction intervals", progress) as bar:
            bands = intervals_in_files(whole, bar)
        for path, band in zip(job.bands, bands, strict=True):
            if path not in done:
                yield path, band

    def _reconstruct(self, job: BatchJob, progress: Progress) -> SpectralCube:
        photo = self.photos.read(job.photo)
        prepared = self.reconstructor_of(job.photo).prepare(photo)
        note(f"{job.name}: {prepared.plan(progress)}")
        with progress_bar(job.name, progress) as bar:
            cube = prepared.reconstruct(bar)
        if not self.is_batch:
            cube = self.photos.refined(cube, photo, progress)
        for assumption in cube.provenance.assumptions:
            note(f"{job.name}: {assumption}")
        return cube


def finished_before(batch: Batch, jobs: Sequence[BatchJob]) -> dict[BatchJob, set[Path]]:
    """Return the finished outputs of each job from this run; other existing files are refused."""
    there = [job for job in jobs if batch.goes_on and is_there(job.target)]
    if there:
        note(f"checking {len(there)} cubes that are there already")
    done = {job: batch.finished(job) for job in jobs}
    for job in jobs:
        faults = batch.damaged(job, done[job])
        for fault in faults.values():
            note(f"{job.name}: its cube is damaged, and made again beside it ({ASIDE}). {fault}")
        check_outputs(job, batch.overwrite, done[job].union(faults))
    stay = sum(job.target in done[job] for job in jobs)
    if stay:
        note(f"{stay} of {len(jobs)} cubes are of this run, and stay")
    return done


def _make(batch: Batch, jobs: Sequence[BatchJob], client: "Client | None") -> int:
    """Make the unfinished outputs, here or on the workers of *client*; returns the failures."""
    done = finished_before(batch, jobs)
    todo = [job for job in jobs if not done[job].issuperset(job.outputs)]
    for job in jobs:
        if job not in todo:
            # Claiming removes the lock file that a killed run has left.
            with claimed(job, NO_PROGRESS, waits=False):
                _print_outputs(job)
    failed = 0
    grace = None if client is None else GRACE_OF_WORKERS
    with asked_to_stop(grace) as progress, ExitStack() as stack:
        if client is not None:
            link = f", watch them at {client.dashboard_link}" if client.dashboard_link else ""
            note(f"{len(client.nthreads())} workers{link}")
            bar = stack.enter_context(progress_bar(f"{len(todo)} photos", progress))
        for number, (job, error) in enumerate(outcomes(batch, todo, client, progress, report), 1):
            if error is None:
                _print_outputs(job)
            elif len(jobs) == 1:
                raise error
            else:
                failed += 1
                report(f"error: {job.name}: {str(error).removeprefix(f'{job.photo.name}: ')}")
            if client is not None:
                bar.reach(number / len(todo))
    return failed


def _print_outputs(job: BatchJob) -> None:
    for path in job.outputs:
        print(named(files_of(path)[-1]), flush=True)


def _workers(text: str) -> int:
    """Parse a number of processes; 0 means this process alone."""
    if text.isdecimal():
        return int(text)
    if text != "auto":
        raise ValueError(f"Expected a number or auto, got {shown(text)}. Leave it out.")
    # By judgement: with more cores, threads of one process wait for each other and for the disk.
    count = (os.cpu_count() or 1) // 8
    return count if count > 1 else 0


@dataclass(frozen=True)
class CubeTarget(OutputFile):
    """The destination and the format of cubes.

    Attributes
    ----------
    format
        format of the cubes in a folder (default: envi)
    intervals
        also write lower and upper spectra that enclose 90 % of true values: OUT_lower, OUT_upper
    """

    format: Annotated[str, tuple(SUFFIXES)] | None = None
    intervals: bool = False


ENVI = CubeTarget()
"""ENVI files in the working folder; several cubes go into a folder there."""


@dataclass(frozen=True)
class ProcessOptions:
    """Processes that make the cubes of many photos.

    many photos
    -----------
    several processes can make the cubes of a folder (extra `cluster`)

    workers : N
        processes on this computer, or auto: one for every 8 cores; each takes --memory, by
        default a share of the free memory
    scheduler : ADDRESS|FILE
        address of a running dask scheduler, such as tls://host:8786, or the file that it wrote; its
        workers must see the same folders, and anyone who can connect to it can run code in them
    """

    workers: Annotated[int, _workers] = 0
    scheduler: str = ""


ALONE = ProcessOptions()
"""This process alone."""


def reconstruct_photos(
    photos: tuple[Path, ...],
    *,
    target: CubeTarget = ENVI,
    model: str = "",
    options: RunOptions = DEFAULTS,
    taken: AcquisitionAnswers = UNANSWERED,
    workers: ProcessOptions = ALONE,
) -> int:
    """Make the cubes of photos, and print the path of each.

    Parameters
    ----------
    photos : PHOTO
        a file, a folder (searched recursively) or a pattern such as '*.png'
    output : OUT
        a file (.hdr, .tif, ...); for several photos a folder, which is created if missing and
        mirrors the folders of the photos (default: PHOTO.hdr here; the folder cubes for several)
    overwrite
        overwrite existing cubes; two photos of one run never overwrite each other
    model : NAME|FILE
        name of a model or its weights file (default: mstpp-photo for camera photos; mstpp-srgb for
        photos with exact colours: rendered ones (--calibrated-by rendering), those of more than 8
        bits, or those corrected by a chart, or by greys in another photo)

    Examples
    --------
    napari-mst reconstruct photo.jpg -o cube.hdr
    napari-mst reconstruct photos/ -o cubes/ --format tiff --workers auto
    napari-mst reconstruct photo.dng --model mstpp-camera --illuminant estimate

    Notes
    -----
    An interrupted run into a folder continues when you start it again: existing
    cubes that are undamaged and from the same photo, model and options stay.
    Several such runs at once share the work.
    """
    jobs, is_batch = _plan(photos, target)
    if workers != ALONE and not is_batch:
        raise SaveError(
            "Expected a folder for the cubes of several processes, got one file. "
            "Leave --workers and --scheduler out."
        )
    with ExitStack() as stack:
        stack.enter_context(folders_for(jobs if is_batch else ()))
        _check_jobs(jobs, target, is_batch)
        client, share = stack.enter_context(connected(workers.workers, workers.scheduler))
        check_workers(client, jobs, target.path(CUBES))
        shown_by = PhotoOptions.of(taken, [job.photo for job in jobs])
        if not (is_batch or is_rank() or options.region or taken.patch_photo):
            by = options.calibrated_by
            shown_by = shown_by.with_greys_as_references(jobs[0].photo, model, by)
        memory = share if options.memory is None else options.memory
        options = replace(options, acquisition=shown_by.acquisition, memory=memory)
        names = {model} if model else _models_for(jobs, shown_by, options.calibrated_by)
        reconstructors = {name: load_reconstructor(name, options) for name in sorted(names)}
        if target.intervals:
            _check_intervals(reconstructors)
        run = Run(reconstructors, shown_by, is_batch)
        if is_rank():
            return _in_ranks(jobs, run, target.overwrite)
        batch = Batch(run.cubes, run.history, target.overwrite, goes_on=is_batch)
        failed = _make(batch, jobs, client)
    if not failed:
        return DONE
    report(f"{len(jobs) - failed} of {len(jobs)} cubes written, {failed} failed")
    return SOME_FAILED


def _check_jobs(jobs: Sequence[BatchJob], target: CubeTarget, is_batch: bool) -> None:
    """Check that all outputs can be written, before anything is computed."""
    # The check creates files for a moment, which Ctrl-C must not leave behind.
    with asked_to_stop():
        check_names(jobs)
        for job in jobs:
            check_outputs(job, target.overwrite, may_stay(job) if is_batch else ())


def _models_for(jobs: Sequence[BatchJob], shown_by: PhotoOptions, calibrated_by: str) -> set[str]:
    """Return the default models for the photos of *jobs*."""
    names = {shown_by.model_of(job.photo, calibrated_by) for job in jobs}
    if any(url_of(job.photo) for job in jobs):
        names |= {model_for(""), model_for("as told")}  # the choice depends on the pixels
    return names


def _check_intervals(reconstructors: Mapping[str, "Reconstructor"]) -> None:
    for name, reconstructor in reconstructors.items():
        if not reconstructor.model.card.has_intervals:
            raise ModelError(
                f"Expected a model with a calibrated prediction interval, got {name}. Use a "
                "bundled one."
            )


def _in_ranks(jobs: Sequence[BatchJob], run: Run, overwrite: bool) -> int:
    """Make a single cube in all processes started by torchrun; rank 0 reports."""
    from napari_mst.reconstruction.ranks import joined_ranks, write_in_ranks

    job, *others = jobs
    has_chart = run.photos.patches is not None
    if others or job.bands or has_chart or job.target.suffix.lower() != ".zarr":
        raise SaveError(
            "Expected one photo, without a chart or prediction intervals, and -o NAME.zarr for "
            "torchrun, "
            f"got {shown(job.target.name)}. Start it without torchrun."
        )
    reconstructor = run.reconstructor_of(job.photo)
    with joined_ranks(reconstructor.device.device.type) as rank, asked_to_stop() as progress:
        prepared = reconstructor.prepare(run.photos.read(job.photo))
        if rank:
            write_in_ranks(job.target, prepared, progress, overwrite=overwrite)
            return DONE
        with progress_bar(job.name, progress) as bar:
            cube = write_in_ranks(job.target, prepared, bar, overwrite=overwrite)
        for assumption in cube.provenance.assumptions:
            note(f"{job.name}: {assumption}")
        print(job.target, flush=True)
    return DONE


def _plan(places: Sequence[Path], target: CubeTarget) -> tuple[list[BatchJob], bool]:
    """Return the jobs, and whether their cubes go into a folder, where finished ones stay."""
    suffix = SUFFIXES[target.format or "envi"]
    photos = find_photos(places, target.path(CUBES), report)
    are_many = len(photos) > 1 or any(map(holds_several, places))
    path = target.path(CUBES if are_many else f"{photos[0][0].stem}{suffix}")
    is_folder = holds_several(path)
    if is_folder or are_many:
        if not is_folder and path.suffix.lower() in SUFFIXES.values():
            raise SaveError(
                f"Expected a folder for several cubes, got {shown(path.name)}. "
                "Leave its suffix out."
            )
        return plan_jobs(photos, path, suffix, target.intervals), True
    if target.format and target.output:
        raise SaveError(
            f"Expected a folder with --format, got {shown(path.name)}. "
            "Let its suffix say the format."
        )
    bands = band_targets(path) if target.intervals else ()
    return [BatchJob(photo, path, photo.name, bands) for photo, _ in photos], False
