"""Starts work on a thread of Qt's pool, and tells of it on the thread of the window."""

from collections.abc import Callable
from typing import Any

from napari.qt import threading as napari_threads
from superqt.utils import create_worker

from napari_mst.plugin.jobs.request import Reports
from napari_mst.plugin.jobs.worker import JobWorker
from napari_mst.plugin.spectra.work import Cancel, Work
from napari_mst.watch import Watch


def start_reading(work: Work) -> Cancel:
    """Start *work* that nobody waits for, such as the reading of a region that is dragged.

    napari would list each of these as a task.
    """
    return _start(create_worker, work)


def start_job(work: Work) -> Cancel:
    """Start *work* that napari lists among its tasks."""
    return _start(napari_threads.create_worker, work)


def _start(create: Callable[..., Any], work: Work) -> Cancel:
    # PySide6 and napari keep some workers with their slots, and `work.run` may hold a cube: so the
    # worker empties its box when it begins, and no slot below holds `work` as a whole.
    worker = create(
        _run, work.run, _worker_class=JobWorker, _ignore_errors=True, _start_thread=False
    )
    on_end = work.on_end
    worker.reports.progressed.connect(work.on_progress)
    worker.returned.connect(work.on_done)
    worker.reports.failed.connect(work.on_failed)
    worker.finished.connect(lambda *_: on_end())
    worker.start()
    cancel: Cancel = worker.quit
    return cancel


def _run(run: Callable[[Watch], Any], reports: Reports) -> Any:
    return run(reports.watch)
