"""The chunks of a Zarr array on the disk: how many there are, and if they are still the same.

Chunks are found by name alone, so another save to the folder mixes two cubes unless somebody looks.
"""

import math
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from napari_mst.errors import CubeFileError
from napari_mst.messages import mismatch, out_of_memory, shown

SEAL = "napari_mst_seal"
"""The attribute of an array that holds our seal."""
ATTEMPTS = 5
"""Number of times that a read is tried, where saves come in between."""


def damaged(name: str, error: Exception) -> CubeFileError:
    """The error about the Zarr folder *name* where zarr raised *error*."""
    return mismatch(name, "a complete Zarr file", shown(error, 80), "Get the file again.")


def stored_chunks(path: Path, array: Any) -> tuple[int, int]:
    """The number of chunks (or shards) of *array* in the Zarr folder *path*, and the full number.

    The files are counted. zarr's own count asks for every chunk of the grid, of which a damaged
    file may have any number.
    """
    sides = array.shards or array.chunks
    grid = [math.ceil(length / side) for length, side in zip(array.shape, sides, strict=True)]
    folder = path / array.path
    found = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            file = Path(parent, name)
            is_chunk = _place(file.relative_to(folder).as_posix(), array, grid) is not None
            # zarr takes an empty shard for one that holds no chunk.
            if is_chunk and file.stat().st_size > 0:
                found += 1
    return found, math.prod(grid)


def absent_chunks(path: Path, array: Any) -> list[str]:
    """A warning where chunks of *array* are absent.

    Many programs leave out chunks that hold nothing but zeros. Nothing tells these from lost ones.
    """
    found, count = stored_chunks(path, array)
    if found == count:
        return []
    value = shown(array.fill_value or 0, 20)
    return [
        f"{count - found} of {count} chunks are not in the folder; their numbers were taken to be "
        f"{value}, the fill value. If the folder was copied, compare it with the original."
    ]


def _place(key: str, array: Any, grid: Sequence[int]) -> tuple[int, ...] | None:
    """The place in the *grid* of the chunk whose file is called *key*; None if it is no chunk."""
    # Other files lie among the chunks, such as metadata; their names have no such place.
    place = tuple(int(digits) for digits in re.findall(r"\d+", key))
    if len(place) != len(grid):
        return None
    if any(at >= count for at, count in zip(place, grid, strict=True)):
        return None
    return place if array.metadata.encode_chunk_key(place) == key else None


class _Metadata(NamedTuple):
    """The metadata file of an array, and which of all files that ever had its name it is."""

    text: bytes
    identity: tuple[int, int, int]


class Steadfast:
    """An array of a Zarr folder that gives numbers only while it is the one that was opened.

    A save to the same folder would otherwise mix chunks of another cube into an open layer. The
    metadata of a sealed array hold the checksum of its numbers: as long as they are the same, so
    are the numbers. A foreign array has no checksum, so it counts as another one as soon as its
    metadata are written anew.
    """

    def __init__(self, path: Path, array: Any, *, is_sealed: bool) -> None:
        # dask asks an array for these three.
        self.shape = array.shape
        self.dtype = array.dtype
        self.ndim = array.ndim
        self._name = path.name
        self._array = array
        self._is_sealed = is_sealed
        file_name = "zarr.json" if array.metadata.zarr_format == 3 else ".zarray"
        self._file = path / array.path / file_name
        self._opened = self._metadata()

    def __getitem__(self, key: Any) -> Any:
        """The numbers at *key*.

        Raises `CubeFileError` if they are damaged or another cube was saved there, and
        `OutOfMemory`.
        """
        for _ in range(ATTEMPTS):
            before = self._metadata()
            if not self._is_opened(before):
                break
            numbers, error = self._read(key)
            # A save came in between: the numbers, or the error, may be due to it.
            if self._metadata() != before:
                continue
            if error is not None:
                raise damaged(self._name, error) from error
            return numbers
        raise mismatch(
            self._name, "the cube that was opened", "another one saved over it", "Open it again."
        )

    def _read(self, key: Any) -> tuple[Any, Exception | None]:
        """Numbers, or the error that zarr raised, due to damage or to a save."""
        try:
            return self._array[key], None
        except MemoryError as error:
            raise out_of_memory(self._name) from error
        # zarr and its codecs let any type escape from a damaged file.
        except Exception as error:  # noqa: BLE001
            return None, error

    def _metadata(self) -> _Metadata | None:
        """The metadata as they are now; None if there are none."""
        try:
            info = self._file.stat()
            return _Metadata(self._file.read_bytes(), (info.st_dev, info.st_ino, info.st_mtime_ns))
        except OSError:
            return None

    def _is_opened(self, now: _Metadata | None) -> bool:
        """True if *now* are the metadata of the array that was opened."""
        if now is None or self._opened is None:
            return False
        return now.text == self._opened.text if self._is_sealed else now == self._opened
