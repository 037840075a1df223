"""The spectra of a cube beside its photo, and how blocks of their rows are worked on.

Letters: B bands, H rows, W columns, C colours.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from napari_mst.photo.photo import Photo
from napari_mst.reconstruction.consistency.cells import Cells, Difference, Floats, srgb_codes
from napari_mst.watch import Watch

T = TypeVar("T")

BLOCK_PIXELS = 1 << 14
"""Pixels of a block of rows: their spectra take 2 MB."""

THREADS = 4
"""Blocks that are worked on at a time."""


class Comparison:
    """The spectra *data* (B, H, W), the colours that they show, and those that *photo* allows.

    *response* (B, C) takes reflectance to linear light. *least* is the least half width of a cell,
    in 8-bit codes.
    """

    def __init__(
        self,
        data: Floats,
        photo: Photo,
        response: NDArray[np.float32],
        least: float,
    ) -> None:
        self.data = data
        self.photo = photo
        self.shape = photo.shape
        self.response = response
        self.cells = Cells(photo, np.full(3, least))

    def rendered(self, rows: slice) -> Floats:
        """The colours that the spectra of *rows* show (C, rows, W), in linear light."""
        # einsum rather than a matrix product: the threads of BLAS would wait for our own.
        return np.asarray(np.einsum("bc,bhw->chw", self.response, self.data[:, rows]))

    def difference(self, rows: slice) -> Difference:
        """The colours that the spectra of *rows* show, minus those of the photo."""
        return self.cells.difference(srgb_codes(self.rendered(rows)), rows)


def row_blocks(shape: tuple[int, int]) -> list[slice]:
    """Blocks of about `BLOCK_PIXELS` pixels that cover an image of *shape* (H, W)."""
    height, width = shape
    rows = max(1, BLOCK_PIXELS // width)
    return [slice(start, min(start + rows, height)) for start in range(0, height, rows)]


def each_block(work: Callable[[slice], T], blocks: list[slice], watch: Watch) -> list[T]:
    """The results of *work* for all *blocks* of rows, in their order; several run at a time."""

    def unless_cancelled(rows: slice) -> T:
        watch.check()
        return work(rows)

    results = []
    with ThreadPoolExecutor(THREADS) as threads:
        for result in threads.map(unless_cancelled, blocks):
            results.append(result)
            watch.reach(len(results) / len(blocks))
    return results
