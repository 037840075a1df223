"""Asking a process of its own (`answering`) for the contents of a file."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from napari_mst.errors import ChoiceNeeded, NapariMstError, OutOfMemory

# Named rather than imported: Python would run a module twice that is imported before it is run.
_PROCESS = "napari_mst.isolation.answering"
SECONDS = 30.0
"""Time that a decoder may take for any file, however small."""
# The least speed of decoding that is waited for, beyond the first seconds: a RAW photo of 24
# megapixels is decoded at 4 to 8 MiB a second by one core.
_BYTES_PER_SECOND = 2**19
_COMPLAINT_BYTES = 2**20
# Each reserves memory, of which the process has little.
_THREADS = 8
# How Python and the system say that a process had no memory to start in.
_NO_MEMORY = re.compile(b"MemoryError|Cannot allocate memory|failed to map|can't start new thread")

Refusal = Callable[[str, str], Exception]
"""Makes the error about a file from what was found instead, and advice."""


@dataclass(frozen=True)
class Decoder:
    """A decoding process: its two outputs, the clock that ends it, and whether the clock did."""

    process: subprocess.Popen[bytes]
    output: IO[bytes]
    complaints: IO[bytes]
    clock: threading.Timer
    is_late: threading.Event
    refusal: Refusal

    def description(self) -> Mapping[str, Any]:
        """The line that the process writes.

        Raises
        ------
        NapariMstError
            The process's own error, or the refusal of a file that crashes it or takes too long.
        MemoryError
            If it had too little memory.
        """
        line = self.output.readline()
        if not line.endswith(b"\n"):
            raise self._failure()
        # The libraries are through with the file: only numbers that they have read are sent now.
        self.clock.cancel()
        told: Mapping[str, Any] = json.loads(line)
        if "option" in told:
            raise ChoiceNeeded(told["error"], told["option"], dict(told["choices"]))
        if told.get("kind") == OutOfMemory.__name__:
            raise MemoryError(told["error"])
        if "error" in told:
            kinds = {kind.__name__: kind for kind in NapariMstError.__subclasses__()}
            raise kinds[told["kind"]](told["error"])
        return told

    def numbers(self, shape: Sequence[int], dtype: str) -> NDArray[Any]:
        """The numbers that the process sends after the line; raises as `description`."""
        data = np.empty(shape, dtype)
        view = data.reshape(-1).view(np.uint8).data
        done = 0
        while done < len(view):
            count = self.output.readinto(view[done:])  # type: ignore[attr-defined]
            if not count:
                raise self._failure()
            done += count
        return data

    def _failure(self) -> Exception:
        """The error about the file whose decoder ended early."""
        status = self.process.wait()
        if self.is_late.is_set():
            advice = "It is damaged, or the computer is busy; try again."
            return self.refusal("one that its reader does not finish", advice)
        # Linux kills a process of a machine without memory by the signal that nothing catches.
        is_killed = os.name != "nt" and status == -signal.SIGKILL
        if is_killed or self._is_unstarted(status):
            return MemoryError()
        return self.refusal("one that crashes its reader", "It is damaged; get the file again.")

    def _is_unstarted(self, status: int) -> bool:
        """True if Python had too little memory to start."""
        self.complaints.seek(0)
        complaints = self.complaints.read(_COMPLAINT_BYTES)
        return status == 1 and _NO_MEMORY.search(complaints) is not None


@contextmanager
def decoding(
    function: str, path: Path, options: Sequence[Any], refusal: Refusal
) -> Iterator[Decoder]:
    """A process that calls *function* with the file at *path* and *options*.

    It is ended if it finds nothing in a time that grows with the file.

    Parameters
    ----------
    function
        `module:name`; it returns an `Answer`.
    options
        Values that JSON knows.
    """
    # -P: a file in the working folder that is called like a module must not be run.
    target = [function, str(path.absolute()), json.dumps(options)]
    command = [sys.executable, "-P", "-m", _PROCESS, *target]
    environment = {
        **os.environ,
        "OMP_THREAD_LIMIT": str(_THREADS),
        "OPENBLAS_NUM_THREADS": "1",
    }
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
                yield Decoder(child, child.stdout, complaints, clock, is_late, refusal)
        finally:
            clock.cancel()
            child.kill()
