"""By how many pixels a coarse cube is off the photo of the same view.

Letters: H rows, W columns of the fine image; h, w of the coarse one.
"""

from itertools import product

import numpy as np
from numpy.typing import NDArray

from napari_mst.adaptation.blocks import blocks_of

FARTHEST = 6
"""Fine pixels that a coarse cube may be off, in each direction."""

_DARKEST = 0.01  # linear light, under the logarithm
_STEPS = (1.0, 0.5)  # pixels


def best_shift(
    light: NDArray[np.floating], coarse_light: NDArray[np.floating]
) -> tuple[float, float]:
    """The shift (rows, columns) at which *light* (3, H, W) looks most like the coarse one.

    Both are linear; a gain of the coarse one does not matter. All whole shifts are tried, then half
    ones around.
    """
    totals = _integral(light)
    logs = np.log(np.maximum(coarse_light, 0) + _DARKEST)
    reach = range(-FARTHEST, FARTHEST + 1)
    shifts = [(float(down), float(right)) for down, right in product(reach, reach)]
    tried = {shift: _difference(totals, logs, shift) for shift in shifts}
    first = min(shifts, key=tried.__getitem__)
    around = {first: tried[first]}
    for down, right in product((-_STEPS[1], 0, _STEPS[1]), repeat=2):
        near = first[0] + down, first[1] + right
        around[near] = _difference(totals, logs, near)
    return min(around, key=around.__getitem__)


def _difference(
    totals: NDArray[np.float64], logs: NDArray[np.float64], shift: tuple[float, float]
) -> float:
    """Mean difference of the logarithms, without what all pixels share."""
    shape = totals.shape[1] - 1, totals.shape[2] - 1
    blocks = blocks_of(shape, logs.shape[1:], shift)
    corners = _at(_at(totals, blocks.rows, 1), blocks.columns, 2)
    sums = np.diff(np.diff(corners, axis=1), axis=2)
    area = np.outer(np.diff(blocks.rows), np.diff(blocks.columns))
    is_whole = area > 0.5 * area.max()
    means = sums[:, is_whole] / area[is_whole]
    differences = np.log(np.maximum(means, 0) + _DARKEST) - logs[:, is_whole]
    centred = differences - np.nanmedian(differences, axis=1, keepdims=True)
    return float(np.nanmean(np.abs(centred)))


def _integral(light: NDArray[np.floating]) -> NDArray[np.float64]:
    """Sums (3, H + 1, W + 1) over all pixels above and to the left; unknown pixels are dark."""
    totals = np.zeros((3, light.shape[1] + 1, light.shape[2] + 1))
    known = np.nan_to_num(light.astype(np.float64))
    totals[:, 1:, 1:] = known.cumsum(axis=1).cumsum(axis=2)
    return totals


def _at(totals: NDArray[np.float64], edges: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    """*totals* at fractional *edges* along an *axis*, linear in between."""
    below = np.floor(edges).astype(int).clip(0, totals.shape[axis] - 2)
    shape = [1, 1, 1]
    shape[axis] = -1
    share = (edges - below).reshape(shape)
    return np.asarray(totals.take(below, axis) * (1 - share) + totals.take(below + 1, axis) * share)
