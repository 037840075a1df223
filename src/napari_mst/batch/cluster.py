"""Makes the cubes of a batch on dask.distributed workers, on this computer or on a cluster.

A plugin sends the batch, with its model, to each worker once, including workers that join later.
Only as many jobs are submitted as the workers have threads. So a worker that dies costs one photo,
and the scheduler holds few tasks even for a million photos.
"""

import hashlib
import logging
import os
import pickle
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, suppress
from dataclasses import replace
from importlib.metadata import version
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

from napari_mst import __version__
from napari_mst.base.errors import Cancelled, ClusterError, NapariMstError, SaveError, shown
from napari_mst.base.memory import free_host_memory
from napari_mst.base.progress import Progress
from napari_mst.batch.batch import Batch, Outcome, Todo
from napari_mst.batch.jobs import BatchJob, Report, absolute
from napari_mst.batch.storage import is_there, marked, named, url_of

TRIES = 3
"""Number of local workers that may die of one photo before it counts as failed."""

TIMEOUT = 30
"""Seconds for a scheduler to answer, and to get its first worker."""

SHARE = 0.6
"""Share of a worker's memory for a run: dask pauses a worker at 0.8 and ends it at 0.95."""

GRACE = 10.0
"""Seconds for a worker to put its files in order after a cancellation."""


@contextmanager
def connected(workers: int, scheduler: str) -> Iterator[tuple[Client, int | None]]:
    """Connect to *workers* new processes on this computer, or to the workers of a *scheduler*.

    Yields the client, and the memory in bytes for a run on one of its workers; None if the workers
    have no limit.

    Parameters
    ----------
    scheduler
        Address of a scheduler, such as "tls://host:8786", or the file that it has written.
        Certificates come from dask's configuration.

    Raises
    ------
    ClusterError
        If the scheduler does not answer, or has no worker.
    """
    # dask would print pages about a worker that dies, where one sentence is enough.
    with silence_logging_cmgr(logging.CRITICAL):
        if not workers:
            with _client_of(scheduler) as client:
                info = client.scheduler_info()["workers"].values()
                limits = [worker["memory_limit"] for worker in info if worker["memory_limit"]]
                yield client, int(SHARE * min(limits)) if limits else None
            return
        threads = os.environ.get("OMP_NUM_THREADS", max(1, (os.cpu_count() or 1) // workers))
        # dask's own environment makes malloc return all freed memory, which slows runs down.
        environ = {"OMP_NUM_THREADS": threads}
        settings = {
            "distributed.nanny.pre-spawn-environ": environ,
            # By default, each process wakes 50 times a second to monitor itself, and workers 100
            # times to profile Python, which takes 4 % of two cores.
            "distributed.admin.tick.interval": "1s",
            "distributed.worker.profile.enabled": False,
        }
        with (
            dask.config.set(settings),
            _kept_environ(),
            LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                memory_limit=0,  # runs limit their memory themselves
                security=Security.temporary(),
                dashboard_address="127.0.0.1:0",
                silence_logs=logging.CRITICAL,
                plugins=(_Undisturbed(),),
                scheduler_kwargs={"allowed_failures": TRIES - 1},
            ) as cluster,
            # Other users of dask in this program, such as xarray, must not use this client.
            Client(cluster, set_as_default=False) as client,
        ):
            yield client, free_host_memory() // workers


@contextmanager
def _kept_environ() -> Iterator[None]:
    """Remove variables that dask leaves in the environment, which other processes would inherit."""
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
            Path(scheduler).stat()  # dask would wait for the file indefinitely
        with warnings.catch_warnings(action="ignore"):  # about versions, which are checked below
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


def check_workers(client: Client, folder: Path, photo: Path) -> None:
    """Check that all workers would make the same cubes, and see the *folder* and the *photo*.

    Raises
    ------
    ClusterError
        If a worker does not.
    """
    _check_versions(client)
    with marked(absolute(folder)) as mark:
        for path, place in ((mark, folder), (absolute(photo), photo)):
            for who, is_seen in client.run(is_there, path).items():
                if not is_seen:
                    raise ClusterError(
                        f"Expected every worker to see {shown(named(place))}, got none on {who}. "
                        "Mount it there, or use object storage."
                    )


def _check_versions(client: Client) -> None:
    # A worker without this package can only answer dask's own requests.
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
    fingerprint = installed()
    # If a worker dies meanwhile, dask starts another, which is checked by its first job.
    for who, theirs in client.run(installed, on_error="ignore").items():
        if theirs != fingerprint:
            raise ClusterError(
                f"Expected the weights of models that this computer has, got others on {who}. "
                "Install the same napari-mst there."
            )


def installed() -> str:
    """Return the SHA-256 of the versions of this package and of dask, and of all weights."""
    files = files_of_package("napari_mst.models").joinpath("weights").iterdir()
    versions = f"{__version__} {version('dask')}".encode()
    parts = [versions, *sorted(file.read_bytes() for file in files)]
    return hashlib.sha256(b"".join(parts)).hexdigest()


class _Undisturbed(WorkerPlugin):
    """Makes workers ignore Ctrl-C, which reaches all processes of a terminal; the run ends them."""

    def setup(self, worker: Any) -> None:  # noqa: ARG002 (dask gives it by name)
        """See `WorkerPlugin`."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _plugin_of(batch: Batch) -> Any:
    """Return a plugin that sends *batch* to each worker, including workers that join later."""

    # dask sends a local class as code, so it loads even on a worker without this package, which
    # then fails in its first job. A plugin that dask cannot load would end the worker silently.
    class BatchThere(WorkerPlugin):
        def setup(self, worker: Any) -> None:
            # A worker may have several threads, but a reconstructor takes one at a time.
            self.lock, self.cancelled = threading.Lock(), threading.Event()
            self.room, self.batch = worker.local_directory, None

        def teardown(self, worker: Any) -> None:  # noqa: ARG002 (dask gives it by name)
            self.cancelled.set()
            if self.lock.acquire(timeout=GRACE):
                self.lock.release()

        def make(self, packed: bytes) -> None:
            from napari_mst.batch import cluster

            with self.lock:
                cluster.make_there(self, *pickle.loads(packed))  # noqa: S301 (the client's own)

    plugin: Any = BatchThere()
    plugin.name, plugin.installed = f"napari-mst-{uuid4()}", installed()
    plugin.packed = pickle.dumps(batch)
    return plugin


def make_there(plugin: Any, job: BatchJob, waits: bool) -> None:
    """Make *job* on a worker that has received the batch by *plugin*."""
    with redirect_stderr(StringIO()):
        if plugin.batch is None:
            if plugin.installed != installed():
                raise ImportError("another napari-mst")  # the client finds the difference
            # Unpickled here, since it imports much, which would block a worker that is joining.
            plugin.batch = pickle.loads(plugin.packed)  # noqa: S301 (the client's own)
        if not (url_of(job.target) or job.target.parent.is_dir()):
            raise SaveError(
                f"Expected the folder {shown(job.target.parent)} on the worker, got none. "
                "Mount it there, or use object storage."
            )
        progress = Progress(is_cancelled=plugin.cancelled.is_set)
        plugin.batch.make(job, progress, waits=waits, room=plugin.room)


@contextmanager
def _there(client: Client, plugin: Any) -> Iterator[SimpleQueue[Any]]:
    """Install *plugin* on all workers for a `with` block.

    Yields a queue to which the loop of *client* adds the key of each job that lost its worker.
    Raises `ClusterError` if the scheduler disappears.
    """
    heard = SimpleQueue[Any]()

    def hear(event: tuple[float, Any]) -> None:
        _, message = event
        if message["action"] == "remove-worker" and not message["expected"]:
            for key in message["processing-tasks"]:
                heard.put(key)

    try:
        client.register_plugin(plugin)
        client.subscribe_topic("all", hear)
        yield heard
    except NapariMstError:
        raise
    except OSError:
        raise _gone() from None
    finally:
        with suppress(OSError, RuntimeError, ValueError):  # it may be gone, as reported above
            client.unsubscribe_topic("all")
            client.unregister_worker_plugin(plugin.name)


def made_by_workers(
    batch: Batch, todo: Todo, client: Client, progress: Progress, report: Report
) -> Iterator[Outcome]:
    """Run the jobs of *todo* on the workers of *client*; see `outcomes`."""
    running, counted = dict[Any, tuple[Future[Any], BatchJob]](), -1.0
    plugin = _plugin_of(batch)

    def make(name: str, packed: bytes) -> None:  # goes as code, like the plugin
        plugin: Any = get_worker().plugins[name]
        plugin.make(packed)

    with _there(client, plugin) as heard:
        while todo or running:
            if time.monotonic() - counted > 1:  # workers come and go
                slots, counted = max(1, sum(client.nthreads().values())), time.monotonic()
            while todo and len(running) < slots:
                job, waits = todo.popleft()
                photo, target, *bands = map(absolute, (job.photo, *job.outputs))
                place = replace(job, photo=photo, target=target, bands=tuple(bands))
                packed = pickle.dumps((place, waits))
                future = client.submit(make, plugin.name, packed, pure=False)
                running[future.key] = future, job
                future.add_done_callback(heard.put)
            progress.check()
            with suppress(Empty):
                event = heard.get(timeout=0.2)
                if isinstance(event, Future):
                    _, job = running.pop(event.key)
                    yield Outcome(job, _error_of(event, client))
                elif event in running:
                    _, job = running[event]
                    report(f"note: {job.name}: its worker died, another makes it")


def _error_of(future: Future[Any], client: Client) -> NapariMstError | None:
    """Return the error that ended the job of *future*; None if its cubes are saved.

    Raises
    ------
    ClusterError
        If its worker, which joined late, would make different cubes than *client*, or none.
    """
    if future.cancelled():
        raise _gone()  # a scheduler that disappears cancels all futures
    # Waits for the repetition of a job whose result was lost with its worker.
    error: Any = future.exception()
    if error is None or (isinstance(error, NapariMstError) and not isinstance(error, Cancelled)):
        return error
    if isinstance(error, KilledWorker):
        return ClusterError(
            f"Expected a worker to make the cube, got {error.allowed_failures + 1} dead ones. "
            "Use fewer workers, which share the memory."
        )
    _check_versions(client)
    reason = f"{type(error).__name__}: {shown(error, 80)}"
    return ClusterError(f"Expected to make the cube, got {reason}. Try this photo alone.")


def _gone() -> ClusterError:
    return ClusterError(
        "Expected the scheduler to stay, got none any more. What is done stays; "
        "start the same command again."
    )
