"""The spectral cube, its history, and parts of it.

`cube`        (B, H, W) numbers with their wavelengths
`provenance`  where they came from
`parts`       the checks of a cut, and what becomes of metadata and region
`labelled`    the cube as an array of xarray
`picture`     a small picture of it
`notebook`    the page that notebooks show
`figure`      the figure of matplotlib
`signal`      the cube as a signal of HyperSpy
`tensor`      tensors of other libraries as arrays
`layer`       the cube as a layer of napari
`units`       words for the unit of the spectral axis
"""

from napari_mst.cube.cube import SpectralCube
from napari_mst.cube.provenance import Provenance
from napari_mst.curves import BAND_INDEX, NANOMETRES

__all__ = ["BAND_INDEX", "NANOMETRES", "Provenance", "SpectralCube"]
