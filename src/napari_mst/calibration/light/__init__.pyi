"""The public names of `napari_mst.calibration.light`."""

from napari_mst.calibration.balancing import white_balance as white_balance
from napari_mst.calibration.grey_scale import GreyScale as GreyScale
from napari_mst.calibration.grey_scale import calibrate_greys as calibrate_greys
from napari_mst.calibration.light.estimating import estimate_light as estimate
from napari_mst.calibration.white_patch import GreyPatch as GreyPatch
from napari_mst.calibration.white_patch import acquisition_from_patch as acquisition_from_patch

__all__ = [
    "GreyPatch",
    "GreyScale",
    "acquisition_from_patch",
    "calibrate_greys",
    "estimate",
    "white_balance",
]
