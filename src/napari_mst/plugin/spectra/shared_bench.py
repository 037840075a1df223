"""The bench of a viewer, which all docks of that viewer show: it listens while one is seen."""

import time
import weakref
from collections.abc import Callable
from typing import Any

from napari.components import ViewerModel
from napari.qt import threading as napari_threads
from napari.utils.notifications import show_error
from qtpy.QtCore import QObject, Qt, QTimer
from qtpy.QtWidgets import QApplication
from superqt.utils import create_worker

from napari_mst.plugin.jobs.request import Reports
from napari_mst.plugin.jobs.worker import JobWorker
from napari_mst.plugin.spectra.bench import Bench
from napari_mst.plugin.spectra.reader import Cancel, Work
from napari_mst.plugin.viewer.canvas_mouse import CanvasMouse
from napari_mst.plugin.viewer.picks import Position
from napari_mst.plugin.viewer.sharing import shared
from napari_mst.plugin.viewer.slots import calling
from napari_mst.watch import UNWATCHED, Watch

INTERVAL = 25
"""Milliseconds between two drawings, at least."""
REST = 3
"""A drawing rests so many times its own length, as some cubes are slow to read."""


class Pace(QObject):
    """Calls *draw* when it is asked to, but never twice within `INTERVAL`."""

    def __init__(self, draw: Callable[[], None], parent: QObject) -> None:
        super().__init__(parent)
        self.is_due = False
        self._draw = draw
        self._timer = QTimer(self, singleShot=True, interval=INTERVAL)
        self._timer.timeout.connect(self._on_timer)

    @property
    def is_resting(self) -> bool:
        """True while a drawing that is asked for has to wait."""
        return bool(self._timer.isActive())

    def draw_soon(self) -> None:
        """Draw within `INTERVAL`: whatever else changes until then is drawn along."""
        self.is_due = True
        if not self.is_resting:
            self._timer.start(INTERVAL)

    def draw_at_once(self) -> None:
        """Draw now, or as soon as the rest is over."""
        self.is_due = True
        if not self.is_resting:
            self.draw()

    def draw(self) -> None:
        """Draw now, and then rest."""
        begun = time.perf_counter()
        # Before it draws: a drawing may itself ask for another, as new picks are named in it.
        self.is_due = False
        self._draw()
        milliseconds = 1000 * (time.perf_counter() - begun)
        # The rest begins after the drawing, so that the window hears of the mouse in between.
        self._timer.start(max(INTERVAL, round(REST * milliseconds)))

    def stop(self) -> None:
        """Forget what was asked for, and rest no more."""
        self._timer.stop()
        self.is_due = False

    def _on_timer(self) -> None:
        # The timer also ends a rest, in which perhaps nobody has asked for anything.
        if self.is_due:
            self.draw()


class SharedBench:
    """Attaches a bench, and the mouse, to its viewer when the first dock joins.

    When the last dock leaves, everything that was read is let go of.
    """

    def __init__(self, viewer: ViewerModel) -> None:
        self.bench = Bench(viewer, start_reading, start_job)
        # Owned by Qt: Python may collect this object on a thread that is not that of the timer.
        self.pace = Pace(calling(self._update), QApplication.instance())
        weakref.finalize(self, self.pace.deleteLater).atexit = False
        self._mouse = CanvasMouse(self._on_move, self.bench.click, self.bench.undo)
        self._joined = 0
        # Also while no dock is seen: a file may be written then.
        self.bench.failed.connect(self._tell)
        self.bench.became_stale.connect(self.pace.draw_soon)

    @property
    def is_drawing(self) -> bool:
        """True while a redraw is due, or a cube is being read."""
        return self.pace.is_due or self.bench.is_busy

    def join(self, viewer: ViewerModel) -> None:
        """Listen to *viewer*, that of the bench: a dock is seen."""
        self._joined += 1
        self._mouse.attach(viewer)
        self.bench.attach()

    def leave(self, viewer: ViewerModel | None) -> None:
        """Listen no more if it was the last dock that is gone; None: the viewer is closed."""
        self._joined -= 1
        if self._joined:
            return
        # A drawing that is still due would read everything again, perhaps of a closed viewer.
        self.pace.stop()
        self.bench.maps.cancel()
        self.bench.detach()
        if viewer is not None:
            self._mouse.detach(viewer)

    def _update(self) -> None:
        # While a button is down, points may be on their way somewhere.
        is_dragging = QApplication.mouseButtons() != Qt.MouseButton.NoButton
        self.bench.update(is_recording=not is_dragging)

    def _on_move(self, position: Position) -> None:
        self.bench.point_at(position)
        self.pace.draw_at_once()

    def _tell(self, error: Exception) -> None:
        show_error(str(error))


def bench_of(viewer: ViewerModel) -> SharedBench:
    """Return the bench that all docks of *viewer* show."""
    return shared(viewer, SharedBench)


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
