"""The plugin in a real napari window; what needs no window is tested without one."""

import gc
import sys
import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import napari
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from pytestqt.qtbot import QtBot
from qtpy.QtCore import QPoint, Qt
from qtpy.QtWidgets import QApplication, QWidget
from tests.plugin.conftest import GatedJob, make_cube
from tests.plugin.in_viewer import add_cube, picks_in
from tests.plugin.spectra.probe import choose

from napari_mst import read_cube
from napari_mst.cube.layer import METADATA_KEY
from napari_mst.cube.spectrum import Spectrum
from napari_mst.plugin.files.preferences import prefer_own_reader
from napari_mst.plugin.jobs.worker import JobWorker, _Listeners
from napari_mst.plugin.jobs.workspace import Workspace
from napari_mst.plugin.metamers import dock as metamers_dock
from napari_mst.plugin.metamers.metamer_model import ColourCodes
from napari_mst.plugin.reconstruct.dock import ReconstructDock
from napari_mst.plugin.spectra.dock import SpectraDock
from napari_mst.plugin.spectra.model_dock import MapsDock
from napari_mst.plugin.viewer import picks
from napari_mst.plugin.viewer.layers import active_cube_layer, cube_of

PLUGIN = "napari-mst"
ATTENTION = "Attention"
WORKSPACE = "Workspace"
METAMERS = "Metamers"
TORN = {"Reconstruction": ReconstructDock, "Spectra": SpectraDock, "Maps": MapsDock}
"""The docks of pages of the workspace, which are torn off."""
RECONSTRUCT, SPECTRA, MAPS = TORN
TIMES = 15
"""How often a dock is opened and closed in a window, to see what each leaves behind."""
FEW_TIMES = 5
"""As often where it is not asked for with `-m slow`."""
MOST_GROWTH = 200
"""Blocks of memory that a closed dock may leave behind: napari and vispy keep up to 120 of each."""
TITLE_BAR = Counter({"PySide6.QtWidgets.QPushButton": 3, "PySide6.QtWidgets.QLabel": 1})
"""What napari's own title bar leaves behind of every dock, an empty one too, under PySide6."""
LAST_MOUSE_EVENT = "pyqtgraph.Point.Point"
"""A point or two of it stay until the next event."""


def opened(viewer: napari.Viewer, name: str, qtbot: QtBot) -> Any:
    if name in TORN:
        dock = TORN[name](viewer)
        viewer.window.add_dock_widget(dock, name=name)
    else:
        _, dock = viewer.window.add_plugin_dock_widget(PLUGIN, name)
    qtbot.waitUntil(dock.isVisible)
    return dock


@pytest.fixture
def spectra(window: napari.Viewer, qtbot: QtBot) -> Any:
    """The dock of spectra, beside a cube."""
    add_cube(window, make_cube())
    return opened(window, SPECTRA, qtbot)


def ready_dock(viewer: napari.Viewer, qtbot: QtBot) -> ReconstructDock:
    dock = opened(viewer, RECONSTRUCT, qtbot)
    qtbot.waitUntil(lambda: dock.form.is_ready, timeout=60_000)
    return dock


def shows_a_cube(layer: Any) -> bool:
    return cube_of(layer) is not None


def is_idle(workspace: Workspace) -> bool:
    return not workspace.is_busy


def has_other_values(spectra: Any, before: NDArray[Any]) -> bool:
    return not np.array_equal(curve(spectra), before)


def has_lines(spectra: Any, number: int) -> bool:
    return not spectra.model.is_drawing and len(spectra.plot.curves.lines) == number


def curve(spectra: Any) -> NDArray[Any]:
    """The values of the first curve."""
    return np.asarray(spectra.plot.curves.lines[0].spectrum.values)


def undo(widget: QWidget, qtbot: QtBot) -> None:
    qtbot.keyClick(widget, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)


class Mouse:
    """Real mouse events on the canvas, at pixels of a layer."""

    def __init__(self, viewer: napari.Viewer, qtbot: QtBot) -> None:
        self.viewer, self.qtbot = viewer, qtbot
        QApplication.processEvents()  # the docks make the canvas smaller
        viewer.reset_view()
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
    qtbot.waitUntil(lambda: len(spectra.plot.curves.lines) == 1)
    assert_allclose(curve(spectra), make_cube().data[:, 4, 7])
    # Done once in a process, when the plugin is activated; the settings are those of this test.
    prefer_own_reader()
    for name, reader in (("cube.hdr", PLUGIN), ("cube.tif", None)):
        window.layers.save(str(tmp_path / name), selected=True, plugin=PLUGIN)
        saved = read_cube(tmp_path / name)
        assert_array_equal(saved.data, make_cube().data)
        assert saved.provenance.model == "fake"
        (opened_again,) = window.open(tmp_path / name, plugin=reader)
        qtbot.waitUntil(partial(shows_a_cube, opened_again))
        assert_array_equal(opened_again.data, saved.data)
        window.layers.remove(opened_again)
        window.layers.selection.active = active_cube_layer(window)
    assert window.dims.axis_labels[0] == "550 nm"


def test_picks_are_clicked_dragged_deleted_and_taken_back_wherever_the_focus_is(
    window: napari.Viewer, spectra: Any, qtbot: QtBot
) -> None:
    cube = active_cube_layer(window)
    mouse, centre = Mouse(window, qtbot), window.scene.camera.center
    canvas = mouse.canvas.native
    mouse.drag((4, 7), (9, 12))
    assert picks.picks_layer(window) is None
    qtbot.waitUntil(lambda: window.scene.camera.center != centre)
    mouse.click(4, 7)
    mouse.click(12, 20)
    points = picks_in(window)
    spectra.menus.pick.click()
    mouse.click(15, 15)
    assert_array_equal(points.data, [[4, 7], [12, 20]])
    assert window.layers.selection.active is cube
    # With napari's own tool.
    window.layers.selection.active, points.mode = points, "select"

    def is_dragged() -> bool:
        mouse.drag((4, 7), (9, 12))
        return tuple(np.round(points.data[0]).astype(int)) != (4, 7)

    qtbot.waitUntil(is_dragged)  # a busy computer may pass over all moves of a drag
    qtbot.waitUntil(lambda: not spectra.model.is_drawing)
    row, column = np.round(points.data[0]).astype(int)
    assert_allclose(curve(spectra), make_cube().data[:, row, column])
    undo(canvas, qtbot)
    assert_array_equal(points.data, [[4, 7], [12, 20]])
    qtbot.waitUntil(lambda: not spectra.model.is_drawing)
    mouse.click(4, 7)
    qtbot.keyClick(canvas, Qt.Key.Key_Delete)
    qtbot.waitUntil(lambda: len(spectra.plot.curves.lines) == 1)
    main = window.window._qt_window
    qtbot.waitUntil(lambda: main.activateWindow() or main.isActiveWindow())
    for left, widget in ((2, canvas), (1, spectra), (0, spectra.table)):
        widget.setFocus()
        undo(widget, qtbot)
        qtbot.waitUntil(partial(has_lines, spectra, left))
        assert len(points.data) == left


def test_a_region_is_drawn_and_takes_its_mean_along_while_the_button_is_down(
    window: napari.Viewer, spectra: Any, qtbot: QtBot
) -> None:
    choose(spectra.menus.regions, "Draw regions")
    mouse = Mouse(window, qtbot)
    mouse.drag((3, 4), (9, 12))
    qtbot.waitUntil(partial(has_lines, spectra, 1))
    shapes = window.layers["Regions"]
    row, column = np.indices((20, 30))
    (top, left), (bottom, right) = shapes.data[0].min(axis=0), shapes.data[0].max(axis=0)
    inside = (row >= top) & (row <= bottom) & (column >= left) & (column <= right)
    mean = make_cube().data[:, inside].astype(float).mean(axis=1)
    assert_allclose(curve(spectra), mean, rtol=1e-6)
    shapes.mode = "select"
    native, button = mouse.canvas.native, Qt.MouseButton.LeftButton
    qtbot.mousePress(native, button, pos=mouse.at(5, 6))
    for start in (5, 7):  # the first move also selects the shape, which redraws as well
        qtbot.waitUntil(lambda: not spectra.model.is_drawing)
        before = curve(spectra)
        for step in (1, 2):
            qtbot.mouseMove(native, pos=mouse.at(start + step, 1 + start + step), delay=20)
        qtbot.waitUntil(partial(has_other_values, spectra, before))
    qtbot.mouseRelease(native, button, pos=mouse.at(9, 10))
    qtbot.waitUntil(partial(has_lines, spectra, 1))
    assert np.abs(shapes.data[0].min(axis=0) - (top, left)).max() > 1


@pytest.mark.bad_input(74)
def test_a_run_ends_with_its_dock_and_with_its_window(
    window: napari.Viewer, job: GatedJob, qtbot: QtBot
) -> None:
    for ending in ("dock", "viewer"):
        dock = ready_dock(window, qtbot)
        workspace = dock.workspace
        dock.run()
        qtbot.waitUntil(job.begun.is_set)
        job.begun.clear()
        if ending == "viewer":
            window.close()
        else:
            window.window.remove_dock_widget(dock)
        del dock
        gc.collect()
        qtbot.waitUntil(partial(is_idle, workspace))
        assert [layer.name for layer in window.layers] in ([], ["photo"])


def flat(_: ColourCodes) -> Spectrum:
    return Spectrum(np.arange(400, 701, 10.0), np.full(31, 0.5))


def kind(of: type) -> str:
    return f"{of.__module__}.{of.__name__}"


def living() -> Counter[str]:
    """How many objects of ours, of the plot's library and of Qt there are, and how many widgets."""
    QApplication.processEvents()
    gc.collect()
    objects = gc.get_objects()
    ours = ("napari_mst", "pyqtgraph", "PyQt", "PySide")
    found = Counter(name for one in objects if (name := kind(type(one))).startswith(ours))
    del found[LAST_MOUSE_EVENT]
    # PySide6 keeps one, on which no widget hangs, for each signal that a constructor is told.
    del found["PySide6.QtCore.Connection"]
    # A worker that has ended holds nothing. napari keeps those that it has listed, and PySide6 one
    # now and then: its thread deletes what Python still counts.
    workers = [one for one in objects if type(one) is JobWorker]  # isinstance asks objects, too
    ended = sum(worker._listeners._job is None for worker in workers)
    found.subtract(dict.fromkeys((kind(JobWorker), kind(_Listeners)), ended))
    return found + Counter({"widgets": len(QApplication.allWidgets())})


@contextmanager
def no_collection() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("name", "times"),
    [
        pytest.param(WORKSPACE, FEW_TIMES, id="078-workspace"),
        # Each takes half a minute; the workspace has most of their widgets.
        *(
            pytest.param(name, TIMES, id=f"078-{name.lower()}", marks=pytest.mark.slow)
            for name in (SPECTRA, RECONSTRUCT, ATTENTION, MAPS, METAMERS)
        ),
    ],
)
def test_bad_input_opened_and_closed_through_the_window(
    window: napari.Viewer, qtbot: QtBot, name: str, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The network would be imported, and run once for all docks, while objects are counted.
    monkeypatch.setattr(metamers_dock, "estimated", flat)

    layers, dims = window.layers.events, window.dims.events
    emitters = (layers, layers.inserted, dims.ndisplay, window.events.theme)

    def count() -> list[int]:
        callbacks = [emitter.callbacks for emitter in emitters]
        mouse = (window.mouse_move_callbacks, window.mouse_drag_callbacks)
        return [len(each) for each in (*callbacks, *mouse)]

    def open_and_close(times: int) -> None:
        for _ in range(times):
            widget = opened(window, name, qtbot)
            if name == RECONSTRUCT:  # the list of devices is kept for all docks
                qtbot.waitUntil(partial(getattr, widget.form, "is_ready"), timeout=60_000)
            if name in (SPECTRA, MAPS, WORKSPACE):  # what was drawn is kept until the next drawing
                drawn = widget.pages["photo"].widget().view if name == WORKSPACE else widget
                qtbot.waitUntil(partial(has_lines, drawn, 2))
                del drawn
            docks.append(weakref.ref(widget))
            widget.destroyed.connect(lambda *_: ends.append(1))
            with no_collection():
                window.window.remove_dock_widget(widget)
                del widget
                # The collector may run on any thread; a widget must not wait for it.
                qtbot.waitUntil(lambda: len(ends) == len(docks))
        qtbot.waitUntil(
            lambda: not gc.collect() and not any(dock() for dock in docks), timeout=60_000
        )

    add_cube(window, make_cube())
    window.add_shapes(np.array([[3, 4], [3, 9], [8, 9], [8, 4]]), shape_type="polygon")
    window.add_points([[4, 7]], metadata={METADATA_KEY: picks.ROLE})
    docks: list[weakref.ref[Any]] = []
    ends: list[int] = []  # one for each dock that Qt has deleted
    before = count()
    open_and_close(2)  # what is made once, as fonts and icons are
    objects, blocks = living(), sys.getallocatedblocks()
    open_and_close(times)
    grown = sys.getallocatedblocks() - blocks
    assert count() == before
    of_napari = Counter({kind: times * number for kind, number in TITLE_BAR.items()})

    def nothing_is_left() -> None:
        assert living() - objects - of_napari == Counter()

    qtbot.waitUntil(nothing_is_left, timeout=20_000)
    assert grown < times * MOST_GROWTH
