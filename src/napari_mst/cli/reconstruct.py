"""The command `reconstruct`: photos to cubes, one or a whole batch."""

import io
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from napari_mst.batch import processes
from napari_mst.batch.jobs import (
    ASIDE,
    FOLDERS,
    BatchJob,
    band_targets,
    check_names,
    check_outputs,
    find_photos,
    folders_for,
    is_there,
    may_stay,
    plan_jobs,
)
from napari_mst.batch.processes import Batch, make_each
from napari_mst.cli.arguments import DONE, SOME_FAILED
from napari_mst.cli.captures import CaptureAnswers
from napari_mst.cli.console import note, progress_bar, report
from napari_mst.cli.control_c import asked_to_stop
from napari_mst.cli.options import DEFAULT_MODEL, Model, to_file
from napari_mst.cli.photos import PhotoOptions, load_reconstructor
from napari_mst.cube import Provenance, SpectralCube
from napari_mst.errors import ModelError, SaveError, shown
from napari_mst.formats import FORMATS, read_cube
from napari_mst.memory import free_host_memory
from napari_mst.option import Option
from napari_mst.reconstruction.options import DEFAULTS, RunOptions
from napari_mst.watch import Watch

if TYPE_CHECKING:
    from napari_mst.reconstruction.reconstructor import Reconstructor

SUFFIXES = {form.name: form.suffixes[0] for form in FORMATS if form.suffixes}
"""The suffix of the cubes in a folder, by the name of the format."""

CUBES = "cubes"
"""The folder of many cubes, if the user names none."""

_MANY = ("many photos", "cubes in a folder may be made by several processes")


@dataclass(frozen=True)
class Run(Batch):
    """One call of `reconstruct`: a reconstructor, and how its cubes are made and saved.

    Attributes
    ----------
    is_batch
        The cubes go into a folder: finished ones stay, and other runs share the work.
    """

    reconstructor: "Reconstructor"
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
        with asked_to_stop() as watch:
            if not self.is_batch:
                self.write(job, done, watch)
                return True
            is_ours = self.make(job, done, watch, waits=waits)
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
        return self.reconstructor.origin(known_by, self.photos.encoding_of(photo))

    def cubes(
        self, job: BatchJob, done: set[Path], watch: Watch
    ) -> Iterator[tuple[Path, SpectralCube | None]]:
        """See `Batch`."""
        cube = None if job.target in done else self._reconstruct(job, watch)
        yield job.target, cube
        if done.issuperset(job.bands):
            yield from ((path, None) for path in job.bands)
            return
        from napari_mst.adaptation.bands import error_bands

        whole = read_cube(job.target) if cube is None else cube
        note(f"{job.name}: error bands {whole.provenance.calibration}")
        with progress_bar(f"{job.name}: error bands", watch) as bar:
            bands = error_bands(whole, bar)
        for path, band in zip(job.bands, bands, strict=True):
            yield path, None if path in done else band

    def _reconstruct(self, job: BatchJob, watch: Watch) -> SpectralCube:
        photo = self.photos.read(job.photo)
        seen = self.reconstructor.see(photo)
        note(f"{job.name}: {seen.plan(watch)}")
        with progress_bar(job.name, watch) as bar:
            cube = seen.reconstruct(bar)
        if not self.is_batch:
            cube = self.photos.adapted(cube, photo, watch)
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


def make_here(run: Run, jobs: Sequence[BatchJob], done: Mapping[BatchJob, set[Path]]) -> int:
    """Make what is not done, and at last what another run was making; returns the exit status."""
    failed = 0
    for job, error in make_each(jobs, lambda job, waits: run.make_here(job, done[job], waits)):
        if error is None:
            continue
        if len(jobs) == 1:
            raise error
        failed += 1
        _tell_failure(job, str(error))
    return _status(len(jobs), failed)


def _status(count: int, failed: int) -> int:
    """Report how many of *count* cubes have *failed*, if any, and return the exit status."""
    if not failed:
        return DONE
    report(f"{count - failed} of {count} cubes written, {failed} failed")
    return SOME_FAILED


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


@dataclass(frozen=True)
class Reconstruct:
    """Photos, the model and the settings that make cubes of them, and where the cubes go."""

    photos: Annotated[
        tuple[Path, ...],
        Option(
            "a file, a folder (searched with all folders in it) or a pattern, as '*.png'",
            "PHOTO",
            nargs="+",
            is_positional=True,
        ),
    ]
    output: Annotated[
        Path | None,
        to_file(
            "a file (.hdr, .tif, ...); for several photos a folder, which is made if it is missing "
            "and mirrors the folders of the photos (default: PHOTO.hdr here; the folder cubes for "
            "several)"
        ),
    ] = None
    format: Annotated[
        str | None, Option("format of the cubes in a folder (default: envi)", choices=SUFFIXES)
    ] = None
    overwrite: Annotated[
        bool,
        Option("overwrite existing cubes; two photos of one run never overwrite each other"),
    ] = False
    model: Model = DEFAULT_MODEL
    error_bands: Annotated[
        bool,
        Option(
            "also write the lower and upper spectra that hold 90 % of true values: OUT_lower, "
            "OUT_upper"
        ),
    ] = False
    options: RunOptions = DEFAULTS
    taken: CaptureAnswers = field(default_factory=CaptureAnswers)
    workers: Annotated[
        int,
        Option(
            "processes of this computer, or auto: one for every 8 cores; each takes --memory, by "
            "default a share of what is free. One alone uses all cores: for two cores, two "
            "processes took 1.35 times as long",
            "N",
            parse=_workers,
            group=_MANY,
        ),
    ] = 0
    scheduler: Annotated[
        str,
        Option(
            "scheduler of a dask cluster, as tls://host:8786; its workers must see the same "
            "folders, and whoever can connect to it can run code in them",
            "ADDRESS",
            group=_MANY,
        ),
    ] = ""

    examples = (
        "reconstruct photo.jpg -o cube.hdr",
        "reconstruct photos/ -o cubes/ --format tiff --workers auto",
        "reconstruct photo.dng --model mstpp-camera --illuminant estimate",
    )
    more = """\
A run into a folder that was interrupted goes on when you start it again: cubes
that are there, undamaged and of the same photo, model and options, stay.
Several such runs at once share the work."""

    def __post_init__(self) -> None:
        if self.workers and self.scheduler:
            raise SaveError("Expected --workers or --scheduler, got both. Leave one of them out.")

    def run(self) -> int:
        """Make the cubes, and print the path of each."""
        jobs, is_batch = self._plan()
        if (self.workers or self.scheduler) and not is_batch:
            raise SaveError(
                "Expected a folder for the cubes of several processes, got one file. "
                "Leave --workers and --scheduler out."
            )
        with folders_for(jobs if is_batch else ()):
            # A file is made for a moment to see whether it can be: Ctrl-C must not leave it.
            with asked_to_stop():
                check_names(jobs)
                for job in jobs:
                    check_outputs(job, self.overwrite, may_stay(job) if is_batch else ())
            run = self._run([job.photo for job in jobs], is_batch)
            done = finished_before(run, jobs)
            if self.workers or self.scheduler:
                return self._make_elsewhere(run, jobs, done)
            return make_here(run, jobs, done)

    def _run(self, files: Sequence[Path], is_batch: bool) -> Run:
        """Load the model, and read what shows how the photos were taken."""
        photos = PhotoOptions.of(self.taken, files)
        options = replace(self.options, capture=photos.capture)
        if options.memory is None and self.workers:
            options = replace(options, memory=free_host_memory() // self.workers)
        reconstructor = load_reconstructor(self.model, options)
        if self.error_bands and not reconstructor.model.card.has_error_band:
            raise ModelError(
                f"Expected a model with a calibrated error band, got {self.model}. "
                "Use a bundled one."
            )
        return Run(self.overwrite, reconstructor, photos, is_batch)

    def _make_elsewhere(
        self, run: Run, jobs: Sequence[BatchJob], done: Mapping[BatchJob, set[Path]]
    ) -> int:
        """Make what is not done in workers, and print each cube as it is written."""
        todo = [job for job in jobs if not done[job].issuperset(job.outputs)]
        for job in jobs:
            if job not in todo:
                print(*job.outputs, sep="\n", flush=True)
        if self.workers:
            outcomes = processes.outcomes(run.make_apart, todo, self.workers, report)
        else:
            outcomes = processes.outcomes_of_cluster(run.make_apart, todo, self.scheduler)
        failed = 0
        with progress_bar(f"{len(todo)} photos", Watch()) as bar:
            for number, (job, lines, error) in enumerate(outcomes, 1):
                for line in lines:
                    print(line, flush=True)
                if error:
                    failed += 1
                    _tell_failure(job, error)
                bar.reach(number / len(todo))
        return _status(len(jobs), failed)

    def _plan(self) -> tuple[list[BatchJob], bool]:
        """Return the cubes to make, and whether they go into a folder, where finished ones stay."""
        suffix = SUFFIXES[self.format or "envi"]
        photos = find_photos(self.photos, self.output or Path(CUBES), report)
        # os.path, since Path.is_dir raises where a name is too long
        names_a_folder = any(os.path.isdir(path) for path in self.photos)  # noqa: PTH112
        are_many = names_a_folder or len(photos) > 1
        output = self.output or Path(CUBES if are_many else f"{photos[0][0].stem}{suffix}")
        is_folder = os.path.isdir(output) and output.suffix.lower() not in FOLDERS  # noqa: PTH112
        if is_folder or are_many:
            if not is_folder and output.suffix.lower() in SUFFIXES.values():
                raise SaveError(
                    f"Expected a folder for several cubes, got {shown(output.name)}. "
                    "Leave its suffix out."
                )
            return plan_jobs(photos, output, suffix, self.error_bands), True
        if self.format and self.output:
            raise SaveError(
                f"Expected a folder with --format, got {shown(output.name)}. "
                "Let its suffix say the format."
            )
        bands = band_targets(output) if self.error_bands else ()
        return [BatchJob(photo, output, photo.name, bands) for photo, _ in photos], False
