"""Which device computes, and why."""

from dataclasses import dataclass

import torch

from napari_mst.errors import DeviceError


@dataclass(frozen=True)
class DeviceChoice:
    """A device by its torch name ("cpu", "cuda:0", "mps") and one sentence, for the user, on why it was taken."""

    name: str
    reason: str

    @property
    def device(self) -> torch.device:
        """The torch device."""
        return torch.device(self.name)


def available_devices() -> list[DeviceChoice]:
    """All devices of this machine, best first; the CPU is always the last."""
    cuda = [f"cuda:{index}" for index in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    devices = [DeviceChoice(name, f"{torch.cuda.get_device_name(name)} (CUDA)") for name in cuda]
    if torch.backends.mps.is_available():
        devices.append(DeviceChoice("mps", "Apple GPU (Metal)"))
    why = "the processor" if devices else "no CUDA or Apple GPU was found"
    threads = torch.get_num_threads()
    return [*devices, DeviceChoice("cpu", f"{why}, {threads} thread{'s' * (threads > 1)}")]


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
