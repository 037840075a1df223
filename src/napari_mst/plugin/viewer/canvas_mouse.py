"""Tells a dock what the mouse and the undo key do on the canvas."""

import weakref
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
from napari.components import ViewerModel

from napari_mst.plugin.viewer.picks import Position

CLICK_RADIUS = 4.0
"""Canvas pixels; a press that moves further is a drag, which pans."""
UNDO = "Control-Z"
"""Works on the canvas where the selected layer has no undo of its own."""
LEFT = 1
"""Number of the left button in events of the canvas."""


class CanvasMouse:
    """Calls its functions while it is attached to a viewer.

    *on_move* and *on_click* are given the world position; *on_undo*, if there is one, nothing.
    """

    def __init__(
        self,
        on_move: Callable[[Position], None],
        on_click: Callable[[Position], object],
        on_undo: Callable[[], None] | None = None,
    ) -> None:
        self._on_move = on_move
        self._on_click = on_click
        self._on_undo = on_undo

    def attach(self, viewer: ViewerModel) -> None:
        """Begin to listen, if it does not listen already."""
        if self._move not in viewer.mouse_move_callbacks:
            viewer.mouse_move_callbacks.append(self._move)
            viewer.mouse_drag_callbacks.append(self._press)
            if self._on_undo is not None:
                # Without `overwrite` napari raises an error where the key is bound already.
                viewer.bind_key(UNDO, self._undo, overwrite=True)

    def detach(self, viewer: ViewerModel) -> None:
        """Stop listening."""
        if self._move in viewer.mouse_move_callbacks:
            viewer.mouse_move_callbacks.remove(self._move)
            viewer.mouse_drag_callbacks.remove(self._press)
            if self._on_undo is not None:
                viewer.bind_key(UNDO, None)

    def _move(self, _: ViewerModel, event: Any) -> None:
        self._on_move(event.position)

    def _press(self, viewer: ViewerModel, event: Any) -> Generator[None, None, None]:
        # The place of a click is that of the press: the mouse may still move by `CLICK_RADIUS`.
        position = event.position
        if (yield from _is_clicked(viewer, event)):
            self._on_click(position)

    def _undo(self, _: ViewerModel) -> None:
        if self._on_undo is not None:
            self._on_undo()


class CanvasClicks:
    """An emitter of the clicks on the canvas of *viewer*, which it does not keep alive.

    Whoever is connected is called with the world position.
    """

    def __init__(self, viewer: ViewerModel) -> None:
        self._viewer_ref = weakref.ref(viewer)
        self._slot: Callable[[Position], object] | None = None

    def connect(self, slot: Callable[[Position], object]) -> None:
        """Call *slot* at each click from now on."""
        viewer = self._viewer_ref()
        if viewer is not None:
            self._slot = slot
            viewer.mouse_drag_callbacks.append(self._press)

    def disconnect(self, _: object = None) -> None:
        """Call nothing any more."""
        viewer = self._viewer_ref()
        self._slot = None
        if viewer is not None and self._press in viewer.mouse_drag_callbacks:
            viewer.mouse_drag_callbacks.remove(self._press)

    def _press(self, viewer: ViewerModel, event: Any) -> Generator[None, None, None]:
        position = event.position
        if (yield from _is_clicked(viewer, event)) and self._slot is not None:
            self._slot(position)


def _is_clicked(viewer: ViewerModel, event: Any) -> Generator[None, None, bool]:
    """Follow a press until its release, and tell whether it was a click."""
    # napari runs this up to the next `yield` at the press, at each move, and at the release.
    start = np.array(event.pos)
    is_click = event.button == LEFT and not event.modifiers and _is_free(viewer)
    yield
    while event.type == "mouse_move":
        distance = np.linalg.norm(np.array(event.pos) - start)
        is_click = is_click and bool(distance <= CLICK_RADIUS)
        yield
    return is_click


def _is_free(viewer: ViewerModel) -> bool:
    """Tell whether a click on the canvas is free: no layer is being drawn on or edited."""
    active = viewer.layers.selection.active
    # Every other mode is a tool of napari that uses the click itself.
    return active is None or active.mode == "pan_zoom"
