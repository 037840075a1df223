"""Which device is taken, and that the user can see why."""

import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from napari_mst.base.errors import DeviceError
from napari_mst.engine import device
from napari_mst.engine.device import (
    DeviceChoice,
    available_devices,
    choose_device,
    has_amx,
    has_bfloat16,
    may_have_gpu,
)


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


NO_CUDA, NO_HIP = "cuda: Optional[str] = None\n", "hip: Optional[str] = None\n"


@pytest.mark.parametrize(
    ("says", "expected"),
    [
        (NO_CUDA + NO_HIP, False),
        ("cuda: Optional[str] = '12.8'\n" + NO_HIP, True),
        (NO_CUDA + "hip: Optional[str] = '6.4.43483'\n", True),
        ("cuda = None\nhip = None\n", False),
        (NO_CUDA, True),
        (None, True),
    ],
)
def test_torch_is_asked_for_gpus_unless_its_build_surely_has_none(
    says: str | None, expected: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if says is not None:
        (tmp_path / "version.py").write_text(says)
    found = SimpleNamespace(origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(device, "find_spec", lambda _: found)
    monkeypatch.setattr(device, "torch_if_imported", lambda: None)
    monkeypatch.setattr(sys, "platform", "linux")
    assert may_have_gpu() is expected
    monkeypatch.setattr(sys, "platform", "darwin")
    assert may_have_gpu()


def processor(
    monkeypatch: pytest.MonkeyPatch, bfloat16: bool, computes_in: str = "float32"
) -> DeviceChoice:
    """A CPU with or without instructions for *bfloat16*, which torch uses for some types."""
    types = {getattr(torch, name) for name in computes_in.split()}
    monkeypatch.setattr("napari_mst.engine.device.has_bfloat16", lambda: bfloat16)
    monkeypatch.setattr("napari_mst.engine.device.computes_in", types.__contains__)
    return DeviceChoice("cpu", "")


@pytest.mark.parametrize(
    ("bfloat16", "computes_in", "precisions"),
    [
        (True, "float32 bfloat16 float16", ("float32", "bfloat16", "float16", "float64")),
        (True, "float32 bfloat16", ("float32", "bfloat16", "float64")),
        (False, "float32 bfloat16 float16", ("float32", "float16", "float64")),
        (True, "float32", ("float32", "float64")),
    ],
)
def test_a_processor_offers_the_16_bits_that_it_and_torch_compute_in(
    monkeypatch: pytest.MonkeyPatch, bfloat16: bool, computes_in: str, precisions: tuple[str, ...]
) -> None:
    assert processor(monkeypatch, bfloat16, computes_in).precisions == precisions


@pytest.mark.parametrize("instructions", ["avx512_bf16", "amx_tile", "aarch64", None])
def test_the_instructions_of_a_processor_for_bfloat16_are_known(
    monkeypatch: pytest.MonkeyPatch, instructions: str | None
) -> None:
    for name in ("avx512_bf16", "amx_tile"):
        has_it = instructions == name
        monkeypatch.setattr(torch.cpu, f"_is_{name}_supported", lambda has_it=has_it: has_it)
    machine = "aarch64" if instructions == "aarch64" else "x86_64"
    monkeypatch.setattr("platform.machine", lambda: machine)
    assert has_bfloat16() == (instructions is not None)
    assert has_amx() == (instructions == "amx_tile")


def test_a_precision_that_a_device_would_only_imitate_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = processor(monkeypatch, bfloat16=False)
    assert plain.precisions == ("float32", "float64")
    for precision in ("bfloat16", "float16", "int8"):
        with pytest.raises(
            DeviceError,
            match=rf"of cpu \(float32, float64\), got '{precision}'.* gains nothing from another.",
        ):
            plain.check(precision)


def test_gpus_offer_16_bits_and_mps_has_no_float64(monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert DeviceChoice("cuda:0", "").precisions == ("float32", "float16", "float64")
    assert DeviceChoice("cuda:1", "").precisions == ("float32", "bfloat16", "float16", "float64")
    assert DeviceChoice("mps", "").precisions == ("float32", "float16")
