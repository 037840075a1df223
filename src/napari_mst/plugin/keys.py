"""Keys of the docks: each works on the canvas, and in a dock that has the focus.

napari gives the keys of the canvas to one function each. Here several docks of a viewer may ask for
the same key: the one that was shown last has it, and leaves it to the one before.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from napari.components import ViewerModel
from qtpy.QtCore import Qt
from qtpy.QtGui import QKeySequence, QShortcut
from qtpy.QtWidgets import QWidget

from napari_mst.plugin.viewer.sharing import ViewerHelper


class Key(NamedTuple):
    """A key: its name in napari, and the same in Qt."""

    on_canvas: str
    in_dock: str

    @property
    def text(self) -> str:
        """The key as this computer writes it: "Ctrl+K", or with the signs of a Mac."""
        text: str = QKeySequence(self.in_dock).toString(QKeySequence.SequenceFormat.NativeText)
        return text

    def added_to(self, tip: str) -> str:
        """*tip* with the key at its end."""
        return f"{tip} ({self.text})"


RUN = Key("Control-Enter", "Ctrl+Return")
KEEP = Key("Control-K", "Ctrl+K")
NEXT_BAND = Key("Control-Right", "Ctrl+Right")
PREVIOUS_BAND = Key("Control-Left", "Ctrl+Left")
BEFORE_AFTER = Key("Control-B", "Ctrl+B")
KEYS = (RUN, KEEP, NEXT_BAND, PREVIOUS_BAND, BEFORE_AFTER)

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
        act = _taking_viewer(asking[-1]) if asking else None
        # Without `overwrite` napari raises an error where the key is bound already.
        self.viewer.bind_key(key.on_canvas, act, overwrite=True)


def _taking_viewer(act: Act) -> Callable[[ViewerModel], None]:
    # napari asks for the name of the function, which a partial has not.
    def call(_: ViewerModel) -> None:
        act()

    return call


class DockKeys:
    """The keys of one dock: they work while it is shown, on the canvas and in *host*."""

    def __init__(self, viewer: ViewerModel, host: QWidget, acts: Sequence[tuple[Key, Act]]) -> None:
        self._acts = tuple(acts)
        self._shortcuts = [_shortcut(host, key, act) for key, act in acts]
        for key, act in self._acts:
            CanvasKeys.of(viewer).add(key, act)

    def release(self, viewer: ViewerModel | None) -> None:
        """Let go of all keys; *viewer* is None where it is closed."""
        for shortcut in self._shortcuts:
            shortcut.setEnabled(False)
            shortcut.deleteLater()
        self._shortcuts = []
        if viewer is not None:
            for key, act in self._acts:
                CanvasKeys.of(viewer).remove(key, act)


def _shortcut(host: QWidget, key: Key, act: Act) -> QShortcut:
    # On the window, two docks with the same key would make it ambiguous, and Qt would call neither.
    within = Qt.ShortcutContext.WidgetWithChildrenShortcut
    shortcut = QShortcut(QKeySequence(key.in_dock), host, context=within)
    shortcut.activated.connect(act)
    return shortcut
