"""The profile follows the line that is drawn, and its cube."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from napari.components import ViewerModel
from napari.layers import Shapes
from napari.utils.theme import get_theme
from numpy.testing import assert_allclose
from pytestqt.qtbot import QtBot
from qtpy.QtGui import QImage
from qtpy.QtWidgets import QFileDialog
from tests.plugin.conftest import make_cube
from tests.plugin.in_viewer import active_in

from napari_mst.analysis.transects import transect
from napari_mst.base.errors import SpectrumError
from napari_mst.cube import SpectralCube
from napari_mst.plugin.spectra.profile_dock import ProfileDock
from napari_mst.plugin.spectra.profiling import spectrogram
from napari_mst.plugin.spectra.spectra_model import SpectraModel

LINE = np.array([[5, 5], [5, 25]])


@pytest.fixture
def model(cube_viewer: ViewerModel) -> SpectraModel:
    model = SpectraModel(cube_viewer)
    model.attach()
    return model


def drawn(model: SpectraModel) -> Shapes:
    shapes = model.profile.draw_line()
    assert shapes is not None
    assert shapes.mode == "add_line"
    shapes.add_lines(LINE)
    model.finish()
    model.profile.update()
    return shapes


def test_the_curve_is_the_band_at_the_slider_or_the_chosen_value(
    model: SpectraModel, cube_viewer: ViewerModel
) -> None:
    layer, data = active_in(cube_viewer), make_cube().data
    layer.scale, layer.units = (10, 2, 2), ("pixel", "mm", "mm")
    with pytest.raises(SpectrumError, match="Draw a line"):
        model.profile.save(Path("profile.csv"))
    drawn(model)
    found = model.profile.transect
    assert found is not None
    assert (found.unit, found.distances[-1]) == ("millimeter", 40)
    cube_viewer.dims.set_point(0, 600)
    assert model.profile.value == "r600"
    assert_allclose(np.asarray(model.profile.curve()), data[20, 5, 5:26], rtol=1e-5)
    model.profile.text = "r700 / r400"
    expected = data[30, 5, 5:26] / data[0, 5, 5:26]
    assert_allclose(np.asarray(model.profile.curve()), expected, rtol=1e-4)
    model.profile.text = "r900"
    with pytest.raises(SpectrumError, match="r900"):
        model.profile.curve()


def test_the_newest_line_counts_or_the_selected_one(
    model: SpectraModel, cube_viewer: ViewerModel
) -> None:
    shapes = drawn(model)
    shapes.add_lines(LINE + 3)
    shapes.add_rectangles([[0, 0], [3, 3]])
    model.finish()
    model.profile.update()
    assert model.profile.transect is not None
    assert model.profile.transect.places[0].tolist() == [8, 8]
    model.choose([0])
    model.profile.update()
    assert model.profile.transect.places[0].tolist() == [5, 5]
    cube_viewer.layers.remove(shapes)
    model.finish()
    model.profile.update()
    assert model.profile.transect is None


def test_the_rows_of_a_spectrogram_are_even_and_rise() -> None:
    data = np.array([3, 1, 2], np.float32)[:, None, None] * np.ones((1, 4, 9), np.float32)
    picture, low, high = spectrogram(
        transect(SpectralCube(data, np.array([700.0, 400, 450])), [(1, 0), (1, 8)])
    )
    assert (low, high) == (400, 700)
    assert picture[:, 0].tolist() == [1, 2, 3]


@pytest.mark.parametrize("suffix", [".csv", ".png"])
def test_the_page_draws_and_saves_the_line(
    cube_viewer: ViewerModel,
    qtbot: QtBot,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    suffix: str,
) -> None:
    dock = ProfileDock(cube_viewer)
    qtbot.addWidget(dock)
    dock.show()
    assert not dock.save_button.isEnabled()
    assert not dock.chart.image.isVisible()
    dock.draw_button.click()
    cube_viewer.layers[-1].add_lines(LINE)
    qtbot.waitUntil(dock.save_button.isEnabled, timeout=30_000)
    assert dock.chart.image.isVisible()
    data = make_cube().data[:, 5, 5:26]
    assert_allclose(dock.chart.curve.yData, data[15], rtol=1e-5)
    path = tmp_path / f"profile{suffix}"
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(path), ""))
    cube_viewer.theme = "dark"
    ink = dock.chart.value.textPen().color().name()
    dock.save_button.click()
    assert path.stat().st_size > 1000
    if suffix == ".csv":
        assert_allclose(pd.read_csv(path)["700 nm"], data[30], rtol=1e-5)
    else:
        saved = QImage(str(path))
        # The numbers of the axis at the left: dark on white under any theme.
        column = [saved.pixelColor(x, y).lightness() for x in range(150) for y in range(300)]
        assert max(column) == 255
        assert min(column) < 100
    assert dock.chart.value.textPen().color().name() == ink == get_theme("dark").text.as_hex()
    dock.chart.wavelength_clicked.emit(448.0)
    assert cube_viewer.dims.point[0] == 450
