"""The cubes of a batch, one after the other: finished ones stay, and other runs share the work."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from napari_mst.batch.jobs import BatchJob, check_outputs, claimed, damaged, finished, set_aside
from napari_mst.cube import Provenance, SpectralCube
from napari_mst.errors import Cancelled, NapariMstError
from napari_mst.formats import write_cube
from napari_mst.watch import Watch


@dataclass(frozen=True)
class Batch(ABC):
    """The way from a photo to its files, which the command line and the window go.

    Attributes
    ----------
    overwrite
        Whether files that are there are written again.
    """

    overwrite: bool

    @abstractmethod
    def history(self, photo: Path, sha256: str) -> Provenance:
        """Return the history that a cube of this run has, for the file *photo* of this *sha256*."""

    @abstractmethod
    def cubes(
        self, job: BatchJob, done: set[Path], watch: Watch
    ) -> Iterator[tuple[Path, SpectralCube | None]]:
        """Make the outputs of *job*, each with the cube to save there; None if it is *done*."""

    @abstractmethod
    def saved(self, path: Path) -> None:
        """Hear of an output that is there now."""

    def finished(self, job: BatchJob) -> set[Path]:
        """Return the outputs of *job* that are there, undamaged, and from this very run."""
        return finished(job, partial(self.history, job.photo))

    def damaged(self, job: BatchJob, done: set[Path]) -> dict[Path, str]:
        """Return the damaged outputs of *job* that are kept beside those made again, and why."""
        return {} if self.overwrite else damaged(job, done)

    def make(self, job: BatchJob, done: set[Path], watch: Watch, *, waits: bool) -> bool:
        """Make the outputs of *job* that are not *done*.

        Returns False if another run is making them, and this one does not wait.
        """
        with claimed(job, watch, waits=waits) as is_ours:
            if is_ours:
                # Another run may have finished some outputs since they were looked at.
                is_done = done.issuperset(job.outputs)
                done = done if is_done else self.finished(job)
                for path in self.damaged(job, done):
                    set_aside(path)
                self.write(job, done, watch)
            return is_ours

    def write(self, job: BatchJob, done: set[Path], watch: Watch) -> None:
        """Make and save the outputs of *job* that are not *done*."""
        check_outputs(job, self.overwrite, done)
        # A cancel ends a save, too, whose progress nobody follows.
        saving = Watch(is_cancelled=watch.is_cancelled)
        for path, cube in self.cubes(job, done, watch):
            if cube is not None:
                path = write_cube(path, cube, overwrite=self.overwrite, watch=saving)
            # At once, since a batch takes long and may be stopped.
            self.saved(path)


def make_each(
    jobs: Sequence[BatchJob], make: Callable[[BatchJob, bool], bool]
) -> Iterator[tuple[BatchJob, NapariMstError | None]]:
    """Make *jobs* one after the other; yields each as it ends, with the error that ended it.

    *make* returns False for a job that another run is making, unless it is asked to wait. If that
    run is killed, this one makes it at the end.
    """
    todo = deque((job, False) for job in jobs)
    while todo:
        job, waits = todo.popleft()
        try:
            if not make(job, waits):
                todo.append((job, True))
                continue
        except Cancelled:
            raise
        except NapariMstError as error:
            yield job, error
        else:
            yield job, None
