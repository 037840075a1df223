"""The arrays of a MAT-file before their numbers are read, and the errors about them.

Files of version 7.3, and other HDF5 files, are read by h5py. It returns a fill value for everything
that is missing in the file, and follows links into other files, so both are checked here before any
number is used. Files up to version 7 are read by scipy. Source: MathWorks, "MAT-File Level 5 File
Format".
"""

import io
import math
import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from napari_mst.base import sandbox
from napari_mst.base.arrays import Array, DType
from napari_mst.base.errors import CubeFileError, mismatch, shown
from napari_mst.formats.array_files import SMALL_BYTES, StoredArray, hyperspy_axes, kept_axes
from napari_mst.formats.cube_record import OWN
from napari_mst.formats.numbers import too_large

HDF5_MARK = b"\x89HDF\r\n\x1a\n"
USERBLOCK = 512
"""Bytes before the HDF5 file in a MAT-file of version 7.3."""
# The HDF5 attribute of `cube` with our seal. MATLAB does not copy unknown attributes. Its length is
# fixed: the library keeps text of variable length in a heap, and searches a damaged heap forever.
SEAL = "napari_mst_seal"
WRITER = "_NCProperties"
"""netCDF attribute with the program that wrote a file; no program copies it."""
ROOT = "root"
"""Key of the attributes of the whole HDF5 file, beside our texts."""
TEXTS = "texts"
"""Key of short texts stored as arrays of an HDF5 file, by words such as "map info"."""
CLASSES = {
    "u1": ("uint8", 9, 2),
    "i1": ("int8", 8, 1),
    "u2": ("uint16", 11, 4),
    "i2": ("int16", 10, 3),
    "u4": ("uint32", 13, 6),
    "i4": ("int32", 12, 5),
    "u8": ("uint64", 15, 13),
    "i8": ("int64", 14, 12),
    "f4": ("single", 7, 7),
    "f8": ("double", 6, 9),
}
"""MATLAB's names of number types, and the codes of their arrays and their data."""
_TYPES = {name: np.dtype(kind) for kind, (name, *_) in CLASSES.items()} | {
    "logical": np.dtype("u1")
}


_HEADER_BYTES = 128
_COMPRESSED = 15
_CHUNK_BYTES = 2**15


# Text, no subsystem data, the version, and the byte order.
VERSION_5_HEADER = b"MATLAB 5.0 MAT-file, Platform: napari-mst, and HDF5 7.3".ljust(116) + bytes(8)
VERSION_5_HEADER += b"\0\1IM"
"""First bytes of a file of ours that is of both versions."""
VERSION_73_HEADER = b"MATLAB 7.3 MAT-file, Platform: napari-mst, HDF5 schema 1.00 .".ljust(116)
VERSION_73_HEADER += bytes(8) + b"\0\2IM"
HDF5_PART = f"{OWN}_hdf5"
"""Version-5 variable that covers the HDF5 part of a file of ours."""


def add_version_5(
    file: Any, start: int, shape: tuple[int, ...], dtype: DType, others: Mapping[str, Any]
) -> None:
    """Make the HDF5 *file*, which ends with `cube` at *start*, a version-5 file as well.

    There is room before `cube` for its header. A variable of bytes covers the rest of the HDF5
    file, and *others* are appended.
    """
    from scipy.io import savemat

    nbytes = math.prod(shape) * dtype.itemsize
    cube = _element("cube", shape, dtype)
    before = start - len(cube) - _HEADER_BYTES
    cover = _element(HDF5_PART, (1, before - len(_element(HDF5_PART, (1, 0)))))
    appended = io.BytesIO()
    savemat(appended, dict(others))
    file.seek(0)
    file.write(VERSION_5_HEADER + cover)
    file.seek(start - len(cube))
    file.write(cube)
    file.seek(start + nbytes)
    file.write(bytes(-nbytes % 8) + appended.getvalue()[_HEADER_BYTES:])


def _element(name: str, shape: tuple[int, ...], dtype: DType = _TYPES["uint8"]) -> bytes:
    """The header of a version-5 array, which precedes its numbers ("MAT-File Level 5", 1-17)."""
    _, array_code, data_code = CLASSES[dtype.str[1:]]
    nbytes = math.prod(shape) * dtype.itemsize
    sides = struct.pack(f"<II{len(shape)}i", 5, 4 * len(shape), *shape)
    letters = struct.pack("<II", 1, len(name)) + name.encode()
    parts = (struct.pack("<IIII", 6, 8, array_code, 0), sides, letters)
    body = b"".join(part + bytes(-len(part) % 8) for part in parts)
    body += struct.pack("<II", data_code, nbytes)
    return struct.pack("<II", 14, len(body) + nbytes + -nbytes % 8) + body


def version_5_arrays(path: Path) -> tuple[dict[str, StoredArray], dict[str, str]]:
    """The arrays of numbers in the MAT-file at *path* by name, and our texts in it."""
    from scipy.io import loadmat, whosmat

    sandbox.limit_memory(sandbox.ROOM_BYTES)
    stored_bytes = path.stat().st_size
    arrays: dict[str, StoredArray] = {}
    for name, shape, kind in whosmat(path):
        if kind in _TYPES:
            read = partial(_read, path, name)
            sides = tuple(int(side) for side in shape)
            arrays[name] = StoredArray(sides, _TYPES[kind], stored_bytes, read, is_matlab=True)
        elif kind == "struct":
            # The fields of a struct are known only after reading all of it.
            sandbox.limit_memory(3 * stored_bytes + 4 * sandbox.ROOM_BYTES)
            arrays |= dict(_fields_of(name, _read(path, name), stored_bytes))
    found = loadmat(path, variable_names=[OWN])
    return arrays, {key: str(value) for key, value in found.items() if key == OWN}


def _read(path: Path, name: str) -> Array:
    from scipy.io import loadmat

    _check(path)
    return loadmat(path, variable_names=[name])[name]


def _fields_of(name: str, struct: Array, stored_bytes: int) -> Iterator[tuple[str, StoredArray]]:
    """The arrays of numbers in a MATLAB *struct* and in structs inside it, as `name/field`.

    Texts in the struct, such as the unit of wavelengths, become attributes of its arrays.
    """
    names = struct.dtype.names or ()
    values = {key: struct.flat[0][key] for key in names} if struct.size == 1 else {}
    values = {key: value for key, value in values.items() if isinstance(value, np.ndarray)}
    texts = {
        key: str(value.flat[0])
        for key, value in values.items()
        if value.dtype.kind == "U" and value.size == 1
    }
    for key, value in values.items():
        if value.dtype.names:
            yield from _fields_of(f"{name}/{key}", value, stored_bytes)
        elif value.dtype.kind in "biuf":
            numbers = value.view("u1") if value.dtype.kind == "b" else value
            yield (
                f"{name}/{key}",
                StoredArray(
                    tuple(map(int, numbers.shape)),
                    numbers.dtype,
                    stored_bytes,
                    partial(np.asarray, numbers),
                    is_matlab=True,
                    attributes=texts,
                ),
            )


def _check(path: Path) -> None:
    """Inflate every compressed element to its end, where zlib verifies its checksum.

    scipy stops at the last number, before the checksum, and would return damaged numbers. Raises
    `zlib.error` and `EOFError`.
    """
    with path.open("rb") as file:
        head = file.read(_HEADER_BYTES)
        # A version-4 file has a zero among its first four bytes, and no such elements.
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
    """Inflate an element of *left* bytes; return the number of its bytes after the stream."""
    stream = zlib.decompressobj()
    while not stream.eof:
        part = file.read(min(left, _CHUNK_BYTES))
        if not part:
            raise EOFError("a compressed element that ends early")
        left -= len(part)
        stream.decompress(part)
    return left


def hdf5_arrays(path: Path, head: bytes) -> tuple[dict[str, StoredArray], dict[str, Any]]:
    """The arrays of numbers in the file at *path* by name, and our texts in it.

    *head*, the first bytes of the file, shows whether MATLAB wrote it: MATLAB stores the axes in
    reverse order.
    """
    import h5py

    sandbox.limit_memory(sandbox.ROOM_BYTES)
    file = h5py.File(path, "r")
    _check_links(path, file)
    is_matlab = head.startswith(b"MATLAB")
    arrays: dict[str, StoredArray] = {}
    texts: dict[str, str] = {}

    def add(name: str, item: Any) -> None:
        if not isinstance(item, h5py.Dataset):
            return
        _check_place(path, name, item)
        if item.shape == () and item.dtype.kind in "SO" and item.nbytes < _CHUNK_BYTES:
            word = name.rpartition("/")[2].replace("_", " ").lower()
            texts[word] = str(_text(item[()]))
        # MATLAB stores the contents of cells under `#refs#`, and text as numbers of class `char`.
        is_internal = name.startswith("#") or item.attrs.get("MATLAB_class") == b"char"
        # netCDF stores a dimension without a coordinate as an array that is never written.
        is_internal |= str(_text(item.attrs.get("NAME", ""))).startswith(_NO_VARIABLE)
        # A grid mapping has only attributes; its number may be a letter.
        is_number = item.dtype.kind in "biuf" or (item.dtype.kind == "S" and item.shape == ())
        if is_number and item.shape is not None and not is_internal:
            arrays[name] = _array(path, item, is_matlab)

    file.visititems(add)
    return arrays, {**_texts(path, file), TEXTS: texts}


_NO_VARIABLE = "This is a netCDF dimension but not a netCDF variable"


# Filters in which the library detects damage: deflate, shuffle, Fletcher's checksum and LZF. Other
# decoders may crash on damaged data, so they run in a separate process.
_SAFE = {1, 2, 3, 32000}


def _array(path: Path, item: Any, is_matlab: bool) -> StoredArray:
    def read() -> Array:
        if item.chunks:
            # The library decompresses a whole chunk at a time, whatever size it declares.
            chunk = math.prod(item.chunks) * item.dtype.itemsize
            sandbox.limit_memory(3 * item.nbytes + chunk + sandbox.ROOM_BYTES)
        return item[()].T if is_matlab else item[()].reshape(shape)

    kept = range(item.ndim) if is_matlab else kept_axes(item.shape)
    shape = tuple(item.shape[at] for at in kept)
    # Chunked numbers have no single offset, and numbers beyond the end of the file have none.
    offset: int | None = item.id.get_offset() if item.chunks is None else None
    plan = item.id.get_create_plist()
    filters = {plan.get_filter(at)[0] for at in range(plan.get_nfilters())}
    is_whole = offset is not None and offset + item.nbytes <= path.stat().st_size
    axes, about = _axes(item)
    return StoredArray(
        shape=shape[::-1] if is_matlab else shape,
        dtype=item.dtype,
        stored_bytes=item.id.get_storage_size(),
        read=read,
        offset=offset if is_whole else None,
        order="F" if is_matlab else "C",
        is_chunked=item.chunks is not None and filters <= _SAFE and len(kept) == item.ndim,
        is_matlab=is_matlab,
        axes=tuple(axes[at] for at in kept) if axes else (),
        attributes=about | _attributes(item),
        check=partial(_check_stored, path, item),
    )


def _axes(item: Any) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The names of the axes of *item*, and HyperSpy's attributes of the spectral axis."""
    groups = [item.parent.get(f"axis-{at}") for at in range(item.ndim)]
    if item.ndim == 3 and all(hasattr(group, "attrs") for group in groups):
        return hyperspy_axes([_attributes(group) for group in groups])
    scales = [next(iter(axis.values()), None) for axis in item.dims]
    named = zip(item.dims, scales, strict=True)
    names = [scale.name if scale else axis.label for axis, scale in named]
    return tuple(name.rpartition("/")[2].lower() for name in names), {}


def _text(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _attributes(item: Any) -> dict[str, Any]:
    """The attributes of *item* that are texts, numbers or short lists, in JSON types."""
    found = {}
    for key, value in item.attrs.items():
        value = value.item() if isinstance(value, np.ndarray) and value.size == 1 else value
        is_list = isinstance(value, np.ndarray) and value.dtype.kind in "iuf" and value.size < 2**12
        value = value.tolist() if isinstance(value, np.generic) or is_list else value
        value = _text(value)
        if isinstance(value, str | int | float | list):
            found[key] = value
    return found


def _texts(path: Path, file: Any) -> dict[str, Any]:
    """Our record and its seal, if *file* has them, and the attributes of the file."""
    texts: dict[str, Any] = {ROOT: _attributes(file)}
    if OWN in file:
        if file[OWN].nbytes > SMALL_BYTES:
            raise too_large(path.name, SMALL_BYTES, file[OWN].nbytes)
        # MATLAB stores text as UTF-16.
        codes = np.ravel(file[OWN][()]).astype("<u2")
        texts[OWN] = codes.tobytes().decode("utf-16-le", "replace")
    if "cube" in file and SEAL in file["cube"].attrs:
        texts[SEAL] = bytes(file["cube"].attrs[SEAL]).decode("ascii", "replace")
    return texts


def _check_links(path: Path, file: Any) -> None:
    """Refuse a *file* with links into other files, which could expose any file of the user."""
    from h5py import h5l

    def other(name: bytes, link: Any) -> bytes | None:
        return None if link.type in (h5l.TYPE_HARD, h5l.TYPE_SOFT) else name

    target = file.id.links.visit(other, info=True)
    if target is not None:
        raise _elsewhere(path, target.decode("utf-8", "replace"))


def _check_place(path: Path, name: str, item: Any) -> None:
    """Refuse an array with numbers in other files, by external storage or as virtual dataset."""
    from h5py import h5d

    plan = item.id.get_create_plist()
    if plan.get_layout() == h5d.VIRTUAL or plan.get_external_count():
        raise _elsewhere(path, name)


def _elsewhere(path: Path, name: str) -> CubeFileError:
    fault = f"'{shown(name, 30)}' that lies in another file"
    return mismatch(path.name, "all numbers", fault, "Copy its numbers into one file.")


def _table(item: Any) -> Array:
    """Offset, size and filter mask of each chunk in HDF5's order; 0 for a missing chunk."""
    grid = [math.ceil(side / step) for side, step in zip(item.shape, item.chunks, strict=True)]
    table = np.zeros((*grid, 3), np.int64)

    def put(chunk: Any) -> None:
        at = tuple(np.floor_divide(chunk.chunk_offset, item.chunks).tolist())
        # A damaged index may list chunks outside the array.
        if np.less(at, grid).all():
            table[at] = chunk.byte_offset, chunk.size, chunk.filter_mask

    item.id.chunk_iter(put)
    return table.reshape(-1, 3)


def _check_stored(path: Path, item: Any) -> list[str]:
    """Compare the stored chunks of a dataset with its shape, and warn about missing chunks.

    Raises `CubeFileError` if nothing was ever written, or the index of its chunks is damaged.
    """
    name = shown(item.name, 30)
    if not item.id.get_storage_size():
        fault = f"'{name}' that was never written"
        raise mismatch(path.name, "numbers", fault, "Get the file again.")
    if item.chunks is None:
        return []
    table = _table(item)
    stored, count = item.id.get_num_chunks(), len(table)
    if stored != np.count_nonzero(table[:, 1]) or not _is_whole(item, table):
        expected = f"an index of {count} chunks"
        raise mismatch(path.name, expected, "a damaged one", "Get the file again.")
    if stored == count:
        return []
    fill = shown(item.fillvalue, 20)
    missing = f"Of the {count} chunks of '{name}' {count - stored} are not in the file"
    return [f"{missing}; the numbers there are its fill value, {fill}."]


def _is_whole(item: Any, table: Array) -> bool:
    """True if no chunks in *table* overlap, and unfiltered chunks have the right size."""
    places = table[table[:, 0].argsort()]
    ends = places[:, 0] + places[:, 1]
    if (ends[:-1] > places[1:, 0]).any():
        return False
    # A bit of the mask marks a skipped filter. A chunk without any filter has exactly the bytes of
    # its numbers.
    no_filter = 2 ** item.id.get_create_plist().get_nfilters() - 1
    is_plain = (table[:, 1] > 0) & (table[:, 2] & no_filter == no_filter)
    nbytes = math.prod(item.chunks) * item.dtype.itemsize
    return bool((table[is_plain, 1] == nbytes).all())
