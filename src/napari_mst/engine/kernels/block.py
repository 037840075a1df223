"""The local part of a spectral attention block, row by row.

All steps go through the image together, each a row behind the one before: so a step finds the three
rows that a 3x3 filter needs in the cache. Rows that are needed again are kept in rings of three or
two.
"""

from typing import NamedTuple

from llvmlite import ir
from numba import njit

from napari_mst.engine.kernels.caching import part
from napari_mst.engine.kernels.emitter import FLOAT, Emitter, emitted
from napari_mst.engine.kernels.filters import Filters, Neighbours, filter_row
from napari_mst.engine.kernels.processor import VECTOR, kernel
from napari_mst.engine.kernels.products import POINT, Layer, Taps, Target, multiply_row
from napari_mst.engine.kernels.rows import (
    Features,
    Missing,
    Row,
    clear_outside,
    clear_row,
    from_pixel,
    pack_row,
    row_bytes,
    row_of,
    unpack_row,
)

EXPANSION = 4
"""Hidden channels of the feed-forward part for each channel."""

# In the order of `_Rows`. A hidden row is as long as `EXPANSION` others.
SCRATCH_ROWS = 3 + 3 + 3 + 1 + 2 + 1 + 1 + EXPANSION + 3 * EXPANSION
"""Rows of scratch memory that `apply_block` needs, 6 pixels wider than what it computes."""


class BlockWeights(NamedTuple):
    """The vectors that the channels of a block fill, and the addresses of its weights.

    The weights are in the order in which they are used.
    """

    planes: int
    value: int
    first_filters: int
    second_filters: int
    mixing: int
    bias: int
    expand: int
    hidden_bias: int
    hidden_filters: int
    reduce: int
    epsilon: int


class _Rows(NamedTuple):
    """Addresses of the rows in scratch memory: rings of three, unless said otherwise.

    Attributes
    ----------
    inputs, values
        The packed input, and its product with the value matrix.
    filtered_values, position
        The values after the first depthwise convolution and GELU, and one row after the second.
    attended
        The input with its attention added: a ring of two.
    normalised
        One row of it after LayerNorm.
    result
        One row of the block's result.
    filtered, hidden
        One row of the hidden channels after their depthwise convolution, and those before it.
    """

    inputs: int
    values: int
    filtered_values: int
    position: int
    attended: int
    normalised: int
    result: int
    filtered: int
    hidden: int


class _Work(NamedTuple):
    """All that the steps know of a block; rows of the image count from the first one computed.

    Attributes
    ----------
    width
        Pixels of a row that are computed.
    row
        Bytes of a row in scratch memory.
    begin, end
        The rows of the image that the source has.
    left, right
        Pixels of the halo that the image lacks.
    channels
        Channels of the block.
    """

    rows: _Rows
    weights: BlockWeights
    width: int
    row: int
    begin: int
    end: int
    left: int
    right: int
    channels: int


class _Normalising(NamedTuple):
    """One pixel of a row, the address of the epsilon of its LayerNorm, and that of its result."""

    row: Row
    channels: int
    epsilon: int
    target: int


@emitted
def _normalise(e: Emitter, given: _Normalising) -> None:
    """LayerNorm of one pixel, without its affine part; zero where there is no channel."""
    row, channels, epsilon, target = given
    builder = e.builder
    count = builder.sitofp(channels, FLOAT)
    total = e.variable(e.constant(0))
    with e.loop(row.planes) as loop:
        vector = e.load(e.along(row.address, loop.index, row.plane))
        e.put(builder.fadd(e.value(total), vector), total)
    mean = e.splat(builder.fdiv(e.sum(e.value(total)), count))
    e.put(e.constant(0), total)
    with e.loop(row.planes) as loop:
        vector = e.load(e.along(row.address, loop.index, row.plane))
        lanes = e.lanes_left(channels, loop.index)
        # Less the mean, a lane without a channel is not zero and would count in the variance.
        centred = builder.select(lanes, builder.fsub(vector, mean), e.constant(0))
        e.store(centred, e.along(target, loop.index, row.plane))
        e.put(e.multiply_add(centred, centred, e.value(total)), total)
    variance = builder.fdiv(e.sum(e.value(total)), count)
    root = e.call("llvm.sqrt.f32", FLOAT, builder.fadd(variance, e.load(epsilon, FLOAT)))
    scale = e.splat(builder.fdiv(ir.Constant(FLOAT, 1.0), root))
    with e.loop(row.planes) as loop:
        place = e.along(target, loop.index, row.plane)
        e.store(builder.fmul(e.load(place), scale), place)


@part
def _row(address: int, work: _Work) -> Row:
    """The row of the block's channels at *address*."""
    planes = work.weights.planes
    return Row(address, planes, work.row // planes)


@part
def _hidden_row(address: int, work: _Work) -> Row:
    """The row of hidden channels at *address*."""
    planes = work.weights.planes
    return Row(address, EXPANSION * planes, work.row // planes)


@part
def _of_ring(ring: int, y: int, size: int, row: int) -> int:
    """The address of row *y* in a ring of *size* rows."""
    return ring + y % size * row


@part
def _around(ring: int, y: int, row: int) -> Neighbours:
    """Row *y* of a ring of three, with its neighbours."""
    return Neighbours(
        _of_ring(ring, y - 1, 3, row), _of_ring(ring, y, 3, row), _of_ring(ring, y + 1, 3, row)
    )


@njit(inline="always")
def _take_row(y: int, source: Features, work: _Work) -> None:
    """Take row *y* of the input and compute its values: the first step."""
    rows, weights = work.rows, work.weights
    wide = work.width + 6
    inputs = _row(_of_ring(rows.inputs, y, 3, work.row), work)
    values = _row(_of_ring(rows.values, y, 3, work.row), work)
    if work.begin <= y < work.end:
        clear_outside(inputs, work.left, work.right, wide)
        pack_row(row_of(source, y - work.begin), inputs, work.left, wide - work.right)
        target = Target(values.address, VECTOR, values.planes, 0, 0)
        multiply_row(inputs, POINT, Layer(weights.value, 0, 0), target, wide)
    else:
        clear_row(inputs, 0, wide)
        clear_row(values, 0, wide)


@njit(inline="always")
def _filter_values(y: int, work: _Work) -> None:
    """The first depthwise convolution of the values, and its GELU: the second step."""
    rows = work.rows
    wide = work.width + 4
    filtered = _row(_of_ring(rows.filtered_values, y, 3, work.row), work)
    if work.begin <= y < work.end:
        filters = Filters(work.weights.first_filters, 1)
        filter_row(_around(rows.values, y, work.row), filters, filtered, wide)
        clear_outside(filtered, max(work.left - 1, 0), max(work.right - 1, 0), wide)
    else:
        clear_row(filtered, 0, wide)


@njit(inline="always")
def _attend_row(y: int, work: _Work) -> None:
    """Attention, LayerNorm, the product that expands the channels, and its GELU: the third step."""
    rows, weights = work.rows, work.weights
    wide = work.width + 2
    hidden = _hidden_row(_of_ring(rows.hidden, y, 3, EXPANSION * work.row), work)
    if not work.begin <= y < work.end:
        clear_row(hidden, 0, wide)
        return
    attended = _row(_of_ring(rows.attended, y, 2, work.row), work)
    _add_attention(y, attended, work)
    normalised = _row(rows.normalised, work)
    for pixel in range(wide):
        place = normalised.address + pixel * VECTOR
        _normalise(_Normalising(from_pixel(attended, pixel), work.channels, weights.epsilon, place))
    expand = Layer(weights.expand, weights.hidden_bias, 1)
    target = Target(hidden.address, VECTOR, hidden.planes, 0, 0)
    multiply_row(normalised, POINT, expand, target, wide)
    clear_outside(hidden, max(work.left - 2, 0), max(work.right - 2, 0), wide)


@njit(inline="always")
def _add_attention(y: int, attended: Row, work: _Work) -> None:
    """The second depthwise convolution of the values, the mixing product, and the residual."""
    rows, weights = work.rows, work.weights
    wide = work.width + 2
    position = _row(rows.position, work)
    filters = Filters(weights.second_filters, 0)
    filter_row(_around(rows.filtered_values, y, work.row), filters, position, wide)
    # Two pixels in: the inputs have a halo of three pixels, and what is attended has one of one.
    inputs = from_pixel(_row(_of_ring(rows.inputs, y, 3, work.row), work), 2)
    mix = Layer(weights.mixing, weights.bias, 0)
    target = Target(attended.address, VECTOR, attended.planes, position.address, inputs.address)
    multiply_row(inputs, POINT, mix, target, wide)


@njit(inline="always")
def _reduce_row(y: int, work: _Work) -> None:
    """Filter the hidden channels, multiply them back, and add the residual: the last step."""
    rows, weights = work.rows, work.weights
    filtered = _hidden_row(rows.filtered, work)
    filters = Filters(weights.hidden_filters, 1)
    filter_row(_around(rows.hidden, y, EXPANSION * work.row), filters, filtered, work.width)
    # Each quarter of the hidden channels is summed up by itself, as if it were a row of a filter:
    # short sums round less.
    quarters = Taps(EXPANSION, work.row, 1, 0, 1, POINT.steps)
    attended = from_pixel(_row(_of_ring(rows.attended, y, 2, work.row), work), 1)
    target = Target(rows.result, VECTOR, attended.planes, 0, attended.address)
    multiply_row(
        _row(filtered.address, work), quarters, Layer(weights.reduce, 0, 0), target, work.width
    )


@part
def _scratch_rows(scratch: int, row: int) -> _Rows:
    """The rows of *row* bytes one after the other; `SCRATCH_ROWS` counts them."""
    values = scratch + 3 * row
    filtered_values = values + 3 * row
    position = filtered_values + 3 * row
    attended = position + row
    normalised = attended + 2 * row
    result = normalised + row
    filtered = result + row
    hidden = filtered + EXPANSION * row
    return _Rows(
        inputs=scratch,
        values=values,
        filtered_values=filtered_values,
        position=position,
        attended=attended,
        normalised=normalised,
        result=result,
        filtered=filtered,
        hidden=hidden,
    )


@kernel
def apply_block(
    source: Features, missing: Missing, weights: BlockWeights, out: Features, scratch: int
) -> None:
    """Compute *out* from *source* with its halo: 3 pixels on each side, less those *missing*."""
    row = row_bytes(out.width + 6, weights.planes)
    work = _Work(
        rows=_scratch_rows(scratch, row),
        weights=weights,
        width=out.width,
        row=row,
        begin=missing.top - 3,
        end=out.height + 3 - missing.bottom,
        left=missing.left,
        right=missing.right,
        channels=out.channels,
    )
    result = _row(work.rows.result, work)
    for y in range(-3, out.height + 3):
        _take_row(y, source, work)
        if y >= -1:
            _filter_values(y - 1, work)
        if y >= 1:
            _attend_row(y - 2, work)
        if y >= 3:
            _reduce_row(y - 3, work)
            unpack_row(result, row_of(out, y - 3), out.width)
