"""Workers of dask.distributed that make the cubes of a batch: on this computer, or on a cluster.

A plugin takes the batch, with its model, to each worker once, also to those that come later. Jobs
follow one by one, so that a worker that dies costs one photo, and the scheduler of a million photos
holds few tasks.
"""

import hashlib
import logging
import os
import pickle
import signal
import threading
import time
import warnings
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, suppress
from dataclasses import replace
from importlib.resources import files as files_of_package
from io import StringIO
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any
from uuid import uuid4

import dask
from distributed import (
    Client,
    Future,
    KilledWorker,
    LocalCluster,
    Security,
    WorkerPlugin,
    get_worker,
)
from distributed.utils import silence_logging_cmgr

from napari_mst.base.errors import Cancelled, ClusterError, NapariMstError, SaveError, shown
from napari_mst.base.memory import free_host_memory
from napari_mst.base.progress import Progress
from napari_mst.batch.batch import Batch, Outcome, later
from napari_mst.batch.jobs import BatchJob, Report, absolute
from napari_mst.batch.storage import is_there, marked, named, url_of

TRIES = 3
"""Workers of this computer that may die of one photo; after that it has failed."""

TIMEOUT = 30
"""Seconds that a scheduler may take to answer, and to get its first worker."""

SHARE = 0.6
"""Share of the memory of a worker that a run takes: dask stops a worker at 0.8, ends it at 0.95."""

GRACE = 10.0
"""Seconds that a worker takes at most to put its files in order after a cancel."""


@contextmanager
def connected(workers: int, scheduler: str) -> Iterator[tuple[Client, int | None]]:
    """A client of so many *workers* of this computer, or else of those of a *scheduler*.

    Yields the client, and the bytes of memory that a run on one of its workers may take; None if
    the workers have no limit.

    Parameters
    ----------
    scheduler
        Its address, as "tls://host:8786", or the file that it has written. Certificates are those
        of dask's configuration.

    Raises
    ------
    ClusterError
        If it does not answer, has no worker, or runs other versions than this process.
    """
    # dask would write pages about a worker that dies; our lines are one sentence.
    with silence_logging_cmgr(logging.CRITICAL):
        if not workers:
            with _client_of(scheduler) as client:
                check_versions(client)
                info = client.scheduler_info()["workers"].values()
                limits = [worker["memory_limit"] for worker in info if worker["memory_limit"]]
                yield client, int(SHARE * min(limits)) if limits else None
            return
        threads = os.environ.get("OMP_NUM_THREADS", max(1, (os.cpu_count() or 1) // workers))
        # dask would have malloc give back all that is freed, which slows runs down.
        environ = {"OMP_NUM_THREADS": threads}
        with (
            dask.config.set({"distributed.nanny.pre-spawn-environ": environ}),
            _kept_environ(),
            LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                memory_limit=0,  # runs keep to their share by themselves
                security=Security.temporary(),
                dashboard_address="127.0.0.1:0",
                silence_logs=logging.CRITICAL,
                scheduler_kwargs={"allowed_failures": TRIES - 1},
            ) as cluster,
            # dask of the same program, as xarray's, is not to use it.
            Client(cluster, set_as_default=False) as client,
        ):
            yield client, free_host_memory() // workers


@contextmanager
def _kept_environ() -> Iterator[None]:
    """Take away again what dask leaves in the environment, which other processes would inherit."""
    before = dict(os.environ)
    try:
        yield
    finally:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]


def _client_of(scheduler: str) -> Client:
    is_file = "://" not in scheduler
    try:
        if is_file:
            Path(scheduler).stat()  # dask would wait for the file, however long
        with warnings.catch_warnings(action="ignore"):  # of versions, which are checked
            client = Client(
                address=None if is_file else scheduler,
                scheduler_file=scheduler if is_file else None,
                timeout=TIMEOUT,
                set_as_default=False,
            )
            try:
                client.wait_for_workers(1, timeout=TIMEOUT)
            except BaseException:
                client.close()
                raise
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        raise ClusterError(
            f"Expected a scheduler with workers at {shown(scheduler)}, got: {shown(error, 120)}. "
            "Start it, or correct the address."
        ) from None
    return client


def check_versions(client: Client) -> None:
    """Refuse workers that would make other cubes, or none. Raises `ClusterError`."""
    versions: Any = client.get_versions(packages=["napari-mst"])
    ours = versions["client"]["packages"]
    others = {"the scheduler": versions["scheduler"], **versions["workers"]}
    for name in ("dask", "distributed", "napari-mst"):
        for who, facts in others.items():
            theirs = facts["packages"].get(name)
            if theirs != ours[name] and (name, who) != ("napari-mst", "the scheduler"):
                raise ClusterError(
                    f"Expected {name} {ours[name]} on all workers, got {theirs or 'none'} on {who}."
                    " Install the same version there."
                )
    weights = weights_sha256()
    for who, theirs in client.run(weights_sha256).items():
        if theirs != weights:
            raise ClusterError(
                f"Expected the weights of models that this computer has, got others on {who}. "
                "Install the same napari-mst there."
            )


def weights_sha256() -> str:
    """The SHA-256 of all weights that are in the package."""
    files = files_of_package("napari_mst.models").joinpath("weights").iterdir()
    return hashlib.sha256(b"".join(sorted(file.read_bytes() for file in files))).hexdigest()


def check_places(client: Client, folder: Path, photo: Path) -> None:
    """Refuse workers that do not see the *folder* of the cubes, or the *photo*.

    Raises
    ------
    ClusterError
        If one does not.
    """
    with marked(absolute(folder)) as mark:
        for path, place in ((mark, folder), (absolute(photo), photo)):
            for who, is_seen in client.run(is_there, path).items():
                if not is_seen:
                    raise ClusterError(
                        f"Expected every worker to see {shown(named(place))}, got none on {who}. "
                        "Mount it there, or use object storage."
                    )


class _BatchThere(WorkerPlugin):
    """Makes jobs of a batch on a worker."""

    def __init__(self, batch: Batch) -> None:
        # Unpacked by the first job: it imports torch, for which the worker must not stand still.
        self._packed = pickle.dumps(batch)
        self.name = f"napari-mst-{uuid4()}"

    def setup(self, worker: Any) -> None:
        """See `WorkerPlugin`."""
        # A worker of a cluster may have several threads, a reconstructor takes one at a time.
        self._lock = threading.Lock()
        self._cancelled = threading.Event()
        self._room = worker.local_directory
        self._batch: Batch | None = None
        # Ctrl-C reaches all processes of a terminal; the run itself ends its workers.
        self._before = None
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, signal.SIG_IGN)

    def teardown(self, worker: Any) -> None:  # noqa: ARG002 (dask gives it by name)
        """See `WorkerPlugin`; waits for the job, which is cancelled."""
        self._cancelled.set()
        if self._lock.acquire(timeout=GRACE):
            self._lock.release()
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def make(self, job: BatchJob, waits: bool) -> bool:
        """See `Batch.make`."""
        progress = Progress(is_cancelled=self._cancelled.is_set)
        with self._lock, redirect_stderr(StringIO()):
            if self._batch is None:
                self._batch = pickle.loads(self._packed)  # noqa: S301 (the client's own)
            if not (url_of(job.target) or job.target.parent.is_dir()):
                raise SaveError(
                    f"Expected the folder {shown(job.target.parent)} on the worker, got none. "
                    "Mount it there, or use object storage."
                )
            return self._batch.make(job, progress, waits=waits, room=self._room)


def _made(name: str, job: BatchJob, waits: bool) -> bool:
    """Make *job* on this worker."""
    plugin: Any = get_worker().plugins.get(name)
    if plugin is None:
        raise ClusterError(
            "Expected a worker with napari-mst, got one that could not take the model. "
            "Install the same version there."
        )
    made: bool = plugin.make(job, waits)
    return made


class _Running:
    """The jobs that the workers of *client* are making: as many as the workers have threads."""

    def __init__(self, client: Client, name: str) -> None:
        self._client, self._name = client, name
        self._slots, self._counted = 0, -1.0
        self.jobs = dict[Any, tuple[Future[Any], BatchJob]]()
        # What the loop of the client hears of: futures that are done, keys of workers that died.
        self._heard = SimpleQueue[Future[Any] | set[Any]]()
        client.subscribe_topic("all", self._hear)

    def begin(self, todo: deque[tuple[BatchJob, bool]]) -> None:
        """Send jobs of *todo* to workers that have none."""
        if time.monotonic() - self._counted > 1:  # workers come and go
            self._slots = max(1, sum(self._client.nthreads().values()))
            self._counted = time.monotonic()
        while todo and len(self.jobs) < self._slots:
            job, waits = todo.popleft()
            photo, target, *bands = map(absolute, (job.photo, *job.outputs))
            place = replace(job, photo=photo, target=target, bands=tuple(bands))
            future = self._client.submit(_made, self._name, place, waits, pure=False)
            self.jobs[future.key] = future, job
            future.add_done_callback(self._heard.put)

    def ended(self, report: Report) -> Future[Any] | None:
        """The next job that has ended; None if none did for a moment. *report* hears of deaths."""
        try:
            event = self._heard.get(timeout=0.2)
        except Empty:
            return None
        if not isinstance(event, set):
            return event
        for key in event & self.jobs.keys():
            report(f"note: {self.jobs[key][1].name}: its worker died, another makes it")
        return None

    def end(self) -> None:
        """Forget the jobs that have not ended."""
        self._client.unsubscribe_topic("all")
        self._client.cancel([future for future, _ in self.jobs.values()])

    def _hear(self, event: tuple[float, Any]) -> None:
        _, message = event
        if message["action"] == "remove-worker" and not message["expected"]:
            self._heard.put(set(message["processing-tasks"]))


@contextmanager
def _running(client: Client, batch: Batch) -> Iterator[_Running]:
    """Send *batch* to all workers for the block. Raises `ClusterError` if the scheduler goes."""
    plugin = _BatchThere(batch)
    try:
        client.register_plugin(plugin)
        running = _Running(client, plugin.name)
        try:
            yield running
        finally:
            with suppress(OSError, RuntimeError):  # it may be gone, which what follows says
                running.end()
                client.unregister_worker_plugin(plugin.name)
    except NapariMstError:
        raise
    except OSError:
        raise _gone() from None


def outcomes_of_workers(
    batch: Batch,
    todo: deque[tuple[BatchJob, bool]],
    client: Client,
    progress: Progress,
    report: Report,
) -> Iterator[Outcome]:
    """See `outcomes`; *todo* has the jobs, and whether each waits for another run."""
    with _running(client, batch) as running:
        while todo or running.jobs:
            running.begin(todo)
            progress.check()
            future = running.ended(report)
            if future is None:
                continue
            _, job = running.jobs.pop(future.key)
            is_ours, error = _result(future)
            if is_ours:
                yield Outcome(job, error)
            else:
                later(todo, job, report)


def _result(future: Future[Any]) -> tuple[bool, NapariMstError | None]:
    """False if another run is making the job of *future*; and the error that ended it."""
    if future.cancelled():
        raise _gone()  # a scheduler that goes away takes all futures with it
    # A result that was lost with its worker is made again, and this waits for it.
    error: Any = future.exception()
    if error is None:
        return future.result(), None
    if isinstance(error, NapariMstError) and not isinstance(error, Cancelled):
        return True, error
    if isinstance(error, KilledWorker):
        return True, ClusterError(
            f"Expected a worker to make the cube, got {error.allowed_failures + 1} dead ones. "
            "Use fewer workers, which share the memory."
        )
    reason = f"{type(error).__name__}: {shown(error, 80)}"
    return True, ClusterError(f"Expected to make the cube, got {reason}. Try this photo alone.")


def _gone() -> ClusterError:
    return ClusterError(
        "Expected the scheduler to stay, got none any more. What is done stays; "
        "start the same command again."
    )
