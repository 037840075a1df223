"""The mouse on the canvas: reports to a dock what it does, and writes where on earth it is."""

import math
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
from napari.components import ViewerModel

from napari_mst.cube.georeference import FIELD, Georeference
from napari_mst.plugin.viewer.layers import active_cube_layer, cube_of
from napari_mst.plugin.viewer.picks import Position
from napari_mst.plugin.viewer.placement import pixel_at
from napari_mst.plugin.viewer.sharing import ViewerHelper

CLICK_RADIUS = 4.0
"""Canvas pixels; a press that moves further is a drag, which pans."""
LEFT = 1
"""Number of the left button in events of the canvas."""


def _ignore(_: Position) -> None:
    pass


class CanvasMouse(ViewerHelper):
    """Calls its functions while it is connected to its viewer.

    *on_move* and *on_click* are given the world position. While one is connected that *is_alone*,
    no other hears of clicks.
    """

    def __init__(
        self,
        viewer: ViewerModel,
        on_move: Callable[[Position], None] = _ignore,
        on_click: Callable[[Position], object] = _ignore,
        *,
        is_alone: bool = False,
    ) -> None:
        super().__init__(viewer)
        self._is_alone = is_alone
        self._on_move = on_move
        self._on_click = on_click

    def connect(self, on_click: Callable[[Position], object] | None = None) -> None:
        """Begin to listen, as an emitter of events does; *on_click* replaces the present one."""
        self._on_click = on_click or self._on_click
        viewer = self.viewer
        if self._move not in viewer.mouse_move_callbacks:
            viewer.mouse_move_callbacks.append(self._move)
            viewer.mouse_drag_callbacks.append(self._press)

    def disconnect(self, _: object = None) -> None:
        """Stop listening; the viewer may be closed."""
        viewer = self._viewer_ref()
        if viewer is not None and self._move in viewer.mouse_move_callbacks:
            viewer.mouse_move_callbacks.remove(self._move)
            viewer.mouse_drag_callbacks.remove(self._press)

    def _move(self, _: ViewerModel, event: Any) -> None:
        self._on_move(event.position)

    def _press(self, viewer: ViewerModel, event: Any) -> Generator[None, None, None]:
        # A click counts where the button was pressed: the mouse may still move by `CLICK_RADIUS`.
        position = event.position
        is_clicked = yield from _is_clicked(viewer, event)
        listeners = [getattr(act, "__self__", None) for act in viewer.mouse_drag_callbacks]
        is_another = any(isinstance(each, CanvasMouse) and each._is_alone for each in listeners)
        if is_clicked and (self._is_alone or not is_another):
            self._on_click(position)


def _is_clicked(viewer: ViewerModel, event: Any) -> Generator[None, None, bool]:
    """Follow a press until its release, and return True if it was a click."""
    # napari runs this up to the next `yield` at the press, at each move, and at the release.
    start, active = np.array(event.pos), viewer.layers.selection.active
    # Every other mode of a layer is a tool of napari that uses the click itself.
    is_free = active is None or active.mode == "pan_zoom"
    is_click = event.button == LEFT and not event.modifiers and is_free
    yield
    while event.type == "mouse_move":
        distance = np.linalg.norm(np.array(event.pos) - start)
        is_click = is_click and bool(distance <= CLICK_RADIUS)
        yield
    return is_click


class EarthStatus(ViewerHelper):
    """Adds the coordinates of the active cube to what napari says about a position."""

    def __init__(self, viewer: ViewerModel) -> None:
        super().__init__(viewer)
        # After the window, which would write the older text over ours.
        viewer.events.status.connect(self.write, position="last")

    def write(self, _: object = None) -> None:
        """Write them, where the cube says where it lies."""
        status, text = self.viewer.status, earth_text(self.viewer)
        # Writing calls this method again.
        if isinstance(status, dict) and text not in status["coordinates"]:
            self.viewer.status = {**status, "coordinates": f"{status['coordinates']}   {text}"}


def earth_text(viewer: ViewerModel) -> str:
    """The coordinates under the mouse, their unit and system; "" where none are known."""
    layer, position = active_cube_layer(viewer), viewer.cursor.position
    cube = cube_of(layer)
    place = Georeference.from_json(str(cube.metadata.get(FIELD))) if cube is not None else None
    if layer is None or place is None or place.transform is None:
        return ""
    if pixel_at(layer, position) is None:
        return ""
    row, column = np.asarray(layer.world_to_data(position))[-2:]
    a, b, _, d, e, _ = place.transform
    # Two digits more than would tell neighbouring pixels apart.
    digits = max(0, 2 - math.floor(math.log10(min(math.hypot(a, d), math.hypot(b, e)))))
    # Pixels of a viewer have their centres at whole numbers.
    x, y = (f"{at:.{digits}f} {place.unit}".strip() for at in place.at(row + 0.5, column + 0.5))
    system = f" (EPSG:{place.code})" if place.code else ""
    return f"x {x}, y {y}{system}"
