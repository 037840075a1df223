"""Checks whether this processor has compiled kernels, and whether their results are right.

numba compiles the kernels, but does not support every processor. A process that finds them on disk
does not import numba.
"""

import functools
import logging
import platform
import subprocess
import threading
from importlib.util import find_spec
from typing import Any

from napari_mst.base.threads import torch_if_imported
from napari_mst.engine.device import name_of
from napari_mst.engine.kernels import fault_of, kept

logger = logging.getLogger("napari_mst")

# `functools.cache` alone would let two threads compile the kernels at the same time.
_preparing = threading.Lock()

_compilers: "list[subprocess.Popen[bytes]]" = []


def is_native(device: Any, dtype: Any) -> bool:
    """True if *device* is a CPU and the kernels are compiled for *dtype*, of NumPy or torch."""
    return device.type == "cpu" and name_of(dtype) == "float32"


def can_run(device: Any, dtype: Any) -> bool:
    """True if *device* is a CPU with kernels for *dtype*, which are float32.

    The first to ask waits until they are ready.
    """
    return is_native(device, dtype) and is_ready()


def is_installed() -> bool:
    """True if numba is installed; `is_ready` takes longer and checks that its kernels work."""
    return find_spec("numba") is not None


def is_ready() -> bool:
    """True if there are kernels for this processor and they compute what they should.

    The first call on a machine compiles them and compares them with torch, which takes some
    seconds; a later process takes the result for granted. Where they cannot be used, that is logged
    once, and everything is computed without them.
    """
    with _preparing:
        return check_kernels()


@functools.cache
def check_kernels() -> bool:
    """The answer of `is_ready`, computed once. Only one thread may call this at a time."""
    if not is_installed():
        return False
    if kept.are_right():
        return True
    fault = fault_of(largest_error)
    if not fault:
        kept.keep_right()
        return True
    logger.warning(
        "The kernels compiled by numba cannot be used here (%s). Running without them, slower.",
        fault,
    )
    return False


def description() -> str:
    """The processor and the layout of its kernels in words. Compiles missing kernels."""
    if not is_ready():
        return f"{platform.processor() or platform.machine()}, without compiled kernels"
    from napari_mst.engine.kernels.processor import LAYOUT, PROCESSOR

    return f"{PROCESSOR}, {LAYOUT}: vectors of {LAYOUT.lanes} numbers, {LAYOUT.vectors} at a time"


def flush_denormals() -> None:
    """Make this thread treat numbers below 1e-38 as 0: a CPU is many times slower on them."""
    torch = torch_if_imported()
    if torch is not None:
        torch.set_flush_denormal(True)
    elif is_installed():
        from napari_mst.engine.kernels.denormals import flush

        flush()


def prepare_ahead() -> None:
    """Compile missing kernels in other processes, before the first run needs them."""
    # The holder of the lock is doing this already.
    if not is_installed() or not _preparing.acquire(blocking=False):
        return
    try:
        from napari_mst.engine.kernels import ahead

        _compilers[:] = ahead.begin()
    except Exception as failure:  # noqa: BLE001 - the first run tries again, and says why
        logger.info("Kernels could not be compiled ahead: %s", failure)
    finally:
        _preparing.release()


def is_compiling() -> bool:
    """True if other processes are compiling kernels for this one."""
    return any(process.poll() is None for process in _compilers)


def largest_error() -> float:
    """The error of the kernels, relative to torch's largest value. Compiles missing kernels."""
    from napari_mst.engine.kernels import ahead

    _compilers[:] = ahead.begin()
    ahead.compile_missing()
    from napari_mst.engine.fast_paths import against_torch

    return against_torch.largest_error()
