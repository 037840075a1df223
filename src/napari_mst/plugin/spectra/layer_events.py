"""What the spectra dock makes of the events of the layers."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from napari.layers import Labels, Shapes

from napari_mst.plugin.spectra import region_layers
from napari_mst.plugin.viewer import picks

if TYPE_CHECKING:
    from napari_mst.plugin.spectra.dock import SpectraDock

CHANGES = frozenset(
    [
        *("inserted", "removed", "reordered", "visible", "name", "data", "features"),
        *("face_color", "current_face_color", "edge_color", "current_edge_color", "colormap"),
        *("scale", "translate", "rotate", "shear", "affine", "paint", "labels_update"),
    ]
)
"""Events after which the curves may be others."""
PAINTED = frozenset(["data", "paint", "labels_update"])
"""Those after which the pixels of labels may be others."""


class LayerEvents:
    """Keeps names and colours of picks and regions true, and has *dock* redrawn."""

    def __init__(self, dock: "SpectraDock") -> None:
        self._dock = dock

    def hear(self, event: Any) -> None:
        """Of any event of the layers, or of their list."""
        dock, layer = self._dock, self._layer_of(event)
        if self._is_redrawing(event.type, layer):
            dock.draw_soon()
        if event.type == "selected_label" and isinstance(layer, Labels):
            dock.rows.choose_label(layer)
        if event.type in CHANGES:
            self._change(event, layer)
            dock.draw_soon()

    def _change(self, event: Any, layer: Any) -> None:
        dock = self._dock
        if isinstance(layer, Labels):
            dock.collection.regions.changed(layer, has_other_pixels=event.type in PAINTED)
        points = picks.picks_layer(dock.viewer)
        action = event.type == "data" and getattr(event, "action", None)
        if action == "removed" and isinstance(layer, Shapes):
            dock.collection.regions.removed(layer, set(event.data_indices))
        if action == "added" and layer is not None and not dock.history.is_undoing:
            self._on_added(layer, event.data_indices)
        if event.type == "inserted":
            self.tell_apart(event.value)
            dock.history.record(points)

    def tell_apart(self, layer: Any) -> None:
        """Give the shapes of *layer* colours of their own."""
        if isinstance(layer, Shapes) and self._dock.collection.has_regions:
            points = picks.picks_layer(self._dock.viewer)
            region_layers.tell_apart(
                layer, np.empty((0, 4)) if points is None else points.face_color
            )

    def _is_redrawing(self, kind: str, layer: Any) -> bool:
        """Whether a shape is dragged, paint was undone, or other points are selected."""
        if kind == "set_data":
            is_undone = isinstance(layer, Labels) and self._dock.collection.regions.is_undone(layer)
            return isinstance(layer, Shapes) or is_undone
        is_selecting = kind == "highlight" and layer is picks.picks_layer(self._dock.viewer)
        return is_selecting and self._dock.rows.of_points() is not None

    def _on_added(self, layer: Any, added: Sequence[int]) -> None:
        if layer is picks.picks_layer(self._dock.viewer):
            picks.tell_apart(layer, added)
            picks.name_all(layer, added)
        else:
            self.tell_apart(layer)

    def _layer_of(self, event: Any) -> Any:
        """The layer that an event of the list is about, if it is about one."""
        index, layers = getattr(event, "index", None), self._dock.viewer.layers
        is_one = isinstance(index, int) and 0 <= index < len(layers) and event.type != "removed"
        return layers[index] if is_one else None
