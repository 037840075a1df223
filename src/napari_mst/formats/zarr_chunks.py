"""The chunks of a Zarr array on the disk: how many there are, and whether they still are those of the array opened."""

from pathlib import Path
from typing import Any, NamedTuple

from napari_mst.errors import CubeFileError
from napari_mst.formats.text import mismatch, out_of_memory, shown

ATTEMPTS = 5
"""How often a read is tried because saves come in between."""


def damaged(name: str, error: Exception) -> CubeFileError:
    """What to raise about the Zarr folder *name* where zarr raised *error*."""
    return mismatch(name, "a complete Zarr file", shown(error, 80), "Get the file again.")


class _Metadata(NamedTuple):
    """The metadata file of an array, and which of all files that ever had its name it is."""

    text: bytes
    identity: tuple[int, int, int]


class Steadfast:
    """The *array* of the Zarr folder *path*, which gives numbers only as long as it is the one that was opened.

    Chunks are looked up by name, so a save to the same folder would mix those of another cube into an open layer. The
    metadata of a sealed array hold the checksum of its numbers: as long as they are the same, so are the numbers. A
    foreign array has no checksum, so it counts as another one as soon as its metadata are written anew.
    """

    def __init__(self, path: Path, array: Any, *, is_sealed: bool) -> None:
        self.shape, self.dtype, self.ndim = array.shape, array.dtype, array.ndim
        self._name, self._array = path.name, array
        self._is_sealed = is_sealed
        self._file = path / array.path / ("zarr.json" if array.metadata.zarr_format == 3 else ".zarray")
        self._opened = self._metadata()

    def __getitem__(self, key: Any) -> Any:
        """Numbers. Raises `CubeFileError` if they are damaged or another cube was saved there, and `OutOfMemory`."""
        for _ in range(ATTEMPTS):
            before = self._metadata()
            if not self._is_opened(before):
                break
            numbers, error = self._read(key)
            if self._metadata() != before:
                continue
            if error is not None:
                raise damaged(self._name, error) from error
            return numbers
        raise mismatch(self._name, "the cube that was opened", "another one saved over it", "Open it again.")

    def _read(self, key: Any) -> tuple[Any, Exception | None]:
        """Numbers, or what zarr raised: whether that tells of damage or of a save is not known yet."""
        try:
            return self._array[key], None
        except MemoryError as error:
            raise out_of_memory(self._name) from error
        except Exception as error:  # noqa: BLE001 (zarr and its codecs let any type escape from a damaged file)
            return None, error

    def _metadata(self) -> _Metadata | None:
        """The metadata as they are now; None if there are none."""
        try:
            info = self._file.stat()
            return _Metadata(self._file.read_bytes(), (info.st_dev, info.st_ino, info.st_mtime_ns))
        except OSError:
            return None

    def _is_opened(self, now: _Metadata | None) -> bool:
        if now is None or self._opened is None:
            return False
        return now.text == self._opened.text if self._is_sealed else now == self._opened
