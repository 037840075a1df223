"""Asks for places on a photo: the user clicks, and each click becomes a point of a layer."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image, Points
from numpy.typing import ArrayLike

from napari_mst.cube.layer import METADATA_KEY
from napari_mst.plugin.viewer.placement import Placement

ROLE = "marks"
"""Marks the layer of the clicks in its metadata."""
YELLOW = "#ffd400"
WIDTH = 0.012
"""Width of a mark, as a share of the longer side of the photo."""

Places = Sequence[tuple[float, float]]
"""Rows and columns of the photo, not rounded."""


class Asked:
    """Waits for the clicks on the layer *points*; *take* is given their places, once."""

    def __init__(self, points: Points, count: int, take: Callable[[Places], object]) -> None:
        self._count = count
        self._take = take
        points.events.data.connect(self._on_data)

    def _on_data(self, event: Any) -> None:
        points: Points = event.source
        # napari emits the event of a click before and after it has changed the data.
        if len(points.data) < self._count:
            return
        points.events.data.disconnect(self._on_data)
        points.mode = "pan_zoom"
        self._take([(float(row), float(column)) for row, column in points.data])


def ask_for_places(
    viewer: ViewerModel, layer: Image, name: str, count: int, take: Callable[[Places], object]
) -> Points:
    """Let the user click *count* places on the photo of *layer*, then hand them to *take*.

    The clicks go to a layer *name*, which takes the place of an older one.
    """
    points = add_marks(viewer, layer, name)
    viewer.layers.selection.active = points
    points.mode = "add"
    # The connection holds a method only weakly, so the layer keeps its object.
    points.metadata["asked"] = Asked(points, count, take)
    return points


def add_marks(viewer: ViewerModel, layer: Image, name: str) -> Points:
    """Add a layer *name* for marks on the photo of *layer*, in the place of an older one."""
    remove_marks(viewer)
    points: Points = viewer.add_points(
        ndim=2,
        **Placement.of(layer).image_kwargs(),
        name=name,
        symbol="cross",
        size=max(3.0, WIDTH * float(np.ptp(layer.extent.data, axis=0)[-2:].max())),
        face_color=YELLOW,
        border_width=0,
        metadata={METADATA_KEY: ROLE},
    )
    return points


def show_squares(points: Points, centres: ArrayLike, side: float) -> None:
    """Draw squares of *side* pixels at *centres* (n, 2), in place of the clicks."""
    points.data = np.asarray(centres)
    points.symbol = "square"
    points.size = side
    points.face_color = "transparent"
    points.border_color = YELLOW
    points.border_width = 0.1


def marks_layer(viewer: ViewerModel) -> Points | None:
    """Find the layer of the clicks; None if there is none."""
    own = (layer for layer in viewer.layers if layer.metadata.get(METADATA_KEY) == ROLE)
    return next((layer for layer in own if isinstance(layer, Points)), None)


def remove_marks(viewer: ViewerModel) -> None:
    """Take the layer of the clicks away, if there is one."""
    layer = marks_layer(viewer)
    if layer is not None:
        viewer.layers.remove(layer)
