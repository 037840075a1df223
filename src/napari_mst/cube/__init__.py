"""The spectral cube, its history, and parts of it.

`cube`        (B, H, W) numbers with their wavelengths
`provenance`  where they came from
`parts`       the fields of a cube, the checks of a cut, and what becomes of metadata
`labelled`    the cube as an array of xarray and a signal of HyperSpy
`pictures`    pictures of it
`showing`     the page that notebooks show, and the figure of matplotlib
`layer`       the cube as a layer of napari
"""

from napari_mst.cube.cube import SpectralCube
from napari_mst.cube.curves import BAND_INDEX, NANOMETRES
from napari_mst.cube.provenance import Provenance

__all__ = ["BAND_INDEX", "NANOMETRES", "Provenance", "SpectralCube"]
