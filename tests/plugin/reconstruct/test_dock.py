"""The reconstruction dock without a napari window; the job waits at the test's gate."""

import gc
import re
import threading
import weakref
from dataclasses import replace

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Image
from numpy.testing import assert_allclose, assert_array_equal
from pytestqt.qtbot import QtBot
from qtpy.QtCore import QPoint, QPointF, Qt
from qtpy.QtGui import QWheelEvent
from qtpy.QtWidgets import QApplication
from tests.plugin.conftest import Desk, make_cube
from tests.plugin.in_viewer import cube_in, picks_in

from napari_mst.base.errors import NapariMstError, PhotoError
from napari_mst.calibration.white_patch import OFF_DAYLIGHT
from napari_mst.cube import Provenance
from napari_mst.engine import device
from napari_mst.engine.device import DeviceChoice
from napari_mst.engine.fast_paths import native
from napari_mst.models.cards import IN_MEMORY
from napari_mst.plugin.jobs.workspace import Request, SideJob
from napari_mst.plugin.reconstruct import dock as reconstruct_dock_module
from napari_mst.plugin.reconstruct.dock import (
    ReconstructDock,
    list_devices,
    remembered,
    survey_of,
)
from napari_mst.plugin.reconstruct.form import Finding
from napari_mst.plugin.reconstruct.requests import resolve
from napari_mst.plugin.viewer import picks
from napari_mst.plugin.viewer.layer_photos import LayerPhoto


def test_run_adds_a_cube_layer_named_after_the_photo_at_its_place(desk: Desk) -> None:
    desk.photo.scale, desk.photo.translate = (2, 3), (5, 6)
    save = desk.dock.save_button
    assert (save.isEnabled(), "no cube yet" in save.toolTip()) == (False, True)
    desk.job.gate.set()
    desk.dock.run_button.click()
    desk.waits_for(layers=2)
    layer = desk.viewer.layers["photo (fake)"]
    assert layer.data.shape == (31, 20, 30)
    assert (tuple(layer.scale), tuple(layer.translate)) == ((10, 2, 3), (400, 5, 6))
    assert desk.viewer.dims.point[0] == 550
    assert cube_in(layer).provenance.model == "fake"
    assert re.fullmatch(r"Done in [\d.]+ s\.", desk.text)
    assert desk.dock.details.text() == "Computed on cpu (no GPU was found)."
    assert (save.isEnabled(), "no cube yet" in save.toolTip()) == (True, False)


def test_the_devices_are_listed_once_and_a_dock_that_goes_meanwhile_does_no_harm(
    viewer: ViewerModel, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()
    calls: list[bool] = []

    def list_devices() -> list[DeviceChoice]:
        calls.append(gate.wait(30))
        return [DeviceChoice("cpu", "slow")]

    survey = survey_of(list_devices)
    monkeypatch.setattr(reconstruct_dock_module, "survey", lambda: survey)
    docks = [ReconstructDock(viewer) for _ in range(2)]
    for dock in docks:
        dock.show()
    docks[0].hide()
    gone = weakref.ref(docks.pop(0))
    qtbot.waitUntil(lambda: not gc.collect() and gone() is None, timeout=60_000)
    gate.set()
    qtbot.waitUntil(lambda: docks[0].form.is_ready)
    assert calls == [True]
    assert "cpu: slow" in docks[0].text.text()
    qtbot.addWidget(docks[0])


def test_a_torch_that_is_broken_is_told_and_the_dock_still_runs_on_the_automatic_device(
    viewer: ViewerModel, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    def list_devices() -> list[DeviceChoice]:
        raise ImportError("libcuda is broken")

    monkeypatch.setattr(reconstruct_dock_module, "survey", lambda: survey_of(list_devices))
    dock = ReconstructDock(viewer)
    qtbot.addWidget(dock)
    dock.show()
    qtbot.waitUntil(lambda: dock.form.is_ready)
    assert "could not be listed: libcuda is broken" in dock.text.text()
    assert dock.run_button.isEnabled()
    (entry,) = dock.form.devices
    assert entry.name == "auto"
    request = resolve(dock.form, viewer)
    assert request.options.device == "auto"


def test_a_model_that_a_script_makes_is_listed_and_needs_no_file(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = desk.dock.form
    mine = replace(next(iter(form.cards.values())), name="mine", file=IN_MEMORY)
    monkeypatch.setattr(form, "cards", {**form.cards, "mine": mine})
    form.card = "mine"
    box = desk.dock.rows.widgets["card"]
    names = ["Weights file ..." if name == "mst-plus-plus" else name for name in form.cards]
    assert [box.itemText(index) for index in range(box.count())] == names
    assert box.currentText() == "mine"
    assert resolve(form, desk.viewer).model == "mine"


def test_what_another_dock_does_and_what_is_over_is_not_told(desk: Desk) -> None:
    def fail(*_: object) -> None:
        raise NapariMstError("The map went wrong.")

    workspace = desk.dock.workspace
    workspace.run(Request(LayerPhoto.of(desk.photo, (0, 0)), "fake", job=SideJob(fail)))
    desk.finish()
    assert "went wrong" in workspace.state.text
    assert desk.text == "Ready for cpu: no GPU was found."
    desk.run()
    assert desk.text.startswith("Done in ")
    # How a run ended is said of its photo alone.
    desk.viewer.add_image(desk.photo.data, rgb=True, name="other")
    desk.photo.name = "renamed"
    assert desk.text.startswith("Ready for cpu")
    desk.viewer.layers.clear()
    assert "Open a photo first" in desk.text
    assert desk.dock.more.isHidden()
    assert not desk.dock.run_button.isEnabled()


def test_the_names_of_photos_are_read_whole(desk: Desk) -> None:
    desk.photo.name = "a name that goes on and on, so that two that differ late are told apart"
    box = desk.widgets["photo"]
    box.showPopup()
    width = box.view().fontMetrics().horizontalAdvance(desk.names[0])
    assert box.view().width() >= width
    box.hidePopup()


def test_text_is_as_high_as_its_lines(desk: Desk) -> None:
    text = desk.dock.text
    text.setText("a word " * 40)
    for width in (500, 220):
        desk.dock.resize(width, 400)
        assert text.minimumHeight() >= text.heightForWidth(text.width()) > 0
    high = text.minimumHeight()
    text.setText("a word")
    assert text.minimumHeight() < high / 3


def enabled(dock: ReconstructDock) -> tuple[bool, bool]:
    """Whether "Run" and "Cancel" can be pressed."""
    return dock.run_button.isEnabled(), dock.bar.cancel_button.isVisible()


def test_the_wheel_scrolls_the_page_and_changes_no_choice_that_was_not_clicked(desk: Desk) -> None:
    box = desk.widgets["card"]
    window = box.window()
    for is_clicked, card in ((False, "bundled"), (True, "mst-plus-plus")):
        if is_clicked:
            desk.qtbot.waitUntil(lambda: window.activateWindow() or window.isActiveWindow())
            box.setFocus()
        turn = QWheelEvent(
            QPointF(5, 5),
            QPointF(box.mapToGlobal(QPoint(5, 5))),
            QPoint(0, -120),
            QPoint(0, -120),
            Qt.MouseButton.NoButton,
            Qt.KeyboardModifier.NoModifier,
            Qt.ScrollPhase.NoScrollPhase,
            False,
        )
        QApplication.sendEvent(box, turn)
        assert desk.form.card == card


def test_a_running_job_shows_its_progress_and_can_only_be_cancelled(desk: Desk) -> None:
    desk.dock.run()
    desk.dock.hide()
    desk.qtbot.waitUntil(lambda: desk.dock.workspace.state.fraction == 0.25)
    desk.dock.show()
    assert desk.dock.bar.progress.value() == 250
    assert " s left" in desk.dock.bar.progress.format()
    assert enabled(desk.dock) == (False, True)
    desk.dock.bar.cancel_button.click()
    desk.qtbot.waitUntil(lambda: desk.text == "Cancelled.")
    assert enabled(desk.dock) == (True, False)


def test_photos_are_the_image_layers_that_are_no_cubes(desk: Desk) -> None:
    box = desk.widgets["photo"]

    def names() -> list[str]:
        return [box.itemText(index) for index in range(box.count())]

    desk.viewer.add_image(np.zeros((5, 5)), name="grey")
    desk.viewer.add_points(np.zeros((1, 2)))
    assert (names(), box.currentText()) == (["grey", "photo"], "photo")
    desk.photo.name = "renamed"
    assert names() == ["grey", "renamed"]


def test_the_photo_that_the_user_selects_is_the_next_one_unless_something_was_found_in_the_last(
    desk: Desk,
) -> None:
    box, layers = desk.widgets["photo"], desk.viewer.layers
    other = desk.viewer.add_image(desk.photo.data, rgb=True, name="other")
    assert desk.form.layer is other
    box.setCurrentText("photo")
    layers.events.renamed()  # no selection
    assert desk.form.layer is desk.photo
    layers.selection.active = desk.photo
    layers.selection.active = other
    assert (desk.form.layer, box.currentText()) == (other, "other")
    desk.dock.hide()
    third = desk.viewer.add_image(desk.photo.data, rgb=True, name="third")
    desk.dock.show()
    assert (desk.form.layer, box.currentText()) == (third, "third")
    layers.selection.active = other
    desk.form.corners = ((0, 0), (0, 5), (5, 5), (5, 0))
    layers.selection.active = desk.photo
    assert desk.form.layer is other


def test_a_model_without_bundled_weights_asks_for_a_file(desk: Desk) -> None:
    desk.choose("card", "mst-plus-plus")
    assert not desk.widgets["weights"].isHidden()
    assert desk.refuses("Choose the weights file")
    desk.widgets["weights"].setEditText("weights.pth")
    assert desk.form.model.endswith("weights.pth")
    # As docs/train.md and docs/own_network.md call it.
    assert desk.widgets["card"].currentText() == "Weights file ..."
    assert "31 bands, 400-700 nm" in desk.dock.rows.about.toolTip()


def test_the_title_of_the_colours_says_that_white_is_far_off_until_the_photo_is_another(
    desk: Desk,
) -> None:
    colours, note = desk.dock.rows.colours, f"{OFF_DAYLIGHT} that is 26 degrees off."
    provenance = Provenance(assumptions=(note,))
    assert colours.button.text() == "Colours off?"
    cube = replace(make_cube(), provenance=provenance)
    desk.dock.workspace.cube_ready.emit(cube, LayerPhoto.of(desk.photo, (0, 0)))
    assert "far from that of daylight" in colours.button.text()
    desk.viewer.add_image(desk.photo.data, rgb=True, name="other")
    assert colours.button.text() == "Colours off?"
    desk.viewer.layers.clear()
    assert colours.isHidden()


def test_a_click_that_shows_nothing_leaves_no_mark(desk: Desk) -> None:
    desk.dock.rows.colours.button.click()
    # Also where something was found before.
    desk.form.finding = Finding("the light")
    desk.dock.rows.asks["patch"].click()
    desk.viewer.layers[-1].add((500, 500))
    desk.qtbot.waitUntil(lambda: "within 20 rows x 30 columns" in desk.text)
    assert desk.names == ["photo"]
    assert desk.told() == []


def corners(layer: Image) -> list[list[float]]:
    """The outer corners of an image layer."""
    rows, columns = layer.data.shape[-2:]
    pixels = [(-0.5, -0.5), (rows - 0.5, -0.5), (-0.5, columns - 0.5), (rows - 0.5, columns - 0.5)]
    lead = (0,) * (layer.data.ndim - 2)
    return [list(layer.data_to_world((*lead, *pixel))[-2:]) for pixel in pixels]


def begin_with_preview(desk: Desk) -> Image:
    """Run until the preview is shown; returns its layer."""
    desk.job.previews = [make_cube(5, 10, is_preview=True)]
    desk.begin(layers=2)
    return desk.viewer.layers["photo (fake) (preview)"]


def test_a_preview_lies_on_the_photo_and_the_exact_cube_takes_its_place(desk: Desk) -> None:
    viewer, photo = desk.viewer, desk.photo
    viewer.layers.remove(photo)
    grey = viewer.add_image(
        photo.data[..., 0], scale=(2, 3), translate=(5, 6), rotate=20, shear=[0.1], name="photo"
    )
    layer = begin_with_preview(desk)
    assert_allclose(corners(layer), corners(grey), atol=1e-9)
    picks.pin(viewer, layer.data_to_world((0, 2, 4)))
    before = picks_in(viewer).data.copy()
    layer.contrast_limits, layer.opacity = (0.1, 0.2), 0.5
    viewer.dims.set_point(0, 620)
    viewer.layers.selection.active = layer
    desk.finish()
    assert layer in viewer.layers
    assert (layer.name, layer.data.shape) == ("photo (fake)", (31, 20, 30))
    assert not cube_in(layer).provenance.is_preview
    assert_allclose(corners(layer), corners(grey), atol=1e-9)
    assert_array_equal(picks_in(viewer).data, before)
    pixels, _ = picks.pixels_of(picks_in(viewer), layer)
    # The centre of the preview's pixel is between these two.
    assert pixels.tolist() in ([[9, 13]], [[10, 13]])
    assert (layer.contrast_limits, layer.opacity) == ([0.1, 0.2], 0.5)
    assert (viewer.dims.point[0], viewer.layers.selection.active) == (620, layer)


def test_a_preview_goes_with_a_run_that_is_cancelled(desk: Desk) -> None:
    begin_with_preview(desk)
    desk.dock.bar.cancel_button.click()
    desk.waits_for(layers=1)
    assert desk.names == ["photo"]


def test_a_preview_stays_and_is_called_so_if_the_exact_run_fails(desk: Desk) -> None:
    desk.job.error = PhotoError("Expected more.")
    layer = begin_with_preview(desk)
    desk.job.gate.set()
    desk.qtbot.waitUntil(lambda: not desk.dock.workspace.is_busy)
    assert desk.names == ["photo", "photo (fake) (preview)"]
    # The page says it whole, so no message of napari does.
    assert desk.told() == []
    desk.job.previews, desk.job.error = [], None
    desk.run()
    assert len(desk.names) == 3
    assert layer.data.shape == (31, 5, 10)


def test_a_preview_that_was_deleted_is_not_missed(desk: Desk) -> None:
    desk.viewer.layers.remove(begin_with_preview(desk))
    desk.finish()
    assert desk.names == ["photo", "photo (fake)"]


def choose_part(desk: Desk, part: str) -> None:
    """As a user does."""
    desk.choose("part", part)
    desk.widgets["part"].activated.emit(desk.widgets["part"].currentIndex())


def test_a_drawn_rectangle_is_reconstructed_where_it_lies(desk: Desk) -> None:
    viewer, photo = desk.viewer, desk.photo
    photo.scale, photo.translate = (2, 3), (5, 6)
    choose_part(desk, "drawn")
    assert desk.refuses("This needs a rectangle on the photo, but found none")
    shapes = viewer.layers["Region"]
    assert (shapes.mode, viewer.layers.selection.active) == ("add_rectangle", shapes)
    shapes.add_rectangles([[3.6, 6.6], [3.6, 40], [12.4, 40], [12.4, 6.6]])
    desk.run()
    layer = viewer.layers["photo (fake) [4:13, 7:30]"]
    assert layer.data.shape == (31, 9, 23)
    assert_allclose(layer.data_to_world((0, 0, 0))[-2:], photo.data_to_world((4, 7)))


def test_what_is_on_the_screen_is_reconstructed(desk: Desk) -> None:
    choose_part(desk, "visible")
    desk.photo.corner_pixels = np.array([[2, 0], [9, 50]])
    desk.run()
    assert desk.names[-1] == "photo (fake) [2:10, 0:30]"
    desk.photo.corner_pixels = np.array([[40, 0], [90, 50]])
    assert desk.refuses("found none of it")


def test_rows_tell_the_next_run_and_the_title_says_what_is_changed(desk: Desk) -> None:
    row, memory = desk.widgets["denoise"], desk.widgets["memory"]
    assert memory.text() == "automatic"
    for typed, gigabytes, title in (
        ("auto", 0, ""),
        ("off", 0, "; changed: Denoise"),
        ("0.7", 0, "; changed: Denoise"),
        ("0.7, I think", 1.5, "; changed: Memory, Denoise"),
    ):
        row.setEditText(typed)
        memory.setValue(gigabytes)
        assert desk.dock.rows.settings.button.text() == f"Settings{title}"
        desk.run()
    assert [options.denoise for options in desk.job.options] == ["auto", "off", 0.7, 0.7]
    assert [options.memory for options in desk.job.options] == [*[None] * 3, 1_500_000_000]
    assert remembered().denoise == "0.7"


def test_settings_that_are_chosen_together_are_remembered_together(desk: Desk) -> None:
    desk.form.options = replace(desk.form.options, memory=2_000_000_000, correct_colour=False)
    assert (desk.form.options.memory, desk.form.options.correct_colour) == (2_000_000_000, False)
    assert (remembered().memory, remembered().correct_colour) == (2, False)


def test_a_preference_that_means_nothing_is_refused_in_words(desk: Desk) -> None:
    for text in ("2", "loud"):
        remembered().denoise = text
        assert desk.form.options.denoise == 2
    assert "needs auto, off or a number above 0" in desk.told()[-1]


CPU = DeviceChoice("cpu", "the processor")
GPU = DeviceChoice("cuda:0", "a GPU")


@pytest.mark.parametrize(("devices", "times"), [([CPU], 1), ([GPU, CPU], 0)])
def test_kernels_are_made_ready_where_the_processor_computes(
    devices: list[DeviceChoice], times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[None] = []
    monkeypatch.setattr(device, "available_devices", lambda: devices)
    monkeypatch.setattr(native, "prepare_ahead", lambda: asked.append(None))
    assert list_devices() == devices
    assert len(asked) == times
