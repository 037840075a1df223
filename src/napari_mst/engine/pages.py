"""Memory in large pages for the maps of a run, kept for a moment for the next run.

A virtual machine gets memory that is used for the first time from its host, which takes up to a
quarter of a run. So what a run leaves waits for the next one, as long as no less memory is free for
others, and goes back to the system as soon as none has come for a while.
"""

import mmap
import threading
from contextlib import suppress

import numpy as np

from napari_mst.base.arrays import Codes
from napari_mst.base.memory import SPARE, free_host_memory

IDLE = 20.0
"""Seconds after which unused memory is released."""

_LARGEST_WASTE = 1.25  # times what is wanted: larger blocks wait for a larger run


def huge_pages(size: int) -> Codes:
    """*size* bytes in large pages, so that a run does not wait for pages of 4 KB to be mapped."""
    try:
        pages = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError(error.strerror) from error
    with suppress(OSError):  # not every system has them: Linux on a Raspberry Pi 5 does not
        pages.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(pages, np.uint8)


class Kept:
    """Blocks of memory that nobody uses, to be taken again; safe from several threads.

    Parameters
    ----------
    idle
        Seconds after the last use when all of them are given back.
    """

    def __init__(self, idle: float = IDLE) -> None:
        self._idle = idle
        self._blocks: list[Codes] = []
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None

    @property
    def nbytes(self) -> int:
        """Bytes that are kept."""
        with self._lock:
            return sum(block.nbytes for block in self._blocks)

    def take(self, size: int) -> Codes:
        """*size* bytes or some more: the smallest block that fits, or a new one.

        Where none fits, all are given back: they are of runs of other sizes, and nobody has planned
        to have both.
        """
        with self._lock:
            fitting = [
                block for block in self._blocks if size <= block.nbytes <= _LARGEST_WASTE * size
            ]
            if fitting:
                best = min(fitting, key=lambda block: block.nbytes)
                self._blocks = [block for block in self._blocks if block is not best]
                return best
            self._blocks.clear()
        return huge_pages(size)

    def give(self, blocks: list[Codes]) -> None:
        """Keep *blocks*, which nobody uses any more: no more than stays free for others."""
        free = free_host_memory()
        with self._lock:
            self._blocks += blocks
            # The oldest are of another run, whose sizes may never come again.
            while sum(block.nbytes for block in self._blocks) > free:
                free += self._blocks.pop(0).nbytes
            self._restart()

    def clear(self) -> None:
        """Give all of them back to the system."""
        with self._lock:
            self._blocks.clear()

    def _restart(self) -> None:
        """Wait again until they are given back."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = threading.Timer(self._idle, self.clear)
        self._timer.daemon = True
        self._timer.start()


KEPT = Kept()
"""The memory that the runs of this process leave to each other."""

SPARE.append(KEPT.clear)
