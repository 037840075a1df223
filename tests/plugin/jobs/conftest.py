"""A cube above its photo, for what shows both together."""

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Image

from napari_mst.plugin.viewer.layers import active_cube_layer


@pytest.fixture
def layer(cube_viewer: ViewerModel) -> Image:
    """The layer of the cube, which is selected."""
    cube_viewer.add_image(np.zeros((20, 30, 3), np.uint8), name="photo")
    cube_viewer.layers.selection.active = cube_viewer.layers["cube"]
    layer = active_cube_layer(cube_viewer)
    assert layer is not None
    return layer
