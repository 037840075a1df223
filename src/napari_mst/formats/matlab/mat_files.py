"""MAT-files: read in a separate process, written like those of the published MST++ toolbox.

The reading libraries crash on damaged files, so `answer` runs in the separate process. It returns a
description of the cube and, unless that has an `offset`, the numbers band by band.
Letters: B bands, H rows, W columns.
"""

import io
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from napari_mst.base import sandbox
from napari_mst.base.arrays import Array, DType
from napari_mst.base.errors import NapariMstError, OutOfMemory, mismatch, shown
from napari_mst.base.memory import free_host_memory
from napari_mst.base.progress import Progress
from napari_mst.base.sandbox import SandboxAnswer
from napari_mst.cube import SpectralCube
from napari_mst.cube.lazy import Numbers
from napari_mst.cube.parts import with_tuples
from napari_mst.formats import numbers
from napari_mst.formats.array_files import (
    NO_ANSWERS,
    SMALL_BYTES,
    Answers,
    StoredArray,
    cube_name,
    find_cube,
)
from napari_mst.formats.conventions import physical
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
from napari_mst.formats.envi.georeference import FIELDS, read_from_envi
from napari_mst.formats.lazy_files import in_hdf5
from napari_mst.formats.matlab.stored import (
    CLASSES,
    HDF5_MARK,
    HDF5_PART,
    ROOT,
    SEAL,
    TEXTS,
    USERBLOCK,
    VERSION_5_HEADER,
    VERSION_73_HEADER,
    add_version_5,
    hdf5_arrays,
    version_5_arrays,
)
from napari_mst.formats.numbers import DEFLATE_RATIO, too_large, write_blocks

_LEVEL_5_MARKS = (b"\0\1IM", b"\1\0MI", b"\0\2IM", b"\2\0MI")


def is_matlab(path: Path) -> bool:
    """True if *path* begins as a MAT-file of version 5 to 7.3, or is an HDF5 file named `.mat`."""
    with path.open("rb") as file:
        head = file.read(128)
    if head[124:128] in _LEVEL_5_MARKS:
        return True
    return head.startswith(HDF5_MARK) and path.suffix.lower() == ".mat"


def read_matlab(
    path: Path,
    *,
    answers: Answers = NO_ANSWERS,
    scale: bool = True,
    verify: bool | None = None,
) -> SpectralCube:
    """The cube in the MAT-file at *path*, with rows and columns as MATLAB shows them.

    A *variable* in a structure is `group/name`, and *band_axis* is in MATLAB's order of axes.

    Raises
    ------
    CubeFileError
        If the file is damaged, even if its reader crashes or never ends; if it is too large when
        decompressed; or if none or several of its arrays may be the cube.
    """
    facts, data = stored_cube(path, "a MAT-file", answers)
    if SEAL in facts:
        others = bands_description(facts["bands"])
        texts = SealedTexts(facts[SEAL], facts.get(OWN, ""), others)
        return sealed_cube(path.name, data, texts, verify)
    return foreign_cube(facts, data, scale=scale)


def foreign_cube(facts: Mapping[str, Any], data: Numbers, *, scale: bool) -> SpectralCube:
    """The cube of another program, from the fields of a `FoundCube` and the stored *data*."""
    data, fields, quantity, doubts = physical(
        data, facts["attributes"], with_tuples(facts["fields"]), name=facts["name"], scale=scale
    )
    fields, doubts_of_place = read_from_envi(fields, is_sealed=True)
    described = Description(facts["wavelengths"], facts["unit"], (), fields, quantity=quantity)
    return described_cube(data, described, [*facts["warnings"], *doubts, *doubts_of_place])


def stored_cube(path: Path, kind: str, answers: Answers) -> tuple[dict[str, Any], Numbers]:
    """The facts from `answer`, which runs in another process, and the stored numbers (B, H, W).

    *kind* names the kind of file in the error about a file that crashes the process.
    """
    options = [answers, free_host_memory(), numbers.LAZY_BYTES]
    refusal = partial(mismatch, path.name, kind)
    data: Numbers
    facts, data = sandbox.decoded(
        "napari_mst.formats.matlab.mat_files:answer", path, options, refusal
    )
    if "is_chunked" in facts:
        axes = (2, 1, 0) if facts["order"] == "F" else (0, 1, 2)
        data = in_hdf5(path, facts["name"]).transpose(axes)
    return facts, numbers.in_native_order(np.moveaxis(data, facts.get("axis", 0), 0))


# Messages about missing memory in errors other than `MemoryError`.
_NO_MEMORY = re.compile(
    "(?i)unable to allocate|memory allocation failed|cannot allocate memory|out of memory"
)


def answer(path: Path, answers: Sequence[Any], limit: int, lazy: int) -> SandboxAnswer:
    """The description of the cube at *path*, and its planes, unless the parent can map them.

    Parameters
    ----------
    answers
        The values of `Answers`.
    limit, lazy
        Most bytes of numbers that may be read, and most that are read even if they can be mapped.
    """
    try:
        arrays, texts = _opened(path)
        described, array, axis = _description(path, arrays, texts, Answers(*answers))
        if array.offset is not None and array.nbytes > lazy:
            described |= {"offset": array.offset, "shape": array.shape, "dtype": array.dtype.str}
            return described | {"axis": axis, "order": array.order}, ()
        _check_size(path, array)
        described["warnings"] += array.check()
        if array.is_chunked and array.nbytes > lazy:
            described |= {"is_chunked": True, "axis": axis, "order": array.order}
            return described | {"shape": (0,), "dtype": "u1"}, ()
        cube = np.moveaxis(_numbers(array, limit), axis, 0)
    except NapariMstError:
        raise
    # h5py and scipy raise all kinds of errors about a damaged file.
    except Exception as error:
        raise _failure(path, error, limit) from error
    dtype = cube.dtype.newbyteorder("=")
    planes = (np.ascontiguousarray(plane, dtype) for plane in cube)
    return described | {"shape": cube.shape, "dtype": dtype.str}, planes


def _opened(path: Path) -> tuple[Mapping[str, StoredArray], Mapping[str, Any]]:
    """The arrays of numbers in the file at *path*, and our texts in it."""
    with path.open("rb") as file:
        head = file.read(USERBLOCK + len(HDF5_MARK))
    # MATLAB puts the HDF5 file after a header; other programs begin with it. Programs that rewrite
    # the variables of our files as version 5 leave an outdated HDF5 file behind.
    is_old = head[124:128] == _LEVEL_5_MARKS[0] and not head.startswith(VERSION_5_HEADER)
    if HDF5_MARK in (head[: len(HDF5_MARK)], head[USERBLOCK:]) and not is_old:
        return hdf5_arrays(path, head)
    return version_5_arrays(path)


def _description(
    path: Path,
    arrays: Mapping[str, StoredArray],
    texts: Mapping[str, Any],
    answers: Answers,
) -> tuple[dict[str, Any], StoredArray, int]:
    """The description of the cube at *path*, its array and the axis of its bands."""
    name = cube_name(path.name, arrays, answers.variable)
    array = arrays[name]
    if name == "cube" and SEAL in texts:
        # The seal covers `bands`, so it is read although the record has the wavelengths.
        bands = arrays.get("bands")
        values: list[float] = []
        if bands is not None and bands.nbytes <= SMALL_BYTES:
            values = np.ravel(bands.read()).tolist()
        return {**texts, "name": name, "bands": values, "warnings": []}, array, 2
    found = find_cube(path.name, arrays, answers)
    if (OWN in texts or HDF5_PART in arrays) and SEAL not in texts:
        found.warnings.append(CHANGED)
    # NEON has the fields of an ENVI header as arrays of text.
    for key in FIELDS:
        if text := texts.get(TEXTS, {}).get(key):
            found.fields.setdefault(key, text)
    described = asdict(found) | {ROOT: texts.get(ROOT, {})}
    return described, array, described.pop("axis")


def _failure(path: Path, error: Exception, limit: int) -> Exception:
    """The error for *error*: the file is damaged or declares too much, or memory is short."""
    is_refused = isinstance(error, MemoryError) or _NO_MEMORY.search(str(error)) is not None
    if not is_refused:
        fault = shown(str(error) or type(error).__name__, 80)
        kind = "MAT-file" if path.suffix.lower() == ".mat" else "netCDF-4 or HDF5 file"
        return mismatch(path.name, f"a complete {kind}", fault, "Get the file again.")
    if sandbox.is_limited_from_outside():
        return OutOfMemory(str(error))
    return too_large(path.name, limit, "more")


def _check_size(path: Path, array: StoredArray) -> None:
    """Refuse an array with more numbers than the file can hold."""
    most = max(SMALL_BYTES, array.stored_bytes * DEFLATE_RATIO)
    if array.nbytes > most:
        raise too_large(path.name, most, array.nbytes)


def _numbers(array: StoredArray, limit: int) -> Array:
    if array.nbytes > limit:
        raise OutOfMemory(f"{array.nbytes} bytes of numbers, and {limit} of free memory")
    sandbox.limit_memory(3 * array.nbytes + sandbox.ROOM_BYTES)
    return array.read()


VERSION_5_BYTES = 2**31 - 2**16
"""Larger cubes are saved only as version 7.3, since version 5 has no larger arrays."""
_HOLE_BYTES = 4096


def write_matlab(path: Path, cube: SpectralCube, dtype: DType, progress: Progress) -> None:
    """Save *cube*: `cube` (H x W x B), `bands` (nm) and our record, uncompressed.

    The file is of version 7.3 (HDF5) for h5py and the published tools, and below 2 GB also of
    version 5 for scipy. Both versions share the same numbers in the same place.
    """
    import h5py

    wavelengths = cube.wavelengths[:, None] if cube.has_wavelengths else cube.wavelengths[:0]
    others = bands_description(wavelengths.ravel().tolist())
    record = json.dumps(record_of(cube))
    bands, height, width = cube.shape
    with (
        hdf5_output(path) as output,
        h5py.File(output, "w", userblock_size=USERBLOCK) as file,
    ):

        def add(name: str, values: Array, kind: bytes) -> Any:
            stored = file.create_dataset(name, data=values)
            stored.attrs["MATLAB_class"] = np.bytes_(kind)
            return stored

        if wavelengths.size:
            add("bands", wavelengths, b"double")
        # MATLAB has only matrices, and recognises UTF-16 text by these two attributes.
        codes = np.frombuffer(record.encode("utf-16-le"), "<u2")[:, None]
        add(OWN, codes, b"char").attrs["MATLAB_int_decode"] = np.int32(2)
    # After reopening, the library no longer packs small data into a block with other data.
    aligned: dict[str, Any] = {"alignment_threshold": 1, "alignment_interval": 8}
    with hdf5_output(path, "r+b") as output, h5py.File(output, "r+", **aligned) as file:
        # By default zeros would be written first, only to be replaced.
        stored = file.create_dataset("cube", (bands, width, height), dtype, fill_time="never")
        stored.attrs["MATLAB_class"] = np.bytes_(CLASSES[dtype.str[1:]][0])
        # Everything else gets its place before the numbers, which come last.
        stored.attrs[SEAL] = np.bytes_(seal_of(cube, dtype, "0" * 8, others))
        file["hole"] = np.zeros(_HOLE_BYTES, np.uint8)
        hole = file["hole"].id.get_offset()

        def put(place: tuple[slice, slice], block: Array) -> None:
            stored[place[0], :, place[1]] = block.transpose(0, 2, 1)

        crc = write_blocks(cube.data, dtype, progress, output.checked(put))
        stored.attrs.modify(SEAL, np.bytes_(seal_of(cube, dtype, crc, others)))
        start = stored.id.get_offset()
        del file["hole"]
    is_small = cube.data.size * dtype.itemsize < VERSION_5_BYTES
    texts = {OWN: record} | ({"bands": wavelengths} if wavelengths.size else {})
    # HDF5 leaves the user block at the start of the file to other uses.
    with path.open("r+b") as raw:
        size = raw.seek(0, os.SEEK_END)
        is_last = start == hole + _HOLE_BYTES and size == start + cube.data.size * dtype.itemsize
        if is_small and is_last:
            add_version_5(raw, start, (height, width, bands), dtype, texts)
        else:
            raw.seek(0)
            raw.write(VERSION_73_HEADER)


def bands_description(wavelengths: Sequence[float]) -> Description:
    """The description for other programs, in `bands`: *wavelengths* in nm, or none."""
    return Description([str(value) for value in wavelengths], "nm" if wavelengths else "")


class HDF5Output(io.FileIO):
    """A file that accepts all writes of HDF5, and keeps the first error for `checked`.

    HDF5 crashes if a write fails while it closes a file.
    """

    error: OSError | None = None

    def write(self, data: Any) -> int:
        """Write all of *data*; an error is kept."""
        rest = memoryview(data).cast("B")
        with self._kept():
            while rest:
                rest = rest[super().write(rest) :]
        return len(data)

    def truncate(self, size: int | None = None) -> int:
        """Set the *size* of the file; an error is kept."""
        with self._kept():
            super().truncate(size)
        return size or 0

    @contextmanager
    def _kept(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.error = self.error or error

    def checked(self, store: Callable[[Any, Any], object]) -> Callable[[Any, Any], None]:
        """*store*, followed by `check`."""

        def stored(place: Any, block: Any) -> None:
            store(place, block)
            self.check()

        return stored

    def check(self) -> None:
        """Raise the first error, if there is one."""
        if self.error is not None:
            raise self.error


@contextmanager
def hdf5_output(path: Path, mode: str = "w+b") -> Iterator[HDF5Output]:
    """The file *path* for HDF5 to write; raises `OSError` at the end if a write failed."""
    with HDF5Output(path, mode) as file:
        yield file
        file.check()
