"""The attention of a network on a photo: its matrices, maps over the photo, and their files.

`recorder` captures attention while the network runs, and `record` holds it. `probe` and `overlays`
map it over the photo, `sensitivity` finds the pixels on which a spectrum depends, and `explorer`
combines all of this for one photo.
"""

from napari_mst import listed

__getattr__, __all__ = listed(__name__, __loader__, __path__[0])


def __dir__():
    return __all__
