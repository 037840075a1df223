"""The reconstruction dock without a napari window; the job waits at the test's gate."""

import gc
import threading
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Image
from pytestqt.qtbot import QtBot
from tests.plugin.conftest import FakeDevice, GatedJob, make_cube
from tests.plugin.in_viewer import cube_in, picks_in

from napari_mst.errors import NapariMstError, PhotoError
from napari_mst.plugin.jobs.request import Request, SideJob
from napari_mst.plugin.reconstruct import dock as reconstruct_dock_module
from napari_mst.plugin.reconstruct.dock import DeviceSurvey, ReconstructDock, remembered
from napari_mst.plugin.reconstruct.form import DeviceEntry
from napari_mst.plugin.viewer import picks
from napari_mst.plugin.viewer.photos import LayerPhoto


def test_run_adds_a_cube_layer_named_after_the_photo_at_its_place(
    reconstruct_dock: ReconstructDock, viewer: ViewerModel, job: GatedJob, qtbot: QtBot
) -> None:
    photo = viewer.layers["photo"]
    photo.scale, photo.translate = (2, 3), (5, 6)
    assert reconstruct_dock.run_button.isEnabled()
    job.gate.set()
    reconstruct_dock.run_button.click()
    qtbot.waitUntil(lambda: len(viewer.layers) == 2)
    layer = viewer.layers["photo (MST++)"]
    assert layer.data.shape == (31, 20, 30)
    assert (tuple(layer.scale), tuple(layer.translate)) == ((10, 2, 3), (400, 5, 6))
    assert viewer.dims.point[0] == 550
    assert cube_in(layer).provenance.model == "fake"
    assert reconstruct_dock.text.text().startswith("Done in ")
    assert reconstruct_dock.run_button.isEnabled()


def test_a_dock_at_rest_says_where_it_would_run_and_why(reconstruct_dock: ReconstructDock) -> None:
    assert reconstruct_dock.text.text() == "Ready for cpu: no GPU was found."


def test_the_devices_are_listed_once_and_a_dock_that_goes_meanwhile_does_no_harm(
    viewer: ViewerModel, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()
    calls: list[bool] = []

    def list_devices() -> list[FakeDevice]:
        calls.append(gate.wait(30))
        return [FakeDevice("cpu", "slow")]

    survey = DeviceSurvey(list_devices)
    monkeypatch.setattr(reconstruct_dock_module, "survey", lambda: survey)
    docks = [ReconstructDock(viewer) for _ in range(2)]
    for dock in docks:
        dock.show()
    docks[0].hide()
    gone = weakref.ref(docks.pop(0))
    qtbot.waitUntil(lambda: not gc.collect() and gone() is None, timeout=60_000)
    gate.set()
    qtbot.waitUntil(lambda: docks[0].is_ready)
    assert calls == [True]
    assert "cpu: slow" in docks[0].text.text()
    qtbot.addWidget(docks[0])


def test_a_torch_that_is_broken_is_told_and_the_dock_still_runs(
    viewer: ViewerModel, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    def list_devices() -> list[FakeDevice]:
        raise ImportError("libcuda is broken")

    monkeypatch.setattr(reconstruct_dock_module, "survey", lambda: DeviceSurvey(list_devices))
    dock = ReconstructDock(viewer)
    qtbot.addWidget(dock)
    dock.show()
    qtbot.waitUntil(lambda: dock.is_ready)
    assert "could not be listed: libcuda is broken" in dock.text.text()
    assert dock.run_button.isEnabled()


def test_what_another_dock_does_and_what_is_over_is_not_told(
    reconstruct_dock: ReconstructDock, viewer: ViewerModel, job: GatedJob, qtbot: QtBot
) -> None:
    def fail(*_: object) -> None:
        raise NapariMstError("The map went wrong.")

    workspace = reconstruct_dock.workspace
    photo = LayerPhoto.of(viewer.layers["photo"], viewer.dims.point)
    workspace.run(Request(photo, "fake", job=SideJob(fail)))
    qtbot.waitUntil(lambda: not workspace.is_busy)
    assert "went wrong" in workspace.state.text
    assert reconstruct_dock.text.text() == "Ready for cpu: no GPU was found."
    job.gate.set()
    reconstruct_dock.run()
    qtbot.waitUntil(lambda: reconstruct_dock.text.text().startswith("Done in "))
    viewer.layers.clear()
    assert "Open a photo first" in reconstruct_dock.text.text()


def test_the_names_of_photos_are_read_whole(
    reconstruct_dock: ReconstructDock, viewer: ViewerModel
) -> None:
    long = (
        "a name that goes on and on, so that two that differ in the middle are told apart, and on"
    )
    viewer.layers["photo"].name = long
    reconstruct_dock.rows.widgets["photo"].showPopup()
    metrics = reconstruct_dock.rows.widgets["photo"].view().fontMetrics()
    assert reconstruct_dock.rows.widgets["photo"].view().width() >= metrics.horizontalAdvance(long)
    reconstruct_dock.rows.widgets["photo"].hidePopup()


def test_the_description_of_a_model_is_never_cut(reconstruct_dock: ReconstructDock) -> None:
    for width in (500, 220):
        reconstruct_dock.resize(width, 100)
        about = reconstruct_dock.rows.about
        assert about.minimumHeight() >= about.heightForWidth(about.width()) > 0


def test_a_running_job_shows_its_progress_and_can_only_be_cancelled(
    reconstruct_dock: ReconstructDock, qtbot: QtBot
) -> None:
    reconstruct_dock.run()
    qtbot.waitUntil(lambda: reconstruct_dock.bar.value() == 250)
    assert " s left" in reconstruct_dock.bar.format()
    assert (
        reconstruct_dock.run_button.isEnabled(),
        reconstruct_dock.cancel_button.isEnabled(),
    ) == (False, True)
    reconstruct_dock.cancel_button.click()
    qtbot.waitUntil(lambda: reconstruct_dock.text.text() == "Cancelled.")
    assert (
        reconstruct_dock.run_button.isEnabled(),
        reconstruct_dock.cancel_button.isEnabled(),
    ) == (True, False)


def test_a_dock_that_is_opened_again_finds_the_running_job(
    reconstruct_dock: ReconstructDock, job: GatedJob, qtbot: QtBot
) -> None:
    reconstruct_dock.run()
    reconstruct_dock.hide()
    qtbot.waitUntil(lambda: reconstruct_dock.workspace.state.fraction == 0.25)
    reconstruct_dock.show()
    assert reconstruct_dock.bar.value() == 250
    job.gate.set()
    qtbot.waitUntil(lambda: not reconstruct_dock.workspace.is_busy)


def test_photos_are_the_image_layers_that_are_no_cubes(
    reconstruct_dock: ReconstructDock, viewer: ViewerModel
) -> None:
    box = reconstruct_dock.rows.widgets["photo"]

    def names() -> list[str]:
        return [box.itemText(index) for index in range(box.count())]

    viewer.add_image(np.zeros((5, 5)), name="grey")
    viewer.add_points(np.zeros((1, 2)))
    assert (names(), box.currentText()) == (["grey", "photo"], "photo")
    viewer.layers["photo"].name = "renamed"
    assert names() == ["grey", "renamed"]
    viewer.layers.clear()
    assert not reconstruct_dock.run_button.isEnabled()
    assert "Open a photo first" in reconstruct_dock.text.text()


def test_a_model_without_bundled_weights_asks_for_a_file(reconstruct_dock: ReconstructDock) -> None:
    reconstruct_dock.rows.widgets["card"].setCurrentIndex(
        reconstruct_dock.rows.widgets["card"].findData("mst-plus-plus")
    )
    assert not reconstruct_dock.rows.widgets["weights"].native.isHidden()
    reconstruct_dock.rows.widgets["weights"].value = Path("weights.pth")
    assert reconstruct_dock.form.model.endswith("weights.pth")
    assert "31 bands, 400-700 nm" in reconstruct_dock.rows.about.text()


def test_a_chosen_model_without_a_file_is_asked_for(reconstruct_dock: ReconstructDock) -> None:
    reconstruct_dock.rows.widgets["card"].setCurrentIndex(
        reconstruct_dock.rows.widgets["card"].findData("mst-plus-plus")
    )
    assert not reconstruct_dock.run()
    assert "Choose the weights file" in reconstruct_dock.text.text()


def test_what_was_off_is_shown_on_the_photo_if_wanted(
    reconstruct_dock: ReconstructDock, viewer: ViewerModel, job: GatedJob, qtbot: QtBot
) -> None:
    viewer.layers["photo"].scale = (2, 3)
    job.gate.set()
    reconstruct_dock.rows.widgets["has_quality"].click()
    reconstruct_dock.run()
    qtbot.waitUntil(lambda: len(viewer.layers) == 3)
    layer = viewer.layers["photo (colours off)"]
    assert (layer.data == 2).all()
    assert (tuple(layer.scale), layer.contrast_limits, layer.visible) == ((2, 3), [0, 2], False)
    assert viewer.layers.selection.active.name == "photo (MST++)"
    assert reconstruct_dock.rows.widgets["photo"].count() == 1


def test_correction_can_be_switched_off(
    reconstruct_dock: ReconstructDock, viewer: ViewerModel, job: GatedJob, qtbot: QtBot
) -> None:
    job.gate.set()
    reconstruct_dock.rows.widgets["has_quality"].click()
    reconstruct_dock.rows.widgets["correct_colour"].click()
    assert not reconstruct_dock.rows.widgets["has_quality"].isEnabled()
    reconstruct_dock.run()
    qtbot.waitUntil(lambda: not reconstruct_dock.workspace.is_busy)
    assert [layer.name for layer in viewer.layers] == ["photo", "photo (MST++)"]
    assert cube_in(viewer.layers[1]).quality is None


def corners(layer: Image) -> list[list[float]]:
    """The outer corners of an image layer."""
    rows, columns = layer.data.shape[-2:]
    pixels = [(-0.5, -0.5), (rows - 0.5, -0.5), (-0.5, columns - 0.5), (rows - 0.5, columns - 0.5)]
    lead = (0,) * (layer.data.ndim - 2)
    return [list(layer.data_to_world((*lead, *pixel))[-2:]) for pixel in pixels]


def test_a_preview_lies_on_the_photo_and_the_exact_cube_takes_its_place(
    reconstruct_dock: ReconstructDock, viewer: ViewerModel, job: GatedJob, qtbot: QtBot
) -> None:
    photo = viewer.layers["photo"]
    viewer.layers.remove(photo)
    grey = viewer.add_image(
        photo.data[..., 0], scale=(2, 3), translate=(5, 6), rotate=20, shear=[0.1], name="photo"
    )
    job.previews = [make_cube(5, 10, is_preview=True)]
    reconstruct_dock.run()
    qtbot.waitUntil(lambda: len(viewer.layers) == 2)
    layer = viewer.layers["photo (MST++) (preview)"]
    np.testing.assert_allclose(corners(layer), corners(grey), atol=1e-9)
    picks.pin(viewer, layer.data_to_world((0, 2, 4)))
    before = picks_in(viewer).data.copy()
    layer.contrast_limits, layer.opacity = (0.1, 0.2), 0.5
    viewer.dims.set_point(0, 620)
    viewer.layers.selection.active = layer
    job.gate.set()
    qtbot.waitUntil(lambda: not reconstruct_dock.workspace.is_busy)
    assert layer in viewer.layers
    assert (layer.name, layer.data.shape) == ("photo (MST++)", (31, 20, 30))
    assert not cube_in(layer).provenance.is_preview
    np.testing.assert_allclose(corners(layer), corners(grey), atol=1e-9)
    np.testing.assert_array_equal(picks_in(viewer).data, before)
    pixels, _ = picks.pixels_of(picks_in(viewer), layer)
    assert pixels.tolist() in (
        [[9, 13]],
        [[10, 13]],
    )  # the centre of the preview's pixel is between these two
    assert (layer.contrast_limits, layer.opacity) == ([0.1, 0.2], 0.5)
    assert (viewer.dims.point[0], viewer.layers.selection.active) == (620, layer)


@pytest.mark.parametrize("ending", ["cancelled", "failed"])
def test_a_preview_stays_and_is_called_so_if_the_exact_run_does_not_end_well(
    reconstruct_dock: ReconstructDock, viewer: ViewerModel, job: GatedJob, qtbot: QtBot, ending: str
) -> None:
    job.previews, job.error = [make_cube(5, 10, is_preview=True)], PhotoError("Expected more.")
    reconstruct_dock.run()
    qtbot.waitUntil(lambda: len(viewer.layers) == 2)
    reconstruct_dock.cancel_button.click() if ending == "cancelled" else job.gate.set()
    qtbot.waitUntil(lambda: not reconstruct_dock.workspace.is_busy)
    assert [layer.name for layer in viewer.layers] == ["photo", "photo (MST++) (preview)"]
    job.previews, job.error = [], None
    job.gate.set()
    reconstruct_dock.run()
    qtbot.waitUntil(lambda: len(viewer.layers) == 3)
    assert viewer.layers[1].data.shape == (31, 5, 10)


def test_a_preview_that_was_deleted_is_not_missed(
    reconstruct_dock: ReconstructDock, viewer: ViewerModel, job: GatedJob, qtbot: QtBot
) -> None:
    job.previews = [make_cube(5, 10, is_preview=True)]
    reconstruct_dock.run()
    qtbot.waitUntil(lambda: len(viewer.layers) == 2)
    viewer.layers.pop()
    job.gate.set()
    qtbot.waitUntil(lambda: len(viewer.layers) == 2)
    assert viewer.layers[-1].name == "photo (MST++)"


def choose_part(dock: ReconstructDock, part: str) -> None:
    """As a user does."""
    dock.rows.widgets["part"].setCurrentIndex(dock.rows.widgets["part"].findData(part))
    dock.rows.widgets["part"].activated.emit(dock.rows.widgets["part"].currentIndex())


def test_a_drawn_rectangle_is_reconstructed_where_it_lies(
    reconstruct_dock: ReconstructDock, viewer: ViewerModel, job: GatedJob, qtbot: QtBot
) -> None:
    photo = viewer.layers["photo"]
    photo.scale, photo.translate = (2, 3), (5, 6)
    choose_part(reconstruct_dock, "drawn")
    assert not reconstruct_dock.run()
    assert "Expected a rectangle on the photo, got none" in reconstruct_dock.text.text()
    shapes = viewer.layers["Region"]
    assert (shapes.mode, viewer.layers.selection.active) == ("add_rectangle", shapes)
    shapes.add_rectangles([[3.6, 6.6], [3.6, 40], [12.4, 40], [12.4, 6.6]])
    job.gate.set()
    assert reconstruct_dock.run()
    qtbot.waitUntil(lambda: not reconstruct_dock.workspace.is_busy)
    layer = viewer.layers["photo (MST++) [4:13, 7:30]"]
    assert layer.data.shape == (31, 9, 23)
    np.testing.assert_allclose(layer.data_to_world((0, 0, 0))[-2:], photo.data_to_world((4, 7)))


def test_what_is_on_the_screen_is_reconstructed(
    reconstruct_dock: ReconstructDock, viewer: ViewerModel, job: GatedJob, qtbot: QtBot
) -> None:
    choose_part(reconstruct_dock, "visible")
    viewer.layers["photo"].corner_pixels = np.array([[2, 0], [9, 50]])
    job.gate.set()
    assert reconstruct_dock.run()
    qtbot.waitUntil(lambda: not reconstruct_dock.workspace.is_busy)
    assert viewer.layers[-1].name == "photo (MST++) [2:10, 0:30]"
    viewer.layers["photo"].corner_pixels = np.array([[40, 0], [90, 50]])
    assert not reconstruct_dock.run()
    assert "got none of it" in reconstruct_dock.text.text()


def test_the_row_asks_for_denoising_and_the_title_says_so(
    reconstruct_dock: ReconstructDock, job: GatedJob, qtbot: QtBot
) -> None:
    job.gate.set()
    rows = reconstruct_dock.rows
    row = rows.widgets["denoise"]
    for choice, title in (
        ("auto", ""),
        ("off", ": not denoised"),
        ("always", ": denoised with h 0.7"),
    ):
        row.choices.setCurrentIndex(row.choices.findData(choice))
        row.h.setValue(0.7)
        assert rows.settings.button.text() == f"Settings{title}"
        assert row.h.isHidden() == (choice != "always")
        reconstruct_dock.run_button.click()
        qtbot.waitUntil(lambda: reconstruct_dock.run_button.isEnabled())
    assert [options.denoise for options in job.options] == ["auto", "off", 0.7]
    assert remembered().denoise == "0.7"


def test_settings_that_are_chosen_together_are_remembered_together(
    reconstruct_dock: ReconstructDock,
) -> None:
    form = reconstruct_dock.form
    form.options = replace(form.options, memory=2_000_000_000, ensemble=True)
    assert (form.options.memory, form.options.ensemble) == (2_000_000_000, True)
    assert (remembered().memory, remembered().ensemble) == (2, True)


def test_a_preference_that_means_nothing_is_refused_in_words(
    reconstruct_dock: ReconstructDock, told: Callable[[], list[str]]
) -> None:
    remembered().denoise = "2"
    assert reconstruct_dock.form.options.denoise == 2
    remembered().denoise = "loud"
    assert reconstruct_dock.form.options.denoise == 2
    assert "Expected auto, off or a number above 0" in told()[-1]


def test_the_check_box_asks_for_the_ensemble(
    reconstruct_dock: ReconstructDock, job: GatedJob, qtbot: QtBot
) -> None:
    job.gate.set()
    for is_wanted in (False, True):
        reconstruct_dock.rows.widgets["ensemble"].setChecked(is_wanted)
        reconstruct_dock.run()
        qtbot.waitUntil(lambda: not reconstruct_dock.workspace.is_busy)
    assert [options.ensemble for options in job.options] == [False, True]


def test_precision_and_memory_are_those_of_the_dock_and_float32_and_automatic_at_first(
    reconstruct_dock: ReconstructDock, job: GatedJob, qtbot: QtBot
) -> None:
    job.gate.set()
    offered = [
        reconstruct_dock.rows.widgets["precision"].itemText(i)
        for i in range(reconstruct_dock.rows.widgets["precision"].count())
    ]
    assert offered == ["float32", "bfloat16", "float64"]
    assert reconstruct_dock.rows.widgets["memory"].text() == "automatic"
    for precision, memory in (("float32", 0), ("bfloat16", 1.5)):
        reconstruct_dock.rows.widgets["precision"].setCurrentText(precision)
        reconstruct_dock.rows.widgets["memory"].setValue(memory)
        reconstruct_dock.run_button.click()
        qtbot.waitUntil(lambda: not reconstruct_dock.workspace.is_busy)
    modes = [(options.precision, options.memory) for options in job.options]
    assert modes == [("float32", None), ("bfloat16", 1_500_000_000)]
    tip = reconstruct_dock.rows.widgets["precision"].toolTip()
    assert "error is measured on a sample of your photo" in tip


def test_a_device_offers_its_own_precisions_and_the_chosen_one_stays_if_it_can(
    reconstruct_dock: ReconstructDock,
) -> None:
    form = reconstruct_dock.form
    many = ("float32", "bfloat16", "float16", "float64")
    cuda = DeviceEntry("cuda:0", "cuda:0", "a GPU", many)
    mps = DeviceEntry("mps", "mps", "another", ("float32", "float16"))
    form.devices = (*form.devices, cuda, mps)
    for device, expected in (("cuda:0", "bfloat16"), ("mps", "float32")):
        reconstruct_dock.rows.widgets["precision"].setCurrentText("bfloat16")
        reconstruct_dock.rows.widgets["device"].setCurrentIndex(
            reconstruct_dock.rows.widgets["device"].findData(device)
        )
        assert reconstruct_dock.rows.widgets["precision"].currentText() == expected
    assert reconstruct_dock.rows.widgets["precision"].count() == 2
