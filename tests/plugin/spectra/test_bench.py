"""The spectra workbench from a script: everything that the dock does, without Qt."""

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import sys

BLOCKED = ("PyQt6", "PySide6", "pyqtgraph", "qtpy", "superqt")
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
