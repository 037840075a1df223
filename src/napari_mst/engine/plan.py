"""How much memory a run needs, and where its feature maps go: stated before it starts.

A run keeps three full-resolution feature maps (its result takes the place of one), one of a quarter
of their size, and a working set for each region in work. On a GPU whose memory has no room for the
maps they live in that of the computer. Where there is none either they live in a temporary file, of
which the system keeps in memory what there is room for: slower, and the same numbers. Where the
working sets alone are too much, fewer threads of a CPU take part.
"""

import math
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Literal

import torch

from napari_mst.engine.forms import native
from napari_mst.engine.forms.table import plain_values
from napari_mst.engine.memory import free_memory
from napari_mst.engine.schedule import Schedule, schedule
from napari_mst.errors import OutOfMemory
from napari_mst.networks.network import Program

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
# where the compiled kernels run: below so many pixels, bytes of all and of each thread; more stays
# mapped of a long run
_NATIVE_BYTES = (
    (80_000, 4 << 20, 4 << 20),
    (200_000, 7 << 20, 5 << 20),
    (800_000, 8 << 20, 12 << 20),
    (math.inf, 14 << 20, 24 << 20),
)
_PLAIN_BYTES = 58_000  # of each thread, for every value a pixel of a pass that has no fast form
_POINTWISE_BYTES = 9.4  # for every value a pixel of the rows that a thread has in work
_PUBLISHED_VALUES = 15 * 31  # a pixel of the published network: the bytes above are for as many
_MPS_BYTES = (
    1 << 32
)  # of a tensor: beyond it some operations of MPS fail (github.com/pytorch/pytorch/issues/149325)
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
        needs = (
            [f"{_bytes_text(self.device_memory)} of the GPU's memory"] if self.device_memory else []
        )
        needs += [f"{_bytes_text(self.memory)} of memory"]
        needs += [f"{_bytes_text(self.disk)} of disk"] if self.disk else []
        needs += [f"no more than {self.threads} of the threads"] if self.threads else []
        slower = "" if self.place == "device" and not self.threads else ": slower, same numbers"
        return f"needs {' and '.join(needs)}{slower}" + (
            f", in {self.precision}: {self.error}" if self.error else ""
        )


def pixelwise_rows(height: int, width: int) -> int:
    """Rows that a pixelwise network takes at once: few enough for a cancel to be felt, and for threads to share."""
    return max(min(_PIXELS // width, -(-height // _STEPS)), 1)


@dataclass(frozen=True, eq=False)
class Job:
    """A run that is to be planned.

    Attributes
    ----------
    program, height, width, device
        Of the run: the passes of the network, the size of the photo, and what computes.
    precision
        Of the maps that are kept; the name of a type of torch.
    has_total
        Whether a result of the same size is kept beside the run, to which its own is added.
    after
        Bytes that what follows the run takes besides the result.
    """

    program: Program
    height: int
    width: int
    device: torch.device
    precision: str = "float32"
    has_total: bool = False
    after: int = 0

    @property
    def number(self) -> int:
        """Bytes of a value of the maps."""
        return int(getattr(torch, self.precision).itemsize)

    @property
    def wide(self) -> int:
        """Bytes of a value of the photo and of the result."""
        return max(self.number, _FLOAT)

    @property
    def result(self) -> int:
        """Bytes of the result."""
        return self.program.output.channels * self.height * self.width * self.wide

    @property
    def total(self) -> int:
        """Bytes of the result that is kept beside it."""
        return self.result if self.has_total else 0


@dataclass(frozen=True)
class Budget:
    """Bytes that a run may take of the computer's memory and of a GPU's own; None: most of what is free."""

    memory: int | None = None
    device_memory: int | None = None

    def settled(self, device: torch.device) -> tuple[int, int]:
        """Both in numbers: of the computer's memory, and of that of *device*."""
        memory, device_memory = self.memory, self.device_memory
        if memory is None:
            memory = int(free_memory(torch.device("cpu")) * MARGIN)
        if device_memory is None:
            device_memory = int(free_memory(device) * MARGIN) if device.type != "cpu" else 0
        return memory, device_memory


def make_plan(job: Job, budget: Budget = Budget(), *, or_least: bool = False) -> Plan:
    """The fastest plan for *job* within *budget*.

    *or_least*: where none is within it, the one that needs least rather than an error.

    Raises
    ------
    OutOfMemory
        If it fits neither into memory nor onto the disk; the message gives the bytes needed and free.
    """
    device = job.device
    memory, device_memory = budget.settled(device)
    free_disk = shutil.disk_usage(tempfile.gettempdir()).free
    plans = list(all_plans(job))
    possible = [plan for plan in plans if plan.disk <= free_disk * MARGIN]
    for plan in possible:
        own = (
            plan.device_memory if device.type == "mps" else 0
        )  # which is the computer's memory, too
        if plan.memory + own <= memory and plan.device_memory <= device_memory:
            return plan
    if or_least:
        return min(possible, key=lambda plan: plan.needs)
    needed = _bytes_text(plans[0].memory + plans[0].device_memory)
    here = f" (and {_bytes_text(device_memory)} on {device})" if device.type != "cpu" else ""
    raise OutOfMemory(
        f"Expected {needed} of free memory for {job.height} x {job.width} pixels on {device}, "
        f"got {_bytes_text(memory)}{here} (and {_bytes_text(free_disk)} of disk). Take the CPU or a smaller image."
    )


def all_plans(job: Job) -> Iterator[Plan]:
    """All plans for *job*, the fastest first."""
    planned = schedule(job.program)
    slabs, _ = planned.storage(job.height, job.width, job.number, job.wide)
    plans = _cpu_plans if job.device.type == "cpu" else _gpu_plans
    yield from plans(job, planned, sum(slabs))


def _cpu_plans(job: Job, planned: Schedule, maps: int) -> Iterator[Plan]:
    most = torch.get_num_threads()
    whole = _whole_values(job, planned) * job.wide
    for halved in range(most.bit_length()):
        threads = most >> halved
        working = _cpu_bytes(job, planned, threads) * job.wide // _FLOAT + _rows_bytes(job) + whole
        fewer = threads if threads < most else 0
        yield Plan("device", job.precision, memory=maps + job.total + working, threads=fewer)
        yield Plan(
            "file",
            job.precision,
            memory=max(working, job.after),
            disk=maps + job.total,
            threads=fewer,
        )


def _gpu_plans(job: Job, planned: Schedule, maps: int) -> Iterator[Plan]:
    has_streams = job.device.type == "cuda" and not planned.is_pointwise
    streams = STREAMS if has_streams else 1
    largest = max(job.result, planned.largest_map(job.height, job.width, job.number))
    is_too_large = job.device.type == "mps" and largest >= _MPS_BYTES
    places: tuple[Place, ...] = ("device", "memory", "file")
    for place, pixels in product(
        places, (GPU_PIXELS, GPU_PIXELS >> 2, GPU_PIXELS >> 4, GPU_PIXELS >> 6)
    ):
        region = _gpu_region(job, planned, pixels)
        working = max(region * planned.values, _whole_values(job, planned)) * job.number
        photo = _PHOTO_ROWS * region * job.program.in_bands * _FLOAT
        if place == "device":
            if not is_too_large:
                host = job.result + job.total + max(photo, job.after)
                yield Plan(place, job.precision, host, maps + working, pixels=pixels)
            continue
        copy = _power_of_2(int(region * planned.kept_values) * job.number)
        copies = STREAMS * _PINNED * copy if has_streams else 0
        kept = maps + job.total
        host, disk = (kept, 0) if place == "memory" else (0, kept)
        yield Plan(
            place,
            job.precision,
            host + max(photo + copies, job.after),
            streams * working,
            disk,
            pixels,
        )


def _gpu_region(job: Job, planned: Schedule, pixels: int) -> int:
    """Pixels of a region of about *pixels*, with its halo."""
    height, width = job.program.padded(job.height, job.width)
    return min(gpu_rows(width, pixels) + 2 * planned.reach, height) * width


def _whole_values(job: Job, planned: Schedule) -> int:
    """Values that the passes work with which take the whole image at once."""
    if not any(sweep.is_whole for sweep in planned.sweeps):
        return 0
    height, width = job.program.padded(job.height, job.width)
    return height * width * planned.values


def gpu_rows(width: int, pixels: int) -> int:
    """Rows of the regions on a GPU: whole rows, of which it copies one block of memory."""
    return max(pixels // width // 2 * 2, 2)


def _power_of_2(size: int) -> int:
    """What is kept for so much pinned memory."""
    return 1 << max(size - 1, 0).bit_length()


def _cpu_bytes(job: Job, planned: Schedule, threads: int) -> int:
    """Bytes of what *threads* of a CPU work with in float32: as measured, see benchmarks/memory.py."""
    pixels = job.height * job.width
    if planned.is_pointwise:
        of_rows = (
            _POINTWISE_BYTES * planned.values * pixelwise_rows(job.height, job.width) * job.width
        )
        return int((2 * threads + job.has_total) * of_rows) // 2
    more = max(planned.values / _PUBLISHED_VALUES, 1)
    if job.precision == "float32" and native.is_installed():
        of_all, of_each = next(rest for limit, *rest in _NATIVE_BYTES if pixels < limit)
        of_plain = _PLAIN_BYTES * plain_values(job.program, job.device, torch.float32)
        return int(of_all + threads * (of_each * more + of_plain))
    share = min(0.5 + pixels / _LARGE / 2, 1)
    of_thread = min(share, pixels / _SMALL) * _THREAD_BYTES * more
    return int(share * (_KERNEL_BYTES + job.has_total * _TURNED_BYTES) + threads * of_thread)


def _rows_bytes(job: Job) -> int:
    """Bytes of the rows of the photo that a run keeps at hand."""
    return 4 * 80 * job.width * job.program.in_bands * _FLOAT


def _bytes_text(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 10**8 else f"{size / 1e6:.0f} MB"
