"""The command `reconstruct`: photos to cubes, one or a whole batch."""

import io
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from napari_mst.base.errors import ModelError, SaveError, shown
from napari_mst.base.memory import free_host_memory
from napari_mst.base.progress import Progress
from napari_mst.batch import processes
from napari_mst.batch.jobs import (
    ASIDE,
    BatchJob,
    band_targets,
    check_names,
    check_outputs,
    find_photos,
    folders_for,
    holds_several,
    is_there,
    may_stay,
    plan_jobs,
)
from napari_mst.batch.processes import Batch, make_each
from napari_mst.cli.arguments import DONE, SOME_FAILED
from napari_mst.cli.console import note, progress_bar, report
from napari_mst.cli.control_c import asked_to_stop
from napari_mst.cli.photo_options import (
    UNANSWERED,
    AcquisitionAnswers,
    PhotoOptions,
    load_reconstructor,
)
from napari_mst.cli.shared_options import Output
from napari_mst.cube import Provenance, SpectralCube
from napari_mst.formats import FORMATS, read_cube
from napari_mst.reconstruction.options import DEFAULTS, RunOptions

if TYPE_CHECKING:
    from napari_mst.reconstruction.reconstructor import Reconstructor

SUFFIXES = {form.name: form.suffixes[0] for form in FORMATS if form.suffixes}
"""The suffix of the cubes in a folder, by the name of the format."""

CUBES = "cubes"
"""The folder of many cubes, if the user names none."""


@dataclass(frozen=True)
class Run(Batch):
    """One call of `reconstruct`: its models, and how their cubes are made and saved.

    Attributes
    ----------
    reconstructors
        By the names of the models: the one that was named, or those for these photos.
    is_batch
        The cubes go into a folder: finished ones stay, and other runs share the work.
    """

    reconstructors: Mapping[str, "Reconstructor"]
    photos: PhotoOptions
    is_batch: bool

    def finished(self, job: BatchJob) -> set[Path]:
        """See `Batch`; a single cube is always made."""
        return super().finished(job) if self.is_batch else set()

    def damaged(self, job: BatchJob, done: set[Path]) -> dict[Path, str]:
        """See `Batch`."""
        return super().damaged(job, done) if self.is_batch else {}

    def make_here(self, job: BatchJob, done: set[Path], waits: bool) -> bool:
        """Make *job* in this process, until Ctrl-C; False if another run is making it."""
        with asked_to_stop() as progress:
            if not self.is_batch:
                self.write(job, done, progress)
                return True
            is_ours = self.make(job, done, progress, waits=waits)
            if not is_ours:
                note(f"{job.name}: another run is making it; it is looked at again at the end")
            return is_ours

    def make_apart(self, job: BatchJob) -> list[str]:
        """Make *job* in another process, and return the files that were written."""
        lines = io.StringIO()
        with redirect_stdout(lines), redirect_stderr(io.StringIO()):
            # Another worker may have been killed after it had finished this very job.
            self.make_here(job, self.finished(job), waits=True)
        return lines.getvalue().splitlines()

    def saved(self, path: Path) -> None:
        """Print *path*."""
        print(path, flush=True)

    def history(self, photo: Path, sha256: str) -> Provenance:
        """See `Batch`."""
        known_by = self.photos.sha256_of(photo, sha256)
        return self.reconstructor_of(photo).origin(known_by, self.photos.encoding_of(photo))

    def reconstructor_of(self, photo: Path) -> "Reconstructor":
        """The reconstructor for the file *photo*."""
        first, *others = self.reconstructors.values()
        if not others:
            return first
        return self.reconstructors[self.photos.model_of(photo, first.options.calibrated_by)]

    def cubes(
        self, job: BatchJob, done: set[Path], progress: Progress
    ) -> Iterator[tuple[Path, SpectralCube | None]]:
        """See `Batch`."""
        cube = None if job.target in done else self._reconstruct(job, progress)
        yield job.target, cube
        if done.issuperset(job.bands):
            yield from ((path, None) for path in job.bands)
            return
        from napari_mst.references.intervals import prediction_intervals

        whole = read_cube(job.target) if cube is None else cube
        note(f"{job.name}: prediction intervals {whole.provenance.calibration}")
        with progress_bar(f"{job.name}: prediction intervals", progress) as bar:
            bands = prediction_intervals(whole, bar)
        for path, band in zip(job.bands, bands, strict=True):
            yield path, None if path in done else band

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


def finished_before(run: Run, jobs: Sequence[BatchJob]) -> dict[BatchJob, set[Path]]:
    """The outputs of each job that this very run has made; refuses others that are in the way."""
    if run.is_batch:
        there = [job for job in jobs if is_there(job.target)]
        if there:
            note(f"checking {len(there)} cubes that are there already")
    done = {job: run.finished(job) for job in jobs}
    for job in jobs:
        faults = run.damaged(job, done[job])
        for fault in faults.values():
            note(f"{job.name}: its cube is damaged, and made again beside it ({ASIDE}). {fault}")
        check_outputs(job, run.overwrite, done[job].union(faults))
    stay = sum(job.target in done[job] for job in jobs)
    if stay:
        note(f"{stay} of {len(jobs)} cubes are of this run, and stay")
    return done


def _make(run: Run, jobs: Sequence[BatchJob], workers: int) -> int:
    """Make what is not done, here or in *workers*, if there are any; counts the failed."""
    done = finished_before(run, jobs)
    return make_elsewhere(run, jobs, done, workers) if workers else make_here(run, jobs, done)


def make_here(run: Run, jobs: Sequence[BatchJob], done: Mapping[BatchJob, set[Path]]) -> int:
    """Make what is not done, and at last what another run was making; counts the failed."""
    failed = 0
    for job, error in make_each(jobs, lambda job, waits: run.make_here(job, done[job], waits)):
        if error is None:
            continue
        if len(jobs) == 1:
            raise error
        failed += 1
        _tell_failure(job, str(error))
    return failed


def _tell_failure(job: BatchJob, error: str) -> None:
    report(f"error: {job.name}: {error.removeprefix(f'{job.photo.name}: ')}")


def _workers(text: str) -> int:
    """A number of processes; 0 is this one alone."""
    if text.isdecimal():
        return int(text)
    if text != "auto":
        raise ValueError(f"Expected a number or auto, got {shown(text)}. Leave it out.")
    # By judgement: with more, the threads of one process wait for each other and for the disk.
    count = (os.cpu_count() or 1) // 8
    return count if count > 1 else 0


def reconstruct_photos(
    photos: tuple[Path, ...],
    *,
    output: Output = None,
    format: Annotated[str, tuple(SUFFIXES)] | None = None,
    overwrite: bool = False,
    model: str = "",
    intervals: bool = False,
    options: RunOptions = DEFAULTS,
    taken: AcquisitionAnswers = UNANSWERED,
    workers: Annotated[int, _workers] = 0,
) -> int:
    """Make the cubes of photos, and print the path of each.

    Parameters
    ----------
    photos : PHOTO
        a file, a folder (searched with all folders in it) or a pattern, as '*.png'
    output : OUT
        a file (.hdr, .tif, ...); for several photos a folder, which is made if it is missing and
        mirrors the folders of the photos (default: PHOTO.hdr here; the folder cubes for several)
    format
        format of the cubes in a folder (default: envi)
    overwrite
        overwrite existing cubes; two photos of one run never overwrite each other
    model : NAME|FILE
        name of a model or its weights file (default: mstpp-photo for photos of cameras; mstpp-srgb
        for those whose colours are exact: rendered ones, which --calibrated-by rendering says, of
        more than 8 bits, or corrected by a chart or greys)
    intervals
        also write the lower and upper spectra that hold 90 % of true values: OUT_lower, OUT_upper

    many photos
    -----------
    cubes in a folder may be made by several processes

    workers : N
        processes of this computer, or auto: one for every 8 cores; each takes --memory, by
        default a share of what is free. One alone uses all cores: for two cores, two processes
        took 1.35 times as long

    Examples
    --------
    napari-mst reconstruct photo.jpg -o cube.hdr
    napari-mst reconstruct photos/ -o cubes/ --format tiff --workers auto
    napari-mst reconstruct photo.dng --model mstpp-camera --illuminant estimate

    Notes
    -----
    A run into a folder that was interrupted goes on when you start it again: cubes
    that are there, undamaged and of the same photo, model and options, stay.
    Several such runs at once share the work.
    """
    jobs, is_batch = _plan(photos, output, format, intervals)
    if workers and not is_batch:
        raise SaveError(
            "Expected a folder for the cubes of several processes, got one file. "
            "Leave --workers out."
        )
    with folders_for(jobs if is_batch else ()):
        # A file is made for a moment to see whether it can be: Ctrl-C must not leave it.
        with asked_to_stop():
            check_names(jobs)
            for job in jobs:
                check_outputs(job, overwrite, may_stay(job) if is_batch else ())
        shown_by = PhotoOptions.of(taken, [job.photo for job in jobs])
        options = replace(options, acquisition=shown_by.acquisition)
        if options.memory is None and workers:
            options = replace(options, memory=free_host_memory() // workers)
        by = options.calibrated_by
        names = {model} if model else {shown_by.model_of(job.photo, by) for job in jobs}
        reconstructors = {name: load_reconstructor(name, options) for name in sorted(names)}
        for name, reconstructor in reconstructors.items():
            if intervals and not reconstructor.model.card.has_intervals:
                raise ModelError(
                    f"Expected a model with a calibrated prediction interval, got {name}. Use a "
                    "bundled one."
                )
        from napari_mst.reconstruction.ranks import is_rank

        run = Run(overwrite, reconstructors, shown_by, is_batch)
        if is_rank():
            return _in_ranks(jobs, run)
        failed = _make(run, jobs, workers)
    if not failed:
        return DONE
    report(f"{len(jobs) - failed} of {len(jobs)} cubes written, {failed} failed")
    return SOME_FAILED


def _in_ranks(jobs: Sequence[BatchJob], run: Run) -> int:
    """Make the one cube by all processes that torchrun has started, of which the first speaks."""
    from napari_mst.reconstruction.ranks import joined_ranks, write_in_ranks

    job, *others = jobs
    has_chart = run.photos.chart is not None
    if others or job.bands or has_chart or job.target.suffix.lower() != ".zarr":
        raise SaveError(
            "Expected one photo, without a chart or prediction intervals, and -o NAME.zarr for "
            "torchrun, "
            f"got {shown(job.target.name)}. Start it without torchrun."
        )
    reconstructor, overwrite = run.reconstructor_of(job.photo), run.overwrite
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


def make_elsewhere(
    run: Run,
    jobs: Sequence[BatchJob],
    done: Mapping[BatchJob, set[Path]],
    workers: int,
) -> int:
    """Make what is not done in *workers* processes; return the number that failed."""
    todo = [job for job in jobs if not done[job].issuperset(job.outputs)]
    for job in jobs:
        if job not in todo:
            print(*job.outputs, sep="\n", flush=True)
    outcomes = processes.outcomes(run.make_apart, todo, workers, report)
    failed = 0
    with progress_bar(f"{len(todo)} photos", Progress()) as bar:
        for number, (job, lines, error) in enumerate(outcomes, 1):
            for line in lines:
                print(line, flush=True)
            if error:
                failed += 1
                _tell_failure(job, error)
            bar.reach(number / len(todo))
    return failed


def _plan(
    named: Sequence[Path], output: Path | None, format_name: str | None, with_bands: bool
) -> tuple[list[BatchJob], bool]:
    """Return the cubes to make, and whether they go into a folder, where finished ones stay."""
    suffix = SUFFIXES[format_name or "envi"]
    photos = find_photos(named, output or Path(CUBES), report)
    are_many = len(photos) > 1 or any(map(holds_several, named))
    target = output or Path(CUBES if are_many else f"{photos[0][0].stem}{suffix}")
    is_folder = holds_several(target)
    if is_folder or are_many:
        if not is_folder and target.suffix.lower() in SUFFIXES.values():
            raise SaveError(
                f"Expected a folder for several cubes, got {shown(target.name)}. "
                "Leave its suffix out."
            )
        return plan_jobs(photos, target, suffix, with_bands), True
    if format_name and output:
        raise SaveError(
            f"Expected a folder with --format, got {shown(target.name)}. "
            "Let its suffix say the format."
        )
    bands = band_targets(target) if with_bands else ()
    return [BatchJob(photo, target, photo.name, bands) for photo, _ in photos], False
