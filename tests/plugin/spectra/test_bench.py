"""The spectra workbench from a script: everything that the dock does, without Qt."""

import gc

import numpy as np
import pytest
from napari.components import ViewerModel
from tests.plugin.conftest import make_cube

from napari_mst.plugin.spectra.bench import Bench
from napari_mst.plugin.viewer import picks


@pytest.fixture
def bench(cube_viewer: ViewerModel) -> Bench:
    bench = Bench(cube_viewer)
    bench.attach()
    return bench


def shown(bench: Bench) -> list[str]:
    return [line.spectrum.name for line in bench.finish().curves.lines]


def test_regions_are_drawn_read_and_left_out(bench: Bench, cube_viewer: ViewerModel) -> None:
    shapes = bench.draw_regions()
    assert shapes is not None
    assert shapes.mode == "add_rectangle"
    shapes.add_polygons(np.array([[3, 4], [3, 9], [8, 9], [8, 4]]))
    (line,) = bench.finish().curves.lines
    data = make_cube().data[:, 3:9, 4:10].astype(float)
    np.testing.assert_allclose(line.spectrum.values, data.mean(axis=(1, 2)))
    assert line.spectrum.spread == "std"
    bench.set(spread="")
    assert bench.finish().curves.lines[0].spectrum.spread == ""
    shapes.visible = False
    assert shown(bench) == []


def test_rows_of_a_layer_that_was_just_deleted_can_still_be_changed(
    bench: Bench, cube_viewer: ViewerModel
) -> None:
    bench.pin((550, 5, 1))
    cube_viewer.add_shapes(np.array([[3, 4], [3, 9], [8, 9], [8, 4]]), shape_type="polygon")
    cube_viewer.add_labels(np.eye(20, 30, dtype=int), name="cells")
    bench.finish()
    entries = bench.entries
    assert [entry.first.name for entry in entries] == ["pick 1", "Shapes 1", "cells 1"]
    for name in ("Picks", "Shapes", "cells"):
        cube_viewer.layers.remove(name)
    gc.collect()
    for entry in entries:
        bench.rename(entry, "other")
        bench.recolour(entry, "#102030")
    bench.show(entries, False)
    bench.delete(entries)
    assert shown(bench) == []


def test_an_error_is_shown_until_the_next_action(bench: Bench) -> None:
    for act in (lambda: bench.set(window=3), lambda: bench.pin((550, 4, 7))):
        with bench.reported():
            bench.over_pages()
        assert bench.finish().problem.startswith("Select a pick on the cubes of a stack")
        with bench.reported():
            act()
        assert bench.finish().problem == ""


def test_a_click_pins_and_selects_while_it_is_meant_to(
    bench: Bench, cube_viewer: ViewerModel
) -> None:
    bench.set(is_picking=False)
    bench.click((550, 4, 7))
    assert picks.picks_layer(cube_viewer) is None
    bench.set(is_picking=True)
    for number, row in enumerate((4, 5), 1):
        bench.click((550, row, 7))
        # The newest pick is what the next command means.
        bench.finish()
        assert [entry.first.name for entry in bench.chosen] == [f"pick {number}"]
    bench.point_at((550, 6, 7))
    assert bench.pin_here()
    bench.finish()
    assert [entry.first.name for entry in bench.chosen] == ["pick 3"]
    assert not bench.pin_here()
    assert shown(bench) == ["pick 1", "pick 2", "pick 3"]
