"""Things that people do to the docks: items 72 to 79 of the catalogue, mostly without a window."""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from napari.layers import Image
from tests.plugin.conftest import Desk, make_cube

from napari_mst.base.errors import OutOfMemory
from napari_mst.plugin.jobs.workspace import Request
from napari_mst.plugin.reconstruct.form import DeviceEntry
from napari_mst.plugin.viewer.layer_photos import LayerPhoto


def double_click(desk: Desk) -> None:
    desk.dock.run_button.click()
    desk.dock.run_button.click()
    assert not desk.dock.run()
    desk.finish()
    assert len(desk.job.options) == 1
    assert desk.names == ["photo", "photo (fake)"]


def begin_on_new_pixels(desk: Desk) -> weakref.ref[Any]:
    pixels = np.zeros((20, 30, 3), np.uint8)
    desk.dock.workspace.run(Request(LayerPhoto.of(Image(pixels, rgb=True), (0, 0)), "model"))
    return weakref.ref(pixels)


def cancel(desk: Desk) -> None:
    memory = begin_on_new_pixels(desk)
    desk.qtbot.waitUntil(desk.job.begun.is_set)
    desk.dock.bar.cancel_button.click()
    desk.qtbot.waitUntil(lambda: not desk.dock.workspace.is_busy, timeout=500)
    gc.collect()
    assert memory() is None
    assert (desk.names, desk.told()) == (["photo"], [])


def source_removed(desk: Desk) -> None:
    desk.begin()
    desk.viewer.layers.clear()
    desk.finish()
    assert desk.names == ["photo (fake)"]
    assert desk.told() == [
        "The layer 'photo' was removed during the run. Its cube is a new layer in the same place.",
    ]


def source_and_preview_removed(desk: Desk) -> None:
    desk.job.previews = [make_cube(5, 10, is_preview=True)]
    assert desk.dock.run()
    desk.viewer.layers.clear()
    desk.qtbot.waitUntil(lambda: desk.names == ["photo (fake) (preview)"])
    assert len(desk.told()) == 1
    desk.viewer.layers.clear()
    desk.finish()
    assert desk.names == ["photo (fake)"]
    assert len(desk.told()) == 1


def source_renamed(desk: Desk) -> None:
    desk.begin()
    desk.photo.name = "other"
    desk.finish()
    assert desk.names == ["other", "other (fake)"]
    assert desk.told() == [
        "The layer 'photo' was renamed to 'other' during the run. "
        "Its cube is a new layer in the same place.",
    ]


def out_of_memory(desk: Desk) -> None:
    desk.form.devices = (*desk.form.devices, DeviceEntry("cuda:0", "cuda:0", "a GPU"))
    desk.form.choose("device", "cuda:0")
    desk.job.error = OutOfMemory("Expected enough memory on cuda:0, got too little.")
    desk.begin()
    desk.finish()
    assert desk.text == "This needs enough memory on cuda:0, but found too little."
    assert desk.told() == []
    assert desk.names == ["photo"]
    assert not desk.dock.cpu_button.isHidden()
    desk.job.error = None
    desk.dock.cpu_button.click()
    desk.finish()
    assert desk.widgets["device"].currentData() == "cpu"
    assert desk.names == ["photo", "photo (fake)"]


def no_gpu(desk: Desk) -> None:
    desk.begin()
    desk.qtbot.waitUntil(lambda: "cpu (no GPU was found)" in desk.text)
    desk.finish()
    assert "on cpu (no GPU was found)" in desk.dock.details.text()


@pytest.mark.parametrize(
    "act",
    [
        pytest.param(double_click, id="072-double-click"),
        pytest.param(cancel, id="073-cancel"),
        pytest.param(source_removed, id="075-source-removed"),
        pytest.param(source_and_preview_removed, id="075-source-and-preview-removed"),
        pytest.param(source_renamed, id="075-source-renamed"),
        pytest.param(out_of_memory, id="076-out-of-memory"),
        pytest.param(no_gpu, id="079-no-gpu"),
    ],
)
def test_bad_input(desk: Desk, act: Callable[[Desk], None]) -> None:
    act(desk)
