"""3x3 convolutions, 4x4 ones of stride 2, and features doubled in size and fused with a skip."""

from typing import NamedTuple

from napari_mst.engine.kernels.caching import kernel, part
from napari_mst.engine.kernels.packed_rows import (
    Features,
    Missing,
    PackedRow,
    PixelRow,
    clear_row,
    pack_row,
    row_bytes,
    row_of,
    unpack_row,
)
from napari_mst.engine.kernels.processor import LANES, PIXELS, VECTOR
from napari_mst.engine.kernels.products import POINT, Layer, Taps, Target, multiply_row


class ConvolutionWeights(NamedTuple):
    """A convolution without padding.

    Attributes
    ----------
    side, stride
        Rows and columns of the filter, and pixels from one place of it to the next.
    planes, out_planes
        Vectors of a pixel before and after it.
    steps
        Groups of channels in a vector that are multiplied.
    weights, bias
        Addresses.
    """

    side: int
    stride: int
    planes: int
    out_planes: int
    steps: int
    weights: int
    bias: int


def convolution_bytes(convolution: ConvolutionWeights, width: int) -> int:
    """Scratch memory that `convolve` needs for a padded image of *width* columns."""
    packed = 2 * convolution.side * convolution.stride * convolution.planes
    return row_bytes(width, packed + convolution.out_planes)


@part
def _pack_phases(
    source: Features, y: int, missing: Missing, convolution: ConvolutionWeights, target: int
) -> None:
    """Pack row *y* of the padded image to *target*, one phase of its columns after the other."""
    stride = convolution.stride
    top, bottom, left, right = missing
    height = source.height + top + bottom
    width = source.width + left + right
    plane = row_bytes(width, 1)
    for i in range(stride):
        row = PackedRow(target + i * convolution.planes * plane, convolution.planes, plane)
        start = (left - i + stride - 1) // stride
        stop = (width - right - i + stride - 1) // stride
        end = (width - i + stride - 1) // stride
        if not top <= y < height - bottom:  # a row of padding: all of it is cleared
            start = stop = 0
        clear_row(row, 0, start)
        clear_row(row, stop, end)
        column = i + start * stride - left
        first = source.address + (y - top) * source.row + column * source.pixel
        pack_row(PixelRow(first, source.pixel * stride, source.channels), row, start, stop)


@kernel
def convolve(
    source: Features, missing: Missing, convolution: ConvolutionWeights, out: Features, scratch: int
) -> None:
    """Compute *out* from *source*, with zeros around it where pixels are *missing*."""
    side, stride, planes = convolution.side, convolution.stride, convolution.planes
    height = source.height + missing.top + missing.bottom
    plane = row_bytes(source.width + missing.left + missing.right, 1)
    row = stride * planes * plane
    taps = Taps(side, row, stride, planes * plane, side // stride, convolution.steps)
    layer = Layer(convolution.weights, convolution.bias, 0)
    result = PackedRow(scratch + 2 * side * row, convolution.out_planes, plane)
    target = Target(result.address, VECTOR, convolution.out_planes, 0, 0)
    for y in range(height):
        # Every row is packed twice, so that the rows that a place of the filter needs always follow
        # each other.
        _pack_phases(source, y, missing, convolution, scratch + y % side * row)
        _pack_phases(source, y, missing, convolution, scratch + (y % side + side) * row)
        above = y - side + 1
        if above >= 0 and above % stride == 0:
            first = PackedRow(scratch + (y + 1) % side * row, planes, plane)
            multiply_row(first, taps, layer, target, out.width)
            unpack_row(result, row_of(out, above // stride), out.width)


class UpFusionWeights(NamedTuple):
    """Vectors of a pixel before and after, and addresses of the weights.

    Attributes
    ----------
    planes, skip_planes
        Vectors of a pixel of the features, and of the skip and the result.
    up, bias
        Four matrices, one for each pixel of a square, and what is added.
    fuse
        The matrix of the skip.
    """

    planes: int
    skip_planes: int
    up: int
    bias: int
    fuse: int


def fusion_bytes(weights: UpFusionWeights, width: int) -> int:
    """Scratch memory that `double` needs for *width* pixels."""
    return row_bytes(2 * width + PIXELS, weights.planes + 5 * weights.skip_planes)


@kernel
def double(
    source: Features, skip: Features, weights: UpFusionWeights, out: Features, scratch: int
) -> None:
    """Compute *out*, twice as high and wide as *source*, from it and the *skip*."""
    planes, skip_planes = weights.planes, weights.skip_planes
    plane = row_bytes(2 * source.width + PIXELS, 1)
    matrix = planes * skip_planes * VECTOR * LANES
    low = PackedRow(scratch, planes, plane)
    high = PackedRow(low.address + planes * plane, skip_planes, plane)
    doubled = high.address + skip_planes * plane
    result = PackedRow(high.address + 3 * skip_planes * plane, skip_planes, plane)
    for y in range(out.height):
        if y % 2 == 0:
            pack_row(row_of(source, y // 2), low, 0, source.width)
        pack_row(row_of(skip, y), high, 0, out.width)
        for column in range(2):
            up = Layer(weights.up + (y % 2 * 2 + column) * matrix, weights.bias, 0)
            # Each product writes every second pixel, so that the row needs no rearranging.
            target = Target(doubled + column * VECTOR, 2 * VECTOR, skip_planes, 0, 0)
            multiply_row(low, POINT, up, target, source.width)
        fused = Target(result.address, VECTOR, skip_planes, doubled, 0)
        multiply_row(high, POINT, Layer(weights.fuse, 0, 0), fused, out.width)
        unpack_row(result, row_of(out, y), out.width)
