"""The spectra dock without a napari window: what the mouse, the menus and the theme do."""

import gc
import weakref
from typing import Any

import numpy as np
import pytest
from napari.components import ViewerModel
from pytestqt.qtbot import QtBot
from qtpy.QtCore import QPointF, Qt
from qtpy.QtTest import QTest
from tests.plugin.conftest import make_cube
from tests.plugin.spectra.probe import SQUARE, hover, lines, second_cube

from napari_mst.plugin.spectra.dock import SpectraDock
from napari_mst.plugin.spectra.snapshot import Marker
from napari_mst.plugin.viewer.layers import cube_layer, go_to
from napari_mst.spectra.library import colour_checker


def test_the_live_curve_is_the_spectrum_under_the_mouse(
    spectra_dock: SpectraDock, cube_viewer: ViewerModel, qtbot: QtBot
) -> None:
    hover(cube_viewer, (550, 4, 7))
    lines(spectra_dock, qtbot)
    np.testing.assert_allclose(spectra_dock.plot.lives[0].yData, make_cube().data[:, 4, 7])
    assert spectra_dock.text.text() == "row 4, column 7"
    spectra_dock.menus.windows[2].trigger()
    hover(cube_viewer, (550, 4, 7))
    lines(spectra_dock, qtbot)
    np.testing.assert_allclose(
        spectra_dock.plot.lives[0].yData,
        make_cube().data[:, 2:7, 5:10].astype(float).mean(axis=(1, 2)),
    )
    assert spectra_dock.text.text() == "row 4, column 7, mean of 25 pixels"
    hover(cube_viewer, (550, 40, 7))
    lines(spectra_dock, qtbot)
    assert spectra_dock.plot.lives[0].yData is None


def test_many_moves_of_the_mouse_are_drawn_at_most_once_an_interval(
    spectra_dock: SpectraDock,
    cube_viewer: ViewerModel,
    qtbot: QtBot,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines(spectra_dock, qtbot)
    qtbot.waitUntil(lambda: not spectra_dock.pace.is_resting)
    reads = []
    update = spectra_dock.bench.update

    def counted(**how: Any) -> Any:
        reads.append(1)
        return update(**how)

    monkeypatch.setattr(spectra_dock.bench, "update", counted)
    for column in range(30):
        hover(cube_viewer, (550, 4, column))
    assert len(reads) == 1
    lines(spectra_dock, qtbot)
    assert len(reads) == 2


def test_the_line_of_the_band_tells_its_wavelength(qtbot: QtBot) -> None:
    viewer = ViewerModel()
    dock = SpectraDock(viewer)
    qtbot.addWidget(dock)
    dock.show()

    def told() -> tuple[bool, str]:
        lines(dock, qtbot)
        return dock.plot.band.isVisible(), dock.plot.band.label.toPlainText()

    data, arguments, _ = cube_layer(make_cube(), "cube")
    for wavelength in (550, 400):
        layer = viewer.add_image(data, **arguments)
        go_to(viewer, layer, wavelength)
        assert told() == (True, f"{wavelength} nm")
        viewer.layers.clear()
        assert not told()[0]
        dock.plot.set_cursor(600)
        assert dock.plot.cursor.label.toPlainText() == "600 nm"


def test_no_two_choices_of_a_menu_read_the_same(
    spectra_dock: SpectraDock, cube_viewer: ViewerModel
) -> None:
    second_cube(cube_viewer)
    spectra_dock.menus.fill_compare()
    for button in spectra_dock.menus.buttons:
        if button.menu() is None:
            continue
        texts = [action.text() for action in button.menu().actions() if not action.isSeparator()]
        assert len(set(texts)) == len(texts)
        assert all(texts)
    assert [draw.text() for draw in spectra_dock.menus.draws][-1] == "Draw an ellipse"


def test_markers_tell_their_unit(spectra_dock: SpectraDock, qtbot: QtBot) -> None:
    lines(spectra_dock, qtbot)
    spectra_dock.plot.set_markers([Marker("A", "#4d8fea", 620)])
    assert spectra_dock.plot.markers[0].label.format.format(value=620) == "A 620 nm"


def test_the_line_follows_the_slider_and_drags_it(
    spectra_dock: SpectraDock, cube_viewer: ViewerModel, qtbot: QtBot
) -> None:
    lines(spectra_dock, qtbot)
    cube_viewer.dims.set_point(0, 620)
    assert spectra_dock.plot.band.value() == 620
    spectra_dock.plot.band_dragged.emit(473.0)
    assert cube_viewer.dims.point[0] == 470


def test_values_are_read_at_the_cursor_and_else_at_the_band_that_is_shown(
    spectra_dock: SpectraDock, cube_viewer: ViewerModel, qtbot: QtBot
) -> None:
    cube_viewer.dims.set_point(0, 620)
    spectra_dock.bench.pin((550, 4, 7))
    lines(spectra_dock, qtbot)
    model, data = spectra_dock.model, make_cube().data

    def said() -> tuple[object, object]:
        return model.headerData(3, Qt.Orientation.Horizontal), model.data(model.index(0, 3))

    assert said() == ("620 nm", f"{data[22, 4, 7]:.4f}")
    spectra_dock.plot.cursor_moved.emit(412.0)
    assert said() == ("410 nm", f"{data[1, 4, 7]:.4f}")
    spectra_dock.plot.cursor_moved.emit(None)
    assert said()[0] == "620 nm"


def test_the_range_of_values_fits_is_fixed_or_locked(
    spectra_dock: SpectraDock, cube_viewer: ViewerModel, qtbot: QtBot
) -> None:
    view = spectra_dock.plot.view
    spectra_dock.bench.pin((550, 4, 7))
    lines(spectra_dock, qtbot)
    top = make_cube().data[:, 4, 7].max()
    assert view.viewRange()[1][0] <= 0 < top <= view.viewRange()[1][1] < 1.2 * top
    second_cube(cube_viewer)
    lines(spectra_dock, qtbot)
    assert view.viewRange()[1][1] > 1 + top
    spectra_dock.menus.ranges[1].trigger()
    assert view.viewRange()[1] == [0, 1]
    spectra_dock.menus.ranges[2].trigger()
    spectra_dock.menus.clear.trigger()
    lines(spectra_dock, qtbot)
    assert view.viewRange()[1] == [0, 1]
    assert view.state["mouseEnabled"] == [True, True]


def test_a_click_on_a_curve_chooses_its_row(
    spectra_dock: SpectraDock, cube_viewer: ViewerModel, qtbot: QtBot
) -> None:
    data = make_cube().data.copy()
    data[:, 15, 20] = 0.5
    cube_viewer.layers["cube"].data = data
    for row, column in ((1, 1), (15, 20)):
        spectra_dock.bench.pin((550, row, column))
    lines(spectra_dock, qtbot)
    plot = spectra_dock.plot
    spot = plot.view.mapViewToScene(QPointF(500, 0.5))
    QTest.mouseClick(plot.viewport(), Qt.MouseButton.LeftButton, pos=spot.toPoint())
    assert spectra_dock.table.chosen() == [1]
    far = plot.view.mapViewToScene(QPointF(500, 0.75))
    QTest.mouseClick(plot.viewport(), Qt.MouseButton.LeftButton, pos=far.toPoint())
    assert spectra_dock.table.chosen() == []


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_the_plot_takes_on_the_theme(
    spectra_dock: SpectraDock, cube_viewer: ViewerModel, theme: str
) -> None:
    cube_viewer.theme = theme
    background = spectra_dock.plot.backgroundBrush().color().lightness()
    assert (background < 128) == (theme == "dark")


def test_nothing_of_a_hidden_dock_holds_a_cube(
    spectra_dock: SpectraDock, cube_viewer: ViewerModel, qtbot: QtBot
) -> None:
    spectra_dock.bench.pin((550, 4, 7))
    cube_viewer.add_shapes(SQUARE, shape_type="polygon")
    lines(spectra_dock, qtbot)
    spectra_dock.hide()
    data = weakref.ref(cube_viewer.layers["cube"].data)
    cube_viewer.layers.clear()
    qtbot.waitUntil(lambda: not gc.collect() and data() is None)


def test_what_was_opened_is_told_until_something_is_pinned(
    spectra_dock: SpectraDock, cube_viewer: ViewerModel, qtbot: QtBot
) -> None:
    spectra_dock.bench.open_spectra(colour_checker()[:2])
    lines(spectra_dock, qtbot)
    assert spectra_dock.text.text() == "0 put back on the image, 2 only drawn."
    spectra_dock.bench.pin((550, 4, 7))
    lines(spectra_dock, qtbot)
    assert spectra_dock.text.text().startswith("Move over a cube")
