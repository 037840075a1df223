"""Registration of two photos of one scene: where each pixel of the first lies in the second.

Phase correlation of both photos, averaged down, gives a first shift. Blocks of full resolution give
a shift each, to a twentieth of a pixel, and an affine map is fitted to those that agree. Edges are
compared, not colours, since the light differs. Guizar-Sicairos, Thurman & Fienup, Opt. Lett. 33
(2008) 156, doi:10.1364/OL.33.000156.

Letters: H rows, W columns, n blocks.
"""

from itertools import product

import numpy as np

from napari_mst.arrays import Doubles
from napari_mst.errors import PhotoError
from napari_mst.photo.photo import Photo
from napari_mst.progress import Progress

_COARSE = 250_000  # pixels of the photos that give the first shift
_BLOCKS = 8  # along each side
_SIDE = 192  # pixels of a block, at most; a quarter of the photo
_FINE = 20  # steps in a pixel
_DARK = 0.01  # linear light, under the logarithm
_FARTHEST = 4.0  # pixels from the first shift within which that of a block may lie
_ROUNDS = 5
_AGREE = 3.0  # times the median distance within which a block agrees
_LEAST = 0.15  # pixels of that distance, at least
_STIFF = 0.001  # how much the map is held to a shift where blocks say nothing

MOST_OFF = 0.5
"""Pixels by which the blocks that agree may be off in the median; see docs/two_photos.md."""
FEWEST = 0.3
"""Share of the blocks that have to agree."""


def registered(first: Photo, second: Photo, progress: Progress) -> tuple[Doubles, float]:
    """The map (2, 3) from row, column and 1 in *first* to row and column in *second*.

    Beside it is the misfit in pixels: how far the blocks that agree are off, in the median.

    Raises
    ------
    PhotoError
        If the sizes differ, or the photos do not fit onto each other.
    Cancelled
        As soon as *progress* is cancelled.
    """
    if first.shape != second.shape:
        sizes = " and ".join("{} x {}".format(*photo.shape) for photo in (first, second))
        raise PhotoError(
            f"Expected two photos of one size, got {sizes} pixels. "
            "Take both with the same camera, lens and settings."
        )
    small = [photo.reduced(_COARSE, progress) for photo in (first, second)]
    factor = np.array(first.shape) / small[0].shape
    start = factor * _displacement(*small)
    spots, found = _of_blocks(first, second, start, progress)
    design = np.column_stack([spots, np.ones(len(spots))])
    agree = np.linalg.norm(found - start, axis=1) <= _FARTHEST
    turn, off = np.zeros((3, 2)), np.full(len(spots), np.inf)
    for _ in range(_ROUNDS if agree.sum() > 1 else 0):
        used = design[agree]
        stiff = _STIFF * len(used) * np.diag([1, 1, 0])
        turn = np.linalg.solve(used.T @ used + stiff, used.T @ found[agree])
        off = np.linalg.norm(found - design @ turn, axis=1)
        agree = off <= max(_AGREE * float(np.median(off[agree])), _LEAST)
    misfit = float(np.median(off[agree])) if agree.any() else np.inf
    if misfit > MOST_OFF or agree.mean() < FEWEST:
        raise PhotoError(
            f"Expected two photos from one place, got {agree.mean():.0%} of their parts that fit, "
            f"{misfit:.1f} pixels off. Use a tripod, and let nothing move between the photos."
        )
    # From shares of the photo around its middle to pixels.
    size = max(first.shape)
    linear = np.eye(2) + turn[:2].T / size
    middle = np.array(first.shape) / 2
    return np.column_stack([linear, turn[2] - (turn[:2].T / size) @ middle]), misfit


def _of_blocks(
    first: Photo, second: Photo, start: Doubles, progress: Progress
) -> tuple[Doubles, Doubles]:
    """Middles (n, 2) of blocks, as shares from the photo's middle, and their displacements."""
    rows, columns = first.shape
    side = max(min(_SIDE, min(first.shape) // 4), min(*first.shape, 32))
    near = np.rint(start).astype(int)
    spots, found = [], []
    tops, lefts = (np.linspace(0, length - side, _BLOCKS).astype(int) for length in first.shape)
    for top, left in product(tops, lefts):
        progress.check()
        there = top + near[0], left + near[1]
        if min(there) < 0 or there[0] + side > rows or there[1] + side > columns:
            continue
        here = first.cropped((top, top + side, left, left + side))
        other = second.cropped((there[0], there[0] + side, there[1], there[1] + side))
        middle = np.array([top, left]) + side / 2 - np.array(first.shape) / 2
        spots.append(middle / max(first.shape))
        found.append(near + _displacement(here, other))
    return np.array(spots).reshape(-1, 2), np.array(found).reshape(-1, 2)


def _displacement(first: Photo, second: Photo) -> Doubles:
    """Rows and columns (2,) by which *second* shows things further down and right."""
    from skimage.registration import phase_cross_correlation

    edges = [_edges(photo) for photo in (first, second)]
    shift, *_ = phase_cross_correlation(*edges, upsample_factor=_FINE, normalization=None)
    return -np.asarray(shift, dtype=np.float64)


def _edges(photo: Photo) -> Doubles:
    """The strength (H, W) of the edges of brightness, fading out at the border."""
    light = photo.rows(linear=True).mean(axis=0, dtype=np.float64)
    slopes = np.gradient(np.log(light.clip(0) + _DARK))
    edges = np.hypot(*slopes)
    window = np.outer(*(np.hanning(length + 2)[1:-1] for length in edges.shape))
    return (edges - edges.mean()) * window
