"""The exact streamed run of a network: an image of any size, sweep by sweep and region by region.

A network says its passes (`napari_mst.networks.network`); nothing here knows which network it is.
Only statistics, such as the Gram matrices of spectral attention, couple distant pixels. So while a
sweep computes the passes up to the next statistic, region by region, it adds that statistic up,
which is all that later passes have to know of the whole image. What comes out is what one forward
over the whole image would give.

On a CPU the regions are rectangles whose intermediate results fit its cache, one thread each; on a
GPU they are strips of whole rows. Letters: B bands, C feature channels, H rows, W columns.
"""

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from napari_mst.engine.features import FeatureMap, Slab, sent
from napari_mst.engine.forms import native
from napari_mst.engine.forms.table import statistic_form
from napari_mst.engine.plan import Plan, gpu_rows, pixelwise_rows
from napari_mst.engine.schedule import Schedule, Slot, Sweep, result_size, schedule
from napari_mst.engine.steps import Executable, Step, needs, precisions, steps_of, within
from napari_mst.engine.windows import Size, Window, tiles, whole
from napari_mst.engine.workers import Workers, wait_for
from napari_mst.errors import DeviceError
from napari_mst.networks.network import PHOTO, Folded, Network, Program, reflected_index
from napari_mst.watch import UNWATCHED, Watch

CPU_PIXELS = 1 << 13
"""Pixels of the regions on a CPU at full resolution, half as many where there are twice the channels."""

NATIVE_ROWS, NATIVE_COLUMNS = 64, 128
"""Of the regions that compiled kernels compute: these go through them row by row, so that only rows must fit."""

PACE = 75e-6
"""Microseconds of one thread for a multiplication and addition of a pass without a fast form."""

FRESH = 0.0011
"""Microseconds for a byte of memory that is used for the first time.

Half of what it is where a virtual machine gets it from its host, as it is next to nothing
elsewhere.
"""

RowSource = Callable[[int, int], NDArray[np.float32]]
"""Rows [start, stop) of the photo as the network expects them: (in_bands, stop - start, W) float32."""


class Source(NamedTuple):
    """The photo of a run: its rows, as the network expects them, their number and their length."""

    rows: RowSource
    height: int
    width: int


class Result(NamedTuple):
    """The numbers of a run, (B, H, W), and what the statistics of its passes were folded into, by the map."""

    numbers: NDArray[np.floating]
    folded: Folded


def run(
    network: Network, rows: RowSource, height: int, width: int, device: torch.device
) -> NDArray[np.floating]:
    """The cube (B, H, W) that *network*, which must be on *device*, makes of a photo, as `execute` computes it."""
    return execute(network.program(), Source(rows, height, width), device).numbers


def execute(
    program: Program,
    source: Source,
    device: torch.device,
    plan: Plan | None = None,
    watch: Watch = UNWATCHED,
) -> Result:
    """Run *program*, whose weights must be on *device*, on the photo of *source*.

    Everything is computed, and returned, in the precision of the weights: float32 or float64. The
    *plan* says where maps that are kept live (in the device's memory, if there is none), which
    changes no number; and whether they are of 16 bits, which does: statistics, the photo and the
    result stay as they are.

    Raises
    ------
    Cancelled
        As soon as *watch* says so.
    DeviceError
        If features are beyond what float16 holds.
    """
    plan = plan or Plan()
    with exact_products(device), torch.inference_mode():
        return Execution(program, source, device, plan, watch).result()


def run_cost(program: Program, device: torch.device, plan: Plan) -> float:
    """How long `execute` takes: microseconds a pixel of the photo, of one thread of a CPU."""
    return sum(_costs(schedule(program), device, plan))


def _costs(planned: Schedule, device: torch.device, plan: Plan) -> list[float]:
    """How long each sweep takes, as `run_cost`."""
    program = planned.program
    dtypes = precisions(program, plan.dtype(program.dtype), program.dtype)
    scales = program.scales
    _, places = planned.storage(program.multiple, program.multiple, 1, 1)
    used: set[Slot] = set()
    costs = []
    for sweep in planned.sweeps:
        cost = 0.0
        for step in steps_of(sweep, device, dtypes):
            pace = step.form.pace if step.form is not None else PACE
            cost += sum(pace * each.cost * float(scales[each.writes]) ** 2 for each in step.passes)
        for name in sweep.keeps:
            if places[name] not in used:
                size = program.channels(name) * dtypes[name].itemsize
                cost += FRESH * size * float(scales[name]) ** 2
        used |= {places[name] for name in sweep.keeps}
        costs.append(cost)
    return costs


_backends: Any = torch.backends
_EXACT = (
    (_backends.cuda.matmul, "fp32_precision", "ieee"),
    (_backends.cudnn.conv, "fp32_precision", "ieee"),
    (_backends.mkldnn.matmul, "fp32_precision", "ieee"),
    (_backends.mkldnn.conv, "fp32_precision", "ieee"),
    (
        _backends.cudnn,
        "benchmark",
        False,
    ),  # it tries algorithms that want memory which nobody has planned
)


@contextmanager
def exact_products(device: torch.device) -> Iterator[None]:
    """Products of float32 in full, whatever the program has set for *device*: TF32 keeps 10 bits of 23, bfloat16 7."""
    before = [getattr(owner, name) for owner, name, _ in _EXACT]
    try:
        for owner, name, value in _EXACT:
            setattr(owner, name, value)
        with torch.autocast(device.type, enabled=False):
            yield
    finally:
        for (owner, name, _), value in zip(_EXACT, before, strict=True):
            setattr(owner, name, value)


@dataclass(frozen=True, eq=False)
class _Work:
    """A sweep made ready.

    Attributes
    ----------
    executables, steps
        What computes each step, and the steps.
    statistics
        What adds up the statistic of a map.
    keeps, reads
        Names of the maps that are written in the end, and of those that are read first.
    finished
        By step, the maps that a region needs no longer.
    shares
        Sizes of the maps that are wanted, by that of the base.
    """

    executables: list[Executable]
    steps: list[Step]
    statistics: dict[str, Callable[[Tensor], Tensor]]
    keeps: tuple[str, ...]
    reads: frozenset[str]
    finished: list[list[str]]
    shares: dict[str, Fraction]


class Execution:
    """One run of a program: slabs of memory, and the sweeps between them."""

    def __init__(
        self,
        program: Program,
        source: Source,
        device: torch.device,
        plan: Plan,
        watch: Watch = UNWATCHED,
    ) -> None:
        self._program, self._device, self._plan = program, device, plan
        self._schedule = schedule(program)
        self._costs = _costs(self._schedule, device, plan)
        self._watch = watch
        self._dtype = plan.dtype(program.dtype)
        self._dtypes = precisions(program, self._dtype, program.dtype)
        self._sizes = program.sizes(source.height, source.width)
        self._photo = PaddedPhoto(source, device, program)
        self._folded: Folded = {}
        self._maps: dict[str, FeatureMap] = {}
        self._result = self._prepared(source)

    def _prepared(self, source: Source) -> Tensor:
        """Make room for all maps that are kept, and for the result, (B, H, W)."""
        program, is_in_file = self._program, self._plan.place == "file"
        number, wide = self._dtype.itemsize, program.dtype.itemsize
        sizes, places = self._schedule.storage(source.height, source.width, number, wide)
        slabs = [Slab(size // number, self._home, is_in_file, self._dtype) for size in sizes]
        for name, (slab, offset) in places.items():
            if name != program.output.writes:
                shape = (*self._sizes[name], program.channels(name))
                self._maps[name] = slabs[slab].feature_map(*shape, offset // number, self._device)
        size = result_size(program, source.height, source.width)
        return slabs[places[program.output.writes].slab].planes(
            program.output.channels, *size, program.dtype
        )

    @property
    def _home(self) -> torch.device:
        """Where maps and sums live: a sum of one thread, or stream, is added up in another."""
        return self._device if self._plan.place == "device" else torch.device("cpu")

    def result(self) -> Result:
        """Run all sweeps."""
        is_apart = (
            self._device.type == "cuda"
            and self._plan.place != "device"
            and not self._schedule.is_pointwise
        )
        workers = Workers(self._device, sum(self._costs), self._watch, is_apart, self._plan.threads)
        with workers:
            for sweep, cost in zip(self._schedule.sweeps, self._costs, strict=True):
                self._run(sweep, cost, workers)
            self._check_range(self._result)
            return Result(self._result.cpu().numpy(), self._folded)

    def _run(self, sweep: Sweep, cost: float, workers: Workers) -> None:
        """All regions of *sweep*; folds the statistics that it adds up."""
        compute = functools.partial(self._compute, self._made_ready(sweep))
        totals: dict[str, Tensor] = {}
        for sums in workers.each(compute, self.regions(sweep), cost):
            for name, more in sums.items():
                if name in totals:
                    totals[name] += more
                else:
                    totals[name] = more
        for name, total in totals.items():
            self._check_range(total)
            pixels = self._sizes[name][0] * self._sizes[name][1]
            folded = self._program.writer(name).fold(total.to(self._device), pixels)
            self._folded[name] = folded

    def _made_ready(self, sweep: Sweep) -> _Work:
        steps = steps_of(sweep, self._device, self._dtypes)
        executables = [Executable.of(step, self._dtypes, self._folded) for step in steps]
        if self._dtype != self._program.dtype:
            wait_for(self._device)  # for converted weights, which all streams are about to read
        scales = self._program.scales
        wanted = {*sweep.keeps, *sweep.adds_up}
        last_read = {
            reading.name: index for index, step in enumerate(steps) for reading in step.readings
        }
        return _Work(
            executables,
            steps,
            statistics={name: self._statistic(name) for name in sweep.adds_up},
            keeps=sweep.keeps,
            reads=frozenset(sweep.reads),
            finished=[
                [name for name, at in last_read.items() if at == index and name not in wanted]
                for index in range(len(steps))
            ],
            shares={name: scales[name] / scales[sweep.base] for name in wanted},
        )

    def _statistic(self, name: str) -> Callable[[Tensor], Tensor]:
        statistic = cast("Callable[[Tensor], Tensor]", self._program.writer(name).statistic)
        return statistic_form(statistic, self._device, self._dtypes[name])

    def _compute(self, work: _Work, tile: Window) -> dict[str, Tensor]:
        """One region of a sweep: writes what is kept and returns its share of the statistics."""
        sizes = self._sizes
        wanted = {
            name: tile.scaled(share).clipped(sizes[name]) for name, share in work.shares.items()
        }
        needed = needs(work.steps, wanted, sizes)
        maps = {name: (needed[name], self._read(name, needed[name])) for name in work.reads}
        for executable, finished in zip(work.executables, work.finished, strict=True):
            name = executable.step.last.writes
            values = executable.apply(maps, needed[name], sizes)
            dtype = self._dtypes[name]
            maps[name] = needed[name], values if values.dtype == dtype else values.to(dtype)
            for read in finished:
                del maps[read]
        own = {name: within(window, *maps[name]) for name, window in wanted.items()}
        for name in work.keeps:
            self._write(name, wanted[name], own[name])
        return {name: add_up(own[name]).to(self._home) for name, add_up in work.statistics.items()}

    def _read(self, name: str, window: Window) -> Tensor:
        return self._photo.read(window) if name == PHOTO else self._maps[name].read(window)

    def _write(self, name: str, window: Window, values: Tensor) -> None:
        if name in self._maps:
            self._maps[name].write(window, values)
            return
        target = self._result[:, window.rows, window.columns]
        target.copy_(values[0, :, : target.shape[1], : target.shape[2]])

    def _check_range(self, values: Tensor) -> None:
        if self._dtype == torch.float16 and not values.isfinite().all():
            raise DeviceError(
                "Expected features within the range of float16, got larger ones. Take bfloat16 or float32."
            )

    def regions(self, sweep: Sweep) -> Iterable[Window]:
        """The windows of the base of *sweep* that are computed one by one."""
        size = self._sizes[sweep.base]
        if sweep.is_whole:
            return [whole(size)]
        rows, columns = self.tile(size)
        grain = sweep.grain(self._program.scales)
        return tiles(size, _up_to(rows, grain), _up_to(columns, grain))

    def tile(self, size: Size) -> Size:
        """Rows and columns of the regions of a map of *size*."""
        height, width = size
        if self._schedule.is_pointwise and self._device.type == "cpu":
            return pixelwise_rows(height, width), width
        if self._device.type != "cpu":
            return self.strip(size)
        if native.can_run(self._device, self._dtype):
            return native_tile(height, width)
        full_height, _ = self._sizes[PHOTO]
        return cpu_tile(height, width, (full_height // height).bit_length() - 1)

    def strip(self, size: Size) -> Size:
        """Whole rows, of which a GPU copies one block of memory: fewer where there are more channels."""
        height, width = size
        full_height, _ = self._sizes[PHOTO]
        return gpu_rows(width, self._plan.pixels * height // full_height), width


def _up_to(length: int, multiple: int) -> int:
    return -(-length // multiple) * multiple


def cpu_tile(height: int, width: int, level: int) -> tuple[int, int]:
    """Rows and columns of the regions of a map of *height* x *width* on a CPU: four or more, of about the same size."""
    pixels = CPU_PIXELS >> level
    while 4 * pixels > height * width and pixels > 1 << 10:
        pixels //= 2
    rows = 1 << (pixels.bit_length() - 1) // 2
    return _shared_out(height, rows), _shared_out(width, pixels // rows)


def _shared_out(length: int, most: int) -> int:
    """*length* in parts of about the same size, at most *most* and a multiple of 4."""
    return -(-length // (-(-length // most) * 4)) * 4


def native_tile(height: int, width: int) -> tuple[int, int]:
    """Rows and columns of the regions that compiled kernels compute: smaller where they would be too few."""
    rows, strips = NATIVE_ROWS, -(-width // NATIVE_COLUMNS)
    while rows > NATIVE_ROWS // 4 and -(-height // rows) * strips < 8:
        rows //= 2
    return rows, NATIVE_COLUMNS


class PaddedPhoto:
    """The photo, reflect-padded as a program wants it, read window by window."""

    def __init__(self, source: Source, device: torch.device, program: Program) -> None:
        self._rows = functools.lru_cache(maxsize=4)(
            source.rows
        )  # the regions of one band of rows share them
        self._device, self._dtype = device, program.dtype
        self._row_of, self._column_of = (
            reflected_index(side, program.multiple) for side in source[1:]
        )

    def read(self, window: Window) -> Tensor:
        """(1, in_bands, h, w) of *window*."""
        rows, columns = self._row_of[window.rows], self._column_of[window.columns]
        first, last = int(rows.min()), int(rows.max()) + 1
        values = torch.from_numpy(self._rows(first, last))
        for axis, index in ((1, rows - first), (2, columns)):
            values = _taken(values, axis, index)
        return sent(values[None], self._device).to(self._dtype)


def _taken(values: Tensor, axis: int, index: Tensor) -> Tensor:
    """What *index* names along *axis*: a view where it is a range."""
    start, length = int(index[0]), len(index)
    is_range = torch.equal(index, torch.arange(start, start + length))
    return values.narrow(axis, start, length) if is_range else values.index_select(axis, index)
