"""Compares a cube with the image below it, by a wiper or side by side.

The image below is the photo, or the picture of another cube. The wiper shows the picture of a cube
on one side of a line, so each spot is compared with itself and no views need linking. Only the
picture is cut, as a view of its columns; the cube layer keeps all its numbers. Side by side,
napari's grid draws both with one camera, and the mouse reads spectra in either. The layers keep
their order, and the grid shows the upper and the lower ones in two cells. Letters: H rows, W
columns.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image
from napari.utils.notifications import show_info

from napari_mst.cube.layer import METADATA_KEY
from napari_mst.plugin.pictures.composing import Composer
from napari_mst.plugin.viewer.canvas_mouse import LEFT
from napari_mst.plugin.viewer.layers import (
    active_cube_layer,
    composite_of,
    follow,
    place_of_picture,
    put_on_top,
    selection_kept,
    set_picture,
)
from napari_mst.plugin.viewer.placement import Placement
from napari_mst.plugin.viewer.sharing import ViewerHelper, calling

SIDES_KEY = "G"
GAP = 0.01
"""Gap between the two pictures, as a share of their size."""
NOTHING_BELOW = (
    "There is nothing below the cube to compare it with. Open its photo or another cube, and show "
    "it with its eye in the list of layers."
)
_CHANGED = ("stride", "shape", "spacing")


class SideBySideView(ViewerHelper):
    """Shows the active cube beside the image below it."""

    def __init__(self, viewer: ViewerModel) -> None:
        super().__init__(viewer)
        self._upper: Image | None = None
        self._before: dict[str, Any] = {}
        layers = viewer.layers.events
        for changed in (layers.inserted, layers.removed, layers.reordered):
            # Last: the grid redraws, and napari's canvas must know a new layer by then.
            changed.connect(self._arrange, position="last")
        viewer.canvas.grid.events.enabled.connect(self._on_enabled)
        viewer.bind_key(SIDES_KEY, calling(self.toggle), overwrite=True)

    @property
    def is_open(self) -> bool:
        """True if two pictures are shown side by side."""
        return self._upper is not None

    def toggle(self) -> None:
        """Show both side by side, or on top of each other again."""
        self.close() if self.is_open else self.open()

    def open(self) -> None:
        """Show the active cube beside the image below it, or say that there is none."""
        layer = active_cube_layer(self.viewer)
        if layer is None:
            return
        Wiper.of(self.viewer).close()
        put_on_top(self.viewer, layer)
        if not any(
            below.visible for below in self.viewer.layers[: self.viewer.layers.index(layer)]
        ):
            show_info(NOTHING_BELOW)
            return
        grid = self.viewer.canvas.grid
        self._before = {name: getattr(grid, name) for name in _CHANGED}
        self._upper = layer
        self._arrange()
        grid.update({"shape": (-1, -1), "spacing": GAP, "enabled": True})
        self.viewer.reset_view()

    def close(self) -> None:
        """Show all layers on top of each other again."""
        if self.is_open:
            self.viewer.canvas.grid.enabled = False
            self.viewer.reset_view()

    def _on_enabled(self) -> None:
        """Restore the settings of the grid, whatever switched it off."""
        if self.is_open and not self.viewer.canvas.grid.enabled:
            self._upper = None
            self.viewer.canvas.grid.update(self._before)

    def _arrange(self) -> None:
        """Split the layers into two groups, however many there are now."""
        if self._upper is None:
            return
        if self._upper not in self.viewer.layers:
            self.close()
            return
        layers = self.viewer.layers
        self.viewer.canvas.grid.stride = stride_of(layers.index(self._upper), len(layers))


def stride_of(lower: int, layers: int) -> int:
    """Return the stride with which napari's grid separates the *lower* layers from the others.

    A stride counts from the lowest layer, or from the highest one if it is negative. Counting from
    the smaller group would split the larger one.
    """
    upper = layers - lower
    return lower if lower >= upper else -upper


KEY = "W"
NAME = "Wiper"
WIPER = "wiper"
"""Marks the layer of the line in its metadata."""
NEAR = 8.0
"""Distance from the line, in canvas pixels, within which a press grabs it."""
THINNESS = 400
"""Height of the image divided by the width of the line."""


@dataclass(eq=False)
class _Cut:
    """A cube layer, its picture, all pixels of the picture, the visible part, and the line."""

    layer: Image
    picture: Image
    whole: Any
    part: Any
    line: Image


class Wiper(ViewerHelper):
    """Cuts the picture of one cube at a line that can be dragged.

    Attributes
    ----------
    share
        Position of the line: 0 is the left end of the image, 1 the right end.
    """

    def __init__(self, viewer: ViewerModel) -> None:
        super().__init__(viewer)
        self.share = 0.5
        self._composer = Composer.of(viewer)
        self._cut: _Cut | None = None
        self._composer.changed.connect(self._on_painted)
        viewer.layers.events.removed.connect(self._on_removed)
        viewer.mouse_drag_callbacks.append(self._press)
        viewer.bind_key(KEY, calling(self.toggle), overwrite=True)

    @property
    def is_open(self) -> bool:
        """True if a picture is cut."""
        return self._cut is not None

    def toggle(self) -> None:
        """Open the wiper on the active cube, or close it."""
        self.close() if self.is_open else self.open()

    def open(self) -> None:
        """Cut the picture of the active cube; nothing happens where there is none.

        The cube comes on top, and its bands are hidden: they would lie between both pictures.
        """
        viewer = self.viewer
        layer = active_cube_layer(viewer)
        picture = None if layer is None else composite_of(viewer, layer)
        if layer is None or picture is None:
            return
        # In separate grid cells the two pictures could not be wiped.
        viewer.canvas.grid.enabled = False
        put_on_top(viewer, layer)
        picture.visible = True
        layer.visible = False
        # A part shown while a colour is dragged is painted in full once the colour is dropped.
        whole = picture.data
        self._cut = _Cut(layer, picture, whole, whole, _add_line(viewer, layer))
        self.move_to(self.share)

    def close(self) -> None:
        """Show the whole picture again."""
        cut, self._cut = self._cut, None
        if cut is None:
            return
        if cut.line in self.viewer.layers:
            self.viewer.layers.remove(cut.line)
        set_picture(cut.picture, cut.layer, cut.whole)
        cut.layer.visible = True

    def move_to(self, share: float) -> None:
        """Move the line to *share* of the width."""
        cut = self._cut
        if cut is None:
            return
        # Only the coarsest level of a pyramid is cut.
        codes = cut.whole if isinstance(cut.whole, np.ndarray) else cut.whole[-1]
        columns = codes.shape[1]
        # One column stays on each side, so that neither picture disappears.
        column = int(np.clip(round(share * columns), min(1, columns - 1), columns - 1))
        self.share = column / columns
        place = place_of_picture(cut.layer, codes).of_part((0, column))
        set_picture(cut.picture, cut.layer, codes[:, column:], place)
        cut.part = cut.picture.data
        follow(cut.line, _place_of_line(cut.layer, self.share))

    # ----------------------------------------------------------------------------- listening

    def _on_painted(self) -> None:
        """Cut a repainted picture; it stays whole while a colour is dragged."""
        cut = self._cut
        if cut is None or self._composer.sitter_of(cut.layer).is_coarse:
            return
        if not cut.picture.visible:
            # The bands are shown instead: there is nothing to wipe.
            self.close()
            return
        if cut.picture.data is not cut.part:
            cut.whole = cut.picture.data
            self.move_to(self.share)

    def _on_removed(self, event: Any) -> None:
        if self._cut is not None and event.value in (self._cut.picture, self._cut.line):
            self.close()

    def _press(self, viewer: ViewerModel, event: Any) -> Generator[None, None, None]:
        # napari runs this up to the next `yield` at the press, at each move, and at the release.
        if self._cut is None or event.button != LEFT:
            return
        layer, camera = self._cut.layer, viewer.scene.camera
        off = abs(_share_at(layer, event.position) - self.share) * layer.data.shape[-1]
        if off * camera.zoom * abs(layer.scale[-1]) > NEAR:
            return
        could_pan = camera.mouse_pan
        camera.mouse_pan = False
        yield
        try:
            while event.type == "mouse_move":
                self.move_to(_share_at(layer, event.position))
                yield
        finally:
            camera.mouse_pan = could_pan


def _share_at(layer: Image, position: Any) -> float:
    """Return how far across the cube *layer* a world *position* lies: 0 to 1 within it."""
    ((_, column),) = Placement.of(layer).pixels_at([np.asarray(position)[-2:]])
    return float((column + 0.5) / layer.data.shape[-1])


def _place_of_line(layer: Image, share: float) -> dict[str, Any]:
    """Return the place of the line, as a layer of one pixel."""
    rows, columns = layer.data.shape[-2:]
    middle = ((rows - 1) / 2, share * columns - 0.5)
    return Placement.of(layer).of_part(middle, (rows, max(0.2, rows / THINNESS))).image_kwargs()


def _add_line(viewer: ViewerModel, layer: Image) -> Image:
    """Add the layer that draws the line; the selection is kept."""
    # One white pixel, as napari flashes a tiny window for the controls of a Vectors layer.
    with selection_kept(viewer):
        line: Image = viewer.add_image(
            np.ones((1, 1), np.uint8),
            name=NAME,
            rgb=False,
            contrast_limits=(0, 1),
            metadata={METADATA_KEY: WIPER},
            **_place_of_line(layer, 0.5),
        )
    return line
