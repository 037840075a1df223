"""What the mouse and the undo key do on the canvas, for a dock that wants to know."""

from collections.abc import Callable, Generator
from typing import Any

import numpy as np
from napari.components import ViewerModel

from napari_mst.plugin.viewer.picks import Position

CLICK_RADIUS = 4.0
"""Canvas pixels; a press that moves further is a drag, which pans."""
UNDO = "Control-Z"
"""On the canvas, where the selected layer has no undo of its own."""


class CanvasMouse:
    """Calls *on_move* and *on_click* with the world position, and *on_undo*, while it is attached to a viewer."""

    def __init__(
        self,
        on_move: Callable[[Position], None],
        on_click: Callable[[Position], object],
        on_undo: Callable[[], None],
    ) -> None:
        self._on_move, self._on_click, self._on_undo = on_move, on_click, on_undo

    def attach(self, viewer: ViewerModel) -> None:
        """Begin to listen; nothing changes if it does already."""
        if self._move not in viewer.mouse_move_callbacks:
            viewer.mouse_move_callbacks.append(self._move)
            viewer.mouse_drag_callbacks.append(self._press)
            viewer.bind_key(UNDO, self._undo, overwrite=True)

    def detach(self, viewer: ViewerModel) -> None:
        """Listen no more."""
        if self._move in viewer.mouse_move_callbacks:
            viewer.mouse_move_callbacks.remove(self._move)
            viewer.mouse_drag_callbacks.remove(self._press)
            viewer.bind_key(UNDO, None)

    def _move(self, _: ViewerModel, event: Any) -> None:
        self._on_move(event.position)

    def _press(self, viewer: ViewerModel, event: Any) -> Generator[None, None, None]:
        start, position = np.array(event.pos), event.position
        is_click = event.button == 1 and not event.modifiers and _pans(viewer)
        yield
        while event.type == "mouse_move":
            is_click &= bool(np.linalg.norm(np.array(event.pos) - start) <= CLICK_RADIUS)
            yield
        if is_click:
            self._on_click(position)

    def _undo(self, _: ViewerModel) -> None:
        self._on_undo()


def _pans(viewer: ViewerModel) -> bool:
    """Whether a click on the canvas is free, as no layer is being drawn on or edited."""
    active = viewer.layers.selection.active
    return active is None or active.mode == "pan_zoom"
