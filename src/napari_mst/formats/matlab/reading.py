"""Reading MAT-files in a process of their own (`process`): their libraries crash on damaged ones.

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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from napari_mst.cube import SpectralCube
from napari_mst.errors import ChoiceNeeded, CubeFileError
from napari_mst.formats import numbers, seal
from napari_mst.formats.matlab.stored import HDF5_MARK, SEAL
from napari_mst.formats.matlab.writing import bands_description
from napari_mst.formats.record import OWN, Description, described_cube
from napari_mst.memory import free_host_memory
from napari_mst.messages import mismatch

# Named rather than imported: Python would run a module twice that is imported before it is run.
_PROCESS = "napari_mst.formats.matlab.process"
SECONDS = 30.0
"""Time that the reader may take for any file, however small."""
# The least speed of reading that is waited for, beyond the first seconds.
_BYTES_PER_SECOND = 4 * 2**20
_COMPLAINT_BYTES = 2**20
# How Python and the system say that a process had no memory to start in.
_NO_MEMORY = re.compile(b"MemoryError|Cannot allocate memory|failed to map|can't start new thread")
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

    Parameters
    ----------
    variable
        Name of the array that is the cube, where there are several of three axes; `group/name` in
        a structure.
    band_axis
        0 or -1: which of its axes (in MATLAB) holds the bands, where neither wavelengths nor sizes
        tell.
    verify
        Compare the numbers with the checksum that we saved; by default unless the file is
        memory-mapped.

    Raises
    ------
    CubeFileError
        If the file is damaged, even where that crashes its reader or never ends; if it is too
        large when decompressed, or has no array, or several, that may be the cube.
    """
    request = [variable, band_axis, free_host_memory(), numbers.LAZY_BYTES]
    with _running(path, request) as reader:
        told = _told(path, reader)
        data = _mapped(path, told) if "offset" in told else _received(path, told, reader)
    if SEAL not in told:
        description = Description(told.get("wavelengths", ()), told.get("unit", ""))
        return described_cube(data, description, told.get("warnings", ()))
    others = bands_description(told["bands"])
    description = seal.sealed_description(path.name, told[SEAL], [told.get(OWN, "")], others)
    seal.check_shape(path.name, data, description)
    seal.verify(path.name, data, description, verify)
    return described_cube(data, description)


@dataclass(frozen=True)
class _Reader:
    """A reading process: its two outputs, the clock that ends it, and whether the clock did."""

    process: subprocess.Popen[bytes]
    output: IO[bytes]
    complaints: IO[bytes]
    clock: threading.Timer
    is_late: threading.Event

    def failure(self, name: str) -> Exception:
        """The error about the file *name* whose reader ended early."""
        status = self.process.wait()
        if self.is_late.is_set():
            found = "one that its reader does not finish"
            advice = "It is damaged, or the computer is busy; try again."
            return mismatch(name, "a MAT-file", found, advice)
        # Linux kills a process of a machine without memory by the signal that nothing catches.
        is_killed = os.name != "nt" and status == -signal.SIGKILL
        if is_killed or self._is_unstarted(status):
            return MemoryError()
        found = "one that crashes its reader"
        return mismatch(name, "a MAT-file", found, "It is damaged; get the file again.")

    def _is_unstarted(self, status: int) -> bool:
        """True if Python had too little memory to start."""
        self.complaints.seek(0)
        complaints = self.complaints.read(_COMPLAINT_BYTES)
        return status == 1 and _NO_MEMORY.search(complaints) is not None


@contextmanager
def _running(path: Path, request: list[Any]) -> Iterator[_Reader]:
    """A reading process, which is ended if it finds no cube in a time that grows with the file."""
    # -P: a file in the working folder that is called like a module must not be run.
    options = json.dumps(request)
    command = [sys.executable, "-P", "-m", _PROCESS, str(path.absolute()), options]
    # Threads of numeric libraries reserve memory, which the process has little of.
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

        clock = threading.Timer(SECONDS + path.stat().st_size / _BYTES_PER_SECOND, end)
        clock.start()
        try:
            if child.stdout is not None:
                yield _Reader(child, child.stdout, complaints, clock, is_late)
        finally:
            clock.cancel()
            child.kill()


def _told(path: Path, reader: _Reader) -> Mapping[str, Any]:
    """The line that the reading process writes.

    Raises `CubeFileError`, the process's own or that it crashed, and `MemoryError`.
    """
    line = reader.output.readline()
    if not line.endswith(b"\n"):
        raise reader.failure(path.name)
    # The libraries are through with the file: only numbers that they have read are sent now.
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
    shape = told["shape"]
    flat = np.memmap(path, told["dtype"], "r", told["offset"], (math.prod(shape),))
    return np.moveaxis(flat.reshape(shape, order="F"), told["axis"], 0)


def _received(path: Path, told: Mapping[str, Any], reader: _Reader) -> NDArray[Any]:
    """The (B, H, W) numbers that the reading process sends."""
    data = np.empty(told["shape"], told["dtype"])
    view = data.reshape(-1).view(np.uint8).data
    done = 0
    while done < len(view):
        count = reader.output.readinto(view[done:])  # type: ignore[attr-defined]
        if not count:
            raise reader.failure(path.name)
        done += count
    return data
