"""Compile kernels when they are first called, and keep them on disk for the next process."""

import hashlib
import inspect
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from numba import njit

_DIGITS = 8


def compiled(function: Callable[..., None]) -> Callable[..., None]:
    """*function* compiled, without Python's lock, and kept on disk if some folder is writable."""
    # numba takes a kept kernel for current as long as the file of the function itself is unchanged.
    # Ours call functions of other files, so the name under which numba keeps a kernel tells the
    # state of all files of its folder.
    folder = Path(inspect.getfile(function)).parent
    function.__qualname__ = f"{function.__qualname__}-{sources_digest(folder)}"
    try:
        return _kept(function)
    except RuntimeError:  # numba found no folder to write to
        return njit(nogil=True)(function)


def _kept(function: Callable[..., None]) -> Callable[..., None]:
    kernel: Any = njit(nogil=True, cache=True)(function)
    return kernel


@cache
def sources_digest(folder: Path = Path(__file__).parent) -> str:
    """A few digits that change with any Python file of *folder*."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:_DIGITS]
