"""Runs a batch: one job after the other in this process, or on the workers of a dask client."""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from napari_mst.base.errors import Cancelled, ClusterError, NapariMstError
from napari_mst.base.progress import NO_PROGRESS, Progress
from napari_mst.batch.batch import Batch, ClaimedByAnother, Outcome, Todo
from napari_mst.batch.jobs import BatchJob, Report

if TYPE_CHECKING:
    from distributed import Client


@contextmanager
def connected(workers: int, scheduler: str) -> Iterator[tuple["Client | None", int | None]]:
    """See `cluster.connected`; without workers and scheduler, there is no client."""
    if not (workers or scheduler):
        yield None, None
        return
    if workers and scheduler:
        raise ClusterError("Expected --workers or --scheduler, got both. Leave one of them out.")
    try:
        from napari_mst.batch import cluster
    except ImportError as error:
        raise ClusterError(
            f"Expected dask.distributed for several processes, got no package {error.name}. "
            'Run: pip install "napari-mst[cluster]"'
        ) from error
    with cluster.connected(workers, scheduler) as found:
        yield found


def check_workers(client: "Client | None", jobs: Sequence[BatchJob], folder: Path) -> None:
    """See `cluster.check_workers`; the first of *jobs* represents all."""
    if client is not None and jobs:
        from napari_mst.batch import cluster

        cluster.check_workers(client, folder, jobs[0].photo)


def outcomes(
    batch: Batch,
    jobs: Sequence[BatchJob],
    client: "Client | None" = None,
    progress: Progress = NO_PROGRESS,
    report: Report = lambda _: None,
) -> Iterator[Outcome]:
    """Make *jobs* here, or on the workers of *client*; yields each outcome as it ends.

    A job claimed by another run is tried again at the end, in case that run was killed. *report*
    receives a line about it, and about each worker that died.

    Raises
    ------
    Cancelled
        Soon after *progress* was cancelled.
    ClusterError
        If the scheduler of *client* disappears.
    """
    todo: Todo = deque((job, False) for job in jobs)
    if client is None:
        ended = _made_here(batch, todo, progress)
    else:
        # Imports dask.distributed, which is an extra.
        from napari_mst.batch.cluster import made_by_workers

        ended = made_by_workers(batch, todo, client, progress, report)
    for job, error in ended:
        if isinstance(error, ClaimedByAnother):
            report(f"note: {job.name}: another run is making it; it is looked at again at the end")
            todo.append((job, True))
        else:
            yield Outcome(job, error)


def _made_here(batch: Batch, todo: Todo, progress: Progress) -> Iterator[Outcome]:
    count = len(todo)
    while todo:
        progress.check()
        job, waits = todo.popleft()
        error = None
        try:
            batch.make(job, progress.step(count - len(todo) - 1, count), waits=waits)
        except Cancelled:
            raise
        except NapariMstError as fault:
            error = fault
        yield Outcome(job, error)
