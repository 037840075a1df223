"""Gram matrices of the channels, in float64."""

from typing import NamedTuple

from napari_mst.engine.kernels.caching import kernel
from napari_mst.engine.kernels.emitter import DOUBLE, DOUBLES, HALF, Emitter, emitted
from napari_mst.engine.kernels.packed_rows import Features
from napari_mst.engine.kernels.processor import GRAM_ROWS, LANES, VECTOR

GRAM_BYTES = 1 << 14
"""Scratch memory that `add_gram` takes, or that of one pixel: what stays in the fastest cache."""

_DOUBLE_BYTES = 8


class _Products(NamedTuple):
    """A few channels and one plane of some pixels, and the place of their products in the matrix.

    *left* and *right* are addresses in the first pixel; *pixel* and *row* are the bytes to the next
    pixel, and to the next row of the matrix.
    """

    left: int
    right: int
    pixel: int
    pixels: int
    target: int
    row: int


@emitted
def _widen(e: Emitter, pixel: int, channels: int, target: int, planes: int) -> None:
    """Copy the channels of a pixel to vectors of float64, side by side."""
    with e.loop(planes) as loop:
        lanes = e.lanes_left(channels, loop.index)
        vector = e.load_some(e.along(pixel, loop.index, VECTOR), lanes)
        e.store(e.builder.fpext(vector, DOUBLES), e.along(target, loop.index, 2 * VECTOR))


@emitted
def _add_products(e: Emitter, products: _Products) -> None:
    """Add the products of a few channels with the channels of a plane, over all pixels."""
    halves = (0, VECTOR)
    rows = [e.along(products.target, row, products.row) for row in range(GRAM_ROWS)]
    places = [e.at(row, half) for row in rows for half in halves]
    sums = [e.variable(e.load(place, HALF)) for place in places]
    with e.loop(products.pixels) as loop:
        left = e.along(products.left, loop.index, products.pixel)
        right = e.along(products.right, loop.index, products.pixel)
        factors = [e.load(e.at(right, half), HALF) for half in halves]
        for row in range(GRAM_ROWS):
            value = e.splat(e.load(e.at(left, _DOUBLE_BYTES * row), DOUBLE), HALF)
            for factor, total in zip(factors, sums[2 * row : 2 * row + 2], strict=True):
                e.put(e.multiply_add(value, factor, e.value(total)), total)
    for total, place in zip(sums, places, strict=True):
        e.store(e.value(total), place)


@kernel
def add_gram(source: Features, planes: int, target: int, scratch: int) -> None:
    """Add the Gram matrix of the channels to *target*, float64, as wide as *planes*.

    Only what is above its diagonal is right: the matrix is symmetric.
    """
    pixel_bytes = 2 * planes * VECTOR  # a float64 has the bytes of two float32
    count = max(GRAM_BYTES // pixel_bytes, 1)
    for y in range(source.height):
        for start in range(0, source.width, count):
            pixels = min(count, source.width - start)
            # Every few rows of the matrix read all pixels again: they are widened once, before.
            for pixel in range(pixels):
                place = source.address + y * source.row + (start + pixel) * source.pixel
                _widen(place, source.channels, scratch + pixel * pixel_bytes, planes)
            for row in range(0, source.channels, GRAM_ROWS):
                # Planes before this one lie wholly below the diagonal.
                for plane in range(row // LANES, planes):
                    left = scratch + _DOUBLE_BYTES * row
                    column = 2 * plane * VECTOR
                    place = target + row * pixel_bytes + column
                    _add_products(
                        _Products(left, scratch + column, pixel_bytes, pixels, place, pixel_bytes)
                    )
