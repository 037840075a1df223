"""`blocks.attend` by a compiled kernel, within 1e-6 of it; this module imports numba."""

import numpy as np

from napari_mst.arrays import Array, Doubles
from napari_mst.denoising.blocks import Block, Tile
from napari_mst.denoising.blocks import attend as by_numpy
from napari_mst.engine.kernels.means import (
    FLOAT_BYTES,
    GROUP,
    Images,
    Place,
    attend,
    row_bytes,
    scratch_bytes,
)


class CompiledBlock:
    """A *block* as the kernel takes it, and its tiles by the kernel."""

    def __init__(self, block: Block) -> None:
        image, values = _widened(block.image), _widened(block.values)
        rest = _widened(block.image - block.image.astype(np.float32))
        taps = block.taps.astype(np.float32)
        numbers = np.array([block.free, block.scale], dtype=np.float32)
        # They are kept: the record has only their addresses.
        self._arrays = image, rest, values, taps, numbers
        self._images = Images(
            image=image.ctypes.data,
            rest=rest.ctypes.data,
            channel=image.strides[0],
            row=image.strides[1],
            channels=len(image),
            values=values.ctypes.data,
            plane=values.strides[0],
            value_row=values.strides[1],
            planes=len(values),
            taps=taps.ctypes.data,
            patch=len(taps),
            numbers=numbers.ctypes.data,
            distance=block.distance,
        )

    def attend(self, tile: Tile) -> Doubles:
        """Compute `blocks.attend`, with the same bits wherever a pixel lies in a tile."""
        place = Place(tile.top, tile.left, tile.bottom - tile.top, tile.right - tile.left)
        width = row_bytes(place.width) // FLOAT_BYTES
        totals = np.zeros((self._images.planes, place.height, width))
        scratch = np.zeros(scratch_bytes(self._images, place), dtype=np.uint8)
        attend(self._images, place, totals.ctypes.data, scratch.ctypes.data)
        return totals[..., : place.width]


def _widened(array: Doubles) -> Array:
    """*array* in float32, with zeros after each row: whole groups of vectors are read."""
    return np.pad(array, ((0, 0), (0, 0), (0, GROUP // FLOAT_BYTES))).astype(np.float32)


def largest_error() -> float:
    """The largest error of the kernel against NumPy, on a small random image."""
    generator = np.random.default_rng(0)
    image, values = generator.random((3, 15, 26)), generator.random((2, 11, 22))
    block = Block(image, values, np.array([0.25, 0.5, 0.25]), 1, -3.0, 0.1)
    tile = Tile(2, 7, 1, 20)
    return float(np.abs(CompiledBlock(block).attend(tile) - by_numpy(block, tile)).max())
