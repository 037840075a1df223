"""A small picture of a cube.

Letters: B bands, H rows, W columns; h, w of the picture.
"""

import numpy as np
from numpy.typing import NDArray

from napari_mst.colour import linear_to_srgb, render_srgb
from napari_mst.cube.labelled import LabelledCube
from napari_mst.cube.units import NANOMETRES

BLUE = 450.0
RED = 650.0
"""A cube from blue to red, in nm, has enough of the visible wavelengths to tell its colours."""


def strided(data: NDArray[np.generic], side: int) -> NDArray[np.float32]:
    """Every n-th pixel of (B, H, W) *data*, so that the longer side has at most *side* pixels."""
    step = -(-max(data.shape[1:]) // side)
    return np.asarray(data[:, ::step, ::step], dtype=np.float32)


def thumbnail(sample: NDArray[np.float32], cube: LabelledCube) -> NDArray[np.uint8]:
    """The picture of the pixels *sample* (B, h, w) of *cube*.

    Reflectance over the visible wavelengths is shown in its colours under D65; other cubes are
    shown as the grey of their middle band, stretched.
    """
    covers_red_to_blue = cube.wavelengths.min() <= BLUE and cube.wavelengths.max() >= RED
    if cube.unit == NANOMETRES and cube.quantity == "reflectance" and covers_red_to_blue:
        colours = render_srgb(np.nan_to_num(sample), cube.wavelengths)
        return codes(linear_to_srgb(colours)).transpose(1, 2, 0)
    plane = sample[len(sample) // 2]
    numbers = plane[np.isfinite(plane)]
    low, high = np.percentile(numbers, (1, 99)) if numbers.size else (0.0, 1.0)
    return codes((plane - low) / ((high - low) or 1.0))


def codes(linear: NDArray[np.floating]) -> NDArray[np.uint8]:
    """Values of 0-1 as 8-bit codes; others are clipped, and no number is black."""
    clipped = np.clip(np.nan_to_num(linear), 0, 1)
    return np.asarray(np.rint(clipped * 255), dtype=np.uint8)
