"""The photos of a batch on the workers of dask.distributed: those of this computer, or a cluster's.

A worker makes a cube as a run of its own would: it claims the cube, leaves what is finished, and
saves crash-safely. So a job that is done twice, after a worker was killed, makes its cube once.
"""

import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

from napari_mst.batch.jobs import BatchJob
from napari_mst.errors import ClusterError, NapariMstError
from napari_mst.messages import shown

if TYPE_CHECKING:
    from distributed import Client

Make = Callable[[BatchJob], Sequence[str]]
"""Makes the outputs of a job, and returns what it would print."""

TIMEOUT = 30
"""Seconds that a scheduler may take to answer."""

TRIES = 3
"""Workers that may die of one photo; after that it has failed."""


class Place(NamedTuple):
    """The workers of a batch.

    Attributes
    ----------
    workers
        How many processes to start on this computer; 0 for those of *scheduler*.
    scheduler
        The address of a scheduler of dask.distributed, as "tcp://host:8786".
    """

    workers: int = 0
    scheduler: str = ""


class Outcome(NamedTuple):
    """The end of one job.

    Attributes
    ----------
    lines
        The text that a run on one computer would have printed.
    error
        The sentence that says why it failed; "" if it did not.
    """

    job: BatchJob
    lines: tuple[str, ...] = ()
    error: str = ""


def outcomes(make: Make, jobs: Sequence[BatchJob], place: Place) -> Iterator[Outcome]:
    """Make *jobs* on the workers of *place*; yields each as it ends, in any order.

    *make* is sent to each worker once, and called there from one thread at a time.

    Raises
    ------
    ClusterError
        If dask.distributed is not installed, the scheduler does not answer, or it goes away.
    """
    if find_spec("distributed") is None:
        advice = 'Run: pip install "napari-mst[cluster]"'
        raise ClusterError(f"Expected dask.distributed, got none. {advice}")
    with _client(place) as client:
        yield from _ended(client, make, jobs)


@contextmanager
def _client(place: Place) -> "Iterator[Client]":
    """A client of the workers of *place*; the processes that it starts end with it."""
    import dask.config
    from distributed import Client, LocalCluster
    from distributed.utils import silence_logging_cmgr

    if place.scheduler:
        try:
            client = Client(place.scheduler, timeout=TIMEOUT)
        except (OSError, ValueError, TimeoutError) as error:
            raise ClusterError(
                f"Expected a scheduler at {shown(place.scheduler)}, got: {shown(error, 80)}. "
                "Start it, or correct the address."
            ) from None
        # dask would write pages about a scheduler that goes away; our error is one sentence.
        with silence_logging_cmgr(logging.CRITICAL), client:
            yield client
        return
    threads = max(1, (os.cpu_count() or 1) // place.workers)
    # Instead of dask's own variables, of which one makes glibc give back memory all the time.
    environment = {"distributed.nanny.pre-spawn-environ": {"OMP_NUM_THREADS": str(threads)}}
    with (
        _unchanged_environment(),
        dask.config.set(environment),
        # Its limit would end workers whose memory the plan has counted.
        LocalCluster(
            n_workers=place.workers,
            threads_per_worker=1,
            memory_limit=0,
            dashboard_address=None,
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


@contextmanager
def _unchanged_environment() -> Iterator[None]:
    """Undo what a block does to the environment: dask sets it here, for the workers to inherit."""
    before = dict(os.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _ended(client: "Client", make: Make, jobs: Sequence[BatchJob]) -> Iterator[Outcome]:
    from distributed import as_completed

    # The result of a task goes from worker to worker, and is made again if all of them die.
    sent = client.submit(_unchanged, make)
    job_of: dict[Any, BatchJob] = {}
    for job in jobs:
        job_of[client.submit(_made, sent, job, pure=False, retries=TRIES - 1)] = job
    for future in as_completed(job_of):
        yield _outcome(future, job_of[future])


def _outcome(future: Any, job: BatchJob) -> Outcome:
    # A result that was lost with its worker is made again, and this waits for it.
    failure = future.exception()
    if failure is not None:
        reason = shown(failure, 120)
        return Outcome(job, error=f"Expected a worker to make it, got: {reason}. Start it again.")
    if not future.cancelled():
        lines, error = future.result()
        return Outcome(job, lines, error)
    # A scheduler that goes away takes all futures with it.
    raise ClusterError(
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
        try:
            return tuple(make(job)), ""
        except NapariMstError as error:
            return (), str(error)
