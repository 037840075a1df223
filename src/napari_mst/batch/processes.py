"""The photos of a batch in several processes, of this computer or of a dask cluster.

A worker of either makes a cube as a run of its own would: it claims the cube, leaves what is
finished, and saves crash-safely. So a job that is done twice, after a worker was killed, makes its
cube once.

On this computer jobs and results go through pipes that only this process and the worker hold: there
is no address to which another user could connect. A worker ends with this process, however that
ends.
"""

import logging
import os
import pickle
import signal
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any, NamedTuple

from napari_mst.batch.jobs import BatchJob, Report
from napari_mst.errors import ClusterError, NapariMstError, shown

if TYPE_CHECKING:
    from distributed import Client

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
