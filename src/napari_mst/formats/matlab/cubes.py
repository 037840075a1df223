"""MAT-files: read in a process of their own, written as the published MST++ toolbox does.

The libraries that read them crash on damaged ones. `answer` runs in that process. It gives a
description of the cube and, where that has no `offset`, the numbers band by band.
Letters: B bands, H rows, W columns.
"""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from napari_mst import isolation
from napari_mst.arrays import Array, Doubles, DType
from napari_mst.cube import SpectralCube
from napari_mst.cube.curves import power_of
from napari_mst.cube.georeference import COUNTS, FIELD, Georeference
from napari_mst.cube.labelled import SPECTRAL_NAMES
from napari_mst.cube.lazy import Numbers, check_room
from napari_mst.errors import NapariMstError, OutOfMemory, mismatch, shown
from napari_mst.formats import numbers
from napari_mst.formats.arrays import (
    band_axis_of,
    cube_name,
    key_of,
    wavelengths_of,
)
from napari_mst.formats.in_files import in_hdf5
from napari_mst.formats.matlab.stored import (
    CLASSES,
    HDF5_MARK,
    ROOT,
    SEAL,
    TEXT_BYTES,
    USERBLOCK,
    StoredArray,
    hdf5_arrays,
    version_5_arrays,
    version_5_header,
)
from napari_mst.formats.numbers import DEFLATE_RATIO, too_large, write_blocks
from napari_mst.formats.record import (
    CHANGED,
    OWN,
    Description,
    described_cube,
    record_of,
    seal_of,
    sealed_cube,
)
from napari_mst.isolation import Answer
from napari_mst.memory import free_host_memory
from napari_mst.watch import Watch

_LEVEL_5_MARKS = (b"\0\1IM", b"\1\0MI", b"\0\2IM", b"\2\0MI")


def is_matlab(path: Path) -> bool:
    """True if *path* begins as a MAT-file of version 5 to 7.3, or is an HDF5 file called `.mat`."""
    with path.open("rb") as file:
        head = file.read(128)
    if head[124:128] in _LEVEL_5_MARKS:
        return True
    return head.startswith(HDF5_MARK) and path.suffix.lower() == ".mat"


def read_matlab(
    path: Path,
    *,
    variable: str | None = None,
    band_axis: int | None = None,
    verify: bool | None = None,
) -> SpectralCube:
    """The cube in the MAT-file at *path*, with rows and columns as MATLAB shows them.

    The options are those of `read_npz`: a *variable* in a structure is `group/name`, and
    *band_axis* counts as MATLAB does.

    Raises
    ------
    CubeFileError
        If the file is damaged, even where that crashes its reader or never ends; if it is too
        large when decompressed, or has no array, or several, that may be the cube.
    """
    facts, data = stored_cube(path, "a MAT-file", variable, band_axis)
    if SEAL in facts:
        others = bands_description(facts["bands"])
        return sealed_cube(path.name, data, facts[SEAL], facts.get(OWN, ""), others, verify)
    described = Description(facts["wavelengths"], facts["unit"], fields=facts["fields"])
    return described_cube(data, described, facts["warnings"])


def stored_cube(
    path: Path, kind: str, variable: str | None, band_axis: int | None
) -> tuple[dict[str, Any], Numbers]:
    """The facts that `answer` finds in another process, and the (B, H, W) numbers as stored.

    *kind* is that of the file, for the error about one that crashes the process.
    """
    options = [variable, band_axis, free_host_memory(math.inf), numbers.LAZY_BYTES]
    refusal = partial(mismatch, path.name, kind)
    data: Numbers
    facts, data = isolation.decoded(
        "napari_mst.formats.matlab.cubes:answer", path, options, refusal
    )
    if "is_chunked" in facts:
        axes = (2, 1, 0) if facts["order"] == "F" else (0, 1, 2)
        data = in_hdf5(path, facts["name"]).transpose(axes)
    return facts, numbers.in_native_order(np.moveaxis(data, facts.get("axis", 0), 0))


_PUBLISHED = ("cube", "rad")
"""Names of cubes in the NTIRE, ARAD and ICVL data sets and of the published toolbox's results.

Their bands come last.
"""
_OF_BANDS = {"fwhm": ("fwhm",), "bbl": ("bbl", "good_wavelengths")}
"""Fields of a cube that other arrays hold, one value for each band."""
_SMALL_BYTES = 64 * 2**20
# How libraries say that they got no memory, where they raise other types than `MemoryError`.
_NO_MEMORY = re.compile(
    "(?i)unable to allocate|memory allocation failed|cannot allocate memory|out of memory"
)


def answer(
    path: Path, variable: str | None, band_axis: int | None, limit: int, lazy: int
) -> Answer:
    """The description of the cube at *path*, and its planes; none if the parent can map them.

    Parameters
    ----------
    limit, lazy
        Bytes of numbers that may be read, and those that are read even where they can be mapped.
    """
    try:
        arrays, texts = _opened(path)
        shapes = {key: array.shape for key, array in arrays.items()}
        name = cube_name(path.name, shapes, variable)
        array = arrays[name]
        described, warnings = _description(arrays, texts, name)
        described |= {"name": name, "attributes": array.attributes, ROOT: texts.get(ROOT, {})}
        count = len(described.get("wavelengths", ()))
        ends = [at for at in (0, -1) if array.axes and array.axes[at] in SPECTRAL_NAMES]
        if not ends and name in _PUBLISHED and count in (0, array.shape[-1]):
            ends = [-1]
        if band_axis is None and len(ends) == 1:
            (band_axis,) = ends
        axis, doubts = band_axis_of(array.shape, count, band_axis)
        warnings += doubts
        described["warnings"] = warnings
        if place := _place(arrays, array, axis):
            described["fields"][FIELD] = place.to_json()
        if array.offset is not None and array.nbytes > lazy:
            described |= {"offset": array.offset, "shape": array.shape, "dtype": array.dtype.str}
            return described | {"axis": axis, "order": array.order}, ()
        _check_size(path, array)
        warnings += array.check()
        if array.is_chunked and array.nbytes > lazy:
            described |= {"is_chunked": True, "axis": axis, "order": array.order}
            return described | {"shape": (0,), "dtype": "u1"}, ()
        cube = np.moveaxis(_numbers(array, limit), axis, 0)
    except NapariMstError:
        raise
    # h5py and scipy let any type escape from a damaged file.
    except Exception as error:
        raise _failure(path, error, limit) from error
    dtype = cube.dtype.newbyteorder("=")
    planes = (np.ascontiguousarray(plane, dtype) for plane in cube)
    return described | {"shape": cube.shape, "dtype": dtype.str}, planes


def _opened(path: Path) -> tuple[Mapping[str, StoredArray], Mapping[str, Any]]:
    """The arrays of numbers in the file at *path*, and our texts in it."""
    with path.open("rb") as file:
        head = file.read(USERBLOCK + len(HDF5_MARK))
    # MATLAB puts the HDF5 file after a header of its own; other programs begin with it.
    if HDF5_MARK in (head[: len(HDF5_MARK)], head[USERBLOCK:]):
        return hdf5_arrays(path, head)
    return version_5_arrays(path, head)


def _description(
    arrays: Mapping[str, StoredArray], texts: Mapping[str, Any], name: str
) -> tuple[dict[str, Any], list[str]]:
    """Return the description in the file of its cube *name*, and warnings.

    That is our texts and the `bands` beside them, else wavelengths as text and their unit.
    """
    if name == "cube" and SEAL in texts:
        # The seal covers `bands` too, so it is read although the record has the wavelengths.
        bands = arrays.get("bands")
        values: list[float] = []
        if bands is not None and bands.nbytes <= TEXT_BYTES:
            values = np.ravel(bands.read()).tolist()
        return {**texts, "bands": values}, []
    warnings: list[str] = []

    def read(key: str) -> Array:
        warnings.extend(arrays[key].check())
        return arrays[key].read()

    small = {key: array.shape for key, array in arrays.items() if array.nbytes <= TEXT_BYTES}
    shapes = small | {name: arrays[name].shape}
    units = {key: str(each.attributes.get("units", "")) for key, each in arrays.items()}
    known = {key: unit for key, unit in units.items() if power_of(unit) is not None}
    wavelengths, unit, doubts = wavelengths_of(shapes, name, read, known)
    warnings += doubts
    if OWN in texts and SEAL not in texts:
        warnings.append(CHANGED)
    fields = {}
    for field, spellings in _OF_BANDS.items():
        key = key_of(shapes, name, spellings)
        if key is not None and math.prod(shapes[key]) == len(wavelengths):
            fields[field] = np.ravel(read(key)).tolist()
    return {"wavelengths": wavelengths, "unit": unit, "fields": fields}, warnings


def _place(arrays: Mapping[str, StoredArray], array: StoredArray, axis: int) -> Georeference | None:
    """The place of the image on earth, by the coordinates of its axes and its grid mapping (CF)."""
    words = {key.rpartition("/")[2].lower(): key for key in arrays}
    sides = [name for at, name in enumerate(array.axes) if at != axis % 3]
    found = [arrays[words[name]] for name in sides if name in words]
    if len(found) != 2 or any(len(each.shape) != 1 for each in found):
        return None
    if any(each.attributes.get("long_name") in COUNTS for each in found):
        return None
    y, x = (each.read() for each in found)
    # CF may name the coordinates behind the grid mapping.
    mapping = str(array.attributes.get("grid_mapping", "")).partition(":")[0].lower()
    about = arrays[words[mapping]].attributes if mapping in words else {}
    return Georeference.of_grid(x, y, about)


def _failure(path: Path, error: Exception, limit: int) -> Exception:
    """The error to raise: the file is damaged, asks for too much, or memory is short."""
    is_refused = isinstance(error, MemoryError) or _NO_MEMORY.search(str(error)) is not None
    if not is_refused:
        fault = shown(str(error) or type(error).__name__, 80)
        kind = "MAT-file" if path.suffix.lower() == ".mat" else "netCDF-4 or HDF5 file"
        return mismatch(path.name, f"a complete {kind}", fault, "Get the file again.")
    if isolation.is_limited_from_outside():
        return OutOfMemory(str(error))
    return too_large(path.name, limit, "more")


def _check_size(path: Path, array: StoredArray) -> None:
    """Refuse more numbers than the file can hold."""
    most = max(_SMALL_BYTES, array.stored_bytes * DEFLATE_RATIO)
    if array.nbytes > most:
        raise too_large(path.name, most, array.nbytes)


def _numbers(array: StoredArray, limit: int) -> Array:
    if array.nbytes > limit:
        raise OutOfMemory(f"{array.nbytes} bytes of numbers, and {limit} of free memory")
    isolation.limit_memory(3 * array.nbytes + isolation.ROOM_BYTES)
    return array.read()


# The 128 bytes by which MATLAB knows version 7.3: text, no subsystem data, version 0x0200, and the
# byte order.
_HEADER = (
    b"MATLAB 7.3 MAT-file, Platform: napari-mst, HDF5 schema 1.00 .".ljust(116)
    + bytes(8)
    + b"\0\2IM"
)
VERSION_5_BYTES = 2**31 - 2**16
"""Larger cubes are saved as version 7.3: MATLAB has no larger arrays in files of version 5."""


def write_matlab(path: Path, cube: SpectralCube, dtype: DType, watch: Watch) -> None:
    """Save *cube*: `cube` (H x W x B), `bands` (nm) and our record, uncompressed.

    As version 5, which every program reads, or as version 7.3 where it is too large for that.
    """
    wavelengths = cube.wavelengths[:, None] if cube.has_wavelengths else cube.wavelengths[:0]
    record = json.dumps(record_of(cube))

    def sealed_by(put: Callable[[tuple[slice, slice], Array], object]) -> bytes:
        """Give *put* the numbers, and return their seal."""
        crc = write_blocks(cube.data, dtype, watch, put)
        return seal_of(cube, dtype, crc, bands_description(wavelengths.ravel().tolist()))

    nbytes = cube.data.size * dtype.itemsize
    if nbytes >= VERSION_5_BYTES:
        _write_73(path, cube.shape, dtype, wavelengths, record, sealed_by)
        return
    from scipy.io import savemat

    # scipy makes a copy of all numbers.
    check_room(path.name, 2 * nbytes)
    whole = np.empty(cube.shape, dtype)
    seal = sealed_by(whole.__setitem__).decode()
    bands = {"bands": wavelengths} if wavelengths.size else {}
    arrays = {"cube": np.moveaxis(whole, 0, -1), **bands, OWN: record, SEAL: seal}
    savemat(path, arrays, appendmat=False)
    with path.open("r+b") as file:
        file.write(version_5_header(seal))


def _write_73(  # noqa: PLR0913 (the parts of a file)
    path: Path,
    shape: tuple[int, int, int],
    dtype: DType,
    wavelengths: Doubles,
    record: str,
    sealed_by: Callable[[Any], bytes],
) -> None:
    import h5py

    bands, height, width = shape
    with full_disk_as_os_error(), h5py.File(path, "w", userblock_size=USERBLOCK) as file:

        def add(name: str, values: Array, kind: bytes) -> Any:
            stored = file.create_dataset(name, data=values)
            stored.attrs["MATLAB_class"] = np.bytes_(kind)
            return stored

        # Zeros would be written first, only to be replaced.
        stored = file.create_dataset("cube", (bands, width, height), dtype, fill_time="never")
        stored.attrs["MATLAB_class"] = np.bytes_(CLASSES[dtype.str[1:]])

        def put(place: tuple[slice, slice], block: Array) -> None:
            stored[place[0], :, place[1]] = block.transpose(0, 2, 1)

        stored.attrs[SEAL] = np.bytes_(sealed_by(put))
        if wavelengths.size:
            add("bands", wavelengths, b"double")
        # MATLAB has matrices only, and text as UTF-16, which it knows by these two attributes.
        codes = np.frombuffer(record.encode("utf-16-le"), "<u2")[:, None]
        add(OWN, codes, b"char").attrs["MATLAB_int_decode"] = np.int32(2)
    # The library leaves the user block, which comes first in the file, to others.
    with path.open("r+b") as raw:
        raw.write(_HEADER)


def bands_description(wavelengths: Sequence[float]) -> Description:
    """The description that other programs find in `bands`: *wavelengths* in nm, or none."""
    return Description([str(value) for value in wavelengths], "nm" if wavelengths else "")


@contextmanager
def full_disk_as_os_error() -> Iterator[None]:
    """An `OSError` where HDF5 raises a `RuntimeError`: it finds out when it closes a file."""
    try:
        yield
    except RuntimeError as error:
        raise OSError(str(error)) from error
