"""Snapshots of the workbench, on a viewer without a window."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from napari.components import ViewerModel
from numpy.testing import assert_allclose
from tests.plugin.conftest import make_cube
from tests.plugin.in_viewer import add_cube, cube_in

from napari_mst.analysis.classification import classes
from napari_mst.analysis.transforms import normalised, transformed
from napari_mst.base.errors import SpectrumError
from napari_mst.plugin.spectra.resolve import VIEWS, Snapshot
from napari_mst.plugin.spectra.rows import spectra_of
from napari_mst.plugin.spectra.spectra_model import SpectraModel


@pytest.fixture
def model(cube_viewer: ViewerModel) -> SpectraModel:
    """A model with two picks, under the mouse a third pixel."""
    model = SpectraModel(cube_viewer)
    model.attach()
    model.pin((550, 4, 7))
    model.pin((550, 5, 8))
    model.point_at((550, 1, 2))
    model.finish()
    return model


def test_a_cursor_a_selection_and_another_band_change_nothing_else(
    model: SpectraModel, cube_viewer: ViewerModel
) -> None:
    before = model.snapshot
    model.point_at_wavelength(412)
    after = model.snapshot
    assert after.reading is not None
    assert (after.cursor, after.reading[0]) == (412, 410)
    assert after.axes == before.axes
    for part in ("entries", "curves", "live", "matches"):
        assert getattr(after, part) is getattr(before, part)
    cube_viewer.dims.set_point(0, 620)
    shown = model.finish()
    assert shown.bands is not None
    assert shown.bands.shown == 620
    assert shown.curves is before.curves
    model.choose([1])
    assert [line.is_faded for line in model.snapshot.curves.lines] == [True, False]
    assert model.snapshot.entries is shown.entries
    assert model.snapshot.live is shown.live


@pytest.mark.parametrize(
    ("choices", "top"),
    [({}, 1.0), ({"is_fitted": True}, None), ({"view": VIEWS[2]}, 1.0), ({"view": VIEWS[3]}, None)],
    ids=["as it is", "fitted", "maximum", "derivative"],
)
def test_only_the_axis_of_values_from_0_to_1_shows_all_of_them(
    model: SpectraModel, choices: dict[str, Any], top: float | None
) -> None:
    model.set(**choices)
    assert model.snapshot.axes is not None
    assert model.snapshot.axes.top == top


def test_curves_are_shown_in_the_chosen_way_and_kept_as_measured(model: SpectraModel) -> None:
    measured, _ = spectra_of(model.entries)
    by_name = [transformed(measured, way=way) for way in ("first derivative", "continuum removed")]
    scaled = [normalised(measured, to=to) for to in ("area", "maximum")]
    for view, expected in zip(VIEWS, (measured, *scaled, *by_name), strict=True):
        model.set(view=view)
        shown = model.snapshot.curves.lines[0].spectrum
        assert_allclose(shown.values, expected.values)
    assert_allclose(spectra_of(model.entries)[0].values, make_cube().data[:, 4, 7])


def test_an_axis_shows_one_quantity_and_the_notes_name_the_cubes(
    model: SpectraModel, cube_viewer: ViewerModel
) -> None:
    cube = cube_viewer.layers["cube"]
    add_cube(cube_viewer, make_cube(), "other")
    add_cube(cube_viewer, replace(make_cube(), quantity="absorbance"), "derived")
    cube_viewer.layers.selection.active = cube
    snapshot = model.finish()
    assert [line.style for line in snapshot.curves.lines] == [0, 2, 0, 2]
    assert [line.style for line in snapshot.live] == [0, 2]
    assert snapshot.notes[:2] == (
        "Solid: cube; Dotted: other.",
        "Not drawn, as it is another quantity: derived.",
    )
    model.set(view=VIEWS[2])
    assert len(model.finish().curves.lines) == 6


def test_a_detached_model_follows_and_holds_nothing(
    model: SpectraModel, cube_viewer: ViewerModel
) -> None:
    model.detach()
    assert model.entries == ()
    assert model.snapshot.curves.lines == ()
    heard: list[Snapshot] = []
    model.changed.connect(heard.append)
    cube_viewer.dims.set_point(0, 620)
    cube_viewer.layers.selection.active = None
    assert heard == []


def test_a_pixel_without_values_is_told_below_the_plot_and_to_a_map(
    model: SpectraModel, cube_viewer: ViewerModel
) -> None:
    data = make_cube().data
    data[:, 4, 7] = np.nan
    cube_viewer.layers["cube"].data = data
    for row, column, end in ((4, 7, ": there is no value here"), (1, 2, "")):
        model.point_at((550, row, column))
        assert model.finish().text == f"row {row}, column {column}{end}"
    with pytest.raises(SpectrumError, match=r"got 'pick 1'\. Leave it out"):
        classes(cube_in(cube_viewer.layers["cube"]), spectra_of(model.finish().entries))
