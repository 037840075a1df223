"""A noisy photo, corrected region by region: its pixels show their colour together.

Letters: C colours, H rows, W columns; h, w rows and columns of regions.
"""

import numpy as np

from napari_mst.arrays import Doubles, Floats, Indices, Singles
from napari_mst.reconstruction.consistency.cells import (
    Bounds,
    Cells,
    ColourCheck,
    each_block,
    linear_light,
    srgb_codes,
)
from napari_mst.reconstruction.consistency.moving import move
from napari_mst.reconstruction.consistency.noise import Noise
from napari_mst.watch import Watch

_REGION = 16  # pixels along each side: a block of JPEG whose colours have half the resolution
_KNOWN = 0.25  # share of its pixels without clipping from which on a region shows its colour


def move_regions(comparison: ColourCheck, noise: Noise, quality: Singles, watch: Watch) -> int:
    """Move what is off by more than the *noise*, and fill *quality*.

    Returns about how many pixels were moved.
    """
    height, width = comparison.shape
    strips = [slice(top, min(top + _REGION, height)) for top in range(0, height, _REGION)]
    pixel_cells = Cells(comparison.photo, noise.half)

    def compared(rows: slice) -> Doubles:
        rendered = comparison.rendered(rows)
        codes = srgb_codes(rendered)
        difference = comparison.cells.difference(codes, rows)
        quality[rows] = difference.distance
        return _region_sums(-difference.residual, codes)

    def moved(rows: slice) -> int:
        count = _move_by(comparison, rows, _between(gains, rows, width))
        if noise.is_jpeg:  # whose single pixels show nothing
            return count
        # Single pixels come after their region, which may have brought them near enough.
        singles = move(comparison, rows, comparison.rendered(rows), pixel_cells.bounds(rows))
        return max(count, singles)

    # A pixel lies between the centres of regions, so all gains have to be known before any moves.
    sums = each_block(compared, strips, watch.part(0, 0.5))
    gains = _gains(np.stack(sums, axis=1))
    return sum(each_block(moved, strips, watch.part(0.5, 1)))


def _move_by(comparison: ColourCheck, rows: slice, gain: Doubles) -> int:
    """Change the colours of *rows* by *gain* (C, rows, W) times themselves; counts those moved."""
    if not gain.any():
        return 0
    rendered = comparison.rendered(rows)
    factor = ((1 + gain) / 255).astype(rendered.dtype)
    better = linear_light(factor * srgb_codes(rendered))
    target = rendered + better - rendered.clip(0, 1)  # what lies beyond 0 to 1 stays beyond
    return move(comparison, rows, rendered, Bounds(target, target))


def _region_sums(missing: Floats, codes: Floats) -> Doubles:
    """Sums over each region of a strip, (1 + 3 C, w).

    They are the number of known pixels, and the sums of *missing* x *codes*, *codes*^2 and
    *missing*^2. *missing* (C, rows, W) is the photo minus the estimate, NaN where unknown, and
    *codes* is the estimate.
    """
    is_known = np.asarray(~np.isnan(missing).any(axis=0))
    missing = np.where(is_known, missing, 0).astype(np.float64)
    codes = np.where(is_known, codes, 0).astype(np.float64)
    products = [is_known[None], missing * codes, codes * codes, missing * missing]
    columns = np.concatenate(products).sum(axis=1)
    starts = np.arange(0, codes.shape[2], _REGION)
    return np.asarray(np.add.reduceat(columns, starts, axis=1))


def _gains(sums: Doubles) -> Doubles:
    """By which share of itself to change the estimate (C, h, w), from all `_region_sums`.

    It is the share that explains most of what is missing, in the sense of least squares, times the
    Wiener factor: what it explains is signal and noise, and what it leaves is noise.
    """
    pixels = sums[0]
    products, squares, missing = np.split(sums[1:], 3)
    tiny = np.finfo(float).tiny
    gain = products / squares.clip(tiny)
    explained = (products * gain).sum(axis=0)
    noise = missing.sum(axis=0) - explained
    factor = (1 - noise / explained.clip(tiny)).clip(0)
    is_known = pixels >= _KNOWN * _REGION**2
    return np.asarray(np.where(is_known, factor * gain, 0))


def _between(regions: Doubles, rows: slice, width: int) -> Doubles:
    """The values of *regions* (C, h, w) at every pixel of *rows*, linear between their centres.

    Returns (C, rows, *width*).
    """
    across = np.arange(width)
    down = np.arange(rows.start, rows.stop)
    return _stretched(_stretched(regions, down, axis=1), across, axis=2)


def _stretched(regions: Doubles, pixels: Indices, axis: int) -> Doubles:
    """*regions* along *axis* at *pixels* (n,), linear between the centres."""
    last = regions.shape[axis] - 1
    places = ((pixels + 0.5) / _REGION - 0.5).clip(0, last)
    before = places.astype(np.intp)
    start, stop = (regions.take(at, axis) for at in (before, np.minimum(before + 1, last)))
    share = places - before
    return np.asarray(start + (stop - start) * (share if axis == 2 else share[:, None]))
