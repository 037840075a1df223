"""The process that opens MAT-files: `python -m napari_mst.formats.matlab.process`, run by `matlab.read_matlab`.

scipy and the HDF5 library crash on some damaged files and allocate what a file asks for. Here that costs nobody
anything: this process has limits, and its parent sees the crash. It writes one line of JSON to standard output and,
where that has no `error` and no `offset`, the numbers band by band. Letters: B bands, H rows, W columns.
"""

import itertools
import json
import math
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from napari_mst.errors import ChoiceNeeded, CubeFileError, OutOfMemory
from napari_mst.formats.arrays import (
    axis_doubts,
    band_axis_of,
    cube_name,
    wavelengths_name,
    wavelengths_of,
)
from napari_mst.formats.record import CHANGED, OWN
from napari_mst.messages import mismatch, shown

HDF5_MARK = b"\x89HDF\r\n\x1a\n"
SEAL = "napari_mst_seal"
"""The HDF5 attribute of `cube` that holds our seal; MATLAB does not copy attributes that it does not know.

Its length is fixed: where one is not, the library looks for the text in a heap, and in a damaged one for ever.
"""
_PUBLISHED = ("cube", "rad")
"""How the NTIRE, ARAD and ICVL data sets name their cubes, and the published toolbox its results: bands come last."""
_BYTES = {
    "double": 8,
    "single": 4,
    "int64": 8,
    "uint64": 8,
    "int32": 4,
    "uint32": 4,
    "int16": 2,
    "uint16": 2,
}
_CLASSES = {**_BYTES, "int8": 1, "uint8": 1, "logical": 1}
_RATIO = 1040
"""No deflate stream grows by more than 1032 times (RFC 1951)."""
_HEADER_BYTES, _COMPRESSED, _CHUNK_BYTES = 128, 15, 2**15
_SMALL_BYTES = 64 * 2**20
_ROOM_BYTES = 768 * 2**20
_TEXT_BYTES = 64 * 2**20
_NO_MEMORY = re.compile(
    "(?i)unable to allocate|memory allocation failed|cannot allocate memory|out of memory"
)
"""How libraries say that they got no memory, where they raise other types than `MemoryError`."""


@dataclass(frozen=True)
class _Array:
    """One array of a MAT-file, its shape in MATLAB's order; *read* gives its numbers in that order."""

    shape: tuple[int, ...]
    itemsize: int
    stored_bytes: int
    read: Callable[[], NDArray[Any]]
    offset: int | None = None
    """Where its numbers begin in the file, in column-major order and native byte order; None if they are in pieces."""
    dtype: str = ""
    check: Callable[[], list[str]] = list
    """Raises `CubeFileError` if parts of it are lost; what to say of parts that were perhaps never written."""

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.itemsize


@dataclass(frozen=True)
class _Request:
    """What `matlab.read_matlab` was asked for, and its limits in bytes: as `main`."""

    variable: str | None
    band_axis: int | None
    limit: int
    lazy: int


def main(path: Path, variable: str | None, band_axis: int | None, limit: int, lazy: int) -> None:
    """Describe and send the cube in the file at *path*: at most *limit* bytes, and none above *lazy* in place."""
    try:
        with path.open("rb") as file:
            head = file.read(520)
        arrays, texts = (
            _hdf5(path, head) if HDF5_MARK in (head[:8], head[512:]) else (_version_5(path), {})
        )
        told, send = _answer(path, arrays, texts, _Request(variable, band_axis, limit, lazy))
    except ChoiceNeeded as error:
        told, send = (
            {"error": str(error), "option": error.option, "choices": list(error.choices.items())},
            iter(()),
        )
    except OutOfMemory as error:
        told, send = {"error": str(error), "is_out_of_memory": True}, iter(())
    except CubeFileError as error:
        told, send = {"error": str(error)}, iter(())
    except Exception as error:  # noqa: BLE001 (h5py and scipy let any type escape from a damaged file)
        told, send = _failure(path, error, limit), iter(())
    out = sys.stdout.buffer
    out.write(json.dumps(told).encode() + b"\n")
    for plane in send:
        out.write(plane.data)
    out.flush()


def limit_memory(room: int) -> None:
    """Let this process have *room* more bytes of memory, where the system has such limits.

    Windows has none; macOS has them, and refuses to set them (ValueError, https://github.com/python/cpython/issues/78783).
    """
    with suppress(ImportError, ValueError):
        import resource

        import psutil

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        wanted = psutil.Process().memory_info().vms + room
        resource.setrlimit(
            resource.RLIMIT_AS,
            (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard),
        )


def _failure(path: Path, error: Exception, limit: int) -> dict[str, Any]:
    """What to tell of an *error* about the file: that it is damaged, asks for too much, or that memory is short."""
    is_refused = isinstance(error, MemoryError) or _NO_MEMORY.search(str(error)) is not None
    if not is_refused:
        return {"error": str(_damaged(path, error))}
    if is_limited_from_outside():
        return {"error": str(error), "is_out_of_memory": True}
    return {"error": str(_too_large(path, limit, "more"))}


def is_limited_from_outside() -> bool:
    """Whether this process has all the memory that it may have, so that it is the machine that has no more.

    Else it is `limit_memory` that refused what a file asked for beyond its own size.
    """
    with suppress(ImportError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        return hard == soft
    return True


def _answer(
    path: Path, arrays: Mapping[str, _Array], texts: Mapping[str, str], request: _Request
) -> tuple[dict[str, Any], Iterator[NDArray[Any]]]:
    """What to tell about the cube, and its planes (none if the parent can map them)."""
    shapes = {key: array.shape for key, array in arrays.items()}
    name = cube_name(path.name, shapes, request.variable)
    array = arrays[name]
    told = _sealed(arrays, texts) if name == "cube" and SEAL in texts else _described(arrays, name)
    told["warnings"] += [CHANGED] * (OWN in texts and SEAL not in texts)
    count = len(told["wavelengths"])
    band_axis = request.band_axis
    if name in _PUBLISHED and band_axis is None and count in (0, array.shape[-1]):
        band_axis = -1
    axis = band_axis_of(array.shape, count, band_axis)
    told["warnings"] += axis_doubts(array.shape, axis, count, band_axis)
    if array.offset is not None and array.nbytes > request.lazy:
        return told | {
            "offset": array.offset,
            "shape": array.shape,
            "axis": axis,
            "dtype": array.dtype,
        }, iter(())
    _check_size(path, array, request.limit)
    told["warnings"] += array.check()
    limit_memory(3 * array.nbytes + _ROOM_BYTES)
    cube = np.moveaxis(array.read(), axis, 0)
    dtype = cube.dtype.newbyteorder("=")
    planes = (np.ascontiguousarray(plane, dtype) for plane in cube)
    return told | {"shape": cube.shape, "dtype": dtype.str}, planes


def _sealed(arrays: Mapping[str, _Array], texts: Mapping[str, str]) -> dict[str, Any]:
    """Our texts, and the wavelengths that other programs find beside them."""
    bands = arrays.get("bands")
    values = (
        np.ravel(bands.read()).tolist() if bands is not None and bands.nbytes <= _TEXT_BYTES else []
    )
    return {**texts, "bands": values, "wavelengths": [], "warnings": []}


def _described(arrays: Mapping[str, _Array], name: str) -> dict[str, Any]:
    """The wavelengths of the array *name* as text, their unit, and what had to be assumed."""
    shape = arrays[name].shape
    key = wavelengths_name({k: array.shape for k, array in arrays.items() if k != name}, shape)
    if key is None or arrays[key].nbytes > _TEXT_BYTES:
        return {"wavelengths": [], "unit": "", "warnings": []}
    doubts = arrays[key].check()
    wavelengths, unit, warnings = wavelengths_of(key, arrays[key].read())
    return {"wavelengths": wavelengths, "unit": unit, "warnings": [*doubts, *warnings]}


def _check_size(path: Path, array: _Array, limit: int) -> None:
    most = max(_SMALL_BYTES, array.stored_bytes * _RATIO)
    if array.nbytes > most:
        raise _too_large(path, most, str(array.nbytes))
    if array.nbytes > limit:
        raise OutOfMemory(f"{array.nbytes} bytes of numbers, and {limit} of free memory")


def _too_large(path: Path, most: int, declared: str) -> CubeFileError:
    advice = "The file is incomplete, or not what it says."
    return mismatch(path.name, f"at most {most} bytes of numbers", f"{declared} declared", advice)


def _damaged(path: Path, error: Exception) -> CubeFileError:
    return mismatch(
        path.name,
        "a complete MAT-file",
        shown(str(error) or type(error).__name__, 80),
        "Get the file again.",
    )


def _check_version_5(path: Path) -> None:
    """Inflate every compressed element to its end, where zlib compares its checksum: scipy stops before it.

    MathWorks, "MAT-File Format": a file of version 4 begins with four bytes of which one is zero, and has no such
    elements. Raises `zlib.error` and `EOFError`.
    """
    with path.open("rb") as file:
        head = file.read(_HEADER_BYTES)
        order: Literal["little", "big"] = "little" if head[-2:] == b"IM" else "big"
        while 0 not in head[:4] and (tag := file.read(8)):
            left, stream = int.from_bytes(tag[4:], order), zlib.decompressobj()
            is_compressed = int.from_bytes(tag[:4], order) == _COMPRESSED
            while is_compressed and not stream.eof:
                part = file.read(min(left, _CHUNK_BYTES))
                if not part:
                    raise EOFError("a compressed element that ends early")
                left -= len(part)
                stream.decompress(part)
            file.seek(left, os.SEEK_CUR)


def _version_5(path: Path) -> dict[str, _Array]:
    """The arrays of numbers in a MAT-file of version 5 or before."""
    from scipy.io import loadmat, whosmat

    limit_memory(_ROOM_BYTES)

    def read(name: str) -> NDArray[Any]:
        _check_version_5(path)
        return np.asarray(loadmat(path, variable_names=[name])[name])

    found = path.stat().st_size
    return {
        name: _Array(tuple(map(int, shape)), _CLASSES[kind], found, partial(read, name))
        for name, shape, kind in whosmat(path)
        if kind in _CLASSES
    }


def _hdf5(path: Path, head: bytes) -> tuple[dict[str, _Array], dict[str, str]]:
    """The arrays of numbers in a MAT-file of version 7.3, and our texts in it; MATLAB stores the axes reversed."""
    import h5py

    limit_memory(_ROOM_BYTES)
    file = h5py.File(path, "r")
    _check_links(path, file)
    is_matlab = head[:6] == b"MATLAB"
    arrays: dict[str, _Array] = {}

    def add(name: str, item: Any) -> None:
        if not isinstance(item, h5py.Dataset):
            return
        _check_place(path, name, item)
        is_number = item.dtype.kind in "biuf" and item.shape is not None
        if is_number and not name.startswith("#") and item.attrs.get("MATLAB_class") != b"char":
            arrays[name] = _hdf5_array(path, item, is_matlab)

    file.visititems(add)
    return arrays, _hdf5_texts(path, file)


def _hdf5_texts(path: Path, file: Any) -> dict[str, str]:
    """Our record and its seal, where they are in the *file*."""
    texts = {}
    if OWN in file:
        if file[OWN].nbytes > _TEXT_BYTES:
            raise _too_large(path, _TEXT_BYTES, str(file[OWN].nbytes))
        codes = np.ravel(file[OWN][()]).astype("<u2")
        texts[OWN] = codes.tobytes().decode("utf-16-le", "replace")
    if "cube" in file and SEAL in file["cube"].attrs:
        texts[SEAL] = bytes(file["cube"].attrs[SEAL]).decode("ascii", "replace")
    return texts


def _check_links(path: Path, file: Any) -> None:
    """Refuse a *file* that has links into other files: it could show any file of the user as a cube."""
    from h5py import h5l

    def other(name: bytes, link: Any) -> bytes | None:
        return None if link.type in (h5l.TYPE_HARD, h5l.TYPE_SOFT) else name

    found = file.id.links.visit(other, info=True)
    if found is not None:
        raise _elsewhere(path, found.decode("utf-8", "replace"))


def _check_place(path: Path, name: str, item: Any) -> None:
    """Refuse an array whose numbers lie in other files, by name or as a virtual dataset."""
    from h5py import h5d

    plan = item.id.get_create_plist()
    if plan.get_layout() == h5d.VIRTUAL or plan.get_external_count():
        raise _elsewhere(path, name)


def _elsewhere(path: Path, name: str) -> CubeFileError:
    advice = "Copy its numbers into one file."
    return mismatch(
        path.name, "all numbers", f"'{shown(name, 30)}' that lies in another file", advice
    )


def _hdf5_array(path: Path, item: Any, is_matlab: bool) -> _Array:
    is_whole = item.chunks is None and item.id.get_offset() is not None
    shape = item.shape[::-1] if is_matlab else item.shape

    def read() -> NDArray[Any]:
        if item.chunks:
            limit_memory(
                3 * item.nbytes + math.prod(item.chunks) * item.dtype.itemsize + _ROOM_BYTES
            )
        return np.asarray(item[()].T if is_matlab else item[()])

    stored = item.id.get_storage_size()
    fits = is_whole and item.id.get_offset() + item.nbytes <= path.stat().st_size
    offset = item.id.get_offset() if fits and is_matlab else None
    check = partial(_check_stored, path, item)
    return _Array(tuple(shape), item.dtype.itemsize, stored, read, offset, item.dtype.str, check)


def _check_stored(path: Path, item: Any) -> list[str]:
    """Compare what is stored of an HDF5 dataset with its shape: the library gives a fill value for all that is not.

    Raises `CubeFileError` if nothing was ever written, or the index of its chunks is damaged.
    """
    if not item.id.get_storage_size():
        raise mismatch(
            path.name,
            "numbers",
            f"'{shown(item.name, 30)}' that was never written",
            "Get the file again.",
        )
    if item.chunks is None:
        return []
    count = math.prod(
        math.ceil(side / step) for side, step in zip(item.shape, item.chunks, strict=True)
    )
    found = item.id.get_num_chunks()
    if found < count:
        missing = (
            f"Of the {count} chunks of '{shown(item.name, 30)}' {count - found} are not in the file"
        )
        return [f"{missing}; the numbers there are its fill value, {shown(item.fillvalue, 20)}."]
    if found > count or not _is_index_whole(item):
        raise mismatch(
            path.name, f"an index of {count} chunks", "a damaged one", "Get the file again."
        )
    return []


def _is_index_whole(item: Any) -> bool:
    """Whether each chunk is found at its place, has a size that is possible, and shares its bytes with no other."""
    starts = (range(0, side, step) for side, step in zip(item.shape, item.chunks, strict=True))
    chunks = [item.id.get_chunk_info_by_coord(start) for start in itertools.product(*starts)]
    if any(chunk.byte_offset is None for chunk in chunks):
        return False
    nbytes = math.prod(item.chunks) * item.dtype.itemsize
    no_filter = 2 ** item.id.get_create_plist().get_nfilters() - 1
    places = sorted((chunk.byte_offset, chunk.byte_offset + chunk.size) for chunk in chunks)
    is_apart = all(end <= start for (_, end), (start, _) in itertools.pairwise(places))
    return is_apart and all(
        chunk.size == nbytes for chunk in chunks if chunk.filter_mask & no_filter == no_filter
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), *json.loads(sys.argv[2]))
