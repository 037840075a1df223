"""A demonstration of the plugin: `python tools/demo.py --out DIR`.

It opens napari, reconstructs the sample photo in the real workspace and keeps some spectra. It
leaves the cube (ENVI and TIFF) and a picture of the window in DIR. Set NAPARI_CONFIG to a file of
its own, as `make demo` does: napari keeps the size of a window that is closed in its settings.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import napari
from napari.layers import Image
from qtpy.QtCore import QEventLoop
from qtpy.QtWidgets import QApplication, QDockWidget

import napari_mst as nm
from napari_mst.plugin.attention.attention_model import map_order, recording_order, steps_order
from napari_mst.plugin.pictures.composing import Composer
from napari_mst.plugin.session import workspace_of
from napari_mst.plugin.spectra.model_dock import SharedSpectraModel
from napari_mst.plugin.viewer.layers import active_cube_layer, go_to
from napari_mst.plugin.viewer.sharing import PLUGIN

TITLE = "Workspace"
"""Name of the dock that shows the photo."""
HEAD = ("stages.0.decoder.1", 0)
"""Block and head in the pictures of the attention dock."""
CHANNELS = (0, 23)
"""Key and query channel in these pictures."""
PIXEL = (143, 211)
"""Row and column of the pixel in the picture of six attentions."""
PAGES = {"attention-steps.png": 2, "attention.png": 1}
"""Picture -> page of the attention dock."""
WINDOW = (1500, 940)
"""Width and height in pixels."""
DOCK_WIDTH = 560
PICKS = ((270, 130), (160, 270), (345, 530), (95, 184), (290, 270))
"""Rows and columns of the photo where materials differ in their spectra."""
SHOWN = 600.0
"""nm; the band in the picture of the window."""


def main(arguments: list[str] | None = None) -> None:
    """Run the demonstration."""
    options = _parser().parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    viewer = napari.Viewer()
    viewer.theme = options.theme
    if options.attention:
        explore(viewer, options.out)
    else:
        reconstruct(viewer, options.out)
    if options.keep_open:
        napari.run()
    else:
        viewer.close()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="demo.py", description=__doc__)
    add = parser.add_argument
    add("--out", type=Path, required=True, help="folder for the cube files and the picture")
    add("--theme", choices=("dark", "light"), default="dark", help="theme of napari")
    add("--attention", action="store_true", help="show the attention dock instead: three pictures")
    add("--keep-open", action="store_true", help="leave napari open")
    return parser


def reconstruct(viewer: napari.Viewer, out: Path) -> None:
    """Reconstruct the sample photo; leave the cube, as ENVI and as TIFF, and a picture in *out*."""
    show(viewer)
    for name in ("cube.hdr", "cube.tif"):
        viewer.layers.save(str(out / name), selected=True, plugin=PLUGIN)
    viewer.screenshot(str(out / "napari.png"), canvas_only=False, flash=False)
    print(f"The cube and the picture are in {out}.")


def explore(viewer: napari.Viewer, out: Path) -> None:
    """Record the attention on the sample photo, map a head over it and take the head apart.

    Three pictures are left in *out*; one needs no napari: six attentions of a pixel.
    """
    photo = Path(__file__).parents[1] / "sample_data" / "coffee.jpg"
    six = nm.attention.figure(nm.attention.side_by_side(photo, *PIXEL))
    six.savefig(out / "attention-six.png", dpi=90)
    frame, dock = open_dock(viewer, "Attention")
    workspace = workspace_of(viewer)
    # It starts when the noise of the photo was estimated.
    wait_until(lambda: dock.start(recording_order, dock.form))
    wait_until(lambda: not workspace.is_busy)
    dock.model.choose(*HEAD)
    dock.model.choose_channels(*CHANNELS)
    dock.start(map_order, "attention")
    wait_until(lambda: not workspace.is_busy)
    dock.start(steps_order)
    wait_until(lambda: not workspace.is_busy)
    viewer.reset_view()
    frame.raise_()  # the workspace, which the sample opens, may lie on it
    for name, page in PAGES.items():
        dock.tabs.setCurrentIndex(page)
        QApplication.processEvents()  # so that the page is drawn
        viewer.screenshot(str(out / name), canvas_only=False, flash=False)
    print(f"The pictures are in {out}.")


def show(viewer: napari.Viewer) -> None:
    """Reconstruct the sample photo in *viewer* and keep some spectra."""
    _, dock = open_dock(viewer, TITLE)
    reconstruction = dock.pages["photo"].widget().reconstruction
    # A run needs the list of devices, which a thread makes: it imports torch first.
    wait_until(lambda: reconstruction.form.is_ready)
    reconstruction.run()
    wait_until(lambda: not workspace_of(viewer).is_busy)
    cube_layer = active_cube_layer(viewer)
    if cube_layer is None:
        # The state keeps the sentence that a failed job has left.
        raise SystemExit(workspace_of(viewer).state.text)
    dock.go_to("spectra")
    spectra = SharedSpectraModel.of(viewer)
    point_at(viewer, cube_layer, spectra)
    wait_until(lambda: not spectra.is_drawing)


def open_dock(viewer: napari.Viewer, name: str) -> tuple[QDockWidget, Any]:
    """Open the sample photo, and the dock *name* with it; returns its frame and the dock."""
    viewer.window.resize(*WINDOW)
    # A sample opens the workspace, now or soon: then it is opened here.
    viewer.open_sample(PLUGIN, "coffee")
    viewer.window.add_plugin_dock_widget(PLUGIN, TITLE)
    container, dock = viewer.window.add_plugin_dock_widget(PLUGIN, name, tabify=True)
    container.setMinimumWidth(DOCK_WIDTH)
    # A dock listens to the viewer only once it is shown.
    wait_until(dock.isVisible)
    return container, dock


def point_at(viewer: napari.Viewer, cube_layer: Image, spectra: SharedSpectraModel) -> None:
    """Keep the picks, and show the band of `SHOWN`."""
    for row, column in PICKS:
        spectra.pin(cube_layer.data_to_world((0, row, column)))
    go_to(viewer, cube_layer, SHOWN)
    composer = Composer.of(viewer)
    composer.show_picture(cube_layer)
    wait_until(lambda: not composer.is_busy)
    # The picture with its picks, and the band below it: the photo lies under the band.
    viewer.canvas.grid.enabled = True
    viewer.canvas.grid.shape = (2, 1)
    viewer.canvas.grid.stride = -2
    viewer.reset_view()


def wait_until(is_done: Callable[[], bool]) -> None:
    """Let Qt work until *is_done* returns True."""
    while not is_done():
        QApplication.processEvents(QEventLoop.ProcessEventsFlag.AllEvents, 50)
        # Without a rest, asking takes Python's lock from the threads that it waits for.
        time.sleep(0.02)
    QApplication.processEvents()


if __name__ == "__main__":
    main()
