"""MAT-files of version 7 and before, read by scipy.

Source: MathWorks, "MAT-File Level 5 File Format".
"""

import os
import zlib
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from napari_mst.formats.matlab.stored import StoredArray
from napari_mst.isolation import limits
from napari_mst.isolation.limits import ROOM_BYTES

# Bytes of a number of each of MATLAB's classes.
_CLASSES = {
    "double": 8,
    "single": 4,
    "int64": 8,
    "uint64": 8,
    "int32": 4,
    "uint32": 4,
    "int16": 2,
    "uint16": 2,
    "int8": 1,
    "uint8": 1,
    "logical": 1,
}
_HEADER_BYTES = 128
_COMPRESSED = 15
_CHUNK_BYTES = 2**15


def version_5_arrays(path: Path) -> dict[str, StoredArray]:
    """The arrays of numbers in the MAT-file at *path*, by name."""
    from scipy.io import whosmat

    limits.limit_memory(ROOM_BYTES)
    stored_bytes = path.stat().st_size
    arrays = {}
    for name, shape, kind in whosmat(path):
        if kind in _CLASSES:
            read = partial(_read, path, name)
            sides = tuple(int(side) for side in shape)
            arrays[name] = StoredArray(sides, _CLASSES[kind], stored_bytes, read)
    return arrays


def _read(path: Path, name: str) -> NDArray[Any]:
    from scipy.io import loadmat

    _check(path)
    return np.asarray(loadmat(path, variable_names=[name])[name])


def _check(path: Path) -> None:
    """Inflate every compressed element to its end, where zlib compares its checksum.

    scipy stops at the last number, before the checksum, and would return changed numbers. Raises
    `zlib.error` and `EOFError`.
    """
    with path.open("rb") as file:
        head = file.read(_HEADER_BYTES)
        # A file of version 4 begins with four bytes of which one is zero. It has no such elements.
        if 0 in head[:4]:
            return
        order: Literal["little", "big"] = "little" if head[-2:] == b"IM" else "big"
        while tag := file.read(8):
            kind = int.from_bytes(tag[:4], order)
            left = int.from_bytes(tag[4:], order)
            if kind == _COMPRESSED:
                left = _inflate(file, left)
            file.seek(left, os.SEEK_CUR)


def _inflate(file: Any, left: int) -> int:
    """Inflate an element of *left* bytes, and return how many bytes of it remain after its end."""
    stream = zlib.decompressobj()
    while not stream.eof:
        part = file.read(min(left, _CHUNK_BYTES))
        if not part:
            raise EOFError("a compressed element that ends early")
        left -= len(part)
        stream.decompress(part)
    return left
