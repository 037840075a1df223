"""The bench of a viewer, which all docks of that viewer show: it listens while one is seen."""

import weakref

from napari.components import ViewerModel
from napari.utils.notifications import show_error
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QApplication

from napari_mst.plugin.spectra.bench import Bench
from napari_mst.plugin.spectra.pace import Pace
from napari_mst.plugin.spectra.threads import start_job, start_reading
from napari_mst.plugin.viewer.canvas_mouse import CanvasMouse
from napari_mst.plugin.viewer.picks import Position
from napari_mst.plugin.viewer.sharing import shared
from napari_mst.plugin.viewer.slots import calling


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
