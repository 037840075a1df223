"""Wait for the kernels of the engine, which are compiled once on a machine."""

import threading
from collections.abc import Callable

from napari_mst.engine.forms import native
from napari_mst.reconstruction.setup import Setup
from napari_mst.watch import Watch

PREPARING = "Preparing the engine for this processor: some seconds, once."

PATIENCE = 0.1
"""Seconds between two looks at what the compiler does and whether the user has cancelled."""


def compile_kernels(setup: Setup, say: Callable[[str], None], watch: Watch) -> None:
    """Compile the kernels that the first run would have to wait for.

    *say* is told if there are any: to load them takes as long on a slow machine, but each time. The
    compiler cannot be stopped: after a cancel it ends on its own, or with the program.
    """
    # A daemon, so that a program that is closed does not wait for the compiler.
    compiler = threading.Thread(target=setup.has_kernels, daemon=True)
    compiler.start()
    is_said = False
    while compiler.is_alive():
        compiler.join(PATIENCE)
        watch.check()
        if not is_said and native.is_compiling():
            say(PREPARING)
            is_said = True
