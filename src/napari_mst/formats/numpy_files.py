"""NumPy archives (`.npz`) and plain arrays (`.npy`), which hold only numbers.

Our archives hold `cube` (B, H, W), `wavelengths` (nm) and our record, uncompressed. In a plain
array, our record follows the numbers.

`np.load` reads both. Archives from other programs are read if one array is the cube; pickled
objects are never read, since unpickling runs code. The zip file has a CRC-32 of each member, which
is checked. The seal of the record is the comment of the archive.
Sources: numpy.lib.format (NPY 1.0 and 2.0), PKWARE APPNOTE 6.3.
Letters: B bands, H rows, W columns.
"""

import json
import math
import os
import struct
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.lib import format as npy

from napari_mst.base.arrays import Array, DType
from napari_mst.base.errors import check_regular, complete, mismatch
from napari_mst.base.memory import check_room
from napari_mst.base.progress import Progress
from napari_mst.cube import SpectralCube
from napari_mst.cube.parts import with_tuples
from napari_mst.formats.array_files import (
    NO_ANSWERS,
    SMALL_BYTES,
    Answers,
    StoredArray,
    band_axis_of,
    cube_name,
    find_cube,
)
from napari_mst.formats.cube_record import (
    CHANGED,
    OWN,
    Description,
    SealedTexts,
    described_cube,
    record_of,
    seal_of,
    sealed_cube,
)
from napari_mst.formats.numbers import (
    DEFLATE_RATIO,
    by_bands,
    in_native_order,
    is_large,
    too_large,
    write_blocks,
    write_planes,
)

# Most members whose headers are read.
_MOST_MEMBERS = 1000


@dataclass(frozen=True)
class _Member:
    """An array of the archive, whose numbers begin *start* bytes into the member *info*."""

    info: zipfile.ZipInfo
    shape: tuple[int, ...]
    is_fortran: bool
    dtype: DType
    start: int

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def is_stored(self) -> bool:
        """True if the member is uncompressed, so that its numbers can be mapped."""
        return self.info.compress_type == zipfile.ZIP_STORED


def is_npz(path: Path) -> bool:
    """True if *path* begins as a zip file and has the suffix `.npz`."""
    with path.open("rb") as file:
        # Documents and programs are zip files as well, so the suffix has to decide.
        return file.read(4) == b"PK\3\4" and path.suffix.lower() == ".npz"


def is_own_npz(path: Path) -> bool:
    """True if the archive at *path* holds the record of a cube that we saved."""
    with _opened(path) as (_, members):
        return OWN in members


def write_npz(path: Path, cube: SpectralCube, dtype: DType, progress: Progress) -> None:
    """Save *cube* uncompressed, so that a large one can be mapped."""
    data, rest = by_bands(cube.data, progress)
    with zipfile.ZipFile(path, "w") as archive:
        # zipfile must know beforehand that a member may exceed 2 GiB.
        with archive.open(zipfile.ZipInfo("cube.npy"), "w", force_zip64=True) as file:
            npy.write_array_header_1_0(file, _header(cube, dtype))
            crc = write_blocks(data, dtype, rest, lambda _, block: file.write(block.data))
        if cube.has_wavelengths:
            _add(archive, "wavelengths", cube.wavelengths)
        _add(archive, OWN, np.array(json.dumps(record_of(cube))))
        archive.comment = seal_of(cube, dtype, crc)


def read_npz(
    path: Path,
    *,
    answers: Answers = NO_ANSWERS,
    verify: bool | None = None,
) -> SpectralCube:
    """The cube in the archive at *path*.

    Parameters
    ----------
    answers
        The name of the cube among several arrays of three axes, and the axis of the bands, 0 or -1,
        or the number of wavelengths.
    verify
        Compare the numbers with our checksum; by default unless they are `Lazy`.

    Raises
    ------
    CubeFileError
        If the archive is damaged or too large when decompressed, or if none or several of its
        arrays may be the cube.
    """
    with _opened(path) as (archive, members):
        size = path.stat().st_size
        arrays = {
            key: StoredArray(
                member.shape, member.dtype, size, partial(_numbers, path, archive, member)
            )
            for key, member in members.items()
            if member.dtype.kind in "biufc"
        }
        name, seal = cube_name(path.name, arrays, answers.variable), archive.comment
        data = arrays[name].read()
        if seal and OWN in members and name == "cube":
            record = _record_text(path, archive, members[OWN])
            texts = SealedTexts(seal, record)
            return sealed_cube(path.name, in_native_order(data), texts, verify)
        found = find_cube(path.name, arrays, answers._replace(variable=name))
        # A record without its seal, or a seal without its record, means an edited copy of our file.
        if OWN in members or b'"crc32"' in seal:
            found.warnings.append(CHANGED)
        cube = in_native_order(np.moveaxis(data, found.axis, 0))
        description = Description(found.wavelengths, found.unit, fields=with_tuples(found.fields))
        return described_cube(cube, description, found.warnings)


def read_arrays(path: Path) -> dict[str, Array]:
    """All arrays of numbers or text in the archive at *path*, by name.

    Raises
    ------
    CubeFileError
        If the archive is damaged, holds other arrays, or declares more than the file can hold.
    OutOfMemory
        If they do not fit into memory.
    """
    with _opened(path) as (archive, members):
        for member in members.values():
            _check_size(path, member)
        check_room(path.name, sum(member.nbytes for member in members.values()))
        return {name: _numbers(path, archive, member) for name, member in members.items()}


def _add(archive: zipfile.ZipFile, name: str, values: Array) -> None:
    with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w") as file:
        npy.write_array(file, values, allow_pickle=False)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[zipfile.ZipFile, Mapping[str, _Member]]]:
    """The open archive and its arrays by name; damage becomes a `CubeFileError`."""
    # zipfile, zlib and numpy raise six unrelated errors about damaged files.
    with complete(path.name, "NPZ file"):
        check_regular(path)
        with zipfile.ZipFile(path) as archive:
            arrays = (info for info in archive.infolist() if info.filename.endswith(".npy"))
            chosen = islice(arrays, _MOST_MEMBERS)
            yield (
                archive,
                {info.filename.removesuffix(".npy"): _member(archive, info) for info in chosen},
            )


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> _Member:
    """The array described in the header of the member *info*; `ValueError` without one."""
    with archive.open(info) as file:
        major, _ = npy.read_magic(file)
        # An NPY 2.0 header may exceed 64 KiB, so its length takes more bytes.
        read_header = npy.read_array_header_1_0 if major == 1 else npy.read_array_header_2_0
        return _Member(info, *read_header(file), file.tell())


def _numbers(path: Path, archive: zipfile.ZipFile, member: _Member) -> Array:
    """The array of *member*: in memory, or mapped if it is large and uncompressed."""
    _check_size(path, member)
    if member.is_stored and is_large(member.nbytes):
        return _mapped(path, member)
    check_room(path.name, member.nbytes)
    with archive.open(member.info) as file:
        values: Array = npy.read_array(file, allow_pickle=False)
        # zipfile verifies the checksum only on a read past the end of the member.
        file.read(1)
    return values


def _check_size(path: Path, member: _Member) -> None:
    """Refuse an array that the file cannot hold, before any allocation."""
    # The sizes declared in a zip file may be wrong, unlike the size of the file itself.
    if member.dtype.hasobject:
        raise mismatch(path.name, "numbers or text", "Python objects", "Get another file.")
    size = path.stat().st_size
    most = size if member.is_stored else size * DEFLATE_RATIO
    if member.nbytes > most or min(member.shape, default=0) < 0:
        raise too_large(path.name, most, member.nbytes)
    left = member.info.file_size - member.start
    if left != member.nbytes:
        expected = f"{member.nbytes} bytes of numbers"
        raise mismatch(path.name, expected, str(left), "Get the file again.")


def _mapped(path: Path, member: _Member) -> Array:
    """A memory map of the numbers, which start after the member's local header.

    The lengths in the local header count, and may differ from those in the directory (APPNOTE 4.3.7
    and 4.3.12).
    """
    with path.open("rb") as file:
        file.seek(member.info.header_offset + 26)
        name_length, extra_length = struct.unpack("<HH", file.read(4))
    offset = member.info.header_offset + 30 + name_length + extra_length + member.start
    order: Literal["F", "C"] = "F" if member.is_fortran else "C"
    return np.memmap(path, member.dtype, "r", offset, member.shape, order)


def _record_text(path: Path, archive: zipfile.ZipFile, member: _Member) -> str:
    if member.dtype.kind != "U" or member.shape or member.nbytes > SMALL_BYTES:
        raise mismatch(path.name, f"text in '{OWN}'", f"{member.dtype}", "Get the file again.")
    return str(_numbers(path, archive, member)[()])


def is_npy(path: Path) -> bool:
    """True if *path* begins as a `.npy` file."""
    with path.open("rb") as file:
        return file.read(len(npy.MAGIC_PREFIX)) == npy.MAGIC_PREFIX


def read_npy(
    path: Path, *, band_axis: int | None = None, bands: int = 0, verify: bool | None = None
) -> SpectralCube:
    """The cube in the array at *path*, with numbered bands unless we saved it; see `read_cube`.

    Raises
    ------
    CubeFileError
        If the file is damaged, or is not an array of numbers with three axes.
    ChoiceNeeded
        If the axis of the bands is unclear.
    """
    data = mapped_array(path)
    text = _text_after(path, data)
    if text and band_axis is None and not bands:
        with complete(path.name, "NPY file"):
            seal, cube = json.loads(text)["seal"], in_native_order(_held(path, data))
            return sealed_cube(path.name, cube, SealedTexts(seal, text), verify)
    axis, doubts = band_axis_of(data.shape, bands, band_axis)
    cube = in_native_order(np.moveaxis(_held(path, data), axis, 0))
    return described_cube(cube, Description(), doubts)


def _held(path: Path, data: Array) -> Array:
    """The numbers of a mapped array, read into memory unless there are too many."""
    if is_large(data.nbytes):
        return data
    check_room(path.name, data.nbytes)
    return np.array(data)


def _text_after(path: Path, data: Any) -> str:
    """Our record with its seal, which follows the numbers in a file of ours; else ""."""
    with path.open("rb") as file:
        file.seek(data.offset + data.nbytes)
        if file.read(len(npy.MAGIC_PREFIX)) != npy.MAGIC_PREFIX:
            return ""
        file.seek(-len(npy.MAGIC_PREFIX), os.SEEK_CUR)
        with complete(path.name, "NPY file"):
            npy.read_magic(file)
            shape, _, dtype = npy.read_array_header_1_0(file)
            if shape or dtype.kind != "U" or dtype.itemsize > SMALL_BYTES:
                return ""
            text = str(np.frombuffer(file.read(dtype.itemsize), dtype)[0])
    return text if f'"{OWN}"' in text and '"seal"' in text else ""


def write_npy(path: Path, cube: SpectralCube, dtype: DType, progress: Progress) -> None:
    """Save *cube* as one array (B, H, W), followed by our record as a second array.

    `np.load` returns the first array; reading on returns the second.
    """
    with path.open("wb") as file:
        npy.write_array_header_1_0(file, _header(cube, dtype))
        crc = write_planes(file, cube.data, dtype, progress)
        file.seek(0, os.SEEK_END)
        record = record_of(cube) | {"seal": seal_of(cube, dtype, crc).decode()}
        npy.write_array(file, np.array(json.dumps(record)))


def _header(cube: SpectralCube, dtype: DType) -> dict[str, Any]:
    return {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": cube.shape}


def mapped_array(path: Path) -> Array:
    """The stored array at *path*, with three axes, mapped into memory but not read.

    Raises
    ------
    CubeFileError
        If the file is damaged, or is not an array of numbers with three axes.
    """
    # numpy and the parser of the header raise five unrelated errors about damaged files.
    with complete(path.name, "NPY file"):
        data: Array = np.load(os.fspath(path), mmap_mode="r", allow_pickle=False)
    if data.ndim != 3 or data.dtype.kind not in "biufc" or 0 in data.shape:
        fault = f"{data.dtype} of shape {data.shape}"
        raise mismatch(path.name, "numbers of three axes", fault, "Save the cube as one array.")
    return data
