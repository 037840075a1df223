"""A photo, a record and maps of attention, made up for the tests of the attention dock."""

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Image
from pytestqt.qtbot import QtBot

from napari_mst.attention.record_views import AttentionMap
from napari_mst.plugin.attention.attention_layers import show_map
from napari_mst.plugin.attention.dock import AttentionDock
from napari_mst.plugin.viewer.layer_photos import LayerPhoto


@pytest.fixture
def viewer() -> ViewerModel:
    """A viewer without a window, whose jobs are real.

    Its photo of 20 x 30 is scaled, turned, sheared and moved.
    """
    viewer = ViewerModel()
    pixels = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    placed = {"scale": (2.0, 3.0), "rotate": 30.0, "translate": (5.0, 7.0), "shear": [0.2]}
    viewer.add_image(pixels, rgb=True, name="photo", **placed)
    return viewer


@pytest.fixture
def dock(viewer: ViewerModel, qtbot: QtBot) -> AttentionDock:
    dock = AttentionDock(viewer)
    qtbot.addWidget(dock)
    dock.resize(560, 700)
    dock.show()
    done(dock, qtbot)  # it looks at a pixel of the photo by itself
    return dock


def photo_of(viewer: ViewerModel) -> LayerPhoto:
    return LayerPhoto.of(viewer.layers["photo"], viewer.dims.point)


def done(dock: AttentionDock, qtbot: QtBot) -> None:
    qtbot.waitUntil(lambda: not dock.workspace.is_busy, timeout=120_000)


def shown_map(viewer: ViewerModel, made: AttentionMap) -> Image:
    """The layer that shows the map, which is the selected one."""
    show_map(viewer, made, photo_of(viewer))
    layer = viewer.layers.selection.active
    assert isinstance(layer, Image)
    return layer
