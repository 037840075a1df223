"""Devices: which one computes, why, and in which precisions."""

import platform
from dataclasses import dataclass

import torch

from napari_mst.base.errors import DeviceError

PRECISIONS = ("float32", "bfloat16", "float16", "float64")
"""The types of numbers by their names in torch, the default first."""

ARM = ("aarch64", "arm64")


def computes_in(dtype: torch.dtype) -> bool:
    """True if torch computes in *dtype* on this processor, not in float32 behind it."""
    if dtype.itemsize != 2:
        return dtype == torch.float32
    name = "bf16" if dtype == torch.bfloat16 else "fp16"
    has_onednn = torch.backends.mkldnn.is_available()
    return has_onednn and bool(getattr(torch.ops.mkldnn, f"_is_mkldnn_{name}_supported")())


def has_bfloat16() -> bool:
    """True if this processor has instructions for bfloat16: torch can also imitate, slowly."""
    return (
        torch.cpu._is_avx512_bf16_supported()
        or torch.cpu._is_amx_tile_supported()
        or platform.machine() in ARM
    )


@dataclass(frozen=True)
class DeviceChoice:
    """A device by its torch name ("cpu", "cuda:0", "mps"), and a sentence for the user on why."""

    name: str
    reason: str

    @property
    def device(self) -> torch.device:
        """The torch device."""
        return torch.device(self.name)

    @property
    def precisions(self) -> tuple[str, ...]:
        """The precisions in which it computes at full speed.

        float64, the reference, is among them at any speed.
        """
        return tuple(name for name in PRECISIONS if _has(self.device, name))

    def check(self, precision: str) -> None:
        """Refuse a precision that this device does not have, or is slow in.

        Raises
        ------
        DeviceError
            If it is refused; the message lists those that the device has.
        """
        if precision not in self.precisions:
            have = ", ".join(self.precisions)
            raise DeviceError(
                f"Expected a precision of {self.name} ({have}), got {precision!r}. "
                "Take one of these."
            )


def _has(device: torch.device, precision: str) -> bool:
    kind = device.type
    if precision == "float64":
        return kind != "mps"  # Metal has no float64
    if kind == "cpu":
        is_full = computes_in(getattr(torch, precision))
        return is_full and (precision != "bfloat16" or has_bfloat16())
    if precision == "bfloat16" and kind == "cuda":
        with torch.cuda.device(device):  # torch answers for the current GPU
            # Without the argument torch says yes for a GPU that only imitates bfloat16.
            return torch.cuda.is_bf16_supported(including_emulation=False)
    return precision in ("float32", "float16")


def available_devices() -> list[DeviceChoice]:
    """All devices of this machine, best first; the CPU is always the last."""
    devices = []
    if torch.cuda.is_available():
        for index in range(torch.cuda.device_count()):
            name = f"cuda:{index}"
            devices.append(DeviceChoice(name, f"{torch.cuda.get_device_name(name)} (CUDA)"))
    if torch.backends.mps.is_available():
        devices.append(DeviceChoice("mps", "Apple GPU (Metal)"))
    why = "the processor" if devices else "no CUDA or Apple GPU was found"
    threads = torch.get_num_threads()
    unit = "thread" if threads == 1 else "threads"
    return [*devices, DeviceChoice("cpu", f"{why}, {threads} {unit}")]


def choose_device(wish: str = "auto") -> DeviceChoice:
    """The device for *wish*: "auto" (CUDA, else MPS, else CPU), "cuda", "cuda:1", "mps" or "cpu".

    Raises
    ------
    DeviceError
        If the device that was asked for is not there; the message lists those that are.
    """
    devices = available_devices()
    if wish == "auto":
        best = devices[0]
        return DeviceChoice(best.name, f"chosen automatically: {best.reason}")
    for found in devices:
        if wish in (found.name, found.name.split(":")[0]):
            return DeviceChoice(found.name, f"asked for: {found.reason}")
    names = ", ".join(["auto", *(found.name for found in devices)])
    raise DeviceError(f"Expected a device of this machine ({names}), got {wish!r}.")
