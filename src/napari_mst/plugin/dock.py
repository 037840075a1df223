"""The base of every dock, its keys, and the progress bar of a job.

A key works on the canvas, and in a dock that has the focus. napari gives the keys of the canvas to
one function each. Here several docks of a viewer may ask for the same key: the one that was shown
last has it, and leaves it to the one before.
"""

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar, NamedTuple, cast

from napari.components import ViewerModel
from napari.utils.theme import Theme, get_theme
from qtpy.QtCore import QCoreApplication, QEvent, QSize, Qt, QTimer
from qtpy.QtGui import QHideEvent, QKeySequence, QShortcut, QShowEvent
from qtpy.QtWidgets import (
    QDockWidget,
    QHBoxLayout,
    QMainWindow,
    QProgressBar,
    QPushButton,
    QWidget,
)

from napari_mst.base.errors import NapariMstError
from napari_mst.plugin.jobs.workspace import JobState, Workspace
from napari_mst.plugin.session import workspace_of
from napari_mst.plugin.viewer.sharing import OfViewer, ViewerHelper, report, unwrapped
from napari_mst.plugin.viewer.widgets import fill, spare_from_wheel


class Key(NamedTuple):
    """A key: its name in napari, and the same in Qt."""

    on_canvas: str
    in_dock: str

    @property
    def text(self) -> str:
        """The key as this computer writes it: "Ctrl+K", or with the signs of a Mac."""
        return QKeySequence(self.in_dock).toString(QKeySequence.SequenceFormat.NativeText)


RUN = Key("Control-Enter", "Ctrl+Return")
KEEP = Key("Control-K", "Ctrl+K")
NEXT_BAND = Key("Control-Right", "Ctrl+Right")
PREVIOUS_BAND = Key("Control-Left", "Ctrl+Left")
BEFORE_AFTER = Key("Control-B", "Ctrl+B")

# On the canvas they work where the selected layer has no undo of napari's own.
UNDO = Key("Control-Z", "Ctrl+Z")
REDO = Key("Control-Shift-Z", "Ctrl+Shift+Z")

Act = Callable[[], object]


class CanvasKeys(ViewerHelper):
    """The keys of one viewer on its canvas, each with the functions that ask for it."""

    def __init__(self, viewer: ViewerModel) -> None:
        super().__init__(viewer)
        self._asking: dict[Key, list[Act]] = {}

    def add(self, key: Key, act: Act) -> None:
        """Have *key* call *act* from now on."""
        self._asking.setdefault(key, []).append(act)
        self._bind(key)

    def remove(self, key: Key, act: Act) -> None:
        """Leave *key* to the function that had it before *act*, if there is one."""
        self._asking[key].remove(act)
        self._bind(key)

    def _bind(self, key: Key) -> None:
        asking = self._asking[key]
        act = (lambda _: asking[-1]()) if asking else None
        # Without `overwrite` napari raises an error where the key is bound already.
        self.viewer.bind_key(key.on_canvas, act, overwrite=True)


def _shortcut(host: QWidget, key: Key, act: Act) -> QShortcut:
    # On the window, two docks with the same key would make it ambiguous, and Qt would call neither.
    within = Qt.ShortcutContext.WidgetWithChildrenShortcut
    shortcut = QShortcut(QKeySequence(key.in_dock), host, context=within)
    shortcut.activated.connect(act)
    return shortcut


STEPS = 1000
"""Steps of the bar."""
LONG = 90
"""Seconds from which the time left is given in minutes."""


class JobBar(QWidget):
    """The progress of the job of *workspace*, and a button that cancels it; hidden without a job.

    *tip* says what a cancelled job leaves behind.
    """

    def __init__(self, workspace: Workspace, tip: str) -> None:
        super().__init__()
        self.progress = QProgressBar(maximum=STEPS)
        self.cancel_button = QPushButton("Cancel", toolTip=tip, clicked=workspace.cancel)
        fill(QHBoxLayout(self), self.progress, self.cancel_button, stretched=self.progress)

    def show_state(self, state: JobState) -> None:
        """Show how far the job of *state* is."""
        self.setVisible(not state.is_idle)
        # A job that is being cancelled is not idle yet, and is not cancelled twice.
        self.cancel_button.setEnabled(state.phase == "running")
        self.progress.setValue(round(state.fraction * STEPS))
        # Qt puts the percentage in the place of %p; the second % is the sign itself.
        self.progress.setFormat("" if state.is_idle else f"%p %{time_left(state.seconds_left)}")


def time_left(seconds: float | None) -> str:
    """The time left as the end of a text: ", 40 s left"; "" while it is not known."""
    if seconds is None:
        return ""
    return f", {seconds:.0f} s left" if seconds < LONG else f", {seconds / 60:.0f} min left"


Link = tuple[Any, Callable[..., object]]
"""An emitter of events, napari's or psygnal's, and the function that it calls."""


class Dock(QWidget, OfViewer):
    """A widget in a dock of *viewer*, which it does not keep alive.

    napari only hides a dock at its end. So the dock connects when it is shown and
    disconnects when it is hidden; `refresh` brings it up to date when it is shown again.

    Attributes
    ----------
    keys_in
        The widget in which the dock's keys work: the dock, or the dock that shows it as a page.
    SIZE
        Width and height, in pixels, that a dock of the menu Plugins asks for. Where there is one
        already, it becomes a tab of that: on a laptop, two below each other would be too low.
    """

    SIZE: ClassVar[tuple[int, int] | None] = None

    def __init__(self, viewer: ViewerModel) -> None:
        super().__init__()
        self._viewer_ref = weakref.ref(unwrapped(viewer))
        self.workspace = workspace_of(viewer)
        self.keys_in: QWidget = self
        self._connected: list[Link] = []
        self._acts: Sequence[tuple[Key, Act]] = ()
        self._shortcuts: list[QShortcut] = []
        self._is_new = self.SIZE is not None

    def sizeHint(self) -> QSize:
        """Qt asks for this when it lays out the docks."""
        return QSize(*self.SIZE) if self.SIZE else QSize(super().sizeHint())

    def links(self) -> Iterable[Link]:
        """List what the dock listens to while it is shown."""
        return ()

    def acts(self) -> Sequence[tuple[Key, Act]]:
        """List the keys of the dock, and what they do."""
        return ()

    def refresh(self) -> None:
        """Draw the present state; a dock that has none draws nothing."""

    def set_theme(self, theme: Theme) -> None:
        """Take on the colours of a napari theme. Called before `refresh`, and when it changes."""

    def release(self) -> None:
        """Free what was read for the dock. Called when it is hidden; the viewer may be closed."""

    def _dress(self) -> None:
        self.set_theme(get_theme(self.viewer.theme))

    def showEvent(self, event: QShowEvent | None) -> None:
        """Qt calls this when the dock appears."""
        super().showEvent(event)
        if not self._connected:
            spare_from_wheel(self)
            # The list is kept for `hideEvent`: the viewer that `links` asks may be closed by then.
            self._connected = [*self.links(), (self.viewer.events.theme, self._dress)]
            for emitter, slot in self._connected:
                emitter.connect(slot)
            self._acts = self.acts()
            self._shortcuts = [_shortcut(self.keys_in, key, act) for key, act in self._acts]
            for key, act in self._acts:
                CanvasKeys.of(self.viewer).add(key, act)
            self._dress()
            # The connections come first: `refresh` may start work that reports through them.
            self.refresh()
        if self._is_new:
            self._is_new = False
            # Not at once: napari is still at work on it.
            QTimer.singleShot(0, self._join_others)

    def _join_others(self) -> None:
        """Become a tab of another dock of the menu, if there is one on this side."""
        main = cast(QMainWindow, self.window())
        frames = main.findChildren(QDockWidget)
        mine = [frame for frame in frames if frame.isAncestorOf(self)]
        for frame in frames:
            is_ours = any(dock.SIZE and dock is not self for dock in frame.findChildren(Dock))
            is_open = frame.toggleViewAction().isChecked() and not frame.isFloating()
            if is_ours and is_open and main.dockWidgetArea(frame) == main.dockWidgetArea(mine[0]):
                main.tabifyDockWidget(frame, mine[0])
                mine[0].raise_()
                return

    def hideEvent(self, event: QHideEvent | None) -> None:
        """Qt calls this when the dock is hidden, closed, or goes down with the viewer."""
        super().hideEvent(event)
        was_shown = bool(self._connected)
        for emitter, slot in self._connected:
            emitter.disconnect(slot)
        self._connected = []
        for shortcut in self._shortcuts:
            shortcut.setEnabled(False)
            shortcut.deleteLater()
        viewer = self._viewer_ref()
        if viewer is not None:  # it may be closed
            for key, act in self._acts:
                CanvasKeys.of(viewer).remove(key, act)
        self._acts, self._shortcuts = (), []
        if was_shown:
            self.release()

    def changeEvent(self, event: QEvent) -> None:
        """Delete the dock when napari takes it out of its window, which is how napari closes it."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.ParentChange and self.parentWidget() is None:
            # Not at once: napari is still at work on it.
            QTimer.singleShot(0, partial(_delete, self))


def _delete(dock: QWidget) -> None:
    """Delete *dock* and all that is in it, unless it has got another place meanwhile.

    Objects of a dock refer to each other, so Python would free them only when it collects garbage:
    in any order, and on whichever thread runs just then. Either crashes Qt.
    """
    if dock.parentWidget() is not None:
        return
    dock.deleteLater()
    QCoreApplication.sendPostedEvents(dock, QEvent.Type.DeferredDelete)


@contextmanager
def reported() -> Iterator[None]:
    """Show one of our errors to the user instead of raising it."""
    try:
        yield
    except NapariMstError as error:
        report(error)
