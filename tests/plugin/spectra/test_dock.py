"""The spectra dock without a napari window."""

import gc
import threading
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Image, Labels, Points
from pytestqt.qtbot import QtBot
from qtpy.QtCore import QPointF, Qt
from qtpy.QtGui import QColor, QImage
from qtpy.QtWidgets import QApplication, QFileDialog
from tests.plugin.conftest import make_cube

from napari_mst.models.cards import MODELS
from napari_mst.plugin.spectra import region_tasks
from napari_mst.plugin.spectra.curves import pen
from napari_mst.plugin.spectra.dock import SpectraDock
from napari_mst.plugin.spectra.plot import Marker
from napari_mst.plugin.spectra.region_rows import MOST_CURVES
from napari_mst.plugin.spectra.saving import spectra_of
from napari_mst.plugin.spectra.snapshot import Line
from napari_mst.plugin.viewer import picks
from napari_mst.plugin.viewer.layers import cube_layer, cube_of, go_to
from napari_mst.reconstruction import error_bands
from napari_mst.reconstruction.error_bands import spectrum_band
from napari_mst.spectra.library import colour_checker, read_spectra
from napari_mst.spectra.regions import region_spectrum
from napari_mst.spectra.spectrum import MODEL_ERROR, Spectrum
from napari_mst.spectra.transforms import continuum_removed, first_derivative, normalised

SQUARE = np.array([[3, 4], [3, 9], [8, 9], [8, 4]])


def lines(dock: SpectraDock, qtbot: QtBot) -> list[Line]:
    """The curves, when nothing more is to be drawn."""
    qtbot.waitUntil(lambda: not dock.is_drawing, timeout=30_000)
    return list(dock.plot.curves.lines)


def drawn(dock: SpectraDock, qtbot: QtBot) -> list[tuple[str, np.ndarray]]:
    """Colour and values of the curves."""
    return [(line.spectrum.colour, line.spectrum.values) for line in lines(dock, qtbot)]


def points_of(viewer: ViewerModel) -> Points:
    points = picks.picks_layer(viewer)
    assert points is not None
    return points


def second_cube(viewer: ViewerModel, **changes: Any) -> Image:
    """Another visible cube with other values, while the first stays selected."""
    data, arguments, _ = cube_layer(make_cube(), "other")
    layer = viewer.add_image(data + 1, **{**arguments, **changes})
    viewer.layers.selection.active = viewer.layers["cube"]
    return layer


def show_errors(dock: SpectraDock) -> None:
    dock.bench.settings = replace(dock.bench.settings, is_error_shown=True)


def hover(viewer: ViewerModel, position: tuple[float, ...]) -> None:
    """What napari does when the mouse moves."""

    class Event:
        pass

    event: Any = Event()
    event.position = position
    for callback in viewer.mouse_move_callbacks:
        callback(viewer, event)


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


def test_curves_follow_their_points_through_add_recolour_move_and_delete(
    spectra_dock: SpectraDock, cube_viewer: ViewerModel, qtbot: QtBot
) -> None:
    data = make_cube().data
    spectra_dock.bench.pin((550, 4, 7))
    points = points_of(cube_viewer)
    points.add([5, 8])
    (first, values), (second, others) = drawn(spectra_dock, qtbot)
    assert (first, second) == picks.PALETTE[:2]
    np.testing.assert_allclose([values, others], [data[:, 4, 7], data[:, 5, 8]])
    points.selected_data = {1}
    points.current_face_color = "#102030"
    points.data = [[4, 7], [9, 9]]
    _, (second, others) = drawn(spectra_dock, qtbot)
    assert second == "#102030"
    np.testing.assert_allclose(others, data[:, 9, 9])
    points.selected_data = {0}
    points.remove_selected()
    assert [colour for colour, _ in drawn(spectra_dock, qtbot)] == ["#102030"]
    spectra_dock.menus.clear.trigger()
    assert drawn(spectra_dock, qtbot) == []
    spectra_dock.menus.undo.trigger()
    assert [colour for colour, _ in drawn(spectra_dock, qtbot)] == ["#102030"]
    cube_viewer.layers.remove(points)
    spectra_dock.bench.pin((550, 1, 1))
    assert len(drawn(spectra_dock, qtbot)) == 1


def test_points_follow_their_curves_through_rename_recolour_hide_solo_and_delete(
    spectra_dock: SpectraDock, cube_viewer: ViewerModel, qtbot: QtBot
) -> None:
    for column in (1, 2, 3):
        spectra_dock.bench.pin((550, 5, column))
    lines(spectra_dock, qtbot)
    points, model = points_of(cube_viewer), spectra_dock.model
    model.setData(model.index(1, 0), "leaf")
    model.setData(model.index(0, 0), Qt.CheckState.Unchecked, Qt.ItemDataRole.CheckStateRole)
    spectra_dock.bench.recolour(spectra_dock.bench.entries[2], "#102030")
    assert [line.spectrum.name for line in lines(spectra_dock, qtbot)] == ["leaf", "pick 3"]
    assert picks.names(points) == ["pick 1", "leaf", "pick 3"]
    assert picks.colours(points)[2] == "#102030"
    assert points.shown.tolist() == [False, True, True]
    spectra_dock.bench.solo([spectra_dock.bench.entries[1]])
    assert [line.spectrum.name for line in lines(spectra_dock, qtbot)] == ["leaf"]
    spectra_dock.bench.solo([spectra_dock.bench.entries[1]])
    assert len(lines(spectra_dock, qtbot)) == 3
    spectra_dock.table.selectRow(1)
    assert points.selected_data == {1}
    assert [line.is_faded for line in lines(spectra_dock, qtbot)] == [True, False, True]
    qtbot.keyClick(spectra_dock.table, Qt.Key.Key_Delete)
    lines(spectra_dock, qtbot)
    assert picks.names(points) == ["pick 1", "pick 3"]
    for _ in range(2):
        spectra_dock.bench.undo()
        lines(spectra_dock, qtbot)
    assert picks.names(points) == ["pick 1", "leaf", "pick 3"]


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


ACTIONS: dict[str, Callable[[SpectraDock, Points], object]] = {
    "pin": lambda dock, _: dock.bench.pin((550, 1, 1)),
    "add with napari's tool": lambda _, points: points.add([1, 1]),
    "move": lambda _, points: setattr(points, "data", [[4, 7], [9, 9]]),
    "rename": lambda dock, _: dock.model.setData(dock.model.index(1, 0), "leaf"),
    "recolour": lambda dock, _: dock.bench.recolour(dock.bench.entries[1], "#102030"),
    "hide": lambda dock, _: dock.bench.show([dock.bench.entries[1]], False),
    "delete": lambda dock, _: (dock.table.selectRow(1), dock.bench.delete(dock.bench.chosen)),
    "delete with napari's key": lambda _, points: picks.remove(points, [1]),
    "clear": lambda dock, _: dock.bench.clear(),
}


@pytest.mark.parametrize("is_awaited", [True, False], ids=["drawn", "at once"])
@pytest.mark.parametrize("action", ACTIONS)
def test_one_undo_takes_back_one_action(
    spectra_dock: SpectraDock, cube_viewer: ViewerModel, qtbot: QtBot, action: str, is_awaited: bool
) -> None:
    for row in (4, 5):
        spectra_dock.bench.pin((550, row, 7))
    lines(spectra_dock, qtbot)
    points = points_of(cube_viewer)
    before = picks.State.of(points)
    ACTIONS[action](spectra_dock, points)
    if is_awaited:
        lines(spectra_dock, qtbot)
    assert not picks.State.of(points).equals(before)
    for names in (["pick 1", "pick 2"], ["pick 1"]):
        spectra_dock.bench.undo()
        lines(spectra_dock, qtbot)
        assert picks.names(points) == names
        if len(names) == 2:
            assert picks.State.of(points).equals(before)


def test_picks_outlive_the_dock_with_names_and_windows(
    spectra_dock: SpectraDock, cube_viewer: ViewerModel, qtbot: QtBot
) -> None:
    spectra_dock.menus.windows[1].trigger()
    spectra_dock.bench.pin((550, 4, 7))
    lines(spectra_dock, qtbot)
    spectra_dock.hide()
    points_of(cube_viewer).add([5, 8])
    spectra_dock.show()
    first, second = (line.spectrum for line in lines(spectra_dock, qtbot))
    assert (first.origin.window, second.origin.window) == (3, 3)
    assert (first.name, second.name) == ("pick 1", "pick 2")
    np.testing.assert_allclose(
        first.values, make_cube().data[:, 3:6, 6:9].astype(float).mean(axis=(1, 2))
    )


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


def test_the_same_place_is_read_on_every_visible_cube_the_selected_one_first(
    spectra_dock: SpectraDock, cube_viewer: ViewerModel, qtbot: QtBot
) -> None:
    other = second_cube(cube_viewer, translate=(400, 2, 0))
    data = make_cube().data
    spectra_dock.bench.pin((550, 4, 7))
    first, second = lines(spectra_dock, qtbot)
    assert (first.style, second.style, first.spectrum.colour) == (0, 1, second.spectrum.colour)
    np.testing.assert_allclose(
        [first.spectrum.values, second.spectrum.values], [data[:, 4, 7], data[:, 2, 7] + 1]
    )
    cube_viewer.layers.selection.active = other
    assert [line.spectrum.origin.cube for line in lines(spectra_dock, qtbot)] == ["other", "cube"]
    spectra_dock.bench.pin((550, 0, 7))  # off the selected cube, but on the other one
    assert lines(spectra_dock, qtbot)[-1].spectrum.origin.cube == "cube"
    cube_viewer.layers["cube"].visible = False
    assert [line.spectrum.origin.cube for line in lines(spectra_dock, qtbot)] == ["other"]
    hover(cube_viewer, (550, 1, 7))
    lines(spectra_dock, qtbot)
    assert spectra_dock.plot.lives[0].yData is None


def test_layers_that_are_reordered_or_given_other_numbers_keep_the_curves_true(
    spectra_dock: SpectraDock, cube_viewer: ViewerModel, qtbot: QtBot
) -> None:
    spectra_dock.bench.pin((550, 4, 7))
    cube_viewer.layers.move(1, 0)
    data = make_cube().data
    np.testing.assert_allclose(drawn(spectra_dock, qtbot)[0][1], data[:, 4, 7])
    cube_viewer.layers["cube"].data = data[:, ::-1].copy()
    np.testing.assert_allclose(drawn(spectra_dock, qtbot)[0][1], data[:, 15, 7])


def test_every_shape_and_label_has_a_curve_that_follows_it(
    spectra_dock: SpectraDock, cube_viewer: ViewerModel, qtbot: QtBot
) -> None:
    data = make_cube().data.astype(float)
    shapes = cube_viewer.add_shapes([SQUARE, SQUARE + 9], shape_type="polygon", name="leaves")
    labels = np.zeros((20, 30), dtype=int)
    labels[0, :5] = 4
    cells = cube_viewer.add_labels(labels, name="cells")
    first, second, third = (line.spectrum for line in lines(spectra_dock, qtbot))
    assert [first.name, second.name, third.name] == ["leaves 1", "leaves 2", "cells 4"]
    assert len({first.colour, second.colour, third.colour}) == 3
    np.testing.assert_allclose(third.values, data[:, 0, :5].mean(axis=1))
    shapes.data = [SQUARE + 1, SQUARE + 9]
    np.testing.assert_allclose(
        lines(spectra_dock, qtbot)[0].spectrum.values, data[:, 4:10, 5:11].mean(axis=(1, 2))
    )
    cells.data_setitem((np.array([0]), np.array([5])), 4)
    np.testing.assert_allclose(
        lines(spectra_dock, qtbot)[2].spectrum.values, data[:, 0, :6].mean(axis=1)
    )
    spectra_dock.menus.spreads[1].trigger()
    assert lines(spectra_dock, qtbot)[0].spectrum.spread == "percentiles 5-95"
    spectra_dock.table.selectRow(0)
    spectra_dock.bench.delete(spectra_dock.bench.chosen)
    assert [line.spectrum.name for line in lines(spectra_dock, qtbot)] == ["leaves 1", "cells 4"]
    spectra_dock.menus.regions.click()
    assert lines(spectra_dock, qtbot) == []


def test_a_large_region_is_read_off_the_gui_thread_and_its_curve_stays_until_then(
    spectra_dock: SpectraDock, cube_viewer: ViewerModel, qtbot: QtBot
) -> None:
    shapes = cube_viewer.add_shapes(SQUARE, shape_type="polygon")
    before = lines(spectra_dock, qtbot)[0].spectrum.values
    shapes.data = [SQUARE + 5]
    spectra_dock.pace.draw()
    assert spectra_dock.bench.is_busy
    np.testing.assert_array_equal(spectra_dock.plot.curves.lines[0].spectrum.values, before)
    assert not np.array_equal(lines(spectra_dock, qtbot)[0].spectrum.values, before)


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (1, lambda spectrum: normalised(spectrum, "area")),
        (2, lambda spectrum: normalised(spectrum, "maximum")),
        (3, lambda spectrum: normalised(spectrum, 620.0)),
        (4, first_derivative),
        (5, continuum_removed),
    ],
)
def test_curves_are_shown_in_the_chosen_way_and_kept_as_measured(
    spectra_dock: SpectraDock, cube_viewer: ViewerModel, qtbot: QtBot, number: int, expected: Any
) -> None:
    spectra_dock.bench.pin((550, 4, 7))
    cube_viewer.dims.set_point(0, 620)
    spectra_dock.menus.views[number].trigger()
    (line,) = lines(spectra_dock, qtbot)
    (measured,) = spectra_of(spectra_dock.bench.entries)
    np.testing.assert_allclose(measured.values, make_cube().data[:, 4, 7])
    np.testing.assert_allclose(line.spectrum.values, expected(measured).values)


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
    qtbot.mouseClick(plot.viewport(), Qt.MouseButton.LeftButton, pos=spot.toPoint())
    assert spectra_dock.table.chosen() == [1]
    far = plot.view.mapViewToScene(QPointF(500, 0.75))
    qtbot.mouseClick(plot.viewport(), Qt.MouseButton.LeftButton, pos=far.toPoint())
    assert spectra_dock.table.chosen() == []


def test_a_reference_cube_gives_errors_and_scores(
    spectra_dock: SpectraDock, cube_viewer: ViewerModel, qtbot: QtBot
) -> None:
    other = second_cube(cube_viewer)
    other.visible = False
    spectra_dock.bench.pin((550, 4, 7))
    cube_viewer.add_shapes(SQUARE, shape_type="polygon")
    spectra_dock.menus.fill_compare()
    action = next(
        one
        for one in spectra_dock.menus.compare.menu().actions()
        if one.text() == "Reference: other"
    )
    action.trigger()
    lines(spectra_dock, qtbot)
    model = spectra_dock.model
    header = [
        model.headerData(column, Qt.Orientation.Horizontal) for column in range(model.columnCount())
    ]
    assert header[4:] == ["RMSE", "MRAE", "SAM"]
    assert [model.data(model.index(row, 4)) for row in range(2)] == ["1.0000", "1.0000"]
    show_errors(spectra_dock)
    for line in lines(spectra_dock, qtbot):
        np.testing.assert_allclose(line.spectrum.values, -1, rtol=1e-6)
    cube_viewer.layers.remove(other)
    lines(spectra_dock, qtbot)
    assert model.columnCount() == 4


def test_the_chosen_spectrum_is_matched_with_a_library(
    spectra_dock: SpectraDock, cube_viewer: ViewerModel, qtbot: QtBot
) -> None:
    chart = colour_checker()
    cube = make_cube()
    data = cube.data.copy()
    data[:, 4, 7] = 0.5 * chart[6].values
    cube_viewer.layers["cube"].data = data
    spectra_dock.bench.pin((550, 4, 7))
    lines(spectra_dock, qtbot)
    spectra_dock.bench.library = chart
    assert spectra_dock.matches.isHidden()
    spectra_dock.table.selectRow(0)
    said = [
        spectra_dock.matches.item(row).text().split("   ")
        for row in range(spectra_dock.matches.count())
    ]
    assert len(said) == 5
    assert said[0][1] == chart[6].name
    assert float(said[0][0].strip("\N{DEGREE SIGN} ")) == pytest.approx(0, abs=0.01)
    assert lines(spectra_dock, qtbot)[-1].spectrum.name == chart[6].name
    spectra_dock.matches.setCurrentRow(1)
    assert lines(spectra_dock, qtbot)[-1].spectrum.name == said[1][1]


@pytest.mark.parametrize("suffix", [".csv", ".sli"])
def test_saved_spectra_open_again_as_the_same_picks_and_regions(
    spectra_dock: SpectraDock,
    cube_viewer: ViewerModel,
    qtbot: QtBot,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    suffix: str,
) -> None:
    path = tmp_path / f"spectra{suffix}"
    spectra_dock.menus.windows[1].trigger()
    spectra_dock.bench.pin((550, 4, 7))
    lines(spectra_dock, qtbot)
    spectra_dock.bench.rename(spectra_dock.bench.entries[0], "a leaf, green")
    spectra_dock.bench.recolour(spectra_dock.bench.entries[0], "#102030")
    cube_viewer.add_shapes(SQUARE + 0.25, shape_type="polygon", name="soil")
    before = lines(spectra_dock, qtbot)
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(path), ""))
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: (str(path), ""))
    spectra_dock.menus.files.save_spectra()
    qtbot.waitUntil(lambda: not spectra_dock.bench.saver.is_busy)
    assert len(read_spectra(path)) == 2
    for name in ("Picks", "soil"):
        cube_viewer.layers.remove(cube_viewer.layers[name])
    assert lines(spectra_dock, qtbot) == []
    spectra_dock.menus.files.open_spectra()
    after = lines(spectra_dock, qtbot)
    for one, two in zip(before, after, strict=True):
        np.testing.assert_allclose(one.spectrum.values, two.spectrum.values, rtol=1e-6)
        assert (one.spectrum.name, one.spectrum.colour) == (two.spectrum.name, two.spectrum.colour)
    spectra_dock.menus.files.open_spectra()
    assert len(points_of(cube_viewer).data) == 1


def test_spectra_of_another_image_are_drawn_and_not_put_on_this_one(
    spectra_dock: SpectraDock, cube_viewer: ViewerModel, qtbot: QtBot
) -> None:
    spectra_dock.bench.pin((550, 4, 7))
    lines(spectra_dock, qtbot)
    spectra = spectra_of(spectra_dock.bench.entries)
    spectra_dock.bench.clear()
    cube_viewer.layers["cube"].data = make_cube().data + 1
    spectra_dock.bench.open_spectra(spectra)
    (line,) = lines(spectra_dock, qtbot)
    np.testing.assert_allclose(line.spectrum.values, make_cube().data[:, 4, 7])
    assert not len(points_of(cube_viewer).data)
    spectra_dock.table.selectRow(0)
    spectra_dock.bench.delete(spectra_dock.bench.chosen)
    assert lines(spectra_dock, qtbot) == []


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_the_plot_is_saved_with_its_legend_and_looks_as_before(
    spectra_dock: SpectraDock,
    cube_viewer: ViewerModel,
    qtbot: QtBot,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    suffix: str,
) -> None:
    spectra_dock.bench.pin((550, 4, 7))
    lines(spectra_dock, qtbot)
    path = tmp_path / f"plot{suffix}"
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(path), ""))
    spectra_dock.menus.files.save_plot()
    lines(spectra_dock, qtbot)
    assert not spectra_dock.plot.legend.isVisible()
    assert spectra_dock.plot.backgroundBrush().color().lightness() < 128
    if suffix == ".svg":
        assert "pick 1" in path.read_text()
        assert picks.PALETTE[0] in path.read_text()
    else:
        assert QImage(str(path)).width() == 3 * spectra_dock.plot.width()


def test_spectra_are_copied_as_a_table(spectra_dock: SpectraDock, qtbot: QtBot) -> None:
    spectra_dock.bench.pin((550, 4, 7))
    lines(spectra_dock, qtbot)
    spectra_dock.menus.files.copy_spectra()
    qtbot.waitUntil(lambda: not spectra_dock.bench.saver.is_busy)
    text = QApplication.clipboard().text()
    assert "pick 1" in text
    assert f"{make_cube().data[0, 4, 7]:.4f}"[:6] in text


def test_a_thousand_picks_stay_usable(
    spectra_dock: SpectraDock, cube_viewer: ViewerModel, qtbot: QtBot
) -> None:
    spectra_dock.bench.pin((550, 0, 0))
    lines(spectra_dock, qtbot)
    points = points_of(cube_viewer)
    rows, columns = np.divmod(np.arange(600), 30)
    points.data = np.stack([rows, columns], axis=1)
    assert len(lines(spectra_dock, qtbot)) == 600
    assert spectra_dock.model.rowCount() == 600
    before = [entry.first for entry in spectra_dock.bench.entries]
    points.data = np.concatenate([points.data[:-1], [[0, 0]]])
    lines(spectra_dock, qtbot)
    after = [entry.first for entry in spectra_dock.bench.entries]
    assert [one is two for one, two in zip(before, after, strict=True)] == [True] * 599 + [False]


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


def test_ticks_stay_with_their_curves_when_others_are_deleted(
    spectra_dock: SpectraDock, cube_viewer: ViewerModel, qtbot: QtBot
) -> None:
    cube_viewer.add_shapes([SQUARE, SQUARE + 1, SQUARE + 2], shape_type="polygon", name="leaves")
    spectra_dock.bench.open_spectra(colour_checker()[:3])
    lines(spectra_dock, qtbot)
    names = [entry.first.name for entry in spectra_dock.bench.entries]
    for row in (1, 2, 4):
        spectra_dock.bench.show([spectra_dock.bench.entries[row]], False)
    lines(spectra_dock, qtbot)
    spectra_dock.table.choose([1, 3])
    spectra_dock.bench.delete(spectra_dock.bench.chosen)
    lines(spectra_dock, qtbot)
    shown = [(entry.first.name, entry.is_shown) for entry in spectra_dock.bench.entries]
    assert shown == [("leaves 1", True), ("leaves 2", False), (names[4], False), (names[5], True)]
    spectra_dock.bench.clear()
    spectra_dock.bench.open_spectra(colour_checker()[:1])
    lines(spectra_dock, qtbot)
    assert spectra_dock.bench.entries[-1].is_shown


def test_points_that_are_selected_on_the_image_have_their_rows_selected(
    spectra_dock: SpectraDock, cube_viewer: ViewerModel, qtbot: QtBot
) -> None:
    for column in (1, 2, 3):
        spectra_dock.bench.pin((550, 5, column))
    lines(spectra_dock, qtbot)
    points = points_of(cube_viewer)
    points.selected_data = {0, 2}
    assert [line.is_faded for line in lines(spectra_dock, qtbot)] == [False, True, False]
    assert spectra_dock.table.chosen() == [0, 2]
    points.selected_data = {1}
    lines(spectra_dock, qtbot)
    assert spectra_dock.table.chosen() == [1]
    points.selected_data = set()
    lines(spectra_dock, qtbot)
    assert spectra_dock.table.chosen() == []


@pytest.fixture
def estimate(cube_viewer: ViewerModel) -> Image:
    """The only cube: one whose model has an error band."""
    cube = make_cube()
    provenance = replace(cube.provenance, error_factor=MODELS["mstpp-srgb"].error_factor)
    cube_viewer.layers.clear()
    data, arguments, _ = cube_layer(replace(cube, provenance=provenance), "estimate")
    return cube_viewer.add_image(data, **arguments)


def test_a_pick_of_an_estimate_has_its_error_band_read_off_the_gui_thread(
    spectra_dock: SpectraDock, estimate: Image, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = list[threading.Thread]()

    def watched(*of: Any) -> Any:
        threads.append(threading.current_thread())
        return spectrum_band(*of)

    monkeypatch.setattr(error_bands, "spectrum_band", watched)
    spectra_dock.bench.pin((550, 4, 7))
    spectra_dock.pace.draw()
    assert spectra_dock.plot.curves.lines[0].spectrum.lower is None  # the curve is there at once
    (line,) = lines(spectra_dock, qtbot)
    assert threads
    assert threading.main_thread() not in threads
    cube = cube_of(estimate)
    assert cube is not None
    band = spectrum_band(cube, 4, 7)
    assert band is not None
    np.testing.assert_allclose((line.spectrum.lower, line.spectrum.upper), band)
    assert line.spectrum.spread == MODEL_ERROR
    assert (line.spectrum.upper > line.spectrum.lower).all()


def test_the_error_band_is_drawn_around_selected_picks_and_follows_the_way_of_showing(
    spectra_dock: SpectraDock, estimate: Image, cube_viewer: ViewerModel, qtbot: QtBot
) -> None:
    for column in (7, 8):
        spectra_dock.bench.pin((550, 4, column))
    spectra_dock.menus.windows[1].trigger()
    spectra_dock.bench.pin((550, 9, 9))

    def spreads() -> list[str]:
        return [line.spectrum.spread for line in lines(spectra_dock, qtbot)]

    assert spreads() == ["", "", "std"]
    points_of(cube_viewer).selected_data = {1}
    assert spreads() == ["", MODEL_ERROR, "std"]
    measured: Spectrum = spectra_of(spectra_dock.bench.entries)[1]
    spectra_dock.menus.views[2].trigger()
    upper = lines(spectra_dock, qtbot)[1].spectrum.upper
    np.testing.assert_allclose(upper, measured.upper / measured.values.max())
    spectra_dock.menus.views[4].trigger()
    assert spreads() == ["", "", ""]
    spectra_dock.menus.views[0].trigger()
    spectra_dock.menus.error_band.trigger()
    assert spreads() == ["", "", "std"]
    assert [one.spread for one in spectra_of(spectra_dock.bench.entries)] == ["", "", "std"]


def test_the_error_band_is_saved_with_the_spectra(
    spectra_dock: SpectraDock,
    estimate: Image,
    qtbot: QtBot,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "spectra.csv"
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(path), ""))
    spectra_dock.bench.pin((550, 4, 7))
    spectra_dock.bench.pin((550, 4, 8))
    lines(spectra_dock, qtbot)
    spectra_dock.menus.files.save_spectra()
    qtbot.waitUntil(lambda: not spectra_dock.bench.saver.is_busy)
    for saved, kept in zip(read_spectra(path), spectra_of(spectra_dock.bench.entries), strict=True):
        assert saved.spread == MODEL_ERROR
        np.testing.assert_allclose((saved.lower, saved.upper), (kept.lower, kept.upper), rtol=1e-5)


def test_a_cube_without_a_model_has_no_error_band(spectra_dock: SpectraDock, qtbot: QtBot) -> None:
    spectra_dock.bench.pin((550, 4, 7))
    (line,) = lines(spectra_dock, qtbot)
    assert line.spectrum.lower is None


@pytest.fixture
def many(cube_viewer: ViewerModel) -> Labels:
    """599 labels of one pixel, which are more than are drawn one by one."""
    return cube_viewer.add_labels(7 * np.arange(600).reshape(20, 30), name="cells")


def test_of_many_labels_every_one_is_listed_and_saved_and_their_median_and_range_are_drawn(
    spectra_dock: SpectraDock,
    many: Labels,
    qtbot: QtBot,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (line,) = lines(spectra_dock, qtbot)
    pixels = make_cube().data.reshape(31, -1)[:, 1:].astype(float)
    np.testing.assert_allclose(line.spectrum.values, np.median(pixels, axis=1))
    np.testing.assert_allclose(
        (line.spectrum.lower, line.spectrum.upper), np.percentile(pixels, (5, 95), axis=1)
    )
    assert spectra_dock.model.rowCount() == 599
    assert spectra_dock.notes.text().startswith(
        "cells: 599 labels, drawn as their median and the range of 90 %"
    )
    path = tmp_path / "cells.sli"
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(path), ""))
    spectra_dock.menus.files.save_spectra()
    qtbot.waitUntil(lambda: not spectra_dock.bench.saver.is_busy)
    saved = read_spectra(path)
    assert [one.name for one in saved] == [f"cells {7 * number}" for number in range(1, 600)]
    np.testing.assert_allclose([one.values for one in saved], pixels.T, rtol=1e-6)
    many.visible = False
    lines(spectra_dock, qtbot)
    assert spectra_dock.notes.isHidden()


def test_of_many_labels_those_selected_are_drawn_in_their_colours_and_the_hidden_do_not_count(
    spectra_dock: SpectraDock, many: Labels, qtbot: QtBot
) -> None:
    lines(spectra_dock, qtbot)
    spectra_dock.table.choose([3, 4])
    summary, three, four = lines(spectra_dock, qtbot)
    assert [three.spectrum.name, four.spectrum.name] == ["cells 28", "cells 35"]
    assert three.spectrum.colour == QColor.fromRgbF(*many.get_color(28).tolist()).name()
    assert (summary.entry, three.is_faded, summary.is_faded) == (-1, False, True)
    spectra_dock.table.selectAll()
    assert len(lines(spectra_dock, qtbot)) == 1 + MOST_CURVES
    assert "Of the selected curves, 99 are not drawn." in spectra_dock.notes.text()
    spectra_dock.bench.solo(spectra_dock.bench.entries[:2])
    spectra_dock.table.clearSelection()
    (line,) = lines(spectra_dock, qtbot)
    np.testing.assert_allclose(
        line.spectrum.values, make_cube().data[:, 0, 1:3].astype(float).mean(axis=1)
    )


def test_other_names_and_colours_of_labels_are_shown_without_reading_the_cube_again(
    spectra_dock: SpectraDock, many: Labels, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines(spectra_dock, qtbot)
    monkeypatch.setattr(region_tasks, "on_grid", lambda *_: pytest.fail("read again"))
    spectra_dock.model.setData(spectra_dock.model.index(3, 0), "red cell")
    many.colormap = {None: "transparent", 28: "#ff0000"}
    spectra_dock.table.choose([3])
    spectrum = lines(spectra_dock, qtbot)[1].spectrum
    assert (spectrum.name, spectrum.colour) == ("red cell", "#ff0000")


def test_a_label_that_is_painted_and_undone_is_read_again(
    spectra_dock: SpectraDock, cube_viewer: ViewerModel, qtbot: QtBot
) -> None:
    labels = cube_viewer.add_labels(np.pad(np.full((2, 2), 5), ((0, 18), (0, 28))), name="cells")
    assert lines(spectra_dock, qtbot)[0].spectrum.origin.pixels == 4
    labels.paint((1, 2), 5)
    assert lines(spectra_dock, qtbot)[0].spectrum.origin.pixels > 4
    labels.undo()
    assert lines(spectra_dock, qtbot)[0].spectrum.origin.pixels == 4


def test_a_curve_that_cannot_be_shown_in_the_chosen_way_says_so(
    spectra_dock: SpectraDock, cube_viewer: ViewerModel, qtbot: QtBot
) -> None:
    short = Spectrum([400.0, 500.0], [0.1, 0.2])
    spectra_dock.bench.open_spectra([short])
    cube_viewer.dims.set_point(0, 620)
    spectra_dock.menus.views[3].trigger()
    (line,) = lines(spectra_dock, qtbot)
    np.testing.assert_array_equal(line.spectrum.values, short.values)
    assert spectra_dock.notes.text().startswith(
        "Drawn as measured: Expected wavelengths within 400-500 nm, got 620"
    )
    spectra_dock.menus.views[0].trigger()
    lines(spectra_dock, qtbot)
    assert spectra_dock.notes.text() == ""


def test_what_was_opened_is_told_until_something_is_pinned(
    spectra_dock: SpectraDock, cube_viewer: ViewerModel, qtbot: QtBot
) -> None:
    spectra_dock.bench.open_spectra(colour_checker()[:2])
    lines(spectra_dock, qtbot)
    assert spectra_dock.text.text() == "0 put back on the image, 2 only drawn."
    spectra_dock.bench.pin((550, 4, 7))
    lines(spectra_dock, qtbot)
    assert spectra_dock.text.text().startswith("Move over a cube")


def test_the_first_cube_is_drawn_solid_and_each_other_dashed_pinned_and_live(
    spectra_dock: SpectraDock, cube_viewer: ViewerModel, qtbot: QtBot
) -> None:
    second_cube(cube_viewer)
    hover(cube_viewer, (550, 4, 7))
    lines(spectra_dock, qtbot)
    live = [curve.opts["pen"].style() for curve in spectra_dock.plot.lives]
    pinned = [pen(QColor("red"), style, 2).style() for style in range(4)]
    solid, dashed = Qt.PenStyle.SolidLine, Qt.PenStyle.CustomDashLine
    assert (live, pinned) == ([solid, dashed], [solid, dashed, dashed, dashed])
    assert len({tuple(pen(QColor("red"), style, 2).dashPattern()) for style in range(4)}) == 4


def test_a_region_that_is_dragged_faster_than_it_is_read_shows_what_was_read_last(
    spectra_dock: SpectraDock,
    cube_viewer: ViewerModel,
    qtbot: QtBot,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shapes = cube_viewer.add_shapes(SQUARE, shape_type="polygon")
    lines(spectra_dock, qtbot)
    data, reads, gate = make_cube().data.astype(float), [], threading.Semaphore(0)

    def slow(*of: Any, **how: Any) -> Any:
        reads.append(1)
        gate.acquire(timeout=10)
        return region_spectrum(*of, **how)

    monkeypatch.setattr(region_tasks, "region_spectrum", slow)
    shapes.data = [SQUARE + 1]
    qtbot.waitUntil(lambda: len(reads) == 1)
    shapes.data = [SQUARE + 2]
    spectra_dock.pace.draw()
    gate.release()
    qtbot.waitUntil(
        lambda: len(reads) == 2
    )  # the next place is being read, that before it is shown
    spectra_dock.pace.draw()
    np.testing.assert_allclose(
        spectra_dock.plot.curves.lines[0].spectrum.values,
        data[:, 4:10, 5:11].mean(axis=(1, 2)),
        rtol=1e-6,
    )
    gate.release()
    np.testing.assert_allclose(
        lines(spectra_dock, qtbot)[0].spectrum.values, data[:, 5:11, 6:12].mean(axis=(1, 2))
    )


def test_a_label_that_is_selected_on_the_image_has_its_row_selected(
    spectra_dock: SpectraDock, many: Labels, qtbot: QtBot
) -> None:
    lines(spectra_dock, qtbot)
    many.selected_label = 70
    assert spectra_dock.table.chosen() == [9]
    assert lines(spectra_dock, qtbot)[1].spectrum.name == "cells 70"


def test_among_errors_no_live_spectrum_is_drawn(
    spectra_dock: SpectraDock, cube_viewer: ViewerModel, qtbot: QtBot
) -> None:
    spectra_dock.bench.reference = second_cube(cube_viewer)
    show_errors(spectra_dock)
    hover(cube_viewer, (550, 4, 7))
    lines(spectra_dock, qtbot)
    assert all(live.yData is None for live in spectra_dock.plot.lives)
