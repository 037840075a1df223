"""How much memory a run needs, and where its feature maps go: stated before it starts.

A run keeps three full-resolution feature maps (its result takes the place of one), one of a quarter of their size, and
a working set for each thread. Where the maps do not fit into the memory budget of a CPU they live in a temporary file,
of which the system keeps in memory what there is room for: slower, and the same numbers.
"""

import shutil
import tempfile
from dataclasses import dataclass

import torch

from napari_mst.engine import native
from napari_mst.engine.memory import free_memory
from napari_mst.errors import OutOfMemory
from napari_mst.models.mst_plus_plus import MULTIPLE, Hyperparameters
from napari_mst.models.pixelwise import PixelwiseHyperparameters

MAPS = 3.25
"""Full-resolution feature maps that a run keeps."""

MARGIN = 0.8
"""Share of the free memory that is used without being asked."""

_FLOAT = 4
_THREAD_BYTES = 24 << 20
_NATIVE_BYTES, _NATIVE_THREAD_BYTES = 8 << 20, 12 << 20  # where the compiled kernels run
_GPU_BYTES_PER_PIXEL = 3 * 4 * 4 * _FLOAT  # three hidden layers of 4 C channels of a region, a channel


@dataclass(frozen=True)
class Plan:
    """Where the feature maps of one run live, and the bytes that it takes there and besides."""

    is_in_file: bool
    memory: int
    disk: int = 0

    def __str__(self) -> str:
        """One sentence for a person."""
        if self.is_in_file:
            return (
                f"needs {_gigabytes(self.disk)} of disk and {_gigabytes(self.memory)} of memory: slower, same numbers"
            )
        return f"needs {_gigabytes(self.memory)} of memory"


Parameters = Hyperparameters | PixelwiseHyperparameters


def make_plan(
    parameters: Parameters,
    height: int,
    width: int,
    device: torch.device,
    budget: int | None = None,
    has_total: bool = False,
    number: int = 4,
) -> Plan:
    """The plan for a photo of *height* x *width* pixels within *budget* bytes (by default most of what is free).

    *has_total*: a result of the same size is kept beside the run, to which its own is added. *number*: bytes of each
    number, 4 or 8.

    Raises
    ------
    OutOfMemory
        If it fits neither into memory nor onto the disk; the message gives the bytes needed and free.
    """
    budget = int(free_memory(device) * MARGIN) if budget is None else budget
    padded = (-(-height // MULTIPLE) * MULTIPLE) * (-(-width // MULTIPLE) * MULTIPLE)
    maps = int(padded * (_kept_channels(parameters) + has_total * parameters.out_bands) * number)
    has_own_result = isinstance(parameters, Hyperparameters) and parameters.out_bands > parameters.width
    result = parameters.out_bands * height * width * number if has_own_result else 0
    working = _working_set(parameters, width, padded, device, number) * number // _FLOAT + result
    if maps + working <= budget:
        return Plan(is_in_file=False, memory=maps + working)
    free_disk = shutil.disk_usage(tempfile.gettempdir()).free
    if device.type != "cpu" or working > budget or maps > free_disk * MARGIN:
        raise OutOfMemory(
            f"Expected {_gigabytes(maps + working)} of free memory for {height} x {width} pixels on {device}, "
            f"got {_gigabytes(budget)} (and {_gigabytes(free_disk)} of disk). Take the CPU or a smaller image."
        )
    return Plan(is_in_file=True, memory=working, disk=maps)


def _kept_channels(parameters: Parameters) -> float:
    """Values a pixel that a run keeps: its feature maps; or nothing but the result of a pixelwise network."""
    return parameters.out_bands if isinstance(parameters, PixelwiseHyperparameters) else MAPS * parameters.width


def _working_set(parameters: Parameters, width: int, pixels: int, device: torch.device, number: int) -> int:
    if device.type != "cpu":
        return min(pixels, 1 << 20) * parameters.width * _GPU_BYTES_PER_PIXEL
    rows_of_photo = 4 * 80 * width * parameters.in_bands * _FLOAT
    if number == _FLOAT and native.is_installed():
        return _NATIVE_BYTES + torch.get_num_threads() * _NATIVE_THREAD_BYTES + rows_of_photo
    return torch.get_num_threads() * _THREAD_BYTES + rows_of_photo


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB"
