"""Features in memory, and rows of them packed into planes: [channels / LANES][pixels][LANES]."""

from typing import NamedTuple

from napari_mst.engine.kernels.caching import part
from napari_mst.engine.kernels.emitter import Emitter, emitted
from napari_mst.engine.kernels.processor import PIXELS, VECTOR


class Features(NamedTuple):
    """Features (h, w, C) in memory, the channels of a pixel side by side.

    Attributes
    ----------
    address
        Of the first pixel.
    row, pixel
        Bytes from one row, and from one pixel, to the next.
    height, width, channels
        The shape.
    """

    address: int
    row: int
    pixel: int
    height: int
    width: int
    channels: int


class Missing(NamedTuple):
    """Pixels that a window lacks above, below, left and right, because the image ends there."""

    top: int
    bottom: int
    left: int
    right: int


class PackedRow(NamedTuple):
    """A packed row, or a part of it from one pixel on.

    Attributes
    ----------
    address
        Of the first vector of its first pixel.
    planes
        Vectors of a pixel.
    plane
        Bytes from one vector of a pixel to the next.
    """

    address: int
    planes: int
    plane: int


@part
def row_bytes(width: int, planes: int) -> int:
    """Bytes of a row of *width* pixels, and of a whole group that may be written beyond its end."""
    groups = -(-width // PIXELS) + 1
    return groups * PIXELS * VECTOR * planes


class PixelRow(NamedTuple):
    """A row of features: address of the first pixel, bytes from one to the next, and channels."""

    address: int
    stride: int
    channels: int


@emitted
def _zero(e: Emitter, address: int) -> None:
    """Write one vector of zeros."""
    e.store(e.constant(0), address)


@emitted
def _pack(e: Emitter, row: PackedRow, pixel: int, channels: int) -> None:
    """Copy the channels of a pixel to its vectors."""
    # Channels end within the last vector: behind them lies the next pixel, or memory of others.
    with e.loop(row.planes) as loop:
        vector = e.load_some(e.along(pixel, loop.index, VECTOR), e.lanes_left(channels, loop.index))
        e.store(vector, e.along(row.address, loop.index, row.plane))


@emitted
def _unpack(e: Emitter, row: PackedRow, pixel: int, channels: int) -> None:
    """Copy the vectors of a pixel to its channels."""
    with e.loop(row.planes) as loop:
        vector = e.load(e.along(row.address, loop.index, row.plane))
        lanes = e.lanes_left(channels, loop.index)
        e.store_some(vector, e.along(pixel, loop.index, VECTOR), lanes)


@part
def from_pixel(row: PackedRow, pixel: int) -> PackedRow:
    """*row* from *pixel* on."""
    return PackedRow(row.address + pixel * VECTOR, row.planes, row.plane)


@part
def clear_row(row: PackedRow, start: int, stop: int) -> None:
    """Zero the pixels *start* to *stop*."""
    for i in range(row.planes):
        for pixel in range(start, stop):
            _zero(row.address + i * row.plane + pixel * VECTOR)


@part
def clear_outside(row: PackedRow, left: int, right: int, width: int) -> None:
    """Zero the pixels beside the image: the network's own convolutions see zeros there."""
    clear_row(row, 0, left)
    clear_row(row, width - right, width)


@part
def row_of(features: Features, y: int) -> PixelRow:
    """Row *y* of *features*."""
    return PixelRow(features.address + y * features.row, features.pixel, features.channels)


@part
def pack_row(source: PixelRow, row: PackedRow, start: int, stop: int) -> None:
    """Copy the first pixels of *source* to the pixels *start* to *stop* of *row*."""
    for pixel in range(start, stop):
        place = source.address + (pixel - start) * source.stride
        _pack(from_pixel(row, pixel), place, source.channels)


@part
def unpack_row(row: PackedRow, target: PixelRow, width: int) -> None:
    """Copy *width* pixels of *row* to *target*."""
    for pixel in range(width):
        place = target.address + pixel * target.stride
        _unpack(from_pixel(row, pixel), place, target.channels)
