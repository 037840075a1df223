"""Non-local means of a tile: `denoising.blocks` in float32, with sums in float64.

Pixels lie in the lanes of a vector. Each is computed by the same instructions wherever it lies in a
tile, so that its bits do not depend on the tile.
"""

from typing import NamedTuple

from numba import njit

from napari_mst.engine.kernels.emitter import DOUBLES, FLOAT, Emitter, Value, emitted
from napari_mst.engine.kernels.powers import exponential
from napari_mst.engine.kernels.processor import VECTOR, kernel

FLOAT_BYTES = 4

_LEAST = -60.0  # of an exponent: products of a smaller weight would be denormal, which is slow

_TOGETHER = 4
"""Vectors that are computed together, so that none waits for another."""

GROUP = _TOGETHER * VECTOR
"""Bytes of these."""


class Images(NamedTuple):
    """The image and the values of a block, as addresses, bytes from one to the next, and counts.

    Attributes
    ----------
    image, rest
        The image in float32, and what is left of it beyond that.
    channel, row, channels
        Of both of them.
    values, plane, value_row, planes
        The numbers that are averaged, in float32.
    taps, patch
        The weights of a patch along one axis.
    numbers
        The squared difference that noise explains, and the negative factor of an exponent.
    distance
        The pixels to each side that a pixel looks at.
    """

    image: int
    rest: int
    channel: int
    row: int
    channels: int
    values: int
    plane: int
    value_row: int
    planes: int
    taps: int
    patch: int
    numbers: int
    distance: int


class Place(NamedTuple):
    """The tile to compute: its first row and column, and its height and width."""

    top: int
    left: int
    height: int
    width: int


class _Row(NamedTuple):
    """A row of a tile: its pixels, those that it looks at, and how many groups of vectors."""

    here: int
    there: int
    groups: int


class _Sums(NamedTuple):
    """A row of sums, and the bytes from one plane of them to the next."""

    address: int
    plane: int


@emitted
def _square(e: Emitter, images: Images, row: _Row, target: int) -> None:
    """Write the squared differences of the pixels of a row, summed over channels."""
    builder = e.builder
    with e.loop(row.groups) as loop:
        here, there, out = (e.along(each, loop.index, GROUP) for each in (*row[:2], target))
        totals = e.variables(_TOGETHER, e.constant(0))
        with e.loop(images.channels) as channel:
            shift = builder.mul(channel.index, images.channel)
            image, rest = (builder.add(each, shift) for each in (images.image, images.rest))
            for index, total in enumerate(totals):
                # In two parts: a large number that both pixels have hides a small difference.
                places = [
                    e.at(builder.add(part, place), index * VECTOR)
                    for part in (image, rest)
                    for place in (here, there)
                ]
                own, other, own_rest, other_rest = map(e.load, places)
                more = builder.fsub(own_rest, other_rest)
                off = builder.fadd(builder.fsub(own, other), more)
                e.put(e.multiply_add(off, off, e.value(total)), total)
        for index, total in enumerate(totals):
            e.store(e.value(total), e.at(out, index * VECTOR))


@emitted
def _filter(e: Emitter, images: Images, source: int, groups: int, target: int) -> None:
    """Write a row of squared differences filtered along the row."""
    with e.loop(groups) as loop:
        first, out = (e.along(each, loop.index, GROUP) for each in (source, target))
        totals = _tapped(e, images, first, e.integer(FLOAT_BYTES))
        for index, total in enumerate(totals):
            e.store(total, e.at(out, index * VECTOR))


def _tapped(e: Emitter, images: Images, first: Value, step: Value) -> list[Value]:
    """The sum over a patch of the vectors from *first* on, *step* bytes apart, by its taps."""
    totals = e.variables(_TOGETHER, e.constant(0))
    with e.loop(images.patch) as loop:
        tap = e.splat(e.load(e.along(images.taps, loop.index, FLOAT_BYTES), FLOAT))
        place = e.along(first, loop.index, step)
        for index, total in enumerate(totals):
            value = e.load(e.at(place, index * VECTOR))
            e.put(e.multiply_add(tap, value, e.value(total)), total)
    return [e.value(total) for total in totals]


@emitted
def _weigh(e: Emitter, images: Images, row: _Row, step: int, sums: _Sums) -> None:
    """Add the values of the pixels that a row looks at to its *sums*, by their weights.

    The rows of its patches are *step* bytes apart.
    """
    builder = e.builder
    free, scale = (
        e.splat(e.load(e.at(images.numbers, index * FLOAT_BYTES), FLOAT)) for index in (0, 1)
    )
    with e.loop(row.groups) as loop:
        here, there, own = (e.along(each, loop.index, GROUP) for each in (*row[:2], sums.address))
        weights = []
        for squared in _tapped(e, images, here, step):
            exponent = builder.fmul(e.larger(builder.fsub(squared, free), e.constant(0)), scale)
            weights.append(exponential(e, e.larger(exponent, e.constant(_LEAST))))
        with e.loop(images.planes) as value:
            source = e.along(there, value.index, images.plane)
            target = e.along(own, value.index, sums.plane)
            for index, weight in enumerate(weights):
                place = e.at(target, index * VECTOR)
                more = e.load(e.at(source, index * VECTOR))
                e.store(e.multiply_add(weight, more, e.load(place)), place)


@emitted
def _flush(e: Emitter, sums: int, totals: int, vectors: int) -> None:
    """Add *sums* to the *totals*, which are of float64, and set them to zero."""
    with e.loop(vectors) as loop:
        place = e.along(sums, loop.index, VECTOR)
        total = e.along(totals, loop.index, 2 * VECTOR)
        more = e.builder.fpext(e.load(place), DOUBLES)
        e.store(e.builder.fadd(e.load(total, DOUBLES), more), total)
        e.store(e.constant(0), place)


@njit
def row_bytes(width: int) -> int:
    """Bytes of *width* numbers in whole groups of vectors."""
    return -(-width * FLOAT_BYTES // GROUP) * GROUP


def scratch_bytes(images: Images, place: Place) -> int:
    """Scratch memory, of zeros, that `attend` needs."""
    rows = (place.height + images.patch) * 2 + place.height * images.planes + 1
    return rows * row_bytes(place.width + images.patch)


@kernel
def attend(images: Images, place: Place, totals: int, scratch: int) -> None:
    """Add up the values by their weights: *totals* (planes, height, `row_bytes`) in float64."""
    border = images.patch - 1
    squared = row_bytes(place.width + border)
    step = row_bytes(place.width)
    rows = scratch + (place.height + border) * squared + GROUP
    sums = rows + (place.height + border) * step
    side = 2 * images.distance + 1
    first = (place.top + images.distance) * images.row
    first += (place.left + images.distance) * FLOAT_BYTES
    for down in range(side):
        for right in range(side):
            other = (place.top + down) * images.row + (place.left + right) * FLOAT_BYTES
            for y in range(place.height + border):
                shift = y * images.row
                row = _Row(first + shift, other + shift, squared // GROUP)
                _square(images, row, scratch + y * squared)
            # A loop of its own: processors wait where they read across two numbers just written.
            for y in range(place.height + border):
                _filter(images, scratch + y * squared, step // GROUP, rows + y * step)
            value = images.values + (place.top + down) * images.value_row
            value += (place.left + right) * FLOAT_BYTES
            for y in range(place.height):
                row = _Row(rows + y * step, value + y * images.value_row, step // GROUP)
                _weigh(images, row, step, _Sums(sums + y * step, place.height * step))
        # Sums of few numbers: float32 rounds long ones.
        _flush(sums, totals, images.planes * place.height * step // VECTOR)
