"""Cubes to learn from and to judge by."""

import numpy as np

from napari_mst.base.arrays import Singles
from napari_mst.training.scenes import Scene


def smooth_scene(rows: int = 16, columns: int = 24, turn: float = 0.0) -> Singles:
    """Reflectances between 0.1 and 0.9 that change slowly in space and wavelength."""
    along = (
        np.linspace(turn, turn + 3, 31)[:, None, None]
        + np.linspace(0, 5, columns)
        + np.linspace(0, 2, rows)[:, None]
    )
    scene: Singles = (0.5 + 0.4 * np.sin(along)).astype(np.float32)
    return scene


def scene_of(cube: Singles) -> Scene:
    return Scene("scene", cube, np.ones(cube.shape[1:], bool))
