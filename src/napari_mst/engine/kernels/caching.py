"""Compile kernels when they are first called, and keep them on disk for the next process."""

import inspect
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from numba import njit

from napari_mst.engine.kernels.kept import sources_digest

logger = logging.getLogger("napari_mst")

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
    kernel = njit(nogil=True, no_cfunc_wrapper=True, error_model="numpy")(function)
    try:
        kernel.enable_caching()
    except RuntimeError as error:
        logger.info("Compiled kernels are not kept on disk: %s", error)
    return kernel


_OF_PARTS = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "error_model": "numpy"}


def part(function: Function) -> Function:
    """A *function* that only compiled code calls: there is nothing to compile for Python."""
    return njit(**_OF_PARTS)(function)


def inlined(function: Function) -> Function:
    """A `part` that becomes code of its caller, whose loops are made vector instructions then."""
    return njit(**_OF_PARTS, forceinline=True)(function)


def is_kept(kernel: Any, signature: tuple[Any, ...]) -> bool:
    """Tell whether *kernel* is on disk for this processor, or cannot be kept there."""
    files = kernel._cache
    if not hasattr(files, "_cache_file"):
        return True
    key = files._index_key(signature, kernel.targetctx.codegen())
    return files._cache_file.load(key) is not None
