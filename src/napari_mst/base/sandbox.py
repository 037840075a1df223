"""Decoding the files of strangers in a separate process, which has limits of memory and time.

Libraries in C crash on some damaged files, and allocate whatever size a file declares. Here the
file is refused, and nothing else happens. `stream` starts the process, as `python -m
napari_mst.base.sandbox FUNCTION FILE OPTIONS`. The process calls the function with the path of the
file and the options, and writes one line of JSON to standard output for each result, then its
numbers, and "null" after the last.

MAT-files, RAW photos, HEIC and videos are decoded so: HDF5, scipy, LibRaw, libheif and FFmpeg take
whole languages of structures from a file. Pillow, imagecodecs and LittleCMS stay in the process of
the caller: they get pixels of a size that was checked, and a separate process costs each photo 0.2
s of a processor, more than most photos take to decode. Pillow is asked only for formats that start
no other program and refer to no other file (`photo.files.FORMATS`).
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
# The least speed of decoding that is waited for, beyond the first seconds: a RAW photo of 24
# megapixels is decoded at 4 to 8 MiB a second by one core.
_BYTES_PER_SECOND = 2**19
_COMPLAINT_BYTES = 2**20
# Each reserves memory, and the process has little.
_THREADS = 8
# How Python and the system say that a process had no memory to start in.
_NO_MEMORY = re.compile(b"MemoryError|Cannot allocate memory|failed to map|can't start new thread")

ROOM_BYTES = 768 * 2**20
"""Room for Python, the libraries and their needs beside the numbers."""

SandboxAnswer = tuple[Mapping[str, Any], Iterable[Array]]
"""The result of a decoder: a description for JSON, and contiguous arrays of numbers.

The description has the `shape` and the `dtype` of the numbers. Where it has their `offset` in the
file, and their `order` ("F" or "C"), they are mapped and not sent.
"""

Refusal = Callable[[str, str], Exception]
"""Makes the error about a file from the finding and the advice."""


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

    The process is ended if a result takes longer than a time that grows with the file.

    Parameters
    ----------
    function
        `module:name`; it returns a `SandboxAnswer`, or yields several.
    options
        Values that JSON knows.

    Raises
    ------
    NapariMstError
        The process's own error, or the *refusal* of a file that crashes it or takes too long.
    MemoryError
        If it had too little memory.
    """
    # -P: a file in the working folder that is called like a module must not be run.
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
                # The libraries have read all numbers of this result.
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
    """The *line* that the process writes, None after the last; its error is raised.

    `EOFError` if there is no line.
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
    """The numbers that the process sends after the line. Raises `EOFError` if there are too few."""
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
    # Linux kills a process of a machine without memory by the signal that nothing catches.
    if os.name != "nt" and status == -signal.SIGKILL:
        return True
    complaints.seek(0)
    return status == 1 and _NO_MEMORY.search(complaints.read(_COMPLAINT_BYTES)) is not None


def limit_memory(room: int) -> None:
    """Let this process have *room* more bytes of memory, where the system has such limits.

    Windows has none. macOS has them and refuses to set them (ValueError,
    https://github.com/python/cpython/issues/78783).
    """
    with suppress(ImportError, ValueError):
        import resource

        import psutil

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        limit = psutil.Process().memory_info().vms + room
        # Nobody may raise a limit above the hard one that the machine's owner has set.
        if hard != resource.RLIM_INFINITY:
            limit = min(limit, hard)
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


def is_limited_from_outside() -> bool:
    """True if this process has all the memory that it may have: then the machine has no more.

    False if `limit_memory` refused a request beyond the size of the file.
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
        # JSON would make texts of the choices, which may be numbers, if they were keys.
        choices = list(error.choices.items())
        yield {"error": str(error), "option": error.option, "choices": choices}, ()
    except MemoryError as error:
        yield {"error": str(error), "kind": OutOfMemory.__name__}, ()
    except NapariMstError as error:
        yield {"error": str(error), "kind": type(error).__name__}, ()


def main(function: str, path: str, options: str) -> None:
    """Write the results to standard output."""
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # Output of a library must not come between the line and the numbers.
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
