"""The photos of a batch on the workers of a cluster of dask.distributed.

A worker makes a cube as a run of its own would: it claims the cube, leaves what is finished, and
saves crash-safely. So a job that is done twice, after a worker was killed, makes its cube once.
"""

import logging
import threading
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from napari_mst.batch.jobs import BatchJob
from napari_mst.batch.processes import Make, Outcome, made
from napari_mst.errors import ClusterError
from napari_mst.messages import shown

if TYPE_CHECKING:
    from distributed import Client

TIMEOUT = 30
"""Seconds that a scheduler may take to answer."""


def outcomes(make: Make, jobs: Sequence[BatchJob], scheduler: str) -> Iterator[Outcome]:
    """Make *jobs* on the workers of a *scheduler*; yields each as it ends, in any order.

    *make* is sent to each worker once, and called there from one thread at a time.

    Parameters
    ----------
    scheduler
        Its address, as "tls://host:8786". Whoever can connect to it can run code in its workers;
        with tls:// the certificates are those of dask's configuration.

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
        yield from _ended(client, make, jobs)


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
            reason = f"{failure.allowed_failures + 1} that died of it; their logs tell more"
        return Outcome(job, error=f"Expected a worker to make it, got {reason}. Start it again.")
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
        return made(make, job)
