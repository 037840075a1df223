"""Two pictures side by side in one window: those of a cube, and whatever lies below it.

What lies below is the photo, or another cube. napari's grid draws both with one camera, so the same
spot is seen in both, and the mouse reads spectra in either. Layers stay in their order; they only
have to fall into two groups, of which the grid makes one cell each.
"""

import weakref
from typing import Any, NamedTuple

from napari.components import ViewerModel
from napari.layers import Image
from napari.utils.notifications import show_info

from napari_mst.plugin.jobs.wiper import wiper_of
from napari_mst.plugin.viewer.layers import active_cube_layer, put_on_top
from napari_mst.plugin.viewer.sharing import shared
from napari_mst.plugin.viewer.slots import calling

KEY = "G"
GAP = 0.01
"""Space between both pictures, as a share of their size."""
NOTHING_BELOW = (
    "There is nothing below the cube to compare it with. Open its photo or another cube, and show "
    "it with its eye in the list of layers."
)


class Grid(NamedTuple):
    """The settings of napari's grid."""

    stride: int
    shape: tuple[int, int]
    spacing: float


class SideBySide:
    """Shows the active cube of *viewer* beside what lies below it."""

    def __init__(self, viewer: ViewerModel) -> None:
        self._viewer_ref = weakref.ref(viewer)
        self._upper_ref: weakref.ref[Image] | None = None
        self._before: Grid | None = None
        layers = viewer.layers.events
        for changed in (layers.inserted, layers.removed, layers.reordered):
            # Last: the grid draws anew, for which napari's canvas has to know a new layer.
            changed.connect(self._arrange, position="last")
        viewer.canvas.grid.events.enabled.connect(self._on_enabled)
        viewer.bind_key(KEY, calling(self.toggle), overwrite=True)

    @property
    def is_open(self) -> bool:
        """Tell whether two pictures are shown side by side."""
        return self._before is not None

    def toggle(self) -> None:
        """Show both side by side, or on top of each other again."""
        if self.is_open:
            self.close()
        else:
            self.open()

    def open(self) -> None:
        """Show the active cube beside what lies below it; say so if there is nothing."""
        viewer = self._viewer_ref()
        layer = None if viewer is None else active_cube_layer(viewer)
        if viewer is None or layer is None:
            return
        wiper_of(viewer).close()
        put_on_top(viewer, layer)
        if not any(below.visible for below in viewer.layers[: viewer.layers.index(layer)]):
            show_info(NOTHING_BELOW)
            return
        grid = viewer.canvas.grid
        self._before = Grid(grid.stride, grid.shape, grid.spacing)
        self._upper_ref = weakref.ref(layer)
        self._arrange()
        grid.shape = (-1, -1)
        grid.spacing = GAP
        grid.enabled = True
        viewer.reset_view()

    def close(self) -> None:
        """Show all layers on top of each other again."""
        viewer = self._viewer_ref()
        if viewer is not None and self.is_open:
            viewer.canvas.grid.enabled = False
            viewer.reset_view()

    # ----------------------------------------------------------------------------- listening

    def _on_enabled(self, _: Any) -> None:
        """Give the grid its settings back, whoever has switched it off."""
        viewer, before = self._viewer_ref(), self._before
        if viewer is None or before is None or viewer.canvas.grid.enabled:
            return
        self._before = self._upper_ref = None
        grid = viewer.canvas.grid
        grid.stride, grid.shape, grid.spacing = before

    def _arrange(self, _: Any = None) -> None:
        """Make two groups of the layers, however many there are now."""
        viewer = self._viewer_ref()
        upper = None if self._upper_ref is None else self._upper_ref()
        if viewer is None or not self.is_open:
            return
        if upper is None or upper not in viewer.layers:
            self.close()
            return
        viewer.canvas.grid.stride = stride_of(viewer.layers.index(upper), len(viewer.layers))


def stride_of(lower: int, layers: int) -> int:
    """Return the stride with which napari's grid puts the *lower* layers apart from the others.

    A stride counts from the lowest layer, and from the highest one if it is negative. Counted from
    the smaller group, the larger one would fall apart.
    """
    upper = layers - lower
    return lower if lower >= upper else -upper


def side_by_side_of(viewer: ViewerModel) -> SideBySide:
    """Return what shows the cubes of *viewer* side by side, made on first use."""
    return shared(viewer, SideBySide)
