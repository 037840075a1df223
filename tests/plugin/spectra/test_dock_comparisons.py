"""Curves beside each other in the spectra dock: cubes, a reference, a library, ways to show."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from qtpy.QtCore import Qt
from tests.plugin.conftest import make_cube
from tests.plugin.in_viewer import add_cube, cube_in
from tests.plugin.spectra.probe import SQUARE, Desk, entries

from napari_mst.analysis.library import colour_checker
from napari_mst.cube.spectrum import Spectrum


def test_the_same_place_is_read_on_every_visible_cube_the_selected_one_first(desk: Desk) -> None:
    other = desk.second_cube(translate=(400, 2, 0))
    data = make_cube().data
    desk.pin(4, 7)
    first, second = desk.lines()
    assert (first.style, second.style, first.spectrum.colour) == (0, 1, second.spectrum.colour)
    assert_allclose(
        [first.spectrum.values, second.spectrum.values], [data[:, 4, 7], data[:, 2, 7] + 1]
    )
    desk.viewer.layers.selection.active = other
    assert [line.spectrum.origin.cube for line in desk.lines()] == ["other", "cube"]
    desk.pin(0, 7)  # off the selected cube, but on the other one
    assert desk.lines()[-1].spectrum.origin.cube == "cube"
    desk.viewer.layers["cube"].visible = False
    assert [line.spectrum.origin.cube for line in desk.lines()] == ["other"]
    desk.hover(1, 7)
    desk.lines()
    assert desk.live() == []


def test_a_reference_cube_gives_scores(desk: Desk) -> None:
    other = desk.second_cube()
    other.visible = False
    desk.pin(4, 7)
    desk.viewer.add_shapes(SQUARE, shape_type="polygon")
    add_cube(desk.viewer, replace(cube_in(other), quantity="absorbance"), "unfit")
    desk.viewer.layers.selection.active = desk.viewer.layers["cube"]
    offered = entries(desk.dock.menus.compare)
    # A cube is no reference for itself.
    assert "Reference: cube" not in offered
    assert offered["Reference: other"].isEnabled()
    assert not offered["Reference: unfit"].isEnabled()
    assert "reflectance, but found absorbance" in offered["Reference: unfit"].toolTip()
    desk.viewer.layers.remove("unfit")
    desk.choose("compare", "Reference: other")
    desk.lines()
    model = desk.dock.table_model
    header = [
        model.headerData(column, Qt.Orientation.Horizontal) for column in range(model.columnCount())
    ]
    assert header[3:] == ["550 nm", "RMSE", "MRAE", "SAM"]
    assert model.data(model.index(0, 3)) == f"{make_cube().data[15, 4, 7]:.4f}"
    assert [model.data(model.index(row, 4)) for row in range(2)] == ["1.0000", "1.0000"]
    desk.viewer.layers.remove(other)
    desk.lines()
    assert model.columnCount() == 4


def test_the_chosen_spectrum_is_matched_with_a_library(desk: Desk) -> None:
    chart = colour_checker()
    cube = make_cube()
    data = cube.data.copy()
    data[:, 4, 7] = 0.5 * chart[6].values
    desk.viewer.layers["cube"].data = data
    desk.pin(4, 7)
    desk.lines()
    desk.model.match_with(chart)
    # At once: of the newest spectrum, if none is selected.
    assert desk.dock.matches.count() == 5
    assert f"Dotted: {chart[6].name}, 0.0" in " ".join(desk.model.snapshot.notes)
    desk.dock.table.selectRow(0)
    said = [
        desk.dock.matches.item(row).text().split("   ") for row in range(desk.dock.matches.count())
    ]
    assert len(said) == 5
    assert said[0][1] == chart[6].name
    assert float(said[0][0].strip("\N{DEGREE SIGN} ")) == pytest.approx(0, abs=0.01)
    assert desk.lines()[-1].spectrum.name == chart[6].name
    desk.dock.matches.setCurrentRow(1)
    assert desk.lines()[-1].spectrum.name == said[1][1]


def test_a_curve_that_cannot_be_shown_in_the_chosen_way_says_so(desk: Desk) -> None:
    short = Spectrum(np.array([400.0]), np.array([0.1]))
    desk.model.open_spectra([short])
    desk.choose("view", "First derivative")
    (line,) = desk.lines()
    assert_array_equal(line.spectrum.values, short.values)
    assert " ".join(desk.model.snapshot.notes).startswith(
        "Drawn as measured: This needs 2 or more bands to fit parabolas to, but found 1"
    )
    desk.choose("view", "As it is")
    desk.lines()
    assert " ".join(desk.model.snapshot.notes) == ""
