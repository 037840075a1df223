"""The attention of a network on a photo: its matrices, maps over the photo, and files of both.

Inside, `recorder` takes it while the network runs, `record` keeps it, `probe` and `overlays` make
maps of it over the photo, `sensitivity` asks which pixels a spectrum depends on, and `explorer`
brings all of this together for one photo.
"""

from napari_mst import listed

__getattr__, __all__ = listed(__name__, __loader__, __path__[0])


def __dir__():
    return __all__
