"""The cubes of a batch: one after the other, or in several processes of this computer or a cluster.

Finished cubes stay, and other runs share the work. A worker of either kind makes a cube as a run of
its own would: it claims the cube, leaves what is finished, and saves crash-safely. So a job that is
done twice, after a worker was killed, makes its cube once.

On this computer jobs and results go through pipes that only this process and the worker hold: there
is no address to which another user could connect. A worker ends with this process, however that
ends.
"""

import logging
import os
import pickle
import signal
import threading
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

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
from napari_mst.errors import Cancelled, ClusterError, NapariMstError, shown
from napari_mst.formats import write_cube
from napari_mst.watch import Watch

if TYPE_CHECKING:
    from distributed import Client


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


TIMEOUT = 30
"""Seconds that a scheduler may take to answer."""


def outcomes_of_cluster(make: Make, jobs: Sequence[BatchJob], scheduler: str) -> Iterator[Outcome]:
    """Make *jobs* on the workers of a *scheduler*; yields each as it ends, in any order.

    *make* is sent to each worker once, and called there from one thread at a time.

    Parameters
    ----------
    scheduler
        Its address, as "tls://host:8786". Anybody who can connect to it can run code in its
        workers; with tls:// the certificates are those of dask's configuration.

    Raises
    ------
    ClusterError
        If dask.distributed is not installed, the scheduler does not answer, or it goes away.
    """
    if find_spec("distributed") is None:
        advice = 'Run: pip install "napari-mst[cluster]"'
        raise ClusterError(f"Expected dask.distributed, got none. {advice}")
    from distributed.utils import silence_logging_cmgr

    # dask would write pages about a scheduler that goes away; our error is one sentence.
    with silence_logging_cmgr(logging.CRITICAL), _client(scheduler) as client:
        try:
            yield from _ended(client, make, jobs)
        except OSError:  # of the connection, if the scheduler goes while it is being asked
            raise _gone() from None


def _client(scheduler: str) -> "Client":
    from distributed import Client

    try:
        return Client(scheduler, timeout=TIMEOUT)
    except (OSError, ValueError, TypeError) as error:
        raise ClusterError(
            f"Expected a scheduler at {shown(scheduler)}, got: {shown(error, 80)}. "
            "Start it, or correct the address."
        ) from None


def _ended(client: "Client", make: Make, jobs: Sequence[BatchJob]) -> Iterator[Outcome]:
    from distributed import as_completed

    # The result of a task goes from worker to worker, and is made again if all of them die.
    sent = client.submit(_unchanged, make)
    job_of: dict[Any, BatchJob] = {}
    for job in jobs:
        job_of[client.submit(_made, sent, job, pure=False)] = job
    for future in as_completed(job_of):
        yield _outcome(future, job_of[future])


def _outcome(future: Any, job: BatchJob) -> Outcome:
    from distributed import KilledWorker

    # A result that was lost with its worker is made again, and this waits for it.
    failure = future.exception()
    if failure is not None:
        reason = shown(failure, 120)
        if isinstance(failure, KilledWorker):
            reason = f"{failure.allowed_failures + 1} that died of it; their logs say more"
        return Outcome(job, error=f"Expected a worker to make it, got {reason}. Start it again.")
    if not future.cancelled():
        lines, error = future.result()
        return Outcome(job, lines, error)
    # A scheduler that goes away takes all futures with it.
    raise _gone()


def _gone() -> ClusterError:
    return ClusterError(
        "Expected the scheduler to stay, got none any more. What is done stays; "
        "start the same command again."
    )


def _unchanged(make: Make) -> Make:
    """Let the first worker hold what every worker needs."""
    return make


_one_at_a_time = threading.Lock()


def _made(make: Make, job: BatchJob) -> tuple[tuple[str, ...], str]:
    """Make *job* in a worker: its lines, and the sentence of its error."""
    # A worker of a cluster may have several threads, a reconstructor takes one at a time.
    with _one_at_a_time:
        return made(make, job)
