"""Regions in the spectra dock: shapes and labels, a few or thousands."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Labels
from pytestqt.qtbot import QtBot
from qtpy.QtGui import QColor
from qtpy.QtWidgets import QFileDialog
from tests.plugin.conftest import make_cube
from tests.plugin.spectra.probe import SQUARE, bounds, lines

from napari_mst.plugin.spectra import region_tasks
from napari_mst.plugin.spectra.dock import SpectraDock
from napari_mst.plugin.spectra.regions import MOST_CURVES
from napari_mst.spectra.library import colour_checker, read_spectra
from napari_mst.spectra.regions import region_spectrum


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
    np.testing.assert_allclose(bounds(line.spectrum), np.percentile(pixels, (5, 95), axis=1))
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
