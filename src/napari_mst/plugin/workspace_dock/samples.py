"""File > Open Sample: a sample opens together with the workspace, so that Run is one click away.

Samples are files of the folder sample_data, whose README says where they come from.
"""

from functools import partial
from pathlib import Path

import numpy as np
from napari import current_viewer
from napari.components import ViewerModel
from qtpy.QtCore import QTimer

import napari_mst
from napari_mst import colour
from napari_mst.cube.layer import LayerTuple
from napari_mst.formats import read_cube
from napari_mst.photo.files import decode_file
from napari_mst.plugin.viewer.layers import cube_layer
from napari_mst.plugin.viewer.remembered import PLUGIN
from napari_mst.plugin.workspace_dock.dock import TITLE


def sample_path(name: str) -> Path:
    """The path of a file of sample_data, in an installed package or in a clone."""
    package = Path(napari_mst.__file__).parent
    installed = package / "sample_data" / name
    return installed if installed.exists() else package.parents[1] / "sample_data" / name


def chart() -> list[LayerTuple]:
    """Describe the colour chart as an sRGB photo, and the cube that it is rendered from."""
    _open_soon()
    cube = read_cube(sample_path("chart.tif"))
    linear = np.clip(colour.render_srgb(cube.data, cube.wavelengths), 0, 1)
    photo = np.round(255 * colour.linear_to_srgb(linear)).astype(np.uint8)
    return [
        cube_layer(cube, "colour chart (true spectra)"),
        (np.moveaxis(photo, 0, -1), {"name": "colour chart", "rgb": True}, "image"),
    ]


def coffee() -> list[LayerTuple]:
    """Describe a photo of a cup of coffee."""
    _open_soon()
    pixels = decode_file(sample_path("coffee.jpg"), []).pixels
    return [(pixels, {"name": "coffee", "rgb": True}, "image")]


def _open_soon() -> None:
    """Open the workspace of the viewer, once its sample is there."""
    viewer = current_viewer()
    if viewer is not None:
        # A dock that opens earlier would be looked at by whoever waits for the sample.
        QTimer.singleShot(0, partial(open_workspace, viewer))


def open_workspace(viewer: ViewerModel) -> None:
    """Open the workspace of *viewer*, or bring it to the front; not without a window."""
    window = getattr(viewer, "window", None)
    if window is not None:
        window.add_plugin_dock_widget(PLUGIN, TITLE)
