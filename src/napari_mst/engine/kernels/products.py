"""Convolutions of a row: products over all channels with matrices, and filters of each alone."""

from typing import NamedTuple

from napari_mst.engine.kernels.caching import inlined
from napari_mst.engine.kernels.emitter import FLOATS, Emitter, LLVMValue, emitted
from napari_mst.engine.kernels.packed_rows import PackedRow
from napari_mst.engine.kernels.processor import LANES, PIXELS, STEP, VECTOR, VECTORS

# Pixel by pixel: the value of a pixel meets all vectors of weights, and its register is free again.
_PLACES = [(vector, pixel) for pixel in range(PIXELS) for vector in range(VECTORS)]
"""The vectors that one product computes, in the order of its registers."""

_STEP_BYTES = STEP * VECTORS * VECTOR
"""Bytes of the weights of one step."""


_TAPS = 9  # of a depthwise filter


class Taps(NamedTuple):
    """The vectors that a convolution sums up for a pixel: rows and columns, in some phases.

    Columns of one phase follow each other. A convolution of stride 2 has a phase of the even
    columns and one of the odd ones; other convolutions have one phase.

    Attributes
    ----------
    rows, row
        Rows of the filter, and bytes from one to the next.
    phases, phase
        Phases, and bytes from one to the next.
    columns
        Columns of the filter in each phase.
    steps
        Groups of `STEP` channels in a vector that are multiplied.
    """

    rows: int
    row: int
    phases: int
    phase: int
    columns: int
    steps: int


POINT = Taps(rows=1, row=0, phases=1, phase=0, columns=1, steps=LANES // STEP)
"""The taps of a 1x1 convolution."""


class Layer(NamedTuple):
    """Addresses of weights and bias; 0 is no bias. `has_gelu` is 1 where GELU follows, else 0."""

    weights: int
    bias: int
    has_gelu: int


class Target(NamedTuple):
    """The place where the results of a row go, and what is added to them.

    Attributes
    ----------
    address
        Of the first vector of the first pixel.
    pixel
        Bytes from one pixel to the next.
    planes
        Vectors of a pixel; they are as far apart as those of the source.
    first, second
        Addresses of rows that are added, after GELU and in this order; 0 is none. The first is only
        added where the filter has one row.
    """

    address: int
    pixel: int
    planes: int
    first: int
    second: int


@emitted
def _multiply(e: Emitter, source: PackedRow, taps: Taps, layer: Layer, target: Target) -> None:
    """Sum up the bias and weights x source, take its GELU, and add the other rows.

    It is one panel of output channels of a few pixels, for one row of the filter.
    """
    plane = source.plane
    sums = e.variables(len(_PLACES), e.constant(0))
    # Registers are LLVM variables here; its optimiser keeps them in the machine's own.
    with e.when(layer.bias):
        for total, (vector, _) in zip(sums, _PLACES, strict=True):
            e.put(e.load(e.at(layer.bias, vector * VECTOR)), total)
    _sum_up(e, source, taps, layer.weights, sums)
    e.apply_gelu(sums, layer.has_gelu)
    for added in (target.first, target.second):
        with e.when(added):
            for total, (vector, pixel) in zip(sums, _PLACES, strict=True):
                more = e.load(e.at(e.along(added, vector, plane), pixel * VECTOR))
                e.put(e.builder.fadd(e.value(total), more), total)
    for total, (vector, pixel) in zip(sums, _PLACES, strict=True):
        of_vector = e.along(target.address, vector, plane)
        e.store(e.value(total), e.along(of_vector, pixel, target.pixel))


def _sum_up(
    e: Emitter, source: PackedRow, taps: Taps, first: LLVMValue, sums: list[LLVMValue]
) -> None:
    """Add the products of all taps to *sums*; from *first* on, weights lie in this order."""
    weights = e.variable(first)
    with (
        e.loop(taps.phases) as phase,
        e.loop(taps.columns) as column,
        e.loop(source.planes) as plane,
        e.loop(taps.steps) as step,
    ):
        of_phase = e.along(source.address, phase.index, taps.phase)
        of_column = e.along(of_phase, column.index, VECTOR)
        of_plane = e.along(of_column, plane.index, source.plane)
        place = e.along(of_plane, step.index, 4 * STEP)
        weight = e.value(weights)
        for channel in range(STEP):
            of_channel = [(channel * VECTORS + vector) * VECTOR for vector in range(VECTORS)]
            factors = [e.load(e.at(weight, offset), FLOATS) for offset in of_channel]
            for total, (vector, pixel) in zip(sums, _PLACES, strict=True):
                if vector == 0:  # loaded as late as possible: there are just enough registers
                    value = e.repeated(e.at(place, pixel * VECTOR), channel)
                e.put(e.multiply_add(value, factors[vector], e.value(total)), total)
        # The weights lie in the order of the loops, so those of the next step follow.
        e.put(e.at(weight, _STEP_BYTES), weights)


@inlined  # so that LLVM knows which parts of the records are constants
def multiply_row(source: PackedRow, taps: Taps, layer: Layer, target: Target, width: int) -> None:
    """A convolution of the *width* pixels of a row, panel by panel.

    The rows of the filter are summed up one after the other, as short sums round less than long
    ones.
    """
    weights_of_row = taps.phases * taps.columns * source.planes * taps.steps * _STEP_BYTES
    last = taps.rows - 1
    for panel in range(target.planes // VECTORS):
        offset = panel * VECTORS * source.plane
        bias = layer.bias + panel * VECTORS * VECTOR if layer.bias else 0
        for pixel in range(0, width, PIXELS):
            shift = offset + pixel * VECTOR
            place = target.address + offset + pixel * target.pixel
            for i in range(taps.rows):
                weights = layer.weights + (panel * taps.rows + i) * weights_of_row
                # From the second row of the filter on, the sum so far is what is added first.
                first = target.first + shift if target.first else 0
                second = target.second + shift if target.second and i == last else 0
                here = source.address + i * taps.row + pixel * VECTOR
                own_row = PackedRow(here, source.planes, source.plane)
                own_layer = Layer(weights, 0 if i else bias, layer.has_gelu)
                own_target = Target(place, target.pixel, VECTORS, place if i else first, second)
                _multiply(own_row, taps, own_layer, own_target)


# Depthwise


_FILTERED = 6
"""Pixels that are filtered at a time."""


class Neighbours(NamedTuple):
    """Addresses of three packed rows of an image."""

    above: int
    here: int
    below: int


@emitted
def _filter(e: Emitter, rows: Neighbours, weights: int, has_gelu: int, target: int) -> None:
    """Filter one plane of a few pixels by 3x3."""
    sums = e.variables(_FILTERED, e.constant(0))
    for row, source in enumerate(rows):
        # Neighbouring pixels share their values: each is loaded once for all three columns.
        values = [e.load(e.at(source, pixel * VECTOR)) for pixel in range(_FILTERED + 2)]
        for column in range(3):
            weight = e.load(e.at(weights, (3 * row + column) * VECTOR))
            for pixel, total in enumerate(sums):
                e.put(e.multiply_add(weight, values[pixel + column], e.value(total)), total)
    e.apply_gelu(sums, has_gelu)
    for pixel, total in enumerate(sums):
        e.store(e.value(total), e.at(target, pixel * VECTOR))


@inlined  # so that LLVM knows which parts of the records are constants
def filter_row(
    rows: Neighbours, weights: int, has_gelu: int, target: PackedRow, width: int
) -> None:
    """Filter all planes of the *width* pixels between *rows*, which are two pixels wider.

    *weights* is the address of the filters of all channels; *has_gelu* is 1 where GELU follows.
    """
    for i in range(target.planes):
        for pixel in range(0, width, _FILTERED):
            shift = i * target.plane + pixel * VECTOR
            shifted = Neighbours(rows.above + shift, rows.here + shift, rows.below + shift)
            _filter(shifted, weights + i * _TAPS * VECTOR, has_gelu, target.address + shift)
