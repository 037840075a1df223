"""The arrays that a MAT-file holds, before their numbers are read, and the errors about them."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from napari_mst.errors import CubeFileError
from napari_mst.messages import mismatch

HDF5_MARK = b"\x89HDF\r\n\x1a\n"
USERBLOCK = 512
"""Bytes before the HDF5 file in a MAT-file of version 7.3."""
# The HDF5 attribute of `cube` that holds our seal. MATLAB does not copy attributes that it does not
# know. Its length is fixed: for text of variable length the library looks in a heap, and in a
# damaged one for ever.
SEAL = "napari_mst_seal"
TEXT_BYTES = 64 * 2**20
"""The most bytes of a text or of wavelengths; more is taken for damage."""


@dataclass(frozen=True)
class StoredArray:
    """One array of a MAT-file.

    Attributes
    ----------
    shape
        In MATLAB's order.
    itemsize, stored_bytes
        Bytes of a number, and of all as they are stored, compressed or not.
    read
        Gives the numbers in MATLAB's order.
    offset
        Where the numbers begin in the file, in column-major order and native byte order; None if
        they are in pieces.
    dtype
        The type of numbers that have an *offset*.
    check
        Raises `CubeFileError` if parts of the array are lost, and gives warnings about parts that
        perhaps were never written.
    """

    shape: tuple[int, ...]
    itemsize: int
    stored_bytes: int
    read: Callable[[], NDArray[np.generic]]
    offset: int | None = None
    dtype: str = ""
    check: Callable[[], list[str]] = list

    @property
    def nbytes(self) -> int:
        """Bytes of the numbers in memory."""
        return math.prod(self.shape) * self.itemsize


def too_large(path: Path, most: int, declared: str) -> CubeFileError:
    """The error about a file that declares more numbers than it can hold."""
    advice = "The file is incomplete, or not what it says."
    return mismatch(path.name, f"at most {most} bytes of numbers", f"{declared} declared", advice)
