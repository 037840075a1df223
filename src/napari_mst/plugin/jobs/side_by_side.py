"""Two pictures side by side in one window: a cube's, and what lies below it.

What lies below is the photo, or another cube. napari's grid draws both with one camera, so the same
spot is seen in both, and the mouse reads spectra in either. Layers stay in their order; they only
have to fall into two groups, of which the grid makes one cell each.
"""

from typing import Any

from napari.components import ViewerModel
from napari.layers import Image
from napari.utils.notifications import show_info

from napari_mst.plugin.jobs.wiper import Wiper
from napari_mst.plugin.viewer.layers import active_cube_layer, put_on_top
from napari_mst.plugin.viewer.sharing import ViewerHelper
from napari_mst.plugin.viewer.slots import calling

KEY = "G"
GAP = 0.01
"""Space between both pictures, as a share of their size."""
NOTHING_BELOW = (
    "There is nothing below the cube to compare it with. Open its photo or another cube, and show "
    "it with its eye in the list of layers."
)
_CHANGED = ("stride", "shape", "spacing")


class SideBySide(ViewerHelper):
    """Shows the active cube beside what lies below it."""

    def __init__(self, viewer: ViewerModel) -> None:
        super().__init__(viewer)
        self._upper: Image | None = None
        self._before: dict[str, Any] = {}
        layers = viewer.layers.events
        for changed in (layers.inserted, layers.removed, layers.reordered):
            # Last: the grid draws anew, for which napari's canvas has to know a new layer.
            changed.connect(self._arrange, position="last")
        viewer.canvas.grid.events.enabled.connect(self._on_enabled)
        viewer.bind_key(KEY, calling(self.toggle), overwrite=True)

    @property
    def is_open(self) -> bool:
        """Tell whether two pictures are shown side by side."""
        return self._upper is not None

    def toggle(self) -> None:
        """Show both side by side, or on top of each other again."""
        self.close() if self.is_open else self.open()

    def open(self) -> None:
        """Show the active cube beside what lies below it; say so if there is nothing."""
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

    def _on_enabled(self, _: Any) -> None:
        """Give the grid its settings back, whoever has switched it off."""
        if self.is_open and not self.viewer.canvas.grid.enabled:
            self._upper = None
            self.viewer.canvas.grid.update(self._before)

    def _arrange(self, _: Any = None) -> None:
        """Make two groups of the layers, however many there are now."""
        if self._upper is None:
            return
        if self._upper not in self.viewer.layers:
            self.close()
            return
        layers = self.viewer.layers
        self.viewer.canvas.grid.stride = stride_of(layers.index(self._upper), len(layers))


def stride_of(lower: int, layers: int) -> int:
    """Return the stride with which napari's grid puts the *lower* layers apart from the others.

    A stride counts from the lowest layer, and from the highest one if it is negative. Counted from
    the smaller group, the larger one would fall apart.
    """
    upper = layers - lower
    return lower if lower >= upper else -upper
