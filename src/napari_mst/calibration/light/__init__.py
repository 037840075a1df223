"""The light of a photo, estimated from the photo or measured on a grey surface in it.

Notes
-----
=================  =====================================================================
estimate           probabilities 0-1, relative power at 400-700 nm
white_balance      factors of linear channels; an angle in degrees
GreyPatch          pixels (row, column); reflectance above 0, to 1.5
calibrate_greys    linear light 0-1, reflectance 0-1
=================  =====================================================================
"""

from napari_mst import listed

__getattr__, __all__ = listed(__name__, __loader__, __path__[0])


def __dir__():
    return __all__
