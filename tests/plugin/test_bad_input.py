"""Things that people do to the docks: items 72 to 79 of the catalogue, mostly without a window."""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Image
from pytestqt.qtbot import QtBot
from tests.plugin.conftest import GatedJob, with_photo

from napari_mst.errors import OutOfMemory
from napari_mst.plugin.jobs.request import Request
from napari_mst.plugin.reconstruct.dock import ReconstructDock
from napari_mst.plugin.reconstruct.form import DeviceEntry
from napari_mst.plugin.spectra.dock import SpectraDock
from napari_mst.plugin.viewer import picks
from napari_mst.plugin.viewer.photos import LayerPhoto

Told = Callable[[], list[str]]


class Desk:
    """A viewer, its dock, the job, and what napari told the user."""

    def __init__(self, dock: ReconstructDock, job: GatedJob, told: Told, qtbot: QtBot) -> None:
        self.dock, self.job, self.told, self.qtbot = dock, job, told, qtbot
        self.viewer: ViewerModel = dock.viewer

    @property
    def names(self) -> list[str]:
        return [layer.name for layer in self.viewer.layers]

    def begin(self) -> None:
        assert self.dock.run()
        self.qtbot.waitUntil(self.job.begun.is_set)

    def finish(self) -> None:
        self.job.gate.set()
        self.qtbot.waitUntil(lambda: not self.dock.workspace.is_busy)


@pytest.fixture
def desk(reconstruct_dock: ReconstructDock, job: GatedJob, told: Told, qtbot: QtBot) -> Desk:
    return Desk(reconstruct_dock, job, told, qtbot)


def double_click(desk: Desk) -> None:
    desk.dock.run_button.click()
    desk.dock.run_button.click()
    assert not desk.dock.run()
    desk.finish()
    assert len(desk.job.options) == 1
    assert desk.names == ["photo", "photo (MST++)"]


def begin_on_new_pixels(desk: Desk) -> weakref.ref[Any]:
    pixels = np.zeros((20, 30, 3), np.uint8)
    desk.dock.workspace.run(Request(LayerPhoto.of(Image(pixels, rgb=True), (0, 0)), "model"))
    return weakref.ref(pixels)


def cancel(desk: Desk) -> None:
    memory = begin_on_new_pixels(desk)
    desk.qtbot.waitUntil(desk.job.begun.is_set)
    desk.dock.cancel_button.click()
    desk.qtbot.waitUntil(lambda: not desk.dock.workspace.is_busy, timeout=500)
    gc.collect()
    assert memory() is None
    assert (desk.names, desk.told()) == (["photo"], [])


def source_removed(desk: Desk) -> None:
    desk.begin()
    desk.viewer.layers.clear()
    desk.finish()
    assert desk.names == ["photo (MST++)"]
    assert desk.told() == [
        "The layer 'photo' was removed during the run. Its cube is a new layer in the same place.",
    ]


def source_renamed(desk: Desk) -> None:
    desk.begin()
    desk.viewer.layers["photo"].name = "other"
    desk.finish()
    assert desk.names == ["other", "other (MST++)"]
    assert desk.told() == [
        "The layer 'photo' was renamed to 'other' during the run. "
        "Its cube is a new layer in the same place.",
    ]


def out_of_memory(desk: Desk) -> None:
    form = desk.dock.form
    form.devices = (*form.devices, DeviceEntry("cuda:0", "cuda:0", "a GPU", ("float32",)))
    form.choose("device", "cuda:0")
    desk.job.error = OutOfMemory("Expected enough memory on cuda:0, got too little.")
    desk.begin()
    desk.finish()
    assert (desk.told(), desk.names) == (
        ["Expected enough memory on cuda:0, got too little."],
        ["photo"],
    )
    assert not desk.dock.cpu_button.isHidden()
    desk.job.error = None
    desk.dock.cpu_button.click()
    desk.finish()
    assert desk.dock.rows.widgets["device"].currentData() == "cpu"
    assert desk.names == ["photo", "photo (MST++)"]


def no_gpu(desk: Desk) -> None:
    desk.begin()
    desk.qtbot.waitUntil(lambda: "cpu (no GPU was found)" in desk.dock.text.text())
    desk.finish()
    assert "on cpu (no GPU was found)" in desk.dock.text.text()


@pytest.mark.parametrize(
    "act",
    [
        pytest.param(double_click, id="072-double-click"),
        pytest.param(cancel, id="073-cancel"),
        pytest.param(source_removed, id="075-source-removed"),
        pytest.param(source_renamed, id="075-source-renamed"),
        pytest.param(out_of_memory, id="076-out-of-memory"),
        pytest.param(no_gpu, id="079-no-gpu"),
    ],
)
def test_bad_input(desk: Desk, act: Callable[[Desk], None]) -> None:
    act(desk)


@pytest.mark.parametrize(
    "where", ["077-outside", "077-hidden", "077-three-dimensional", "077-no-cube"]
)
def test_bad_input_shows_no_spectrum(cube_viewer: ViewerModel, where: str) -> None:
    cube = cube_viewer.layers["cube"]
    position = (550.0, 4.0, 7.0)
    if where == "077-outside":
        position = (550.0, -1.0, -1.0)
    elif where == "077-hidden":
        cube.visible = False
    elif where == "077-three-dimensional":
        cube_viewer.dims.ndisplay = 3
    else:
        cube_viewer.layers.clear()
        cube_viewer.add_image(np.zeros((31, 20, 30)))
    assert picks.pixel_under(cube_viewer, position) is None
    assert not picks.pin(cube_viewer, position)


@pytest.mark.parametrize(
    "dock_type", [SpectraDock, ReconstructDock], ids=["078-spectra", "078-reconstruction"]
)
def test_bad_input_opened_and_closed_leaves_nothing(
    dock_type: type, job: GatedJob, qtbot: QtBot, cube_viewer: ViewerModel
) -> None:
    viewer = with_photo(cube_viewer, job)
    docks: list[weakref.ref[Any]] = []
    emitters = (
        viewer.layers.events,
        viewer.layers.events.inserted,
        viewer.dims.events.ndisplay,
        viewer.events.theme,
    )

    def counts() -> list[int]:
        callbacks = [emitter.callbacks for emitter in emitters]
        mouse = [viewer.mouse_move_callbacks, viewer.mouse_drag_callbacks]
        return [len(one) for one in (*callbacks, *mouse)]

    before = counts()
    for _ in range(50):
        dock = dock_type(viewer)
        dock.show()
        dock.hide()
        docks.append(weakref.ref(dock))
    dock.deleteLater()
    del dock
    qtbot.waitUntil(lambda: not gc.collect() and not any(dock() for dock in docks), timeout=60_000)
    assert counts() == before
