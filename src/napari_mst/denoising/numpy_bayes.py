"""Non-local Bayes of a tile in NumPy: the reference of the kernel, and its stand-in.

Letters: C channels, h, w sides of a tile, n groups, m patches of a window, k numbers of a patch.
"""

import numpy as np
from numpy.typing import NDArray

from napari_mst.base.arrays import Doubles, Mask, Singles
from napari_mst.engine.kernels.patch_groups import PATCH, REACH, Grid, Stage

FIRST = Stage(channels=1, count=40, fewest=18, flat=1100, ridge=1)
SECOND = Stage(channels=3, count=60, fewest=1, flat=0, ridge=1000)


def estimates(noisy: Singles, guide: Singles, barred: Singles, grid: Grid, stage: Stage) -> Singles:
    """The sums (4, h, w) of all estimates of each pixel and, last, their number.

    *noisy* and *guide* are (3, h, w), with `REACH` pixels and more around the image; *barred*,
    (h, w), is infinite where no patch may begin, and else 0. In NumPy: the reference of the kernel.
    """
    sums = np.zeros((4, *barred.shape))
    numbers = stage.channels * PATCH**2
    groups = np.split(np.arange(3 * PATCH**2), 3 // stage.channels)
    lefts = _places(grid.left, grid.right, grid.step, grid.across, grid.last_column)
    for y in _places(grid.top, grid.bottom, grid.step, grid.down, grid.last_row):
        xs = lefts[barred[y, lefts] == 0]
        places = y + _WINDOW[0], xs[:, None] + _WINDOW[1]
        patches, targets = _patches(guide, *places), _patches(noisy, *places)
        own = _patches(guide, np.array([y]), xs[:, None])
        distance = np.square(patches - own)[..., :numbers].sum(axis=2) + barred[places]
        limit = np.partition(distance, stage.count - 1, axis=1)[:, stage.count - 1, None]
        is_near = distance <= np.minimum(limit, np.finfo(np.float32).max)
        filtered = [_filtered(patches[..., at], targets[..., at], is_near, stage) for at in groups]
        found = np.concatenate(filtered, axis=2)[is_near].reshape(-1, 3, PATCH, PATCH)
        rows, columns = (np.broadcast_to(at, is_near.shape)[is_near] for at in places)
        # Group by group, in the order in which each pixel meets its estimates in any tile.
        pixels = rows[:, None, None] + _PIXELS[0], columns[:, None, None] + _PIXELS[1]
        for total, values in zip(sums, np.moveaxis(found, 1, 0), strict=False):
            np.add.at(total, pixels, values)
        np.add.at(sums[3], pixels, 1)
    return sums.astype(np.float32)


_WINDOW = np.indices((2 * REACH + 1, 2 * REACH + 1)).reshape(2, -1) - REACH
_PIXELS = np.indices((PATCH, PATCH))


def _places(start: int, stop: int, step: int, origin: int, last: int) -> NDArray[np.intp]:
    """The rows or columns of a grid from *start* to *stop*."""
    every = np.arange(start, stop)
    return every[((every - origin) % step == 0) | (every == last)]


def _patches(image: Singles, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> Doubles:
    """(n, m, C PATCH^2): the patches of *image* that begin at *rows* (m,), *columns* (n, m)."""
    views = np.lib.stride_tricks.sliding_window_view(image, (PATCH, PATCH), (1, 2))
    chosen = np.moveaxis(views[:, rows, columns], 0, 2)
    return chosen.reshape(*columns.shape, -1).astype(np.float64)


def _filtered(patches: Doubles, targets: Doubles, is_near: Mask, stage: Stage) -> Doubles:
    """Denoise *targets* (n, m, k), each with its group of near *patches*."""
    weight = is_near[..., None]
    count = weight.sum(axis=1, keepdims=True)
    mean = (patches * weight).sum(axis=1, keepdims=True) / count
    centred = (patches - mean) * weight
    covariance = centred.mT @ centred / np.maximum(count - 1, 1)
    variance = np.trace(covariance, axis1=1, axis2=2)[:, None, None]
    ones = np.eye(patches.shape[2])
    filtered = (targets - mean) @ (ones - np.linalg.inv(covariance + stage.ridge / 1000 * ones))
    is_flat = (variance <= stage.flat / 1000 * len(ones)) | (count < stage.fewest)
    return mean + np.where(is_flat, 0.0, filtered)
