"""The spectral cube, its history, and parts of it.

`cube`        (B, H, W) numbers with their wavelengths
`provenance`  the history of a cube
`parts`       the fields of a cube, and cuts: their checks and their effect on metadata
`labelled`    the cube as an xarray array and as a HyperSpy signal
`pictures`    pictures of it
`showing`     the page shown in notebooks, and the matplotlib figure
`layer`       the cube as a napari layer
"""

from napari_mst.cube.cube import SpectralCube
from napari_mst.cube.curves import BAND_INDEX, NANOMETRES
from napari_mst.cube.provenance import Provenance

__all__ = ["BAND_INDEX", "NANOMETRES", "Provenance", "SpectralCube"]
