"""Cubes of photos, made and saved: in this process, or by workers."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from napari_mst.batch.jobs import (
    ASIDE,
    BatchJob,
    check_outputs,
    claimed,
    damaged,
    finished,
    is_there,
    set_aside,
)
from napari_mst.batch.processes import Make, Outcome
from napari_mst.cli.command import DONE, SOME_FAILED
from napari_mst.cli.console import Teller, collecting, note, progress_bar, tell
from napari_mst.cli.control_c import asked_to_stop
from napari_mst.cli.photos import PhotoOptions
from napari_mst.cube import Provenance, SpectralCube
from napari_mst.errors import Cancelled, NapariMstError, SaveError
from napari_mst.formats import read_cube, write_cube
from napari_mst.watch import Watch

if TYPE_CHECKING:
    from napari_mst.reconstruction.reconstructor import Reconstructor


Outcomes = Callable[[Make, Sequence[BatchJob]], Iterator[Outcome]]
"""Makes jobs in workers, and yields each as it ends."""


@dataclass(frozen=True)
class Run:
    """One call of `reconstruct`: a reconstructor, and how its cubes are made and saved.

    Attributes
    ----------
    is_batch
        The cubes go into a folder: finished ones stay, and other runs share the work.
    teller
        The voice of the run.
    """

    reconstructor: "Reconstructor"
    photos: PhotoOptions
    overwrite: bool
    is_batch: bool
    teller: Teller = field(default_factory=Teller)

    def finished(self, job: BatchJob) -> set[Path]:
        """The outputs of *job* that are there, undamaged, and from this very run."""
        return finished(job, partial(self._wanted, job.photo)) if self.is_batch else set()

    def damaged(self, job: BatchJob, done: set[Path]) -> dict[Path, str]:
        """The damaged outputs of *job* that are kept beside those that it makes again, and why."""
        return damaged(job, done) if self.is_batch and not self.overwrite else {}

    def make(self, job: BatchJob, done: set[Path], waits: bool) -> bool:
        """Make the outputs of *job* that are not *done*.

        Returns False if another run is making them, and this one does not wait.
        """
        with asked_to_stop() as watch:
            if not self.is_batch:
                self._make(job, done, watch)
                return True
            with claimed(job, watch, waits=waits) as is_ours:
                if is_ours:
                    # Another run may have finished some outputs since they were looked at.
                    is_done = done.issuperset(job.outputs)
                    done = done if is_done else self.finished(job)
                    for path in self.damaged(job, done):
                        set_aside(path)
                    self._make(job, done, watch)
                elif not waits:
                    self.teller.note(
                        f"{job.name}: another run is making it; it is looked at again at the end"
                    )
                return is_ours

    def make_apart(self, job: BatchJob) -> list[str]:
        """Make *job* in another process, and return the files that were written."""
        lines: list[str] = []
        run = replace(self, teller=collecting(lines))
        # Another worker may have been killed after it had finished this very job.
        run.make(job, run.finished(job), waits=True)
        return lines

    def _wanted(self, photo: Path, sha256: str) -> Provenance:
        """The history that a cube of this run has, for the file *photo* with this checksum."""
        encoding = self.photos.encoding_of(photo)
        known_by = self.photos.sha256_of(photo, sha256)
        return self.reconstructor.origin(known_by, encoding)

    def _make(self, job: BatchJob, done: set[Path], watch: Watch) -> None:
        check_outputs(job, self.overwrite, done)
        for path, cube in self._cubes(job, done, watch):
            written = path
            if cube is not None:
                # The watch makes Ctrl-C end a save.
                written = write_cube(path, cube, overwrite=self.overwrite, watch=watch)
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
        seen = self.reconstructor.see(photo)
        self.teller.note(f"{job.name}: {seen.plan(watch)}")
        with self.teller.bar(job.name, watch) as bar:
            cube = seen.reconstruct(bar)
        if not self.is_batch:
            cube = self.photos.adapted(cube, photo, watch)
        for assumption in cube.provenance.assumptions:
            self.teller.note(f"{job.name}: {assumption}")
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


def make_elsewhere(
    run: Run, jobs: Sequence[BatchJob], done: Mapping[BatchJob, set[Path]], outcomes: Outcomes
) -> int:
    """Make what is not done in workers, and tell each cube as it is written."""
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
        for number, (job, lines, error) in enumerate(outcomes(run.make_apart, todo), 1):
            for line in lines:
                run.teller.wrote(Path(line))
            if error:
                failed += 1
                _tell_failure(job, error)
            bar.reach(number / len(todo))
    return _status(len(jobs), failed)


def _tell_failure(job: BatchJob, error: str) -> None:
    tell(f"error: {job.name}: {error.removeprefix(f'{job.photo.name}: ')}")
