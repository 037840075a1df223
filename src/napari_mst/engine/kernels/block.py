"""The local part of a spectral attention block, row by row.

All steps go through the image together, each a row behind the one before: so a step finds the three
rows that a 3x3 filter needs in the cache. Rows that are needed again are kept in rings of three or
two.
"""

from typing import NamedTuple

from llvmlite import ir

from napari_mst.engine.kernels.caching import kernel, part, written_out
from napari_mst.engine.kernels.emitter import FLOAT, Emitter, emitted
from napari_mst.engine.kernels.packed_rows import (
    Features,
    Missing,
    PackedRow,
    clear_outside,
    clear_row,
    from_pixel,
    pack_row,
    row_bytes,
    row_of,
    unpack_row,
)
from napari_mst.engine.kernels.processor import VECTOR
from napari_mst.engine.kernels.products import (
    POINT,
    Layer,
    Neighbours,
    Taps,
    Target,
    filter_row,
    multiply_row,
)

EXPANSION = 4
"""Hidden channels of the feed-forward part for each channel."""

# Rows of scratch memory: rings of three, unless said otherwise.
_INPUTS = 0  # the packed input
_VALUES = 3  # its product with the value matrix
_FILTERED_VALUES = 6  # the values after the first depthwise convolution and GELU
_POSITION = 9  # one row after the second
_ATTENDED = 10  # the input with its attention added: a ring of two
_NORMALISED = 12  # one row of it after LayerNorm
_RESULT = 13  # one row of the block's result
_FILTERED = (
    14  # one hidden row after its depthwise convolution; it is as long as `EXPANSION` others
)
_HIDDEN = _FILTERED + EXPANSION  # the hidden rows before it

SCRATCH_ROWS = _HIDDEN + 3 * EXPANSION
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


class _Work(NamedTuple):
    """All that the steps know of a block; rows of the image count from the first one computed.

    Attributes
    ----------
    scratch
        The address of the scratch memory.
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

    scratch: int
    weights: BlockWeights
    width: int
    row: int
    begin: int
    end: int
    left: int
    right: int
    channels: int


@emitted
def _normalise(e: Emitter, row: PackedRow, channels: int, epsilon: int, target: int) -> None:
    """LayerNorm of the first pixel of a row, without its affine part; zero beyond its channels."""
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
def _row(work: _Work, index: int) -> PackedRow:
    """A row of the block's channels, by its index in scratch memory."""
    planes = work.weights.planes
    return PackedRow(work.scratch + index * work.row, planes, work.row // planes)


@part
def _hidden_row(work: _Work, index: int) -> PackedRow:
    """A row of hidden channels, by its index in scratch memory."""
    planes = work.weights.planes
    return PackedRow(work.scratch + index * work.row, EXPANSION * planes, work.row // planes)


@part
def _around(work: _Work, ring: int, y: int, length: int) -> Neighbours:
    """Row *y* of a *ring* of three, each as long as *length* others, with its neighbours."""
    first = work.scratch + ring * work.row
    row = length * work.row
    return Neighbours(first + (y - 1) % 3 * row, first + y % 3 * row, first + (y + 1) % 3 * row)


@written_out
def _take_row(y: int, source: Features, work: _Work) -> None:
    """Take row *y* of the input and compute its values: the first step."""
    wide = work.width + 6
    inputs = _row(work, _INPUTS + y % 3)
    values = _row(work, _VALUES + y % 3)
    if work.begin <= y < work.end:
        clear_outside(inputs, work.left, work.right, wide)
        pack_row(row_of(source, y - work.begin), inputs, work.left, wide - work.right)
        target = Target(values.address, VECTOR, values.planes, 0, 0)
        multiply_row(inputs, POINT, Layer(work.weights.value, 0, 0), target, wide)
    else:
        clear_row(inputs, 0, wide)
        clear_row(values, 0, wide)


@written_out
def _filter_values(y: int, work: _Work) -> None:
    """The first depthwise convolution of the values, and its GELU: the second step."""
    wide = work.width + 4
    filtered = _row(work, _FILTERED_VALUES + y % 3)
    if work.begin <= y < work.end:
        filter_row(_around(work, _VALUES, y, 1), work.weights.first_filters, 1, filtered, wide)
        clear_outside(filtered, max(work.left - 1, 0), max(work.right - 1, 0), wide)
    else:
        clear_row(filtered, 0, wide)


@written_out
def _attend_row(y: int, work: _Work) -> None:
    """Attention, LayerNorm, the product that expands the channels, and its GELU: the third step."""
    weights = work.weights
    wide = work.width + 2
    hidden = _hidden_row(work, _HIDDEN + y % 3 * EXPANSION)
    if not work.begin <= y < work.end:
        clear_row(hidden, 0, wide)
        return
    attended = _row(work, _ATTENDED + y % 2)
    _add_attention(y, attended, work)
    normalised = _row(work, _NORMALISED)
    for pixel in range(wide):
        place = normalised.address + pixel * VECTOR
        _normalise(from_pixel(attended, pixel), work.channels, weights.epsilon, place)
    expand = Layer(weights.expand, weights.hidden_bias, 1)
    target = Target(hidden.address, VECTOR, hidden.planes, 0, 0)
    multiply_row(normalised, POINT, expand, target, wide)
    clear_outside(hidden, max(work.left - 2, 0), max(work.right - 2, 0), wide)


@written_out
def _add_attention(y: int, attended: PackedRow, work: _Work) -> None:
    """The second depthwise convolution of the values, the mixing product, and the residual."""
    weights = work.weights
    wide = work.width + 2
    position = _row(work, _POSITION)
    around = _around(work, _FILTERED_VALUES, y, 1)
    filter_row(around, weights.second_filters, 0, position, wide)
    # Two pixels in: the inputs have a halo of three pixels, and what is attended has one of one.
    inputs = from_pixel(_row(work, _INPUTS + y % 3), 2)
    mix = Layer(weights.mixing, weights.bias, 0)
    target = Target(attended.address, VECTOR, attended.planes, position.address, inputs.address)
    multiply_row(inputs, POINT, mix, target, wide)


@written_out
def _reduce_row(y: int, work: _Work) -> None:
    """Filter the hidden channels, multiply them back, and add the residual: the last step."""
    weights = work.weights
    around = _around(work, _HIDDEN, y, EXPANSION)
    filter_row(around, weights.hidden_filters, 1, _hidden_row(work, _FILTERED), work.width)
    # Each quarter of the hidden channels is summed separately, like a row of a filter: short sums
    # round less.
    quarters = Taps(EXPANSION, work.row, 1, 0, 1, POINT.steps)
    attended = from_pixel(_row(work, _ATTENDED + y % 2), 1)
    result = _row(work, _RESULT).address
    target = Target(result, VECTOR, attended.planes, 0, attended.address)
    multiply_row(_row(work, _FILTERED), quarters, Layer(weights.reduce, 0, 0), target, work.width)


@kernel
def apply_block(
    source: Features, missing: Missing, weights: BlockWeights, out: Features, scratch: int
) -> None:
    """Compute *out* from *source* with its halo: 3 pixels on each side, less those *missing*."""
    row = row_bytes(out.width + 6, weights.planes)
    work = _Work(
        scratch=scratch,
        weights=weights,
        width=out.width,
        row=row,
        begin=missing.top - 3,
        end=out.height + 3 - missing.bottom,
        left=missing.left,
        right=missing.right,
        channels=out.channels,
    )
    result = _row(work, _RESULT)
    for y in range(-3, out.height + 3):
        _take_row(y, source, work)
        if y >= -1:
            _filter_values(y - 1, work)
        if y >= 1:
            _attend_row(y - 2, work)
        if y >= 3:
            _reduce_row(y - 3, work)
            unpack_row(result, row_of(out, y - 3), out.width)
