"""Curves beside each other in the spectra dock: cubes, a reference, a library, ways to show."""

from typing import Any

import numpy as np
import pytest
from napari.components import ViewerModel
from pytestqt.qtbot import QtBot
from qtpy.QtCore import Qt
from qtpy.QtGui import QColor
from tests.plugin.conftest import make_cube
from tests.plugin.spectra.probe import SQUARE, hover, lines, second_cube, show_errors

from napari_mst.plugin.spectra.curves import pen
from napari_mst.plugin.spectra.dock import SpectraDock
from napari_mst.plugin.spectra.saving import spectra_of
from napari_mst.spectra.library import colour_checker
from napari_mst.spectra.spectrum import Spectrum
from napari_mst.spectra.transforms import continuum_removed, first_derivative, normalised


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


def test_a_curve_that_cannot_be_shown_in_the_chosen_way_says_so(
    spectra_dock: SpectraDock, cube_viewer: ViewerModel, qtbot: QtBot
) -> None:
    short = Spectrum(np.array([400.0, 500.0]), np.array([0.1, 0.2]))
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


def test_among_errors_no_live_spectrum_is_drawn(
    spectra_dock: SpectraDock, cube_viewer: ViewerModel, qtbot: QtBot
) -> None:
    spectra_dock.bench.reference = second_cube(cube_viewer)
    show_errors(spectra_dock)
    hover(cube_viewer, (550, 4, 7))
    lines(spectra_dock, qtbot)
    assert all(live.yData is None for live in spectra_dock.plot.lives)
