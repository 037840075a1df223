"""The numbers of a cube on their way to a file: which type stores them without loss, and in which blocks.

Letters: B bands, H rows, W columns.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_mst.errors import OutOfMemory, SaveError
from napari_mst.memory import free_host_memory
from napari_mst.messages import shown
from napari_mst.watch import UNWATCHED, Watch

BLOCK_BYTES = 4 * 2**20
LAZY_BYTES = 256 * 2**20
"""A file up to this size is read into memory and its checksum verified; a larger one is memory-mapped."""


def check_room(what: str, needed: int) -> None:
    """Refuse what needs more bytes of memory than are free. Raises `OutOfMemory`."""
    free = free_host_memory()
    if needed > free:
        raise OutOfMemory(
            f"Expected {needed} bytes of free memory for {shown(what)}, got {free}. "
            "Close other programs, or use a computer with more."
        )


def stored_type(data: NDArray[Any], allowed: Sequence[str], kind: str) -> np.dtype[Any]:
    """The little-endian type among *allowed* (smallest first) that holds *data* (B, H, W) without loss.

    Integers stay integers: where no type holds all values of theirs, their actual range decides.

    Raises
    ------
    SaveError
        If there is none, or *data* is masked, complex, or not numbers.
    """
    types = [np.dtype(name).newbyteorder("<") for name in allowed]
    dtype = data.dtype.newbyteorder("<")
    if isinstance(data, np.ma.MaskedArray) or dtype.kind not in "biuf":
        raise SaveError(
            f"Expected real numbers for {kind}, got {type(data).__name__} of {dtype}. Convert them first."
        )
    fitting = [
        t for t in types if (t.kind == "f") == (dtype.kind == "f") and np.can_cast(dtype, t, "safe")
    ]
    if dtype in types or fitting:
        return dtype if dtype in types else fitting[0]
    if dtype.kind in "iu":
        low, high = int(data.min()), int(data.max())
        fitting = [
            t
            for t in types
            if t.kind in "iu" and np.iinfo(t).min <= low and high <= np.iinfo(t).max
        ]
    if not fitting:
        names = ", ".join(allowed)
        raise SaveError(
            f"Expected numbers that {kind} can hold ({names}), got {data.dtype}. Convert them first."
        )
    return fitting[0]


def rows_per_block(width: int, dtype: np.dtype[Any]) -> int:
    """How many rows of *width* numbers go into one block."""
    return max(1, BLOCK_BYTES // (width * dtype.itemsize))


def blocks(
    data: NDArray[Any], dtype: np.dtype[Any], watch: Watch = UNWATCHED
) -> Iterator[NDArray[Any]]:
    """The (B, H, W) cube as C-contiguous (rows, W) blocks of *dtype*, band by band; *watch* is told after each."""
    bands, height, width = data.shape
    rows = rows_per_block(width, dtype)
    for band in range(bands):
        for start in range(0, height, rows):
            yield np.ascontiguousarray(data[band, start : start + rows], dtype=dtype)
        watch.report((band + 1) / bands)


def crc32(block: NDArray[Any], crc: int = 0) -> int:
    """CRC-32 (ISO 3309) of the bytes of a contiguous *block* after those of *crc*; five times as fast as zlib's."""
    import imagecodecs

    stored: Any = block.reshape(-1).view(np.uint8)
    return int(imagecodecs.deflate_crc32(stored, crc))


def checksum(data: NDArray[Any], dtype: np.dtype[Any]) -> str:
    """CRC-32 (ISO 3309) of the cube's numbers as *dtype* in (B, H, W) order: eight hexadecimal digits."""
    crc = 0
    for block in blocks(data, dtype):
        crc = crc32(block, crc)
    return f"{crc:08x}"


def magnitude(data: NDArray[Any]) -> tuple[NDArray[Any], list[str]]:
    """*data*, or the magnitude of complex numbers with a warning. Raises `OutOfMemory` if that is too much."""
    if data.dtype.kind != "c":
        return data, []
    check_room("the magnitude of complex numbers", data.nbytes // 2)
    return np.abs(data, order="C"), ["The numbers are complex; their magnitude is shown."]
