"""File > Open Sample: a colour chart with its true spectra, and a photo.

Both are files of the folder sample_data, whose README tells where they come from.
"""

from pathlib import Path

import numpy as np

import napari_mst
from napari_mst import colour
from napari_mst.cube.layer import LayerTuple
from napari_mst.formats import read_cube
from napari_mst.photo.files import decode_file
from napari_mst.plugin.viewer.layers import cube_layer


def sample_path(name: str) -> Path:
    """The path of a file of sample_data, in an installed package or in a clone."""
    package = Path(napari_mst.__file__).parent
    installed = package / "sample_data" / name
    return installed if installed.exists() else package.parents[1] / "sample_data" / name


def chart() -> list[LayerTuple]:
    """Describe the colour chart as an sRGB photo, and the cube that it is rendered from."""
    cube = read_cube(sample_path("chart.tif"))
    linear = np.clip(colour.render_srgb(cube.data, cube.wavelengths), 0, 1)
    photo = np.round(255 * colour.linear_to_srgb(linear)).astype(np.uint8)
    return [
        cube_layer(cube, "colour chart (true spectra)"),
        (np.moveaxis(photo, 0, -1), {"name": "colour chart", "rgb": True}, "image"),
    ]


def coffee() -> list[LayerTuple]:
    """Describe a photo of a cup of coffee."""
    pixels = decode_file(sample_path("coffee.jpg"), []).pixels
    return [(pixels, {"name": "coffee", "rgb": True}, "image")]
