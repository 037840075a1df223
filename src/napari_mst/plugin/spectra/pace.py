"""Paces what is drawn again and again, so that a window stays alive while the mouse moves."""

import time
from collections.abc import Callable

from qtpy.QtCore import QObject, QTimer

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
