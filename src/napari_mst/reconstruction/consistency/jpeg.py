"""A photo that was a JPEG is told by the grid of its blocks of 8 x 8 pixels.

On the grid of a JPEG many more cosine coefficients round to zero than on any other grid. Fan & de
Queiroz, IEEE Trans. Image Process. 12 (2003) 230, doi:10.1109/TIP.2002.807361, tell JPEG by its
blocks, too.
"""

import numpy as np
from numpy.typing import NDArray

from napari_mst.reconstruction.consistency.cells import Cells

BLOCK = 8
"""Pixels along each side of a block of JPEG."""

_TILE = 2 * BLOCK  # a tile of this side holds one whole block for each place that the grid can have
_TILES = 12  # along each side of the photo, that are looked at
_FEWEST_COEFFICIENTS = 200  # in all tiles, from which on they tell whether there is a grid

# Share of the coefficients that are left on the grid of JPEG, of those on the next best grid.
# Measured (lab/training_log.md): at most 0.61 at qualities 50 and 75, else at least 0.97.
_ON_GRID = 0.8

_LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)  # JFIF 1.02


def has_jpeg_grid(cells: Cells) -> bool:
    """True if the photo was a JPEG: one grid has far fewer coefficients left than the others.

    All 64 places are tried, since a region may begin anywhere.
    """
    if min(cells.shape) < _TILE:
        return False
    cosines = _cosines()
    coefficients = cosines @ _luma_tiles(cells) @ cosines.T
    # Axes: tile, row of the grid's place, row of the coefficient, and both again for columns.
    is_left = (np.abs(coefficients) >= 1).reshape(-1, BLOCK, BLOCK, BLOCK, BLOCK)
    is_left[:, :, 0, :, 0] = False  # the mean of a block tells nothing of its compression
    counts = is_left.sum(axis=(0, 2, 4)).ravel()
    fewest, next_fewest = np.partition(counts, 1)[:2]
    return bool(next_fewest >= _FEWEST_COEFFICIENTS and fewest < _ON_GRID * next_fewest)


def _luma_tiles(cells: Cells) -> NDArray[np.float32]:
    """Brightness of tiles from all over the photo, (n, _TILE, _TILE), in 8-bit codes."""
    height, width = cells.shape
    lefts = _tile_starts(width)
    tiles = []
    for top in _tile_starts(height):
        codes = np.nan_to_num(cells.codes(slice(top, top + _TILE)))
        luma = np.tensordot(_LUMA, codes, axes=1)
        tiles += [luma[:, left : left + _TILE] for left in lefts]
    return np.stack(tiles)


def _tile_starts(size: int) -> list[int]:
    """First pixels of tiles all over *size* pixels; at one place of any grid of `BLOCK`."""
    last = (size - _TILE) // BLOCK
    places = np.linspace(0, last, min(_TILES, last + 1))
    return sorted({int(place) * BLOCK for place in places})


def _cosines() -> NDArray[np.float32]:
    """The orthonormal cosines of a block, at each place that it can have in a tile.

    Returns (BLOCK x BLOCK, _TILE): for each place all cosines, each with zeros around it.
    """
    frequency = np.arange(BLOCK)[:, None]
    pixel = np.arange(BLOCK)
    block = np.cos(np.pi / BLOCK * (pixel + 0.5) * frequency) * np.sqrt(2 / BLOCK)
    block[0] /= np.sqrt(2)
    places = [np.pad(block, ((0, 0), (place, BLOCK - place))) for place in range(BLOCK)]
    return np.concatenate(places).astype(np.float32)
