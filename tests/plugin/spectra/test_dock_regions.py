"""Regions in the spectra dock: shapes and labels, a few or thousands."""

from pathlib import Path

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Labels
from numpy.testing import assert_allclose
from qtpy.QtGui import QColor
from qtpy.QtWidgets import QFileDialog
from tests.plugin.conftest import make_cube
from tests.plugin.spectra.probe import SQUARE, Desk

from napari_mst.analysis.library import colour_checker, read_spectra
from napari_mst.plugin.spectra import reader, resolve


def test_every_shape_and_label_has_a_curve_that_follows_it(desk: Desk) -> None:
    data = make_cube().data.astype(float)
    shapes = desk.viewer.add_shapes([SQUARE, SQUARE + 9], shape_type="polygon", name="leaves")
    labels = np.zeros((20, 30), dtype=int)
    labels[0, :5] = 4
    cells = desk.viewer.add_labels(labels, name="cells")
    first, second, third = (line.spectrum for line in desk.lines())
    assert [first.name, second.name, third.name] == ["leaves 1", "leaves 2", "cells 4"]
    assert len({first.colour, second.colour, third.colour}) == 3
    assert_allclose(third.values, data[:, 0, :5].mean(axis=1))
    shapes.data = [SQUARE + 1, SQUARE + 9]
    assert_allclose(desk.lines()[0].spectrum.values, data[:, 4:10, 5:11].mean(axis=(1, 2)))
    cells.brush_size = 1
    cells.paint((0, 5), 4)
    assert_allclose(desk.lines()[2].spectrum.values, data[:, 0, :6].mean(axis=1))
    cells.undo()
    assert desk.lines()[2].spectrum.origin.pixels == 5
    with cells.block_history():  # while the button is down, napari only draws
        cells.paint((0, 5), 4)
        assert desk.lines()[2].spectrum.origin.pixels == 6
    cells.paint((0, 6), 4, refresh=False)  # and now it draws later
    assert desk.lines()[2].spectrum.origin.pixels == 7
    desk.choose("regions", "Mean only")
    assert desk.lines()[0].spectrum.lower is None
    desk.dock.table.selectRow(0)
    desk.model.delete(desk.model.chosen)
    assert [line.spectrum.name for line in desk.lines()] == ["leaves 1", "cells 4"]
    shapes.visible = cells.visible = False
    assert desk.lines() == []


def test_ticks_stay_with_their_curves_when_others_are_deleted(desk: Desk) -> None:
    desk.viewer.add_shapes([SQUARE, SQUARE + 1, SQUARE + 2], shape_type="polygon", name="leaves")
    desk.model.open_spectra(colour_checker()[:3])
    desk.lines()
    names = [entry.first.name for entry in desk.model.entries]
    for row in (1, 2, 4):
        desk.model.show([desk.model.entries[row]], False)
    desk.lines()
    desk.dock.table.choose([1, 3])
    desk.model.delete(desk.model.chosen)
    desk.lines()
    shown = [(entry.first.name, entry.is_shown) for entry in desk.model.entries]
    assert shown == [("leaves 1", True), ("leaves 2", False), (names[4], False), (names[5], True)]
    desk.model.delete(desk.model.entries)
    desk.model.open_spectra(colour_checker()[:1])
    desk.lines()
    assert desk.model.entries[-1].is_shown


@pytest.fixture
def many(cube_viewer: ViewerModel, monkeypatch: pytest.MonkeyPatch) -> Labels:
    """599 labels of one pixel, which are more than are drawn."""
    monkeypatch.setattr(resolve, "MOST_CURVES", 500)
    return cube_viewer.add_labels(7 * np.arange(600).reshape(20, 30), name="cells")


def test_of_many_labels_every_one_is_listed_and_saved_and_the_first_are_drawn(
    desk: Desk, many: Labels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pixels = make_cube().data.reshape(31, -1)[:, 1:].astype(float)
    assert_allclose([values for _, values in desk.drawn()], pixels.T[:500])
    assert desk.dock.table_model.rowCount() == 599
    assert "99 more curves are not drawn" in " ".join(desk.model.snapshot.notes)
    path = tmp_path / "cells.sli"
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(path), ""))
    desk.dock.menus.save_spectra()
    desk.wait_for_text("saved as")
    saved = read_spectra(path)
    assert [one.name for one in saved] == [f"cells {7 * number}" for number in range(1, 600)]
    assert_allclose([one.values for one in saved], pixels.T, rtol=1e-6)
    many.visible = False
    desk.lines()
    assert not desk.model.snapshot.notes


def test_of_many_labels_those_selected_are_drawn_in_their_colours_and_not_the_hidden(
    desk: Desk, many: Labels
) -> None:
    desk.lines()
    many.selected_label = 70
    assert desk.dock.table.chosen() == [9]
    desk.dock.table.choose([3, 590])
    lines = [line for line in desk.lines() if not line.is_faded]
    assert [line.spectrum.name for line in lines] == ["cells 28", "cells 4137"]
    assert lines[0].spectrum.colour == QColor.fromRgbF(*many.get_color(28).tolist()).name()
    desk.model.show(desk.model.entries[2:], False)
    desk.dock.table.clearSelection()
    assert [line.spectrum.name for line in desk.lines()] == ["cells 7", "cells 14"]


def test_other_names_and_colours_of_labels_are_shown_without_reading_the_cube_again(
    desk: Desk, many: Labels, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.lines()
    monkeypatch.setattr(reader, "on_grid", lambda *_: pytest.fail("read again"))
    desk.dock.table_model.setData(desk.dock.table_model.index(3, 0), "red cell")
    many.colormap = {None: "transparent", 28: "#ff0000"}
    desk.dock.table.choose([3])
    (spectrum,) = (line.spectrum for line in desk.lines() if not line.is_faded)
    assert (spectrum.name, spectrum.colour) == ("red cell", "#ff0000")
