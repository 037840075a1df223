"""A cube above its photo, for what shows both together."""

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Image
from tests.plugin.in_viewer import active_in


@pytest.fixture
def layer(cube_viewer: ViewerModel) -> Image:
    """The layer of the cube, which is selected."""
    cube_viewer.add_image(np.zeros((20, 30, 3), np.uint8), name="photo")
    cube_viewer.layers.selection.active = cube_viewer.layers["cube"]
    return active_in(cube_viewer)
