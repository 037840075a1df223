"""Reads cubes a few rows at a time, so that memory use stays bounded.

Progress is reported, and cancellation checked, between strips.

Letters: B bands, H rows, W columns; k rows of a strip; n pixels.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import DTypeLike

from napari_mst.base.arrays import Array, Doubles, Mask, Singles
from napari_mst.base.errors import SpectrumError
from napari_mst.base.progress import Progress
from napari_mst.cube import SpectralCube
from napari_mst.cube.lazy import mapped, planes_of
from napari_mst.formats.numbers import is_large

STRIP_NUMBERS = 2**18
"""Approximate number of values in a strip: 2 MB of float64, which fits into a processor's cache."""


def new_planes(count: int, cube: SpectralCube) -> Singles:
    """Return uninitialised planes (count, H, W), in a temporary file if they are large.

    Raises `OutOfMemory` if the disk lacks space.
    """
    shape = (count, *cube.shape[1:])
    if is_large(4 * math.prod(shape)):
        return mapped(shape, np.float32)
    return np.empty(shape, np.float32)


def strips(cube: SpectralCube, progress: Progress) -> Iterator[tuple[slice, Doubles]]:
    """Yield rows of the image and their values (B, k, W) as float64."""
    for rows, strip in raw_strips(cube, progress):
        yield rows, strip.astype(np.float64)


def raw_strips(
    cube: SpectralCube, progress: Progress, bands: Sequence[int] | None = None
) -> Iterator[tuple[slice, Array]]:
    """Yield rows of the image and their values (B, k, W) as stored; perhaps a view of the cube.

    With *bands*, only these bands are read.
    """
    count, height, width = cube.shape
    step = max(1, STRIP_NUMBERS // (width * (len(bands) if bands else count)))
    progress.reach(0.0)
    for start in range(0, height, step):
        rows = slice(start, min(height, start + step))
        if bands is None:
            yield rows, np.asarray(cube.data[:, rows])
        else:
            yield rows, planes_of(cube.data, bands, rows)
        progress.reach(rows.stop / height)


def pixels(
    cube: SpectralCube, progress: Progress, kind: DTypeLike | None = np.float64
) -> Iterator[tuple[slice, Mask, Array]]:
    """Yield the usable pixels, strip by strip.

    Yields rows of the image, a mask (k, W) of the pixels that are finite in all bands, and the
    values (B, n) of these pixels as the dtype *kind*. With None, values keep their dtype and may be
    a view of the cube.
    """
    for rows, strip in raw_strips(cube, progress):
        flat = strip.reshape(len(strip), -1)
        # A sum is finite only if all of its terms are. As a product it takes a fifth of the time.
        sums = np.ones(len(strip), np.result_type(strip, np.float32)) @ flat
        good = np.isfinite(sums).reshape(strip.shape[1:])
        values = flat if good.all() else strip[:, good]
        yield rows, good, values if kind is None else values.astype(kind)


def put(planes: Singles, good: Mask, values: Array) -> None:
    """Fill *planes* (m, k, W) with the *values* (m, n) of the pixels that are *good* (k, W).

    Other pixels become NaN.
    """
    if good.all():  # a mask would take longer than the computation of the values
        planes[:] = values.reshape(planes.shape)
    else:
        planes[:] = np.nan
        planes[:, good] = values


def check_enough(count: int) -> None:
    """Raise `SpectrumError` for fewer than two usable pixels, which have no spread."""
    if count < 2:
        raise SpectrumError(
            f"Expected two or more pixels that are numbers in all bands, got {count}."
        )
