"""The command `reconstruct`: photos to cubes, one or a whole batch."""

import argparse
import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from napari_mst.batch.claims import claimed
from napari_mst.batch.finding import FOLDERS, find_photos
from napari_mst.batch.jobs import (
    BatchJob,
    band_targets,
    check_names,
    check_outputs,
    finished,
    folders_for,
    is_there,
    may_stay,
    plan_jobs,
)
from napari_mst.cli.command import DONE, SOME_FAILED, Command
from napari_mst.cli.console import Teller, collecting, note, progress_bar, tell
from napari_mst.cli.control_c import asked_to_stop
from napari_mst.cli.options import (
    add_denoise,
    add_device,
    add_model,
    add_output,
    add_overwrite,
    add_region,
    gigabytes,
)
from napari_mst.cli.photos import PhotoOptions, add_photo_arguments, load_reconstructor
from napari_mst.cube import Provenance, SpectralCube
from napari_mst.errors import Cancelled, ModelError, NapariMstError, SaveError
from napari_mst.formats import FORMATS, read_cube, write_cube
from napari_mst.memory import free_host_memory
from napari_mst.messages import shown
from napari_mst.reconstruction.options import RunOptions
from napari_mst.watch import Watch

if TYPE_CHECKING:
    from napari_mst.batch.cluster import Place
    from napari_mst.reconstruction.reconstructor import Reconstructor

SUFFIXES = {form.name: form.suffixes[0] for form in FORMATS if form.suffixes}
"""The suffix of the cubes in a folder, by the name of the format."""

BATCHES = """\
A run into a folder that was interrupted goes on when you start it again: cubes
that are there, undamaged and of the same photo, model and options, stay.
Several such runs at once share the work."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "photos",
        nargs="+",
        type=Path,
        metavar="PHOTO",
        help="a file, a folder (searched with all folders in it) or a pattern, as '*.png'",
    )
    add_output(
        parser,
        "OUT",
        "a file (.hdr, .tif, ...); for several photos a folder, which is made if it is missing "
        "and mirrors the folders of the photos",
    )
    parser.add_argument(
        "--format", choices=SUFFIXES, help="format of the cubes in a folder (default: envi)"
    )
    add_overwrite(
        parser,
        "replace existing cubes; in a folder, the cubes that this very run has made stay",
    )
    add_model(parser)
    _add_run_arguments(parser)
    _add_result_arguments(parser)
    add_photo_arguments(parser)
    _add_worker_arguments(parser)


def _add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what says where and how exactly the network runs."""
    add_device(parser)
    parser.add_argument(
        "--precision",
        choices=("float32", "bfloat16", "float16", "float64"),
        default="float32",
        help="float64 is the reference; bfloat16 and float16 keep features in half the memory, "
        "with an error that is measured on each photo (default: float32)",
    )
    parser.add_argument(
        "--memory",
        type=gigabytes,
        metavar="GB",
        help="most memory of this computer to use (default: most of what is free)",
    )
    parser.add_argument(
        "--device-memory",
        type=gigabytes,
        metavar="GB",
        help="most memory of the GPU to use (default: most of what is free)",
    )


def _add_result_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what says which numbers come out."""
    add_region(parser)
    parser.add_argument(
        "--ensemble",
        action="store_true",
        help="average over 8 flips and transposes, as published; takes 8 times as long",
    )
    add_denoise(parser)
    parser.add_argument(
        "--no-colour-correction",
        action="store_true",
        help="leave the network's spectra as they are",
    )
    parser.add_argument(
        "--error-bands",
        action="store_true",
        help="also write the lower and upper spectra that hold 90 %% of true values: "
        "OUT_lower, OUT_upper",
    )
    parser.add_argument(
        "--calibrated-by",
        default="",
        metavar="WHAT",
        help="what tells that the photos show colours exactly, as 'profile of a chart': error "
        "bands are then narrower and say so (default: nothing does)",
    )


def _add_worker_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what says which processes make the cubes of a folder."""
    group = parser.add_argument_group(
        "many photos", "cubes in a folder may be made by several processes, over dask.distributed"
    )
    which = group.add_mutually_exclusive_group()
    which.add_argument(
        "--workers",
        type=_count,
        default=0,
        metavar="N",
        help="processes of this computer; each takes --memory, by default a share of what is free",
    )
    which.add_argument(
        "--scheduler",
        default="",
        metavar="ADDRESS",
        help="scheduler of a cluster, as tcp://host:8786; its workers must see the same folders",
    )


def _count(text: str) -> int:
    """A number of processes, at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"Expected a number of processes from 1, got {text!r}.")
    return int(text)


def _run(arguments: argparse.Namespace) -> int:
    jobs, is_batch = _plan(arguments)
    with folders_for(jobs if is_batch else ()):
        with asked_to_stop():
            # A file is made for a moment to see whether it can be: Ctrl-C must not leave it.
            _check(jobs, arguments.overwrite, is_batch)
        photos = PhotoOptions.from_arguments(arguments, [job.photo for job in jobs])
        options = _run_options(arguments, photos)
        reconstructor = _reconstructor(arguments, options)
        run = _Run(reconstructor, options, photos, arguments.overwrite, is_batch)
        done = _done(run, jobs)
        place = _place(arguments)
        if place is None:
            return _make_all(run, jobs, done)
        return _make_elsewhere(run, jobs, done, place)


def _place(arguments: argparse.Namespace) -> "Place | None":
    """The workers that make the cubes; None if this process does."""
    if not arguments.workers and not arguments.scheduler:
        return None
    from napari_mst.batch.cluster import Place

    return Place(arguments.workers, arguments.scheduler)


def _plan(arguments: argparse.Namespace) -> tuple[list[BatchJob], bool]:
    """The cubes to make, and whether they go into a folder, where finished cubes stay."""
    output: Path = arguments.output
    found = find_photos(arguments.photos, output, tell)
    # os.path, since Path.is_dir raises where a name is too long
    names_a_folder = any(os.path.isdir(path) for path in arguments.photos)  # noqa: PTH112
    is_folder = os.path.isdir(output) and output.suffix.lower() not in FOLDERS  # noqa: PTH112
    if is_folder or names_a_folder or len(found) > 1:
        if not is_folder and output.suffix.lower() in SUFFIXES.values():
            raise SaveError(
                f"Expected a folder for several cubes, got {shown(output.name)}. "
                "Leave its suffix out."
            )
        suffix = SUFFIXES[arguments.format or "envi"]
        return plan_jobs(found, output, suffix, arguments.error_bands), True
    if arguments.format:
        raise SaveError(
            f"Expected a folder with --format, got {shown(output.name)}. "
            "Let its suffix say the format."
        )
    bands = band_targets(output) if arguments.error_bands else ()
    return [BatchJob(one.photo, output, one.photo.name, bands) for one in found], False


def _check(jobs: Sequence[BatchJob], overwrite: bool, is_batch: bool) -> None:
    """Refuse before computing what would fail after it, or cost a cube or a photo."""
    check_names(jobs)
    for job in jobs:
        check_outputs(job, overwrite, may_stay(job) if is_batch else ())


def _run_options(arguments: argparse.Namespace, photos: PhotoOptions) -> RunOptions:
    return RunOptions(
        device=arguments.device,
        memory=_memory(arguments),
        device_memory=arguments.device_memory,
        precision=arguments.precision,
        denoise=arguments.denoise,
        correct_colour=not arguments.no_colour_correction,
        capture=photos.capture,
        calibrated_by=arguments.calibrated_by,
        region=arguments.region,
        ensemble=arguments.ensemble,
    )


def _memory(arguments: argparse.Namespace) -> int | None:
    """The most memory that one process may take, in bytes; None for most of what is free."""
    workers: int = arguments.workers
    memory: int | None = arguments.memory
    if memory is None and workers:
        return free_host_memory() // workers
    return memory


def _reconstructor(arguments: argparse.Namespace, options: RunOptions) -> "Reconstructor":
    reconstructor = load_reconstructor(arguments.model, options)
    if arguments.error_bands and not reconstructor.model.card.has_error_band:
        raise ModelError(
            f"Expected a model with a calibrated error band, got {arguments.model}. "
            "Use a bundled one."
        )
    return reconstructor


@dataclass(frozen=True)
class _Run:
    """One call of `reconstruct`: a reconstructor, and how its cubes are made and saved.

    Attributes
    ----------
    is_batch
        The cubes go into a folder: finished ones stay, and other runs share the work.
    teller
        The voice of the run.
    """

    reconstructor: "Reconstructor"
    options: RunOptions
    photos: PhotoOptions
    overwrite: bool
    is_batch: bool
    teller: Teller = field(default_factory=Teller)

    def finished(self, job: BatchJob) -> set[Path]:
        """The outputs of *job* that are there, undamaged, and from this very run."""
        return finished(job, partial(self._wanted, job.photo)) if self.is_batch else set()

    def make(self, job: BatchJob, done: set[Path], waits: bool) -> bool:
        """Make the outputs of *job* that are not *done*.

        Returns False if another run is making them, and this one does not wait.
        """
        with asked_to_stop() as is_cancelled:
            watch = Watch(is_cancelled=is_cancelled)
            if not self.is_batch:
                self._make(job, done, watch)
                return True
            with claimed(job, watch, waits=waits) as is_ours:
                if is_ours:
                    # Another run may have finished some outputs since they were looked at.
                    is_done = done.issuperset(job.outputs)
                    self._make(job, done if is_done else self.finished(job), watch)
                elif not waits:
                    self.teller.note(
                        f"{job.name}: another run is making it; it is looked at again at the end"
                    )
                return is_ours

    def _wanted(self, photo: Path, sha256: str) -> Provenance:
        """The history that a cube of this run has, for the file *photo* with this checksum."""
        encoding = self.photos.encoding_of(photo)
        known_by = self.photos.sha256_of(sha256)
        return self.reconstructor.origin(known_by, encoding, **self.options.for_photo)

    def _make(self, job: BatchJob, done: set[Path], watch: Watch) -> None:
        check_outputs(job, self.overwrite, done)
        for path, cube in self._cubes(job, done, watch):
            written = path
            if cube is not None:
                # The watch makes Ctrl-C end a save.
                written = write_cube(path, cube, overwrite=self.overwrite, progress=watch.reach)
            self.teller.wrote(written)

    def _cubes(
        self, job: BatchJob, done: set[Path], watch: Watch
    ) -> Iterator[tuple[Path, SpectralCube | None]]:
        """The outputs of *job*, each with the cube to save there, or None if it is *done*."""
        cube = None if job.target in done else self._reconstruct(job, watch)
        yield job.target, cube
        if done.issuperset(job.bands):
            yield from ((path, None) for path in job.bands)
            return
        from napari_mst.adaptation.bands import error_bands

        whole = read_cube(job.target) if cube is None else cube
        note(f"{job.name}: error bands {whole.provenance.calibration}")
        bands = error_bands(whole)
        for path, band in zip(job.bands, bands, strict=True):
            yield path, None if path in done else band

    def _reconstruct(self, job: BatchJob, watch: Watch) -> SpectralCube:
        photo = self.photos.read(job.photo)
        for_photo = self.options.for_photo
        plan = self.reconstructor.plan_for(photo, **for_photo, is_cancelled=watch.is_cancelled)
        self.teller.note(f"{job.name}: {plan}")
        with self.teller.bar(job.name, watch) as bar:
            cube = self.reconstructor.reconstruct(photo, **bar.arguments, **for_photo)
        if not self.is_batch:
            cube = self.photos.adapted(cube, photo, watch)
        for assumption in cube.provenance.assumptions:
            self.teller.note(f"{job.name}: {assumption}")
        return cube


def _done(run: _Run, jobs: Sequence[BatchJob]) -> dict[BatchJob, set[Path]]:
    """The outputs of each job that this very run has made; refuses others that are in the way."""
    if run.is_batch:
        there = [job for job in jobs if is_there(job.target)]
        if there:
            note(f"checking {len(there)} cubes that are there already")
    done = {job: run.finished(job) for job in jobs}
    for job in jobs:
        check_outputs(job, run.overwrite, done[job])
    stay = sum(job.target in done[job] for job in jobs)
    if stay:
        note(f"{stay} of {len(jobs)} cubes are of this run, and stay")
    return done


def _make_all(run: _Run, jobs: Sequence[BatchJob], done: Mapping[BatchJob, set[Path]]) -> int:
    """Make what is not done, and at last what another run was making; returns the exit status."""
    failed = 0
    todo = deque((job, False) for job in jobs)
    while todo:
        job, waits = todo.popleft()
        try:
            is_over = run.make(job, done[job], waits)
        except Cancelled:
            raise
        except NapariMstError as error:
            if len(jobs) == 1:
                raise
            is_over = True
            failed += 1
            _tell_failure(job, str(error))
        if not is_over:
            # Another run is making it. If that run is killed, this one makes it at the end.
            todo.append((job, True))
    return _status(len(jobs), failed)


def _status(count: int, failed: int) -> int:
    """Tell how many of *count* cubes have *failed*, if any, and return the exit status."""
    if not failed:
        return DONE
    tell(f"{count - failed} of {count} cubes written, {failed} failed")
    return SOME_FAILED


def _make_elsewhere(
    run: _Run, jobs: Sequence[BatchJob], done: Mapping[BatchJob, set[Path]], place: "Place"
) -> int:
    """Make what is not done on the workers of *place*, and tell each cube as it is written."""
    from napari_mst.batch.cluster import outcomes

    if not run.is_batch:
        raise SaveError(
            "Expected a folder for the cubes of several processes, got one file. "
            "Leave --workers and --scheduler out."
        )
    todo = [job for job in jobs if not done[job].issuperset(job.outputs)]
    for job in jobs:
        if job not in todo:
            for path in job.outputs:
                run.teller.wrote(path)
    failed = 0
    watch = Watch()
    with progress_bar(f"{len(todo)} photos", watch) as bar:
        for number, (job, lines, error) in enumerate(outcomes(_Worker(run), todo, place), 1):
            for line in lines:
                run.teller.wrote(Path(line))
            if error:
                failed += 1
                _tell_failure(job, error)
            bar.report(number / len(todo))
    return _status(len(jobs), failed)


@dataclass(frozen=True)
class _Worker:
    """Makes cubes in a process of its own: what is sent to a cluster."""

    run: _Run

    def __call__(self, job: BatchJob) -> list[str]:
        """Make the outputs of *job*, and return the files that were written."""
        lines: list[str] = []
        run = replace(self.run, teller=collecting(lines))
        # Another worker may have been killed after it had finished this very job.
        run.make(job, run.finished(job), waits=True)
        return lines


def _tell_failure(job: BatchJob, error: str) -> None:
    tell(f"error: {job.name}: {error.removeprefix(f'{job.photo.name}: ')}")


RECONSTRUCT = Command(
    name="reconstruct",
    help="turn photos into spectral cubes",
    add_arguments=_add_arguments,
    run=_run,
    epilog=BATCHES,
)
