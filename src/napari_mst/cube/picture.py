"""A small picture of a cube.

Letters: B bands, H rows, W columns; h, w of the picture.
"""

import numpy as np
from numpy.typing import NDArray

from napari_mst.cube.labelled import LabelledCube
from napari_mst.pictures import composite_of, paint


def strided(data: NDArray[np.generic], side: int) -> NDArray[np.float32]:
    """Every n-th pixel of (B, H, W) *data*, so that the longer side has at most *side* pixels."""
    step = -(-max(data.shape[1:]) // side)
    return np.asarray(data[:, ::step, ::step], dtype=np.float32)


def thumbnail(sample: NDArray[np.float32], cube: LabelledCube) -> NDArray[np.uint8]:
    """The picture of the pixels *sample* (B, h, w) of *cube*, (h, w, 3), as `composite` has it."""
    small = cube._replace(data=sample)
    return paint(small, composite_of(small))
