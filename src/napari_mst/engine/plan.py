"""How much memory a run needs, and where its feature maps go: stated before it starts.

A run keeps three full-resolution feature maps (its result takes the place of one), one of a quarter of their size, and
a working set for each region in work. On a GPU whose memory has no room for the maps they live in that of the computer.
Where there is none either they live in a temporary file, of which the system keeps in memory what there is room for:
slower, and the same numbers. Where the working sets alone are too much, fewer threads of a CPU take part.
"""

import math
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Literal

import torch

from napari_mst.engine import native
from napari_mst.engine.memory import free_memory
from napari_mst.errors import OutOfMemory
from napari_mst.models.mst_plus_plus import MULTIPLE, Hyperparameters
from napari_mst.models.pixelwise import PixelwiseHyperparameters
from napari_mst.models.refining import RefiningHyperparameters
from napari_mst.models.spectral_attention import HALO

MAPS = 3.25
"""Full-resolution feature maps that a run keeps."""

MARGIN = 0.8
"""Share of the free memory that is used without being asked."""

GPU_PIXELS = 1 << 20
"""Pixels of the regions on a GPU, at most; as few as a 64th of it where memory is short."""

STREAMS = 2
"""Regions in work at a time on a GPU whose maps are elsewhere: one is copied while the other is computed."""

_FLOAT = 4
_PIXELS = 1 << 14
_STEPS = 16
_THREAD_BYTES = 13_000_000
_KERNEL_BYTES = 32_000_000  # what is kept of the kernels that oneDNN makes for every shape
_TURNED_BYTES = 15_000_000  # and of those for the transposed photo of an ensemble
_LARGE = 1 << 18  # pixels below which a run takes fewer shapes and smaller ones
_SMALL = 70_000  # pixels below which what a thread has in work is smaller by as much as the photo
# where the compiled kernels run: below so many pixels, bytes of all and of each thread; more stays mapped of a long run
_NATIVE_BYTES = ((200_000, 7 << 20, 5 << 20), (800_000, 8 << 20, 12 << 20), (math.inf, 14 << 20, 24 << 20))
_REFINING_BYTES = 8 << 20  # of each thread, where a pixelwise network estimates first
_PIXELWISE_BYTES = 1350  # a pixel of the rows that a thread has in work
_GPU_VALUES = 15  # three hidden layers of 4 C channels of a region, its input and output, a pixel and channel
_MPS_BYTES = 1 << 32  # of a tensor: beyond it some operations of MPS fail (github.com/pytorch/pytorch/issues/149325)
_PIXELWISE_VALUES = 2.25  # a pixel and channel of the hidden layers
_PHOTO_ROWS = 6  # copies of the photo's rows of a region: those that were read last, and those that are put together
_PINNED = 3  # copies of a region in pinned memory: two that are read and one that is written

Place = Literal["device", "memory", "file"]


@dataclass(frozen=True)
class Plan:
    """How one run is to be done, and the bytes that it takes.

    Attributes
    ----------
    place
        Where the feature maps live: on the device, in the memory of the computer (the same on a CPU), or in a file.
    precision
        Of the feature maps and of what is computed from them; "" is that of the network.
    memory, device_memory, disk
        Bytes of the computer's memory, of a GPU's own, and of disk.
    pixels
        Of the regions on a GPU.
    error
        What the precision costs, in one clause, if it was measured.
    threads
        Of a CPU, where there is no memory for as many as torch has; else 0.
    """

    place: Place = "device"
    precision: str = ""
    memory: int = 0
    device_memory: int = 0
    disk: int = 0
    pixels: int = GPU_PIXELS
    error: str = ""
    threads: int = 0

    @property
    def needs(self) -> tuple[int, int]:
        """Bytes of a GPU's memory and of the computer's, to be compared: the scarcer first."""
        return self.device_memory, self.memory

    def dtype(self, own: torch.dtype) -> torch.dtype:
        """Of the feature maps of a network whose *own* type is this."""
        return getattr(torch, self.precision) if self.precision else own

    def __str__(self) -> str:
        """What it needs, for a person: the end of a sentence."""
        needs = [f"{_bytes_text(self.device_memory)} of the GPU's memory"] if self.device_memory else []
        needs += [f"{_bytes_text(self.memory)} of memory"]
        needs += [f"{_bytes_text(self.disk)} of disk"] if self.disk else []
        needs += [f"no more than {self.threads} of the threads"] if self.threads else []
        slower = "" if self.place == "device" and not self.threads else ": slower, same numbers"
        return f"needs {' and '.join(needs)}{slower}" + (f", in {self.precision}: {self.error}" if self.error else "")


def pixelwise_rows(height: int, width: int) -> int:
    """Rows that a pixelwise network takes at once: few enough for a cancel to be felt, and for threads to share."""
    return max(min(_PIXELS // width, -(-height // _STEPS)), 1)


Parameters = Hyperparameters | PixelwiseHyperparameters


def make_plan(
    parameters: Parameters,
    height: int,
    width: int,
    device: torch.device,
    memory: int | None = None,
    device_memory: int | None = None,
    has_total: bool = False,
    precision: str = "float32",
    after: int = 0,
    or_least: bool = False,
) -> Plan:
    """The fastest plan for a photo of *height* x *width* pixels within *memory* bytes of the computer's.

    On a GPU also within *device_memory* bytes of its own; both are most of what is free by default. *has_total*: a
    result of the same size is kept beside the run, to which its own is added. *after*: bytes that what follows the run
    takes besides the result. *or_least*: where none is within them, the one that needs least rather than an error.

    Raises
    ------
    OutOfMemory
        If it fits neither into memory nor onto the disk; the message gives the bytes needed and free.
    """
    memory = int(free_memory(torch.device("cpu")) * MARGIN) if memory is None else memory
    if device_memory is None:
        device_memory = int(free_memory(device) * MARGIN) if device.type != "cpu" else 0
    free_disk = shutil.disk_usage(tempfile.gettempdir()).free
    plans = list(_plans(parameters, height, width, device, has_total, precision, after))
    possible = [plan for plan in plans if plan.disk <= free_disk * MARGIN]
    for plan in possible:
        own = plan.device_memory if device.type == "mps" else 0  # which is the computer's memory, too
        if plan.memory + own <= memory and plan.device_memory <= device_memory:
            return plan
    if or_least:
        return min(possible, key=lambda plan: plan.needs)
    needed = _bytes_text(plans[0].memory + plans[0].device_memory)
    here = f" (and {_bytes_text(device_memory)} on {device})" if device.type != "cpu" else ""
    raise OutOfMemory(
        f"Expected {needed} of free memory for {height} x {width} pixels on {device}, got {_bytes_text(memory)}{here} "
        f"(and {_bytes_text(free_disk)} of disk). Take the CPU or a smaller image."
    )


def _plans(
    parameters: Parameters,
    height: int,
    width: int,
    device: torch.device,
    has_total: bool,
    precision: str,
    after: int,
) -> Iterator[Plan]:
    """All plans, the fastest first."""
    number = getattr(torch, precision).itemsize
    wide = max(number, _FLOAT)
    result = parameters.out_bands * height * width * wide
    padded = (-(-height // MULTIPLE) * MULTIPLE) * (-(-width // MULTIPLE) * MULTIPLE)
    maps = _maps(parameters, padded, number, wide)
    total = has_total * result
    if device.type == "cpu":
        most = torch.get_num_threads()
        for threads in (most >> halved for halved in range(most.bit_length())):
            working = _cpu_bytes(parameters, height, width, has_total, precision, threads) * wide // _FLOAT
            working += _rows_bytes(parameters, width)
            fewer = threads if threads < most else 0
            yield Plan("device", precision, memory=maps + total + working, threads=fewer)
            yield Plan("file", precision, memory=max(working, after), disk=maps + total, threads=fewer)
        return
    has_streams = device.type == "cuda" and not isinstance(parameters, PixelwiseHyperparameters)
    places: tuple[Place, ...] = ("device", "memory", "file")
    for place, pixels in product(places, (GPU_PIXELS, GPU_PIXELS >> 2, GPU_PIXELS >> 4, GPU_PIXELS >> 6)):
        region, values = _gpu_region(parameters, height, width, pixels)
        working, photo = values * number, _PHOTO_ROWS * region * parameters.in_bands * _FLOAT
        if place == "device":
            if device.type != "mps" or max(result, maps / MAPS) < _MPS_BYTES:
                yield Plan(place, precision, result + total + max(photo, after), maps + working, pixels=pixels)
            continue
        streams = STREAMS if has_streams else 1
        copies = STREAMS * _PINNED * _power_of_2(region * parameters.width * number) if has_streams else 0
        host, disk = (maps + total, 0) if place == "memory" else (0, maps + total)
        yield Plan(place, precision, host + max(photo + copies, after), streams * working, disk, pixels)


def _gpu_region(parameters: Parameters, height: int, width: int, pixels: int) -> tuple[int, int]:
    """Pixels of a region of *pixels* with its halo, and the values that a GPU works with in it."""
    if isinstance(parameters, PixelwiseHyperparameters):
        region = min(gpu_rows(width, pixels), height) * width
        return region, int(region * _PIXELWISE_VALUES * parameters.width)
    height, width = (-(-side // MULTIPLE) * MULTIPLE for side in (height, width))
    region = min(gpu_rows(width, pixels) + 2 * (HALO + 1), height) * width
    return region, region * _GPU_VALUES * parameters.width


def gpu_rows(width: int, pixels: int) -> int:
    """Rows of the regions on a GPU: whole rows, of which it copies one block of memory."""
    return max(pixels // width // 2 * 2, 2)


def _power_of_2(size: int) -> int:
    """What is kept for so much pinned memory."""
    return 1 << max(size - 1, 0).bit_length()


def _maps(parameters: Parameters, pixels: int, number: int, wide: int) -> int:
    """Bytes of what a run keeps: its feature maps; or nothing but the result of a pixelwise network."""
    if isinstance(parameters, PixelwiseHyperparameters):
        return pixels * parameters.out_bands * wide
    of_map = pixels * parameters.width * number
    return int((MAPS - 1) * of_map) + max(of_map, pixels * parameters.out_bands * wide)


def _cpu_bytes(parameters: Parameters, height: int, width: int, has_total: bool, precision: str, threads: int) -> int:
    """Bytes of what *threads* of a CPU work with in float32: as measured, see benchmarks/memory.py."""
    if isinstance(parameters, PixelwiseHyperparameters):
        return (2 * threads + has_total) * _PIXELWISE_BYTES * pixelwise_rows(height, width) * width // 2
    if precision == "float32" and native.is_installed():
        of_all, of_each = next(rest for pixels, *rest in _NATIVE_BYTES if height * width < pixels)
        return of_all + threads * (of_each + isinstance(parameters, RefiningHyperparameters) * _REFINING_BYTES)
    share = min(0.5 + height * width / _LARGE / 2, 1)
    of_thread = min(share, height * width / _SMALL) * _THREAD_BYTES
    return int(share * (_KERNEL_BYTES + has_total * _TURNED_BYTES) + threads * of_thread)


def _rows_bytes(parameters: Parameters, width: int) -> int:
    """Bytes of the rows of the photo that a run keeps at hand."""
    return 4 * 80 * width * parameters.in_bands * _FLOAT


def _bytes_text(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 10**8 else f"{size / 1e6:.0f} MB"
