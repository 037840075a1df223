"""Files and the clipboard of the spectra dock."""

from pathlib import Path

import numpy as np
import pytest
from napari.components import ViewerModel
from pytestqt.qtbot import QtBot
from qtpy.QtGui import QImage
from qtpy.QtWidgets import QApplication, QFileDialog
from tests.plugin.conftest import make_cube
from tests.plugin.spectra.probe import SQUARE, lines, points_of

from napari_mst.plugin.spectra.dock import SpectraDock
from napari_mst.plugin.spectra.saving import spectra_of
from napari_mst.plugin.viewer import picks
from napari_mst.spectra.library import read_spectra


@pytest.mark.parametrize("suffix", [".csv", ".sli"])
def test_saved_spectra_open_again_as_the_same_picks_and_regions(
    spectra_dock: SpectraDock,
    cube_viewer: ViewerModel,
    qtbot: QtBot,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    suffix: str,
) -> None:
    path = tmp_path / f"spectra{suffix}"
    spectra_dock.menus.windows[1].trigger()
    spectra_dock.bench.pin((550, 4, 7))
    lines(spectra_dock, qtbot)
    spectra_dock.bench.rename(spectra_dock.bench.entries[0], "a leaf, green")
    spectra_dock.bench.recolour(spectra_dock.bench.entries[0], "#102030")
    cube_viewer.add_shapes(SQUARE + 0.25, shape_type="polygon", name="soil")
    before = lines(spectra_dock, qtbot)
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(path), ""))
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: (str(path), ""))
    spectra_dock.menus.files.save_spectra()
    qtbot.waitUntil(lambda: not spectra_dock.bench.saver.is_busy)
    assert len(read_spectra(path)) == 2
    for name in ("Picks", "soil"):
        cube_viewer.layers.remove(cube_viewer.layers[name])
    assert lines(spectra_dock, qtbot) == []
    spectra_dock.menus.files.open_spectra()
    after = lines(spectra_dock, qtbot)
    for one, two in zip(before, after, strict=True):
        np.testing.assert_allclose(one.spectrum.values, two.spectrum.values, rtol=1e-6)
        assert (one.spectrum.name, one.spectrum.colour) == (two.spectrum.name, two.spectrum.colour)
    spectra_dock.menus.files.open_spectra()
    assert len(points_of(cube_viewer).data) == 1


def test_spectra_of_another_image_are_drawn_and_not_put_on_this_one(
    spectra_dock: SpectraDock, cube_viewer: ViewerModel, qtbot: QtBot
) -> None:
    spectra_dock.bench.pin((550, 4, 7))
    lines(spectra_dock, qtbot)
    spectra = spectra_of(spectra_dock.bench.entries)
    spectra_dock.bench.clear()
    cube_viewer.layers["cube"].data = make_cube().data + 1
    spectra_dock.bench.open_spectra(spectra)
    (line,) = lines(spectra_dock, qtbot)
    np.testing.assert_allclose(line.spectrum.values, make_cube().data[:, 4, 7])
    assert not len(points_of(cube_viewer).data)
    spectra_dock.table.selectRow(0)
    spectra_dock.bench.delete(spectra_dock.bench.chosen)
    assert lines(spectra_dock, qtbot) == []


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_the_plot_is_saved_with_its_legend_and_looks_as_before(
    spectra_dock: SpectraDock,
    cube_viewer: ViewerModel,
    qtbot: QtBot,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    suffix: str,
) -> None:
    spectra_dock.bench.pin((550, 4, 7))
    lines(spectra_dock, qtbot)
    path = tmp_path / f"plot{suffix}"
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(path), ""))
    spectra_dock.menus.files.save_plot()
    lines(spectra_dock, qtbot)
    assert not spectra_dock.plot.legend.isVisible()
    assert spectra_dock.plot.backgroundBrush().color().lightness() < 128
    if suffix == ".svg":
        assert "pick 1" in path.read_text()
        assert picks.PALETTE[0] in path.read_text()
    else:
        assert QImage(str(path)).width() == 3 * spectra_dock.plot.width()


def test_spectra_are_copied_as_a_table(spectra_dock: SpectraDock, qtbot: QtBot) -> None:
    spectra_dock.bench.pin((550, 4, 7))
    lines(spectra_dock, qtbot)
    spectra_dock.menus.files.copy_spectra()
    qtbot.waitUntil(lambda: not spectra_dock.bench.saver.is_busy)
    text = QApplication.clipboard().text()
    assert "pick 1" in text
    assert f"{make_cube().data[0, 4, 7]:.4f}"[:6] in text
