"""Which device is taken, and that the user can see why."""

from contextlib import AbstractContextManager, nullcontext

import pytest
import torch

from napari_mst.engine.device import (
    DeviceChoice,
    available_devices,
    choose_device,
    has_bfloat16,
)
from napari_mst.errors import DeviceError


def test_device_is_chosen_with_a_reason() -> None:
    assert choose_device("auto").name == available_devices()[0].name
    assert choose_device("cpu").name == "cpu"
    assert "automatically" in choose_device("auto").reason


def test_device_that_is_not_there_is_refused_with_the_list() -> None:
    with pytest.raises(
        DeviceError, match=r"Expected a device of this machine .*cpu.*got 'cuda:99'"
    ):
        choose_device("cuda:99")


def test_no_gpu_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    choice = choose_device("auto")
    assert choice.name == "cpu"
    assert "no CUDA or Apple GPU" in choice.reason


@pytest.mark.parametrize("instructions", ["avx512_bf16", "amx_tile", "aarch64", None])
def test_the_instructions_of_a_processor_for_bfloat16_are_known(
    monkeypatch: pytest.MonkeyPatch, instructions: str | None
) -> None:
    for name in ("avx512_bf16", "amx_tile"):
        has_it = instructions == name
        monkeypatch.setattr(torch.cpu, f"_is_{name}_supported", lambda has_it=has_it: has_it)
    machine = "aarch64" if instructions == "aarch64" else "x86_64"
    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: True)
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: True)
    assert has_bfloat16(torch.device("cpu")) == (instructions is not None)


def test_mps_has_no_float64_and_every_gpu_tells_whether_it_has_bfloat16(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of several GPUs tells its own."""
    asked: list[torch.device] = []

    def select(device: torch.device) -> AbstractContextManager[None]:
        asked.append(device)
        return nullcontext()

    monkeypatch.setattr(torch.cuda, "device", select)
    monkeypatch.setattr(
        torch.cuda,
        "is_bf16_supported",
        lambda including_emulation: asked[-1].index == 1 and not including_emulation,
    )
    names = "cuda:0", "cuda:1", "mps"
    assert [has_bfloat16(torch.device(name)) for name in names] == [False, True, False]
    assert DeviceChoice("cuda:0", "").precisions == ("float32", "float64")
    with pytest.raises(DeviceError, match=r"of mps \(float32\), got 'float64'"):
        DeviceChoice("mps", "").check("float64")
