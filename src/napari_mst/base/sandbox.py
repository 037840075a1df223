"""Untrusted files are decoded in a separate process with limits on memory and time.

C libraries crash on some damaged files, and allocate whatever size a file declares. In the sandbox
such a file is refused, and the caller goes on. `stream` starts the process as `python -m
napari_mst.base.sandbox FUNCTION FILE OPTIONS`. The process calls the function with the path of the
file and the options. For each result it writes one line of JSON and then the numbers to standard
output, and "null" after the last result.

MAT-files, RAW photos, HEIC and videos are decoded here, because HDF5, scipy, LibRaw, libheif and
FFmpeg interpret complex structures of a file. Pillow, imagecodecs and LittleCMS run in the caller's
process: the size of their images is checked beforehand, and a separate process would cost 0.2 s of
processor time per photo, more than most photos take to decode. Pillow may open only formats that
start no other program and refer to no other file (`photo.files.FORMATS`).
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from napari_mst.base.arrays import Array
from napari_mst.base.errors import ChoiceNeeded, NapariMstError, OutOfMemory

SECONDS = 30.0
"""Time that a decoder may take for any file, however small."""
# The slowest decoding allowed after the first seconds. One core decodes a 24-megapixel RAW photo at
# 4 to 8 MiB a second.
_BYTES_PER_SECOND = 2**19
_COMPLAINT_BYTES = 2**20
# Each thread reserves memory, and the process has little.
_THREADS = 8
# Messages of Python and the system when a process has too little memory to start.
_NO_MEMORY = re.compile(b"MemoryError|Cannot allocate memory|failed to map|can't start new thread")

ROOM_BYTES = 768 * 2**20
"""Memory for Python, the libraries and their buffers, on top of the numbers."""

SandboxAnswer = tuple[Mapping[str, Any], Iterable[Array]]
"""The result of a decoder: a description for JSON, and contiguous arrays of numbers.

The description has the `shape` and the `dtype` of the numbers. If it also has their `offset` in the
file and their `order` ("F" or "C"), the numbers are mapped from the file instead of sent.
"""

Refusal = Callable[[str, str], Exception]
"""Builds the error about a file from the finding and the advice."""


def decoded(
    function: str, path: Path, options: Sequence[Any], refusal: Refusal
) -> tuple[dict[str, Any], Array]:
    """The first result of `stream`, for a decoder that returns a single one."""
    with closing(stream(function, path, options, refusal)) as results:
        return next(results)


def stream(
    function: str, path: Path, options: Sequence[Any], refusal: Refusal
) -> Generator[tuple[dict[str, Any], Array]]:
    """Yield the results of a process that calls *function* with the file at *path* and *options*.

    The process is killed if a result takes too long; the time allowed grows with the file.

    Parameters
    ----------
    function
        `module:name`; it returns a `SandboxAnswer`, or yields several.
    options
        Values that JSON can represent.

    Raises
    ------
    NapariMstError
        The process's own error, or the *refusal* of a file that crashes it or takes too long.
    MemoryError
        If it had too little memory.
    """
    # -P: a file in the working folder with the name of a module must not be run.
    target = [function, str(path.absolute()), json.dumps(options)]
    command = [sys.executable, "-P", "-m", "napari_mst.base.sandbox", *target]
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

        output = cast("IO[bytes]", child.stdout)
        seconds = SECONDS + path.stat().st_size / _BYTES_PER_SECOND
        try:
            while True:
                clock = threading.Timer(seconds, end)
                clock.start()
                facts = _description(output.readline())
                # The libraries are done with this result: only sending it remains.
                clock.cancel()
                if facts is None:
                    return
                if "offset" in facts:
                    place = facts["offset"], tuple(facts["shape"]), facts["order"]
                    yield facts, np.memmap(path, facts["dtype"], "r", *place)
                else:
                    yield facts, _numbers(output, facts)
        except EOFError:
            if is_late.is_set():
                advice = "It is damaged, or the computer is busy; try again."
                raise refusal("one that its reader does not finish", advice) from None
            if _is_short_of_memory(child.wait(), complaints):
                raise MemoryError from None
            advice = "It is damaged; get the file again."
            raise refusal("one that crashes its reader", advice) from None
        finally:
            clock.cancel()
            child.kill()


def _description(line: bytes) -> dict[str, Any] | None:
    """The result that a *line* of the process describes; None after the last result.

    Raises the error that the line reports, or `EOFError` if there is no line.
    """
    if not line.endswith(b"\n"):
        raise EOFError
    facts: dict[str, Any] | None = json.loads(line)
    if facts is None:
        return None
    if "option" in facts:
        raise ChoiceNeeded(facts["error"], facts["option"], dict(facts["choices"]))
    if facts.get("kind") == OutOfMemory.__name__:
        raise MemoryError(facts["error"])
    if "error" in facts:
        kinds = {kind.__name__: kind for kind in NapariMstError.__subclasses__()}
        raise kinds[facts["kind"]](facts["error"])
    return facts


def _numbers(output: IO[bytes], facts: Mapping[str, Any]) -> Array:
    """The numbers that the process sends after a line. Raises `EOFError` if there are too few."""
    data = np.empty(facts["shape"], facts["dtype"])
    view = data.reshape(-1).view(np.uint8).data
    done = 0
    while done < len(view):
        count = output.readinto(view[done:])  # type: ignore[attr-defined]
        if not count:
            raise EOFError
        done += count
    return data


def _is_short_of_memory(status: int, complaints: IO[bytes]) -> bool:
    """True if a process that ended with *status* was killed, or had too little memory to start."""
    # A machine that runs out of memory kills the process with SIGKILL, which nothing catches.
    if os.name != "nt" and status == -signal.SIGKILL:
        return True
    complaints.seek(0)
    return status == 1 and _NO_MEMORY.search(complaints.read(_COMPLAINT_BYTES)) is not None


def limit_memory(room: int) -> None:
    """Limit this process to *room* more bytes of memory, where the system supports it.

    Windows has no such limit. macOS has one but refuses to set it (ValueError,
    https://github.com/python/cpython/issues/78783).
    """
    with suppress(ImportError, ValueError):
        import resource

        import psutil

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        limit = psutil.Process().memory_info().vms + room
        # The hard limit, set by the machine's owner, may not be exceeded.
        if hard != resource.RLIM_INFINITY:
            limit = min(limit, hard)
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


def is_limited_from_outside() -> bool:
    """True if this process can use all memory that the machine's owner allows.

    False if `limit_memory` set a lower limit, by the size of the file.
    """
    with suppress(ImportError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        return hard == soft
    return True


def answers(function: str, path: Path, options: Sequence[Any]) -> Iterator[SandboxAnswer]:
    """Call *function* on the file at *path*; yield its results, or a line about its error."""
    module, _, name = function.partition(":")
    try:
        found = getattr(import_module(module), name)(path, *options)
        yield from [found] if isinstance(found, tuple) else found
    except ChoiceNeeded as error:
        # The choices may be numbers, which JSON would turn into text if they were keys.
        choices = list(error.choices.items())
        yield {"error": str(error), "option": error.option, "choices": choices}, ()
    except MemoryError as error:
        yield {"error": str(error), "kind": OutOfMemory.__name__}, ()
    except NapariMstError as error:
        yield {"error": str(error), "kind": type(error).__name__}, ()


def main(function: str, path: str, options: str) -> None:
    """Write the results of *function* to standard output."""
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # Text that a library prints must not come between a line and its numbers.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    for line, numbers in answers(function, Path(path), json.loads(options)):
        out.write(json.dumps(line).encode() + b"\n")
        for part in numbers:
            out.write(part.data)
        out.flush()
    out.write(b"null\n")
    out.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
