"""`add_cube` shows a cube in a viewer as if its file had been opened there."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Layer
from pytestqt.qtbot import QtBot
from tests.plugin.conftest import make_cube
from tests.plugin.in_viewer import picks_in

import napari_mst as nm
from napari_mst.base.errors import CubeError
from napari_mst.formats import write_cube
from napari_mst.plugin.files.opening import open_paths
from napari_mst.plugin.viewer import picks
from napari_mst.plugin.viewer.layers import active_cube_layer, composite_of, cube_of

SHOWN = ("scale", "translate", "units", "axis_labels", "rgb")


def looks(layer: Layer) -> list[str]:
    return [str(getattr(layer, name)) for name in SHOWN]


@pytest.mark.usefixtures("as_pictures")
def test_an_added_cube_is_what_the_reader_makes_of_its_file(qtbot: QtBot, tmp_path: Path) -> None:
    cube = replace(make_cube(), metadata={"picks": "2 3 1 #ff0000 leaf"})
    opened = ViewerModel()
    open_paths(opened, [write_cube(tmp_path / "leaf.hdr", cube)])
    viewer = ViewerModel()
    layer = nm.add_cube(viewer, cube, "leaf")
    assert cube_of(layer) is cube
    assert layer.data is cube.data
    assert looks(layer) == looks(opened.layers["leaf"])
    assert active_cube_layer(viewer) is layer
    assert viewer.layers.selection.active is layer
    assert picks.names(picks_in(viewer)) == ["leaf"]
    assert viewer.dims.point[0] == 550
    qtbot.waitUntil(lambda: composite_of(viewer, layer) is not None)


@pytest.mark.parametrize(
    ("viewer", "cube", "told"),
    [
        (ViewerModel(), np.zeros((3, 4, 5)), "a SpectralCube, got ndarray"),
        ("viewer", make_cube(), "a viewer of napari, got str"),
    ],
)
def test_other_things_are_refused_in_a_sentence(viewer: Any, cube: Any, told: str) -> None:
    with pytest.raises(CubeError, match=told):
        nm.add_cube(viewer, cube)
