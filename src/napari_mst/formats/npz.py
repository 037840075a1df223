"""NumPy archives: `cube` (B, H, W), `wavelengths` (nm) and our record, each an uncompressed `.npy` in a zip file.

`np.load` reads them. Others are read too where one array is the cube; pickled objects never are. The zip file's own
CRC-32 of each member is checked; the seal of the record lies in the comment of the archive.
Sources: numpy.lib.format (NPY 1.0 and 2.0), PKWARE APPNOTE 6.3. Letters: B bands, H rows, W columns.
"""

import json
import math
import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from napari_mst import crash_safe
from napari_mst.cube import SpectralCube
from napari_mst.errors import NapariMstError
from napari_mst.formats import record
from napari_mst.formats.arrays import (
    axis_doubts,
    band_axis_of,
    cube_name,
    wavelengths_name,
    wavelengths_of,
)
from napari_mst.formats.numbers import LAZY_BYTES, blocks, check_room, crc32, stored_type
from napari_mst.formats.record import OWN, Description, described, described_cube
from napari_mst.messages import mismatch, shown
from napari_mst.watch import UNWATCHED, Watch

_STORED = ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8")
_MOST_MEMBERS = 1000
_TEXT_BYTES = 64 * 2**20
_DEFLATE_RATIO = 1040
"""No deflate stream grows by more than 1032 times (RFC 1951)."""


@dataclass(frozen=True)
class _Member:
    """One array of the archive: *start* bytes into its member begin its numbers."""

    info: zipfile.ZipInfo
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    is_fortran: bool
    start: int

    @property
    def is_number(self) -> bool:
        return self.dtype.kind in "biufc"

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def shaped(self, flat: NDArray[Any]) -> NDArray[Any]:
        return flat.reshape(self.shape, order="F" if self.is_fortran else "C")


def is_npz(path: Path) -> bool:
    """Whether *path* begins as a zip file and is called `.npz`."""
    with path.open("rb") as file:
        return file.read(4) == b"PK\3\4" and path.suffix.lower() == ".npz"


def is_own_npz(path: Path) -> bool:
    """Whether the archive at *path* holds our record of a cube."""
    with _opened(path) as archive:
        return f"{OWN}.npy" in archive.namelist()


def write_npz(
    path: Path, cube: SpectralCube, *, overwrite: bool = False, watch: Watch = UNWATCHED
) -> Path:
    """Save *cube* uncompressed, so that a large one can be mapped; bool becomes uint8.

    Raises
    ------
    SaveError
        If the numbers are masked or complex, or as `crash_safe.saving`.
    """
    dtype = stored_type(cube.data, _STORED, "an NPZ file")
    needed = cube.data.size * dtype.itemsize
    with (
        crash_safe.saving(path, needed=needed + 2**20, overwrite=overwrite) as (temporary,),
        zipfile.ZipFile(temporary, "w") as archive,
    ):
        with archive.open(zipfile.ZipInfo("cube.npy"), "w", force_zip64=True) as file:
            shape = {
                "descr": npy.dtype_to_descr(dtype),
                "fortran_order": False,
                "shape": cube.shape,
            }
            npy.write_array_header_1_0(file, shape)
            crc = 0
            for block in blocks(cube.data, dtype, watch):
                file.write(block.data)
                crc = crc32(block, crc)
        if cube.has_wavelengths:
            _add(archive, "wavelengths", cube.wavelengths)
        _add(archive, OWN, np.array(json.dumps(record.record(cube))))
        archive.comment = record.seal(cube, dtype, f"{crc:08x}")
    return path


def read_npz(
    path: Path,
    *,
    variable: str | None = None,
    band_axis: int | None = None,
    verify: bool | None = None,
) -> SpectralCube:
    """The cube in the archive at *path*.

    Parameters
    ----------
    variable
        Name of the array that is the cube, where there are several of three axes.
    band_axis
        0 or -1: which of its axes holds the bands, where neither wavelengths nor sizes tell.
    verify
        Compare the numbers with the checksum that we saved; by default unless the file is memory-mapped.

    Raises
    ------
    CubeFileError
        If the archive is damaged, too large when decompressed, or has no array or several that may be the cube.
    """
    with _opened(path) as archive:
        members = {
            info.filename.removesuffix(".npy"): _member(archive, info) for info in _arrays(archive)
        }
        shapes = {key: member.shape for key, member in members.items() if member.is_number}
        name = cube_name(path.name, shapes, variable)
        data = _numbers(path, archive, members[name])
        if archive.comment and OWN in members and name == "cube":
            description = described(
                path.name, archive.comment, [_text(path, archive, members[OWN])]
            )
            return _ours(path, data, description, verify)
        key = wavelengths_name({k: v for k, v in shapes.items() if k != name}, data.shape)
        values = _numbers(path, archive, members[key]) if key else np.empty(0)
    texts, unit, told = wavelengths_of(key or "", values)
    axis = band_axis_of(data.shape, len(texts), band_axis)
    told += axis_doubts(data.shape, axis, len(texts), band_axis)
    told += [record.CHANGED] * (OWN in members or b'"crc32"' in archive.comment)
    data = np.moveaxis(data, axis, 0)
    return described_cube(_in_order(data), Description(texts, unit), told)


def _ours(
    path: Path, data: NDArray[Any], description: Description, verify: bool | None
) -> SpectralCube:
    record.check(path.name, data, description)
    if verify or (verify is None and not isinstance(data, np.memmap)):
        record.verify(path.name, data, description)
    return described_cube(_in_order(data), description)


def _in_order(data: NDArray[Any]) -> NDArray[Any]:
    """In native byte order and contiguous, unless it is a memory map."""
    return (
        data
        if isinstance(data, np.memmap)
        else np.ascontiguousarray(data, data.dtype.newbyteorder("="))
    )


def _add(archive: zipfile.ZipFile, name: str, values: NDArray[Any]) -> None:
    with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w") as file:
        npy.write_array(file, values, allow_pickle=False)


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    """The open archive; whatever zipfile and numpy raise about damage becomes a `CubeFileError`."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (NapariMstError, MemoryError):
        raise
    except (
        Exception
    ) as error:  # zipfile, zlib and numpy raise six unrelated types about damaged files
        raise mismatch(
            path.name, "a complete NPZ file", shown(error, 80), "Get the file again."
        ) from error


def _arrays(archive: zipfile.ZipFile) -> Iterator[zipfile.ZipInfo]:
    return islice(
        (info for info in archive.infolist() if info.filename.endswith(".npy")), _MOST_MEMBERS
    )


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> _Member:
    """What the header of an array says; `ValueError` if it is none."""
    with archive.open(info) as file:
        major, _ = npy.read_magic(file)
        read_header = npy.read_array_header_1_0 if major == 1 else npy.read_array_header_2_0
        shape, is_fortran, dtype = read_header(file)
        return _Member(info, shape, dtype, is_fortran, file.tell())


def _numbers(path: Path, archive: zipfile.ZipFile, member: _Member) -> NDArray[Any]:
    """The array of *member*, never more than its file can hold: in memory, or mapped if it is large."""
    found, info = path.stat().st_size, member.info
    is_stored = info.compress_type == zipfile.ZIP_STORED
    most = found if is_stored else found * _DEFLATE_RATIO
    if member.nbytes > most or min(member.shape, default=0) < 0:
        advice = "The file is incomplete, or not what it says."
        raise mismatch(
            path.name, f"at most {most} bytes of numbers", f"{member.nbytes} declared", advice
        )
    if member.nbytes + member.start != info.file_size:
        advice = "Get the file again."
        raise mismatch(
            path.name,
            f"{member.nbytes} bytes of numbers",
            str(info.file_size - member.start),
            advice,
        )
    if is_stored and member.nbytes > LAZY_BYTES:
        return member.shaped(_mapped(path, member))
    check_room(path.name, member.nbytes)
    flat = np.empty(math.prod(member.shape), member.dtype)
    with archive.open(info) as file:
        file.read(member.start)
        _fill(file, flat)
    return member.shaped(flat)


def _fill(file: Any, flat: NDArray[Any]) -> None:
    """Read *flat* full; zipfile compares the checksum of the member at its end."""
    view, done = flat.view(np.uint8).data, 0
    while done < len(view):
        count = file.readinto(view[done:])
        if not count:
            raise EOFError(f"{len(view) - done} bytes are missing")
        done += count
    file.read(1)


def _mapped(path: Path, member: _Member) -> NDArray[Any]:
    with path.open("rb") as file:
        file.seek(member.info.header_offset + 26)
        name_length, extra_length = struct.unpack("<HH", file.read(4))
    offset = member.info.header_offset + 30 + name_length + extra_length + member.start
    return np.memmap(path, member.dtype, "r", offset, (math.prod(member.shape),))


def _text(path: Path, archive: zipfile.ZipFile, member: _Member) -> str:
    if member.dtype.kind != "U" or member.shape or member.nbytes > _TEXT_BYTES:
        raise mismatch(path.name, f"text in '{OWN}'", f"{member.dtype}", "Get the file again.")
    return str(_numbers(path, archive, member)[()])
