"""Writes where on earth the mouse is, beside the pixel in the status bar."""

import math

import numpy as np
from napari.components import ViewerModel

from napari_mst.cube.georeference import FIELD, Georeference
from napari_mst.plugin.viewer.layers import active_cube_layer, cube_of
from napari_mst.plugin.viewer.placement import pixel_at
from napari_mst.plugin.viewer.sharing import ViewerHelper


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
