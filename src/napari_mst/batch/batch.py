"""Makes the cube of a photo in a batch.

Finished cubes stay, and several runs can share the work. Each worker claims a cube, skips it if it
is finished, and saves atomically, like a separate run. So a job that is repeated after a worker was
killed still makes its cube only once.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from napari_mst.base.errors import NapariMstError, PhotoError, shown
from napari_mst.base.progress import NO_PROGRESS, Progress
from napari_mst.batch.jobs import (
    BatchJob,
    check_outputs,
    claimed,
    damaged,
    files_of,
    finished,
    set_aside,
)
from napari_mst.batch.storage import fetch, named, stamps, upload, url_of
from napari_mst.cube import Provenance, SpectralCube
from napari_mst.formats import write_cube

CubesOf = Callable[[BatchJob, set[Path], Progress], Iterable[tuple[Path, SpectralCube]]]
"""Yields the unfinished outputs of a job, as paths and the cubes to save there."""

HistoryOf = Callable[[Path, str], Provenance]
"""Returns the history, in this run, of the cube of a photo file with this sha256."""


Todo = deque[tuple[BatchJob, bool]]
"""The remaining jobs, and whether each waits for another run that claimed it."""


class ClaimedByAnother(NapariMstError):
    """Another run is making the cubes of a job."""


class Outcome(NamedTuple):
    """The outcome of one job: the error that ended it, or None if its cubes are saved."""

    job: BatchJob
    error: NapariMstError | None = None


@dataclass(frozen=True)
class Batch:
    """Makes files from photos, for Python, the command line and the window.

    Attributes
    ----------
    overwrite
        Whether to overwrite existing files.
    goes_on
        Whether finished cubes stay and other runs share the work. A single cube is always made.
    """

    cubes: CubesOf
    history: HistoryOf
    overwrite: bool = False
    goes_on: bool = True

    def finished(self, job: BatchJob) -> set[Path]:
        """Return the outputs of *job* that exist, are undamaged, and match this run."""
        return finished(job, partial(self.history, job.photo)) if self.goes_on else set()

    def damaged(self, job: BatchJob, done: set[Path]) -> dict[Path, str]:
        """Return the damaged outputs of *job*, which are kept beside the new ones, with reasons."""
        return damaged(job, done) if self.goes_on and not self.overwrite else {}

    def make(
        self,
        job: BatchJob,
        progress: Progress = NO_PROGRESS,
        *,
        waits: bool = True,
        room: str | None = None,
    ) -> None:
        """Make the unfinished outputs of *job*, with local copies of URLs below *room*.

        Raises
        ------
        ClaimedByAnother
            If another run is making them and *waits* is False.
        """
        progress.check()
        with staged(job, room) as here:
            claim = claimed(here, progress, waits=waits) if self.goes_on else nullcontext(True)
            with claim as is_ours:
                if not is_ours:
                    raise ClaimedByAnother("Another run is making it.")
                self._write(here, progress)

    def _write(self, job: BatchJob, progress: Progress) -> None:
        # Another run may have finished some outputs in the meantime.
        done = self.finished(job)
        if done.issuperset(job.outputs):
            return
        for path in self.damaged(job, done):
            set_aside(path)
        check_outputs(job, self.overwrite, done)
        # Saving reports no progress but can be cancelled.
        saving = Progress(is_cancelled=progress.is_cancelled)
        for path, cube in self.cubes(job, done, progress):
            write_cube(path, cube, overwrite=self.overwrite, progress=saving)


@contextmanager
def staged(job: BatchJob, room: str | None = None) -> Iterator[BatchJob]:
    """Yield *job* with local copies of its URLs below *room*; new files are uploaded at the end.

    Files on this computer are used in place.
    """
    if not (url_of(job.photo) or url_of(job.target)):
        yield job
        return
    with TemporaryDirectory(prefix="napari-mst-", dir=room) as temporary:
        folder = Path(temporary, "cubes")
        folder.mkdir()
        here = job
        if url_of(job.photo):
            here = replace(here, photo=Path(temporary, job.photo.name))
            if not fetch(job.photo, here.photo):
                place = shown(named(job.photo))
                raise PhotoError(f"Expected a photo at {place}, got none. Check the name.")
        if not url_of(job.target):
            yield here
            return
        target, *bands = (folder / path.name for path in job.outputs)
        for file in chain.from_iterable(map(files_of, job.outputs)):
            fetch(file, folder / file.name)
        before = stamps(folder)
        yield replace(here, target=target, bands=tuple(bands))
        upload(folder, job.target.parent, before)
