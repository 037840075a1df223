"""A lasso in the scatter makes a label, whose mean is a curve; regions are seen in the scatter."""

from pathlib import Path

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Labels
from pytestqt.qtbot import QtBot
from qtpy.QtCore import Qt
from qtpy.QtGui import QImage
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QFileDialog
from tests.plugin.conftest import make_cube
from tests.plugin.in_viewer import active_in, add_cube

from napari_mst.base.errors import SpectrumError
from napari_mst.plugin.spectra.scatter_dock import ScatterDock, painted
from napari_mst.plugin.spectra.spectra_model import SpectraModel

LEFT_HALF = [(-1, -1), (0.5, -1), (0.5, 1.5), (-1, 1.5)]


@pytest.fixture
def model(cube_viewer: ViewerModel) -> SpectraModel:
    """A model whose cube is 0 in the left half of its first band, and 1 in the right half."""
    layer = active_in(cube_viewer)
    layer.data[0] = np.arange(30) >= 15
    model = SpectraModel(cube_viewer)
    model.attach()
    model.gating.x, model.gating.y = "r400", "r700"
    model.finish()
    return model


def gates_in(viewer: ViewerModel) -> Labels:
    (layer,) = [layer for layer in viewer.layers if isinstance(layer, Labels)]
    return layer


def test_a_lasso_makes_a_label_whose_mean_is_a_curve(
    model: SpectraModel, cube_viewer: ViewerModel
) -> None:
    model.gating.gate(LEFT_HALF)
    labels = gates_in(cube_viewer)
    expected = np.zeros((20, 30), np.uint8)
    expected[:, :15] = 1
    # The axes leave the darkest and the brightest pixels out.
    assert (labels.data != expected).mean() < 0.01
    (entry,) = model.finish().entries
    mean = active_in(cube_viewer).data[:, labels.data == 1].mean(axis=1)
    np.testing.assert_allclose(entry.first.values, mean, rtol=1e-5)
    model.gating.gate([(0.5, -1), (1.5, -1), (1.5, 1.5), (0.5, 1.5)])
    assert set(np.unique(labels.data)) <= {0, 1, 2}
    model.gating.take_back()
    assert labels.data.max() == 1
    assert cube_viewer.layers.selection.active is active_in(cube_viewer)


def test_a_pick_and_a_region_are_seen_in_the_scatter_in_their_colours(model: SpectraModel) -> None:
    model.pin((550, 10, 20))
    shapes = model.draw_regions()
    assert shapes is not None
    shapes.add_rectangles([[2, 2], [5, 6]])
    model.finish()
    pick, region = model.gating.highlights
    assert (pick.density.sum(), region.density.sum()) == (1, 20)
    assert [pick.colour, region.colour] == [entry.first.colour for entry in model.entries]
    found = model.gating.scatter
    assert found is not None
    picture = painted(found, [pick], "#ffffff")
    at = np.unravel_index(pick.density.argmax(), pick.density.shape)
    assert "#{:02x}{:02x}{:02x}".format(*picture[at][:3]) == pick.colour
    # One cell in the grey of all the others would not be seen.
    assert (picture[..., :3] == picture[at][:3]).all(axis=-1).sum() >= 9
    # So has the pixel under the mouse.
    model.point_at((550, 10, 20))
    x, _ = model.gating.pointed or (0, 0)
    assert x == pytest.approx(1, abs=0.01)
    model.point_at((550, 10, 99))
    assert model.gating.pointed is None


def test_another_cube_has_another_scatter_and_its_own_labels(
    model: SpectraModel, cube_viewer: ViewerModel
) -> None:
    model.gating.gate(LEFT_HALF)
    first = model.gating.scatter
    other = add_cube(cube_viewer, make_cube(10, 12), "other")
    cube_viewer.layers.selection.active = other
    model.gating.update()
    found = model.gating.scatter
    assert found is not None
    assert found is not first
    assert found.cells.shape == (10, 12)
    model.gating.gate([(-9, -9), (9, -9), (9, 9), (-9, 9)])
    assert {layer.name for layer in cube_viewer.layers} >= {"Gates: cube", "Gates: other"}


def test_a_value_that_the_cube_lacks_is_told_and_gates_are_refused(model: SpectraModel) -> None:
    with pytest.raises(SpectrumError, match="r900"):
        model.gating.x = "r900"
    assert "r900" in model.snapshot.problem
    with pytest.raises(SpectrumError, match="no scatter"):
        model.gating.gate(LEFT_HALF)
    assert model.gating.highlights == []


def test_the_page_draws_and_saves_the_scatter_and_takes_the_lasso(
    cube_viewer: ViewerModel, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dock = ScatterDock(cube_viewer)
    qtbot.addWidget(dock)
    dock.show()
    qtbot.waitUntil(lambda: dock.gating.scatter is not None, timeout=30_000)
    qtbot.waitUntil(lambda: dock.scatter.image.image is not None)
    assert dock.texts["x"].currentText() == dock.gating.x
    path = tmp_path / "scatter.png"
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(path), ""))
    on_screen = dock.scatter.grab().toImage()
    dock.save_button.click()
    saved = QImage(str(path))
    assert saved.width() == 3 * dock.scatter.width()
    # Dark on white with the axes, and the screen is dark as before.
    lightness = [saved.pixelColor(x, saved.height() // 2).lightness() for x in range(300)]
    assert lightness[0] > 200
    assert min(lightness) < 128
    assert dock.scatter.grab().toImage() == on_screen
    dock.scatter.drawn.emit([(-9, -9), (9, -9), (9, 9), (-9, 9)])
    qtbot.waitUntil(lambda: len(dock.model.entries) == 1, timeout=30_000)
    assert dock.back_button.isEnabled()
    dock.back_button.click()
    qtbot.waitUntil(lambda: not dock.model.entries, timeout=30_000)


def test_a_typed_value_is_taken_though_no_list_has_it(
    cube_viewer: ViewerModel, qtbot: QtBot
) -> None:
    dock = ScatterDock(cube_viewer)
    qtbot.addWidget(dock)
    dock.show()
    box, gating = dock.texts["x"], dock.gating

    def enter(text: str) -> None:
        box.lineEdit().selectAll()
        QTest.keyClick(box, Qt.Key.Key_Delete)
        QTest.keyClicks(box, text)
        QTest.keyClick(box, Qt.Key.Key_Return)

    for text, taken in {"pc 2": "PC 2", "r600 / r500": "r600 / r500"}.items():
        enter(text)
        assert gating.x == taken
        qtbot.waitUntil(lambda: gating.scatter is not None, timeout=30_000)
    enter("r900")
    qtbot.waitUntil(lambda: "r900" in dock.problem.text(), timeout=30_000)
    enter("")
    qtbot.waitUntil(lambda: gating.scatter is not None, timeout=30_000)
    assert dock.problem.text() == ""
    # The list of matches is a separate window.
    dock.setStyleSheet("QListView { color: red; }")
    enter("r")
    assert box.completer().popup().styleSheet() == dock.styleSheet()
