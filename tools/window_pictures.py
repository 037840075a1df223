"""Make the pictures of the window: `python -m tools.window_pictures [FOLDER]`, with a display.

A real window goes through the first minutes of the sample photo. Its steps are pictures of the page
*Start*; the same minute is first_minute.gif. The picture of README and those of the docks come from
`tools/demo.py` and from here. By default they are written into docs/images. ffmpeg makes the GIF.
"""

import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

import napari
import numpy as np
from PIL import Image, ImageDraw
from qtpy.QtCore import QPoint
from qtpy.QtWidgets import QApplication
from tools import demo
from tools.drawing import IMAGES, squeeze

from napari_mst.plugin.session import workspace_of
from napari_mst.plugin.spectra.model_dock import SharedSpectraModel
from napari_mst.plugin.viewer.layers import active_cube_layer, go_to
from napari_mst.plugin.viewer.sharing import PLUGIN

SIZE = (1200, 760)
GIF_WIDTH = 800
FRAMES_A_SECOND = 5
PATH = ((120, 60), (160, 270), (270, 130), (345, 530), (95, 184))
"""Rows and columns of the photo that the mouse passes."""
ARROW = ((0, 0), (0, 20), (5, 15), (9, 23), (12, 21), (8, 14), (15, 14))
"""The mouse, in pixels right of its tip and below it."""


class Film:
    """The frames of a window, in a folder, with the mouse drawn where it is in the photo."""

    def __init__(self, viewer: napari.Viewer, folder: Path) -> None:
        self.viewer, self.folder, self.number = viewer, folder, 0

    def shoot(self, times: int = 1, mouse: tuple[float, float] | None = None) -> None:
        """Keep what the window shows, *times* frames long, with the *mouse* at a row and column."""
        QApplication.processEvents()
        picture = Image.fromarray(self.viewer.screenshot(canvas_only=False, flash=False)[..., :3])
        if mouse is not None:
            x, y = self.place_of(mouse)
            arrow = [(x + right, y + down) for right, down in ARROW]
            ImageDraw.Draw(picture).polygon(arrow, fill="white", outline="black")
        for _ in range(times):
            picture.save(self.folder / f"{self.number:04d}.png")
            self.number += 1

    def place_of(self, mouse: tuple[float, float]) -> tuple[float, float]:
        """Where a row and column of the photo lie in the picture of the window."""
        window = self.viewer.window._qt_window
        canvas = self.viewer.window._qt_viewer.canvas.native
        corner = canvas.mapTo(window, QPoint(0, 0))
        camera = self.viewer.scene.camera
        row, column = (np.array(mouse) - camera.center[-2:]) * camera.zoom
        return corner.x() + canvas.width() / 2 + column, corner.y() + canvas.height() / 2 + row

    def save(self, path: Path) -> None:
        """Make a GIF of the frames, with colours chosen for them."""
        frames = str(self.folder / "%04d.png")
        size = f"scale={GIF_WIDTH}:-1:flags=lanczos"
        colours = "split[a][b];[a]palettegen=max_colors=96[p];[b][p]paletteuse=dither=none"
        command = ["ffmpeg", "-y", "-loglevel", "error", "-framerate", str(FRAMES_A_SECOND)]
        filters = ["-i", frames, "-vf", f"{size},{colours}", str(path)]
        subprocess.run([*command, *filters], check=True)


def main(folder: Path) -> None:
    """Write all pictures of the window into *folder*."""
    with tempfile.TemporaryDirectory() as here:
        first_minute(folder, Path(here))
    metamers(folder / "metamers.png")
    for options in ([], ["--attention"]):
        with tempfile.TemporaryDirectory() as here:
            demo.main(["--out", here, *options])
            for picture in Path(here).glob("*.png"):
                picture.replace(folder / picture.name)
                squeeze(folder / picture.name)


def first_minute(folder: Path, frames: Path) -> None:
    """Open, run, point, click, and make a map: a picture of each step, and the film of all."""
    viewer = napari.Viewer()
    viewer.window.resize(*SIZE)
    viewer.open_sample(PLUGIN, "coffee")
    _, dock = viewer.window.add_plugin_dock_widget(PLUGIN, demo.TITLE)
    demo.wait_until(dock.isVisible)
    workspace = workspace_of(viewer)
    reconstruction = dock.pages["photo"].widget().reconstruction
    demo.wait_until(lambda: reconstruction.form.is_ready)
    viewer.reset_view()
    film = Film(viewer, frames)

    def step(name: str) -> None:
        picture = folder / f"step-{name}.png"
        QApplication.processEvents()
        viewer.screenshot(str(picture), canvas_only=False, flash=False)
        squeeze(picture)

    film.shoot(6)
    step("photo")
    reconstruction.run()
    film.shoot(2)
    demo.wait_until(lambda: not workspace.is_busy)
    layer = active_cube_layer(viewer)
    for wavelength in range(450, 690, 20):
        go_to(viewer, layer, wavelength)
        film.shoot()
    go_to(viewer, layer, 600)
    film.shoot(2)
    step("band")
    dock.go_to("spectra")
    model = SharedSpectraModel.of(viewer)
    point(model, layer, film)
    step("spectra")
    dock.go_to("maps")
    model.maps.choose("classes")
    demo.wait_until(lambda: not model.maps.lacks)
    film.shoot(3)
    model.maps.run()
    demo.wait_until(lambda: not model.maps.is_busy)
    film.shoot(10)
    step("map")
    film.save(folder / "first_minute.gif")
    viewer.close()


def metamers(path: Path) -> None:
    """Show a patch of the chart, what a network makes of its colour, and a metamer of it."""
    viewer = napari.Viewer()
    viewer.window.resize(*SIZE)
    viewer.open_sample(PLUGIN, "chart")
    frame, dock = viewer.window.add_plugin_dock_widget(PLUGIN, "Metamers", tabify=True)
    demo.wait_until(dock.isVisible)
    dock.model.answer()
    demo.wait_until(lambda: dock.model.estimated is not None)
    frame.raise_()  # the workspace, which the sample opens, may lie on it
    viewer.reset_view()
    QApplication.processEvents()
    viewer.screenshot(str(path), canvas_only=False, flash=False)
    squeeze(path)
    viewer.close()


def point(model: SharedSpectraModel, layer: napari.layers.Image, film: Film) -> None:
    """Move over the cube, and keep a spectrum at every place of `PATH`."""
    for start, end in pairwise(PATH):
        for share in np.linspace(0, 1, 5):
            row, column = np.add(start, share * np.subtract(end, start))
            model.point_at(layer.data_to_world((0, row, column)))
            demo.wait_until(lambda: not model.is_drawing)
            film.shoot(mouse=(row, column))
        model.click(layer.data_to_world((0, *end)))
        demo.wait_until(lambda: not model.is_drawing)
        film.shoot(2, mouse=end)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES)
