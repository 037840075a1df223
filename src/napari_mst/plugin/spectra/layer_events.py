"""Keeps the names and colours of picks and regions true while their layers change."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from napari.components import ViewerModel
from napari.layers import Labels, Layer, Shapes

from napari_mst.plugin.spectra import region_layers
from napari_mst.plugin.spectra.region_rows import RegionRows
from napari_mst.plugin.viewer import picks

CHANGES = frozenset(
    [
        # the list of layers
        "inserted",
        "removed",
        "reordered",
        # one layer
        "visible",
        "name",
        "data",
        "features",
        # its colours
        "face_color",
        "current_face_color",
        "edge_color",
        "current_edge_color",
        "colormap",
        # its place
        "scale",
        "translate",
        "rotate",
        "shear",
        "affine",
        # the pixels of labels
        "paint",
        "labels_update",
    ]
)
"""napari's names of the events after which curves may be others."""
PAINTED = frozenset(["data", "paint", "labels_update"])
"""The events after which the pixels of labels may be others."""


def layer_of(event: Any, viewer: ViewerModel) -> Layer | None:
    """The layer that an event of the layers is about; None if it is about their list."""
    # The list of layers passes on the events of each layer, with the index of that layer.
    index = getattr(event, "index", None)
    is_one = isinstance(index, int) and 0 <= index < len(viewer.layers)
    # A layer that was removed had the index that another one has by now.
    return viewer.layers[index] if is_one and event.type != "removed" else None


def tell_apart(viewer: ViewerModel, layer: Layer) -> None:
    """Give the shapes of *layer* colours that no pick has, and no two of them share."""
    if isinstance(layer, Shapes):
        points = picks.picks_layer(viewer)
        picked = np.empty((0, 4)) if points is None else points.face_color
        region_layers.tell_apart(layer, picked)


class LayerEvents:
    """Gives new picks and regions names and colours, and tells after which events curves differ."""

    def __init__(self, regions: RegionRows, history: picks.History) -> None:
        self._regions = regions
        self._history = history

    def hear(self, event: Any, viewer: ViewerModel, *, has_regions: bool) -> bool:
        """True if curves may be others after *event*; shapes get colours if there are regions."""
        layer = layer_of(event, viewer)
        # It comes with every redrawing, and counts where napari has no other event for a change.
        if event.type == "set_data":
            return self._is_reshaped(layer)
        if event.type not in CHANGES:
            return False
        if isinstance(layer, Labels):
            self._regions.changed(layer, has_other_pixels=event.type in PAINTED)
        if event.type == "data":
            self._on_data(event, layer, viewer, has_regions)
        if event.type == "inserted":
            if has_regions:
                tell_apart(viewer, event.value)
            # If these are picks from a file, the first undo goes back to what they are now.
            self._history.record(picks.picks_layer(viewer))
        return True

    def _is_reshaped(self, layer: Layer | None) -> bool:
        """True if a redrawing was a shape that is being dragged, or paint that was undone."""
        if isinstance(layer, Labels):
            return self._regions.is_undone(layer)
        return isinstance(layer, Shapes)

    def _on_data(
        self, event: Any, layer: Layer | None, viewer: ViewerModel, has_regions: bool
    ) -> None:
        action = getattr(event, "action", None)
        if action == "removed" and isinstance(layer, Shapes):
            self._regions.removed(layer, set(event.data_indices))
        # What an undo brings back has its names and colours already.
        if action == "added" and layer is not None and not self._history.is_undoing:
            self._on_added(layer, event.data_indices, viewer, has_regions)

    def _on_added(
        self, layer: Layer, added: Sequence[int], viewer: ViewerModel, has_regions: bool
    ) -> None:
        # napari gives a new point the colour and the name of the one before.
        if layer is picks.picks_layer(viewer):
            picks.tell_apart(layer, added)
            picks.name_all(layer, added)
        elif has_regions:
            tell_apart(viewer, layer)
