"""The passes of a sweep as a device computes them, window by window.

What they cost is told ahead, so that progress moves as time does.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import Any

import numpy as np

from napari_mst.base.arrays import Singles
from napari_mst.engine.device import name_of
from napari_mst.engine.fast_paths.table import FastPath, fast_path_of
from napari_mst.engine.features import as_array
from napari_mst.engine.schedule import Schedule, Sweep, schedule, thrifty
from napari_mst.engine.windows import Size, Window, whole
from napari_mst.networks.network import PHOTO, Pass, Program

# The bundled pixelwise network makes 10,752 of them a pixel. In torch it took 0.8 us a pixel: time
# of the processor, of one thread.
PACE = 75e-6
"""Microseconds of one thread for a multiplication and addition of a pass without a fast path."""


# The host of a virtual machine took 2 to 3 ns a byte (lab/benchmarks/README.md). A run cannot know
# whether it has one, so it expects half.
FRESH = 0.0011
"""Microseconds for a byte of memory that is used for the first time.

It is half of the time where a virtual machine gets it from its host; elsewhere it takes next to
none.
"""


@dataclass(frozen=True, eq=False)
class WindowReading:
    """A map that a step reads.

    Attributes
    ----------
    name
        The name of the map.
    halo
        Pixels around a window that are read; None: the whole map.
    scale
        Size of the map that is written, relative to this one.
    align
        Windows begin and end at multiples of this.
    """

    name: str
    halo: int | None
    scale: Fraction
    align: int = 1

    @cached_property
    def inverse(self) -> Fraction:
        """The size of this map relative to the written map."""
        return 1 / self.scale

    def reach(self, written: Window) -> Window:
        """The pixels on which the window *written* depends, also where the image has none."""
        # All pixels of a window of attention depend on what lies around the window.
        own = written.scaled(self.inverse).aligned(self.align)
        return own.grown(self.halo or 0).aligned(self.align)

    def window(self, written: Window, size: Size) -> Window:
        """The pixels on which the window *written* depends, of a map of *size*."""
        return whole(size) if self.halo is None else self.reach(written).clipped(size)


@dataclass(frozen=True, eq=False)
class Step:
    """One pass, or several in one fast path."""

    passes: tuple[Pass, ...]
    readings: tuple[WindowReading, ...]
    fast_path: FastPath | None

    @property
    def last(self) -> Pass:
        """The pass that writes the map."""
        return self.passes[-1]

    @property
    def scale(self) -> Fraction:
        """The size of the map that is written, relative to the first map that is read."""
        return self.readings[0].scale

    @property
    def uses(self) -> str:
        """The map whose folded statistic it uses; "" if none."""
        return next((each.uses for each in self.passes if each.uses), "")


def steps_of(sweep: Sweep, device: Any, dtypes: Mapping[str, Any]) -> list[Step]:
    """The passes of *sweep*, whose maps are of *dtypes*, by the fast paths of *device*."""
    steps = []
    left = list(sweep.passes)
    while left:
        fast_path = fast_path_of(left, device, widest(left[0], dtypes))
        count = len(fast_path.kinds) if fast_path is not None else 1
        # A fast path computes no map between its passes: where one is kept, they run as written.
        if any(each.writes in sweep.keeps for each in left[: count - 1]):
            fast_path, count = None, 1
        steps.append(step_of(tuple(left[:count]), fast_path))
        del left[:count]
    return steps


def has_fast_path(program: Program, device: Any, dtype: Any) -> bool:
    """True if compiled kernels compute a pass of *program*.

    The first to ask may wait until they are compiled.
    """
    return any(step.fast_path is not None for step in _all_steps(program, device, dtype))


def plain_values(program: Program, device: Any, dtype: Any) -> int:
    """The most numbers for each pixel that a pass without a fast path works with at a time."""
    plain = [step.last for step in _all_steps(program, device, dtype) if step.fast_path is None]
    return max((program.values(each) for each in plain), default=0)


def _all_steps(program: Program, device: Any, dtype: Any) -> list[Step]:
    """The steps of *program*, all of whose maps are of *dtype*, where no map is kept."""
    dtypes = dict.fromkeys((PHOTO, *(each.writes for each in program.passes)), dtype)
    return steps_of(Sweep(program.passes, (program.output.writes,), ()), device, dtypes)


def precisions(program: Program, narrow: Any, wide: Any) -> dict[str, Any]:
    """The type of each map: a pass computes in the widest that it reads; kept maps are *narrow*."""
    dtypes = {PHOTO: wide}
    for each in program.passes:
        dtypes[each.writes] = narrow if each.is_kept else widest(each, dtypes)
    return dtypes | {program.output.writes: wide}


def widest(one: Pass, dtypes: Mapping[str, Any]) -> Any:
    """The type in which a pass computes."""
    return max((dtypes[name] for name in one.reads), key=lambda dtype: dtype.itemsize)


def step_of(passes: tuple[Pass, ...], fast_path: FastPath | None) -> Step:
    """The step of *passes*, with the maps that they read from outside.

    A fast path reads a halo of the first map only; a plain pass reads one of all its maps.
    """
    readings: list[WindowReading] = []
    scale, written = Fraction(1), {each.writes for each in passes}
    for each in reversed(passes):
        scale = scale * each.scale
        align = 1 if fast_path is not None else _alignment(each)
        outside = [name for name in each.reads if name not in written]
        own = []
        for name in outside:
            has_halo = fast_path is None or name == passes[0].reads[0]
            own.append(WindowReading(name, each.halo if has_halo else 0, scale, align))
        readings = own + readings
    return Step(passes, tuple(readings), fast_path)


def _alignment(each: Pass) -> int:
    """Multiple of pixels at which windows of a plain pass begin.

    It has to write whole pixels of a smaller map.
    """
    return max(each.align, each.scale.denominator)


def needs(
    steps: Sequence[Step], wanted: Mapping[str, Window], sizes: Mapping[str, Size]
) -> dict[str, Window]:
    """The window of every map that is computed or read for the *wanted* windows of some maps.

    A map that is larger than what it is made of is computed in whole multiples of that.
    """
    needed = dict(wanted)
    # Backwards: a step has to compute all that the steps after it read.
    for step in reversed(steps):
        written = needed[step.last.writes].aligned(step.scale.numerator)
        needed[step.last.writes] = written
        for reading in step.readings:
            window = reading.window(written, sizes[reading.name])
            known = needed.get(reading.name, window)
            needed[reading.name] = known.joined(window)
    return needed


def photo_window(program: Program, window: Window, sizes: Mapping[str, Size]) -> Window:
    """The pixels of the padded photo on which a *window* of the result depends.

    Statistics are held fixed. It is empty where the program needs nothing of the photo.
    """
    steps = []
    for each in program.passes:
        # A run begins at whole pixels of a smaller map; what a pixel depends on need not.
        readings = (WindowReading(name, each.halo, each.scale, each.align) for name in each.reads)
        steps.append(Step((each,), tuple(readings), None))
    return needs(steps, {program.output.writes: window}, sizes).get(PHOTO, Window(0, 0, 0, 0))


Execute = Callable[[Mapping[str, tuple[Window, Any]], Window, Mapping[str, Size]], Any]
"""Windows of maps, the window that is written, and the size of every map -> the map there."""


def executable(step: Step, dtypes: Mapping[str, Any], folded: Mapping[str, Any]) -> Execute:
    """*step* with the *folded* statistic that it uses, ready to run."""
    dtype = widest(step.passes[0], dtypes)
    first, fast_path = step.readings[0], step.fast_path
    taken = _taker(step, dtype)

    def windows_of(
        maps: Mapping[str, tuple[Window, Any]], written: Window, sizes: Mapping[str, Size]
    ) -> list[Any]:
        windows = ((each.name, each.window(written, sizes[each.name])) for each in step.readings)
        return [taken(within(window, *maps[name])) for name, window in windows]

    if fast_path is None:
        from napari_mst.engine.tensors import in_precision

        local = in_precision(step.last.local, dtype)
        used = (folded[step.uses],) if step.uses else ()

        def execute(maps: Any, written: Window, sizes: Mapping[str, Size]) -> Any:
            rows, columns = written.inside(
                first.window(written, sizes[first.name]).scaled(first.scale)
            )
            return local(*windows_of(maps, written, sizes), *used)[..., rows, columns]

        return execute
    value = folded[step.uses] if step.uses else None
    if fast_path.takes_arrays and value is not None:
        value = as_array(value)
    compute = fast_path.build(step.passes, value, dtype)

    def execute_fast(maps: Any, written: Window, sizes: Mapping[str, Size]) -> Any:
        missing = first.reach(written).missing(sizes[first.name])
        return compute(windows_of(maps, written, sizes), missing)

    return execute_fast


def _taker(step: Step, dtype: Any) -> Callable[[Any], Any]:
    """Gives values of maps to *step*, which computes in *dtype*: as arrays, or as tensors."""
    if step.fast_path is not None and step.fast_path.takes_arrays:
        return _singles
    from napari_mst.engine.tensors import taken_by

    return partial(taken_by, dtype=dtype, is_plain=step.fast_path is None)


def _singles(values: Any) -> Singles:
    """*values* of a map as a float32 array; tensors may be bfloat16, which NumPy lacks."""
    if not isinstance(values, np.ndarray):
        values = as_array(values.float())
    return values.astype(np.float32, copy=False)


def converted(values: Any, dtype: Any) -> Any:
    """*values* of a map of *dtype*: in an array, or a tensor, as they are if they fit."""
    if isinstance(values, np.ndarray):
        if name_of(dtype) == name_of(values.dtype):
            return values
        from napari_mst.engine.tensors import as_tensor

        values = as_tensor(values)
    return values.to(dtype)


def within(window: Window, have: Window, values: Any) -> Any:
    """The values of a *window*, of those that we *have*."""
    if window == have:
        return values
    rows, columns = window.inside(have)
    return values[..., rows, columns]


# Costs


def run_cost(program: Program, device: Any, dtype: Any) -> float:
    """The time of a run: microseconds a pixel of the photo, of one thread of a CPU.

    Maps are of *dtype*.
    """
    return sum(sweep_costs(schedule(thrifty(program, device, dtype)), device, dtype))


def sweep_costs(planned: Schedule, device: Any, dtype: Any) -> list[float]:
    """The time of each sweep, in the unit of `run_cost`."""
    program = planned.program
    dtypes = precisions(program, dtype, program.dtype)
    _, places = planned.storage(program.multiple, program.multiple, 1, 1)
    shares = {name: float(scale) ** 2 for name, scale in program.scales.items()}
    used: set[tuple[int, int]] = set()
    costs = []
    for sweep in planned.sweeps:
        cost = 0.0
        for step in steps_of(sweep, device, dtypes):
            pace = step.fast_path.pace if step.fast_path is not None else PACE
            cost += sum(pace * each.cost * shares[each.writes] for each in step.passes)
        for name in sweep.keeps:
            if places[name] not in used:
                cost += FRESH * program.channels(name) * dtypes[name].itemsize * shares[name]
        used |= {places[name] for name in sweep.keeps}
        costs.append(cost)
    return costs
