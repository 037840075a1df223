"""Wait for the kernels of the engine, which are compiled once on a machine."""

import threading
from collections.abc import Callable

from napari_mst.reconstruction.setup import Setup
from napari_mst.watch import Watch

PREPARING = "Preparing the engine for this processor: some seconds, once."

LONG = 1.5
"""Seconds after which `PREPARING` is said."""

PATIENCE = 0.1
"""Seconds between two questions whether the user has cancelled."""


def compile_kernels(setup: Setup, say: Callable[[str], None], watch: Watch) -> None:
    """Compile the kernels that the first run would have to wait for.

    *say* is told, from another thread, where that takes long. The compiler cannot be stopped: after
    a cancel it ends on its own, or with the program.
    """
    timer = threading.Timer(LONG, say, [PREPARING])
    timer.start()
    try:
        if watch.is_cancelled is None:
            setup.has_kernels()
        else:
            _compile_until_cancelled(setup, watch)
    finally:
        timer.cancel()


def _compile_until_cancelled(setup: Setup, watch: Watch) -> None:
    # A daemon, so that a program that is closed does not wait for the compiler.
    compiler = threading.Thread(target=setup.has_kernels, daemon=True)
    compiler.start()
    while compiler.is_alive():
        compiler.join(PATIENCE)
        watch.check()
