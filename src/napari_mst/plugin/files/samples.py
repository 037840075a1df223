"""File > Open Sample: a colour chart with its true spectra, and a photo.

Letters: B bands, H rows, W columns.
"""

from importlib import resources

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from napari_mst import colour
from napari_mst.cube import Provenance, SpectralCube
from napari_mst.cube.layer import LayerTuple
from napari_mst.plugin.viewer.layers import cube_layer

PATCHES = (4, 6)
"""Rows and columns of patches on the chart."""
PATCH, GAP = 72, 12
"""Pixels: the side of a patch, and the frame around it."""
FRAME_REFLECTANCE = 0.04
FALL_OFF = 0.15
"""Share of the light that is missing in the corners, relative to the centre."""


def chart() -> list[LayerTuple]:
    """Describe the colour chart as an sRGB photo, and the cube that it was rendered from."""
    cube = chart_cube()
    linear = np.clip(colour.render_srgb(cube.data, cube.wavelengths), 0, 1)
    photo = np.round(255 * colour.linear_to_srgb(linear)).astype(np.uint8)
    return [
        cube_layer(cube, "colour chart (true spectra)"),
        (np.moveaxis(photo, 0, -1), {"name": "colour chart", "rgb": True}, "image"),
    ]


def chart_cube() -> SpectralCube:
    """Render the reflectance of the 24 patches, 31 bands of 400-700 nm.

    The light falls off towards the corners, as in a photo.
    """
    with (
        resources.files("napari_mst").joinpath("data/reflectance31.npz").open("rb") as file,
        np.load(file) as stored,
    ):
        wavelengths, spectra = stored["wavelength"], stored["iset_macbethChart"]
    data = _patches(spectra.T)
    rows, columns = (np.linspace(-1, 1, side, dtype=np.float32) for side in data.shape[1:])
    light = 1 - FALL_OFF * (rows[:, None] ** 2 + columns[None] ** 2) / 2
    source = "24 measured reflectances of a colour chart (ISET, MIT licence)"
    return SpectralCube(data * light, wavelengths, provenance=Provenance(source=source))


def _patches(spectra: NDArray[np.float32]) -> NDArray[np.float32]:
    """Lay out (B, 24) spectra, listed down the columns of the chart, as (B, H, W)."""
    rows, columns = PATCHES
    pitch = PATCH + GAP
    shape = (len(spectra), rows * pitch + GAP, columns * pitch + GAP)
    data = np.full(shape, FRAME_REFLECTANCE, dtype=np.float32)
    for index, spectrum in enumerate(spectra.T):
        column, row = divmod(index, rows)
        top = GAP + pitch * row
        left = GAP + pitch * column
        data[:, top : top + PATCH, left : left + PATCH] = spectrum[:, None, None]
    return data


def coffee() -> list[LayerTuple]:
    """Describe a photo of a cup of coffee; its origin is in sample_data/README.md."""
    with (
        resources.files("napari_mst").joinpath("sample_data/coffee.jpg").open("rb") as file,
        Image.open(file) as image,
    ):
        return [(np.asarray(image), {"name": "coffee", "rgb": True}, "image")]
