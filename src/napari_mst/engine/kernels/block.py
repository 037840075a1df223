"""Vector kernels of the network on a CPU, compiled by numba for the processor at hand and kept for the next time.

The inner loops are written as vector instructions of LLVM, so that products stay in registers; what goes around them is
plain Python that numba compiles. A row of features is stored as planes of vectors, [channels / LANES][pixels][LANES],
with zeros for channels that only fill up a vector: what a loop reads is side by side, and no address is ever a
multiple of a large power of two. A block goes through an image row by row and keeps the few rows that the next
convolution needs, so nothing but its input and its output leaves the cache.

All arguments are bytes, addresses and counts. Letters: C channels, h, w sides of what is computed.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import intrinsic


def _shape(triple: str, processor: str, features: str) -> tuple[int, int, int, int]:
    """Floats of a vector; vectors and pixels of a product, and rows of a Gram matrix, that fill the registers."""
    if "+avx512f" in features and processor.startswith("znver"):
        return 16, 2, 11, 8
    if "+avx512vl" in features:  # on others, LLVM keeps to half of the width: they slow down else
        return 8, 4, 6, 8
    if "+avx2" in features and "+fma" in features:
        return 8, 2, 6, 4
    if triple.startswith(("aarch64", "arm64")):  # all have NEON, whatever LLVM knows of them
        return 4, 4, 5, 8
    raise ImportError(f"no vector unit that fits, of {processor}")


LANES, _VECTORS, _PIXELS, _GRAM_ROWS = _shape(*cpu_target.target_context.codegen().magic_tuple())
PANEL = LANES * _VECTORS
"""Channels that are computed at a time; the number of output channels is filled up to a multiple of it."""

_VECTOR = 4 * LANES
_FILTERED = 6
_UNROLLED, _AT_ONCE = 4, 4
STEP = _UNROLLED
"""Input channels are multiplied in groups of this many."""

_POINT, _STEPS = (
    (1, 0, 1, 0, 1),
    LANES // _UNROLLED,
)  # taps, and groups of channels in a vector, of a 1x1 convolution
_Ints = tuple[int, ...]

_GELU = (
    1.0905083417892456,
    0.10875200480222702,
    0.04887039586901665,
    0.009315806441009045,
    0.001125625683926046,
    8.748184336582199e-05,
    0.0001180962281068787,
    -2.038250386249274e-05,
    3.3545982205396285e-06,
)
"""p with p(a)^-8 = (1 - erf(a / sqrt 2)) / 2 for a >= 0: GELU is then right to 3e-7, as good as torch's own in float32.

The form is that of Abramowitz and Stegun 7.1.28 (its power 16 and degree 6 give 6e-7); fitted by least squares that
were weighted until the largest error of a p(a)^-8 was smallest, 4e-8.
"""

_FLOAT, _DOUBLE, _INT, _INDEX, _VOID = (
    ir.FloatType(),
    ir.DoubleType(),
    ir.IntType(64),
    ir.IntType(32),
    ir.VoidType(),
)
_FLOATS, _DOUBLES, _HALF = (
    ir.VectorType(*kind) for kind in ((_FLOAT, LANES), (_DOUBLE, LANES), (_DOUBLE, LANES // 2))
)
Value = Any
"""A value in the code that is emitted; LLVM's own types are not typed."""


class _Emitter:
    """Writes vector instructions to where numba's *builder* stands."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder

    def at(
        self, address: Value, offset: int = 0, index: Value = None, stride: Value | int = 0
    ) -> Value:
        """*address* + *offset* + *index* x *stride*."""
        if index is not None:
            stride = ir.Constant(_INT, stride) if isinstance(stride, int) else stride
            address = self.builder.add(address, self.builder.mul(index, stride))
        return self.builder.add(address, ir.Constant(_INT, offset)) if offset else address

    def pointer(self, address: Value, kind: Value) -> Value:
        return self.builder.inttoptr(address, kind.as_pointer())

    def load(self, address: Value, kind: Value = _FLOATS) -> Value:
        loaded = self.builder.load(self.pointer(address, kind))
        loaded.align = 4
        return loaded

    def store(self, value: Value, address: Value) -> None:
        self.builder.store(value, self.pointer(address, value.type)).align = 4

    def constant(self, value: float) -> Value:
        return ir.Constant(_FLOATS, [float(np.float32(value))] * LANES)

    def splat(self, scalar: Value, kind: Value = _FLOATS) -> Value:
        """A vector of *kind* all of whose lanes are *scalar*."""
        undefined, lanes = ir.Constant(kind, ir.Undefined), ir.VectorType(_INDEX, kind.count)
        one = self.builder.insert_element(undefined, scalar, ir.Constant(_INDEX, 0))
        return self.builder.shuffle_vector(one, undefined, ir.Constant(lanes, [0] * kind.count))

    def repeated(self, address: Value, index: int) -> Value:
        """A vector all of whose lanes are the number *index*, below `_UNROLLED`, from *address* on."""
        if LANES > _UNROLLED:
            return self.splat(self.load(self.at(address, 4 * index), _FLOAT))
        group, lanes = (
            self.load(address),
            ir.Constant(ir.VectorType(_INDEX, LANES), [index] * LANES),
        )
        return self.builder.shuffle_vector(
            group, group, lanes
        )  # NEON multiplies by a lane: it loads all at once

    def call(self, name: str, kind: Value, *arguments: Value, **options: Any) -> Value:
        """LLVM's function *name*, which returns *kind*."""
        signature = ir.FunctionType(kind, [argument.type for argument in arguments])
        function = cgutils.get_or_insert_function(self.builder.module, signature, name)
        return self.builder.call(function, arguments, **options)

    def multiply_add(self, a: Value, b: Value, c: Value) -> Value:
        """a b + c."""
        kind = "f32" if a.type == _FLOATS else "f64"
        return self.call(f"llvm.fmuladd.v{a.type.count}{kind}", a.type, a, b, c)

    def sum(self, vector: Value) -> Value:
        name, zero = f"llvm.vector.reduce.fadd.v{LANES}f32", ir.Constant(_FLOAT, 0.0)
        return self.call(name, _FLOAT, zero, vector, fastmath=("reassoc",))

    def is_below(self, count: Value) -> Value:
        """Which lanes have an index below *count*."""
        kind = ir.VectorType(_INT, LANES)
        return self.builder.icmp_signed(
            "<", ir.Constant(kind, list(range(LANES))), self.splat(count, kind)
        )

    def lanes_left(self, channels: Value, plane: Value) -> Value:
        """The lanes of *plane* that hold one of the *channels*."""
        return self.is_below(
            self.builder.sub(channels, self.builder.mul(plane, ir.Constant(_INT, LANES)))
        )

    def load_some(self, address: Value, lanes: Value) -> Value:
        """The vector at *address*; zero, and untouched in memory, where *lanes* are not."""
        place = self.pointer(address, _FLOATS)
        name, align, zero = (
            f"llvm.masked.load.v{LANES}f32.p0",
            ir.Constant(_INDEX, 4),
            self.constant(0),
        )
        return self.call(name, _FLOATS, place, align, lanes, zero)

    def store_some(self, value: Value, address: Value, lanes: Value) -> None:
        place = self.pointer(address, _FLOATS)
        self.call(
            f"llvm.masked.store.v{LANES}f32.p0", _VOID, value, place, ir.Constant(_INDEX, 4), lanes
        )

    def gelu(self, values: list[Value]) -> list[Value]:
        """GELU of several vectors, step by step of all at once: none waits for another."""
        builder = self.builder
        sizes = [self.call(f"llvm.fabs.v{LANES}f32", _FLOATS, value) for value in values]
        powers = [self.constant(_GELU[-1])] * len(values)
        for coefficient in _GELU[-2::-1]:
            constant = self.constant(coefficient)
            powers = [
                self.multiply_add(power, size, constant)
                for power, size in zip(powers, sizes, strict=True)
            ]
        for _ in range(3):
            powers = [builder.fmul(power, power) for power in powers]
        tails = [builder.fdiv(size, power) for size, power in zip(sizes, powers, strict=True)]
        zero = self.constant(0)
        positive = [
            builder.select(builder.fcmp_ordered(">", value, zero), value, zero) for value in values
        ]
        return [builder.fsub(value, tail) for value, tail in zip(positive, tails, strict=True)]

    def loop(self, count: Value | int) -> AbstractContextManager[Any]:
        """A loop; its `index` counts from zero."""
        return cgutils.for_range(
            self.builder, ir.Constant(_INT, count) if isinstance(count, int) else count
        )

    def when(self, condition: Value) -> AbstractContextManager[Any]:
        """What is done only where *condition* is not 0."""
        is_true = self.builder.icmp_unsigned("!=", condition, ir.Constant(_INT, 0))
        return self.builder.if_then(is_true)

    def apply_gelu(self, variables: list[Value], condition: Value) -> None:
        """GELU of all *variables*, in place, where *condition* is not 0."""
        with self.when(condition):
            for i in range(0, len(variables), _AT_ONCE):
                some = variables[i : i + _AT_ONCE]
                for variable, value in zip(
                    some, self.gelu([self.builder.load(one) for one in some]), strict=True
                ):
                    self.builder.store(value, variable)

    def variables(self, count: int, kind: Value, start: Value = None) -> list[Value]:
        """Registers that loops change."""
        registers = [cgutils.alloca_once(self.builder, kind) for _ in range(count)]
        if start is not None:
            for register in registers:
                self.builder.store(start, register)
        return registers


def _emitted(arguments: int) -> Callable[[Callable[..., None]], Callable[[tuple[int, ...]], None]]:
    """What a function writes with an `_Emitter`, as a function of a tuple of so many integers for compiled code."""

    def decorate(emit: Callable[..., None]) -> Callable[[tuple[int, ...]], None]:
        @intrinsic
        def instruction(_: Any, values: Any) -> Any:  # noqa: ARG001 - numba goes by its name
            def generate(context: Any, builder: Any, _: Any, given: Sequence[Value]) -> Value:
                emit(_Emitter(builder), *cgutils.unpack_tuple(builder, given[0], arguments))
                return context.get_dummy_value()

            return types.void(types.UniTuple(types.int64, arguments)), generate

        return instruction

    return decorate


@_emitted(1)
def _zero(emitter: _Emitter, address: Value) -> None:
    """One vector of zeros."""
    emitter.store(emitter.constant(0), address)


@_emitted(5)
def _pack(
    e: _Emitter, pixel: Value, channels: Value, target: Value, plane: Value, planes: Value
) -> None:
    """The channels of a pixel -> vectors *plane* bytes apart."""
    with e.loop(planes) as loop:
        vector = e.load_some(
            e.at(pixel, 0, loop.index, _VECTOR), e.lanes_left(channels, loop.index)
        )
        e.store(vector, e.at(target, 0, loop.index, plane))


@_emitted(5)
def _unpack(
    e: _Emitter, source: Value, plane: Value, planes: Value, pixel: Value, channels: Value
) -> None:
    """Vectors *plane* bytes apart -> the channels of a pixel."""
    with e.loop(planes) as loop:
        vector = e.load(e.at(source, 0, loop.index, plane))
        e.store_some(
            vector, e.at(pixel, 0, loop.index, _VECTOR), e.lanes_left(channels, loop.index)
        )


@_emitted(14)
def _multiply(
    e: _Emitter,
    x: Value,
    phases: Value,
    phase: Value,
    columns: Value,
    planes: Value,
    plane: Value,
    steps: Value,
    weights: Value,
    bias: Value,
    is_gelu: Value,
    target: Value,
    target_pixel: Value,
    first: Value,
    second: Value,
) -> None:
    """One panel of a convolution of a few pixels: *bias* + weights x, its GELU if asked for, + *first* + *second*.

    These three may be nowhere (0). The taps of the convolution are *columns* of vectors in *phases*; of each vector
    *steps* groups of channels are multiplied.
    """
    builder, group = e.builder, _UNROLLED * _VECTORS * _VECTOR
    places = [(v, pixel) for pixel in range(_PIXELS) for v in range(_VECTORS)]
    sums, (weight,) = (
        e.variables(len(places), _FLOATS, e.constant(0)),
        e.variables(1, _INT, weights),
    )
    with e.when(bias):
        for total, (v, _) in zip(sums, places, strict=True):
            builder.store(e.load(e.at(bias, v * _VECTOR)), total)
    with e.loop(phases) as i, e.loop(columns) as j, e.loop(planes) as k, e.loop(steps) as step:
        place = e.at(e.at(e.at(x, 0, i.index, phase), 0, j.index, _VECTOR), 0, k.index, plane)
        place, weight_at = e.at(place, 0, step.index, 4 * _UNROLLED), builder.load(weight)
        for channel in range(_UNROLLED):
            factors = [
                e.load(e.at(weight_at, (channel * _VECTORS + v) * _VECTOR)) for v in range(_VECTORS)
            ]
            for total, (v, pixel) in zip(sums, places, strict=True):
                if v == 0:  # not before it is needed: there are just enough registers
                    value = e.repeated(e.at(place, pixel * _VECTOR), channel)
                builder.store(e.multiply_add(value, factors[v], builder.load(total)), total)
        builder.store(e.at(weight_at, group), weight)
    e.apply_gelu(sums, is_gelu)
    for more in (first, second):
        with e.when(more):
            for total, (v, pixel) in zip(sums, places, strict=True):
                added = e.load(e.at(more, pixel * _VECTOR, ir.Constant(_INT, v), plane))
                builder.store(builder.fadd(builder.load(total), added), total)
    for total, (v, pixel) in zip(sums, places, strict=True):
        base = e.at(target, 0, ir.Constant(_INT, v), plane)
        e.store(builder.load(total), e.at(base, 0, ir.Constant(_INT, pixel), target_pixel))


@_emitted(6)
def _filter(
    e: _Emitter,
    above: Value,
    here: Value,
    below: Value,
    weights: Value,
    is_gelu: Value,
    target: Value,
) -> None:
    """One plane of a 3x3 depthwise convolution of a few pixels, and its GELU if asked for."""
    sums = e.variables(_FILTERED, _FLOATS, e.constant(0))
    for row, x in enumerate((above, here, below)):
        values = [e.load(e.at(x, pixel * _VECTOR)) for pixel in range(_FILTERED + 2)]
        for column in range(3):
            weight = e.load(e.at(weights, (3 * row + column) * _VECTOR))
            for pixel, total in enumerate(sums):
                value = e.multiply_add(weight, values[pixel + column], e.builder.load(total))
                e.builder.store(value, total)
    e.apply_gelu(sums, is_gelu)
    for pixel, total in enumerate(sums):
        e.store(e.builder.load(total), e.at(target, pixel * _VECTOR))


@_emitted(6)
def _normalise(
    e: _Emitter,
    x: Value,
    plane: Value,
    planes: Value,
    channels: Value,
    epsilon: Value,
    target: Value,
) -> None:
    """LayerNorm of one pixel, without its affine part; zero where there is no channel."""
    builder, count = e.builder, e.builder.sitofp(channels, _FLOAT)
    (total,) = e.variables(1, _FLOATS, e.constant(0))
    with e.loop(planes) as loop:
        builder.store(
            builder.fadd(builder.load(total), e.load(e.at(x, 0, loop.index, plane))), total
        )
    mean = e.splat(builder.fdiv(e.sum(builder.load(total)), count))
    builder.store(e.constant(0), total)
    with e.loop(planes) as loop:
        centred = builder.fsub(e.load(e.at(x, 0, loop.index, plane)), mean)
        centred = builder.select(e.lanes_left(channels, loop.index), centred, e.constant(0))
        e.store(centred, e.at(target, 0, loop.index, plane))
        builder.store(e.multiply_add(centred, centred, builder.load(total)), total)
    variance = builder.fadd(
        builder.fdiv(e.sum(builder.load(total)), count), e.load(epsilon, _FLOAT)
    )
    scale = e.splat(
        builder.fdiv(ir.Constant(_FLOAT, 1.0), e.call("llvm.sqrt.f32", _FLOAT, variance))
    )
    with e.loop(planes) as loop:
        place = e.at(target, 0, loop.index, plane)
        e.store(builder.fmul(e.load(place), scale), place)


@_emitted(4)
def _widen(e: _Emitter, pixel: Value, channels: Value, target: Value, planes: Value) -> None:
    """The channels of a pixel -> vectors of float64, side by side."""
    with e.loop(planes) as loop:
        vector = e.load_some(
            e.at(pixel, 0, loop.index, _VECTOR), e.lanes_left(channels, loop.index)
        )
        e.store(e.builder.fpext(vector, _DOUBLES), e.at(target, 0, loop.index, 2 * _VECTOR))


@_emitted(6)
def _correlate(
    e: _Emitter,
    left: Value,
    right: Value,
    pixel: Value,
    pixels: Value,
    target: Value,
    target_row: Value,
) -> None:
    """Add the products of a few channels with those of a plane, over *pixels*, in float64."""
    builder, halves = e.builder, (0, _VECTOR)
    rows = [e.at(target, 0, ir.Constant(_INT, row), target_row) for row in range(_GRAM_ROWS)]
    sums = [
        e.variables(1, _HALF, e.load(e.at(row, half), _HALF))[0] for row in rows for half in halves
    ]
    with e.loop(pixels) as loop:
        factors = [e.load(e.at(right, half, loop.index, pixel), _HALF) for half in halves]
        for row in range(_GRAM_ROWS):
            value = e.splat(e.load(e.at(left, 8 * row, loop.index, pixel), _DOUBLE), _HALF)
            for factor, total in zip(factors, sums[2 * row : 2 * row + 2], strict=True):
                builder.store(e.multiply_add(value, factor, builder.load(total)), total)
    for index, total in enumerate(sums):
        e.store(builder.load(total), e.at(rows[index // 2], halves[index % 2]))


def _compiled(function: Callable[..., None]) -> Callable[..., None]:
    """*function* compiled when it is first called, without Python's lock, and kept on disk where that is possible."""
    try:
        return njit(nogil=True, cache=True)(function)
    except RuntimeError:  # there is no folder to write to
        return njit(nogil=True)(function)


@njit
def row_bytes(width: int, planes: int) -> int:
    """Bytes of a row of *width* pixels; its pixels may be written to one whole group beyond its end."""
    return (-(-width // _PIXELS) + 1) * _PIXELS * _VECTOR * planes


@njit
def _clear_row(row: int, plane: int, planes: int, start: int, stop: int) -> None:
    for i in range(planes):
        for pixel in range(start, stop):
            _zero((row + i * plane + pixel * _VECTOR,))


@njit
def _clear_outside(row: int, plane: int, planes: int, left: int, right: int, width: int) -> None:
    """Zero what lies *left* and *right* of the image: the network's own convolutions see zeros there."""
    _clear_row(row, plane, planes, 0, left)
    _clear_row(row, plane, planes, width - right, width)


@njit
def _pack_row(
    x: int, x_pixel: int, channels: int, row: int, plane: int, planes: int, start: int, stop: int
) -> None:
    """Pixels *start* to *stop* of a row, from the one at *x* on."""
    for pixel in range(start, stop):
        _pack((x + (pixel - start) * x_pixel, channels, row + pixel * _VECTOR, plane, planes))


@njit
def _unpack_row(
    row: int, plane: int, planes: int, width: int, out: int, out_pixel: int, channels: int
) -> None:
    for pixel in range(width):
        _unpack((row + pixel * _VECTOR, plane, planes, out + pixel * out_pixel, channels))


@njit
def _multiply_row(
    x: int,
    taps: _Ints,
    planes: int,
    plane: int,
    steps: int,
    weights: int,
    bias: int,
    is_gelu: int,
    target: int,
    target_pixel: int,
    target_planes: int,
    width: int,
    first: int,
    second: int,
) -> None:
    """`_multiply` of all panels, pixels and *taps* of a row.

    The taps are rows and the bytes between them, phases and the bytes between them, and columns. Rows are summed up one
    after the other, as short sums round less than long ones; *first* is only added where there is one row.
    """
    rows, row, phases, phase, columns = taps
    of_row = phases * columns * planes * steps * _UNROLLED * _VECTORS * _VECTOR
    for panel in range(target_planes // _VECTORS):
        offset = panel * _VECTORS * plane
        of_panel = bias + panel * _VECTORS * _VECTOR
        for pixel in range(0, width, _PIXELS):
            shift, place = offset + pixel * _VECTOR, target + offset + pixel * target_pixel
            for i in range(rows):
                _multiply((
                    x + i * row + pixel * _VECTOR, phases, phase, columns, planes, plane, steps,
                    weights + (panel * rows + i) * of_row, of_panel if bias and not i else 0, is_gelu,
                    place, target_pixel,
                    place if i else first + shift if first else 0, second + shift if second and i == rows - 1 else 0,
                ))  # fmt: skip


@njit
def _filter_row(
    above: int,
    here: int,
    below: int,
    plane: int,
    planes: int,
    weights: int,
    is_gelu: int,
    target: int,
    width: int,
) -> None:
    """`_filter` of all planes and pixels of a row."""
    for i in range(planes):
        for pixel in range(0, width, _FILTERED):
            shift = i * plane + pixel * _VECTOR
            at = weights + i * 9 * _VECTOR
            _filter((above + shift, here + shift, below + shift, at, is_gelu, target + shift))


@njit
def _take_row(
    y: int, source: int, x_pixel: int, channels: int, inside: _Ints, rows: _Ints, value: int
) -> None:
    """Row *y* of the input, from *source* on, and its value: the first step of a block."""
    width, planes, row, left, right, is_inside = inside
    x, values = rows[0] + y % 3 * row, rows[1] + y % 3 * row
    plane, wide = row // planes, width + 6
    if is_inside:
        _clear_outside(x, plane, planes, left, right, wide)
        _pack_row(source, x_pixel, channels, x, plane, planes, left, wide - right)
        _multiply_row(
            x, _POINT, planes, plane, _STEPS, value, 0, 0, values, _VECTOR, planes, wide, 0, 0
        )
    else:
        _clear_row(x, plane, planes, 0, wide)
        _clear_row(values, plane, planes, 0, wide)


@njit
def _position_row(y: int, inside: _Ints, rows: _Ints, filters: int) -> None:
    """The first depthwise convolution of the values, and its GELU."""
    width, planes, row, left, right, is_inside = inside
    values, gelu, plane, wide = rows[1], rows[2] + y % 3 * row, row // planes, width + 4
    if is_inside:
        above, here, below = (
            values + (y - 1) % 3 * row,
            values + y % 3 * row,
            values + (y + 1) % 3 * row,
        )
        _filter_row(above, here, below, plane, planes, filters, 1, gelu, wide)
        _clear_outside(gelu, plane, planes, max(left - 1, 0), max(right - 1, 0), wide)
    else:
        _clear_row(gelu, plane, planes, 0, wide)


@njit
def _attend_row(y: int, channels: int, inside: _Ints, rows: _Ints, weights: _Ints) -> None:
    """The second depthwise convolution, mixing, residual, LayerNorm and what expands it, with its GELU."""
    width, planes, row, left, right, is_inside = inside
    filters, mixing, bias, expand, hidden_bias, epsilon = weights
    gelus, plane, hidden, wide = rows[2], row // planes, 4 * planes, width + 2
    expanded = rows[8] + y % 3 * 4 * row
    if not is_inside:
        _clear_row(expanded, plane, hidden, 0, wide)
        return
    above, here, below = gelus + (y - 1) % 3 * row, gelus + y % 3 * row, gelus + (y + 1) % 3 * row
    position, attended, normalised = rows[3], rows[4] + y % 2 * row, rows[5]
    _filter_row(above, here, below, plane, planes, filters, 0, position, wide)
    x = rows[0] + y % 3 * row + 2 * _VECTOR
    _multiply_row(
        x,
        _POINT,
        planes,
        plane,
        _STEPS,
        mixing,
        bias,
        0,
        attended,
        _VECTOR,
        planes,
        wide,
        position,
        x,
    )
    for pixel in range(wide):
        shift = pixel * _VECTOR
        _normalise((attended + shift, plane, planes, channels, epsilon, normalised + shift))
    _multiply_row(
        normalised,
        _POINT,
        planes,
        plane,
        _STEPS,
        expand,
        hidden_bias,
        1,
        expanded,
        _VECTOR,
        hidden,
        wide,
        0,
        0,
    )
    _clear_outside(expanded, plane, hidden, max(left - 2, 0), max(right - 2, 0), wide)


@njit
def _reduce_row(y: int, inside: _Ints, rows: _Ints, filters: int, reduce: int) -> None:
    """The depthwise convolution of the hidden channels, its GELU, what reduces it, and the residual."""
    width, planes, row, _, _, _ = inside
    wide, plane, hidden = 4 * row, row // planes, 4 * planes
    result, filtered, expanded = rows[6], rows[7], rows[8]
    above, here, below = (
        expanded + (y - 1) % 3 * wide,
        expanded + y % 3 * wide,
        expanded + (y + 1) % 3 * wide,
    )
    _filter_row(above, here, below, plane, hidden, filters, 1, filtered, width)
    residual, quarters = rows[4] + y % 2 * row + _VECTOR, (4, row, 1, 0, 1)
    _multiply_row(
        filtered,
        quarters,
        planes,
        plane,
        _STEPS,
        reduce,
        0,
        0,
        result,
        _VECTOR,
        planes,
        width,
        0,
        residual,
    )


@_compiled
def apply_block(
    x: int,
    x_row: int,
    x_pixel: int,
    height: int,
    width: int,
    missing: _Ints,
    channels: int,
    planes: int,
    weights: _Ints,
    out: int,
    out_row: int,
    out_pixel: int,
    scratch: int,
) -> None:
    """The local part of a block on *height* x *width* pixels, from the first pixel of its halo at *x* on.

    The halo is 3 pixels less those *missing* above, below, left and right. All steps go through the image together,
    each a row behind the one before.
    """
    value, first, second, mixing, bias, expand, hidden_bias, filters, reduce, epsilon = weights
    top, bottom, left, right = missing
    begin, end, row = top - 3, height + 3 - bottom, row_bytes(width + 6, planes)
    rows = (
        scratch, scratch + 3 * row, scratch + 6 * row, scratch + 9 * row, scratch + 10 * row, scratch + 12 * row,
        scratch + 13 * row, scratch + 14 * row, scratch + 18 * row,
    )  # fmt: skip
    for ahead in range(-3, height + 3):
        y = ahead
        inside = (width, planes, row, left, right, int(begin <= y < end))
        _take_row(y, x + (y - begin) * x_row, x_pixel, channels, inside, rows, value)
        y = ahead - 1
        if y >= -2:
            inside = (width, planes, row, left, right, int(begin <= y < end))
            _position_row(y, inside, rows, first)
        y = ahead - 2
        if y >= -1:
            inside = (width, planes, row, left, right, int(begin <= y < end))
            _attend_row(
                y, channels, inside, rows, (second, mixing, bias, expand, hidden_bias, epsilon)
            )
        y = ahead - 3
        if y >= 0:
            _reduce_row(y, inside, rows, filters, reduce)
            _unpack_row(
                rows[6], row // planes, planes, width, out + y * out_row, out_pixel, channels
            )


BLOCK_ROWS = 30
"""Rows of scratch memory that `apply_block` needs, 6 pixels wider than what it computes."""


@_compiled
def convolve(
    x: int,
    x_row: int,
    x_pixel: int,
    height: int,
    width: int,
    missing: _Ints,
    channels: int,
    planes: int,
    steps: int,
    side: int,
    stride: int,
    weights: int,
    bias: int,
    out: int,
    out_row: int,
    out_pixel: int,
    out_channels: int,
    out_planes: int,
    scratch: int,
) -> None:
    """A convolution of *side* and *stride* of *height* x *width* pixels, the zeros *missing* around them included.

    A row is packed once for every remainder of a column by the stride, and twice, so that the rows that a convolution
    needs always follow each other.
    """
    top, bottom, left, right = missing
    plane = row_bytes(width, 1)
    phase = planes * plane
    row, result = stride * phase, scratch + 2 * side * stride * phase
    taps, out_width = (side, row, stride, phase, side // stride), (width - side) // stride + 1
    for y in range(height):
        for copy in (y % side, y % side + side):
            for i in range(stride):
                current = scratch + copy * row + i * phase
                start, end = (left - i + stride - 1) // stride, (width - i + stride - 1) // stride
                stop = (width - right - i + stride - 1) // stride
                if not top <= y < height - bottom:
                    start = stop = 0
                _clear_row(current, plane, planes, 0, start)
                _clear_row(current, plane, planes, stop, end)
                source = x + (y - top) * x_row + (i + start * stride - left) * x_pixel
                _pack_row(source, x_pixel * stride, channels, current, plane, planes, start, stop)
        if y >= side - 1 and (y - side + 1) % stride == 0:
            first = scratch + (y + 1) % side * row
            _multiply_row(
                first,
                taps,
                planes,
                plane,
                steps,
                weights,
                bias,
                0,
                result,
                _VECTOR,
                out_planes,
                out_width,
                0,
                0,
            )
            place = out + (y - side + 1) // stride * out_row
            _unpack_row(result, plane, out_planes, out_width, place, out_pixel, out_channels)


def double_bytes(width: int, planes: int, skip_planes: int) -> int:
    """Scratch memory that `double` needs for *width* pixels."""
    return int(row_bytes(2 * width + _PIXELS, planes + 5 * skip_planes))


@_compiled
def double(
    x: int,
    x_row: int,
    x_pixel: int,
    height: int,
    width: int,
    channels: int,
    planes: int,
    skip: int,
    skip_row: int,
    skip_pixel: int,
    skip_channels: int,
    skip_planes: int,
    weights: _Ints,
    out: int,
    out_row: int,
    out_pixel: int,
    scratch: int,
) -> None:
    """*height* x *width* pixels doubled in size, and fused with the *skip*."""
    up, bias, fuse = weights
    plane = row_bytes(2 * width + _PIXELS, 1)
    quarter = planes * skip_planes * _VECTOR * LANES
    low, high = scratch, scratch + planes * plane
    doubled, result = high + skip_planes * plane, high + 3 * skip_planes * plane
    for y in range(2 * height):
        if y % 2 == 0:
            _pack_row(x + y // 2 * x_row, x_pixel, channels, low, plane, planes, 0, width)
        _pack_row(
            skip + y * skip_row, skip_pixel, skip_channels, high, plane, skip_planes, 0, 2 * width
        )
        for column in range(2):
            matrix = up + (y % 2 * 2 + column) * quarter
            target = doubled + column * _VECTOR
            _multiply_row(
                low,
                _POINT,
                planes,
                plane,
                _STEPS,
                matrix,
                bias,
                0,
                target,
                2 * _VECTOR,
                skip_planes,
                width,
                0,
                0,
            )
        _multiply_row(
            high,
            _POINT,
            skip_planes,
            plane,
            _STEPS,
            fuse,
            0,
            0,
            result,
            _VECTOR,
            skip_planes,
            2 * width,
            doubled,
            0,
        )
        _unpack_row(
            result, plane, skip_planes, 2 * width, out + y * out_row, out_pixel, skip_channels
        )


@_compiled
def correlate(
    x: int,
    x_row: int,
    x_pixel: int,
    height: int,
    width: int,
    channels: int,
    planes: int,
    target: int,
    scratch: int,
) -> None:
    """Add the Gram matrix of the channels, above its diagonal, to *target*: float64, as wide as *planes*."""
    pixel_bytes = 2 * planes * _VECTOR
    count = max(GRAM_BYTES // pixel_bytes, 1)
    for y in range(height):
        for start in range(0, width, count):
            pixels = min(count, width - start)
            for pixel in range(pixels):
                source = x + y * x_row + (start + pixel) * x_pixel
                _widen((source, channels, scratch + pixel * pixel_bytes, planes))
            for row in range(0, channels, _GRAM_ROWS):
                for plane in range(row // LANES, planes):
                    column = 2 * plane * _VECTOR
                    place = target + row * pixel_bytes + column
                    _correlate(
                        (
                            scratch + 8 * row,
                            scratch + column,
                            pixel_bytes,
                            pixels,
                            place,
                            pixel_bytes,
                        )
                    )


GRAM_BYTES = 1 << 14
"""Scratch memory that `correlate` takes, or that of one pixel: what stays in the fastest cache."""
