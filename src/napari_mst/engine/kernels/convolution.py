"""3x3 convolutions, and 4x4 ones of stride 2."""

from typing import NamedTuple

from napari_mst.engine.kernels.caching import part
from napari_mst.engine.kernels.processor import VECTOR, kernel
from napari_mst.engine.kernels.products import Layer, Taps, Target, multiply_row
from napari_mst.engine.kernels.rows import (
    Features,
    Missing,
    Pixels,
    Row,
    clear_row,
    pack_row,
    row_bytes,
    row_of,
    unpack_row,
)


class ConvolutionWeights(NamedTuple):
    """A convolution without padding of its own.

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


def scratch_bytes(convolution: ConvolutionWeights, width: int) -> int:
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
        row = Row(target + i * convolution.planes * plane, convolution.planes, plane)
        start = (left - i + stride - 1) // stride
        stop = (width - right - i + stride - 1) // stride
        end = (width - i + stride - 1) // stride
        if not top <= y < height - bottom:  # a row of padding: all of it is cleared
            start = stop = 0
        clear_row(row, 0, start)
        clear_row(row, stop, end)
        column = i + start * stride - left
        first = source.address + (y - top) * source.row + column * source.pixel
        pack_row(Pixels(first, source.pixel * stride, source.channels), row, start, stop)


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
    result = Row(scratch + 2 * side * row, convolution.out_planes, plane)
    target = Target(result.address, VECTOR, convolution.out_planes, 0, 0)
    for y in range(height):
        # Every row is packed twice, so that the rows that a place of the filter needs always follow
        # each other.
        _pack_phases(source, y, missing, convolution, scratch + y % side * row)
        _pack_phases(source, y, missing, convolution, scratch + (y % side + side) * row)
        above = y - side + 1
        if above >= 0 and above % stride == 0:
            first = Row(scratch + (y + 1) % side * row, planes, plane)
            multiply_row(first, taps, layer, target, out.width)
            unpack_row(result, row_of(out, above // stride), out.width)
