"""The page "Pixel": what a clicked pixel attends to."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from napari.components import ViewerModel
from napari.layers import Shapes
from numpy.testing import assert_allclose, assert_array_equal
from pytestqt.qtbot import QtBot
from qtpy.QtCore import QPointF, Qt
from safetensors.torch import save_file
from tests.plugin.attention.conftest import done, photo_of

from napari_mst.attention.pixels import PixelExplorer
from napari_mst.attention.six_attentions import side_by_side
from napari_mst.denoising.photo_denoising import denoised_photo, denoising_to_look_at
from napari_mst.models import load_model
from napari_mst.networks.mst_plus_plus import MSTPlusPlus
from napari_mst.photo.photo import Photo
from napari_mst.plugin.attention.attention_layers import map_layers, map_of
from napari_mst.plugin.attention.dock import AttentionDock
from napari_mst.plugin.attention.pixel_probe import SINGLE, SIX
from napari_mst.plugin.jobs.workspace import Recording
from napari_mst.plugin.viewer.layer_photos import LayerPhoto, photo_layers
from napari_mst.reconstruction.options import RunOptions
from napari_mst.reconstruction.reconstructor import Reconstructor


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
    record = explorer_of(viewer, weights).record()
    reference = photo_of(viewer).reference()
    dock.workspace.keep(Recording(record, "photo", weights, reference, RunOptions("cpu")))
    return dock


def explorer_of(viewer: ViewerModel, weights: str) -> PixelExplorer:
    return PixelExplorer(Reconstructor(load_model(weights), "cpu"), photo_of(viewer).read())


def world(viewer: ViewerModel, row: float, column: float) -> tuple[float, ...]:
    return tuple(viewer.layers["photo"].data_to_world((row, column)))


def test_a_click_shows_the_weights_of_the_pixel_in_a_layer_for_each_head(
    recorded: AttentionDock, viewer: ViewerModel, weights: str, qtbot: QtBot
) -> None:
    recorded.model.choose("stages.0.encoder.1", 1)
    recorded.pixel.pick_button.click()
    recorded.probe.click(world(viewer, 13, 21))
    # A click during a job waits for it, and the last one counts.
    recorded.probe.click(world(viewer, 2, 3))
    recorded.probe.click(world(viewer, 0.2, 28.9))
    qtbot.waitUntil(lambda: "Pixel (0, 28)" in recorded.pixel.text.text(), timeout=120_000)
    of_pixels = explorer_of(viewer, weights)
    expected = of_pixels.weights("stages.0.encoder.1", 0, 29)
    layers = map_layers(viewer)
    assert [layer.visible for layer in layers] == [False, True]
    images, (row, column) = expected.planes()
    for layer, image in zip(layers, images, strict=True):
        assert_allclose(layer.data, image, atol=1e-6)
        assert map_of(layer).total == pytest.approx(1)
        # The first value is centred between the 2 x 2 pixels that it stands for.
        first = layer.data_to_world((0, 0))
        assert_allclose(first, world(viewer, row + 0.5, column + 0.5))
    assert "head 1 of 2" in recorded.pixel.text.text()
    assert recorded.pixel.about.text().startswith("stage 1, encoder 62, head 1 of 2: windows")
    # In the corner, the mask leaves a part of the window; the rest comes from other borders.
    outlines = viewer.layers["Window of a pixel: photo"]
    assert isinstance(outlines, Shapes)
    assert outlines.nshapes == len(np.unique(expected.regions)) + 1
    corners = np.concatenate(outlines.data)
    assert (corners % 1 == 0.5).all(), "along the borders of pixels"
    assert corners[:, 0].min() == -0.5, "with the first row"
    assert photo_layers(viewer) == [viewer.layers["photo"]]
    # The dock shows the window enlarged: the pixels of the photo, and the weights of the head.
    page = recorded.pixel.plot_page
    assert page.isVisibleTo(recorded.pixel)
    shown_photo, shown_weights = recorded.pixel.plot.pictures
    assert_allclose(shown_weights.image.image, images[1], atol=1e-6)
    rows, columns = (
        first + np.arange(2 * side)
        for first, side in zip((row, column), images[1].shape, strict=True)
    )
    seen = viewer.layers["photo"].data[rows.clip(0, 19)][:, columns.clip(0, 29)]
    assert_array_equal(shown_photo.image.image, seen)
    left, top = expected.query[1] - column, expected.query[0] - row
    assert shown_photo.frame.rect().topLeft() == QPointF(left - 0.5, top - 0.5)
    assert shown_weights.frame.rect().topLeft() == QPointF(left // 2 - 0.5, top // 2 - 0.5)
    # The numbers are those of the chosen head.
    numbers, steps = recorded.pixel.numbers, of_pixels.steps("stages.0.encoder.1", 1, 0, 29).steps
    titles = [numbers.steps.itemText(index) for index in range(numbers.steps.count())]
    assert [title.split(" = ")[0] for title in titles] == [step.name for step in steps]
    (at,) = [index for index, step in enumerate(steps) if step.name == "A"]
    numbers.steps.setCurrentIndex(at)
    model, shares = numbers.table.model(), steps[at]
    assert model.data(model.index(2, 3)) == f"{shares.values[2, 3]:.5g}"
    # Another head answers for the same pixel, and nothing of the first one stays.
    recorded.model.choose("stages.0.encoder.1", 0)
    assert recorded.pixel.text.text() == ""
    qtbot.waitUntil(lambda: "head 0 of 2" in recorded.pixel.text.text(), timeout=120_000)
    assert shares.rows is not None
    row, column = shares.rows[2]
    assert model.headerData(2, Qt.Orientation.Vertical) == f"{row}, {column}"
    # What was found goes with its kind.
    recorded.pixel.by.setCurrentIndex(recorded.pixel.by.findData(SINGLE))
    assert not page.isVisibleTo(recorded.pixel)
    assert recorded.pixel.text.text() == ""
    assert not any(layer.visible for layer in layers)


def test_a_run_between_pixels_says_where_to_look_and_when_a_click_is_beside_the_photo(
    recorded: AttentionDock, viewer: ViewerModel
) -> None:
    page = recorded.matrices
    assert page.plot.isHidden()
    assert "windows of 4 x 4" in page.uniformity.text()
    assert not recorded.steps_button.isEnabled()
    assert recorded.schematic.record.shapes["stages.0.bottleneck"] == (124, 4)
    recorded.probe.click(world(viewer, -1, 3))
    assert "not on the photo" in recorded.pixel.text.text()
    assert not recorded.workspace.is_busy


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
        recorded.probe.click(world(viewer, *place))
        done(recorded, qtbot)
    assert len(reads) == 1
    viewer.layers["photo"].data[0, 0] += 1
    recorded.probe.click(world(viewer, 3, 3))
    done(recorded, qtbot)
    assert len(reads) == 2
    assert "needs the photo that was recorded" in recorded.workspace.state.text


def page_on_noise(dock: AttentionDock, viewer: ViewerModel, kind: str) -> Any:
    """The page "Pixel" with a *kind* of attention, and a photo of noise."""
    random = np.random.default_rng(1)
    viewer.layers["photo"].data = random.integers(40, 200, (64, 72, 3), dtype=np.uint8)
    dock.pixel.by.setCurrentIndex(dock.pixel.by.findData(kind))
    return dock.pixel


def test_the_photo_is_denoised_as_a_layer_right_above_it(
    dock: AttentionDock, viewer: ViewerModel, qtbot: QtBot
) -> None:
    page = page_on_noise(dock, viewer, SIX)
    page.h.setValue(30)
    qtbot.waitUntil(lambda: "h is 30 codes" in page.text.text(), timeout=60_000)
    page.denoise_button.click()
    done(dock, qtbot)
    made = viewer.layers["photo (denoised)"]
    assert viewer.layers.index(made) == 1  # and nothing hides it
    assert viewer.layers.selection.active is made
    assert [other.visible for other in viewer.layers] == [True, True]
    photo = photo_of(viewer).read()
    expected = denoised_photo(photo, denoising_to_look_at(photo, 30.0))
    assert_array_equal(made.data, np.moveaxis(expected.pixels, 0, -1))


def test_a_dock_without_a_run_begins_with_six_attentions_of_a_pixel_on_screen(
    dock: AttentionDock, viewer: ViewerModel, qtbot: QtBot
) -> None:
    page, (photo,) = dock.pixel, viewer.layers
    random = np.random.default_rng(1)
    viewer.layers.clear()
    photo.data = random.integers(40, 200, (64, 72, 3), dtype=np.uint8)
    viewer.add_layer(photo)
    qtbot.waitUntil(lambda: "Pixel (32, 3" in page.text.text(), timeout=60_000)
    assert page.plot_page.isVisibleTo(page)
    assert dock.text.text() == ""
    titles = [picture.title for picture in page.plot.pictures]
    are_answers = ["keys count" in title.text for title in titles]
    assert are_answers == [True] * 7 + [False] * 2
    assert "softmax" not in titles[0].text
    assert "softmax" in titles[0].toolTip()
    # Another one is looked at where the screen shows it.
    viewer.layers.clear()
    assert not page.plot_page.isVisibleTo(page)
    viewer.add_layer(photo)
    getattr(viewer, "scene", viewer).camera.center = photo.data_to_world((20, 30))
    qtbot.waitUntil(lambda: "Pixel (20, 30) is" in page.text.text(), timeout=60_000)


def test_a_clicked_pixel_is_shown_in_six_ways_and_stays_for_the_numbers_of_a_single_head(
    dock: AttentionDock, viewer: ViewerModel, qtbot: QtBot
) -> None:
    page, before = page_on_noise(dock, viewer, SIX), list(viewer.mouse_drag_callbacks)
    page.pick_button.click()
    assert len(viewer.mouse_drag_callbacks) == len(before) + 1
    # A click before the noise is known waits for it.
    dock.probe.click(world(viewer, 10, 12))
    qtbot.waitUntil(lambda: "Pixel (10, 12)" in page.text.text(), timeout=60_000)
    six = side_by_side(viewer.layers["photo"].data, 10, 12)
    for picture, drawn in zip(page.plot.pictures, six.pictures, strict=True):
        assert picture.image.image.shape == drawn.image.shape
    assert "<b>single head, 16 x 16</b>" in page.plot.pictures[0].title.text
    assert page.plot.pictures[2].frame.rect().topLeft() == QPointF(11.5, 9.5)
    dock.probe.click(world(viewer, -5, 12))
    assert "not on the photo" in page.text.text()
    assert not page.plot_page.isVisibleTo(page)
    dock.probe.click(world(viewer, 10, 12))
    page.by.setCurrentIndex(page.by.findData(SINGLE))
    sentence = "Pixels (10, 12) to (13, 15), 16 tokens"
    qtbot.waitUntil(lambda: sentence in page.text.text(), timeout=60_000)
    shown = {}
    for index in range(page.numbers.steps.count()):
        page.numbers.steps.setCurrentIndex(index)
        model = page.numbers.table.model()
        name = page.numbers.steps.currentText().split(" = ")[0]
        shown[name] = (model.rowCount(), model.columnCount())
    of_pixels = {"X": (5, 16), "Q": (5, 16), "K": (5, 16), "V": (3, 16), "O": (3, 16)}
    weights = {"W_Q": (5, 5), "W_K": (5, 5), "W_V": (3, 5)}
    assert shown == {**of_pixels, **weights, "S": (16, 16), "A": (16, 16)}
    # The matrix that is chosen stays from click to click.
    page.numbers.steps.setCurrentIndex(8)
    dock.probe.click(world(viewer, 20, 22))
    model = page.numbers.table.model()
    column = [float(model.data(model.index(row, 2))) for row in range(16)]
    assert sum(column) == pytest.approx(1, abs=1e-3)
    assert model.headerData(5, Qt.Orientation.Horizontal) == "21, 23"
    assert "Each of the columns adds up to 1: 1.000000" in page.numbers.about.text()
    assert viewer.layers["Window of a pixel: photo"].nshapes == 1
    page.pick_button.click()
    assert viewer.mouse_drag_callbacks == before
