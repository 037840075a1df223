"""The devices of the computer, and the kernels that are compiled while somebody still looks."""

import pytest

from napari_mst.engine import device
from napari_mst.engine.device import DeviceChoice
from napari_mst.engine.forms import native
from napari_mst.plugin.reconstruct.dock import list_devices

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
