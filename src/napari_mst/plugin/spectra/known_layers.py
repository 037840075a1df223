"""The layers of an adapted cube and of the width of its error band, beside the cube before it."""

import weakref
from typing import Any

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image, Layer

from napari_mst.arrays import Singles
from napari_mst.cube import SpectralCube
from napari_mst.cube.layer import METADATA_KEY, contrast_limits
from napari_mst.plugin.viewer.layers import (
    ALIKE_KEY,
    UNIT_KEY,
    composites_of,
    cube_layer,
    cube_layer_of,
    is_cube_shown,
    is_picture_shown,
    put_cube,
    put_on_top,
)
from napari_mst.plugin.viewer.photos import MAP
from napari_mst.plugin.viewer.placement import Placement
from napari_mst.plugin.viewer.sharing import ViewerHelper

ADAPTED = " adapted"
"""Ends the name of the layer of an adapted cube."""
RELATIVE_WIDTH = "relative width"
WIDTH = "Error band width: "
"""Begins the name of the layer that shows how wide its band is."""

_LEAST_WIDTH = 0.1  # that has full contrast at least: else rounding would look like a difference


class KnownLayers(ViewerHelper):
    """The layer of a cube, that of the cube adapted from it, and that of its width.

    None of them is kept alive: a person may delete each at any time.
    """

    def __init__(self, viewer: ViewerModel) -> None:
        super().__init__(viewer)
        self._base: weakref.ref[Image] | None = None
        self._adapted: weakref.ref[Image] | None = None
        self._width: weakref.ref[Image] | None = None
        self._is_picture = True  # else a person looks at the bands

    @property
    def base(self) -> Image | None:
        """The layer of the cube before it was adapted."""
        return self._there(self._base)

    @property
    def adapted(self) -> Image | None:
        """The layer of the adapted cube."""
        return self._there(self._adapted)

    def _there(self, reference: "weakref.ref[Image] | None") -> Image | None:
        layer = None if reference is None else reference()
        # A layer that was removed lives on until it is collected: the weak reference is not enough.
        return layer if self.has(layer) else None

    def set_base(self, layer: Image) -> None:
        """Adapt *layer* from now on; what was adapted from another one stays as it is."""
        if layer not in (self.base, self.adapted):
            self._base = weakref.ref(layer)
            self._adapted = self._width = None

    def show_cube(self, cube: SpectralCube) -> None:
        """Show the adapted *cube*, of any size, where the one before lies."""
        base, layer = self.base, self.adapted
        if base is None:
            return
        step = np.array(base.data.shape[1:]) / cube.shape[1:]
        # The first pixel of a coarse cube is centred between the pixels that it covers.
        place = Placement.of(base).of_part((step - 1) / 2, step)
        data, arguments, _ = cube_layer(cube, base.name + ADAPTED, place)
        if layer is None:
            self._add_cube(base, cube, arguments)
            return
        put_cube(layer, data, arguments)

    def _add_cube(self, base: Image, cube: SpectralCube, arguments: dict[str, Any]) -> None:
        viewer = self.viewer
        active = viewer.layers.selection.active
        was_active = _shown_by(active) is base
        self._note_look(base)
        arguments["metadata"] |= {ALIKE_KEY: weakref.ref(base)}
        # Before and after are compared: they have the same colours for the same numbers.
        look = {"contrast_limits": base.contrast_limits, "colormap": base.colormap}
        added = viewer.add_image(cube.data, multiscale=False, **{**arguments, **look})
        put_on_top(viewer, added)
        self._adapted = weakref.ref(added)
        self._hide(base)
        viewer.layers.selection.active = added if was_active else active

    @property
    def is_after(self) -> bool:
        """True while the adapted cube is shown: its bands or its picture."""
        layer = self.adapted
        return layer is not None and is_cube_shown(self.viewer, layer)

    def show_after(self, is_after: bool) -> None:
        """Show the adapted cube, or else the one before: its picture, if a picture was shown."""
        base = self.base
        adapted = self.adapted
        if base is None or adapted is None:
            return
        selection = self.viewer.layers.selection
        self._note_look(adapted if self.is_after else base)
        shown, hidden = (adapted, base) if is_after else (base, adapted)
        was_active = _shown_by(selection.active) in (base, adapted)
        # In this order there is a cube at every moment: curves would go away and come back.
        self._show(shown)
        if was_active:
            selection.active = shown
        self._hide(hidden)

    def notice_deletion(self) -> None:
        """Show the cube before again, if a person has deleted the adapted one."""
        base = self.base
        if self._adapted is not None and self.adapted is None:
            self._adapted = None
            if base is not None:
                self._show(base)

    def end(self) -> None:
        """Take the adapted cube away, and show the one before."""
        adapted = self.adapted
        self.show_after(False)
        if adapted is not None:
            self.viewer.layers.remove(adapted)
        self.hide_width()
        self._adapted = None

    def show_width(self, width: Singles) -> None:
        """Show the *width* (H, W) of the error band, in the layer of the one before."""
        viewer = self.viewer
        base = self.base
        layer = self._there(self._width)
        if layer is not None:
            layer.data = width
            return
        if base is None:
            return
        active = viewer.layers.selection.active
        _, high = contrast_limits(width[None])
        arguments: dict[str, Any] = {
            **Placement.of(base).image_kwargs(),
            "name": WIDTH + base.name,
            "rgb": False,
            "colormap": "viridis",
            "contrast_limits": (0.0, max(high, _LEAST_WIDTH)),
            "metadata": {METADATA_KEY: MAP, UNIT_KEY: RELATIVE_WIDTH},
        }
        added = viewer.add_image(width, **arguments)
        put_on_top(viewer, added)
        self._width = weakref.ref(added)
        viewer.layers.selection.active = active

    def hide_width(self) -> None:
        """Take the layer of the width away."""
        layer = self._there(self._width)
        if layer is not None:
            self.viewer.layers.remove(layer)
        self._width = None

    def _note_look(self, layer: Image) -> None:
        """Remember whether *layer* shows its picture. One that is still painted shows nothing."""
        if composites_of(self.viewer, layer):
            self._is_picture = is_picture_shown(self.viewer, layer)

    def _show(self, cube_layer: Image) -> None:
        """Show the bands of *cube_layer*, and above them its pictures if they were shown last."""
        cube_layer.visible = True
        for picture in composites_of(self.viewer, cube_layer):
            picture.visible = self._is_picture

    def _hide(self, cube_layer: Image) -> None:
        """Hide the bands of *cube_layer* and its pictures."""
        for layer in (cube_layer, *composites_of(self.viewer, cube_layer)):
            layer.visible = False


def _shown_by(layer: Layer | None) -> Layer | None:
    """Return the cube layer that *layer* is the picture of, or else *layer*."""
    return layer if layer is None else cube_layer_of(layer) or layer
