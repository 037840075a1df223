"""The wiper: the picture of a cube on one side of a line, and whatever lies below on the other.

What lies below is the photo, or the picture of another cube, in the same view: so nothing has to be
linked, and the same spot is compared with itself. Only the picture is cut, as a view of its
columns; the cube layer keeps all its numbers. Letters: H rows, W columns.
"""

import weakref
from collections.abc import Generator
from typing import Any

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image, Vectors
from numpy.typing import NDArray

from napari_mst.plugin.jobs.composing import Composer, composer_of
from napari_mst.plugin.viewer.canvas_mouse import LEFT
from napari_mst.plugin.viewer.composites import composite_of, cube_layer_of, set_picture
from napari_mst.plugin.viewer.layers import active_cube_layer, put_on_top
from napari_mst.plugin.viewer.placement import Placement
from napari_mst.plugin.viewer.sharing import shared
from napari_mst.plugin.viewer.slots import calling

KEY = "W"
NAME = "Wiper"
NEAR = 8.0
"""Canvas pixels from the line within which a press takes hold of it."""
THINNESS = 400
"""The line is as wide as the image is high, divided by this."""


class Wiper:
    """Cuts the picture of one cube of *viewer* at a line that can be dragged.

    Attributes
    ----------
    share
        Where the line is: 0 is the left end of the image, 1 the right one.
    """

    def __init__(self, viewer: ViewerModel) -> None:
        self.share = 0.5
        self._viewer_ref = weakref.ref(viewer)
        self._composer: Composer = composer_of(viewer)
        self._picture_ref: weakref.ref[Image] | None = None
        self._line_ref: weakref.ref[Vectors] | None = None
        self._whole: NDArray[np.uint8] | None = None
        self._cut: NDArray[np.uint8] | None = None
        self._composer.changed.connect(self._on_painted)
        viewer.layers.events.removed.connect(self._on_removed)
        viewer.mouse_drag_callbacks.append(self._press)
        viewer.bind_key(KEY, calling(self.toggle), overwrite=True)

    @property
    def is_open(self) -> bool:
        """Tell whether a picture is cut."""
        return self._whole is not None

    def toggle(self) -> None:
        """Open the wiper on the active cube, or close it."""
        if self.is_open:
            self.close()
        else:
            self.open()

    def open(self) -> None:
        """Cut the picture of the active cube; nothing happens where there is none.

        The cube comes on top, and its bands are hidden: they would lie between both pictures.
        """
        viewer = self._viewer_ref()
        layer = None if viewer is None else active_cube_layer(viewer)
        picture = None if viewer is None or layer is None else composite_of(viewer, layer)
        if viewer is None or layer is None or picture is None:
            return
        # Each in a cell of its own, they could not be wiped.
        viewer.canvas.grid.enabled = False
        put_on_top(viewer, layer)
        picture.visible = True
        layer.visible = False
        self._picture_ref = weakref.ref(picture)
        # Any part that shows while a colour is dragged is painted in full when it is dropped.
        self._whole = picture.data
        self._line_ref = weakref.ref(_add_line(viewer, layer))
        self.move_to(self.share)

    def close(self) -> None:
        """Show the whole picture again."""
        viewer, layer, picture, line = self._parts()
        whole = self._whole
        self._whole = self._cut = self._picture_ref = self._line_ref = None
        if viewer is None:
            return
        if line is not None and line in viewer.layers:
            viewer.layers.remove(line)
        if layer is not None and picture is not None and whole is not None:
            set_picture(picture, layer, whole)
            layer.visible = True

    def move_to(self, share: float) -> None:
        """Move the line to *share* of the width."""
        viewer, layer, picture, line = self._parts()
        if viewer is None or layer is None or picture is None or self._whole is None:
            return
        columns = self._whole.shape[1]
        # One column stays on each side, so that neither picture gets lost.
        column = int(np.clip(round(share * columns), min(1, columns - 1), columns - 1))
        self.share = column / columns
        self._cut = self._whole[:, column:]
        set_picture(picture, layer, self._cut, Placement.of(layer).of_part((0, column)))
        if line is not None:
            line.data = _line_at(layer, self.share)

    # ----------------------------------------------------------------------------- listening

    def _parts(self) -> tuple[ViewerModel | None, Image | None, Image | None, Vectors | None]:
        """Return the viewer, the cube, its picture and the line, as far as they are there."""
        picture = None if self._picture_ref is None else self._picture_ref()
        line = None if self._line_ref is None else self._line_ref()
        layer = None if picture is None else cube_layer_of(picture)
        return self._viewer_ref(), layer, picture, line

    def _on_painted(self) -> None:
        """Cut a picture that was painted anew; it is whole while a colour is dragged."""
        _, layer, picture, _ = self._parts()
        if layer is None or picture is None or self._composer.is_coarse(layer):
            return
        if self.is_open and picture.data is not self._cut:
            self._whole = picture.data
            self.move_to(self.share)

    def _on_removed(self, event: Any) -> None:
        *_, picture, line = self._parts()
        if self.is_open and event.value in (picture, line):
            self.close()

    def _press(self, viewer: ViewerModel, event: Any) -> Generator[None, None, None]:
        # napari runs this up to the next `yield` at the press, at each move, and at the release.
        _, layer, _, _ = self._parts()
        if layer is None or event.button != LEFT or not self._is_near(viewer, event.position):
            return
        camera = viewer.scene.camera
        could_pan = camera.mouse_pan
        camera.mouse_pan = False
        yield
        try:
            while event.type == "mouse_move":
                self.move_to(_share_at(layer, event.position))
                yield
        finally:
            camera.mouse_pan = could_pan

    def _is_near(self, viewer: ViewerModel, position: Any) -> bool:
        _, layer, _, _ = self._parts()
        if layer is None:
            return False
        off = abs(_share_at(layer, position) - self.share) * layer.data.shape[-1]
        per_pixel = viewer.scene.camera.zoom * abs(layer.scale[-1])
        return bool(off * per_pixel <= NEAR)


def _share_at(layer: Image, position: Any) -> float:
    """Return how far across the cube *layer* a world *position* lies: 0 to 1 within it."""
    ((_, column),) = Placement.of(layer).pixels_at([np.asarray(position)[-2:]])
    return float((column + 0.5) / layer.data.shape[-1])


def _line_at(layer: Image, share: float) -> NDArray[np.float64]:
    rows, columns = layer.data.shape[-2:]
    return np.array([[[-0.5, share * columns - 0.5], [rows, 0.0]]])


def _add_line(viewer: ViewerModel, layer: Image) -> Vectors:
    """Add the layer that draws the line; what was selected stays selected."""
    active = viewer.layers.selection.active
    line: Vectors = viewer.add_vectors(
        _line_at(layer, 0.5),
        name=NAME,
        vector_style="line",
        edge_width=max(0.2, layer.data.shape[-2] / THINNESS),
        edge_color="white",
        **Placement.of(layer).image_kwargs(),
    )
    viewer.layers.selection.active = active
    return line


def wiper_of(viewer: ViewerModel) -> Wiper:
    """Return the wiper of *viewer*, made on first use."""
    return shared(viewer, Wiper)
