"""The one way that the dock, the command line and a notebook go: photo in, spectral cube out."""

from napari_mst.reconstruction.reconstructor import Compute, PhotoLike, Reconstructor
from napari_mst.watch import Progress

__all__ = ["Compute", "PhotoLike", "Progress", "Reconstructor"]
