"""The smallest change of spectra that moves their colours to where they are allowed.

`reconstruction.consistency` says the mathematics, does the same in NumPy, and calls these where it
can. Pixels lie in the lanes of a vector, so that a spectrum is a column of vectors.
"""

from typing import NamedTuple

from llvmlite import ir

from napari_mst.engine.kernels.caching import part
from napari_mst.engine.kernels.emitter import FLOAT, Emitter, Value, emitted
from napari_mst.engine.kernels.processor import LANES, VECTOR, kernel

COEFFICIENTS = 9
"""Numbers of each band: its response in three colours, and their six products."""

_FLOAT_BYTES = 4
_PIECE = 8 * LANES
"""Pixels of a row that are moved together: they are copied, band by band, to the fastest cache."""

_BIT = ir.IntType(1)
_INT = ir.IntType(64)
_COLOURS = range(3)
_UPPER = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))


class SpectraPlanes(NamedTuple):
    """Spectra (B, h, w), whose pixels lie side by side.

    Attributes
    ----------
    address
        Of the first number.
    band, row
        Bytes from one band, and from one row, to the next.
    bands, height, width
        The shape.
    """

    address: int
    band: int
    row: int
    bands: int
    height: int
    width: int


class ColourPlanes(NamedTuple):
    """Addresses of colours (3, h, w) that lie side by side: those shown, and those allowed."""

    shown: int
    low: int
    high: int


class Moving(NamedTuple):
    """Numbers that a change of spectra needs.

    Attributes
    ----------
    coefficients
        The address of the `COEFFICIENTS` of each band.
    limits
        The address of three numbers: how near to its cell a colour is within it, the least
        reflectance of a band that weighs, and the highest of a surface.
    steps
        Towards a cell, at most.
    scratch
        The address of `scratch_bytes`.
    """

    coefficients: int
    limits: int
    steps: int
    scratch: int


class _Pixels(NamedTuple):
    """A vector of pixels.

    Attributes
    ----------
    spectra
        The address of their spectra, `_PIECE` pixels from one band to the next.
    colours, channel
        Their colours, and the bytes from one channel to the next.
    bands, left
        How many bands there are, and how many pixels from here on.
    moving
        The numbers for all pixels; its scratch is for these.
    """

    spectra: int
    colours: ColourPlanes
    channel: int
    bands: int
    left: int
    moving: Moving


class _Copy(NamedTuple):
    """The bands of a piece of a row: addresses, bytes to the next band, and how many there are."""

    source: int
    source_band: int
    target: int
    target_band: int
    bands: int
    pixels: int


def scratch_bytes(bands: int) -> int:
    """Scratch memory that `move_spectra` needs: a piece of spectra; some vectors, and weights."""
    return bands * (_PIECE * _FLOAT_BYTES + 2 * VECTOR)


@emitted
def _copy(e: Emitter, copy: _Copy) -> None:
    """Copy the bands of a piece."""
    whole = e.builder.udiv(copy.pixels, e.integer(LANES))
    rest = e.builder.urem(copy.pixels, e.integer(LANES))
    lanes = e.lanes_left(rest, e.integer(0))
    with e.loop(copy.bands) as band:
        source = e.along(copy.source, band.index, copy.source_band)
        target = e.along(copy.target, band.index, copy.target_band)
        with e.loop(whole) as loop:
            vector = e.load(e.along(source, loop.index, VECTOR))
            e.store(vector, e.along(target, loop.index, VECTOR))
        # Only here, since some processors take long to store some lanes.
        with e.when(rest):
            vector = e.load_some(e.along(source, whole, VECTOR), lanes)
            e.store_some(vector, e.along(target, whole, VECTOR), lanes)


@emitted
def _count(e: Emitter, pixels: _Pixels) -> None:
    """Add the number of spectra outside of their cells to the number at the scratch memory."""
    ones = e.builder.zext(_outside(e, pixels)[0], ir.VectorType(_INT, LANES))
    number = e.call(f"llvm.vector.reduce.add.v{LANES}i64", _INT, ones)
    counter = pixels.moving.scratch
    e.store(e.builder.add(e.load(counter, _INT), number), counter)


@emitted
def _move(e: Emitter, pixels: _Pixels) -> None:
    """Move a vector of spectra to their cells, if one of them is outside."""
    is_outside, low, high = _outside(e, pixels)
    with e.when(_any(e, is_outside)):
        with e.loop(pixels.bands) as loop:
            own = e.load(_band(e, pixels, loop.index))
            e.store(own, e.along(pixels.moving.scratch, loop.index, VECTOR))
        is_going = e.variable(e.integer(1))
        with e.loop(pixels.moving.steps), e.when(e.value(is_going)):
            e.put(_step(e, pixels, low, high), is_going)
        _write_surfaces(e, pixels, is_outside)


def _outside(e: Emitter, pixels: _Pixels) -> tuple[Value, list[Value], list[Value]]:
    """The lanes that are outside of their cells, and the ends of the cells."""
    builder = e.builder
    lanes = e.lanes_left(pixels.left, e.integer(0))
    shown, low, high = (
        [e.load_some(e.along(address, channel, pixels.channel), lanes) for channel in _COLOURS]
        for address in pixels.colours
    )
    close = _limit(e, pixels.moving, 0)
    is_outside = ir.Constant(lanes.type, [0] * LANES)
    for colour, least, most in zip(shown, low, high, strict=True):
        is_low = builder.fcmp_ordered("<", colour, builder.fsub(least, close))
        is_high = builder.fcmp_ordered(">", colour, builder.fadd(most, close))
        is_outside = builder.or_(is_outside, builder.or_(is_low, is_high))
    return builder.and_(is_outside, lanes), low, high


def _limit(e: Emitter, moving: Moving, index: int) -> Value:
    return e.splat(e.load(e.at(moving.limits, index * _FLOAT_BYTES), FLOAT))


def _any(e: Emitter, mask: Value) -> Value:
    """1 if *mask* is set in a lane, else 0."""
    found = e.call(f"llvm.vector.reduce.or.v{LANES}i1", _BIT, mask)
    return e.builder.zext(found, _INT)


def _band(e: Emitter, pixels: _Pixels, index: Value) -> Value:
    """The address of a band of the pixels."""
    return e.along(pixels.spectra, index, _PIECE * _FLOAT_BYTES)


def _step(e: Emitter, pixels: _Pixels, low: list[Value], high: list[Value]) -> Value:
    """Take one step towards the cells; 0 if all spectra are within them already."""
    builder = e.builder
    shown, system = _colours_and_system(e, pixels)
    cells = list(zip(shown, low, high, strict=True))
    limited = [e.smaller(e.larger(colour, least), most) for colour, least, most in cells]
    missing = [builder.fsub(*pair) for pair in zip(limited, shown, strict=True)]
    close = _limit(e, pixels.moving, 0)
    is_far = [builder.fcmp_ordered(">", e.size(value), close) for value in missing]
    is_moved = builder.or_(builder.or_(is_far[0], is_far[1]), is_far[2])
    going = _any(e, is_moved)
    with e.when(going):
        # A channel within its cell may change where clipping leaves the cell open on one side.
        is_open = [_is_infinite(e, builder.fsub(most, least)) for _, least, most in cells]
        is_free = [
            builder.and_(builder.not_(far), free) for far, free in zip(is_far, is_open, strict=True)
        ]
        system = _without(e, system, is_free)
        right = [_or_number(e, free, 0, own) for free, own in zip(is_free, missing, strict=True)]
        _change(e, pixels, _solved(e, system, right), is_moved)
    return going


def _is_infinite(e: Emitter, value: Value) -> Value:
    return e.builder.fcmp_ordered("==", value, e.constant(float("inf")))


def _or_number(e: Emitter, mask: Value, number: float, value: Value) -> Value:
    """*number* where *mask* is set, and *value* elsewhere."""
    return e.builder.select(mask, e.constant(number), value)


def _colours_and_system(e: Emitter, pixels: _Pixels) -> tuple[list[Value], list[Value]]:
    """The colours that spectra show, and their systems of equations (the upper triangle).

    The weights are left behind the spectra.
    """
    moving, bands = pixels.moving, pixels.bands
    sums = e.variables(COEFFICIENTS, e.constant(0))
    least = _limit(e, moving, 1)
    with e.loop(bands) as loop:
        place = e.along(moving.scratch, loop.index, VECTOR)
        value = e.load(place)
        weight = e.root(e.larger(value, least))
        e.store(weight, e.along(place, bands, VECTOR))
        for index, total in enumerate(sums):
            factor = value if index < len(_COLOURS) else weight
            coefficient = _coefficient(e, moving, loop.index, index)
            e.put(e.multiply_add(coefficient, factor, e.value(total)), total)
    results = [e.value(total) for total in sums]
    return results[: len(_COLOURS)], results[len(_COLOURS) :]


def _coefficient(e: Emitter, moving: Moving, band: Value, index: int) -> Value:
    place = e.along(moving.coefficients, band, COEFFICIENTS * _FLOAT_BYTES)
    return e.splat(e.load(e.at(place, index * _FLOAT_BYTES), FLOAT))


def _without(e: Emitter, system: list[Value], is_free: list[Value]) -> list[Value]:
    """*system* without the colours that are free: their rows and columns become those of 1."""
    entries = []
    for (row, column), entry in zip(_UPPER, system, strict=True):
        is_left_out = e.builder.or_(is_free[row], is_free[column])
        entries.append(_or_number(e, is_left_out, float(row == column), entry))
    return entries


def _solved(e: Emitter, system: list[Value], right: list[Value]) -> list[Value]:
    """The solutions of symmetric systems of three equations, by their adjugates."""
    rr, rg, rb, gg, gb, bb = system
    adjugate = {
        (0, 0): _difference(e, (gg, bb), (gb, gb)),
        (0, 1): _difference(e, (rb, gb), (rg, bb)),
        (0, 2): _difference(e, (rg, gb), (rb, gg)),
        (1, 1): _difference(e, (rr, bb), (rb, rb)),
        (1, 2): _difference(e, (rg, rb), (rr, gb)),
        (2, 2): _difference(e, (rr, gg), (rg, rg)),
    }
    determinant = _dot(e, system[:3], [adjugate[0, column] for column in _COLOURS])
    inverse = e.builder.fdiv(e.constant(1), determinant)
    rows = [
        [adjugate[min(row, column), max(row, column)] for column in _COLOURS] for row in _COLOURS
    ]
    return [e.builder.fmul(_dot(e, row, right), inverse) for row in rows]


def _difference(e: Emitter, first: tuple[Value, Value], second: tuple[Value, Value]) -> Value:
    """The product of the *first* two, less that of the *second* two."""
    return e.builder.fsub(e.builder.fmul(*first), e.builder.fmul(*second))


def _dot(e: Emitter, left: list[Value], right: list[Value]) -> Value:
    total = e.builder.fmul(left[0], right[0])
    for pair in zip(left[1:], right[1:], strict=True):
        total = e.multiply_add(*pair, total)
    return total


def _change(e: Emitter, pixels: _Pixels, solution: list[Value], is_moved: Value) -> None:
    """Change the spectra where *is_moved* is set: by weights x response x *solution*."""
    moving, bands = pixels.moving, pixels.bands
    zero = e.constant(0)
    with e.loop(bands) as loop:
        place = e.along(moving.scratch, loop.index, VECTOR)
        value, weight = e.load(place), e.load(e.along(place, bands, VECTOR))
        response = [_coefficient(e, moving, loop.index, index) for index in _COLOURS]
        changed = e.multiply_add(_dot(e, response, solution), weight, value)
        e.store(e.builder.select(is_moved, e.larger(changed, zero), value), place)


def _write_surfaces(e: Emitter, pixels: _Pixels, is_outside: Value) -> None:
    """Put the spectra that were moved back to their piece, but not those that no surface has."""
    moving = pixels.moving
    highest, before = e.variable(e.constant(0)), e.variable(e.constant(1))
    with e.loop(pixels.bands) as loop:
        own = e.load(_band(e, pixels, loop.index))
        moved = e.load(e.along(moving.scratch, loop.index, VECTOR))
        e.put(e.larger(own, e.value(before)), before)
        e.put(e.larger(moved, e.value(highest)), highest)
    limit = e.builder.fmul(e.value(before), _limit(e, moving, 2))
    is_surface = e.builder.fcmp_ordered("<=", e.value(highest), limit)
    is_moved = e.builder.and_(is_outside, is_surface)
    with e.loop(pixels.bands) as loop:
        place = _band(e, pixels, loop.index)
        moved = e.load(e.along(moving.scratch, loop.index, VECTOR))
        e.store(e.builder.select(is_moved, moved, e.load(place)), place)


@part
def _pixels(
    start: int, left: int, spectra: SpectraPlanes, colours: ColourPlanes, moving: Moving
) -> _Pixels:
    """The vector of pixels that begins *start* pixels after the first of *colours*."""
    shift = start * _FLOAT_BYTES
    place = ColourPlanes(colours.shown + shift, colours.low + shift, colours.high + shift)
    channel = spectra.height * spectra.width * _FLOAT_BYTES
    return _Pixels(0, place, channel, spectra.bands, left, moving)


@kernel
def count_outside(spectra: SpectraPlanes, colours: ColourPlanes, moving: Moving) -> None:
    """Add the number of *spectra* whose colours are not allowed to that at the scratch memory."""
    count = spectra.height * spectra.width
    for start in range(0, count, LANES):
        _count(_pixels(start, count - start, spectra, colours, moving))


@kernel
def move_spectra(spectra: SpectraPlanes, colours: ColourPlanes, moving: Moving) -> None:
    """Move *spectra*, in place, until they show *colours* that are allowed."""
    piece = moving.scratch + 2 * VECTOR * spectra.bands
    band = _PIECE * _FLOAT_BYTES
    for y in range(spectra.height):
        for start in range(0, spectra.width, _PIECE):
            count = min(_PIECE, spectra.width - start)
            place = spectra.address + y * spectra.row + start * _FLOAT_BYTES
            _copy(_Copy(place, spectra.band, piece, band, spectra.bands, count))
            for x in range(0, count, LANES):
                pixels = _pixels(y * spectra.width + start + x, count - x, spectra, colours, moving)
                own = piece + x * _FLOAT_BYTES
                _move(
                    _Pixels(own, pixels.colours, pixels.channel, spectra.bands, count - x, moving)
                )
            _copy(_Copy(piece, band, place, spectra.band, spectra.bands, count))
