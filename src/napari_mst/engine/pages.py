"""Memory in large pages for the maps of a run. Pages go back to the system after their last read.

Otherwise a whole map would stay in memory until its last row has been read, beside the map that is
computed from it.
"""

import mmap
from contextlib import suppress

import numpy as np

from napari_mst.base.arrays import Codes

HAS_PAGES = hasattr(mmap, "MADV_HUGEPAGE")
"""True on Linux, where a program can ask for large pages and give parts of memory back."""

_PAGE = 2 << 20  # bytes of a large page


class LargePages:
    """*size* bytes in large pages, so that a run does not wait for pages of 4 KB to be mapped."""

    def __init__(self, size: int) -> None:
        try:
            self._pages = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except OSError as error:
            raise MemoryError(error.strerror) from error
        with suppress(OSError):  # not every kernel has them: Linux on a Raspberry Pi 5 does not
            self._pages.madvise(mmap.MADV_HUGEPAGE)
        self.values: Codes = np.frombuffer(self._pages, np.uint8)

    def release(self, start: int, stop: int) -> None:
        """Return the whole pages from byte *start* to *stop*; their numbers are lost."""
        first, last = -(-start // _PAGE) * _PAGE, stop // _PAGE * _PAGE
        if first < last:
            self._pages.madvise(mmap.MADV_DONTNEED, first, last - first)
