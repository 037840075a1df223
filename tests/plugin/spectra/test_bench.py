"""The spectra workbench from a script: everything that the dock does, without Qt."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from napari.components import ViewerModel
from tests.plugin.conftest import make_cube
from tests.plugin.spectra.later import Later

from napari_mst.errors import SpectrumError
from napari_mst.plugin.spectra.bench import Bench
from napari_mst.plugin.spectra.settings import Settings
from napari_mst.plugin.viewer import picks
from napari_mst.spectra.library import colour_checker

SCRIPT = """
import sys

# napari's layers import magicgui for the types of its widgets, but not its Qt backend.
BLOCKED = ("PyQt6", "PySide6", "pyqtgraph", "qtpy", "superqt", "magicgui.backends._qtpy")
for module in BLOCKED:
    sys.modules[module] = None

from dataclasses import replace
from pathlib import Path

import numpy as np
from napari.components import ViewerModel

from napari_mst.cube import SpectralCube
from napari_mst.plugin.spectra.bench import Bench
from napari_mst.plugin.viewer.layers import cube_layer
from napari_mst.spectra.library import read_spectra

band, row, column = np.indices((31, 20, 30), dtype=np.float32)
values = (band * 10_000 + row * 100 + column) / 310_000
wavelengths = np.arange(400.0, 701.0, 10.0)
viewer = ViewerModel()


def add_cube(data, name):
    cube = SpectralCube(data, wavelengths)
    return viewer.add_image(data, **cube_layer(cube, name)[1])


truth = add_cube(values - 1, "truth")
truth.visible = False
cube = add_cube(values, "cube")
bench = Bench(viewer)
bench.attach()


def drawn():
    return [line.spectrum.values for line in bench.finish().curves.lines]


# pin
assert bench.pin((550, 4, 7))
bench.settings = replace(bench.settings, window=3)
assert bench.pin((550, 9, 9))
np.testing.assert_allclose(drawn()[0], values[:, 4, 7])
np.testing.assert_allclose(drawn()[1], values[:, 8:11, 8:11].mean(axis=(1, 2)), rtol=1e-6)
assert [entry.first.name for entry in bench.entries] == ["pick 1", "pick 2"]

# move
points = viewer.layers["Picks"]
points.data = [[5, 8], [9, 9]]
np.testing.assert_allclose(drawn()[0], values[:, 5, 8])

# undo
bench.undo()
np.testing.assert_allclose(drawn()[0], values[:, 4, 7])

# compare with a reference
bench.reference = truth
snapshot = bench.finish()
assert snapshot.has_scores
np.testing.assert_allclose([entry.comparison.rmse for entry in bench.entries], 1, rtol=1e-6)
bench.settings = replace(bench.settings, is_error_shown=True)
np.testing.assert_allclose(drawn(), 1, rtol=1e-6)
bench.settings = replace(bench.settings, is_error_shown=False)
bench.reference = None

# save
folder = Path(sys.argv[1])
bench.rename(bench.entries[0], "leaf")
bench.finish()
bench.save_spectra(folder / "spectra.csv")
saved = read_spectra(folder / "spectra.csv")
assert [spectrum.name for spectrum in saved] == ["leaf", "pick 2"]
np.testing.assert_allclose(saved[0].values, values[:, 4, 7], rtol=1e-5)
assert bench.snapshot.text == "2 spectra saved as spectra.csv."

# live
bench.point_at((550, 2, 3))
live = bench.update().live.spectra[0]
np.testing.assert_allclose(live.values, values[:, 1:4, 2:5].mean(axis=(1, 2)), rtol=1e-6)
assert bench.snapshot.text == "row 2, column 3, mean of 9 pixels"

# map
bench.maps.choose("ratio")
bench.maps.move_line(0, 700)
bench.maps.move_line(1, 500)
bench.maps.run()
ratio = viewer.layers["Ratio A / B: cube"]
np.testing.assert_allclose(ratio.data, values[30] / values[10], rtol=1e-5)
bench.maps.choose("classes")
bench.maps.number = 1
bench.maps.run()
classes = viewer.layers["Spectral angle classes: cube"]
assert (classes.data[4, 7], classes.data[9, 9]) == (1, 2)
assert classes.features["name"].tolist() == ["", "leaf", "pick 2"]

assert not any(sys.modules.get(module) for module in BLOCKED)
print("done")
"""


def test_a_script_pins_moves_undoes_compares_maps_and_saves_without_qt(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    run = subprocess.run(
        [sys.executable, str(script), str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert run.stdout == "done\n", run.stderr


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
