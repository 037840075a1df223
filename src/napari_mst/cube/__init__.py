"""The spectral cube, its history, and parts of it.

`cube`        (B, H, W) numbers with their wavelengths
`provenance`  where they came from
`parts`       the checks of a cut, and what becomes of metadata and region
"""

from napari_mst.cube.cube import BAND_INDEX, NANOMETRES, SpectralCube
from napari_mst.cube.provenance import Provenance

__all__ = ["BAND_INDEX", "NANOMETRES", "Provenance", "SpectralCube"]
