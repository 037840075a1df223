"""The spectra dock without a napari window: what the mouse, the menus and the theme do."""

import gc
import weakref
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from napari.components import ViewerModel
from numpy.testing import assert_allclose
from pytestqt.qtbot import QtBot
from qtpy.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from qtpy.QtGui import QDragEnterEvent, QDropEvent
from qtpy.QtTest import QTest
from qtpy.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QInputDialog,
)
from tests.plugin.conftest import make_cube
from tests.plugin.spectra.probe import SQUARE, Desk

from napari_mst.analysis.library import colour_checker, write_spectra
from napari_mst.plugin.spectra.dock import SpectraDock
from napari_mst.plugin.spectra.menus import FilledMenu
from napari_mst.plugin.spectra.model_dock import MapsDock, ModelDock
from napari_mst.plugin.spectra.plot import SpectraPlot
from napari_mst.plugin.spectra.resolve import Marker


def test_the_live_curve_is_the_spectrum_under_the_mouse(desk: Desk) -> None:
    desk.hover(4, 7)
    desk.lines()
    assert_allclose(desk.live(), [make_cube().data[:, 4, 7]])
    assert desk.dock.text.text() == "row 4, column 7"
    desk.choose("pick", "5 x 5 pixels")
    desk.hover(4, 7)
    desk.lines()
    mean = make_cube().data[:, 2:7, 5:10].astype(float).mean(axis=(1, 2))
    assert_allclose(desk.live(), [mean])
    assert desk.dock.text.text() == "row 4, column 7, mean of 25 pixels"
    desk.hover(40, 7)
    desk.lines()
    assert desk.live() == []


def test_many_moves_of_the_mouse_are_drawn_at_most_once_an_interval(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.lines()
    reads = []
    update = desk.model.update

    def counted(**how: Any) -> Any:
        reads.append(1)
        return update(**how)

    monkeypatch.setattr(desk.model, "update", counted)
    for column in range(30):
        desk.hover(4, column)
    desk.lines()
    assert len(reads) == 1


def test_the_line_of_the_band_tells_its_wavelength_follows_the_slider_and_drags_it(
    desk: Desk,
) -> None:
    plot, viewer = desk.dock.plot, desk.viewer
    for wavelength in (620, 400, 700):
        viewer.dims.set_point(0, wavelength)
        desk.lines()
        assert (plot.band.value(), plot.band.label.toPlainText()) == (
            wavelength,
            f"{wavelength} nm",
        )
        plot.grab()  # pyqtgraph puts a label in its place when it is drawn
        label = plot.band.label.sceneBoundingRect()
        assert plot.guides.sceneBoundingRect().adjusted(-1, -1, 1, 1).contains(label)
    plot.band_dragged.emit(473.0)
    assert viewer.dims.point[0] == 470
    plot.cursor_moved.emit(412.0)
    assert desk.model.snapshot.cursor == 412
    viewer.layers.clear()
    desk.lines()
    assert not plot.band.isVisible()
    plot.set_guides(None, 600)
    assert plot.cursor.label.toPlainText() == "600 nm"


def test_no_menu_is_long_or_says_the_same_twice_and_what_is_grey_says_why(desk: Desk) -> None:
    desk.second_cube()
    number = 0
    for menu in desk.dock.findChildren(FilledMenu):
        menu.refill()
        actions = [action for action in menu.actions() if not action.isSeparator()]
        texts = [action.text() for action in actions]
        assert len(set(texts)) == len(texts)
        assert all(texts)
        assert all(one.isEnabled() or one.toolTip() != one.text() for one in actions)
        number += len(actions)
    assert number <= 40


@pytest.mark.parametrize("page", [SpectraDock, MapsDock])
def test_a_page_has_at_most_ten_controls(
    cube_viewer: ViewerModel, qtbot: QtBot, page: type[ModelDock]
) -> None:
    dock = page(cube_viewer)
    qtbot.addWidget(dock)
    dock.model.pin((550, 4, 7))
    dock.model.match_with(colour_checker())
    dock.show()
    Desk(dock, cube_viewer, qtbot).lines()
    kinds = (QAbstractButton, QComboBox, QAbstractSpinBox, QAbstractItemView, SpectraPlot)
    parts = (part for kind in kinds for part in dock.findChildren(kind) if part.isVisible())
    # Headers and spin buttons are parts of the table and of the number.
    controls = [part for part in parts if not isinstance(part.parent(), QAbstractItemView)]
    assert 1 < len(controls) <= 10


def test_the_axis_of_values_rests_while_the_mouse_moves(desk: Desk) -> None:
    def axis() -> list[float]:
        desk.lines()
        return list(desk.dock.plot.view.viewRange()[1])

    data = make_cube().data.copy()
    data[:, 9, 9] = 2.5
    desk.viewer.layers["cube"].data = data
    desk.pin(4, 7)
    assert axis() == [0, 1]
    desk.hover(0, 0)
    assert axis() == [0, 1]
    desk.hover(9, 9)
    grown = axis()
    assert 2.5 < grown[1] < 3
    desk.hover(0, 0)
    assert axis() == grown
    desk.choose("view", "Fit the values")
    desk.hover(40, 7)
    desk.pin(4, 8)
    top = data[:, 4, 7:9].max()
    assert top < axis()[1] < 1.2 * top


def test_a_click_on_a_curve_chooses_its_row(desk: Desk) -> None:
    data = make_cube().data.copy()
    data[:, 15, 20] = 0.5
    desk.viewer.layers["cube"].data = data
    for row, column in ((1, 1), (15, 20)):
        desk.pin(row, column)
    desk.lines()
    plot = desk.dock.plot
    spot = plot.view.mapViewToScene(QPointF(500, 0.5))
    QTest.mouseClick(plot.viewport(), Qt.MouseButton.LeftButton, pos=spot.toPoint())
    assert desk.dock.table.chosen() == [1]
    far = plot.view.mapViewToScene(QPointF(500, 0.75))
    QTest.mouseClick(plot.viewport(), Qt.MouseButton.LeftButton, pos=far.toPoint())
    assert desk.dock.table.chosen() == []


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_the_plot_takes_on_the_theme(desk: Desk, theme: str) -> None:
    desk.viewer.theme = theme
    background = desk.dock.plot.backgroundBrush().color().lightness()
    assert (background < 128) == (theme == "dark")


def test_nothing_of_a_hidden_dock_holds_a_cube(desk: Desk) -> None:
    desk.pin(4, 7)
    desk.viewer.add_shapes(SQUARE, shape_type="polygon")
    desk.lines()
    desk.dock.hide()
    data = weakref.ref(desk.viewer.layers["cube"].data)
    desk.viewer.layers.clear()
    desk.qtbot.waitUntil(lambda: not gc.collect() and data() is None)


def test_a_wavelength_that_is_dragged_can_be_typed_after_a_double_click(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.lines()
    plot, asked = desk.dock.plot, []
    plot.set_handles([Marker("A", "#ffffff", 450)])
    plot.grab()

    def answer(*question: Any) -> tuple[float, bool]:
        asked.append(question[3])
        return 600.0, True

    monkeypatch.setattr(QInputDialog, "getDouble", answer)
    with desk.qtbot.waitSignal(plot.handle_dragged):
        for line in (plot.handles[0], plot.band):
            click = Mock()
            click.scenePos.return_value = line.label.sceneBoundingRect().center()
            plot.scene().sigMouseClicked.emit(click)
            assert line.value() == 600
    assert asked == [450, 550]
    assert desk.viewer.dims.point[0] == 600


def test_spectra_of_a_file_that_is_dropped_on_the_plot_are_drawn(
    desk: Desk, tmp_path: Path
) -> None:
    path = write_spectra(tmp_path / "spectra.csv", colour_checker())
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path))])
    flags = (Qt.DropAction.CopyAction, data, Qt.MouseButton.LeftButton, Qt.KeyboardModifier(0))
    over = QDragEnterEvent(QPoint(5, 5), *flags)
    QApplication.sendEvent(desk.dock.plot.viewport(), over)
    assert over.isAccepted()
    QApplication.sendEvent(desk.dock.plot.viewport(), QDropEvent(QPointF(5, 5), *flags))
    assert len(desk.lines()) == 24
    # Told until something is pinned.
    assert desk.dock.text.text() == "0 put back on the image, 24 only drawn."
    desk.pin(4, 7)
    desk.lines()
    assert desk.dock.text.text().startswith("Move over a cube")
