"""Picks in the spectra dock: points and curves that follow each other, undo, and error bands."""

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Image, Points
from pytestqt.qtbot import QtBot
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QFileDialog
from tests.plugin.conftest import make_cube
from tests.plugin.spectra.probe import bounds, drawn, lines, points_of

from napari_mst.cube.provenance import UNCALIBRATED
from napari_mst.models.cards import CAMERA, MODELS
from napari_mst.plugin.spectra.dock import SpectraDock
from napari_mst.plugin.spectra.pick_rows import AT_ONCE, ErrorBands
from napari_mst.plugin.spectra.saving import spectra_of
from napari_mst.plugin.viewer import picks
from napari_mst.plugin.viewer.layers import cube_layer, cube_of
from napari_mst.reconstruction import error_bands
from napari_mst.reconstruction.error_bands import model_spectrum_band, photo_band
from napari_mst.spectra.library import read_spectra
from napari_mst.spectra.regions import point_spectrum
from napari_mst.spectra.spectrum import MODEL_ERROR, Spectrum
from napari_mst.watch import UNWATCHED

SPREAD = f"{MODEL_ERROR}, {UNCALIBRATED}"


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
    QTest.keyClick(spectra_dock.table, Qt.Key.Key_Delete)
    lines(spectra_dock, qtbot)
    assert picks.names(points) == ["pick 1", "pick 3"]
    for _ in range(2):
        spectra_dock.bench.undo()
        lines(spectra_dock, qtbot)
    assert picks.names(points) == ["pick 1", "leaf", "pick 3"]


def recolour_second(dock: SpectraDock, _: Points) -> None:
    dock.bench.recolour(dock.bench.entries[1], "#102030")


def hide_second(dock: SpectraDock, _: Points) -> None:
    dock.bench.show([dock.bench.entries[1]], False)


def clear(dock: SpectraDock, _: Points) -> None:
    dock.bench.clear()


def delete_second(dock: SpectraDock, _: Points) -> None:
    dock.table.selectRow(1)
    dock.bench.delete(dock.bench.chosen)


ACTIONS: dict[str, Callable[[SpectraDock, Any], object]] = {
    "pin": lambda dock, _: dock.bench.pin((550, 1, 1)),
    "add with napari's tool": lambda _, points: points.add([1, 1]),
    "move": lambda _, points: setattr(points, "data", [[4, 7], [9, 9]]),
    "rename": lambda dock, _: dock.model.setData(dock.model.index(1, 0), "leaf"),
    "recolour": recolour_second,
    "hide": hide_second,
    "delete": delete_second,
    "delete with napari's key": lambda _, points: picks.remove(points, [1]),
    "clear": clear,
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


def test_layers_that_are_reordered_or_given_other_numbers_keep_the_curves_true(
    spectra_dock: SpectraDock, cube_viewer: ViewerModel, qtbot: QtBot
) -> None:
    spectra_dock.bench.pin((550, 4, 7))
    cube_viewer.layers.move(1, 0)
    data = make_cube().data
    np.testing.assert_allclose(drawn(spectra_dock, qtbot)[0][1], data[:, 4, 7])
    cube_viewer.layers["cube"].data = data[:, ::-1].copy()
    np.testing.assert_allclose(drawn(spectra_dock, qtbot)[0][1], data[:, 15, 7])


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
    provenance = replace(cube.provenance, error_band=photo_band(MODELS["mstpp-srgb"], CAMERA))
    cube_viewer.layers.clear()
    data, arguments, _ = cube_layer(replace(cube, provenance=provenance), "estimate")
    return cube_viewer.add_image(data, **arguments)


def test_a_pick_of_an_estimate_has_its_error_band_read_off_the_gui_thread(
    spectra_dock: SpectraDock, estimate: Image, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = list[threading.Thread]()

    def watched(*of: Any) -> Any:
        threads.append(threading.current_thread())
        return model_spectrum_band(*of)

    monkeypatch.setattr(error_bands, "model_spectrum_band", watched)
    spectra_dock.bench.pin((550, 4, 7))
    spectra_dock.pace.draw()
    assert spectra_dock.plot.curves.lines[0].spectrum.lower is None  # the curve is there at once
    (line,) = lines(spectra_dock, qtbot)
    assert threads
    assert threading.main_thread() not in threads
    cube = cube_of(estimate)
    assert cube is not None
    band = model_spectrum_band(cube, 4, 7)
    assert band is not None
    lower, upper = bounds(line.spectrum)
    np.testing.assert_allclose([lower, upper], np.stack(band))
    assert line.spectrum.spread == SPREAD
    assert (upper > lower).all()


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
    assert spreads() == ["", SPREAD, "std"]
    measured: Spectrum = spectra_of(spectra_dock.bench.entries)[1]
    spectra_dock.menus.views[2].trigger()
    _, upper = bounds(lines(spectra_dock, qtbot)[1].spectrum)
    np.testing.assert_allclose(upper, bounds(measured)[1] / measured.values.max())
    spectra_dock.menus.views[4].trigger()
    assert spreads() == ["", "", ""]
    spectra_dock.menus.views[0].trigger()
    spectra_dock.menus.error_band.trigger()
    assert spreads() == ["", "", "std"]
    assert [one.spread for one in spectra_of(spectra_dock.bench.entries)] == ["", "", "std"]


def test_a_line_under_the_plot_says_once_what_calibrates_the_error_bands(
    spectra_dock: SpectraDock, estimate: Image, cube_viewer: ViewerModel, qtbot: QtBot
) -> None:
    for column in (7, 8):
        spectra_dock.bench.pin((550, 4, column))
    points_of(cube_viewer).selected_data = {0, 1}
    lines(spectra_dock, qtbot)
    assert spectra_dock.notes.text() == f"Error band (90 %), {UNCALIBRATED}."
    spectra_dock.menus.error_band.trigger()
    lines(spectra_dock, qtbot)
    assert spectra_dock.notes.text() == ""


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
        assert saved.spread == SPREAD
        np.testing.assert_allclose(bounds(saved), bounds(kept), rtol=1e-5)


def test_a_cube_without_a_model_has_no_error_band(spectra_dock: SpectraDock, qtbot: QtBot) -> None:
    spectra_dock.bench.pin((550, 4, 7))
    (line,) = lines(spectra_dock, qtbot)
    assert line.spectrum.lower is None


def test_only_a_few_error_bands_are_computed_on_the_thread_of_the_window(estimate: Image) -> None:
    cube = cube_of(estimate)
    assert cube is not None
    reader: Any = SimpleNamespace(found={})
    bands = ErrorBands(reader)
    bands.around(point_spectrum(cube, 0, 0), cube)
    (first,) = bands.tasks
    reader.found[first.key] = first.run(UNWATCHED)  # torch is there from now on
    bands.begin()
    for column in range(AT_ONCE + 4):
        bands.around(point_spectrum(cube, 0, column), cube)
    assert len(bands.tasks) == 3
