"""`numpy_kernel.attend` and `numpy_bayes.estimates` compiled."""

import numpy as np

from napari_mst.base.arrays import Doubles, Singles
from napari_mst.denoising.numpy_bayes import FIRST, SECOND, estimates
from napari_mst.denoising.numpy_kernel import ImageBlock, Tile
from napari_mst.denoising.numpy_kernel import attend as by_numpy
from napari_mst.engine.kernels.bayes import SCRATCH, TilePlanes, add_estimates
from napari_mst.engine.kernels.non_local import Images, TilePlace, attend, scratch_numbers
from napari_mst.engine.kernels.patch_groups import REACH, Grid, Stage


class CompiledTile:
    """A *block* in the form of the kernel, which computes its tiles."""

    def __init__(self, block: ImageBlock) -> None:
        rest = block.image - block.image.astype(np.float32)
        numbers = np.array([block.free, block.scale])
        given = block.image, rest, block.values, block.taps, numbers
        # Keep the arrays alive: the record has only their addresses.
        self._arrays = [np.ascontiguousarray(each, np.float32) for each in given]
        image, of_rest, values, taps, of_numbers = (each.ctypes.data for each in self._arrays)
        self._images = Images(
            image=image,
            rest=of_rest,
            channels=block.image.shape[0],
            height=block.image.shape[1],
            width=block.image.shape[2],
            values=values,
            planes=len(block.values),
            taps=taps,
            patch=len(block.taps),
            numbers=of_numbers,
            distance=block.distance,
        )

    def attend(self, tile: Tile) -> Doubles:
        """Compute `numpy_kernel.attend`, with the same bits wherever a pixel lies in a tile."""
        place = TilePlace(tile.top, tile.left, tile.bottom - tile.top, tile.right - tile.left)
        totals = np.zeros((self._images.planes, place.height, place.width))
        scratch = np.zeros(scratch_numbers(self._images, place), np.float32)
        attend(self._images, place, totals.ctypes.data, scratch.ctypes.data)
        return totals


def largest_error() -> float:
    """The largest error of the kernel against NumPy, on a small random image."""
    generator = np.random.default_rng(0)
    image, values = generator.random((3, 13, 24)), generator.random((2, 11, 22))
    block = ImageBlock(image, values, np.array([0.25, 0.5, 0.25]), 1, -3.0, 0.1)
    tile = Tile(2, 7, 1, 20)
    return float(np.abs(CompiledTile(block).attend(tile) - by_numpy(block, tile)).max())


def estimates_by_kernel(
    noisy: Singles, guide: Singles, barred: Singles, grid: Grid, stage: Stage
) -> Singles:
    """Compute `numpy_bayes.estimates`, within 1e-5 of the largest value."""
    sums = np.zeros((4, *barred.shape), np.float32)
    scratch = np.zeros(SCRATCH, np.float32)
    planes = (each.ctypes.data for each in (noisy, guide, barred, sums))
    add_estimates(TilePlanes(*planes, *barred.shape), grid, stage, scratch.ctypes.data)
    return sums


def error_of_estimates() -> float:
    """The largest error of the kernel against NumPy, of the estimates of a small noisy image."""
    side = 12
    shape = side + 2 * REACH + 3
    noisy = np.random.default_rng(0).normal(size=(3, shape, shape)).astype(np.float32)
    noisy += 5 * np.cos(np.arange(shape, dtype=np.float32))
    barred = np.full((shape, shape), np.inf, np.float32)
    barred[REACH : REACH + side, REACH : REACH + side] = 0
    grid = Grid(REACH, REACH + side, REACH, REACH + side, 3, REACH, REACH, side, side)
    errors = []
    for stage in (FIRST, SECOND):
        given = noisy, noisy, barred, grid, stage
        expected = estimates(*given)
        errors.append(np.abs(estimates_by_kernel(*given) - expected).max() / expected.max())
    return float(max(errors))
