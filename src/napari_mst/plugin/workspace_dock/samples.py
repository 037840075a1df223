"""File > Open Sample: a sample opens together with the workspace, so that Run is one click away."""

from functools import partial

from napari import current_viewer
from napari.components import ViewerModel
from qtpy.QtCore import QTimer

from napari_mst.cube.layer import LayerTuple
from napari_mst.plugin.files import samples
from napari_mst.plugin.viewer.remembered import PLUGIN
from napari_mst.plugin.workspace_dock.dock import TITLE


def coffee() -> list[LayerTuple]:
    """Describe a photo of a cup of coffee, and open the workspace."""
    _open_soon()
    return samples.coffee()


def chart() -> list[LayerTuple]:
    """Describe a colour chart with its true spectra, and open the workspace."""
    _open_soon()
    return samples.chart()


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
