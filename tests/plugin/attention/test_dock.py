"""The attention dock without a napari window: choosing, comparing, keeping, and maps."""

import gc
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Image
from napari.utils.theme import get_theme
from numpy.testing import assert_allclose, assert_array_equal
from pytestqt.qtbot import QtBot
from qtpy.QtCore import QPoint, QPointF, QRect, Qt
from qtpy.QtGui import QColor, QImage
from qtpy.QtTest import QTest
from qtpy.QtWidgets import (
    QAbstractButton,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QListWidget,
    QSlider,
    QTabBar,
    QTableView,
    QWidget,
)
from safetensors.torch import save_file
from tests.plugin.attention.conftest import (
    done,
    photo_of,
    shown_map,
)
from tests.plugin.attention.made_up import BUNDLED, make_map, make_record

from napari_mst.attention.head_steps import HeadSteps, MatrixStep
from napari_mst.attention.record import AttentionRecord
from napari_mst.attention.record_files import read_attention
from napari_mst.attention.record_views import Selection
from napari_mst.base.errors import AttentionError
from napari_mst.networks.vision_transformer import TransformerHyperparameters, VisionTransformer
from napari_mst.plugin.attention.attention_layers import map_layers, map_of
from napari_mst.plugin.attention.attention_model import (
    map_order,
    recording_order,
    steps_order,
)
from napari_mst.plugin.attention.dock import AttentionDock
from napari_mst.plugin.attention.drawings import (
    STEPS,
    STORY,
    Drawing,
    beside_equal,
    matrix_pictures,
)
from napari_mst.plugin.attention.matrix_page import Pictures
from napari_mst.plugin.attention.pixel_page import KINDS
from napari_mst.plugin.attention.pixel_probe import SIX, PixelView
from napari_mst.plugin.jobs.workspace import Recording, Request
from napari_mst.plugin.reconstruct.dock import ReconstructDock
from napari_mst.plugin.viewer.layer_photos import LayerPhoto
from napari_mst.plugin.viewer.layers import active_cube_layer
from napari_mst.plugin.viewer.widgets import HelpButton
from napari_mst.reconstruction.options import RunOptions


def recording(viewer: ViewerModel, seed: int = 0) -> Recording:
    return Recording(
        make_record(seed), "photo", BUNDLED, photo_of(viewer).reference(), RunOptions("cpu")
    )


@pytest.fixture
def full_dock(dock: AttentionDock, viewer: ViewerModel) -> AttentionDock:
    dock.workspace.keep(recording(viewer))
    return dock


def run_of(dock: AttentionDock) -> Recording:
    """The run that the dock is known to show."""
    return dock.model.chosen.recording


def test_the_photo_and_the_model_are_those_of_the_form(
    dock: AttentionDock, viewer: ViewerModel
) -> None:
    form = dock.form
    of_page = ReconstructDock(viewer).form
    before = of_page.card
    assert dock.rows.widgets["photo"].currentText() == "photo"
    form.card = "mst-plus-plus"
    assert not dock.start(recording_order, form)
    assert "Choose the weights file" in dock.text.text()
    dock.rows.widgets["weights"].setEditText("own.safetensors")
    assert recording_order(viewer, dock.model, form).model == "own.safetensors"
    form.card = "mstpp-camera"
    assert not dock.start(recording_order, form)
    assert "This photo has 8 bits" in dock.text.text()
    # The page Photo keeps what was chosen there.
    assert of_page.card == before != form.card


def test_a_dock_without_a_photo_says_what_to_do(dock: AttentionDock, viewer: ViewerModel) -> None:
    viewer.layers.clear()
    assert "Open a photo first" in dock.text.text()
    assert not dock.pixel.plot_page.isVisibleTo(dock.pixel)
    assert not dock.save_entry.isEnabled()
    assert not dock.maps.isVisibleTo(dock)
    assert dock.form_fold.button.isChecked()


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_every_head_of_every_block_can_be_clicked_and_is_shown(
    dock: AttentionDock, qtbot: QtBot, stages: int
) -> None:
    dock.workspace.keep(Recording(make_record(stages=stages), "photo"))
    schematic, plot = dock.schematic, dock.matrices.plot
    assert len(schematic.buttons) == 10 * stages
    for (block, head), button in schematic.buttons.items():
        qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
        assert button.isChecked()
        matrices = run_of(dock).record[block]
        (picture,) = plot.pictures
        shown = beside_equal(matrices.attention[head])
        assert_allclose(picture.image.image, shown, atol=1e-5)
        assert f"head {head}" in picture.title.text
    # The U-shapes of all stages fill the width.
    first = places(dock)["stages.0.encoder.0", 0]
    last = places(dock)[f"stages.{stages - 1}.decoder.1", 0]
    assert 0 <= first.left() < 20
    assert 0 <= schematic.width() - last.right() < 20
    assert first.top() == last.top() < places(dock)["stages.0.bottleneck", 0].top()


def places(dock: AttentionDock) -> dict[tuple[str, int], QRect]:
    """Where each head is on the dock, by block and number."""
    QApplication.processEvents()
    buttons = dock.schematic.buttons.items()
    return {
        head: QRect(button.mapTo(dock.schematic, QPoint()), button.size())
        for head, button in buttons
    }


def test_blocks_of_a_network_without_a_u_shape_stand_in_a_row(dock: AttentionDock) -> None:
    blocks = make_record(stages=1).blocks
    record = AttentionRecord({name.removeprefix("stages.0."): blocks[name] for name in blocks})
    dock.workspace.keep(Recording(record, "photo"))
    cells = list(places(dock).values())
    assert len({cell.top() for cell in cells}) == 1
    assert [cell.left() for cell in cells] == sorted(cell.left() for cell in cells)


def test_the_arrow_keys_reach_every_head(full_dock: AttentionDock, qtbot: QtBot) -> None:
    buttons, model = full_dock.schematic.buttons, full_dock.model
    model.choose("stages.0.encoder.0", 0)
    qtbot.waitUntil(lambda: full_dock.activateWindow() or full_dock.isActiveWindow())
    reached, waiting = set(), [("stages.0.encoder.0", 0)]
    while waiting:
        head = waiting.pop()
        reached.add(head)
        for key in (Qt.Key.Key_Right, Qt.Key.Key_Left, Qt.Key.Key_Down, Qt.Key.Key_Up):
            buttons[head].setFocus()
            model.choose(*head)
            qtbot.keyClick(buttons[head], key)
            _, block, number = model.chosen
            if (block, number) not in reached | set(waiting):
                waiting.append((block, number))
    assert reached == set(buttons)
    name = buttons["stages.0.bottleneck", 2].accessibleName()
    assert name == "stage 1, bottleneck 20, head 2 of 4"


def test_a_cell_shows_its_values_and_a_click_on_it_chooses_both_channels_or_all(
    full_dock: AttentionDock, qtbot: QtBot
) -> None:
    full_dock.model.choose("stages.0.encoder.0", 0)
    plot = full_dock.matrices.plot
    qtbot.waitExposed(full_dock)
    scene = plot.pictures[0].view.mapViewToScene(QPointF(3, 1))
    qtbot.mouseClick(plot.viewport(), Qt.MouseButton.LeftButton, pos=plot.mapFromScene(scene))
    assert full_dock.model.selection == Selection("stages.0.encoder.0", 0, key=1, query=3)
    value = run_of(full_dock).record["stages.0.encoder.0"].attention[0, 1, 3]
    assert f"A[1, 3] = {value:.4f}" in full_dock.matrices.values.text()
    assert "row sum 1.0000" in full_dock.matrices.values.text()
    plot.hovered.emit((4, 2))
    value = run_of(full_dock).record["stages.0.encoder.0"].attention[0, 4, 2]
    assert f"A[4, 2] = {value:.4f}" in full_dock.matrices.values.text()
    plot.clicked.emit(1, 3)
    assert full_dock.model.selection == Selection("stages.0.encoder.0")
    assert "all channels" in full_dock.matrices.values.text()


def test_a_kept_head_is_compared_with_one_of_another_run_in_a_narrow_dock(
    full_dock: AttentionDock, viewer: ViewerModel, qtbot: QtBot
) -> None:
    model, matrices, plot = full_dock.model, full_dock.matrices, full_dock.matrices.plot
    kept = run_of(full_dock).record["stages.0.encoder.1"].attention[1]
    model.choose("stages.0.encoder.1", 1)
    matrices.compare_button.click()
    full_dock.workspace.keep(recording(viewer, seed=1))
    model.choose("stages.2.bottleneck", 2)
    chosen, compared = (picture.image for picture in plot.pictures)
    assert_allclose(compared.image, beside_equal(kept), atol=1e-5)
    shown = full_dock.workspace.recordings[1].record["stages.2.bottleneck"].attention[2]
    assert_allclose(chosen.image, beside_equal(shown), atol=1e-5)
    assert chosen.levels[1] == compared.levels[1]
    # A double click shows a picture alone, and all again.
    title = plot.pictures[1].drawn.title
    plot.enlarge(1)
    assert [picture.drawn.title for picture in plot.pictures] == [title]
    plot.enlarge(None)
    model.choose("stages.0.encoder.1", 1)
    full_dock.resize(350, 800)
    full_dock.tabs.setCurrentWidget(matrices)
    qtbot.waitUntil(lambda: plot.ci.boundingRect().width() <= plot.viewport().width() + 1)
    assert full_dock.width() == 350 >= full_dock.minimumSizeHint().width()
    first, second = (picture.view.sceneBoundingRect().width() for picture in plot.pictures)
    assert first == pytest.approx(second, abs=2)
    matrices.compare_button.click()
    assert len(plot.pictures) == 1


def test_matrices_and_maps_are_saved_and_opened_again(
    full_dock: AttentionDock, viewer: ViewerModel, tmp_path: Path
) -> None:
    shown_map(viewer, make_map("score", 2))
    full_dock.save(str(tmp_path / "a.npz"))
    assert len(read_attention(tmp_path / "a.npz")) == 15
    with np.load(tmp_path / "a.npz") as archive:
        assert_array_equal(archive["maps/0"], make_map("score", 2).values)
    full_dock.open(str(tmp_path / "a.npz"))
    assert run_of(full_dock).name == "a.npz: photo"
    assert not full_dock.start(map_order, "score")
    assert "no longer in the viewer" in full_dock.text.text()
    full_dock.tabs.setCurrentIndex(1)
    assert "no longer in the viewer" not in full_dock.text.text()


def test_a_recorded_photo_is_mapped_and_taken_apart_step_by_step(
    dock: AttentionDock, viewer: ViewerModel, qtbot: QtBot
) -> None:
    for _ in range(2):
        dock.form_fold.button.setChecked(True)
        dock.record_button.click()
        done(dock, qtbot)
        # The pictures get the room of the form.
        assert not dock.form_fold.button.isChecked()
    assert len(run_of(dock).record) == 5
    dock.model.choose("stages.0.encoder.1", 1)
    dock.model.choose_channels(3, 5)
    assert dock.maps.item(0).text() == "Effect of attention"
    blank = dock.maps.rows["score"].icon().cacheKey()
    dock.maps.itemClicked.emit(dock.maps.rows["score"])
    done(dock, qtbot)
    (layer,) = map_layers(viewer)
    assert isinstance(layer, Image)
    assert layer.data.shape == (10, 15)
    assert dock.maps.rows["score"].icon().cacheKey() != blank
    logit = run_of(dock).record["stages.0.encoder.1"].logits[1, 3, 5]
    assert map_of(layer).total == pytest.approx(logit, abs=1e-5)
    qtbot.mouseClick(dock.effects_button, Qt.MouseButton.LeftButton)
    done(dock, qtbot)
    share = dock.schematic.shares["stages.0.encoder.1"][1]
    tip = dock.schematic.buttons["stages.0.encoder.1", 1].toolTip()
    assert f"equal weights change {share:.0%}" in tip
    assert dock.schematic.bars.text().startswith("Bars: how much the cube changes")
    assert dock.start(map_order, "head-effect")
    done(dock, qtbot)
    assert map_layers(viewer)[1].data.shape == (20, 30)
    assert "stage 1, encoder 62, head 1" in dock.text.text()
    dock.layers.setCurrentText("stages.0.down.0")
    dock.layers.textActivated.emit("stages.0.down.0")
    done(dock, qtbot)
    layer = viewer.layers["Features of stages.0.down.0: photo"]
    assert layer.data.shape == (62, 10, 15)
    assert_allclose(layer.data_to_world((0, 2, 3))[1:], map_layers(viewer)[0].data_to_world((2, 3)))
    assert dock.start(steps_order)
    done(dock, qtbot)
    weights = run_of(dock).record["stages.0.encoder.1"].attention[1]
    told = [picture.title.text for picture in dock.steps.pictures]
    assert [text.partition("</b>")[0] for text in told] == [
        f"<b>{number}. {title}" for number, title in enumerate(STORY, 1)
    ]
    row = weights[dock.model.key]
    assert f"channel {row.argmax()}: {row.max():.1%}" in told[3].replace("<br>", " ")
    # The last picture is what the head does beyond the mean of its values.
    mixed, changed = (dock.steps.pictures[number].image.image for number in (4, 5))
    steps = dock.model.steps
    assert steps is not None
    assert_allclose(mixed - changed, steps.values.mean(axis=0), atol=1e-5)
    dock.formulas_button.setChecked(True)
    titles = [picture.title for picture in dock.steps.pictures]
    shown = dock.steps.pictures[list(STEPS).index("A")].image.image
    assert_allclose(shown, beside_equal(weights), atol=1e-5)
    assert "62 x 12 x 16" in titles[0].text
    dock.model.choose_channels(7, 9)
    assert "i = 7" in titles[1].text
    assert "W<sub>" not in titles[1].text
    assert "W<sub>K</sub> X" in titles[1].toolTip()
    viewer.layers["photo"].data = np.zeros((20, 30, 3), np.uint8)
    assert dock.start(map_order, "score")
    done(dock, qtbot)
    assert "changed since" in dock.text.text()


def test_a_network_that_makes_no_bands_is_refused_in_a_sentence(
    dock: AttentionDock, qtbot: QtBot, tmp_path: Path
) -> None:
    path = str(tmp_path / "vit.safetensors")
    save_file(VisionTransformer(TransformerHyperparameters(outputs=10)).state_dict(), path)
    dock.form.card, dock.form.weights = "mst-plus-plus", path
    assert dock.start(recording_order, dock.form)
    done(dock, qtbot)
    assert "needs a model that makes a spectrum of every pixel" in dock.text.text()


def test_recorded_attention_outlives_its_photo_but_not_a_clear_of_everything(
    dock: AttentionDock, viewer: ViewerModel, qtbot: QtBot
) -> None:
    photo = photo_of(viewer)
    assert dock.workspace.run(Request(photo, BUNDLED, RunOptions("cpu")))
    done(dock, qtbot)
    assert active_cube_layer(viewer) is not None
    assert len(run_of(dock).record) == 5
    del photo
    viewer.layers.remove("photo")
    assert len(run_of(dock).record) == 5
    assert not dock.start(map_order, "score")
    run = run_of(dock)
    record = weakref.ref(run.record)
    dock.workspace.keep(Recording(make_record(1), "opened.npz"))
    dock.model.choose_run(run)
    del run
    viewer.layers.clear()
    gc.collect()
    assert record() is None
    # What was opened from a file has no photo to go with.
    assert [each.name for each in dock.workspace.recordings] == ["opened.npz"]
    assert dock.model.head is None
    assert not dock.matrices.isVisibleTo(dock)


def test_a_region_and_its_pass_are_listed_and_mapped_where_they_lie(
    dock: AttentionDock, viewer: ViewerModel, qtbot: QtBot
) -> None:
    photo = viewer.layers["photo"]
    part = replace(LayerPhoto.of(photo, viewer.dims.point), region=(4, 16, 6, 26))
    assert dock.workspace.run(Request(part, BUNDLED, RunOptions("cpu", ensemble=True)))
    done(dock, qtbot)
    assert "photo [4:16, 6:26], unflipped of 8" in dock.runs.currentText()
    dock.model.choose("stages.0.encoder.0", 0)
    assert dock.start(map_order, "score")
    done(dock, qtbot)
    (layer,) = map_layers(viewer)
    assert layer.name == "Score contribution: photo [4:16, 6:26]"
    assert layer.data.shape == (12, 20)
    assert_allclose(layer.data_to_world((0, 0)), photo.data_to_world((4, 6)), atol=1e-9)
    assert_allclose(layer.data_to_world((11, 19)), photo.data_to_world((15, 25)), atol=1e-9)


def test_every_map_shows_its_colours_until_it_is_made(dock: AttentionDock) -> None:
    pictures = {name: item.icon().pixmap(32).toImage() for name, item in dock.maps.rows.items()}
    middle = {name: QColor(picture.pixel(16, 16)) for name, picture in pictures.items()}
    for name, picture in pictures.items():
        assert picture.pixel(1, 16) != picture.pixel(30, 16), name
    # The middle of a signed map is clear, so that the photo shows through.
    assert middle["score"] != middle["attention"]


def test_the_dock_opens_on_the_head_whose_weights_are_least_even(dock: AttentionDock) -> None:
    record = make_record(stages=1)
    block = record.blocks["stages.0.decoder.0"]
    block.attention[1] = np.eye(block.attention.shape[-1])
    dock.workspace.keep(Recording(record, "photo"))
    assert dock.model.chosen[1:] == ("stages.0.decoder.0", 1)


def test_equal_weights_have_one_colour_in_every_matrix(full_dock: AttentionDock) -> None:
    head = full_dock.model.chosen
    (drawn,) = matrix_pictures([head], None, None)
    octaves = np.log2(head.weights * head.channels)
    assert_allclose(drawn.values, np.clip(octaves, -2, 2))
    # Whatever is in a matrix, zero is in the middle of the colours.
    assert drawn.limits == (-2.0, 2.0)
    assert np.abs(beside_equal(np.full((5, 5), 0.2))).max() < 1e-6


@pytest.mark.parametrize("is_matrix", [False, True])
def test_a_click_enlarges_a_picture_and_chooses_a_cell_of_a_matrix(
    qtbot: QtBot, is_matrix: bool
) -> None:
    plot = Pictures("two", 100)
    qtbot.addWidget(plot)
    look: dict[str, Any] = {"limits": (-1.0, 1.0), "is_matrix": is_matrix}
    plot.draw([Drawing(f"{number}", np.zeros((6, 6)), **look) for number in range(2)])
    plot.resize(440, 300)
    plot.show()
    qtbot.waitUntil(lambda: plot.pictures[1].view.width() > 100)
    cells: list[tuple[int, int]] = []
    plot.clicked.connect(lambda *cell: cells.append(cell))

    def click() -> None:
        (*_, picture) = plot.pictures
        centre = picture.view.sceneBoundingRect().center().toPoint()
        qtbot.mouseClick(plot.viewport(), Qt.MouseButton.LeftButton, pos=centre)

    click()
    assert [one.drawn.title for one in plot.pictures] == (["0", "1"] if is_matrix else ["1"])
    assert bool(cells) == is_matrix
    if not is_matrix:
        click()
        assert len(plot.pictures) == 2


@pytest.mark.parametrize(("width", "rows", "points"), [(440, 3, "8pt"), (1366, 2, "12pt")])
def test_a_lecture_has_three_large_pictures_in_a_row(
    qtbot: QtBot, width: int, rows: int, points: str
) -> None:
    plot = Pictures("six", 100)
    qtbot.addWidget(plot)
    look: dict[str, Any] = {
        "values": np.zeros((4, 6)),
        "limits": (-1.0, 1.0),
        "text": "Two short words. " * 12,
    }
    plot.draw([Drawing(f"{number}", **look) for number in range(6)])
    plot.resize(width, 600)
    plot.show()
    qtbot.waitUntil(
        lambda: len({round(one.view.sceneBoundingRect().top()) for one in plot.pictures}) == rows
    )
    assert {one.title.opts["size"] for one in plot.pictures} == {points}
    assert [one.drawn.title for one in plot.pictures] == list("012345")
    columns = width / (6 // rows)
    qtbot.waitUntil(
        lambda: all(0.9 < one.view.width() / columns < 1 for one in plot.pictures), timeout=5000
    )
    # Texts use the width of their pictures, and stay within it.
    lines = [line for one in plot.pictures for line in one.title.text.split("<br>")]
    letter = plot.fontMetrics().horizontalAdvance("x" * 100) / 100
    widest = max(map(len, lines)) * letter * int(points[:-2]) / plot.font().pointSizeF()
    assert 0.6 < widest / columns < 1


def test_a_page_fills_the_screen_and_comes_back(full_dock: AttentionDock) -> None:
    QTest.mouseClick(full_dock.full_button, Qt.MouseButton.LeftButton)
    whole = full_dock.page.window()
    assert whole is not full_dock.window()
    assert whole.isFullScreen()
    assert whole.size() == full_dock.screen().size()
    whole.reject()
    assert full_dock.page.window() is full_dock.window()
    assert full_dock.page.isVisibleTo(full_dock)


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_the_pictures_of_a_page_are_saved_as_a_figure_on_white(
    full_dock: AttentionDock, viewer: ViewerModel, tmp_path: Path, theme: str
) -> None:
    viewer.theme = theme
    full_dock.tabs.setCurrentWidget(full_dock.matrices)
    changed = list[object]()
    light = get_theme("light").events  # a change there sets the theme of every viewer anew
    light.background.connect(changed.append)
    full_dock.save_figure(str(tmp_path / "matrix.png"))
    light.background.disconnect(changed.append)
    figure = QImage(str(tmp_path / "matrix.png"))
    assert figure.width() >= full_dock.matrices.plot.width()
    assert figure.pixelColor(0, 0).name() == "#ffffff"
    assert not changed
    full_dock.tabs.setCurrentIndex(0)
    with pytest.raises(AttentionError, match="no pictures"):
        full_dock.save_figure(str(tmp_path / "maps.png"))


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_all_plots_take_on_the_theme(
    full_dock: AttentionDock, viewer: ViewerModel, theme: str
) -> None:
    viewer.theme = theme
    for plot in (full_dock.matrices.plot, full_dock.steps, full_dock.pixel.plot):
        assert (plot.backgroundBrush().color().lightness() < 128) == (theme == "dark")


def test_a_map_and_steps_that_finish_while_the_dock_is_hidden_are_not_lost(
    dock: AttentionDock, viewer: ViewerModel, qtbot: QtBot
) -> None:
    assert dock.start(recording_order, dock.form)
    done(dock, qtbot)
    assert dock.start(map_order, "attention")
    dock.hide()
    done(dock, qtbot)
    assert len(map_layers(viewer)) == 1
    dock.show()
    assert dock.start(steps_order)
    dock.hide()
    done(dock, qtbot)
    dock.show()
    assert len(dock.steps.pictures) == len(STORY)


def test_no_page_scrolls_as_a_whole_on_a_laptop(full_dock: AttentionDock) -> None:
    full_dock.resize(440, 694)  # the room of a dock on 1366 x 768 pixels
    for page in range(full_dock.tabs.count()):
        full_dock.tabs.setCurrentIndex(page)
        QApplication.processEvents()
        assert full_dock.page.verticalScrollBar().maximum() == 0, full_dock.tabs.tabText(page)


@pytest.mark.parametrize("is_unfolded", [False, True])
def test_no_page_has_more_than_ten_controls_beside_the_heads(
    full_dock: AttentionDock, is_unfolded: bool
) -> None:
    full_dock.form_fold.button.setChecked(is_unfolded)
    pixel, pages = full_dock.pixel, [full_dock.tabs.widget(index) for index in range(4)]
    buttons = QAbstractButton, QComboBox, QAbstractSpinBox, QSlider, QListWidget
    within = QComboBox, QAbstractSpinBox, QTabBar, QListWidget, QTableView
    step = MatrixStep("A", "softmax(S)", np.eye(2), "")
    for page in (*pages, *KINDS):
        full_dock.tabs.setCurrentWidget(pixel if isinstance(page, str) else page)
        if isinstance(page, str):  # with all numbers of a head
            pixel.by.setCurrentIndex(pixel.by.findData(page))
            pixel.show_view(PixelView(steps=None if page == SIX else HeadSteps((step,))))
        parts = (part for kind in buttons for part in full_dock.findChildren(kind))
        controls = [
            part
            for part in filter(QWidget.isVisible, parts)
            if not full_dock.schematic.isAncestorOf(part) and not isinstance(part.parent(), within)
            if not isinstance(part, HelpButton)
        ]
        assert 4 < len(controls) <= 10, page
    assert full_dock.runs.isHidden() == is_unfolded
    full_dock.tabs.setCurrentIndex(0)  # which ends what What if computes
