"""Picks in the spectra dock: points and curves that follow each other, undo, and intervals."""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Image
from numpy.testing import assert_allclose
from qtpy.QtCore import Qt
from qtpy.QtGui import QColor
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QColorDialog
from tests.plugin.conftest import make_cube
from tests.plugin.in_viewer import add_cube, cube_in
from tests.plugin.spectra.probe import Desk, bounds, choose

from napari_mst.analysis.regions import region_spectrum
from napari_mst.cube.provenance import UNCALIBRATED
from napari_mst.cube.spectrum import MODEL_ERROR, Spectrum
from napari_mst.models.cards import CAMERA, MODELS
from napari_mst.plugin.dock import UNDO
from napari_mst.plugin.spectra import reader
from napari_mst.plugin.spectra.model_dock import SharedSpectraModel
from napari_mst.plugin.spectra.rows import spectra_of
from napari_mst.plugin.viewer import picks
from napari_mst.reconstruction import model_intervals
from napari_mst.reconstruction.model_intervals import model_spectrum_band, photo_interval

SPREAD = f"{MODEL_ERROR}, {UNCALIBRATED}"


def test_curves_follow_their_points_and_the_numbers_of_the_cube(desk: Desk) -> None:
    data = make_cube().data
    desk.pin(4, 7)
    points = desk.points
    points.add([5, 8])
    (first, values), (second, others) = desk.drawn()
    assert (first, second) == picks.PALETTE[:2]
    assert_allclose([values, others], [data[:, 4, 7], data[:, 5, 8]])
    points.selected_data = {1}
    points.current_face_color = "#102030"
    points.data = [[4, 7], [9, 9]]
    desk.viewer.layers["cube"].data = data = data[:, ::-1].copy()
    _, (second, others) = desk.drawn()
    assert second == "#102030"
    assert_allclose(others, data[:, 9, 9])
    points.selected_data = {0}
    points.remove_selected()
    assert [colour for colour, _ in desk.drawn()] == ["#102030"]
    desk.model.delete(desk.model.entries)
    assert desk.drawn() == []
    desk.choose("pick", f"Undo\t{UNDO.text}")
    assert [colour for colour, _ in desk.drawn()] == ["#102030"]
    desk.viewer.layers.remove(points)
    desk.pin(1, 1)
    assert len(desk.drawn()) == 1


def test_points_follow_their_curves_through_rename_recolour_hide_and_delete(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    for column in (1, 2, 3):
        desk.pin(5, column)
    desk.lines()
    points, model = desk.points, desk.dock.table_model
    model.setData(model.index(1, 0), "leaf")
    model.setData(model.index(0, 0), Qt.CheckState.Unchecked, Qt.ItemDataRole.CheckStateRole)
    desk.model.choose([2])
    monkeypatch.setattr(QColorDialog, "getColor", lambda *_: QColor("#102030"))
    choose(desk.dock._row_menu, "Colour ...")
    assert [line.spectrum.name for line in desk.lines()] == ["leaf", "pick 3"]
    assert picks.names(points) == ["pick 1", "leaf", "pick 3"]
    assert picks.colours(points)[2] == desk.drawn()[1][0] == "#102030"
    assert points.shown.tolist() == [False, True, True]
    desk.model.show(desk.model.entries, True)
    points.selected_data = {0, 2}
    assert [line.is_faded for line in desk.lines()] == [False, True, False]
    assert desk.dock.table.chosen() == [0, 2]
    desk.dock.table.selectRow(1)
    assert points.selected_data == {1}
    assert [line.is_faded for line in desk.lines()] == [True, False, True]
    QTest.keyClick(desk.dock.table, Qt.Key.Key_Delete)
    desk.lines()
    assert picks.names(points) == ["pick 1", "pick 3"]
    for _ in range(2):
        desk.model.undo()
        desk.lines()
    assert picks.names(points) == ["pick 1", "leaf", "pick 3"]


ACTIONS: dict[str, Callable[[SharedSpectraModel, Any], object]] = {
    "pin": lambda model, _: model.pin((550, 1, 1)),
    "add with napari's tool": lambda _, points: points.add([1, 1]),
    "move": lambda _, points: setattr(points, "data", [[4, 7], [9, 9]]),
    "rename": lambda model, _: model.rename(model.entries[1], "leaf"),
    "recolour": lambda model, _: model.recolour(model.entries[1], "#102030"),
    "hide": lambda model, _: model.show(model.entries[1:], False),
    "delete": lambda model, _: model.delete(model.entries[1:]),
    "delete with napari's key": lambda _, points: picks.remove(points, [1]),
}


@pytest.mark.parametrize(
    ("action", "is_awaited"),
    [*((name, True) for name in ACTIONS), ("move", False), ("hide", False)],
)
def test_one_undo_takes_back_one_action(desk: Desk, action: str, is_awaited: bool) -> None:
    for row in (4, 5):
        desk.pin(row, 7)
    desk.lines()
    points = desk.points
    before = picks.PicksState.of(points)
    ACTIONS[action](desk.model, points)
    if is_awaited:
        desk.lines()
    assert not picks.PicksState.of(points).equals(before)
    for names in (["pick 1", "pick 2"], ["pick 1"]):
        desk.model.undo()
        desk.lines()
        assert picks.names(points) == names
        if len(names) == 2:
            assert picks.PicksState.of(points).equals(before)


def test_a_thousand_picks_stay_usable(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.pin(0, 0)
    desk.lines()
    points = desk.points
    rows, columns = np.divmod(np.arange(600), 30)
    points.data = np.stack([rows, columns], axis=1)
    assert len(desk.lines()) == 600
    assert desk.dock.table_model.rowCount() == 600
    reads = list[Any]()

    def counted(*of: Any, **how: Any) -> Spectrum:
        reads.append(of)
        return region_spectrum(*of, **how)

    monkeypatch.setattr(reader, "region_spectrum", counted)
    points.data = np.concatenate([points.data[:-1], [[0, 3]]])
    assert_allclose(desk.drawn()[-1][1], make_cube().data[:, 0, 3])
    # Only the one that has moved is read again; here it went to where another one is.
    assert reads == []
    points.data = np.concatenate([points.data[:-1], [[19, 29]]])
    assert_allclose(desk.drawn()[-1][1], make_cube().data[:, 19, 29])
    assert len(reads) == 1


@pytest.fixture
def estimate(cube_viewer: ViewerModel) -> Image:
    """The only cube: one whose model has a prediction interval."""
    cube = make_cube()
    provenance = replace(cube.provenance, error_band=photo_interval(MODELS["mstpp-srgb"], CAMERA))
    cube_viewer.layers.clear()
    return add_cube(cube_viewer, replace(cube, provenance=provenance), "estimate")


def test_a_pick_of_an_estimate_has_its_error_band_read_off_the_gui_thread(
    desk: Desk, estimate: Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = list[threading.Thread]()

    def watched(*of: Any) -> Any:
        threads.append(threading.current_thread())
        return model_spectrum_band(*of)

    monkeypatch.setattr(model_intervals, "model_spectrum_band", watched)
    desk.pin(4, 7)
    desk.model.draw()
    assert desk.dock.plot.curves.lines[0].spectrum.lower is None  # the curve is there at once
    (line,) = desk.lines()
    assert threads
    assert threading.main_thread() not in threads
    band = model_spectrum_band(cube_in(estimate), 4, 7)
    assert band is not None
    lower, upper = bounds(line.spectrum)
    assert_allclose([lower, upper], np.stack(band))
    assert line.spectrum.spread == SPREAD
    assert (upper > lower).all()


def test_the_error_band_is_drawn_around_selected_picks_and_follows_the_way_of_showing(
    desk: Desk, estimate: Image
) -> None:
    for column in (7, 8):
        desk.pin(4, column)
    desk.choose("pick", "3 x 3 pixels")
    desk.pin(9, 9)

    def spreads() -> list[str]:
        return [line.spectrum.spread for line in desk.lines()]

    assert spreads() == ["", "", "std"]
    desk.points.selected_data = {1}
    assert spreads() == ["", SPREAD, "std"]
    # Said once, however many have one.
    desk.points.selected_data = {0, 1}
    desk.lines()
    assert desk.dock.text.text().endswith(f"\nPrediction interval (90 %), {UNCALIBRATED}.")
    desk.points.selected_data = {1}
    measured: Spectrum = spectra_of(desk.model.entries)[1]
    desk.choose("view", "Normalised to maximum")
    _, upper = bounds(desk.lines()[1].spectrum)
    assert_allclose(upper, bounds(measured)[1] / measured.values.max())
    desk.choose("view", "First derivative")
    assert spreads() == ["", "", ""]
