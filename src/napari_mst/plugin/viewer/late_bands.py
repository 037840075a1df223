"""Bands of a large file for napari, which asks for them on the thread of the window.

Letters: B bands, H rows, W columns.
"""

import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from napari_mst.base.arrays import Array
from napari_mst.base.progress import Progress
from napari_mst.cube.lazy import Lazy

KEPT_BYTES = 2**26
"""Bytes of bands that are kept; the band drawn last is kept anyway."""
ROUGH_BYTES = 2**28
"""Bytes that are read for a first look at a band, where a file stores all bands of a pixel
together: a fraction of a second's worth."""
BLOCK_ROWS = 128
"""Rows that are read before the user may have moved on: two tiles of `with_neighbours`."""
PLANE = (slice(None), slice(None))


class LateBands(Lazy):
    """The same as *numbers* (B, H, W), except that napari never waits for a band.

    In place of a band that is not at hand, the last one is drawn, and `on_missing` is called, so
    that another thread calls `read`. All other callers get the numbers themselves.

    Attributes
    ----------
    wanted
        The band that napari has asked for last.
    drawn
        The band that napari was given; None before the first one was read.
    on_missing
        Called with a wanted band that is not at hand.
    """

    def __init__(self, numbers: Lazy) -> None:
        super().__init__(numbers.name, numbers.shape, numbers.dtype, numbers._of, numbers.sides)
        self.numbers = numbers
        self.wanted = 0
        self.drawn: int | None = None
        self.on_missing: Callable[[Sequence[int]], object] = len
        self._bands: dict[int, Array] = {}
        self._rough: dict[int, Array] = {}
        self._last = np.broadcast_to(np.zeros((), self.dtype), self.shape[1:])

    def __getitem__(self, key: Any) -> Any:
        # Only the function that asks tells napari from a person at its console.
        asking = str(sys._getframe(1).f_globals.get("__name__"))
        is_window = threading.current_thread() is threading.main_thread()
        if is_window and asking.startswith("napari.") and isinstance(key, tuple):
            bands = range(len(self))[key[0]] if isinstance(key[0], slice) else [key[0]]
            if len(bands) == 1 and key[1:] == PLANE:
                plane = self._drawn(bands[0])
                return plane[None] if isinstance(key[0], slice) else plane
        return super().__getitem__(key)

    def at_hand(self, band: int) -> Array | None:
        """Return the numbers (H, W) of *band*, perhaps rough ones; None if they were not read."""
        return self._bands.get(band, self._rough.get(band))

    def read(self, progress: Progress) -> None:
        """Read the wanted band, unless another one is wanted meanwhile; report a rough look."""
        band, rows = self.wanted, self.shape[1]
        together, least, _ = self.sides
        if together > 1 and least == 1 and band not in self._rough:
            # The step is large enough that `cached` need not read all of its tiles.
            step = max(9, self.nbytes // ROUGH_BYTES)
            self._rough = {band: np.repeat(self.numbers[band, ::step], step, axis=0)[:rows]}
            progress.reach(0)
        step = BLOCK_ROWS if together > 1 else rows
        plane = np.empty(self.shape[1:], self.dtype)
        for top in range(0, rows, step):
            progress.check()
            if self.wanted != band:
                return
            plane[top : top + step] = self.numbers[band, top : top + step]
        self._bands[band] = plane
        for other in list(self._bands)[: -max(1, KEPT_BYTES // plane.nbytes)]:
            del self._bands[other]

    def _drawn(self, band: int) -> Array:
        self.wanted = band
        if band not in self._bands:
            self.on_missing([band])
        found = self.at_hand(band)
        if found is not None:
            self._last, self.drawn = found, band
        return self._last
