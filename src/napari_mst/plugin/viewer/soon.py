"""Puts work off for a moment, so that the window is drawn and heard in between."""

import weakref
from collections.abc import Callable

from qtpy.QtCore import QTimer
from qtpy.QtWidgets import QApplication

DELAY = 50
"""Milliseconds. Qt counts no delay as none: the work would come before the window is drawn."""


class Soon:
    """Calls *method* a moment later, once for any number of requests until then.

    It does not keep the object of *method* alive. Without an event loop it calls at once.
    """

    def __init__(self, method: Callable[[], object]) -> None:
        self._method = weakref.WeakMethod(method)
        self._is_due = False

    def request(self, _: object = None) -> None:
        """Ask for a call; an event may be given, which is not looked at."""
        if QApplication.instance() is None:
            self._call()
        elif not self._is_due:
            self._is_due = True
            QTimer.singleShot(DELAY, self._call)

    def _call(self) -> None:
        self._is_due = False
        method = self._method()
        if method is not None:
            method()
