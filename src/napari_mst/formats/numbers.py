"""The numbers of a cube on their way to and from a file: types, blocks, checksums and memory.

Letters: B bands, H rows, W columns.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import numpy as np

from napari_mst.arrays import Array, DType
from napari_mst.cube import SpectralCube
from napari_mst.cube.lazy import Lazy, Numbers, check_room, in_file
from napari_mst.errors import CubeFileError, SaveError, mismatch
from napari_mst.watch import UNWATCHED, Watch

BLOCK_BYTES = 4 * 2**20
LAZY_BYTES = 256 * 2**20
"""Up to this size numbers are read into memory and their checksum is verified.

Larger ones are read where they are looked at.
"""
DEFLATE_RATIO = 1040
"""No deflate stream grows by more than 1032 times (RFC 1951), so a file that declares more lies."""


def is_large(nbytes: int) -> bool:
    """True for numbers that are too many to be read at once: above `LAZY_BYTES`."""
    return nbytes > LAZY_BYTES


def too_large(name: str, most: int, declared: int | str) -> CubeFileError:
    """The error about a file that declares more numbers than it can hold."""
    advice = "The file is incomplete, or not what it says."
    return mismatch(name, f"at most {most} bytes of numbers", f"{declared} declared", advice)


def stored_type(data: Array, allowed: Sequence[str], kind: str) -> DType:
    """The little-endian type among *allowed* (smallest first) that holds *data* without loss.

    Integers stay integers. Where no allowed type holds all values of their type, the range of the
    actual values decides.

    Raises
    ------
    SaveError
        If there is no such type, or *data* (B, H, W) is complex, or not numbers.
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
        ends = [(block.min(), block.max()) for block in blocks(data, data.dtype)]
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


def blocks(data: Array, dtype: DType, watch: Watch = UNWATCHED) -> Iterator[Array]:
    """The (B, H, W) cube band by band, as C-contiguous blocks (rows, W) of *dtype*.

    The *watch* hears of each band.
    """
    bands, height, width = data.shape
    rows = max(1, BLOCK_BYTES // (width * dtype.itemsize))
    # Block by block, so that a mapped cube never comes into memory as a whole.
    for band in range(bands):
        for start in range(0, height, rows):
            yield np.ascontiguousarray(data[band, start : start + rows], dtype=dtype)
        watch.reach((band + 1) / bands)


@contextmanager
def by_bands(
    cube: SpectralCube, folder: Path, watch: Watch
) -> Iterator[tuple[SpectralCube, Watch]]:
    """*cube* for one who takes band after band: by way of a file in *folder*, where that helps.

    Bands that can only be had together would be read, or computed, again for each of them. With it
    comes the *watch* for the rest of the work.
    """
    data = cube.data
    if not isinstance(data, Lazy) or data.sides[0] == 1:
        yield cube, watch
        return
    bands, height, width = data.shape
    step = max(data.sides[1], BLOCK_BYTES // (bands * width))
    with TemporaryFile(dir=folder) as file:
        for top in range(0, height, step):
            for band, plane in enumerate(data[:, top : top + step]):
                file.seek((band * height + top) * width * data.dtype.itemsize)
                file.write(np.ascontiguousarray(plane).data)
            watch.reach(min(1.0, (top + step) / height) / 2)
        file.flush()
        mapped = np.memmap(file, data.dtype, "r", shape=data.shape)
        yield replace(cube, data=mapped), watch.part(0.5, 1)


def in_native_order(data: Array) -> Numbers:
    """*data* contiguous and in native byte order; numbers of a memory map become `Lazy` ones."""
    if isinstance(data, np.memmap):
        return in_file(data)
    return np.ascontiguousarray(data, data.dtype.newbyteorder("="))


def crc32(block: Array, crc: int = 0) -> int:
    """CRC-32 (ISO 3309) of the bytes of a contiguous *block*, continued from *crc*."""
    # libdeflate, through imagecodecs, is five times as fast as zlib.
    import imagecodecs

    stored: Any = block.reshape(-1).view(np.uint8)
    return int(imagecodecs.deflate_crc32(stored, crc))


def checksum(data: Array, dtype: DType) -> str:
    """CRC-32 (ISO 3309) of the numbers as *dtype* in (B, H, W) order: eight hexadecimal digits."""
    return write_numbers(None, data, dtype)


def write_numbers(
    file: IO[bytes] | None, data: Array, dtype: DType, watch: Watch = UNWATCHED
) -> str:
    """Write the numbers as *dtype* in (B, H, W) order to the *file*, if any; return the CRC-32."""
    crc = 0
    for block in blocks(data, dtype, watch):
        if file is not None:
            file.write(block.data)
        crc = crc32(block, crc)
    return f"{crc:08x}"


def magnitude(data: Numbers) -> tuple[Numbers, list[str]]:
    """Real *data* as they are; the magnitude of complex ones, and a warning that says so.

    Raises `OutOfMemory` if the magnitude does not fit into memory.
    """
    if data.dtype.kind != "c":
        return data, []
    warnings = ["The numbers are complex; their magnitude is shown."]
    if isinstance(data, Lazy):
        return data.mapped(
            lambda part, _: np.abs(part), np.empty(0, data.dtype).real.dtype
        ), warnings
    check_room("the magnitude of complex numbers", data.nbytes // 2)
    # The default order would be that of the file, whose axes may have been turned.
    return np.abs(data, order="C"), warnings
