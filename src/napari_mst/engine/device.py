"""Devices: which one computes, why, and in which precisions."""

import platform
import re
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from napari_mst.base.errors import DeviceError
from napari_mst.base.threads import threads_of_cpu, torch_if_imported

PRECISIONS = ("float32", "bfloat16", "float16", "float64")
"""The types of numbers by their names in torch, the default first."""

ARM = ("aarch64", "arm64")


class Device(str):
    """The name of a device; torch takes it wherever it takes a `torch.device`."""

    __slots__ = ()

    @property
    def type(self) -> str:
        """The kind of device, as "cpu"."""
        return self.split(":")[0]


CPU = Device("cpu")
"""The processor, for which nothing has to be imported."""


def name_of(dtype: Any) -> str:
    """The name of a type of numbers, of NumPy or torch: "float32"."""
    return str(dtype).removeprefix("torch.")


def may_have_gpu() -> bool:
    """False if torch, which takes long to import, would surely find no GPU: its build says so."""
    found = find_spec("torch")
    if torch_if_imported() is not None or found is None or sys.platform == "darwin":
        return True
    # Its libraries lie elsewhere in some distributions; each build has this file.
    build = Path(found.origin or "").with_name("version.py")
    said = build.read_text() if build.is_file() else ""
    return any(
        not re.search(rf"^{kind}\b.*= None$", said, re.MULTILINE) for kind in ("cuda", "hip")
    )


def computes_in(dtype: Any) -> bool:
    """True if torch computes in *dtype* on this processor, not in float32 behind it."""
    import torch

    if dtype.itemsize != 2:
        return dtype == torch.float32
    name = "bf16" if dtype == torch.bfloat16 else "fp16"
    has_onednn = torch.backends.mkldnn.is_available()
    return has_onednn and bool(getattr(torch.ops.mkldnn, f"_is_mkldnn_{name}_supported")())


def has_bfloat16() -> bool:
    """True if this processor has instructions for bfloat16: torch can also imitate, slowly."""
    import torch

    return torch.cpu._is_avx512_bf16_supported() or has_amx() or platform.machine() in ARM


def has_amx() -> bool:
    """True if this processor computes in 16 bits on the tiles of Intel's AMX."""
    import torch

    return bool(torch.cpu._is_amx_tile_supported())


@dataclass(frozen=True)
class DeviceChoice:
    """A device by its torch name ("cpu", "cuda:0", "mps"), and a sentence for the user on why."""

    name: str
    reason: str

    @property
    def device(self) -> Any:
        """The device, as torch takes it."""
        if self.name == CPU:
            return CPU
        import torch

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
            If the device does not support the precision; the message lists the supported ones.
        """
        if self.name == CPU and precision in ("float32", "float64"):
            return  # every CPU has them; torch need not be asked
        if precision not in self.precisions:
            have = ", ".join(self.precisions)
            raise DeviceError(
                f"Expected a precision of {self.name} ({have}), got {precision!r}. "
                "Take one of these: it gains nothing from another."
            )


def _has(device: Any, precision: str) -> bool:
    import torch

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
    if not may_have_gpu():
        return [_cpu("no CUDA or Apple GPU was found")]
    import torch

    devices = []
    if torch.cuda.is_available():
        for index in range(torch.cuda.device_count()):
            name = f"cuda:{index}"
            devices.append(DeviceChoice(name, f"{torch.cuda.get_device_name(name)} (CUDA)"))
    if torch.backends.mps.is_available():
        devices.append(DeviceChoice("mps", "Apple GPU (Metal)"))
    why = "the processor" if devices else "no CUDA or Apple GPU was found"
    return [*devices, _cpu(why)]


def _cpu(why: str) -> DeviceChoice:
    threads = threads_of_cpu()
    unit = "thread" if threads == 1 else "threads"
    return DeviceChoice("cpu", f"{why}, {threads} {unit}")


def choose_device(wish: str = "auto") -> DeviceChoice:
    """The device for *wish*: "auto" (CUDA, else MPS, else CPU), "cuda", "cuda:1", "mps" or "cpu".

    Raises
    ------
    DeviceError
        If the requested device is missing; the message lists the available devices.
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
