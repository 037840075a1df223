"""The plugin in a real napari window: what only a window can show. Everything else is tested without one."""

import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import napari
import numpy as np
import pytest
from napari.components import ViewerModel
from pytestqt.qtbot import QtBot
from qtpy.QtCore import QPoint, Qt
from tests.plugin.conftest import GatedJob, make_cube, with_photo

from napari_mst import read_cube
from napari_mst.plugin import picks
from napari_mst.plugin.layers import active_cube_layer, cube_layer
from napari_mst.plugin.reconstruct_dock import ReconstructDock

PLUGIN, RECONSTRUCT, SPECTRA = "napari-mst", "Hyperspectral reconstruction (MST++)", "Spectra"
ATTENTION = "Attention (MST++)"


@pytest.fixture
def window(make_napari_viewer: Callable[..., napari.Viewer], job: GatedJob) -> napari.Viewer:
    return with_photo(make_napari_viewer(show=True, strict_qt="raise"), job)


def opened(viewer: napari.Viewer, name: str, qtbot: QtBot) -> Any:
    _, dock = viewer.window.add_plugin_dock_widget(PLUGIN, name)
    qtbot.waitUntil(dock.isVisible)
    return dock


def ready_dock(viewer: napari.Viewer, qtbot: QtBot) -> ReconstructDock:
    dock = opened(viewer, RECONSTRUCT, qtbot)
    qtbot.waitUntil(lambda: dock.is_ready, timeout=60_000)
    return dock


class Mouse:
    """Real mouse events on the canvas, at pixels of a layer."""

    def __init__(self, viewer: napari.Viewer, qtbot: QtBot) -> None:
        self.viewer, self.qtbot = viewer, qtbot
        viewer.reset_view()  # the docks have made the canvas smaller
        self.canvas = viewer.window._qt_viewer.canvas

    def at(self, row: float, column: float) -> QPoint:
        camera, size = self.viewer.scene.camera, self.canvas.native.size()
        return QPoint(
            round(size.width() / 2 + (column - camera.center[2]) * camera.zoom),
            round(size.height() / 2 + (row - camera.center[1]) * camera.zoom),
        )

    def click(self, row: float, column: float) -> None:
        self.drag((row, column), (row, column))

    def drag(self, start: tuple[float, float], stop: tuple[float, float]) -> None:
        native, left = self.canvas.native, Qt.MouseButton.LeftButton
        self.qtbot.mousePress(native, left, pos=self.at(*start))
        if start != stop:  # vispy passes over moves that come within 10 ms
            self.qtbot.mouseMove(native, pos=(self.at(*start) + self.at(*stop)) / 2, delay=20)
            self.qtbot.mouseMove(native, pos=self.at(*stop), delay=20)
        self.qtbot.mouseRelease(native, left, pos=self.at(*stop))


def test_a_photo_is_reconstructed_picked_and_saved(
    window: napari.Viewer, job: GatedJob, qtbot: QtBot, tmp_path: Path
) -> None:
    dock = ready_dock(window, qtbot)
    spectra = opened(window, SPECTRA, qtbot)
    job.gate.set()
    qtbot.mouseClick(dock.run_button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: active_cube_layer(window) is not None)
    Mouse(window, qtbot).click(4, 7)
    qtbot.waitUntil(lambda: len(spectra.plot.curves) == 1)
    np.testing.assert_array_equal(spectra.plot.curves[0].yData, make_cube().data[:, 4, 7])
    for name in ("cube.hdr", "cube.tif"):
        window.layers.save(str(tmp_path / name), selected=True, plugin=PLUGIN)
        saved = read_cube(tmp_path / name)
        np.testing.assert_array_equal(saved.data, make_cube().data)
        assert saved.provenance.model == "fake"
        (opened_again,) = window.open(tmp_path / name, plugin=PLUGIN)
        np.testing.assert_array_equal(opened_again.data, saved.data)
        window.layers.remove(opened_again)
        window.layers.selection.active = active_cube_layer(window)
    assert window.canvas.overlays.current_slice.visible


def test_a_click_pins_and_a_drag_pans(window: napari.Viewer, qtbot: QtBot) -> None:
    data, arguments, _ = cube_layer(make_cube(), "cube")
    cube = window.add_image(data, **arguments)
    spectra = opened(window, SPECTRA, qtbot)
    mouse, centre = Mouse(window, qtbot), window.scene.camera.center
    mouse.drag((4, 7), (9, 12))
    assert picks.picks_layer(window) is None
    qtbot.waitUntil(lambda: window.scene.camera.center != centre)
    mouse.click(4, 7)
    mouse.click(12, 20)
    points = picks.picks_layer(window)
    np.testing.assert_array_equal(points.data, [[4, 7], [12, 20]])
    spectra.pick_button.click()
    mouse.click(15, 15)
    assert len(points.data) == 2
    assert window.layers.selection.active is cube


def test_a_point_that_is_dragged_with_naparis_own_tool_takes_its_curve_along(
    window: napari.Viewer, qtbot: QtBot
) -> None:
    data, arguments, _ = cube_layer(make_cube(), "cube")
    window.add_image(data, **arguments)
    spectra = opened(window, SPECTRA, qtbot)
    spectra.pin((550, 4, 7))
    points = picks.picks_layer(window)
    window.layers.selection.active, points.mode = points, "select"
    Mouse(window, qtbot).drag((4, 7), (9, 12))
    qtbot.waitUntil(lambda: not spectra.is_drawing)
    assert len(points.data) == 1
    row, column = np.round(points.data[0]).astype(int)
    assert (row, column) != (4, 7)
    np.testing.assert_array_equal(spectra.plot.curves[0].yData, data[:, row, column])


@pytest.mark.parametrize("ending", ["074-viewer-closed", "074-dock-closed"])
def test_bad_input(window: napari.Viewer, job: GatedJob, qtbot: QtBot, ending: str) -> None:
    dock = ready_dock(window, qtbot)
    workspace = dock.workspace
    dock.run()
    qtbot.waitUntil(job.begun.is_set)
    if ending == "074-viewer-closed":
        window.close()
    else:
        window.window.remove_dock_widget(dock)
        del dock
        gc.collect()
    qtbot.waitUntil(lambda: not workspace.is_busy)
    assert [layer.name for layer in window.layers] in ([], ["photo"])


@pytest.mark.parametrize(
    "name", [SPECTRA, RECONSTRUCT, ATTENTION], ids=["078-spectra", "078-reconstruction", "078-attention"]
)
def test_bad_input_opened_and_closed_through_the_window(window: napari.Viewer, qtbot: QtBot, name: str) -> None:
    emitters = (window.layers.events, window.layers.events.inserted, window.dims.events.ndisplay, window.events.theme)

    def count() -> list[int]:
        callbacks = [emitter.callbacks for emitter in emitters]
        return [len(one) for one in (*callbacks, window.mouse_move_callbacks, window.mouse_drag_callbacks)]

    docks: list[weakref.ref[Any]] = []
    before = count()
    for _ in range(50):
        widget = opened(window, name, qtbot)
        docks.append(weakref.ref(widget))
        window.window.remove_dock_widget(widget)
        del widget
    qtbot.waitUntil(lambda: not gc.collect() and not any(dock() for dock in docks), timeout=60_000)
    assert count() == before


@pytest.mark.parametrize("sample", ["coffee", "chart"])
def test_samples_open_from_the_menu(window: ViewerModel, sample: str) -> None:
    layers = window.open_sample(PLUGIN, sample)
    assert layers[-1].rgb
    assert (active_cube_layer(window) is not None) == (sample == "chart")
