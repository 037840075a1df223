"""The bench of a viewer, which all docks of that viewer show: it listens while one is seen."""

import time
import weakref
from collections.abc import Callable
from functools import partial

from napari.components import ViewerModel
from napari.utils.notifications import show_error
from qtpy.QtCore import QObject, Qt, QTimer
from qtpy.QtWidgets import QApplication

from napari_mst.plugin.jobs.worker import start
from napari_mst.plugin.spectra.bench import Bench
from napari_mst.plugin.viewer.canvas_mouse import CanvasMouse
from napari_mst.plugin.viewer.picks import Position
from napari_mst.plugin.viewer.sharing import shared
from napari_mst.plugin.viewer.slots import calling

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
        self.bench = Bench(viewer, partial(start, is_listed=False), start)
        # Owned by Qt: Python may collect this object on a thread that is not that of the timer.
        self.pace = Pace(calling(self._update), QApplication.instance())
        weakref.finalize(self, self.pace.deleteLater).atexit = False
        self._mouse = CanvasMouse(viewer, self._on_move, self.bench.click, self.bench.undo)
        self._joined = 0
        # Also while no dock is seen: a file may be written then.
        self.bench.failed.connect(self._tell)
        self.bench.became_stale.connect(self.pace.draw_soon)

    @property
    def is_drawing(self) -> bool:
        """True while a redraw is due, or a cube is being read."""
        return self.pace.is_due or self.bench.is_busy

    def join(self) -> None:
        """Listen to the viewer: a dock is seen."""
        self._joined += 1
        self._mouse.attach()
        self.bench.attach()

    def leave(self) -> None:
        """Listen no more if it was the last dock that is gone; the viewer may be closed."""
        self._joined -= 1
        if self._joined:
            return
        # A drawing that is still due would read everything again, perhaps of a closed viewer.
        self.pace.stop()
        self.bench.maps.cancel()
        self.bench.detach()
        self._mouse.detach()

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
