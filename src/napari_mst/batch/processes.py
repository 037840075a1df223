"""The cubes of a batch: one after the other, or in several processes of this computer.

Finished cubes stay, and other runs share the work. A worker makes a cube as a separate run would:
it claims the cube, leaves what is finished, and saves crash-safely. So a job that is done twice,
after a worker was killed, makes its cube once.

Jobs and results go through pipes that only this process and the worker hold: there is no address to
which another user could connect. A worker ends with this process, however that ends.
"""

import os
import pickle
import signal
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import NamedTuple

from napari_mst.base.errors import Cancelled, NapariMstError, shown
from napari_mst.base.progress import Progress
from napari_mst.batch.jobs import (
    BatchJob,
    Report,
    check_outputs,
    claimed,
    damaged,
    finished,
    set_aside,
)
from napari_mst.cube import Provenance, SpectralCube
from napari_mst.formats import write_cube


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
        self, job: BatchJob, done: set[Path], progress: Progress
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

    def make(self, job: BatchJob, done: set[Path], progress: Progress, *, waits: bool) -> bool:
        """Make the outputs of *job* that are not *done*.

        Returns False if another run is making them, and this one does not wait.
        """
        with claimed(job, progress, waits=waits) as is_ours:
            if is_ours:
                # Another run may have finished some outputs since they were looked at.
                is_done = done.issuperset(job.outputs)
                done = done if is_done else self.finished(job)
                for path in self.damaged(job, done):
                    set_aside(path)
                self.write(job, done, progress)
            return is_ours

    def write(self, job: BatchJob, done: set[Path], progress: Progress) -> None:
        """Make and save the outputs of *job* that are not *done*."""
        check_outputs(job, self.overwrite, done)
        # A cancel ends a save, too, whose progress nobody follows.
        saving = Progress(is_cancelled=progress.is_cancelled)
        for path, cube in self.cubes(job, done, progress):
            if cube is not None:
                path = write_cube(path, cube, overwrite=self.overwrite, progress=saving)
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


Make = Callable[[BatchJob], Sequence[str]]
"""Makes the outputs of a job, and returns what it would print."""

TRIES = 3
"""Workers that may die of one photo; after that it has failed."""

# A forked process would inherit locks that threads of this one hold.
_SPAWN = get_context("spawn")


class Outcome(NamedTuple):
    """The end of one job.

    Attributes
    ----------
    lines
        The text that a run in one process would have printed.
    error
        The sentence that says why it failed; "" if it did not.
    """

    job: BatchJob
    lines: tuple[str, ...] = ()
    error: str = ""


def outcomes(
    make: Make, jobs: Sequence[BatchJob], workers: int, report: Report
) -> Iterator[Outcome]:
    """Make *jobs* in *workers* processes; yields each as it ends, in any order.

    *make* is pickled and sent to each worker once. A worker that dies leaves its job to another, of
    which *report* gets one line.
    """
    # multiprocessing itself would send tensors through shared memory and a socket.
    packed = pickle.dumps(make)
    count = min(workers, len(jobs))
    threads = max(1, (os.cpu_count() or 1) // max(count, 1))
    idle = [_Worker(packed, threads) for _ in range(count)]
    busy: dict[object, _Worker] = {}
    todo = deque(jobs)
    deaths = Counter[BatchJob]()
    try:
        while todo or busy:
            while todo and idle:
                worker = idle.pop()
                busy[worker.pipe] = worker
                worker.begin(todo.popleft())
            for pipe in wait([worker.pipe for worker in busy.values()]):
                worker = busy.pop(pipe)
                job, outcome = worker.job, worker.outcome()
                if outcome is not None:
                    idle.append(worker)
                    yield outcome
                    continue
                death = worker.end()
                idle.append(_Worker(packed, threads))
                deaths[job] += 1
                if deaths[job] < TRIES:
                    report(f"note: {job.name}: its worker {death}, another makes it")
                    todo.append(job)
                else:
                    error = (
                        f"Expected a worker to make the cube, got {TRIES} dead ones: the last "
                        f"{death}. Use fewer workers, which share the memory."
                    )
                    yield Outcome(job, error=error)
    finally:
        for worker in (*idle, *busy.values()):
            worker.end()


class _Worker:
    """A process that makes one job after the other."""

    job: BatchJob

    def __init__(self, packed: bytes, threads: int) -> None:
        self.pipe, theirs = _SPAWN.Pipe()
        arguments = (packed, theirs, threads)
        self._process = _SPAWN.Process(target=_work, args=arguments, daemon=True)
        self._process.start()
        # The last other end is the worker's, so that the pipe ends with it.
        theirs.close()

    def begin(self, job: BatchJob) -> None:
        self.job = job
        # If the worker is dead, `outcome` says so.
        with suppress(ConnectionError):
            self.pipe.send(job)

    def outcome(self) -> Outcome | None:
        """The end of its job; None if the worker died before."""
        try:
            return Outcome(self.job, *self.pipe.recv())
        except (EOFError, ConnectionError):
            return None

    def end(self) -> str:
        """End the process, and say how it ended."""
        self.pipe.close()
        self._process.terminate()
        self._process.join()
        status = self._process.exitcode or 0
        return f"died of {signal.Signals(-status).name}" if status < 0 else f"ended with {status}"


def made(make: Make, job: BatchJob) -> tuple[tuple[str, ...], str]:
    """Make *job* in a worker: its lines, and the sentence of its error."""
    try:
        return tuple(make(job)), ""
    except NapariMstError as error:
        return (), str(error)
    except Exception as error:  # noqa: BLE001 (the photos after it must not miss their worker)
        reason = f"{type(error).__name__}: {shown(error, 80)}"
        return (), f"Expected to make the cube, got {reason}. Try this photo alone."


def _work(packed: bytes, pipe: Connection, threads: int) -> None:
    # The cores are shared; torch reads this when the reconstructor is unpacked.
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    # The pipe ends with the run; Ctrl-C reaches all of its processes.
    with suppress(EOFError, ConnectionError, KeyboardInterrupt):
        make = pickle.loads(packed)  # noqa: S301 (the parent's own)
        while True:
            pipe.send(made(make, pipe.recv()))
