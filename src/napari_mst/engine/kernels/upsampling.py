"""Features doubled in size and fused with a skip: the end of a decoder step."""

from typing import NamedTuple

from napari_mst.engine.kernels.processor import LANES, PIXELS, VECTOR, kernel
from napari_mst.engine.kernels.products import POINT, Layer, Target, multiply_row
from napari_mst.engine.kernels.rows import Features, Row, pack_row, row_bytes, row_of, unpack_row


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


def scratch_bytes(weights: UpFusionWeights, width: int) -> int:
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
    low = Row(scratch, planes, plane)
    high = Row(low.address + planes * plane, skip_planes, plane)
    doubled = high.address + skip_planes * plane
    result = Row(high.address + 3 * skip_planes * plane, skip_planes, plane)
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
