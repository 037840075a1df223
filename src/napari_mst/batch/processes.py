"""The photos of a batch in several processes of this computer.

Jobs and results go through pipes that only this process and the worker hold: there is no address to
which another user could connect. A worker ends with this process, however that ends.
"""

import os
import pickle
import signal
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import NamedTuple

from napari_mst.batch.finding import Tell
from napari_mst.batch.jobs import BatchJob
from napari_mst.errors import NapariMstError
from napari_mst.messages import shown

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


def outcomes(make: Make, jobs: Sequence[BatchJob], workers: int, tell: Tell) -> Iterator[Outcome]:
    """Make *jobs* in *workers* processes; yields each as it ends, in any order.

    *make* is pickled and sent to each worker once. A worker that dies leaves its job to another, of
    which *tell* gets one line.
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
                    tell(f"note: {job.name}: its worker {death}, another makes it")
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
