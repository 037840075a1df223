"""Cubes a few rows at a time, so that memory stays bounded.

Between two strips, progress is reported and a cancel is heeded.

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
"""About how many numbers are worked on at a time: 2 MB of float64, which a processor caches."""


def new_planes(count: int, cube: SpectralCube) -> Singles:
    """Return (count, H, W) to be filled strip by strip, in a temporary file if they are large.

    Raises `OutOfMemory` if the disk has too little room.
    """
    shape = (count, *cube.shape[1:])
    if is_large(4 * math.prod(shape)):
        return mapped(shape, np.float32)
    return np.empty(shape, np.float32)


def strips(cube: SpectralCube, progress: Progress) -> Iterator[tuple[slice, Doubles]]:
    """Rows of the image and their (B, k, W) numbers as float64."""
    for rows, strip in raw_strips(cube, progress):
        yield rows, strip.astype(np.float64)


def raw_strips(
    cube: SpectralCube, progress: Progress, bands: Sequence[int] | None = None
) -> Iterator[tuple[slice, Array]]:
    """Rows of the image and their (B, k, W) numbers as they are; perhaps a view of the cube.

    Of some *bands* no others are read.
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
    """Read the usable pixels, strip by strip.

    Yields rows of the image, (k, W) True for the pixels that are numbers in all bands, and the
    (B, n) values of these pixels in the *kind* of numbers; None leaves them as they are, and may
    yield a view of the cube.
    """
    for rows, strip in raw_strips(cube, progress):
        flat = strip.reshape(len(strip), -1)
        # A sum is a number only if all of its terms are. As a product it takes a fifth of the time.
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
    """Refuse a map of fewer than two usable pixels: they have no spread. Raises `SpectrumError`."""
    if count < 2:
        raise SpectrumError(
            f"Expected two or more pixels that are numbers in all bands, got {count}."
        )
