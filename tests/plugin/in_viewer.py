"""Things that a test knows to be in a viewer; imported without Qt, too."""

from typing import Any

from napari.components import ViewerModel
from napari.layers import Image, Layer, Points

from napari_mst.cube import SpectralCube
from napari_mst.plugin.viewer import picks
from napari_mst.plugin.viewer.layers import active_cube_layer, composite_of, cube_layer, cube_of
from napari_mst.plugin.viewer.placement import Placement


def add_cube(
    viewer: ViewerModel,
    cube: SpectralCube,
    name: str = "cube",
    placement: Placement | None = None,
    **changes: Any,
) -> Image:
    """Add the layer of *cube*, with *changes* to its arguments, and nothing else."""
    data, arguments, _ = cube_layer(cube, name, placement)
    return viewer.add_image(data, **{**arguments, **changes})


def cube_in(layer: Layer) -> SpectralCube:
    """The cube that *layer* is known to show."""
    cube = cube_of(layer)
    assert cube is not None
    return cube


def active_in(viewer: ViewerModel) -> Image:
    """The layer of the active cube, which is known to be there."""
    layer = active_cube_layer(viewer)
    assert layer is not None
    return layer


def picture_in(viewer: ViewerModel, layer: Image | None = None) -> Image:
    """The picture of *layer*, else of the active cube, which is known to be there."""
    picture = composite_of(viewer, layer or active_in(viewer))
    assert picture is not None
    return picture


def picks_in(viewer: ViewerModel) -> Points:
    """The layer of the picks, which is known to be there."""
    points = picks.picks_layer(viewer)
    assert points is not None
    return points
