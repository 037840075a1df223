"""Snapshots of the workbench, on a viewer without a window."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from napari.components import ViewerModel
from tests.plugin.conftest import make_cube
from tests.plugin.in_viewer import add_cube

from napari_mst.plugin.spectra.bench import Bench
from napari_mst.plugin.spectra.resolve import HINT, VIEWS, Snapshot, resolve


@pytest.fixture
def bench(cube_viewer: ViewerModel) -> Bench:
    """A bench with two picks, under the mouse a third pixel."""
    bench = Bench(cube_viewer)
    bench.attach()
    bench.pin((550, 4, 7))
    bench.pin((550, 5, 8))
    bench.point_at((550, 1, 2))
    bench.finish()
    return bench


def test_without_layers_the_hint_is_shown() -> None:
    snapshot = resolve(Snapshot(), Snapshot())
    assert snapshot.text == HINT
    assert snapshot.axes is None
    assert snapshot.curves.lines == ()


def test_the_same_wishes_give_the_same_snapshot(bench: Bench) -> None:
    first = bench.snapshot
    again = resolve(first, Snapshot())
    assert again.curves.keys == first.curves.keys
    assert (again.text, again.notes) == (first.text, first.notes)
    for one, two in zip(again.curves.lines, first.curves.lines, strict=True):
        np.testing.assert_array_equal(one.spectrum.values, two.spectrum.values)


def test_a_cursor_leaves_everything_else_as_it_is(bench: Bench) -> None:
    before = bench.snapshot
    bench.point_at_wavelength(412)
    after = bench.snapshot
    assert after.reading is not None
    assert (after.cursor, after.reading[0]) == (412, 410)
    assert after.axes == before.axes
    for part in ("entries", "curves", "live", "matches"):
        assert getattr(after, part) is getattr(before, part)


def test_a_selection_changes_the_curves_and_not_the_rows(bench: Bench) -> None:
    before = bench.snapshot
    bench.choose([1])
    after = bench.snapshot
    assert [line.is_faded for line in after.curves.lines] == [True, False]
    assert after.entries is before.entries
    assert after.live is before.live


def test_another_band_leaves_the_curves_as_they_are(bench: Bench, cube_viewer: ViewerModel) -> None:
    before = bench.snapshot
    cube_viewer.dims.set_point(0, 620)
    bench.finish()
    assert bench.snapshot.bands is not None
    assert bench.snapshot.bands.shown == 620
    assert bench.snapshot.curves is before.curves


@pytest.mark.parametrize(
    ("choices", "top"),
    [({}, 1.0), ({"is_fitted": True}, None), ({"view": VIEWS[2]}, 1.0), ({"view": VIEWS[3]}, None)],
    ids=["as it is", "fitted", "maximum", "derivative"],
)
def test_only_the_axis_of_values_from_0_to_1_shows_all_of_them(
    bench: Bench, choices: dict[str, Any], top: float | None
) -> None:
    bench.set(**choices)
    assert bench.snapshot.axes is not None
    assert bench.snapshot.axes.top == top


def test_an_axis_shows_one_quantity_and_the_notes_name_the_cubes(
    bench: Bench, cube_viewer: ViewerModel
) -> None:
    cube = cube_viewer.layers["cube"]
    add_cube(cube_viewer, make_cube(), "other")
    add_cube(cube_viewer, replace(make_cube(), quantity="absorbance"), "derived")
    cube_viewer.layers.selection.active = cube
    snapshot = bench.finish()
    assert [line.style for line in snapshot.curves.lines] == [0, 2, 0, 2]
    assert [line.style for line in snapshot.live] == [0, 2]
    assert snapshot.notes[:2] == (
        "Solid: cube; Dotted: other.",
        "Not drawn, as it is another quantity: derived.",
    )
    bench.set(view=VIEWS[2])
    assert len(bench.finish().curves.lines) == 6


def test_a_detached_bench_hears_and_holds_nothing(bench: Bench, cube_viewer: ViewerModel) -> None:
    bench.detach()
    assert bench.entries == ()
    assert bench.snapshot.curves.lines == ()
    heard: list[Snapshot] = []
    bench.changed.connect(heard.append)
    cube_viewer.dims.set_point(0, 620)
    cube_viewer.layers.selection.active = None
    assert heard == []
