"""Opening MAT-files in a process of its own, which `reading` asks for.

`answer` gives a description of the cube and, where that has no `offset`, the numbers band by band.
Letters: B bands, H rows, W columns.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from napari_mst.errors import NapariMstError, OutOfMemory
from napari_mst.formats.arrays import (
    axis_doubts,
    band_axis_of,
    cube_name,
    wavelengths_name,
    wavelengths_of,
)
from napari_mst.formats.matlab.hdf5 import hdf5_arrays
from napari_mst.formats.matlab.stored import (
    HDF5_MARK,
    SEAL,
    TEXT_BYTES,
    USERBLOCK,
    StoredArray,
    too_large,
)
from napari_mst.formats.matlab.version_5 import version_5_arrays
from napari_mst.formats.numbers import DEFLATE_RATIO
from napari_mst.formats.record import OWN
from napari_mst.formats.seal import CHANGED
from napari_mst.isolation import Answer, limits
from napari_mst.isolation.limits import ROOM_BYTES
from napari_mst.messages import mismatch, shown

_PUBLISHED = ("cube", "rad")
"""Names of cubes in the NTIRE, ARAD and ICVL data sets and of the published toolbox's results.

Their bands come last.
"""
_SMALL_BYTES = 64 * 2**20
# How libraries say that they got no memory, where they raise other types than `MemoryError`.
_NO_MEMORY = re.compile(
    "(?i)unable to allocate|memory allocation failed|cannot allocate memory|out of memory"
)


class _Request(NamedTuple):
    """The options of `read_matlab`, and its limits: bytes that may be read, and those in place."""

    variable: str | None
    band_axis: int | None
    limit: int
    lazy: int


@dataclass(frozen=True)
class _File:
    """A MAT-file: its arrays of numbers, and our texts in it."""

    path: Path
    arrays: Mapping[str, StoredArray]
    texts: Mapping[str, str]


def answer(path: Path, *options: Any) -> Answer:
    """The description of the cube at *path*, and its planes; none if the parent can map them."""
    request = _Request(*options)
    try:
        return _answer(_opened(path), request)
    except NapariMstError:
        raise
    # h5py and scipy let any type escape from a damaged file.
    except Exception as error:
        raise _failure(path, error, request.limit) from error


def _opened(path: Path) -> _File:
    with path.open("rb") as file:
        head = file.read(USERBLOCK + len(HDF5_MARK))
    # MATLAB puts the HDF5 file after a header of its own; other programs begin with it.
    if HDF5_MARK in (head[: len(HDF5_MARK)], head[USERBLOCK:]):
        return _File(path, *hdf5_arrays(path, head))
    return _File(path, version_5_arrays(path), {})


def _failure(path: Path, error: Exception, limit: int) -> Exception:
    """The error to raise: the file is damaged, asks for too much, or memory is short."""
    is_refused = isinstance(error, MemoryError) or _NO_MEMORY.search(str(error)) is not None
    if not is_refused:
        found = shown(str(error) or type(error).__name__, 80)
        return mismatch(path.name, "a complete MAT-file", found, "Get the file again.")
    # A damaged file may ask for any amount: one that gets what an intact one takes is not short.
    needed = 3 * _SMALL_BYTES + path.stat().st_size
    if limits.is_limited_from_outside() and not limits.has_room(needed):
        return OutOfMemory(str(error))
    return too_large(path, limit, "more")


def _answer(file: _File, request: _Request) -> Answer:
    shapes = {key: array.shape for key, array in file.arrays.items()}
    name = cube_name(file.path.name, shapes, request.variable)
    array = file.arrays[name]
    told = _sealed(file) if name == "cube" and SEAL in file.texts else _described(file, name)
    if OWN in file.texts and SEAL not in file.texts:
        told["warnings"].append(CHANGED)
    count = len(told["wavelengths"])
    wanted = request.band_axis
    if name in _PUBLISHED and wanted is None and count in (0, array.shape[-1]):
        wanted = -1
    axis = band_axis_of(array.shape, count, wanted)
    told["warnings"] += axis_doubts(array.shape, axis, count, wanted)
    if array.offset is not None and array.nbytes > request.lazy:
        place = {
            "offset": array.offset,
            "shape": array.shape,
            "axis": axis,
            "dtype": array.dtype,
        }
        return told | place, ()
    cube = np.moveaxis(_numbers(file.path, array, request.limit, told["warnings"]), axis, 0)
    dtype = cube.dtype.newbyteorder("=")
    planes = (np.ascontiguousarray(plane, dtype) for plane in cube)
    return told | {"shape": cube.shape, "dtype": dtype.str}, planes


def _numbers(path: Path, array: StoredArray, limit: int, warnings: list[str]) -> NDArray[Any]:
    """The numbers of an *array*, never more than its file can hold; *warnings* are added to."""
    most = max(_SMALL_BYTES, array.stored_bytes * DEFLATE_RATIO)
    if array.nbytes > most:
        raise too_large(path, most, str(array.nbytes))
    if array.nbytes > limit:
        raise OutOfMemory(f"{array.nbytes} bytes of numbers, and {limit} of free memory")
    warnings += array.check()
    limits.limit_memory(3 * array.nbytes + ROOM_BYTES)
    return array.read()


def _sealed(file: _File) -> dict[str, Any]:
    """Our texts, and the wavelengths that other programs find beside them."""
    # The seal covers `bands` too, so it is read although the record has the wavelengths.
    bands = file.arrays.get("bands")
    values: list[float] = []
    if bands is not None and bands.nbytes <= TEXT_BYTES:
        values = np.ravel(bands.read()).tolist()
    return {**file.texts, "bands": values, "wavelengths": [], "warnings": []}


def _described(file: _File, name: str) -> dict[str, Any]:
    """The wavelengths of the array *name* as text, their unit, and warnings."""
    others = {key: array.shape for key, array in file.arrays.items() if key != name}
    key = wavelengths_name(others, file.arrays[name].shape)
    if key is None or file.arrays[key].nbytes > TEXT_BYTES:
        return {"wavelengths": [], "unit": "", "warnings": []}
    doubts = file.arrays[key].check()
    wavelengths, unit, warnings = wavelengths_of(key, file.arrays[key].read())
    return {"wavelengths": wavelengths, "unit": unit, "warnings": [*doubts, *warnings]}
