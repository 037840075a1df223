"""The page "Pixel": what a clicked pixel attends to, and non-local means by the mouse."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from napari.components import ViewerModel
from napari.layers import Shapes
from pytestqt.qtbot import QtBot
from qtpy.QtCore import Qt
from safetensors.torch import save_file

from napari_mst.attention.pixels import PixelExplorer
from napari_mst.models import load_model
from napari_mst.networks.mst_plus_plus import MSTPlusPlus
from napari_mst.photo.photo import Photo
from napari_mst.plugin.attention.dock import AttentionDock
from napari_mst.plugin.attention.layers import map_layers, map_of
from napari_mst.plugin.attention.picking import ALIKE, SINGLE, WINDOW
from napari_mst.plugin.jobs.request import Recording
from napari_mst.plugin.viewer.photos import LayerPhoto, photo_layers
from napari_mst.reconstruction.reconstructor import Reconstructor

MATCH_START = Qt.MatchFlag.MatchStartsWith


@pytest.fixture
def dock(viewer: ViewerModel, qtbot: QtBot) -> AttentionDock:
    dock = AttentionDock(viewer)
    qtbot.addWidget(dock)
    dock.show()
    return dock


@pytest.fixture
def weights(tmp_path: Path) -> str:
    """A network with shifted windows of 4."""
    torch.manual_seed(0)
    path = tmp_path / "shifted.safetensors"
    save_file(MSTPlusPlus(stages=1, attention="shifted", window=4).state_dict(), path)
    return str(path)


@pytest.fixture
def recorded(dock: AttentionDock, viewer: ViewerModel, weights: str) -> AttentionDock:
    """The dock with a run of that network, which nobody had to wait for."""
    explorer = explorer_of(viewer, weights)
    photo = LayerPhoto.of(viewer.layers["photo"], viewer.dims.point)
    record = explorer.record()
    dock.workspace.keep(Recording(record, "photo", weights, "cpu", photo.reference()))
    return dock


def explorer_of(viewer: ViewerModel, weights: str) -> PixelExplorer:
    photo = LayerPhoto.of(viewer.layers["photo"], viewer.dims.point).read()
    return PixelExplorer(Reconstructor(load_model(weights), "cpu"), photo)


def done(dock: AttentionDock, qtbot: QtBot) -> None:
    qtbot.waitUntil(lambda: not dock.workspace.is_busy, timeout=120_000)


def world(viewer: ViewerModel, row: float, column: float) -> tuple[float, ...]:
    return tuple(viewer.layers["photo"].data_to_world((row, column)))


def test_a_click_shows_the_weights_of_the_pixel_in_a_layer_for_each_head(
    recorded: AttentionDock, viewer: ViewerModel, weights: str, qtbot: QtBot
) -> None:
    recorded.exploration.choose("stages.0.encoder.1", 1)
    recorded.panel.pixel.pick_button.click()
    recorded.picking.click(world(viewer, 13, 21))
    # A click during a job waits for it, and the last one counts.
    recorded.picking.click(world(viewer, 2, 3))
    recorded.picking.click(world(viewer, 0.2, 28.9))
    qtbot.waitUntil(lambda: "Pixel (0, 28)" in recorded.panel.pixel.text.text(), timeout=120_000)
    expected = explorer_of(viewer, weights).weights("stages.0.encoder.1", 0, 29)
    layers = map_layers(viewer)
    assert [layer.visible for layer in layers] == [False, True]
    images, (row, column) = expected.planes()
    for layer, image in zip(layers, images, strict=True):
        np.testing.assert_allclose(layer.data, image, atol=1e-6)
        assert map_of(layer).total == pytest.approx(1)
        # The first value is centred between the 2 x 2 pixels that it stands for.
        first = layer.data_to_world((0, 0))
        np.testing.assert_allclose(first, world(viewer, row + 0.5, column + 0.5))
    assert "head 1 of 2" in recorded.panel.pixel.text.text()
    # In the corner, the mask leaves a part of the window; the rest comes from other borders.
    outlines = viewer.layers["Window of a pixel: photo"]
    assert isinstance(outlines, Shapes)
    assert outlines.nshapes == len(np.unique(expected.regions)) + 1
    assert photo_layers(viewer) == [viewer.layers["photo"]]


def test_a_click_beside_the_photo_says_so(recorded: AttentionDock, viewer: ViewerModel) -> None:
    recorded.picking.click(world(viewer, -1, 3))
    assert "not on the photo" in recorded.panel.pixel.text.text()
    assert not recorded.workspace.is_busy


def test_a_run_between_pixels_has_no_matrix_and_says_where_to_look(
    recorded: AttentionDock,
) -> None:
    page = recorded.panel.matrices
    assert page.chosen.isHidden()
    assert "windows of 4 x 4" in page.uniformity.text()
    assert not recorded.panel.steps.button.isEnabled()
    assert recorded.panel.schematic.blocks["stages.0.bottleneck"] == (124, 4)


def test_the_photo_is_made_ready_once_and_anew_when_it_has_changed(
    recorded: AttentionDock,
    viewer: ViewerModel,
    qtbot: QtBot,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reads: list[LayerPhoto] = []
    read = LayerPhoto.read

    def counted(own: LayerPhoto, *given: Any) -> Photo:
        reads.append(own)
        return read(own, *given)

    monkeypatch.setattr(LayerPhoto, "read", counted)
    for place in ((3, 3), (4, 4)):
        recorded.picking.click(world(viewer, *place))
        done(recorded, qtbot)
    assert len(reads) == 1
    viewer.layers["photo"].data[0, 0] += 1
    recorded.picking.click(world(viewer, 3, 3))
    done(recorded, qtbot)
    assert len(reads) == 2
    assert "Expected the photo that was recorded" in recorded.workspace.state.text


def test_the_mouse_shows_what_counts_in_non_local_means(
    dock: AttentionDock, viewer: ViewerModel, qtbot: QtBot
) -> None:
    random = np.random.default_rng(1)
    viewer.layers["photo"].data = random.integers(40, 200, (64, 72, 3), dtype=np.uint8)
    page = dock.panel.pixel
    page.by.setCurrentIndex(page.by.findData(ALIKE))
    page.h.setValue(0.8)
    page.pick_button.click()
    qtbot.waitUntil(lambda: "Noise" in page.text.text(), timeout=60_000)
    for callback in viewer.mouse_move_callbacks:
        callback(viewer, SimpleNamespace(position=world(viewer, 10, 12)))
    (layer,) = map_layers(viewer)
    found = map_of(layer)
    assert found.total == pytest.approx(1)
    assert found.values.shape == (19, 19)
    np.testing.assert_allclose(layer.data_to_world((0, 0)), world(viewer, 1, 3))
    assert "361 weights add up to 1.000000" in page.text.text()
    page.denoise_button.click()
    done(dock, qtbot)
    made = viewer.layers["photo (denoised)"]
    assert viewer.layers.index(made) == 1  # below the map of weights
    assert made.data.shape == (64, 72, 3)
    assert made.data.dtype == np.uint8
    page.before_button.click()
    assert not made.visible
    # The denoised pixel is the mean that the map shows.
    after = page.text.text().split("after ")[1].split(" (")[0]
    np.testing.assert_allclose(made.data[10, 12], np.fromstring(after, sep=","), atol=0.51)
    page.pick_button.click()
    assert not viewer.mouse_move_callbacks


def test_a_single_head_is_shown_in_the_numbers_of_every_matrix(
    dock: AttentionDock, viewer: ViewerModel, qtbot: QtBot
) -> None:
    random = np.random.default_rng(1)
    viewer.layers["photo"].data = random.integers(40, 200, (64, 72, 3), dtype=np.uint8)
    page = dock.panel.pixel
    page.by.setCurrentIndex(page.by.findData(SINGLE))
    page.pick_button.click()
    qtbot.waitUntil(lambda: "Noise" in page.text.text(), timeout=60_000)
    dock.picking.click(world(viewer, 10, 12))
    assert "Pixels (10, 12) to (13, 15), 16 tokens" in page.text.text()
    shown = {}
    for index in range(page.numbers.steps.count()):
        page.numbers.steps.setCurrentIndex(index)
        model = page.numbers.table.model()
        name = page.numbers.steps.currentText().split(" = ")[0]
        shown[name] = (model.rowCount(), model.columnCount())
    of_pixels = {"X": (5, 16), "Q": (5, 16), "K": (5, 16), "V": (3, 16), "O": (3, 16)}
    weights = {"W_Q": (5, 5), "W_K": (5, 5), "W_V": (3, 5)}
    assert shown == {**of_pixels, **weights, "S": (16, 16), "A": (16, 16)}
    # The matrix that is chosen stays, and its reading follows the box.
    page.numbers.steps.setCurrentIndex(8)
    page.reading.setCurrentIndex(1)
    page.side.setValue(3)
    model = page.numbers.table.model()
    row = [float(model.data(model.index(2, column))) for column in range(9)]
    assert sum(row) == pytest.approx(1, abs=1e-3)
    horizontal = Qt.Orientation.Horizontal
    assert model.headerData(5, horizontal) == "11, 14"
    assert "Each of the rows adds up to 1: 1.000000" in page.numbers.about.text()
    assert viewer.layers["Window of a pixel: photo"].nshapes == 1


def test_a_head_of_a_window_is_shown_in_the_numbers_of_every_matrix(
    recorded: AttentionDock, viewer: ViewerModel, weights: str, qtbot: QtBot
) -> None:
    recorded.exploration.choose("stages.0.encoder.1", 1)
    page = recorded.panel.pixel
    page.by.setCurrentIndex(page.by.findData(WINDOW))
    page.pick_button.click()
    recorded.picking.click(world(viewer, 13, 21))
    qtbot.waitUntil(lambda: "Pixel (12, 20)" in page.text.text(), timeout=120_000)
    expected = explorer_of(viewer, weights).steps("stages.0.encoder.1", 1, 13, 21)
    titles = [page.numbers.steps.itemText(index) for index in range(page.numbers.steps.count())]
    assert [title.split(" = ")[0] for title in titles] == [step.name for step in expected.steps]
    page.numbers.steps.setCurrentIndex(page.numbers.steps.findText("A = ", MATCH_START))
    assert "Each of the columns adds up to 1: 1.000000" in page.numbers.about.text()
    model = page.numbers.table.model()
    shares = next(step for step in expected.steps if step.name == "A")
    assert model.data(model.index(2, 3)) == f"{shares.values[2, 3]:.5g}"
    assert shares.rows is not None
    row, column = shares.rows[2]
    assert model.headerData(2, Qt.Orientation.Vertical) == f"{row}, {column}"
    # The weights of the pixel lie over the photo as well, with the outline of its window.
    assert [layer.visible for layer in map_layers(viewer)] == [False, True]
    assert viewer.layers["Window of a pixel: photo"].nshapes >= 2
