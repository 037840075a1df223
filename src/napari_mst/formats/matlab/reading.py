"""MATLAB files: version 7.3 (HDF5), written as the published MST++ toolbox does, and versions up to 7 (read only).

`cube` is H x W x B in MATLAB, so (B, W, H) in HDF5, as in the NTIRE, ARAD and ICVL cubes; `bands` holds the wavelengths
(nm). Files are opened by a process with limits (`process`), as their libraries crash on damaged ones.
Sources: MathWorks, "MAT-File Level 5 File Format" (the header); hdf5storage, "Storage Format" (the attributes of 7.3).
Letters: B bands, H rows, W columns.
"""

import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from napari_mst import crash_safe
from napari_mst.cube import SpectralCube
from napari_mst.errors import ChoiceNeeded, CubeFileError, SaveError
from napari_mst.formats import record
from napari_mst.formats.matlab import process
from napari_mst.formats.matlab.process import HDF5_MARK, SEAL
from napari_mst.formats.numbers import LAZY_BYTES, crc32, stored_type
from napari_mst.formats.record import OWN, Description, described, described_cube
from napari_mst.memory import free_host_memory
from napari_mst.messages import mismatch
from napari_mst.watch import UNWATCHED, Watch

_CLASSES = {
    "u1": b"uint8", "i1": b"int8", "u2": b"uint16", "i2": b"int16", "u4": b"uint32", "i4": b"int32",
    "u8": b"uint64", "i8": b"int64", "f4": b"single", "f8": b"double",
}  # fmt: skip
_USERBLOCK = 512
_ROWS = 64
"""Rows that are transposed at once, so that they stay in the processor's cache."""
_SECONDS = 30.0
_BYTES_PER_SECOND = 4 * 2**20
"""The least speed of reading that is waited for, beyond the first seconds."""
_COMPLAINT_BYTES = 2**20
_NO_MEMORY = re.compile(b"MemoryError|Cannot allocate memory|failed to map|can't start new thread")
"""How Python and the system say that a process had no memory to start in."""


def is_matlab(path: Path) -> bool:
    """Whether *path* begins as a MAT-file of version 5 to 7.3, or is an HDF5 file called `.mat`."""
    with path.open("rb") as file:
        head = file.read(128)
    is_level_5 = head[124:128] in (b"\0\1IM", b"\1\0MI", b"\0\2IM", b"\2\0MI")
    return is_level_5 or (head.startswith(HDF5_MARK) and path.suffix.lower() == ".mat")


def write_matlab(
    path: Path, cube: SpectralCube, *, overwrite: bool = False, watch: Watch = UNWATCHED
) -> Path:
    """Save *cube* as MATLAB 7.3: `cube` (H x W x B), `bands` (nm) and our record, uncompressed.

    Raises
    ------
    SaveError
        If h5py is not installed, the numbers cannot be stored without loss, or as `crash_safe.saving`.
    """
    if find_spec("h5py") is None:
        raise SaveError(
            'Expected h5py for MAT-files, got none. Run: pip install "napari-mst[matlab]"'
        )
    import h5py

    dtype = stored_type(cube.data, tuple(_CLASSES), "a MAT-file")
    needed = cube.data.size * dtype.itemsize + 2**20
    with crash_safe.saving(path, needed=needed, overwrite=overwrite) as (temporary,):
        with _full_disk_as_os_error(), h5py.File(temporary, "w", userblock_size=_USERBLOCK) as file:
            bands, height, width = cube.shape
            stored = _create(file, (bands, width, height), dtype)
            with temporary.open("r+b") as raw:
                raw.seek(stored.id.get_offset())
                crc = _write_planes(raw, cube.data, dtype, watch)
            bands_in_nm = cube.wavelengths.tolist() if cube.has_wavelengths else []
            stored.attrs[SEAL] = np.bytes_(record.seal(cube, dtype, crc, _bands(bands_in_nm)))
            if cube.has_wavelengths:
                _add(file, "bands", cube.wavelengths[:, np.newaxis], b"double")
            text = np.frombuffer(json.dumps(record.record(cube)).encode("utf-16-le"), "<u2")
            _add(file, OWN, text[:, np.newaxis], b"char").attrs["MATLAB_int_decode"] = np.int32(2)
        with temporary.open("r+b") as raw:
            raw.write(_header())
    return path


def read_matlab(
    path: Path,
    *,
    variable: str | None = None,
    band_axis: int | None = None,
    verify: bool | None = None,
) -> SpectralCube:
    """The cube in the MAT-file at *path*, with rows and columns as MATLAB shows them.

    Parameters
    ----------
    variable
        Name of the array that is the cube, where there are several of three axes; `group/name` in a structure.
    band_axis
        0 or -1: which of its axes (in MATLAB) holds the bands, where neither wavelengths nor sizes tell.
    verify
        Compare the numbers with the checksum that we saved; by default unless the file is memory-mapped.

    Raises
    ------
    CubeFileError
        If the file is damaged, even where that crashes or never ends, too large when decompressed, or has no array or
        several that may be the cube; or if the libraries that read it are not installed.
    """
    if find_spec("h5py") is None or find_spec("scipy") is None:
        raise mismatch(
            path.name, "h5py and scipy", "none of them", 'Run: pip install "napari-mst[matlab]"'
        )
    with _reader(path, [variable, band_axis, free_host_memory(), LAZY_BYTES]) as reader:
        told = _told(path, reader)
        data = _mapped(path, told) if "offset" in told else _received(path, told, reader)
    if SEAL not in told:
        description = Description(told.get("wavelengths", ()), told.get("unit", ""))
        return described_cube(data, description, told.get("warnings", ()))
    description = described(path.name, told[SEAL], [told.get(OWN, "")], _bands(told["bands"]))
    record.check(path.name, data, description)
    if verify or (verify is None and not isinstance(data, np.memmap)):
        record.verify(path.name, data, description)
    return described_cube(data, description)


@contextmanager
def _full_disk_as_os_error() -> Iterator[None]:
    """HDF5 finds out when it closes a file, and then raises a `RuntimeError`."""
    try:
        yield
    except RuntimeError as error:
        raise OSError(str(error)) from error


def _create(file: Any, shape: tuple[int, int, int], dtype: np.dtype[Any]) -> Any:
    """The dataset `cube`, whose place in the file is known before its numbers are written."""
    import h5py

    plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plan.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    plan.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    space, kind = h5py.h5s.create_simple(shape), h5py.h5t.py_create(dtype)
    stored = h5py.Dataset(h5py.h5d.create(file.id, b"cube", kind, space, plan))
    stored.attrs["MATLAB_class"] = np.bytes_(_CLASSES[dtype.str[1:]])
    file.flush()
    return stored


def _write_planes(raw: IO[bytes], data: NDArray[Any], dtype: np.dtype[Any], watch: Watch) -> str:
    """Write (B, W, H) numbers, a band at a time, and return their checksum in (B, H, W) order.

    The library would take twice as long as a file does.
    """
    bands, height, width = data.shape
    turned, crc = np.empty((width, height), dtype), 0
    for band in range(bands):
        plane = np.ascontiguousarray(data[band], dtype)
        crc = crc32(plane, crc)
        for row in range(0, height, _ROWS):
            turned[:, row : row + _ROWS] = plane[row : row + _ROWS].T
        raw.write(turned.data)
        watch.report((band + 1) / bands)
    return f"{crc:08x}"


def _bands(wavelengths: Sequence[float]) -> Description:
    """What other programs find in `bands`: *wavelengths* in nm, none where the cube has none."""
    return Description([str(value) for value in wavelengths], "nm" if wavelengths else "")


def _add(file: Any, name: str, values: NDArray[Any], matlab_class: bytes) -> Any:
    stored = file.create_dataset(name, data=values)
    stored.attrs["MATLAB_class"] = np.bytes_(matlab_class)
    return stored


def _header() -> bytes:
    """The 128 bytes by which MATLAB knows version 7.3: text, no subsystem data, version 0x0200, byte order."""
    text = b"MATLAB 7.3 MAT-file, Platform: napari-mst, HDF5 schema 1.00 ."
    return text.ljust(116) + bytes(8) + b"\0\2IM"


@dataclass(frozen=True)
class _Reader:
    """A reading process, what it says and complains of, the clock that ends it, and whether it did."""

    process: subprocess.Popen[bytes]
    output: IO[bytes]
    complaints: IO[bytes]
    clock: threading.Timer
    is_late: threading.Event

    def failure(self, name: str) -> Exception:
        """What to raise about the file *name* when the process ended early."""
        status = self.process.wait()
        if self.is_late.is_set():
            advice = "It is damaged, or the computer is busy; try again."
            return mismatch(name, "a MAT-file", "one that its reader does not finish", advice)
        self.complaints.seek(0)
        is_unstarted = (
            status == 1 and _NO_MEMORY.search(self.complaints.read(_COMPLAINT_BYTES)) is not None
        )
        if is_unstarted or (os.name != "nt" and status == -signal.SIGKILL):
            return MemoryError()
        return mismatch(
            name, "a MAT-file", "one that crashes its reader", "It is damaged; get the file again."
        )


@contextmanager
def _reader(path: Path, options: list[Any]) -> Iterator[_Reader]:
    """A reading process, which is ended if it finds no cube within a time that grows with the file."""
    command = [
        sys.executable,
        "-P",
        "-m",
        process.__name__,
        str(path.absolute()),
        json.dumps(options),
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    is_late = threading.Event()
    with (
        tempfile.TemporaryFile() as complaints,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=complaints,
            env=environment,
        ) as child,
    ):

        def end() -> None:
            is_late.set()
            child.kill()

        clock = threading.Timer(_SECONDS + path.stat().st_size / _BYTES_PER_SECOND, end)
        clock.start()
        try:
            if child.stdout is not None:
                yield _Reader(child, child.stdout, complaints, clock, is_late)
        finally:
            clock.cancel()
            child.kill()


def _told(path: Path, reader: _Reader) -> Mapping[str, Any]:
    """What the reading process says. Raises `CubeFileError`, its own or that it crashed, and `MemoryError`.

    The clock stops here: the libraries are through with the file, and only numbers that they have read are sent.
    """
    line = reader.output.readline()
    if not line.endswith(b"\n"):
        raise reader.failure(path.name)
    reader.clock.cancel()
    told: Mapping[str, Any] = json.loads(line)
    if "option" in told:
        raise ChoiceNeeded(told["error"], told["option"], dict(told["choices"]))
    if told.get("is_out_of_memory"):
        raise MemoryError(told["error"])
    if "error" in told:
        raise CubeFileError(told["error"])
    return told


def _mapped(path: Path, told: Mapping[str, Any]) -> NDArray[Any]:
    """A view of the file, (B, H, W)."""
    flat = np.memmap(path, told["dtype"], "r", told["offset"], (math.prod(told["shape"]),))
    return np.moveaxis(flat.reshape(told["shape"], order="F"), told["axis"], 0)


def _received(path: Path, told: Mapping[str, Any], reader: _Reader) -> NDArray[Any]:
    data = np.empty(told["shape"], told["dtype"])
    view, done = data.reshape(-1).view(np.uint8).data, 0
    while done < len(view):
        count = reader.output.readinto(view[done:])  # type: ignore[attr-defined]
        if not count:
            raise reader.failure(path.name)
        done += count
    return data
