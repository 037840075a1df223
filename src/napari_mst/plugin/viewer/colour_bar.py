"""The colour bar of the band or map that is seen: napari's own, and beside it the unit.

napari's bar follows the colour map and the limits, and has no unit: that is a text of napari's, in
the same corner. Pictures have no bar, since their colours are colours.
"""

from collections.abc import Callable
from typing import Any

from napari.components import ViewerModel
from napari.components.overlays import TextOverlay
from napari.layers import Image
from qtpy.QtCore import QTimer
from qtpy.QtWidgets import QApplication

from napari_mst.cube import SpectralCube
from napari_mst.messages import shown
from napari_mst.plugin.viewer.layers import UNIT_KEY, cube_of
from napari_mst.plugin.viewer.sharing import ViewerHelper
from napari_mst.plugin.viewer.slots import calling

DELAY = 50
"""Milliseconds. Qt counts no delay as none: the work would come before the window is drawn."""
OVERLAY = "napari_mst_unit"
"""The name of the text among the overlays of a canvas."""
CORNER = "top_right"
"""The corner in which napari puts colour bars."""
UNKNOWN = "value"
_FILE_UNIT = "data units"  # the field of an ENVI header
_EVENTS = ("inserted", "removed", "reordered", "visible", "data", "metadata")
_LONGEST = 40


def unit_of(layer: Any) -> str:
    """Return what the values of *layer* are, with their unit; "" if it is no band and no map."""
    if not isinstance(layer, Image) or layer.rgb:
        return ""
    cube = cube_of(layer)
    if cube is not None:
        return _unit_of_cube(cube)
    return shown(str(layer.metadata.get(UNIT_KEY, "")), _LONGEST)


def _unit_of_cube(cube: SpectralCube) -> str:
    known = [cube.quantity or UNKNOWN, str(cube.metadata.get(_FILE_UNIT, ""))]
    return ", ".join(shown(one, _LONGEST) for one in known if one)


class ColourBar(ViewerHelper):
    """Shows the colour bar of the topmost band or map of its viewer, unless a picture covers it.

    A bar that a person hides by napari's own menu stays hidden until another layer is seen.
    napari takes as long to make a bar as to add its layer, so the bar comes a moment later, once
    for all changes until then.

    Attributes
    ----------
    is_awaiting_picture
        Asks whether a picture is about to cover a layer for the first time, so that a bar would be
        made in vain.
    """

    def __init__(self, viewer: ViewerModel) -> None:
        super().__init__(viewer)
        self._measured: Image | None = None
        self._is_on = True
        self._is_due = False
        self.is_awaiting_picture: Callable[[Image], bool] = _awaits_none
        # The list of layers passes on the events of each layer.
        viewer.layers.events.connect(self._on_layers)
        viewer.canvas.grid.events.enabled.connect(self._write)
        self.update()

    @property
    def is_on(self) -> bool:
        """Tell whether bands and maps have a bar."""
        return self._is_on

    @is_on.setter
    def is_on(self, is_on: bool) -> None:
        self._is_on = is_on
        # To turn the switch is to give up what was hidden by hand.
        self._measure(None)
        self.update()

    @property
    def measured(self) -> Image | None:
        """The layer whose bar is shown; None if there is none."""
        layer = self._measured
        return layer if layer is not None and layer.colorbar.visible else None

    def update(self) -> None:
        """Show the bar of the layer that is seen now, and no other."""
        layer = _seen(self.viewer) if self._is_on else None
        if layer is not None and self.is_awaiting_picture(layer):
            layer = None
        if layer is not self._measured:
            self._measure(layer)
        self._write()

    def _measure(self, layer: Image | None) -> None:
        """Take the bar from the layer that had it to *layer*."""
        before, self._measured = self._measured, layer
        if before is not None:
            before.colorbar.events.visible.disconnect(self._write)
            before.colorbar.visible = False
        if layer is not None:
            layer.colorbar.visible = True
            layer.colorbar.events.visible.connect(self._write)

    def _write(self, _: object = None) -> None:
        """Write the unit beside the bar that is shown, or nothing."""
        overlays = self.viewer.canvas.overlays
        text = unit_of(self.measured)
        if OVERLAY not in overlays:
            if not text:
                return
            overlays[OVERLAY] = TextOverlay(position=CORNER)
        overlays[OVERLAY].text = text
        # In a grid the bar is in the cell of its layer, where no text of the canvas follows it.
        overlays[OVERLAY].visible = bool(text) and not self.viewer.canvas.grid.enabled

    def request_update(self) -> None:
        """Update a moment later, once for all requests until then; at once without a window."""
        if QApplication.instance() is None:
            self.update()
        elif not self._is_due:
            self._is_due = True
            QTimer.singleShot(DELAY, calling(self._on_due))

    def _on_due(self) -> None:
        self._is_due = False
        self.update()

    def _on_layers(self, event: Any) -> None:
        if event.type in _EVENTS:
            self.request_update()


def _awaits_none(_: Image) -> bool:
    return False


def _seen(viewer: ViewerModel) -> Image | None:
    """Return the topmost visible image, if it is a band or a map; None if that is a picture."""
    images = (one for one in reversed(viewer.layers) if isinstance(one, Image) and one.visible)
    topmost = next(images, None)
    return topmost if unit_of(topmost) else None
