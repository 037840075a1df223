"""The spectra workbench from a script: everything that the dock does, without Qt."""

import gc
from dataclasses import replace

import numpy as np
import pytest
from napari.components import ViewerModel
from tests.plugin.conftest import make_cube
from tests.plugin.spectra.later import Later

from napari_mst.errors import SpectrumError
from napari_mst.plugin.spectra.bench import Bench
from napari_mst.plugin.spectra.snapshot import Settings
from napari_mst.plugin.viewer import picks
from napari_mst.spectra.library import colour_checker


@pytest.fixture
def bench(cube_viewer: ViewerModel) -> Bench:
    bench = Bench(cube_viewer)
    bench.attach()
    return bench


def shown(bench: Bench) -> list[str]:
    return [line.spectrum.name for line in bench.finish().curves.lines]


def test_curves_are_hidden_soloed_renamed_recoloured_and_deleted(bench: Bench) -> None:
    for column in (1, 2, 3):
        bench.pin((550, 5, column))
    assert shown(bench) == ["pick 1", "pick 2", "pick 3"]
    bench.show(bench.entries[:1], False)
    assert shown(bench) == ["pick 2", "pick 3"]
    bench.solo(bench.entries[1:2])
    assert shown(bench) == ["pick 2"]
    bench.solo(bench.entries[1:2])
    bench.rename(bench.entries[1], "leaf")
    bench.recolour(bench.entries[2], "#102030")
    assert shown(bench) == ["pick 1", "leaf", "pick 3"]
    assert bench.snapshot.curves.lines[2].spectrum.colour == "#102030"
    bench.delete(bench.entries[:1])
    assert shown(bench) == ["leaf", "pick 3"]
    bench.undo()
    assert shown(bench) == ["pick 1", "leaf", "pick 3"]
    bench.clear()
    assert shown(bench) == []


def test_regions_are_drawn_read_and_left_out(bench: Bench, cube_viewer: ViewerModel) -> None:
    bench.settings = replace(bench.settings, has_regions=False)
    shapes = bench.draw_regions("add_polygon")
    assert shapes is not None
    assert shapes.mode == "add_polygon"
    assert bench.settings.has_regions
    shapes.add_polygons(np.array([[3, 4], [3, 9], [8, 9], [8, 4]]))
    (line,) = bench.finish().curves.lines
    data = make_cube().data[:, 3:9, 4:10].astype(float)
    np.testing.assert_allclose(line.spectrum.values, data.mean(axis=(1, 2)))
    assert line.spectrum.spread == "std"
    bench.settings = replace(bench.settings, spread="")
    assert bench.finish().curves.lines[0].spectrum.spread == ""
    bench.settings = replace(bench.settings, has_regions=False)
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


def test_clicks_pin_only_while_they_are_meant_to(bench: Bench, cube_viewer: ViewerModel) -> None:
    bench.settings = Settings(is_picking=False)
    bench.click((550, 4, 7))
    assert picks.picks_layer(cube_viewer) is None
    bench.settings = Settings()
    bench.click((550, 4, 7))
    assert shown(bench) == ["pick 1"]


def test_the_selected_spectrum_is_matched_with_a_library(bench: Bench) -> None:
    chart = colour_checker()
    bench.open_spectra([chart[6]])
    bench.finish()
    bench.library = chart
    assert not any(bench.snapshot.matches)
    bench.choose([0])
    assert len(bench.snapshot.matches) == 5
    assert bench.snapshot.matches[0].spectrum.name == chart[6].name
    bench.choose_match(1)
    assert bench.snapshot.curves.lines[-1].spectrum.name == bench.snapshot.matches[1].spectrum.name


def test_a_slow_read_does_not_hold_up_what_is_shown(cube_viewer: ViewerModel) -> None:
    reads = Later()
    bench = Bench(cube_viewer, start_reading=reads)
    bench.attach()
    bench.pin((550, 4, 7))
    cube_viewer.add_shapes(np.array([[3, 4], [3, 9], [8, 9]]), shape_type="polygon", name="leaf")
    assert shown(bench) == ["pick 1"]
    assert bench.is_busy
    reads.do()
    assert shown(bench) == ["pick 1", "leaf 1"]
    assert not bench.is_busy


def test_a_map_that_was_cancelled_is_not_shown_though_it_comes_late(
    cube_viewer: ViewerModel,
) -> None:
    jobs = Later()
    bench = Bench(cube_viewer, start_job=jobs)
    bench.maps.choose("ratio")
    bench.maps.run()
    bench.maps.cancel()
    jobs.do()
    assert len(cube_viewer.layers) == 1
    assert not bench.maps.is_busy
    bench.maps.run()
    jobs.do()
    assert [layer.name for layer in cube_viewer.layers] == ["cube", "Ratio A / B: cube"]


def test_a_map_follows_its_lines_in_the_same_layer(bench: Bench, cube_viewer: ViewerModel) -> None:
    data = make_cube().data
    bench.maps.open()
    bench.maps.choose("ratio")
    bench.maps.run()
    layer = cube_viewer.layers["Ratio A / B: cube"]
    bench.maps.move_line(0, 700)
    bench.maps.move_line(1, 400)
    assert [marker.wavelength for marker in bench.maps.markers] == [700, 400]
    assert len(cube_viewer.layers) == 2
    expected = data[30, 1:, 1:] / data[0, 1:, 1:]
    np.testing.assert_allclose(layer.data[1:, 1:], expected, rtol=1e-5)
    bench.maps.close()
    assert bench.maps.markers == []


def test_without_a_cube_a_map_cannot_be_made(bench: Bench, cube_viewer: ViewerModel) -> None:
    cube_viewer.layers.clear()
    with pytest.raises(SpectrumError, match="Expected a cube layer to make a map of, got none"):
        bench.maps.run()
