"""The workspace: its pages share one state, every control explains itself, and keys reach all."""

import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import napari
import numpy as np
import pytest
from napari.components import ViewerModel
from napari.settings import get_plugin_settings
from napari.utils.shortcuts import default_shortcuts
from pytestqt.qtbot import QtBot
from qtpy.QtCore import Qt, QThreadPool, QUrl
from qtpy.QtGui import QAction, QDesktopServices
from qtpy.QtWidgets import (
    QAbstractButton,
    QAbstractSpinBox,
    QComboBox,
    QLineEdit,
    QTabBar,
    QToolButton,
    QWidget,
)
from superqt import QLabeledDoubleSlider
from tests.plugin.conftest import GatedJob, make_cube
from tests.plugin.in_viewer import active_in, add_cube, cube_in, picks_in, picture_in

from napari_mst.base.errors import SpectrumError
from napari_mst.calibration.light.estimating import LightCandidate, LightEstimate
from napari_mst.cube.layer import METADATA_KEY
from napari_mst.formats import write_cube
from napari_mst.photo.cameras import ESTIMATED, Acquisition
from napari_mst.photo.raw import Shot
from napari_mst.plugin.attention.dock import AttentionDock
from napari_mst.plugin.dock import BEFORE_AFTER, KEEP, NEXT_BAND, PREVIOUS_BAND, RUN
from napari_mst.plugin.files import opening
from napari_mst.plugin.files.opening import open_workspace_soon
from napari_mst.plugin.pictures.composing import Composer
from napari_mst.plugin.reconstruct.dock import ReconstructDock
from napari_mst.plugin.reconstruct.form import Finding
from napari_mst.plugin.reconstruct.requests import resolve
from napari_mst.plugin.reconstruct.setting_rows import Fold
from napari_mst.plugin.spectra.dock import SpectraDock
from napari_mst.plugin.spectra.map_maker import MapMaker
from napari_mst.plugin.spectra.model_dock import SharedSpectraModel, flip_to_photo
from napari_mst.plugin.viewer import picks
from napari_mst.plugin.viewer.layers import (
    active_cube_layer,
    composite_of,
    composites_of,
)
from napari_mst.plugin.viewer.widgets import DOCUMENTATION
from napari_mst.plugin.workspace_dock import (
    PAGES,
    PhotoPage,
    WorkspaceDock,
    sample_path,
)

CONTROLS = (QAbstractButton, QAbstractSpinBox, QComboBox, QLineEdit, QTabBar)
NARROW = 320
"""Pixels; the dock has to fit into this width."""
LAPTOP = (1366, 768)
LOWEST_WINDOW = 700
LOWEST_PLOT = 180
ROOT = Path(__file__).parents[2]

KEYS = (RUN, KEEP, NEXT_BAND, PREVIOUS_BAND, BEFORE_AFTER)


@pytest.fixture
def workspace(viewer: ViewerModel, devices: None, qtbot: QtBot) -> WorkspaceDock:
    dock = WorkspaceDock(viewer)
    qtbot.addWidget(dock)
    dock.show()
    return dock


def photo_page(dock: WorkspaceDock) -> PhotoPage:
    page = dock.pages["photo"].widget()
    assert isinstance(page, PhotoPage)
    return page


def point_at(viewer: ViewerModel, row: int, column: int) -> None:
    shared = SharedSpectraModel.of(viewer)
    shared.point_at((550, row, column))
    shared.draw_soon()


def test_after_a_run_moving_the_mouse_shows_the_spectrum_on_the_page_of_the_photo(
    workspace: WorkspaceDock, viewer: ViewerModel, job: GatedJob, qtbot: QtBot
) -> None:
    page = photo_page(workspace)
    assert page.view.isHidden()
    qtbot.waitUntil(lambda: page.reconstruction.form.is_ready)
    job.gate.set()
    page.reconstruction.run_button.click()
    qtbot.waitUntil(lambda: active_cube_layer(viewer) is not None and page.view.isVisible())
    point_at(viewer, 4, 7)
    qtbot.waitUntil(lambda: len(page.view.plot.live.lines) == 1)
    (line,) = page.view.plot.live.lines
    np.testing.assert_allclose(line.spectrum.values, make_cube().data[:, 4, 7])
    viewer.dims.ndisplay = 3  # where no pixel is under the mouse
    point_at(viewer, 4, 7)
    qtbot.waitUntil(lambda: not page.view.plot.live.lines)


def test_a_preview_leaves_the_page_with_cancel_though_the_photo_is_gone(
    workspace: WorkspaceDock, viewer: ViewerModel, job: GatedJob, qtbot: QtBot
) -> None:
    reconstruction = photo_page(workspace).reconstruction
    qtbot.waitUntil(lambda: reconstruction.form.is_ready)
    job.previews = [make_cube(5, 10, is_preview=True)]
    assert reconstruction.run()
    viewer.layers.clear()
    qtbot.waitUntil(lambda: active_cube_layer(viewer) is not None)
    assert workspace.page == "photo"
    assert reconstruction.bar.cancel_button.isVisible()
    job.gate.set()
    qtbot.waitUntil(lambda: not workspace.workspace.is_busy)
    assert workspace.page == "photo"


def test_each_page_says_what_is_next_once_it_is_done(
    workspace: WorkspaceDock, viewer: ViewerModel, qtbot: QtBot
) -> None:
    said = workspace.step_text
    assert not said.isVisible()
    workspace.go_to("spectra")
    assert said.isVisible()
    assert "on the page Photo" in said.text()
    workspace.go_to("photo")
    add_cube(viewer, make_cube())
    qtbot.waitUntil(lambda: "click to keep" in said.text())
    workspace.go_to("spectra")
    assert not said.isVisible()
    workspace.model.pin((550, 4, 7))
    qtbot.waitUntil(lambda: "on the page Maps" in said.text())


@pytest.mark.parametrize("has_map", [False, True], ids=["idle", "map-runs"])
def test_a_page_hears_of_the_viewer_however_it_came_to_be_shown(
    workspace: WorkspaceDock, viewer: ViewerModel, monkeypatch: pytest.MonkeyPatch, has_map: bool
) -> None:
    monkeypatch.setattr(MapMaker, "is_busy", has_map)
    add_cube(viewer, make_cube())
    for row, page in enumerate(["spectra", "maps", "photo", "spectra"]):
        # A map that runs is cancelled, and the workspace hears of that in the middle of it.
        workspace.go_to(page)
        workspace.model.pin((550, row, 7))
    # The colours are given by the model that listens.
    assert len(set(picks.colours(workspace.model.points))) == 4


def test_a_page_that_is_shown_again_has_no_spectrum_of_a_cube_that_is_gone(
    workspace: WorkspaceDock, viewer: ViewerModel, qtbot: QtBot
) -> None:
    add_cube(viewer, make_cube())
    workspace.go_to("spectra")
    page: Any = workspace.pages["spectra"].widget()
    point_at(viewer, 4, 7)
    qtbot.waitUntil(lambda: len(page.plot.live.lines) == 1)
    workspace.model.fail(SpectrumError("Expected a pick, got none. Click one."))
    assert page.problem.isVisible()
    workspace.go_to("photo")
    viewer.layers.clear()
    workspace.go_to("spectra")
    assert not page.plot.live.lines
    assert not page.problem.isVisible()


def test_two_docks_of_the_reconstruction_share_one_form_and_one_job(
    workspace: WorkspaceDock, viewer: ViewerModel, job: GatedJob, qtbot: QtBot
) -> None:
    page = photo_page(workspace).reconstruction
    torn = ReconstructDock(viewer)
    qtbot.addWidget(torn)
    torn.show()
    torn.rows.widgets["correct_colour"].click()
    assert not page.rows.widgets["correct_colour"].isChecked()
    assert page.rows.settings.button.text() == "Settings; changed: Colours"
    qtbot.waitUntil(lambda: page.form.is_ready)
    torn.run_button.click()
    assert page.bar.cancel_button.isEnabled()
    job.gate.set()
    qtbot.waitUntil(lambda: active_cube_layer(viewer) is not None)


def test_settings_are_remembered_by_the_next_session(
    workspace: WorkspaceDock, viewer: ViewerModel, qtbot: QtBot
) -> None:
    rows = photo_page(workspace).reconstruction.rows
    rows.widgets["correct_colour"].click()
    rows.widgets["memory"].setValue(4)
    kept = get_plugin_settings("napari-mst")
    assert (kept.reconstruction.correct_colour, kept.reconstruction.memory) == (False, 4)
    assert "correct_colour: false" in Path(kept.config_path).read_text()
    kept.reconstruction.device = "cuda:3"
    later = ReconstructDock(viewer)
    qtbot.addWidget(later)
    later.show()
    assert (later.form.options.correct_colour, later.form.options.memory) == (False, 4e9)
    # A device that is gone gives way to the automatic one.
    qtbot.waitUntil(lambda: later.form.is_ready)
    assert later.form.options.device == "auto"
    assert later.run_button.isEnabled()
    # What napari's Preferences change is drawn at once.
    kept.reconstruction.correct_colour = True
    assert rows.widgets["correct_colour"].isChecked()


def all_pages(dock: WorkspaceDock) -> Iterator[str]:
    for name in PAGES:
        dock.go_to(name)
        yield name


def controls_of(dock: QWidget) -> list[QWidget]:
    """The controls of a dock that a person can see or unfold."""
    found = [one for kind in CONTROLS for one in dock.findChildren(kind)]
    # Parts of Qt's own that only it makes, and shows where there is no room.
    parts = ("qt_", "ScrollLeft", "ScrollRight")
    return [one for one in found if not one.objectName().startswith(parts)]


def tip_of(control: QWidget) -> str:
    """The tooltip of a control; Qt shows that of what is around a field which has none."""
    return control.toolTip() or (tip_of(control.parentWidget()) if is_within(control) else "")


def test_every_control_has_a_tooltip_and_is_reached_by_tab(
    workspace: WorkspaceDock, viewer: ViewerModel, qtbot: QtBot
) -> None:
    add_cube(viewer, make_cube())
    workspace.model.pin((550, 4, 7))
    attention = AttentionDock(viewer)
    for name in (*all_pages(workspace), "attention"):
        for control in controls_of(attention if name == "attention" else workspace):
            what = (name, type(control), control.objectName())
            tip = control.tabToolTip(0) if isinstance(control, QTabBar) else tip_of(control)
            assert tip, what
            is_reached = control.focusPolicy() & Qt.FocusPolicy.TabFocus
            assert is_reached or is_within(control), what
    # Python would delete what Qt has not deleted, in any order, which crashes Qt.
    with qtbot.waitSignal(attention.destroyed):
        attention.deleteLater()


def is_within(control: QWidget) -> bool:
    """True for the field of a list, a number or a slider, which is one control with it."""
    return isinstance(control.parentWidget(), QComboBox | QAbstractSpinBox | QLabeledDoubleSlider)


@pytest.mark.parametrize("name", ["photo", "raw", "stack"])
def test_the_page_of_a_photo_has_ten_controls_at_most(
    workspace: WorkspaceDock, viewer: ViewerModel, job: GatedJob, qtbot: QtBot, name: str
) -> None:
    reconstruction = photo_page(workspace).reconstruction
    form, rows = reconstruction.form, reconstruction.rows

    def shown() -> int:
        controls = filter(QWidget.isVisible, controls_of(workspace.pages["photo"]))
        return len([control for control in controls if not is_within(control)])

    def are_ten_with(fold: Fold) -> bool:
        fold.button.click()
        count, named = shown(), rows.chosen.text()
        fold.button.click()
        return count <= 10 and named == f"Photo: {name}. Model: {form.card}"

    is_raw = name == "raw"
    if is_raw:
        shot = Shot(camera="Nikon_D5100")
        pixels = np.full((20, 30, 3), 900, np.uint16)
        viewer.add_image(pixels, rgb=True, metadata={METADATA_KEY: shot}, name=name)
    elif name == "stack":
        viewer.add_image(np.full((4, 20, 30, 3), 90, np.uint8), rgb=True, name=name)
    form.photo = weakref.ref(viewer.layers[name])
    assert (form.needs_camera, form.has_pages) == (is_raw, name == "stack")
    assert rows.widgets["part"].isVisible()
    assert rows.colours.isVisible()
    assert shown() == 9
    assert reconstruction.folder_button.isVisible() == (name == "photo")
    rows.settings.button.click()
    assert reconstruction.folder_button.isVisible()
    rows.settings.button.click()
    assert are_ten_with(rows.settings)
    assert are_ten_with(rows.colours)
    form.corners = ((2.0, 2.0), (2.0, 20.0), (15.0, 20.0), (15.0, 2.0))
    assert are_ten_with(rows.colours)
    form.forget()
    candidate = LightCandidate("D55", "daylight", 0.3, np.ones(31), np.ones(3))
    light = LightEstimate("sRGB", (candidate,) * 3, "D55", 2.0, np.zeros((8, 8)))
    known = Acquisition("Nikon_D5100", "D55") if is_raw else None
    form.finding = Finding("Most likely D55.", acquisition=known, light=light)
    assert are_ten_with(rows.colours)
    form.forget()
    form.camera, form.illuminant = "Nikon_D5100", "D65"
    qtbot.waitUntil(reconstruction.run_button.isEnabled)
    reconstruction.run_button.click()
    qtbot.waitUntil(job.begun.is_set)
    assert reconstruction.bar.cancel_button.isVisible()
    assert shown() == 10
    job.gate.set()
    qtbot.waitUntil(lambda: not workspace.workspace.is_busy and reconstruction.more.isVisible())
    assert shown() == 10
    assert are_ten_with(rows.settings)
    assert are_ten_with(rows.colours)
    form.card, form.weights = "mst-plus-plus", "a.onnx"  # asks for more
    assert shown() <= 10 + (name == "stack")


def test_the_keys_stand_in_the_tooltips_of_the_spectra(viewer: ViewerModel, qtbot: QtBot) -> None:
    dock = SpectraDock(viewer)
    qtbot.addWidget(dock)
    tips = {key.text: dock.menus.view.toolTip() for key in (PREVIOUS_BAND, NEXT_BAND, BEFORE_AFTER)}
    tips |= {KEEP.text: dock.menus.pick.toolTip()}
    assert [key for key, tip in tips.items() if key not in tip] == []


def test_help_opens_the_section_of_the_page(
    workspace: WorkspaceDock, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[QUrl] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", opened.append)
    page = (ROOT / "docs" / "window.md").read_text("utf-8").lower().splitlines()
    for name in all_pages(workspace):
        workspace.help_button.click()
        assert opened[-1].toString() == f"{DOCUMENTATION}window.md#{name}"
        assert f"## {name}" in page


def test_no_key_is_one_of_napari() -> None:
    taken = {str(key) for keys in default_shortcuts.values() for key in keys}
    assert not taken & {key.in_dock.replace("Return", "Enter") for key in KEYS}


@pytest.mark.usefixtures("as_pictures")
def test_the_photo_is_seen_below_the_picture_of_a_cube_as_below_its_bands(
    workspace: WorkspaceDock, viewer: ViewerModel, qtbot: QtBot
) -> None:
    add_cube(viewer, make_cube())
    qtbot.waitUntil(partial(is_painted, viewer))
    layer, picture = active_in(viewer), picture_in(viewer)
    picture.opacity = 0.7
    for expected in ((0, 0), (1, 0.7), (0, 0)):
        flip_to_photo(viewer)
        assert (layer.opacity, picture.opacity) == expected
    # A picture that is made while both are transparent is seen with the cube again.
    viewer.layers.remove(picture)
    Composer.of(viewer).toggle(layer)
    flip_to_photo(viewer)
    qtbot.waitUntil(partial(is_painted, viewer))
    both = (layer, *composites_of(viewer, layer))
    assert [one.opacity for one in both] == [1, 1]


# ---------------------------------------------------------------------------- in a real window


def opened(viewer: napari.Viewer, qtbot: QtBot) -> WorkspaceDock:
    _, dock = viewer.window.add_plugin_dock_widget("napari-mst", "Workspace")
    qtbot.waitUntil(dock.isVisible)
    assert isinstance(dock, WorkspaceDock)
    return dock


def press(widget: QWidget, key: Qt.Key, qtbot: QtBot) -> None:
    qtbot.keyClick(widget, key, Qt.KeyboardModifier.ControlModifier)


def is_active(top: QWidget) -> bool:
    top.activateWindow()
    return top.isActiveWindow()


def band_is(viewer: ViewerModel, wavelength: float) -> bool:
    return viewer.dims.point[0] == wavelength


def has_picks(viewer: ViewerModel, number: int) -> bool:
    return len(picks_in(viewer).data) == number


def is_painted(viewer: ViewerModel) -> bool:
    layer = active_cube_layer(viewer)
    return layer is not None and composite_of(viewer, layer) is not None


def has_bars(plot: Any, number: int) -> bool:
    return len(plot.handles) == number


def is_seen(plot: QWidget) -> bool:
    """True if so much of *plot* is in sight that it can be read."""
    return bool(plot.visibleRegion().boundingRect().height() >= LOWEST_PLOT)


def test_keys_run_keep_step_and_flip_wherever_the_focus_is(
    window: napari.Viewer, job: GatedJob, qtbot: QtBot
) -> None:
    dock = opened(window, qtbot)
    page = photo_page(dock)
    qtbot.waitUntil(lambda: page.reconstruction.form.is_ready)
    job.gate.set()
    canvas = window.window._qt_viewer.canvas.native
    for row, widget in enumerate((canvas, page.reconstruction.rows.widgets["card"])):
        job.begun.clear()
        top = widget.window()
        qtbot.waitUntil(partial(is_active, top))
        widget.setFocus()
        press(widget, Qt.Key.Key_Return, qtbot)
        qtbot.waitUntil(lambda: job.begun.is_set() and not dock.workspace.is_busy)
        qtbot.waitUntil(page.view.isVisible)
        for key, wavelength in ((Qt.Key.Key_Right, 560), (Qt.Key.Key_Left, 550)):
            press(widget, key, qtbot)
            qtbot.waitUntil(partial(band_is, window, wavelength))
        dock.model.point_at((550, row, 7))
        press(widget, Qt.Key.Key_K, qtbot)
        qtbot.waitUntil(partial(has_picks, window, row + 1))
        layer = active_in(window)
        for opacity in (0, 1):
            press(widget, Qt.Key.Key_B, qtbot)
            assert layer.opacity == opacity


@pytest.mark.usefixtures("as_pictures")
def test_a_laptop_has_room_for_the_plot_and_no_key_is_one_of_the_window(
    window: napari.Viewer, qtbot: QtBot
) -> None:
    add_cube(window, make_cube())
    qtbot.waitUntil(partial(is_painted, window))
    main = window.window._qt_window
    main.resize(*LAPTOP)
    dock = opened(window, qtbot)
    for row in range(8):
        dock.model.pin((550, row, 7))
    for name in all_pages(dock):
        assert dock.minimumSizeHint().width() <= NARROW, name
    qtbot.waitUntil(lambda: dock.height() <= LAPTOP[1])
    for name in ("photo", "spectra", "maps"):
        dock.go_to(name)
        qtbot.waitUntil(lambda: not SharedSpectraModel.of(window).is_drawing)
        page = dock.pages[name].widget()
        plot = page.view.plot if name == "photo" else page.plot
        qtbot.waitUntil(partial(is_seen, plot), timeout=30_000)
        for button in filter(QToolButton.isVisible, page.findChildren(QToolButton)):
            assert button.width() >= button.sizeHint().width()
        # The bars of the picture stand on the page whose menu has the picture, those of a formula
        # on the page of the maps.
        qtbot.waitUntil(partial(has_bars, plot, {"photo": 0, "spectra": 3, "maps": 2}[name]))
    assert main.minimumSizeHint().height() <= LOWEST_WINDOW
    taken = {action.shortcut().toString() for action in main.findChildren(QAction)}
    assert not taken & {key.in_dock for key in KEYS}


def test_a_second_dock_is_a_tab_and_makes_the_window_of_a_laptop_no_larger(
    make_napari_viewer: Callable[..., napari.Viewer], devices: None, qtbot: QtBot
) -> None:
    viewer = make_napari_viewer(show=True)
    main = viewer.window._qt_window
    main.resize(*LAPTOP)
    first, _ = viewer.window.add_plugin_dock_widget("napari-mst", "Workspace")
    qtbot.waitUntil(first.isVisible)
    frame, dock = viewer.window.add_plugin_dock_widget("napari-mst", "Attention")
    qtbot.waitUntil(lambda: main.tabifiedDockWidgets(frame) == [first])
    assert dock.isVisible()
    assert dock.minimumSizeHint().height() < LOWEST_PLOT
    assert main.height() == LAPTOP[1]


def test_a_cube_opens_at_its_spectra_and_a_raw_photo_one_click_from_its_cube(
    make_napari_viewer: Callable[..., napari.Viewer],
    devices: None,
    qtbot: QtBot,
    tmp_path: Path,
) -> None:
    viewer = make_napari_viewer(show=True)
    path = write_cube(tmp_path / "cube.hdr", make_cube())
    for _ in ("no dock yet", "the dock"):
        viewer.open(path, plugin="napari-mst")
        qtbot.waitUntil(lambda: "Workspace (napari-mst)" in viewer.window.dock_widgets)
        dock = opened(viewer, qtbot)
        assert dock.page == "spectra"
        dock.go_to("photo")
        viewer.add_points([[1, 2]])
        assert dock.page == "photo"
        viewer.layers.clear()
    pytest.importorskip("rawpy")
    viewer.open(sample_path("chart.dng"), plugin="napari-mst")
    reconstruction = photo_page(dock).reconstruction
    qtbot.waitUntil(reconstruction.run_button.isEnabled)
    assert dock.page == "photo"
    acquisition = resolve(reconstruction.form, viewer).options.acquisition
    assert acquisition == Acquisition("Nikon_D5100", ESTIMATED)


def test_the_page_that_a_script_goes_to_is_shown_though_a_cube_has_just_come(
    devices: None, qtbot: QtBot
) -> None:
    viewer = ViewerModel()
    dock = WorkspaceDock(viewer)
    add_cube(viewer, make_cube())
    dock.go_to("maps")
    dock.show()
    assert dock.page == "maps"
    assert dock.stack.currentWidget() is dock.pages["maps"]
    with qtbot.waitSignal(dock.destroyed):  # before the viewer, which it draws
        dock.deleteLater()


def test_a_sample_opens_with_the_workspace(window: napari.Viewer, qtbot: QtBot) -> None:
    truth, photo = window.open_sample("napari-mst", "chart")
    rendered = cube_in(truth).render("D65").astype(int)
    assert np.abs(photo.data - rendered).max() <= 1
    window.open_sample("napari-mst", "coffee")
    qtbot.waitUntil(lambda: "Workspace (napari-mst)" in window.window.dock_widgets)
    dock = window.window.dock_widgets["Workspace (napari-mst)"]
    qtbot.waitUntil(dock.isVisible)
    qtbot.waitUntil(photo_page(dock).reconstruction.run_button.isEnabled)
    assert photo_page(dock).reconstruction.rows.widgets["photo"].currentText() == "coffee"


@pytest.mark.parametrize(
    ("docks", "opens"),
    [([], True), (["Metamers"], False), (["Metamers", "Workspace"], True), (["Other"], True)],
)
def test_what_opens_leaves_another_dock_of_ours_in_sight(
    qtbot: QtBot, docks: list[str], opens: bool
) -> None:
    names = [f"{name} (napari-mst)" if name != "Other" else name for name in docks]
    opened: list[str] = []
    window = SimpleNamespace(
        dock_widgets=dict.fromkeys(names),
        add_plugin_dock_widget=lambda _, name: opened.append(name),
    )
    open_workspace_soon(cast(ViewerModel, SimpleNamespace(window=window)))
    qtbot.wait(1)
    assert opened == (["Workspace"] if opens else [])


@pytest.mark.parametrize("is_open", [True, False], ids=["open", "closed meanwhile"])
def test_the_first_workspace_is_imported_on_another_thread(
    qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_open: bool
) -> None:
    name = f"imported_if_{'open' if is_open else 'closed'}"
    (tmp_path / f"{name}.py").write_text("import threading\nTHREAD = threading.current_thread()\n")
    monkeypatch.syspath_prepend(tmp_path)
    opened: list[str] = []
    window = SimpleNamespace(
        dock_widgets={}, add_plugin_dock_widget=lambda _, name: opened.append(name)
    )
    viewer = cast(ViewerModel, SimpleNamespace(window=window))
    monkeypatch.setattr(opening, "MODULE", name)
    monkeypatch.setattr(opening, "current_viewer", lambda: viewer if is_open else None)
    open_workspace_soon(viewer)
    QThreadPool.globalInstance().waitForDone()
    assert not opened
    qtbot.wait(1)
    assert opened == (["Workspace"] if is_open else [])
    assert sys.modules.pop(name).THREAD is not threading.main_thread()
