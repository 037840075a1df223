"""The spectra dock without a napari window."""

from typing import Any

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Points
from pytestqt.qtbot import QtBot
from tests.plugin.conftest import make_cube

from napari_mst.plugin import picks
from napari_mst.plugin.layers import cube_layer
from napari_mst.plugin.spectra_dock import SpectraDock


def drawn(dock: SpectraDock, qtbot: QtBot) -> list[tuple[str, np.ndarray]]:
    """Colour and values of the curves, when nothing more is to be drawn."""
    qtbot.waitUntil(lambda: not dock.is_drawing)
    return [(curve.opts["pen"].color().name(), curve.yData) for curve in dock.plot.curves]


def points_of(viewer: ViewerModel) -> Points:
    points = picks.picks_layer(viewer)
    assert points is not None
    return points


def test_the_live_curve_is_the_spectrum_under_the_mouse(
    spectra_dock: SpectraDock, cube_viewer: ViewerModel, qtbot: QtBot
) -> None:
    hover(cube_viewer, (550, 4, 7))
    drawn(spectra_dock, qtbot)
    np.testing.assert_array_equal(spectra_dock.plot.live.yData, make_cube().data[:, 4, 7])
    assert spectra_dock.text.text() == "row 4, column 7"
    hover(cube_viewer, (550, 40, 7))
    drawn(spectra_dock, qtbot)
    assert spectra_dock.plot.live.yData is None


def test_curves_follow_their_points_through_add_recolour_move_and_delete(
    spectra_dock: SpectraDock, cube_viewer: ViewerModel, qtbot: QtBot
) -> None:
    data = make_cube().data
    spectra_dock.pin((550, 4, 7))
    points = points_of(cube_viewer)
    points.add([5, 8])
    (first, values), (second, others) = drawn(spectra_dock, qtbot)
    assert (first, second) == picks.PALETTE[:2]
    np.testing.assert_array_equal([values, others], [data[:, 4, 7], data[:, 5, 8]])
    points.selected_data = {1}
    points.current_face_color = "#102030"
    points.data = [[4, 7], [9, 9]]
    _, (second, others) = drawn(spectra_dock, qtbot)
    assert second == "#102030"
    np.testing.assert_array_equal(others, data[:, 9, 9])
    points.selected_data = {0}
    points.remove_selected()
    assert [colour for colour, _ in drawn(spectra_dock, qtbot)] == ["#102030"]
    spectra_dock.clear_button.click()
    assert drawn(spectra_dock, qtbot) == []
    cube_viewer.layers.remove(points)
    spectra_dock.pin((550, 1, 1))
    assert len(drawn(spectra_dock, qtbot)) == 1


def test_picks_outlive_the_dock(spectra_dock: SpectraDock, cube_viewer: ViewerModel, qtbot: QtBot) -> None:
    spectra_dock.pin((550, 4, 7))
    spectra_dock.hide()
    points_of(cube_viewer).add([5, 8])
    spectra_dock.show()
    assert len(drawn(spectra_dock, qtbot)) == 2


def test_the_line_follows_the_slider_and_drags_it(
    spectra_dock: SpectraDock, cube_viewer: ViewerModel, qtbot: QtBot
) -> None:
    cube_viewer.dims.set_point(0, 620)
    drawn(spectra_dock, qtbot)
    assert spectra_dock.plot.band.value() == 620
    spectra_dock.plot.band_dragged.emit(473.0)
    assert cube_viewer.dims.point[0] == 470


def test_values_are_read_at_the_cursor_and_else_at_the_band_that_is_shown(
    spectra_dock: SpectraDock, cube_viewer: ViewerModel, qtbot: QtBot
) -> None:
    cube_viewer.dims.set_point(0, 620)
    spectra_dock.pin((550, 4, 7))
    drawn(spectra_dock, qtbot)
    assert "<b>620 nm</b>" in spectra_dock.values.text()
    spectra_dock.plot.cursor_moved.emit(412.0)
    drawn(spectra_dock, qtbot)
    value = make_cube().data[1, 4, 7]
    assert "<b>410 nm</b>" in spectra_dock.values.text()
    assert f"{value:.3f}" in spectra_dock.values.text()


def test_the_spectra_are_those_of_the_selected_cube_and_else_of_the_topmost(
    spectra_dock: SpectraDock, cube_viewer: ViewerModel, qtbot: QtBot
) -> None:
    spectra_dock.pin((550, 4, 7))
    data, arguments, _ = cube_layer(make_cube(40, 40), "top")
    top = cube_viewer.add_image(data + 1, **arguments)
    assert drawn(spectra_dock, qtbot)[0][1][0] == data[0, 4, 7] + 1
    cube_viewer.layers.selection.active = cube_viewer.layers["cube"]
    assert drawn(spectra_dock, qtbot)[0][1][0] == data[0, 4, 7]
    cube_viewer.layers.selection.active = points_of(cube_viewer)
    assert drawn(spectra_dock, qtbot)[0][1][0] == data[0, 4, 7] + 1
    top.visible = False
    assert drawn(spectra_dock, qtbot)[0][1][0] == data[0, 4, 7]


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_the_plot_takes_on_the_theme(spectra_dock: SpectraDock, cube_viewer: ViewerModel, theme: str) -> None:
    cube_viewer.theme = theme
    background = spectra_dock.plot.backgroundBrush().color().lightness()
    assert (background < 128) == (theme == "dark")


def hover(viewer: ViewerModel, position: tuple[float, ...]) -> None:
    """What napari does when the mouse moves."""

    class Event:
        pass

    event: Any = Event()
    event.position = position
    for callback in viewer.mouse_move_callbacks:
        callback(viewer, event)
