"""Compile kernels when they are first called, and keep them on disk for the next process."""

import hashlib
import inspect
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from numba import njit
from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    IndexDataCacheFile,
    InTreeCacheLocator,
)

logger = logging.getLogger("napari_mst")

_DIGITS = 8

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function, variant: str = "") -> Function:
    """*function* compiled, without Python's lock, and kept on disk if some folder is writable.

    What it compiles to may depend on a *variant* that its source does not show.
    """
    # numba takes a kept kernel for current as long as the file of the function itself is unchanged.
    # Ours call functions of other files, so the name under which numba keeps a kernel tells the
    # state of all files of its folder.
    folder = Path(inspect.getfile(function)).parent
    function.__qualname__ = f"{function.__qualname__}-{variant}{sources_digest(folder)}"
    # Nobody calls a kernel by its address, so the way to do so is not compiled.
    kernel: Any = njit(nogil=True, no_cfunc_wrapper=True, error_model="numpy")(function)
    try:
        kernel._cache = _KernelCache(function)
    except Exception as error:  # noqa: BLE001 - numba's own parts may change in any way
        logger.info("Compiled kernels are not kept on disk: %s", error)
    return kernel


_OF_PARTS = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "error_model": "numpy"}


def part(function: Function) -> Function:
    """A *function* that only compiled code calls: there is nothing to compile for Python."""
    return njit(**_OF_PARTS)(function)


def inlined(function: Function) -> Function:
    """A `part` that becomes code of its caller, whose loops are made vector instructions then."""
    return njit(**_OF_PARTS, forceinline=True)(function)


@cache
def sources_digest(folder: Path = Path(__file__).parent) -> str:
    """A few digits that change with any Python file of *folder*."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:_DIGITS]


def is_kept(kernel: Any, signature: tuple[Any, ...]) -> bool:
    """Tell whether *kernel* is on disk for this processor, or cannot be kept there."""
    files = kernel._cache
    return not isinstance(files, _KernelCache) or files.has(signature, kernel.targetctx)


class _BesideSource(InTreeCacheLocator):  # type: ignore[misc]
    """The folder beside the source, whether or not it is writable."""

    def ensure_cache_path(self) -> None:
        """Do nothing: kernels that came with the installation are read from there."""


class _Places(CompileResultCacheImpl):  # type: ignore[misc]
    """The folders where numba keeps code; the last is taken where none is writable."""

    _locator_classes = [*CompileResultCacheImpl._locator_classes, _BesideSource]  # noqa: RUF012


def kept(name: str, make: Callable[[], str]) -> str:
    """The text of the file *name* beside kept kernels: what the first who asks *make* of it.

    "" where nothing can be kept: nothing is made then.
    """
    try:
        locator = _Places(kept).locator
        own = Path(locator.get_cache_path()) / name
        places = own, Path(__file__).parent / "__pycache__" / name
        if not any(place.exists() for place in places):
            locator.ensure_cache_path()
            mine = own.with_suffix(f".{os.getpid()}")
            try:
                mine.write_text(make())
                # A link comes whole, and only where there is none: so the first process decides.
                with suppress(FileExistsError):
                    os.link(mine, own)
            finally:
                mine.unlink(missing_ok=True)
        return next(place.read_text() for place in places if place.exists())
    except Exception as error:  # noqa: BLE001 - a folder, or numba's own parts, may fail in any way
        logger.info("%s is not kept on disk: %s", name, error)
        return ""


class _Files:
    """The files of a kernel: those in the *own* folder are written and read, others are read."""

    def __init__(self, own: IndexDataCacheFile, beside: IndexDataCacheFile) -> None:
        self._own = own
        self._beside = beside

    def load(self, key: Any) -> Any:
        """The code that was kept for *key*, or None."""
        return self._own.load(key) or self._beside.load(key)

    def save(self, key: Any, data: Any) -> None:
        """Keep *data*, where the disk takes it."""
        with suppress(OSError):
            self._own.save(key, data)

    def flush(self) -> None:
        """Forget all that was kept."""
        self._own.flush()


class _KernelCache(FunctionCache):  # type: ignore[misc]
    """numba's own cache, which also reads what an installation has brought.

    A container may be built with its kernels compiled, and then run by somebody who may not write
    to its folders. numba itself would not look there then.
    """

    _impl_class = _Places

    def __init__(self, function: Callable[..., None]) -> None:
        super().__init__(function)
        locator = self._impl.locator
        folder = Path(inspect.getfile(function)).parent / "__pycache__"
        beside = IndexDataCacheFile(
            str(folder), self._impl.filename_base, locator.get_source_stamp()
        )
        own: Any = self._cache_file
        self._cache_file: Any = _Files(own, beside)

    def has(self, signature: tuple[Any, ...], context: Any) -> bool:
        """Tell whether code for *signature* is on disk."""
        return self._cache_file.load(self._index_key(signature, context.codegen())) is not None
