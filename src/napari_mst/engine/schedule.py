"""The order in which a program is run: sweeps over the image, and which maps are kept between them.

Only a statistic couples distant pixels. All passes between two statistics are one sweep: they are
computed together, tile by tile, and nothing but what a later sweep reads is kept. What one
sweep reads for the last time makes room for what later ones write.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Any

from napari_mst.engine.fast_paths import native
from napari_mst.engine.windows import Size
from napari_mst.networks.network import PHOTO, Pass, Program

REACH = 8
"""Pixels of halo that the passes of a sweep may add up to.

With more, computing the halos twice would cost more than keeping a map.
"""

_MOST_AGAIN = 1.02
"""The work with all maps that are computed again, at most, in that without them."""

_FLOAT = 4  # bytes
_ALIGNMENT = 64  # bytes: maps in a slab begin at cache lines
_CUTS: dict[Hashable, frozenset[str]] = {}  # by the form of a program: a run asks many times


@dataclass(frozen=True, eq=False)
class Sweep:
    """Passes that are computed together, tile by tile.

    Attributes
    ----------
    passes
        In the order in which they run; the first few may compute again what was not kept.
    keeps
        Names of the maps that it writes for later sweeps, or as the result.
    adds_up
        Names of the maps whose statistic it adds up.
    """

    passes: tuple[Pass, ...]
    keeps: tuple[str, ...]
    adds_up: tuple[str, ...]

    @property
    def base(self) -> str:
        """The map whose tiles it goes through: the first that it reads."""
        return self.passes[0].reads[0]

    @property
    def reads(self) -> set[str]:
        """Names of the maps that it reads and does not write itself."""
        written = {each.writes for each in self.passes}
        return {name for each in self.passes for name in each.reads} - written

    @property
    def is_whole(self) -> bool:
        """True if a pass depends on all pixels at once, so that there is only one tile."""
        return any(each.halo is None for each in self.passes)

    def grain(self, scales: Mapping[str, Fraction]) -> int:
        """The multiple of pixels of the base at which its tiles begin.

        *scales* are those of the program.
        """
        base = scales[self.base]
        # A tile begins at a whole pixel of each written map and at a whole attention window:
        # otherwise two tiles would share a pixel or a window.
        coarse = [base / scales[each.writes] for each in self.passes]
        aligned = [base / scales[each.reads[0]] * each.align for each in self.passes]
        return lcm(*(step.numerator for step in (*coarse, *aligned)))

    @property
    def reach(self) -> int:
        """Pixels of halo that its passes add up to."""
        return max(int(depth) for depth in _depths(self.passes).values())


Slot = tuple[int, int]
"""The slab in which a map is kept, and where it begins: bytes."""


@dataclass(frozen=True, eq=False)
class Schedule:
    """The sweeps of a program."""

    program: Program
    sweeps: tuple[Sweep, ...]

    @property
    def kept(self) -> dict[str, tuple[int, int]]:
        """Every map that is kept, with the sweep that writes it and the last one that reads it."""
        kept: dict[str, tuple[int, int]] = {}
        for index, sweep in enumerate(self.sweeps):
            kept |= dict.fromkeys(sweep.keeps, (index, index))
            kept |= {name: (kept[name][0], index) for name in sweep.reads if name != PHOTO}
        return kept

    def ended(self, sweep: Sweep) -> list[str]:
        """Names of the maps that *sweep* reads for the last time, whose place nothing else takes.

        The result is none of them.
        """
        index = self.sweeps.index(sweep)
        output = self.program.output.writes
        spans = self._shared().items()
        return [names[-1] for names, (_, last) in spans if last == index and output not in names]

    @property
    def is_pointwise(self) -> bool:
        """True if a pixel of the result depends on no other pixel."""
        return len(self.sweeps) == 1 and self.sweeps[0].reach == 0

    @property
    def reach(self) -> int:
        """Pixels of halo that a sweep needs, at most."""
        return max(sweep.reach for sweep in self.sweeps)

    @property
    def values(self) -> int:
        """The most numbers for each pixel of the photo that a pass works with at a time."""
        scales = self.program.scales
        return max(
            int(self.program.values(each) * float(scales[each.reads[0]]) ** 2)
            for each in self.program.passes
        )

    @property
    def kept_values(self) -> float:
        """Numbers for each pixel of the photo of the largest map that is kept."""
        scales = self.program.scales
        return max(self.program.channels(name) * float(scales[name]) ** 2 for name in self.kept)

    @property
    def gathered_values(self) -> float:
        """Numbers per pixel of the photo that statistics keep until the run ends."""
        scales = self.program.scales
        kept = [each.gathers * float(scales[each.writes]) ** 2 for each in self.program.passes]
        # While the parts of one are put together, there are two of it.
        return sum(kept) + max(kept)

    @property
    def memory(self) -> int:
        """Bytes of all maps of the smallest photo, in float32: to be compared with others."""
        side = self.program.multiple
        sizes, _ = self.storage(side, side, _FLOAT, _FLOAT)
        return sum(sizes)

    @property
    def work(self) -> int:
        """Passes of all sweeps: more than those of the program if some are computed again."""
        return sum(len(sweep.passes) for sweep in self.sweeps)

    def largest_map(self, height: int, width: int, number: int) -> int:
        """Bytes of the largest map that is kept, of *number* bytes a value."""
        rows, columns = self.program.padded(height, width)
        return int(rows * columns * self.kept_values) * number

    def storage(
        self, height: int, width: int, number: int, wide: int
    ) -> tuple[list[int], dict[str, Slot]]:
        """Sizes of the slabs, in bytes, and where in them each map is kept.

        The photo has *height* x *width* pixels.

        Maps have *number* bytes a value, the result *wide*. It has a slab for itself in the end, so
        that nothing else stays in memory with it.
        """
        return _placed(self._buffers(height, width, number, wide), self.program.output.writes)

    def peak(self, height: int, width: int, number: int, wide: int) -> int:
        """Bytes of all maps that are in memory at a time, where rows go back once they are read."""
        output = self.program.output.writes
        buffers = self._buffers(height, width, number, wide)
        most = 0
        for index in range(len(self.sweeps)):
            before = [each for each in buffers if each.first < index <= each.last]
            after = [
                each
                for each in buffers
                if each.first <= index and (index < each.last or output in each.names)
            ]
            most = max(most, *(sum(each.size for each in live) for live in (before, after)))
        return most

    def _buffers(self, height: int, width: int, number: int, wide: int) -> "list[_Buffer]":
        sizes = self.program.sizes(height, width)
        output = self.program.output.writes
        sizes[output] = result_size(self.program, height, width)
        buffers = [_Buffer(names, *span, 0) for names, span in self._shared().items()]
        for buffer in buffers:
            for name in buffer.names:
                own = wide if name == output else number
                buffer.size = max(buffer.size, self._bytes(name, sizes[name], own))
        return buffers

    def _bytes(self, name: str, size: Size, number: int) -> int:
        values = size[0] * size[1] * self.program.channels(name)
        return -(-values * number // _ALIGNMENT) * _ALIGNMENT

    def _shared(self) -> dict[tuple[str, ...], tuple[int, int]]:
        """Maps that take each other's place pixel by pixel, with their first and last sweep."""
        spans = self.kept
        shared: dict[tuple[str, ...], tuple[int, int]] = {}
        for name, (first, last) in spans.items():
            before = self._replaced(name, first, spans)
            group = next((names for names in shared if before in names), ()) if before else ()
            start = shared.pop(group)[0] if group else first
            shared[(*group, name)] = (start, last)
        return shared

    def _replaced(self, name: str, index: int, spans: dict[str, tuple[int, int]]) -> str:
        """The map whose place *name* takes pixel by pixel; "" if there is none.

        It has the same shape, and is read for the last time where *name* is written.
        """
        sweep = self.sweeps[index]
        writer = self.program.writer(name)
        is_read_here = any(name in each.reads for each in sweep.passes)
        is_pixel_by_pixel = writer.halo == 0 and writer.scale == 1
        if name == self.program.output.writes or is_read_here or not is_pixel_by_pixel:
            return ""
        # A map that is computed pixel by pixel may overwrite its input.
        for read in writer.reads:
            readers = [each for each in sweep.passes if read in each.reads]
            is_last = read in spans and spans[read][1] == index and read in sweep.reads
            if is_last and readers == [writer] and self.program.channels(read) == writer.channels:
                return read
        return ""


def schedule(program: Program) -> Schedule:
    """The sweeps of *program*: as few as can be, but for those that make the maps take less memory.

    A map that a sweep reads and two that it writes live at the same time. If one of the two is made
    of the other, it may have a separate sweep, when the first map has made room.
    """
    form = _form(program)
    if form not in _CUTS:
        _CUTS[form] = _best_cuts(program)
    return _scheduled(program, _CUTS[form])


def _form(program: Program) -> Hashable:
    """All of *program* on which its cuts depend, without its weights."""
    passes = tuple(
        (
            (each.writes, each.reads, each.uses),
            (each.channels, each.scale, each.halo, each.align),
            (each.is_kept, each.statistic is None),
        )
        for each in program.passes
    )
    return passes, program.multiple, program.is_cropped


def _best_cuts(program: Program) -> frozenset[str]:
    """The maps that are computed in a separate sweep, so that all maps take the least memory."""
    plain = _scheduled(program, set())
    cuts = frozenset(_possible_cuts(plain))
    cut = _scheduled(program, cuts)
    least = cut.memory
    # More work: a map that is not kept would have to be computed once more.
    if cut.work > plain.work or least >= plain.memory:
        return frozenset()
    # Stages that are alike take less memory only if all of them are cut, so cuts are taken back.
    for name in sorted(cuts):
        other = _scheduled(program, cuts - {name})
        if other.memory <= least:
            cuts, least = cuts - {name}, other.memory
    return cuts


def _possible_cuts(planned: Schedule) -> list[str]:
    """The maps that are made of one that their own sweep keeps."""
    return [
        each.writes
        for sweep in planned.sweeps
        for each in sweep.passes
        if not set(sweep.keeps).isdisjoint(each.reads)
    ]


def _scheduled(program: Program, cuts: AbstractSet[str]) -> Schedule:
    """The sweeps of *program*; one begins at each map of *cuts*."""
    groups = list(_groups(program, cuts))
    sweeps = []
    for index, (passes, again) in enumerate(groups):
        later = {name for more, _ in groups[index + 1 :] for name in _outside(more)}
        own = [each for each in passes if each not in again]
        is_needed = [each.writes in later or each is program.output for each in own]
        keeps = tuple(each.writes for each, needed in zip(own, is_needed, strict=True) if needed)
        adds_up = tuple(each.writes for each in own if each.statistic is not None)
        sweeps.append(Sweep(tuple(passes), keeps, adds_up))
    return Schedule(program, tuple(sweeps))


def thrifty(program: Program, device: Any, dtype: Any) -> Program:
    """*program*, or its `remembering` copy where to compute maps again would take long.

    *dtype* is that of the maps: where it is narrower than the weights', maps that are kept have
    lost digits that those computed again have. Compiled kernels are so quick with the colours of a
    photo that a map less is worth more.
    """
    is_quick = native.is_native(device, dtype) and native.is_installed()
    if dtype != program.dtype or is_quick:
        return program
    remembering = program.remembering()
    again, kept = (_cost(schedule(each)) for each in (program, remembering))
    return remembering if again > _MOST_AGAIN * kept else program


def _cost(planned: Schedule) -> float:
    """Multiplications and additions of all sweeps for each pixel of the photo."""
    scales = planned.program.scales
    return sum(
        each.cost * float(scales[each.writes]) ** 2
        for sweep in planned.sweeps
        for each in sweep.passes
    )


def result_size(program: Program, height: int, width: int) -> Size:
    """Height and width of the result for a photo of *height* x *width*."""
    if program.is_cropped:
        return height, width
    return program.sizes(height, width)[program.output.writes]


def _groups(program: Program, cuts: AbstractSet[str]) -> Iterator[tuple[list[Pass], list[Pass]]]:
    """The passes of each sweep, and which of them are computed again; *cuts* begin a sweep."""
    passes: list[Pass] = []
    again: list[Pass] = []
    for each in program.passes:
        if passes and (each.writes in cuts or _needs_a_sweep(each, passes)):
            yield passes, again
            passes, again = [], []
        repeated = [one for one in _not_kept(program, each) if one not in passes]
        again += repeated
        passes += [*repeated, each]
    yield passes, again


def _needs_a_sweep(each: Pass, before: Sequence[Pass]) -> bool:
    """True if *each* has to wait for all tiles of the passes *before* it, or had better."""
    own = {one.writes for one in before}
    # A statistic is known when the last tile is done; a pass over the whole image has one tile.
    if each.uses in own or each.halo is None or before[-1].halo is None:
        return True
    # A map that is not kept cannot be read by a later sweep, however deep the halo gets.
    is_kept = all(one.is_kept for one in before if one.writes in each.reads)
    return is_kept and _depths([*before, each])[each.writes] > REACH


def _not_kept(program: Program, each: Pass) -> list[Pass]:
    """The passes that compute the maps that *each* reads and nobody keeps, in their order."""
    found: list[Pass] = []
    for name in each.reads:
        if name == PHOTO or program.writer(name).is_kept:
            continue
        writer = program.writer(name)
        found += [one for one in (*_not_kept(program, writer), writer) if one not in found]
    return found


def _outside(passes: Sequence[Pass]) -> set[str]:
    written = {each.writes for each in passes}
    return {name for each in passes for name in each.reads} - written


def _depths(passes: Sequence[Pass]) -> dict[str, Fraction]:
    """Halo of what the first pass reads on which each map depends, in pixels of the map."""
    depths: dict[str, Fraction] = {}
    for each in passes:
        deepest = max(depths.get(name, Fraction(0)) for name in each.reads)
        # A part of a window of attention depends on all of it: up to a window more on each side.
        halo = (each.halo or 0) + (each.align if each.align > 1 else 0)
        depths[each.writes] = (deepest + halo) * each.scale
    return depths


@dataclass
class _Buffer:
    """Memory of maps that take each other's place, from the *first* sweep to the *last* one."""

    names: tuple[str, ...]
    first: int
    last: int
    size: int

    def meets(self, other: "_Buffer") -> bool:
        """True if both live in some sweep."""
        return self.first <= other.last and other.first <= self.last


def _placed(buffers: list[_Buffer], output: str) -> tuple[list[int], dict[str, Slot]]:
    """Slabs for *buffers*: each takes the first gap among those that live at the same time.

    The largest buffers are placed first, so that small ones fill the gaps that they leave; of one
    size, they are placed in the order of their sweeps, which takes the fewest slabs.
    """
    # The result fills its slab, so that nothing else lives there in the end.
    largest = max(buffer.size for buffer in buffers)
    slabs: list[int] = []
    placed: list[tuple[_Buffer, Slot]] = []
    for buffer in buffers:
        if output in buffer.names:
            buffer.size = largest
    for buffer in sorted(buffers, key=lambda buffer: (-buffer.size, buffer.first)):
        place = next(_gaps(buffer, slabs, placed), None)
        if place is None:
            place = len(slabs), 0
            slabs.append(buffer.size)
        placed.append((buffer, place))
    return slabs, {name: place for buffer, place in placed for name in buffer.names}


def _gaps(buffer: _Buffer, slabs: list[int], placed: list[tuple[_Buffer, Slot]]) -> Iterator[Slot]:
    """The first gap of each slab that is large enough for *buffer*."""
    for index, size in enumerate(slabs):
        others = sorted(
            (start, other.size)
            for other, (slab, start) in placed
            if slab == index and other.meets(buffer)
        )
        offset = 0
        for start, length in (*others, (size, 0)):
            if offset + buffer.size <= start:
                yield index, offset
                break
            offset = max(offset, start + length)
