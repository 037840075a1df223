"""The plan of a run, made before it starts: how much memory it needs, and where its maps go.

A run keeps two full-resolution feature maps (its result takes the place of one), and a working set
for each tile in work. On Linux, rows of a map that were read for the last time go back to the
system. Where a GPU has no room for the maps, they live in the memory of the computer. Where that
has no room either, a temporary file holds them, and the system caches as much of it as fits:
slower, with the same numbers. Where the working sets alone need too much memory, fewer threads of a
CPU take part.
"""

import math
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from napari_mst.base.errors import OutOfMemory
from napari_mst.base.memory import free_host_memory
from napari_mst.base.threads import threads_of_cpu
from napari_mst.engine.device import CPU, has_amx, name_of
from napari_mst.engine.fast_paths import native
from napari_mst.engine.features import array_type
from napari_mst.engine.pages import HAS_PAGES
from napari_mst.engine.schedule import Schedule, schedule, thrifty
from napari_mst.engine.steps import plain_values
from napari_mst.engine.windows import FAR, FAR_SIDE, KERNEL_ROWS, kernel_tile
from napari_mst.networks.network import Program


def free_memory(device: Any) -> int:
    """Bytes of memory that are free on *device*.

    On a GPU, memory that torch keeps from deleted tensors counts as free.
    """
    if device.type == "cuda":
        import torch

        kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + kept
    if device.type == "mps":
        import torch

        return torch.mps.recommended_max_memory() - torch.mps.current_allocated_memory()
    return free_host_memory()


MARGIN = 0.8
"""Share of the free memory that a run may use without a budget."""

GPU_PIXELS = 1 << 20
"""Most pixels of a tile on a GPU; down to a 64th of that where memory is short."""

STREAMS = 2
"""Tiles in work at a time on a GPU whose maps are elsewhere: one is copied, the other computed."""

_FLOAT = 4

# Rows that a pixelwise network takes at once: the most pixels in them, and the fewest steps into
# which a small photo is cut.
_PIXELS = 1 << 14
_STEPS = 16

# Memory that torch alone takes on a CPU, measured by lab/benchmarks/memory.py.
_THREAD_BYTES = 24_000_000
_KERNEL_BYTES = 38_000_000  # kernels that oneDNN makes for every shape, and keeps
_TURNED_BYTES = 50_000_000  # more of them for the transposed photo of eight passes
_AMX_BYTES = 35_000_000  # more of them for 16 bits on the tiles of Intel's AMX
_LARGE = 1 << 18  # pixels below which a run takes fewer shapes and smaller ones

# What compiled kernels take: up to so many pixels, bytes of all threads together and of each. They
# grow with the photo, because more memory stays mapped in a long run.
_SMALL = 80_000
_COMPILED_BYTES = (
    (_SMALL, 6 << 20, 4 << 20),
    (130_000, 6 << 20, 8 << 20),
    (200_000, 8 << 20, 10 << 20),
    (400_000, 12 << 20, 16 << 20),
    (3_000_000, 24 << 20, 32 << 20),
    (16_000_000, 40 << 20, 32 << 20),
    (math.inf, 112 << 20, 32 << 20),
)
_TOTAL_BYTES = 6_000_000  # of each thread, for a mean over turned photos
_PUBLISHED_VALUES = 15 * 31  # a pixel of the published network, for which these bytes were measured

_PLAIN_BYTES = 58_000  # of each thread, for every value a pixel of a pass that has no fast path
_PLAIN_PIXELS = 1 << 14  # of the tiles for which that was measured, with their halo
_POINTWISE_BYTES = 14  # for every value a pixel of the rows that a thread has in work
_POINTWISE_KERNEL_BYTES = 5_200_000  # of a compiled one, besides two copies of those rows' result

# Some operations of MPS fail on larger tensors: github.com/pytorch/pytorch/issues/149325.
_MPS_BYTES = 1 << 32

_PHOTO_ROWS = 6  # copies of the photo's rows of a tile: the last ones read, and those put together
_CACHED_ROWS = 4 * 80  # rows of the photo that a run on a CPU keeps at hand
_PINNED = 3  # copies of a tile in pinned memory: two that are read and one that is written

Place = Literal["device", "memory", "file"]


@dataclass(frozen=True)
class Plan:
    """The way one run is done, and the bytes it needs.

    Attributes
    ----------
    place
        Where the feature maps live: on the device, in the memory of the computer (the same on a
        CPU), or in a file.
    precision
        The type of the feature maps and of what is computed from them; "" is that of the network.
    memory, device_memory, disk
        Bytes of the computer's memory, of a GPU's own, and of disk.
    pixels
        Pixels of the tiles on a GPU.
    error
        The cost of the precision, in one clause, if it was measured.
    threads
        Threads of a CPU, where memory allows fewer than torch would use; else 0.
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
        """Bytes of a GPU's memory and of the computer's: the scarcer comes first in comparisons."""
        return self.device_memory, self.memory

    def dtype(self, own: Any) -> Any:
        """The type of the feature maps of a network whose weights are of type *own*."""
        return dtype_of(self.precision, own) if self.precision else own

    def __str__(self) -> str:
        """The needs of the run in words: the end of a sentence."""
        needs = [f"{_bytes_text(self.memory)} of memory"]
        if self.device_memory:
            needs.insert(0, f"{_bytes_text(self.device_memory)} of the GPU's memory")
        if self.disk:
            needs.append(f"{_bytes_text(self.disk)} of disk")
        if self.threads:
            needs.append(f"no more than {self.threads} of the threads")
        is_slower = self.place != "device" or self.threads
        slower = ": slower, same numbers" if is_slower else ""
        narrow = f", in {self.precision}: {self.error}" if self.error else ""
        return f"needs {' and '.join(needs)}{slower}{narrow}"


def dtype_of(precision: str, own: Any) -> Any:
    """The type *precision*; a network whose weights are of the *own* type has it already."""
    if name_of(own) == precision:
        return own
    import torch

    return getattr(torch, precision)


def pixelwise_rows(height: int, width: int) -> int:
    """Rows that a pixelwise network takes at once.

    They are few enough for a cancel to be felt, and for threads to share a small photo.
    """
    return max(min(_PIXELS // width, -(-height // _STEPS)), 1)


@dataclass(frozen=True, eq=False)
class PlannedRun:
    """A run to plan.

    Attributes
    ----------
    program, height, width, device
        The passes of the network, the size of the photo, and the device that computes.
    precision
        The type of the maps that are kept, by its name in torch.
    has_total
        Whether the result is added to a total of the same size, which stays in memory.
    after
        Bytes that the work after the run takes besides the result.
    beside
        Bytes of the computer's memory that other work uses throughout the run.
    """

    program: Program
    height: int
    width: int
    device: Any
    precision: str = "float32"
    has_total: bool = False
    after: int = 0
    beside: int = 0

    @property
    def dtype(self) -> Any:
        """The type of the maps."""
        return dtype_of(self.precision, self.program.dtype)

    @property
    def number(self) -> int:
        """Bytes of a value of the maps."""
        return int(self.dtype.itemsize)

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


def make_plan(
    job: PlannedRun,
    memory: int | None = None,
    device_memory: int | None = None,
    *,
    or_least: bool = False,
) -> Plan:
    """The fastest plan for *job* within bytes of the computer's memory and of a GPU's.

    A budget of None is most of the free memory. With *or_least*, the plan that needs least replaces
    the error where none is within the budget.

    Raises
    ------
    OutOfMemory
        If it fits neither into memory nor onto the disk; the message says what is needed and free.
    """
    device = job.device
    if memory is None:
        memory = int(free_memory(CPU) * MARGIN)
    if device_memory is None:
        device_memory = int(free_memory(device) * MARGIN) if device.type != "cpu" else 0
    free_disk = shutil.disk_usage(tempfile.gettempdir()).free
    plans = list(all_plans(job))
    possible = [plan for plan in plans if plan.disk <= free_disk * MARGIN]
    for plan in possible:  # the fastest first
        # The memory of an Apple GPU is that of the computer.
        shared = plan.device_memory if device.type == "mps" else 0
        if plan.memory + shared <= memory and plan.device_memory <= device_memory:
            return plan
    least = min(possible, key=lambda plan: plan.needs)
    if or_least:
        return least
    raise _out_of_memory(job, least, (memory, device_memory, free_disk))


def _out_of_memory(job: PlannedRun, least: Plan, free: tuple[int, int, int]) -> OutOfMemory:
    """The error that names the smallest sufficient budget, and the *free* memory and disk."""
    memory, device_memory, disk = map(_bytes_text, free)
    needed, advice = _bytes_text(least.memory, math.ceil), "Take a smaller image"
    if job.device.type != "cpu":
        needed += f" (and {_bytes_text(least.device_memory, math.ceil)} on {job.device})"
        memory += f" (and {device_memory} on {job.device})"
        advice = "Take the CPU or a smaller image"
    return OutOfMemory(
        f"Expected {needed} of free memory for {job.height} x {job.width} pixels on {job.device}, "
        f"got {memory} (and {disk} of disk). {advice}."
    )


def all_plans(job: PlannedRun) -> Iterator[Plan]:
    """All plans for *job*, the fastest first."""
    planned = schedule(thrifty(job.program, job.device, job.dtype))
    slabs, _ = planned.storage(job.height, job.width, job.number, job.wide)
    plans = _cpu_plans if job.device.type == "cpu" else _gpu_plans
    for plan in plans(job, planned, sum(slabs)):
        yield replace(plan, memory=plan.memory + job.beside)


def _cpu_plans(job: PlannedRun, planned: Schedule, maps: int) -> Iterator[Plan]:
    """Plans with the *maps* in memory or in a file, and with ever fewer threads."""
    most = threads_of_cpu()
    whole = _whole_values(job, planned) * job.wide + _gathered_bytes(job, planned)
    kept = maps + job.total
    most_kept = kept
    if HAS_PAGES and array_type(job.device, job.dtype) is not None:
        # Rows go back when all tiles beside each other are done.
        of_tiles = int(KERNEL_ROWS * job.width * planned.kept_values) * job.number
        in_memory = planned.peak(job.height, job.width, job.number, job.wide) + of_tiles
        most_kept = min(kept, in_memory + job.total)
    cached = 0 if planned.is_pointwise else _CACHED_ROWS
    of_rows = cached * job.width * job.program.in_bands * _FLOAT
    for halved in range(most.bit_length()):
        threads = most >> halved
        of_threads = _cpu_bytes(job, planned, threads) * job.wide // _FLOAT
        working = of_threads + of_rows + whole
        fewer = threads if threads < most else 0
        # The work after the run may take more than the run itself, half of which stays mapped.
        in_memory = max(working, job.after and job.after + of_threads // 2)
        in_all = max(most_kept + working, job.result + job.total + job.after)
        yield Plan("device", job.precision, memory=in_all, threads=fewer)
        yield Plan("file", job.precision, memory=in_memory, disk=kept, threads=fewer)


def _gpu_plans(job: PlannedRun, planned: Schedule, maps: int) -> Iterator[Plan]:
    """Plans with the *maps* in each place, with a quarter of the pixels from one to the next."""
    largest = max(job.result, planned.largest_map(job.height, job.width, job.number))
    is_too_large = job.device.type == "mps" and largest >= _MPS_BYTES
    sizes = (GPU_PIXELS, GPU_PIXELS >> 2, GPU_PIXELS >> 4, GPU_PIXELS >> 6)
    if not is_too_large:
        yield from (_plan_on_gpu(job, planned, maps, pixels) for pixels in sizes)
    yield from (_plan_apart(job, planned, maps, pixels) for pixels in sizes)
    for pixels in sizes:
        in_memory = _plan_apart(job, planned, 0, pixels)
        kept = maps + job.total
        yield replace(in_memory, place="file", memory=in_memory.memory - job.total, disk=kept)


def _plan_on_gpu(job: PlannedRun, planned: Schedule, maps: int, pixels: int) -> Plan:
    """The plan with the *maps* in the memory of the GPU."""
    photo, working = _gpu_bytes(job, planned, pixels)
    host = job.result + job.total + max(photo, job.after)
    on_gpu = maps + working + _gathered_bytes(job, planned)
    return Plan("device", job.precision, host, on_gpu, pixels=pixels)


def _plan_apart(job: PlannedRun, planned: Schedule, maps: int, pixels: int) -> Plan:
    """The plan with the *maps* in the memory of the computer."""
    photo, working = _gpu_bytes(job, planned, pixels)
    has_streams = job.device.type == "cuda" and not planned.is_pointwise
    streams = STREAMS if has_streams else 1
    values = int(_gpu_tile(job, planned, pixels) * planned.kept_values)
    # Torch keeps pinned memory in blocks whose bytes are powers of 2.
    block = 1 << max(values * job.number - 1, 0).bit_length()
    copies = STREAMS * _PINNED * block if has_streams else 0
    gathered = _gathered_bytes(job, planned)  # by the computer, and used on the GPU
    host = maps + job.total + max(photo + copies, job.after) + gathered
    on_gpu = streams * working + gathered
    return Plan("memory", job.precision, host, on_gpu, pixels=pixels)


def _gpu_bytes(job: PlannedRun, planned: Schedule, pixels: int) -> tuple[int, int]:
    """Bytes of the photo's rows in the computer's memory, and of a working set in the GPU's."""
    tile = _gpu_tile(job, planned, pixels)
    photo = _PHOTO_ROWS * tile * job.program.in_bands * _FLOAT
    working = max(tile * planned.values, _whole_values(job, planned)) * job.number
    return photo, working


def _gpu_tile(job: PlannedRun, planned: Schedule, pixels: int) -> int:
    """Pixels of a tile of about *pixels*, with its halo."""
    height, width = job.program.padded(job.height, job.width)
    return min(gpu_rows(width, pixels) + 2 * planned.reach, height) * width


def _whole_values(job: PlannedRun, planned: Schedule) -> int:
    """Values in work where a pass takes the whole image at once; 0 if none does."""
    if not any(sweep.is_whole for sweep in planned.sweeps):
        return 0
    height, width = job.program.padded(job.height, job.width)
    return height * width * planned.values


def _gathered_bytes(job: PlannedRun, planned: Schedule) -> int:
    """Bytes of pixel data that statistics keep: the keys and values of global attention."""
    height, width = job.program.padded(job.height, job.width)
    return int(height * width * planned.gathered_values) * job.wide


def gpu_rows(width: int, pixels: int) -> int:
    """Rows of the tiles on a GPU: whole rows, which it copies as one block of memory."""
    return max(pixels // width // 2 * 2, 2)


def _cpu_bytes(job: PlannedRun, planned: Schedule, threads: int) -> int:
    """Bytes that *threads* of a CPU work with in float32 (measured by lab/benchmarks/memory.py)."""
    pixels = job.height * job.width
    is_compiled = job.precision == "float32" and native.is_installed()
    numbers = np.dtype(np.float32)
    plain = plain_values(job.program, job.device, numbers) if is_compiled else planned.values
    if planned.is_pointwise:
        in_work = pixelwise_rows(job.height, job.width) * job.width
        if not plain:
            of_rows = 2 * job.program.output.channels * _FLOAT * in_work
            return _POINTWISE_KERNEL_BYTES + threads * of_rows
        of_rows = _POINTWISE_BYTES * planned.values * in_work
        return int((2 * threads + job.has_total) * of_rows) // 2
    more = max(planned.values / _PUBLISHED_VALUES, 1)
    if is_compiled:
        rows, _ = kernel_tile(job.height, job.width)
        # High tiles take as much in a small photo as in one of 0.1 megapixels.
        pixels = max(pixels, _SMALL if rows > KERNEL_ROWS // 4 else 0)
        of_all, of_each = next(rest for limit, *rest in _COMPILED_BYTES if pixels < limit)
        of_plain = _PLAIN_BYTES * plain
        if planned.reach > FAR:
            of_plain *= (FAR_SIDE + 2 * planned.reach) ** 2 // _PLAIN_PIXELS
        of_each_total = _TOTAL_BYTES if job.has_total else 0
        return int(of_all + threads * (of_each * more + of_plain + of_each_total))
    share = min(0.5 + pixels / _LARGE / 2, 1)
    of_kernels = _KERNEL_BYTES + (_TURNED_BYTES if job.has_total else 0)
    if job.precision != "float32" and has_amx():
        of_kernels += _AMX_BYTES
    return int(share * (of_kernels + threads * _THREAD_BYTES * more))


def _bytes_text(size: int, rounded: Callable[[float], float] = round) -> str:
    in_megabytes = size / 1e6
    if size < 10**8:
        return f"{rounded(in_megabytes)} MB"
    return f"{rounded(in_megabytes / 100) / 10:.1f} GB"
