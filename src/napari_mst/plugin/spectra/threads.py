"""Starts work on a thread of Qt's pool, and tells of it on the thread of the window.

PySide6 and napari keep some workers and their slots after the work is over, and `Work` may hold a
cube. So a worker gets its work in a box that it empties, and its slots let go of everything at the
end.
"""

from collections.abc import Callable
from typing import Any

from napari.qt import threading as napari_threads
from superqt.utils import create_worker

from napari_mst.plugin.jobs.request import Reports
from napari_mst.plugin.jobs.worker import JobWorker
from napari_mst.plugin.spectra.work import Cancel, Work
from napari_mst.watch import UNWATCHED, Watch

Run = Callable[[Watch], Any]


def start_reading(work: Work) -> Cancel:
    """Start *work* that nobody waits for, such as the reading of a region that is dragged.

    napari would list each of these as a task. It reports no progress.
    """
    worker = create_worker(_read, [work.run], _ignore_errors=True, _start_thread=False)
    # Connected before it starts: a quick read could end while nobody listens.
    _listen(worker, worker.errored, work)
    worker.start()
    # `quit` cannot stop such a worker; the reader stops its tasks by an event of its own.
    cancel: Cancel = worker.quit
    return cancel


def start_job(work: Work) -> Cancel:
    """Start *work* that napari lists among its tasks."""
    worker = napari_threads.create_worker(
        _do, work.run, _worker_class=JobWorker, _ignore_errors=True, _start_thread=False
    )
    worker.reports.progressed.connect(work.on_progress)
    _listen(worker, worker.reports.failed, work)
    worker.start()
    cancel: Cancel = worker.quit
    return cancel


def _listen(worker: Any, failed: Any, work: Work) -> None:
    """Tell those who wait for *work*, until it has ended."""
    listeners = {"done": work.on_done, "failed": work.on_failed}
    last = [work.on_end]

    def on_end(*_: object) -> None:
        # PySide6 may keep this slot after the work is over: so nothing is left in what it holds.
        listeners.clear()
        last.pop()()

    worker.returned.connect(lambda result: listeners["done"](result))
    failed.connect(lambda error: listeners["failed"](error))
    worker.finished.connect(on_end)


def _read(box: list[Run]) -> Any:
    return box.pop()(UNWATCHED)


def _do(run: Run, reports: Reports) -> Any:
    return run(reports.watch)
