"""What napari calls to open and to save cubes: thin, over the `FORMATS` table."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from napari import current_viewer
from napari.utils.notifications import show_warning

from napari_mst.cube import BAND_INDEX, SpectralCube
from napari_mst.errors import SaveError
from napari_mst.formats import find_format, read_cube, write_cube
from napari_mst.plugin.layers import LayerTuple, cube_layer, cube_of_data, show_wavelength

Paths = str | list[str]


def cube_reader(path: Paths) -> Callable[[Paths], list[LayerTuple]] | None:
    """What opens the cube files at *path*; None, so that napari asks another reader, if one of them is no cube file."""
    return read_layers if all(find_format(one) for one in _listed(path)) else None


def read_layers(path: Paths) -> list[LayerTuple]:
    """A cube layer for each file; raises `CubeFileError` for one that is damaged."""
    return [_read_layer(Path(one)) for one in _listed(path)]


def write_layer(path: str, data: Any, attributes: Mapping[str, Any]) -> list[str]:
    """Save an Image layer in the format of the suffix of *path*; napari has asked before it lets a file be replaced.

    Raises
    ------
    SaveError
        If the layer is not (B, H, W), or as `napari_mst.write_cube`.
    """
    cube = cube_of_data(data, attributes.get("metadata", {}))
    if cube is None and (np.ndim(data) != 3 or attributes.get("rgb")):
        raise SaveError(f"Expected a layer of (bands, rows, columns), got {np.shape(data)}. Select a cube layer.")
    cube = cube or SpectralCube(np.asarray(data), np.arange(len(data), dtype=np.float64), unit=BAND_INDEX, quantity="")
    return [str(write_cube(path, cube, overwrite=True))]


def _listed(path: Paths) -> list[str]:
    return path if isinstance(path, list) else [path]


def _read_layer(path: Path) -> LayerTuple:
    cube = read_cube(path)
    for sentence in cube.metadata.get("warnings", ()):
        show_warning(f"{path.name}: {sentence}")
    viewer = current_viewer()
    if viewer is not None:
        show_wavelength(viewer)
    return cube_layer(cube, path.stem)
