"""The public names of `napari_mst.light`."""

from napari_mst.light.balancing import white_balance as white_balance
from napari_mst.light.estimating import estimate_light as estimate
from napari_mst.photo.greys import GreyScale as GreyScale
from napari_mst.photo.greys import calibrate_greys as calibrate_greys
from napari_mst.photo.white import GreyPatch as GreyPatch
from napari_mst.photo.white import acquisition_from_patch as acquisition_from_patch

__all__ = [
    "GreyPatch",
    "GreyScale",
    "acquisition_from_patch",
    "calibrate_greys",
    "estimate",
    "white_balance",
]
