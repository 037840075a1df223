"""Things that a test knows to be in a viewer; imported without Qt, too."""

from napari.components import ViewerModel
from napari.layers import Layer, Points

from napari_mst.cube import SpectralCube
from napari_mst.plugin.viewer import picks
from napari_mst.plugin.viewer.layers import cube_of


def cube_in(layer: Layer) -> SpectralCube:
    """The cube that *layer* is known to show."""
    cube = cube_of(layer)
    assert cube is not None
    return cube


def picks_in(viewer: ViewerModel) -> Points:
    """The layer of the picks, which is known to be there."""
    points = picks.picks_layer(viewer)
    assert points is not None
    return points
