"""Files and the clipboard of the spectra dock."""

import re
from pathlib import Path

import pytest
from napari.layers import Shapes
from numpy.testing import assert_allclose
from qtpy.QtGui import QImage
from qtpy.QtWidgets import QApplication, QFileDialog
from tests.plugin.conftest import make_cube
from tests.plugin.spectra.probe import SQUARE, Desk

from napari_mst.analysis.library import read_spectra
from napari_mst.plugin.spectra.menus import OPENS
from napari_mst.plugin.spectra.rows import spectra_of
from napari_mst.plugin.viewer import picks


@pytest.mark.parametrize("suffix", [".csv", ".sli"])
def test_saved_spectra_open_again_as_the_same_picks_and_regions(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    path = tmp_path / f"spectra{suffix}"
    desk.choose("pick", "3 x 3 pixels")
    desk.pin(4, 7)
    desk.lines()
    desk.model.rename(desk.model.entries[0], "a leaf, green")
    desk.model.recolour(desk.model.entries[0], "#102030")
    desk.viewer.add_shapes(SQUARE + 0.25, shape_type="polygon", name="soil")
    before = desk.lines()
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(path), ""))
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: (str(path), ""))
    desk.dock.menus.save_spectra()
    desk.wait_for_text("saved as")
    assert len(read_spectra(path)) == 2
    for name in ("Picks", "soil"):
        desk.viewer.layers.remove(desk.viewer.layers[name])
    assert desk.lines() == []
    desk.dock.menus.open_spectra()
    after = desk.lines()
    for one, two in zip(before, after, strict=True):
        assert_allclose(one.spectrum.values, two.spectrum.values, rtol=1e-6)
        assert (one.spectrum.name, one.spectrum.colour) == (two.spectrum.name, two.spectrum.colour)
    (regions,) = (layer for layer in desk.viewer.layers if isinstance(layer, Shapes))
    assert regions.nshapes == 1
    desk.dock.menus.open_spectra()
    assert len(desk.points.data) == 1


def test_the_dialog_offers_the_files_that_the_page_lists() -> None:
    page = Path(__file__).parents[3] / "docs" / "files.md"
    (row,) = (line for line in page.read_text("utf-8").splitlines() if line.startswith("| files |"))
    listed = re.findall(r"`(\.[a-z]+)`", row)
    assert len(listed) > 5
    assert {f"*{suffix}" for suffix in listed} <= {*re.split(r"[ ()]", OPENS)}


def test_spectra_of_another_image_are_drawn_and_not_put_on_this_one(desk: Desk) -> None:
    desk.pin(4, 7)
    desk.lines()
    spectra = spectra_of(desk.model.entries)
    desk.model.delete(desk.model.entries)
    desk.viewer.layers["cube"].data = make_cube().data + 1
    desk.model.open_spectra(spectra)
    (line,) = desk.lines()
    assert_allclose(line.spectrum.values, make_cube().data[:, 4, 7])
    assert not len(desk.points.data)
    # It is changed as a pick is.
    desk.model.recolour(desk.model.entries[0], "#102030")
    assert [line.spectrum.colour for line in desk.lines()] == ["#102030"]
    desk.model.delete(desk.model.entries)
    assert desk.lines() == []


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_spectra_are_copied_and_the_plot_saved_with_its_legend_and_looks_as_before(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    desk.pin(4, 7)
    desk.lines()
    desk.dock.menus.copy_spectra()
    desk.wait_for_text("Copied")
    text = QApplication.clipboard().text()
    assert f"{make_cube().data[0, 4, 7]:.4f}"[:6] in text.partition("pick 1")[2]
    path = tmp_path / f"plot{suffix}"
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(path), ""))
    desk.dock.menus.save_plot()
    desk.lines()
    assert not desk.dock.plot.legend.isVisible()
    assert desk.dock.plot.backgroundBrush().color().lightness() < 128
    if suffix == ".svg":
        assert "pick 1" in path.read_text()
        assert picks.PALETTE[0] in path.read_text()
    else:
        assert QImage(str(path)).width() == 3 * desk.dock.plot.width()
