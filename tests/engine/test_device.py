"""Which device is taken, and that the user can see why."""

import pytest
import torch

from napari_mst.engine.device import available_devices, choose_device
from napari_mst.errors import DeviceError


def test_device_is_chosen_with_a_reason():
    assert choose_device("auto").name == available_devices()[0].name
    assert choose_device("cpu").name == "cpu"
    assert "automatically" in choose_device("auto").reason


def test_device_that_is_not_there_is_refused_with_the_list():
    with pytest.raises(DeviceError, match=r"Expected a device of this machine .*cpu.*got 'cuda:99'"):
        choose_device("cuda:99")


def test_no_gpu_is_said(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    choice = choose_device("auto")
    assert choice.name == "cpu"
    assert "no CUDA or Apple GPU" in choice.reason
