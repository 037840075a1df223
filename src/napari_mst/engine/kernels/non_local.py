"""Non-local means of a tile: `denoising.numpy_kernel` in float32, with sums in float64.

The loops over the pixels of a row are the inner ones, of which LLVM makes vector instructions. Each
pixel is computed by the same instructions wherever it lies in a tile, so that its bits do not
depend on the tile.
"""

from typing import NamedTuple

import numpy as np

from napari_mst.base.arrays import Singles
from napari_mst.engine.kernels.caching import kernel, part
from napari_mst.engine.kernels.emitter import doubles, floats, fused
from napari_mst.engine.kernels.powers import ZERO, exponential, larger

_FLOAT_BYTES = 4
_LEAST = np.float32(-60)  # of an exponent: products of a smaller weight would be denormal, and slow


class Images(NamedTuple):
    """The image and the values of a block, as addresses and counts; rows follow each other.

    Attributes
    ----------
    image, rest
        The image in float32, and what is left of it beyond that.
    channels, height, width
        The shape of both.
    values, planes
        The numbers that are averaged, in float32: as many rows and columns less those of a patch.
    taps, patch
        The weights of a patch along one axis.
    numbers
        The squared difference that noise explains, and the negative factor of an exponent.
    distance
        The pixels to each side that a pixel looks at.
    """

    image: int
    rest: int
    channels: int
    height: int
    width: int
    values: int
    planes: int
    taps: int
    patch: int
    numbers: int
    distance: int


class TilePlace(NamedTuple):
    """The tile to compute: its first row and column, and its height and width."""

    top: int
    left: int
    height: int
    width: int


@part
def _square(images: Images, here: int, there: int, squares: Singles) -> None:
    """Write the squared differences of two rows of pixels, summed over channels."""
    for x in range(len(squares)):
        squares[x] = ZERO
    for channel in range(images.channels):
        shift = channel * images.height * images.width * _FLOAT_BYTES
        own = floats(images.image + here + shift, len(squares))
        other = floats(images.image + there + shift, len(squares))
        own_rest = floats(images.rest + here + shift, len(squares))
        other_rest = floats(images.rest + there + shift, len(squares))
        for x in range(len(squares)):
            # In two parts: a large number that both pixels have hides a small difference.
            off = own[x] - other[x] + (own_rest[x] - other_rest[x])
            squares[x] = fused(off, off, squares[x])


@part
def _filter(taps: Singles, source: Singles, step: int, target: Singles) -> None:
    """Write the sums over a patch of the *source*, whose numbers are *step* apart in it."""
    for x in range(len(target)):
        target[x] = ZERO
    for index in range(len(taps)):
        tap, shifted = taps[index], source[index * step :]
        for x in range(len(target)):
            target[x] = fused(tap, shifted[x], target[x])


def scratch_numbers(images: Images, place: TilePlace) -> int:
    """The numbers of float32 that `attend` works with."""
    border = images.patch - 1
    columns = place.width + border
    padded = (3 * place.height + 2 * border) * columns + border
    return padded + images.planes * place.height * place.width


@kernel
def attend(images: Images, place: TilePlace, totals: int, scratch: int) -> None:
    """Add the values by their weights to *totals* (planes, height, width), which are float64.

    *scratch* are `scratch_numbers` of float32, all of them 0.
    """
    taps, numbers = floats(images.taps, images.patch), floats(images.numbers, 2)
    free, scale = numbers[0], numbers[1]
    height, width, border = place.height, place.width, images.patch - 1
    # Rows follow each other, so that loops are long. Their last numbers are of no pixel.
    rows, columns = height + border, width + border
    count = rows * columns
    squares = floats(scratch, count + border)
    filtered = floats(scratch + (count + border) * _FLOAT_BYTES, count)
    weights = floats(scratch + (2 * count + border) * _FLOAT_BYTES, height * columns)
    start = scratch + (2 * count + border + height * columns) * _FLOAT_BYTES
    sums = floats(start, images.planes * height * width)
    result = doubles(totals, len(sums))
    top, left = place.top + images.distance, place.left + images.distance
    side = 2 * images.distance + 1
    for down in range(place.top, place.top + side):
        for right in range(place.left, place.left + side):
            for y in range(rows):
                here = ((top + y) * images.width + left) * _FLOAT_BYTES
                there = ((down + y) * images.width + right) * _FLOAT_BYTES
                _square(images, here, there, squares[y * columns : (y + 1) * columns])
            _filter(taps, squares, 1, filtered)
            _filter(taps, filtered, columns, weights)
            for index in range(len(weights)):
                exponent = larger(weights[index] - free, ZERO) * scale
                weights[index] = exponential(larger(exponent, _LEAST))
            for row in range(images.planes * height):
                plane, y = divmod(row, height)
                down_to = plane * (images.height - border) + down + y
                first = down_to * (images.width - border) + right
                values = floats(images.values + first * _FLOAT_BYTES, width)
                own, total = weights[y * columns :], sums[row * width :]
                for x in range(width):
                    total[x] = fused(own[x], values[x], total[x])
        # Sums of few numbers: float32 rounds long ones.
        for index in range(len(sums)):
            result[index] += sums[index]
            sums[index] = ZERO
