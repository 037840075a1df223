"""Wait for the kernels of the engine, which are compiled once on a machine."""

import threading
from collections.abc import Callable

from napari_mst.reconstruction.setup import Setup
from napari_mst.watch import Watch

PREPARING = "Preparing the engine for this processor: some seconds, once."
LONG, PATIENCE = 1.5, 0.1
"""Seconds after which that is said, and between two questions whether it is cancelled."""


def prepare(setup: Setup, say: Callable[[str], None], watch: Watch) -> None:
    """Compile what the first run would have to wait for; *say* is told, from another thread, where that takes long.

    The compiler cannot be stopped: after a cancel it ends on its own, or with the program.
    """
    timer = threading.Timer(LONG, say, [PREPARING])
    preparing = threading.Thread(target=setup.has_kernels, daemon=True)
    timer.start()
    try:
        if watch.is_cancelled is None:
            setup.has_kernels()
            return
        preparing.start()
        while preparing.is_alive():
            preparing.join(PATIENCE)
            watch.check()
    finally:
        timer.cancel()
