"""Non-local Bayes of photos: what a patch shares with its look-alikes stays, the rest is noise.

Lebrun, Buades & Morel, IPOL 3 (2013) 1, doi:10.5201/ipol.2013.16; SIAM J. Imaging Sci. 6 (2013)
1665, doi:10.1137/120874989. Like non-local means it is attention between the patches of a photo.
There a patch takes the mean of those that it attends to; here also their covariance C, by which
the noise of variance 1 is told from what varies among them:

    estimate = mean + C (C + 1)^-1 (patch - mean)

The first stage has only noisy patches, whose covariance is C + 1; the second makes groups and
covariances of the first estimate. Light is stabilised before, so that noise is equal everywhere,
and turned to opponent axes: brightness and two colours.

A tile is computed from the pixels around it alone, in one order, so that the bits of a pixel are
the same in any tile. Letters: C channels, H rows, W columns.
"""

import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from itertools import product

import numpy as np

from napari_mst.base.arrays import Array, DType, Mask, Singles
from napari_mst.base.progress import NO_PROGRESS, Progress
from napari_mst.cube.colour import linear_to_srgb
from napari_mst.cube.lazy import Lazy, cached
from napari_mst.denoising.numpy_bayes import FIRST, SECOND, estimates
from napari_mst.denoising.sensor_noise import SensorNoise
from napari_mst.engine.kernels import fault_of
from napari_mst.engine.kernels.patch_groups import PATCH, REACH, Grid, Stage
from napari_mst.engine.windows import Window, tiles, whole
from napari_mst.photo.photo import Photo

Estimate = Callable[[Singles, Singles, Singles, Grid, Stage], Singles]
"""Sums (4, h, w) of the estimates of an image, as `estimates` makes them."""

logger = logging.getLogger("napari_mst")

TILE = 128
"""Pixels along each side of the tiles that are computed by a thread, or where a pixel is read."""

STEP = 3
"""Rows and columns from one patch that makes a group to the next."""

_SEEN = 2 * REACH + PATCH - 1
"""The pixels to each side of one that decide its estimate in one stage."""

HALO = 2 * _SEEN
"""The pixels to each side of a part of a photo that decide its result."""

_OPPONENT = np.array([[1, 1, 1], [1, 0, -1], [1, -2, 1]]) / np.sqrt([[3], [2], [6]])
"""Orthonormal axes: brightness, red less blue, and green against both."""

_TILE_BYTES = 150  # for each pixel of a tile while it is computed


@dataclass(frozen=True)
class NLBayes:
    """Non-local Bayes for a photo with *strength* times its measured *noise*.

    The noise is that of the sensor, and the photo holds the values of the sensor times *gains*.
    """

    noise: SensorNoise
    strength: float = 1.0
    gains: tuple[float, float, float] = (1.0, 1.0, 1.0)

    def __str__(self) -> str:
        return (
            f"non-local Bayes, {self.strength:g} x the noise of the photo "
            f"({self.noise.codes:.1f} codes at middle grey)"
        )

    @property
    def removed(self) -> SensorNoise:
        """The noise that is removed."""
        factor = self.strength**2
        return SensorNoise(factor * self.noise.gain, factor * self.noise.floor)


def denoised_pixels(
    photo: Photo, how: NLBayes, window: Window | None = None, progress: Progress = NO_PROGRESS
) -> Array:
    """The pixels of a *window* of *photo*, or of all of it, denoised, as `kept_as` says.

    Raises
    ------
    Cancelled
        Soon after *progress* was cancelled.
    """
    window = whole(photo.shape) if window is None else window
    pixels = np.empty((3, *window.size), kept_as(photo)[0])

    def compute(part: Window) -> None:
        progress.check()
        place = Window(
            part.top + window.top,
            part.bottom + window.top,
            part.left + window.left,
            part.right + window.left,
        )
        pixels[:, part.rows, part.columns] = _tile(photo, how, place)

    parts = list(tiles(window.size, TILE, TILE))
    with ThreadPoolExecutor(os.cpu_count(), "napari-mst-denoising") as pool:
        try:
            for done, _ in enumerate(pool.map(compute, parts), start=1):
                progress.reach(done / len(parts))
        finally:
            pool.shutdown(cancel_futures=True)
    return pixels


def denoised_where_read(photo: Photo, how: NLBayes) -> Lazy:
    """Denoise *photo* like `denoised_pixels`, tile by tile as pixels are read; tiles are kept."""

    def read(channels: range, rows: range, columns: range) -> Array:
        window = Window(rows.start, rows[-1] + 1, columns.start, columns[-1] + 1)
        pixels = denoised_pixels(photo, how, window)
        return pixels[list(channels), :: rows.step, :: columns.step]

    lazy = Lazy(photo.name, photo.pixels.shape, kept_as(photo)[0], read)
    return cached(lazy, (3, TILE, TILE), 2 * TILE**2)


def kept_as(photo: Photo) -> tuple[DType, float]:
    """The type of the denoised pixels of *photo*, and the value that stands for 1.0.

    They are encoded like the photo, 8 bits in 16, since rounding a mean would add noise again.
    """
    dtype = photo.pixels.dtype
    return (
        (np.dtype(np.uint16), 257 * photo.full_scale)
        if dtype.itemsize == 1
        else (dtype, photo.full_scale)
    )


def working_bytes() -> int:
    """About the bytes of memory that `denoised_pixels` takes besides its result."""
    return (os.cpu_count() or 1) * _TILE_BYTES * (TILE + 2 * HALO) ** 2


def _tile(photo: Photo, how: NLBayes, window: Window) -> Array:
    """Denoise a *window* of *photo*; pixels that no patch reaches stay unchanged."""
    around = window.grown(HALO).clipped(photo.shape)
    near = photo.cropped(around)
    noise = how.removed
    gains = np.array(how.gains)[:, None, None]
    image = np.tensordot(_OPPONENT, noise.stabilised(near.rows(linear=True) / gains), 1)
    known = np.ones(near.shape, bool) if near.valid is None else near.valid
    edge = ((0, 0), (REACH, REACH + PATCH), (REACH, REACH + PATCH))
    noisy = np.ascontiguousarray(np.pad(image, edge), np.float32)
    barred = np.where(_may_begin(np.pad(known, edge[1:])), np.float32(0), np.float32(np.inf))
    guide = noisy
    for stage, beyond in ((FIRST, _SEEN), (SECOND, 0)):
        grid = _grid(window.grown(beyond), around, photo.shape)
        sums = fastest()(noisy, guide, barred, grid, stage)
        guide = np.where(sums[3] > 0, sums[:3] / np.maximum(sums[3], 1), noisy)
    down, across = Window(*window).inside(around)
    inner = np.s_[
        :, down.start + REACH : down.stop + REACH, across.start + REACH : across.stop + REACH
    ]
    light = gains * noise.light(np.tensordot(_OPPONENT.T, guide[inner].astype(np.float64), 1))
    is_done = known[down, across] & (sums[3:][inner][0] > 0)
    dtype, scale = kept_as(photo)
    encoded = scale * (linear_to_srgb(light) if photo.encoding == "srgb" else light)
    if dtype.kind == "u":
        encoded = np.rint(encoded.clip(0, np.iinfo(dtype).max))
    as_shot = photo.pixels[:, window.rows, window.columns] * (scale / photo.full_scale)
    return np.where(is_done, encoded, as_shot).astype(dtype)


def _may_begin(known: Mask) -> Mask:
    """(H, W): True where a patch of *known* pixels may begin."""
    result = np.zeros_like(known)
    height, width = known.shape
    result[: height - PATCH + 1, : width - PATCH + 1] = True
    for down, right in product(range(PATCH), repeat=2):
        result[: height - down, : width - right] &= known[down:, right:]
    return result


def _grid(window: Window, around: Window, shape: tuple[int, int]) -> Grid:
    """The groups that decide a *window*, in a tile that begins `REACH` before *around*."""
    seen = window.grown(REACH)
    top, bottom, left, right = seen.top - PATCH + 1, seen.bottom, seen.left - PATCH + 1, seen.right
    down, across = REACH - around.top, REACH - around.left
    last_row, last_column = (side - PATCH for side in shape)
    return Grid(
        top=max(top, 0) + down,
        bottom=min(bottom, last_row + 1) + down,
        left=max(left, 0) + across,
        right=min(right, last_column + 1) + across,
        step=STEP,
        down=down,
        across=across,
        last_row=last_row + down,
        last_column=last_column + across,
    )


@cache
def fastest() -> Estimate:
    """The fastest way to estimate."""
    if find_spec("numba") is not None:
        from napari_mst.denoising.kernel import error_of_estimates, estimates_by_kernel

        fault = fault_of(error_of_estimates)
        if not fault:
            return estimates_by_kernel
        logger.info("Photos are denoised without the compiled kernel (%s), slower.", fault)
    return estimates
