"""The exact streamed run of a network: an image of any size, sweep by sweep and tile by tile.

A network says its passes (`napari_mst.networks.network`); nothing here knows which network it is.
Only statistics, such as the Gram matrices of spectral attention, couple distant pixels. So while a
sweep computes the passes up to the next statistic, tile by tile, it adds that statistic up,
which is all that later passes have to know of the whole image. What comes out is what one forward
over the whole image would give.

On a CPU the tiles are rectangles whose intermediate results fit its cache, one thread each; on a
GPU they are strips of whole rows. Letters: B bands, C feature channels, H rows, W columns.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import reduce
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from napari_mst.base.arrays import Floats
from napari_mst.base.errors import DeviceError
from napari_mst.base.progress import NO_PROGRESS, Progress
from napari_mst.engine.fast_paths import native
from napari_mst.engine.fast_paths.table import fast_statistic
from napari_mst.engine.features import FeatureMap, PaddedPhoto, PhotoRows, ReadRows, Slab
from napari_mst.engine.pages import KEPT
from napari_mst.engine.plan import Plan, gpu_rows, pixelwise_rows
from napari_mst.engine.schedule import Sweep, result_size, schedule, thrifty
from napari_mst.engine.steps import (
    executable,
    needs,
    precisions,
    steps_of,
    sweep_costs,
    within,
)
from napari_mst.engine.windows import Size, Window, cpu_tile, kernel_tile, tiles, up_to, whole
from napari_mst.engine.workers import Workers, wait_for
from napari_mst.networks.network import PHOTO, Folded, Network, Program


class Result(NamedTuple):
    """The numbers of a run, (B, H, W), and the folded statistics of its passes, by the map."""

    numbers: Floats
    folded: Folded


def run(network: Network, rows: ReadRows, height: int, width: int, device: torch.device) -> Floats:
    """The cube (B, H, W) that *network*, which must be on *device*, makes of a photo."""
    return execute(network.program(), PhotoRows(rows, height, width), device).numbers


def execute(
    program: Program,
    source: PhotoRows,
    device: torch.device,
    plan: Plan | None = None,
    progress: Progress = NO_PROGRESS,
) -> Result:
    """Run *program*, whose weights must be on *device*, on the photo of *source*.

    Everything is computed, and returned, in the precision of the weights: float32 or float64. The
    *plan* says where maps that are kept live (in the device's memory, if there is none), which
    changes no number; and whether they are of 16 bits, which does: statistics, the photo and the
    result stay as they are.

    Raises
    ------
    Cancelled
        As soon as *progress* is cancelled.
    DeviceError
        If features are beyond what float16 holds.
    """
    plan = plan or Plan()
    with exact_products(device), torch.inference_mode():
        return Execution(program, source, device, plan, progress).result()


_backends: Any = torch.backends
EXACT_SETTINGS = (
    (_backends.cuda.matmul, "fp32_precision", "ieee"),
    (_backends.cudnn.conv, "fp32_precision", "ieee"),
    (_backends.mkldnn.matmul, "fp32_precision", "ieee"),
    (_backends.mkldnn.conv, "fp32_precision", "ieee"),
    # The benchmark of cuDNN tries algorithms that want memory which nobody has planned.
    (_backends.cudnn, "benchmark", False),
)
"""Settings of torch during a run: what they belong to, their name, their value."""


_lock = threading.Lock()
_before: list[list[Any]] = []  # what the program has set, once for each run


@contextmanager
def exact_products(device: torch.device) -> Iterator[None]:
    """Compute products of float32 in full, whatever the program has set for *device*.

    Of the 23 bits of a number TF32 keeps 10, bfloat16 7. The settings belong to the process, not to
    a thread: the last run that ends restores them. Left behind, they would also end `torch.export`
    with an error.
    """
    with _lock:
        _before.append(_before[0] if _before else _settings())
        _set([value for *_, value in EXACT_SETTINGS])
    try:
        # A program that has switched on autocast would get 16 bits whatever these settings say.
        with torch.autocast(device.type, enabled=False):
            yield
    finally:
        with _lock:
            before = _before.pop()
            if not _before:
                _set(before)


def _settings() -> list[Any]:
    return [getattr(owner, name) for owner, name, _ in EXACT_SETTINGS]


def _set(values: list[Any]) -> None:
    for (owner, name, _), value in zip(EXACT_SETTINGS, values, strict=True):
        setattr(owner, name, value)


class Execution:
    """One run of a program: slabs of memory, and the sweeps between them."""

    def __init__(
        self,
        program: Program,
        source: PhotoRows,
        device: torch.device,
        plan: Plan,
        progress: Progress = NO_PROGRESS,
    ) -> None:
        self._dtype = plan.dtype(program.dtype)
        program = thrifty(program, self._dtype)
        self._program = program
        self._device = device
        self._plan = plan
        self._schedule = schedule(program)
        self._costs = sweep_costs(self._schedule, device, self._dtype)
        self._progress = progress
        self._dtypes = precisions(program, self._dtype, program.dtype)
        self._sizes = program.sizes(source.height, source.width)
        self._source = source
        self._photo = PaddedPhoto(source, device, program)
        self._folded: Folded = {}
        self._maps: dict[str, FeatureMap] = {}
        self._result = self._prepared(source)

    def _prepared(self, source: PhotoRows) -> Tensor:
        """Make room for all maps that are kept, and for the result, (B, H, W)."""
        program = self._program
        is_in_file = self._plan.place == "file"
        number = self._dtype.itemsize
        wide = program.dtype.itemsize
        sizes, places = self._schedule.storage(source.height, source.width, number, wide)
        slabs = [Slab(size // number, self._home, is_in_file, self._dtype) for size in sizes]
        # The result keeps its own: it leaves the run.
        result_slab, _ = places[program.output.writes]
        self._slabs = [slab for index, slab in enumerate(slabs) if index != result_slab]
        for name, (slab, offset) in places.items():
            if name != program.output.writes:
                shape = (*self._sizes[name], program.channels(name))
                self._maps[name] = slabs[slab].feature_map(*shape, offset // number, self._device)
        height, width = result_size(program, source.height, source.width)
        return slabs[result_slab].planes(program.output.channels, height, width, program.dtype)

    @property
    def _home(self) -> torch.device:
        """The device where maps and sums live: other threads, or streams, add up the sums."""
        return self._device if self._plan.place == "device" else torch.device("cpu")

    def result(self) -> Result:
        """Run all sweeps."""
        is_elsewhere = self._device.type == "cuda" and self._plan.place != "device"
        is_apart = is_elsewhere and not self._schedule.is_pointwise
        cost = sum(self._costs)
        with Workers(self._device, cost, self._progress, is_apart, self._plan.threads) as workers:
            for sweep, cost in zip(self._schedule.sweeps, self._costs, strict=True):
                self._run(sweep, cost, workers)
            self._check_range(self._result)
            self._leave_memory()
            return Result(self._result.cpu().numpy(), self._folded)

    def _leave_memory(self) -> None:
        """Leave the memory of the maps, which are no more, to the next run."""
        self._maps.clear()
        KEPT.give([block for slab in self._slabs for block in slab.taken_back()])

    def _run(self, sweep: Sweep, cost: float, workers: Workers) -> None:
        """All tiles of *sweep*; folds the statistics that it adds up."""
        compute = self._made_ready(sweep)
        totals: dict[str, Tensor] = {}
        gathered: dict[str, list[Tensor]] = {}
        # Tiles come in their order, so that sums are the same bit for bit in every run.
        for sums in workers.each(compute, self.tiles(sweep), cost):
            for name, more in sums.items():
                if self._program.writer(name).gathers:
                    gathered.setdefault(name, []).append(more)
                elif name in totals:
                    totals[name] += more
                else:
                    totals[name] = more
        totals |= {name: torch.cat(parts, dim=1) for name, parts in gathered.items()}
        for name, total in totals.items():
            # Infinity and NaN carry over to sums, so only the totals and the result are checked.
            self._check_range(total)
            pixels = self._sizes[name][0] * self._sizes[name][1]
            writer = self._program.writer(name)
            self._folded[name] = self._source.fold(writer, total.to(self._device), pixels)

    def _made_ready(self, sweep: Sweep) -> Callable[[Window], dict[str, Tensor]]:
        """Computes one tile of *sweep*: writes the maps that are kept, returns its statistics."""
        steps = steps_of(sweep, self._device, self._dtypes)
        executed = [executable(step, self._dtypes, self._folded) for step in steps]
        if self._dtype != self._program.dtype:
            wait_for(self._device)  # for converted weights, which all streams are about to read
        sizes, scales = self._sizes, self._program.scales
        statistics = {name: self._statistic(name) for name in sweep.adds_up}
        shares = {name: scales[name] / scales[sweep.base] for name in (*sweep.keeps, *statistics)}
        last_read = {reading.name: step for step in steps for reading in step.readings}

        def compute(tile: Window) -> dict[str, Tensor]:
            wanted = {
                name: tile.scaled(share).clipped(sizes[name]) for name, share in shares.items()
            }
            needed = needs(steps, wanted, sizes)
            maps = {name: (needed[name], self._read(name, needed[name])) for name in sweep.reads}
            for step, execute in zip(steps, executed, strict=True):
                name = step.last.writes
                values = execute(maps, needed[name], sizes)
                maps[name] = needed[name], values.to(self._dtypes[name])
                # A map makes room as soon as no later step of the tile reads it.
                for reading in step.readings:
                    if last_read[reading.name] is step and reading.name not in wanted:
                        maps.pop(reading.name, None)
            parts = {name: within(window, *maps[name]) for name, window in wanted.items()}
            for name in sweep.keeps:
                self._write(name, wanted[name], parts[name])
            counted = {name: self._counted(name, wanted[name], parts[name]) for name in statistics}
            return {
                name: reduce(torch.add, map(statistics[name], values)).to(self._home)
                for name, values in counted.items()
                if values
            }

        return compute

    def _counted(self, name: str, have: Window, values: Tensor) -> list[Tensor]:
        """The parts of *values*, a window of the map *name*, that count in its total."""
        if self._source.own is None:
            return [values]
        scale = self._program.scales[name]
        windows = [own.scaled(scale).shared(have) for own in self._source.own]
        return [within(window, have, values) for window in windows if min(window.size) > 0]

    def _statistic(self, name: str) -> Callable[[Tensor], Tensor]:
        statistic = cast("Callable[[Tensor], Tensor]", self._program.writer(name).statistic)
        return fast_statistic(statistic, self._device, self._dtypes[name])

    def _read(self, name: str, window: Window) -> Tensor:
        return self._photo.read(window) if name == PHOTO else self._maps[name].read(window)

    def _write(self, name: str, window: Window, values: Tensor) -> None:
        if name in self._maps:
            self._maps[name].write(window, values)
            return
        # The result has no padding: it takes the part of a tile that lies in the photo.
        target = self._result[:, window.rows, window.columns]
        target.copy_(values[0, :, : target.shape[1], : target.shape[2]])

    def _check_range(self, values: Tensor) -> None:
        if self._dtype == torch.float16 and not values.isfinite().all():
            raise DeviceError(
                "Expected features within the range of float16, got larger ones. "
                "Take bfloat16 or float32."
            )

    def tiles(self, sweep: Sweep) -> Iterable[Window]:
        """The tiles of *sweep*: windows of its base that are computed one by one."""
        size = self._sizes[sweep.base]
        if sweep.is_whole:
            return [whole(size)]
        rows, columns = self.tile(size, sweep.reach)
        grain = sweep.grain(self._program.scales)
        return tiles(size, up_to(rows, grain), up_to(columns, grain))

    def tile(self, size: Size, reach: int = 0) -> Size:
        """Rows and columns of the tiles of a map of *size*, for passes that *reach* beyond them."""
        height, width = size
        if self._schedule.is_pointwise and self._device.type == "cpu":
            return pixelwise_rows(height, width), width
        if self._device.type != "cpu":
            return self.strip(size)
        if native.can_run(self._device, self._dtype):
            return kernel_tile(height, width, self._program.has_windows, reach)
        # Maps of half the size have twice the channels, so their tiles have fewer pixels.
        full_height, _ = self._sizes[PHOTO]
        level = (full_height // height).bit_length() - 1
        return cpu_tile(height, width, level)

    def strip(self, size: Size) -> Size:
        """Whole rows, which a GPU copies as one block of memory: fewer where channels are more."""
        height, width = size
        full_height, _ = self._sizes[PHOTO]
        return gpu_rows(width, self._plan.pixels * height // full_height), width
