"""Numbers on their way to and from a file: types, blocks, checksums and memory.

Letters: B bands, H rows, W columns.
"""

from collections.abc import Callable, Sequence
from itertools import product
from typing import IO, Any

import numpy as np

from napari_mst.base.arrays import Array, DType
from napari_mst.base.errors import CubeFileError, SaveError, mismatch
from napari_mst.base.progress import NO_PROGRESS, Progress
from napari_mst.cube.lazy import Lazy, Numbers, changed, mapped
from napari_mst.formats.lazy_files import in_file, with_neighbours

BLOCK_BYTES = 4 * 2**20
STRIP_BYTES = 16 * 2**20
"""Size of the blocks in which a cube is written, unless a tile or chunk is larger."""
LAZY_BYTES = 256 * 2**20
"""Largest array that is read into memory and whose checksum is verified.

Larger arrays are read on demand.
"""
DEFLATE_RATIO = 1040
"""A deflate stream grows at most 1032 times (RFC 1951), so a file that declares more is damaged."""


def is_large(nbytes: int) -> bool:
    """True for more than `LAZY_BYTES`, which are not read at once."""
    return nbytes > LAZY_BYTES


def too_large(name: str, most: int, declared: int | str) -> CubeFileError:
    """The error about the file *name* that declares more numbers than it can hold."""
    advice = "The file is incomplete, or not what it says."
    return mismatch(name, f"at most {most} bytes of numbers", f"{declared} declared", advice)


def stored_type(data: Array, allowed: Sequence[str], kind: str) -> DType:
    """The little-endian type among *allowed* (smallest first) that holds *data* without loss.

    Integers stay integers. If no allowed type holds all values of the type of *data*, the range of
    the actual values decides.

    Raises
    ------
    SaveError
        If no type fits, or *data* (B, H, W) is complex or not numeric.
    """
    types = [np.dtype(name).newbyteorder("<") for name in allowed]
    dtype = data.dtype.newbyteorder("<")
    if dtype.kind not in "biuf":
        raise SaveError(
            f"Expected real numbers for {kind}, got {type(data).__name__} of {dtype}. "
            "Convert them first."
        )
    if dtype in types:
        return dtype
    is_float = dtype.kind == "f"
    alike = [each for each in types if (each.kind == "f") == is_float]
    fitting = [each for each in alike if np.can_cast(dtype, each, "safe")]
    if not fitting and dtype.kind in "iu":
        ends = [(band.min(), band.max()) for band in data]
        low, high = int(np.min(ends)), int(np.max(ends))
        fitting = [
            each for each in alike if np.iinfo(each).min <= low and high <= np.iinfo(each).max
        ]
    if not fitting:
        raise SaveError(
            f"Expected numbers that {kind} can hold ({', '.join(allowed)}), got {data.dtype}. "
            "Convert them first."
        )
    return fitting[0]


def by_bands(data: Numbers, progress: Progress) -> tuple[Array, Progress]:
    """*data* (B, H, W) for a stream of one band after the other, and the remaining *progress*.

    Bands that can only be read together go through a temporary file, or they would be read or
    computed once per band.
    """
    if not isinstance(data, Lazy) or data.sides[0] == 1:
        return data, progress
    numbers = mapped(data.shape, data.dtype)
    write_blocks(data, data.dtype, progress.part(0, 0.5), numbers.__setitem__)
    return numbers, progress.part(0.5, 1)


def write_planes(file: IO[bytes], data: Numbers, dtype: DType, progress: Progress) -> str:
    """Write *data* as *dtype* in (B, H, W) order at the position of *file*; return the CRC-32."""
    start = file.tell()
    _, height, width = data.shape

    def put(place: tuple[slice, slice], block: Array) -> None:
        bands, rows = place
        for band, plane in enumerate(block, bands.start):
            file.seek(start + (band * height + rows.start) * width * dtype.itemsize)
            file.write(plane.data)

    return write_blocks(data, dtype, progress, put)


def write_blocks(
    data: Numbers,
    dtype: DType,
    progress: Progress,
    put: Callable[[tuple[slice, slice], Array], object],
    side: int = 1,
) -> str:
    """Pass the numbers (B, H, W) to *put* in blocks of whole rows; return the CRC-32 of `checksum`.

    Bands that can only be read together form one block, so that a cube computed on demand is
    computed once and never held in memory as a whole. Otherwise the blocks follow the (B, H, W)
    order, unless *side* is more than 1.

    Parameters
    ----------
    put
        Takes the bands and rows of a block, and its numbers as *dtype*.
    side
        Blocks begin at multiples of this many rows, or of the rows of a `Lazy` tile if larger.
    """
    bands, height, width = data.shape
    row_bytes = width * dtype.itemsize
    together, least = data.sides[:2] if isinstance(data, Lazy) else (1, 1)
    side = max(side, least)
    rows = side * max(1, STRIP_BYTES // (together * side * row_bytes))
    planes = max(together, STRIP_BYTES // (min(rows, height) * row_bytes))
    crcs = [0] * bands
    for first, top in product(range(0, bands, planes), range(0, height, rows)):
        place = slice(first, first + planes), slice(top, top + rows)
        block = _block(data, place, dtype)
        for band, plane in enumerate(block, first):
            crcs[band] = crc32(plane, crcs[band])
        put(place, block)
        done = len(block) * min(top + rows, height) / height
        progress.reach((first + done) / bands)
    total, size = 0, height * row_bytes
    zeros = _crc_of_zeros(size)
    for crc in crcs:
        # CRC(A, B) is CRC(A, zeros) xor CRC(zeros) xor CRC(B), with as many zeros as B has bytes.
        total = _crc_of_zeros(size, total) ^ zeros ^ crc
    return f"{total:08x}"


def _block(data: Numbers, place: tuple[slice, slice], dtype: DType) -> Array:
    """The bands and rows of *data* at *place*, as *dtype*.

    Bands that can only be read together make blocks as large as a row of chunks. Those are read
    some columns at a time into a temporary file, whose memory the system can take back.
    """
    bands, rows = (len(range(size)[cut]) for size, cut in zip(data.shape, place, strict=False))
    column_bytes = bands * rows * dtype.itemsize
    together, _, least = data.sides if isinstance(data, Lazy) else (1, 1, 1)
    if together == 1 or column_bytes * data.shape[2] <= 2 * STRIP_BYTES:
        return np.ascontiguousarray(data[place], dtype)
    block = mapped((bands, rows, data.shape[2]), dtype)
    columns = least * max(1, STRIP_BYTES // (2 * column_bytes * least))
    for left in range(0, data.shape[2], columns):
        across = slice(left, left + columns)
        block[:, :, across] = data[(*place, across)]
    return block


def _crc_of_zeros(count: int, crc: int = 0) -> int:
    """The CRC-32 of *count* bytes of zero, continued from *crc*."""
    zeros = np.zeros(min(count, BLOCK_BYTES), np.uint8)
    for start in range(0, count, BLOCK_BYTES):
        crc = crc32(zeros[: count - start], crc)
    return crc


def in_native_order(data: Numbers) -> Numbers:
    """*data* contiguous and in native byte order; a memory map becomes a `Lazy` array."""
    if isinstance(data, Lazy):
        return with_neighbours(data)
    if isinstance(data, np.memmap):
        return in_file(data)
    return np.ascontiguousarray(data, data.dtype.newbyteorder("="))


def crc32(block: Array, crc: int = 0) -> int:
    """CRC-32 (ISO 3309) of the bytes of a contiguous *block*, continued from *crc*."""
    # libdeflate, through imagecodecs, is five times as fast as zlib.
    import imagecodecs

    stored: Any = block.reshape(-1).view(np.uint8)
    return int(imagecodecs.deflate_crc32(stored, crc))


def checksum(data: Numbers, dtype: DType) -> str:
    """CRC-32 (ISO 3309) of the numbers as *dtype* in (B, H, W) order: eight hexadecimal digits."""
    return write_blocks(data, dtype, NO_PROGRESS, lambda *_: None)


def magnitude(data: Numbers) -> tuple[Numbers, list[str]]:
    """Real *data* unchanged, or the magnitude of complex *data* with a warning.

    Raises `OutOfMemory` if the magnitude does not fit into memory.
    """
    if data.dtype.kind != "c":
        return data, []
    floats = np.empty(0, data.dtype).real.dtype
    warnings = ["The numbers are complex; their magnitude is shown."]
    return changed(data, lambda part, _: np.abs(part), floats), warnings
