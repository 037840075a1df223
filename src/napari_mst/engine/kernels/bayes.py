"""Non-local Bayes of a tile: `denoising.nl_bayes` in float32.

A patch is the 3 x 3 pixels from one on. Those of a group are the rows of a matrix, and the filter
of the group is one more: both are filled up to whole vectors. Each patch meets the same
instructions wherever it lies in a tile, so bits do not depend on the tile.
"""

from collections.abc import Callable, Iterator
from itertools import product
from typing import NamedTuple

import numpy as np
from llvmlite import ir

from napari_mst.base.arrays import Singles
from napari_mst.engine.kernels.caching import kernel, part
from napari_mst.engine.kernels.emitter import FLOAT, Emitter, LLVMValue, emitted, floats, integers
from napari_mst.engine.kernels.patch_groups import PATCH, REACH, Grid, Stage
from napari_mst.engine.kernels.powers import ONE, ZERO, larger
from napari_mst.engine.kernels.processor import LANES, VECTOR

_SIDE = 2 * REACH + 1
_COLUMNS = 16  # of a window: whole vectors of any processor
_CHANNELS = 3
_FLOAT_BYTES = 4
_THOUSAND = np.float32(1000)
_PIXELS = PATCH**2
_MOST = _SIDE**2 + 2  # patches of a group: rows are taken by three
_AT_ONCE = 3  # rows of a product whose sums fit into the registers of AVX2
_BITS_OF_LARGEST = (
    0x7F7FFFFF  # the largest float32 as an integer; those of smaller ones are smaller
)


class TilePlanes(NamedTuple):
    """Planes of one height and width, as addresses, with `REACH` or more pixels around the image.

    Attributes
    ----------
    noisy, guide
        (3, height, width) float32: the image, and the one by which patches are compared.
    barred
        (height, width) float32: 0 where a patch may begin, and infinity elsewhere.
    sums
        (4, height, width) float32: the estimates are added to the first three, their number to the
        last.
    """

    noisy: int
    guide: int
    barred: int
    sums: int
    height: int
    width: int


class PatchGroup(NamedTuple):
    """The patches of a group: their places as byte offsets, and how a plane lies in memory."""

    places: int
    count: int  # type: ignore[assignment] # nobody counts in a group of numbers
    row: int
    plane: int


class Pair(NamedTuple):
    """The addresses of a patch, and of the first of those that it is compared with."""

    here: int
    there: int


class Scratch(NamedTuple):
    """Addresses of what a group is worked with.

    Those of the distances in a window, the places of patches, the patches that the filter is made
    of, those that it filters, their mean, the filter, and a matrix of ones on its diagonal.
    """

    distances: int
    places: int
    guide: int
    noisy: int
    mean: int
    filter: int
    ones: int


@emitted
def _compare(e: Emitter, pair: Pair, group: PatchGroup, channels: int, row: int) -> None:
    """Add the distances of `_COLUMNS` consecutive patches from one patch to *row*."""
    vectors = _COLUMNS // LANES
    sums = [e.variable(e.load(e.at(row, vector * VECTOR))) for vector in range(vectors)]
    with e.loop(channels) as loop:
        own = e.along(pair.here, loop.index, group.plane)
        others = e.along(pair.there, loop.index, group.plane)
        for down, right in product(range(PATCH), repeat=2):
            shift = right * _FLOAT_BYTES
            value = e.splat(e.load(e.at(e.along(own, down, group.row), shift), FLOAT))
            other = e.at(e.along(others, down, group.row), shift)
            for vector, total in enumerate(sums):
                off = e.builder.fsub(e.load(e.at(other, vector * VECTOR)), value)
                e.put(e.multiply_add(off, off, e.value(total)), total)
    for vector, total in enumerate(sums):
        e.store(e.value(total), e.at(row, vector * VECTOR))


@emitted
def _count(e: Emitter, distances: int, limit: int, found: int) -> None:
    """Write how many of the *distances* of a window are at most the number at *limit*."""
    most = e.splat(e.load(limit, FLOAT))
    total = e.variable(e.constant(0))
    with e.loop(_SIDE * _COLUMNS // LANES) as loop:
        vector = e.load(e.along(distances, loop.index, VECTOR))
        is_near = e.builder.fcmp_ordered("<=", vector, most)
        one = e.builder.select(is_near, e.constant(1), e.constant(0))
        e.put(e.builder.fadd(e.value(total), one), total)
    e.store(e.sum(e.value(total)), found)


class _Steps:
    """The steps for a group of patches with *channels* channels."""

    def __init__(self, channels: int) -> None:
        self.numbers = channels * _PIXELS
        self.vectors = -(-self.numbers // _COLUMNS) * _COLUMNS // LANES
        self.bytes = self.vectors * VECTOR
        self._channels = channels

    def _pixels(self, e: Emitter, start: LLVMValue, group: PatchGroup) -> Iterator[LLVMValue]:
        """The addresses of the numbers of the patch that begins at *start*, in their order."""
        for channel, down, right in product(range(self._channels), range(PATCH), range(PATCH)):
            of_row = e.along(e.along(start, channel, group.plane), down, group.row)
            yield e.at(of_row, right * _FLOAT_BYTES)

    def _patches(
        self, e: Emitter, plane: LLVMValue, group: PatchGroup, rows: LLVMValue
    ) -> Iterator[tuple[LLVMValue, LLVMValue]]:
        """A loop over the patches of a group: yields once, within it, where each begins."""
        with e.loop(group.count) as loop:
            place = e.along(group.places, loop.index, 8)
            offset = e.load(place, ir.IntType(64))
            yield e.builder.add(plane, offset), e.along(rows, loop.index, self.bytes)

    def gather(self, e: Emitter, plane: int, group: PatchGroup, rows: int) -> None:
        """Copy the patches of a group to *rows*."""
        for start, row in self._patches(e, plane, group, rows):
            for index, pixel in enumerate(self._pixels(e, start, group)):
                e.store(e.load(pixel, FLOAT), e.at(row, index * _FLOAT_BYTES))

    def scatter(self, e: Emitter, rows: int, group: PatchGroup, sums: int, counts: int) -> None:
        """Add *rows* to *sums* where the patches lie; and 1 to *counts*, unless that is 0."""
        one = ir.Constant(FLOAT, 1.0)
        for start, row in self._patches(e, sums, group, rows):
            for index, pixel in enumerate(self._pixels(e, start, group)):
                value = e.load(e.at(row, index * _FLOAT_BYTES), FLOAT)
                e.store(e.builder.fadd(e.load(pixel, FLOAT), value), pixel)
        with e.when(counts):
            for start, _ in self._patches(e, counts, group, rows):
                for index, pixel in enumerate(self._pixels(e, start, group)):
                    if index < _PIXELS:
                        e.store(e.builder.fadd(e.load(pixel, FLOAT), one), pixel)

    def average(self, e: Emitter, rows: int, group: PatchGroup, share: float, mean: int) -> None:
        """Write *share* times the sum of *rows*."""
        sums = e.variables(self.vectors, e.constant(0))
        with e.loop(group.count) as loop:
            row = e.along(rows, loop.index, self.bytes)
            for vector, total in enumerate(sums):
                e.put(e.builder.fadd(e.value(total), e.load(e.at(row, vector * VECTOR))), total)
        for vector, total in enumerate(sums):
            value = e.builder.fmul(e.value(total), e.splat(share))
            e.store(value, e.at(mean, vector * VECTOR))

    def centre(self, e: Emitter, rows: int, group: PatchGroup, mean: int) -> None:
        """Subtract *mean* from *rows*."""
        means = [e.load(e.at(mean, vector * VECTOR)) for vector in range(self.vectors)]
        with e.loop(group.count) as loop:
            row = e.along(rows, loop.index, self.bytes)
            for vector, value in enumerate(means):
                place = e.at(row, vector * VECTOR)
                e.store(e.builder.fsub(e.load(place), value), place)

    def multiply(self, e: Emitter, rows: int, group: PatchGroup, share: float, target: int) -> None:
        """Write *share* times the products of the columns of *rows*, a matrix."""
        places = list(product(range(_AT_ONCE), range(self.vectors)))
        with e.loop(self.numbers // _AT_ONCE) as block:
            sums = e.variables(len(places), e.constant(0))
            first = e.along(rows, block.index, _AT_ONCE * _FLOAT_BYTES)
            with e.loop(group.count) as loop:
                row = e.along(rows, loop.index, self.bytes)
                own = e.along(first, loop.index, self.bytes)
                values = [
                    e.splat(e.load(e.at(own, i * _FLOAT_BYTES), FLOAT)) for i in range(_AT_ONCE)
                ]
                others = [e.load(e.at(row, vector * VECTOR)) for vector in range(self.vectors)]
                for total, (i, vector) in zip(sums, places, strict=True):
                    e.put(e.multiply_add(values[i], others[vector], e.value(total)), total)
            written = e.along(target, block.index, _AT_ONCE * self.bytes)
            for total, (i, vector) in zip(sums, places, strict=True):
                value = e.builder.fmul(e.value(total), e.splat(share))
                e.store(value, e.at(written, i * self.bytes + vector * VECTOR))

    def invert(self, e: Emitter, matrix: int, ones: int) -> None:
        """Invert a positive definite *matrix* in place, by Gauss and Jordan; *ones* is another."""
        shifts = [vector * VECTOR for vector in range(self.vectors)]
        with e.loop(self.numbers) as loop:
            row = e.along(matrix, loop.index, self.bytes)
            unit = e.along(ones, loop.index, self.bytes)
            column = e.along(matrix, loop.index, _FLOAT_BYTES)
            pivot = e.load(e.along(column, loop.index, self.bytes), FLOAT)
            scale = e.builder.fdiv(ir.Constant(FLOAT, 1.0), pivot)
            # 1 in the column of the pivot, by which other rows become 0 there to the last bit.
            units = [e.load(e.at(unit, shift)) for shift in shifts]
            scaled = []
            for shift, one in zip(shifts, units, strict=True):
                without = e.multiply_add(
                    e.splat(e.builder.fsub(ir.Constant(FLOAT, 1.0), pivot)),
                    one,
                    e.load(e.at(row, shift)),
                )
                scaled.append(e.builder.fmul(without, e.splat(scale)))
            with e.loop(self.numbers) as other:
                target = e.along(matrix, other.index, self.bytes)
                factor = e.load(e.along(column, other.index, self.bytes), FLOAT)
                factors = e.splat(e.builder.fneg(factor))
                for shift, one, value in zip(shifts, units, scaled, strict=True):
                    rest = e.multiply_add(factors, one, e.load(e.at(target, shift)))
                    e.store(e.multiply_add(factors, value, rest), e.at(target, shift))
            for shift, value in zip(shifts, scaled, strict=True):
                e.store(value, e.at(row, shift))

    def apply(self, e: Emitter, rows: int, group: PatchGroup, scratch: Scratch) -> None:
        """Filter *rows*: subtract their mean, apply the filter, add the mean again."""
        places = list(product(range(_AT_ONCE), range(self.vectors)))
        three = ir.Constant(ir.IntType(64), _AT_ONCE)
        whole = e.builder.add(group.count, ir.Constant(ir.IntType(64), _AT_ONCE - 1))
        with e.loop(e.builder.udiv(whole, three)) as block:
            first = e.along(rows, block.index, _AT_ONCE * self.bytes)
            sums = e.variables(len(places), e.constant(0))
            for total, (i, vector) in zip(sums, places, strict=True):
                own = e.load(e.at(first, i * self.bytes + vector * VECTOR))
                mean = e.load(e.at(scratch.mean, vector * VECTOR))
                e.put(e.builder.fadd(own, mean), total)
            with e.loop(self.numbers) as loop:
                row = e.along(scratch.filter, loop.index, self.bytes)
                column = e.along(first, loop.index, _FLOAT_BYTES)
                values = [
                    e.builder.fneg(e.splat(e.load(e.at(column, i * self.bytes), FLOAT)))
                    for i in range(_AT_ONCE)
                ]
                others = [e.load(e.at(row, vector * VECTOR)) for vector in range(self.vectors)]
                for total, (i, vector) in zip(sums, places, strict=True):
                    e.put(e.multiply_add(values[i], others[vector], e.value(total)), total)
            for total, (i, vector) in zip(sums, places, strict=True):
                e.store(e.value(total), e.at(first, i * self.bytes + vector * VECTOR))


_Filter = Callable[[TilePlanes, PatchGroup, Scratch, int, Stage], None]


def _filter_of(channels: int) -> _Filter:
    """The function that filters a group of patches with *channels* channels, at least one."""
    steps = _Steps(channels)
    numbers, width = steps.numbers, steps.bytes // _FLOAT_BYTES
    gather, scatter = emitted(steps.gather), emitted(steps.scatter)
    average, centre = emitted(steps.average), emitted(steps.centre)
    multiply, invert, apply = emitted(steps.multiply), emitted(steps.invert), emitted(steps.apply)

    @part
    def filter_group(
        tile: TilePlanes, group: PatchGroup, scratch: Scratch, channel: int, stage: Stage
    ) -> None:
        shift = channel * group.plane
        count = np.float32(group.count)
        gather(tile.guide + shift, group, scratch.guide)
        average(scratch.guide, group, ONE / count, scratch.mean)  # type: ignore[arg-type] # float32
        centre(scratch.guide, group, scratch.mean)
        multiply(scratch.guide, group, ONE / larger(count - ONE, ONE), scratch.filter)
        matrix = floats(scratch.filter, numbers * width)
        total, ridge = ZERO, np.float32(stage.ridge) / _THOUSAND
        for i in range(numbers):
            total += matrix[i * width + i]
            matrix[i * width + i] += ridge
        gather(tile.noisy + shift, group, scratch.noisy)
        flat = np.float32(stage.flat * numbers) / _THOUSAND
        if total > flat and group.count >= stage.fewest:
            invert(scratch.filter, scratch.ones)
            centre(scratch.noisy, group, scratch.mean)
            apply(scratch.noisy, group, scratch)
        else:
            mean = floats(scratch.mean, numbers)
            rows = floats(scratch.noisy, group.count * width)
            for index in range(group.count):
                for i in range(numbers):
                    rows[index * width + i] = mean[i]
        counts = 0 if channel else tile.sums + _CHANNELS * group.plane
        scatter(scratch.noisy, group, tile.sums + shift, counts)

    return filter_group


_filter_plane, _filter_all = _filter_of(1), _filter_of(_CHANNELS)
_WIDTH = _Steps(_CHANNELS).bytes // _FLOAT_BYTES
_PLANE_WIDTH = _Steps(1).bytes // _FLOAT_BYTES


@part
def _limit(distances: int, tried: int, count: int) -> np.float32:
    """The distance up to which there are *count* patches, or all; more where several are equal.

    *tried* is where two numbers may be written.
    """
    numbers = floats(tried, 2)
    low, high = 0, _BITS_OF_LARGEST
    while low < high:
        middle = (low + high) // 2
        numbers[0] = np.int32(middle).view(np.float32)
        _count(distances, tried, tried + _FLOAT_BYTES)
        if numbers[1] == count:
            break
        if numbers[1] < count:
            low = middle + 1
        else:
            high = middle
    return np.int32((low + high) // 2).view(np.float32)


@part
def _nearest(tile: TilePlanes, y: int, x: int, scratch: Scratch, stage: Stage) -> PatchGroup:
    """The group of the patch that begins at row *y* and column *x*."""
    row = tile.width * _FLOAT_BYTES
    group = PatchGroup(scratch.places, 0, row, tile.height * row)
    here = y * row + x * _FLOAT_BYTES
    for i in range(_SIDE):
        shift = here + (i - REACH) * row - REACH * _FLOAT_BYTES
        target = scratch.distances + i * _COLUMNS * _FLOAT_BYTES
        own = floats(target, _COLUMNS)
        barred = floats(tile.barred + shift, _COLUMNS)
        for j in range(_COLUMNS):
            own[j] = barred[j] if j < _SIDE else np.inf
        _compare(Pair(tile.guide + here, tile.guide + shift), group, stage.channels, target)
    limit = _limit(scratch.distances, scratch.mean, stage.count)
    distances = floats(scratch.distances, _SIDE * _COLUMNS)
    places = integers(scratch.places, _SIDE * _COLUMNS)
    count = 0
    for i in range(_SIDE):
        start = here + (i - REACH) * row - REACH * _FLOAT_BYTES
        for j in range(_SIDE):
            # Written always and kept if it is near: processors cannot guess which are.
            places[count] = start + j * _FLOAT_BYTES
            count += distances[i * _COLUMNS + j] <= limit
    return PatchGroup(scratch.places, count, row, tile.height * row)


@part
def _write_diagonal(matrix: Singles, width: int) -> None:
    """Write ones on the diagonal of a *matrix*, and zeros beside it."""
    for index in range(len(matrix)):
        matrix[index] = ZERO if index % (width + 1) else ONE


@kernel
def add_estimates(tile: TilePlanes, grid: Grid, stage: Stage, scratch: int) -> None:
    """Add the estimates of all groups of *grid*; *scratch* are `SCRATCH` numbers that are 0."""
    places = scratch + _SIDE * _COLUMNS * _FLOAT_BYTES
    guide = places + 2 * _SIDE * _COLUMNS * _FLOAT_BYTES
    noisy = guide + _MOST * _WIDTH * _FLOAT_BYTES
    mean = noisy + _MOST * _WIDTH * _FLOAT_BYTES
    matrix = mean + _WIDTH * _FLOAT_BYTES
    ones = matrix + _WIDTH * _WIDTH * _FLOAT_BYTES
    own = Scratch(scratch, places, guide, noisy, mean, matrix, ones)
    is_first = stage.channels == 1
    width = _PLANE_WIDTH if is_first else _WIDTH
    _write_diagonal(floats(ones, width * width), width)
    barred = floats(tile.barred, tile.height * tile.width)
    for y in range(grid.top, grid.bottom):
        if (y - grid.down) % grid.step and y != grid.last_row:
            continue
        for x in range(grid.left, grid.right):
            if (x - grid.across) % grid.step and x != grid.last_column:
                continue
            if barred[y * tile.width + x] > 0:
                continue
            group = _nearest(tile, y, x, own, stage)
            if is_first:
                for channel in range(_CHANNELS):
                    _filter_plane(tile, group, own, channel, stage)
            else:
                _filter_all(tile, group, own, 0, stage)


SCRATCH = 3 * _SIDE * _COLUMNS + (2 * _MOST + 1 + 2 * _WIDTH) * _WIDTH
"""The numbers of float32 that `estimate` works with."""
