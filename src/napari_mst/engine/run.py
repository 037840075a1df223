"""The exact streamed run of a network: an image of any size, sweep by sweep and tile by tile.

A network says its passes (`napari_mst.networks.network`); nothing here knows which network it is.
Only statistics, such as the Gram matrices of spectral attention, couple distant pixels. So while a
sweep computes the passes up to the next statistic, tile by tile, it adds that statistic up. Later
passes need nothing else from the whole image, and the result equals one forward over it.

On a CPU the tiles are rectangles whose intermediate results fit its cache, one thread each; on a
GPU they are strips of whole rows. Letters: B bands, C feature channels, H rows, W columns.
"""

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from napari_mst.base.arrays import Floats
from napari_mst.base.errors import DeviceError
from napari_mst.base.progress import NO_PROGRESS, Progress
from napari_mst.engine.device import CPU, name_of
from napari_mst.engine.fast_paths import native
from napari_mst.engine.fast_paths.table import compiled_statistic
from napari_mst.engine.features import (
    FeatureMap,
    PaddedPhoto,
    PhotoRows,
    ReadRows,
    Slab,
    array_type,
    as_array,
)
from napari_mst.engine.plan import Plan, gpu_rows, pixelwise_rows
from napari_mst.engine.schedule import Sweep, result_size, schedule, thrifty
from napari_mst.engine.steps import (
    Step,
    converted,
    executable,
    needs,
    precisions,
    steps_of,
    sweep_costs,
    within,
)
from napari_mst.engine.windows import Size, Window, cpu_tile, kernel_tile, tiles, up_to, whole
from napari_mst.engine.workers import Workers, wait_for
from napari_mst.networks.network import PHOTO, Folded, Program

if TYPE_CHECKING:
    from napari_mst.networks.module import Network


class Result(NamedTuple):
    """The numbers of a run, (B, H, W), and its folded statistics by the name of their map."""

    numbers: Floats
    folded: Folded


def run(network: "Network", rows: ReadRows, height: int, width: int, device: Any) -> Floats:
    """The cube (B, H, W) that *network*, which must be on *device*, makes of a photo."""
    return execute(network.program(), PhotoRows(rows, height, width), device).numbers


def execute(
    program: Program,
    source: PhotoRows,
    device: Any,
    plan: Plan | None = None,
    progress: Progress = NO_PROGRESS,
) -> Result:
    """Run *program*, whose weights must be on *device*, on the photo of *source*.

    Everything is computed, and returned, in the precision of the weights: float32 or float64. The
    *plan* says where kept maps live, by default in the device's memory; that changes no number.
    It also says whether maps have 16 bits, which does change numbers. Statistics, the photo and the
    result keep their precision.

    Raises
    ------
    Cancelled
        As soon as *progress* is cancelled.
    DeviceError
        If features are beyond what float16 holds.
    """
    plan = plan or Plan()
    with settings_of(program, device):
        return Execution(program, source, device, plan, progress).result()


def settings_of(program: Program, device: Any) -> AbstractContextManager[None]:
    """The settings of torch under which *program* runs on *device*; none where it runs in NumPy."""
    if is_numpy(program):
        return nullcontext()
    from napari_mst.engine.tensors import inferring

    return inferring(device)


def is_numpy(program: Program) -> bool:
    """True if NumPy holds the weights of *program*: compiled kernels compute all its passes."""
    return isinstance(program.dtype, np.dtype)


def as_total(total: Any) -> Any:
    """A statistic, or a part of the result, as a tensor."""
    import torch

    return torch.from_numpy(total) if isinstance(total, np.ndarray) else total


def _last_reads(steps: Sequence[Step]) -> list[set[str]]:
    """Names of the maps that each of *steps* is the last to read: their memory is then free."""
    last = {reading.name: index for index, step in enumerate(steps) for reading in step.readings}
    return [{name for name, at in last.items() if at == index} for index in range(len(steps))]


class Execution:
    """One run of a program: slabs of memory, and the sweeps between them."""

    def __init__(
        self,
        program: Program,
        source: PhotoRows,
        device: Any,
        plan: Plan,
        progress: Progress = NO_PROGRESS,
    ) -> None:
        self._dtype = plan.dtype(program.dtype)
        program = thrifty(program, device, self._dtype)
        self._program = program
        self._device = device
        self._plan = plan
        self._is_array = array_type(self._home, self._dtype) is not None
        self._schedule = schedule(program)
        self._costs = sweep_costs(self._schedule, device, self._dtype)
        self._progress = progress
        self._dtypes = precisions(program, self._dtype, program.dtype)
        self._sizes = program.sizes(source.height, source.width)
        self._source = source
        self._photo = PaddedPhoto(source, device, program)
        self._folded: Folded = {}
        self._maps: dict[str, Any] = {}
        self._result = self._prepared(source)

    def _prepared(self, source: PhotoRows) -> Any:
        """Make room for all maps that are kept, and for the result, (B, H, W)."""
        program = self._program
        is_in_file = self._plan.place == "file"
        number = self._dtype.itemsize
        wide = program.dtype.itemsize
        sizes, places = self._schedule.storage(source.height, source.width, number, wide)
        slabs = [Slab(size // number, self._home, is_in_file, self._dtype) for size in sizes]
        result_slab, _ = places[program.output.writes]
        for name, (slab, offset) in places.items():
            if name != program.output.writes:
                shape = (*self._sizes[name], program.channels(name))
                self._maps[name] = slabs[slab].feature_map(*shape, offset // number, self._device)
        height, width = result_size(program, source.height, source.width)
        return slabs[result_slab].planes(program.output.channels, height, width, program.dtype)

    @property
    def _home(self) -> Any:
        """The device where maps and sums live: other threads, or streams, add up the sums."""
        return self._device if self._plan.place == "device" else CPU

    def result(self) -> Result:
        """Run all sweeps."""
        is_elsewhere = self._device.type == "cuda" and self._plan.place != "device"
        is_apart = is_elsewhere and not self._schedule.is_pointwise
        cost = sum(self._costs)
        with Workers(self._device, cost, self._progress, is_apart, self._plan.threads) as workers:
            for sweep, cost in zip(self._schedule.sweeps, self._costs, strict=True):
                self._run(sweep, cost, workers)
            self._check_range(self._result)
            return Result(as_array(self._result), self._folded)

    def _run(self, sweep: Sweep, cost: float, workers: Workers) -> None:
        """All tiles of *sweep*; folds the statistics that it adds up."""
        needed, compute = self._made_ready(sweep)
        totals: dict[str, Any] = {}
        gathered: dict[str, list[Any]] = {}
        tiles = list(self.tiles(sweep))
        # Tiles come in their order, so that sums are the same bit for bit in every run.
        results = workers.each(compute, tiles, cost)
        for sums, following in zip(results, [*tiles[1:], None], strict=True):
            self._release(sweep, following, needed)
            for name, more in sums.items():
                if self._program.writer(name).gathers:
                    gathered.setdefault(name, []).append(more)
                elif name in totals:
                    totals[name] += more
                else:
                    totals[name] = more
        if gathered:
            from torch import cat

            totals |= {name: cat(parts, dim=1) for name, parts in gathered.items()}
        for name, total in totals.items():
            # Infinity and NaN carry over to sums, so only the totals and the result are checked.
            self._check_range(total)
            pixels = self._sizes[name][0] * self._sizes[name][1]
            writer = self._program.writer(name)
            if not is_numpy(self._program):
                total = as_total(total).to(self._device)
            self._folded[name] = self._source.fold(writer, total, pixels)

    def _release(
        self,
        sweep: Sweep,
        following: Window | None,
        needed: Callable[[Window], Mapping[str, Window]],
    ) -> None:
        """Give back the rows that the *following* tile and those after it do not read."""
        if following is not None and following.left > 0:  # within a band of tiles
            return
        windows = needed(following) if following else {}
        for name in self._schedule.ended(sweep):
            kept = self._maps[name]
            if isinstance(kept, FeatureMap):
                kept.release(windows[name].top if following else self._sizes[name][0])

    def _made_ready(
        self, sweep: Sweep
    ) -> tuple[Callable[[Window], dict[str, Window]], Callable[[Window], dict[str, Any]]]:
        """Two functions of one tile of *sweep*: what it needs of each map, and what computes it.

        To compute it is to write the maps that are kept, and to return its statistics.
        """
        steps = steps_of(sweep, self._device, self._dtypes)
        executed = [executable(step, self._dtypes, self._folded) for step in steps]
        if self._dtype != self._program.dtype:
            wait_for(self._device)  # for converted weights, which all streams are about to read
        sizes, scales = self._sizes, self._program.scales
        statistics = {name: self._statistic(name) for name in sweep.adds_up}
        shares = {name: scales[name] / scales[sweep.base] for name in (*sweep.keeps, *statistics)}
        last_reads = _last_reads(steps)

        def wanted_of(tile: Window) -> dict[str, Window]:
            return {name: tile.scaled(share).clipped(sizes[name]) for name, share in shares.items()}

        def needed_of(tile: Window) -> dict[str, Window]:
            return needs(steps, wanted_of(tile), sizes)

        def compute(tile: Window) -> dict[str, Any]:
            wanted, needed = wanted_of(tile), needed_of(tile)
            maps = {name: (needed[name], self._read(name, needed[name])) for name in sweep.reads}
            for step, execute, done in zip(steps, executed, last_reads, strict=True):
                name = step.last.writes
                values = execute(maps, needed[name], sizes)
                maps[name] = needed[name], converted(values, self._dtypes[name])
                for read in done - wanted.keys():
                    maps.pop(read)
            parts = {name: within(window, *maps[name]) for name, window in wanted.items()}
            for name in sweep.keeps:
                self._write(name, wanted[name], parts[name])
            return self._sums(statistics, wanted, parts)

        return needed_of, compute

    def _sums(
        self,
        statistics: Mapping[str, Callable[[Any], Any]],
        wanted: Mapping[str, Window],
        parts: Mapping[str, Any],
    ) -> dict[str, Any]:
        """The *statistics* of the *parts* of a tile, which are its *wanted* windows of maps."""
        counted = {name: self._counted(name, wanted[name], parts[name]) for name in statistics}
        return {
            name: self._brought_home(reduce(operator.add, map(statistics[name], values)))
            for name, values in counted.items()
            if values
        }

    def _counted(self, name: str, have: Window, values: Any) -> list[Any]:
        """The parts of *values*, a window of the map *name*, that count in its total."""
        if self._source.own is None:
            return [values]
        scale = self._program.scales[name]
        windows = [own.scaled(scale).shared(have) for own in self._source.own]
        return [within(window, have, values) for window in windows if min(window.size) > 0]

    def _statistic(self, name: str) -> Callable[[Any], Any]:
        """The function that computes the statistic of a map: a kernel for arrays, or torch's."""
        statistic = cast("Callable[[Any], Any]", self._program.writer(name).statistic)
        kernel = compiled_statistic(statistic, self._device, self._dtypes[name])
        if kernel is not None:
            return lambda values: kernel(as_array(values))
        from napari_mst.engine.tensors import as_tensor

        return lambda values: statistic(as_tensor(values))

    def _brought_home(self, total: Any) -> Any:
        return total if isinstance(total, np.ndarray) else total.to(self._home)

    def _read(self, name: str, window: Window) -> Any:
        return self._photo.read(window) if name == PHOTO else self._maps[name].read(window)

    def _write(self, name: str, window: Window, values: Any) -> None:
        if name in self._maps:
            self._maps[name].write(window, values)
            return
        # The result has no padding: it takes the part of a tile that lies in the photo.
        target = self._result[:, window.rows, window.columns]
        written = values[0, :, : target.shape[1], : target.shape[2]]
        if self._is_array:
            target[...] = as_array(written)
        else:
            target.copy_(as_total(written))

    def _check_range(self, values: Any) -> None:
        if name_of(self._dtype) == "float16" and not as_total(values).isfinite().all():
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
