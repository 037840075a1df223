"""`add_cube`: show a cube in a viewer from a script or a notebook.

napari is imported when a viewer is there, so that this module can be imported without it.
"""

from typing import TYPE_CHECKING

from napari_mst.base.errors import CubeError, shown
from napari_mst.cube import SpectralCube

if TYPE_CHECKING:
    from napari.components import ViewerModel
    from napari.layers import Image


def add_cube(viewer: "ViewerModel", cube: SpectralCube, name: str = "") -> "Image":
    """Add *cube* to *viewer*, as if its file had been opened there, and return its layer.

    The layer holds the bands, with the wavelengths on its first axis. Above it comes the picture of
    the cube, unless the user has switched pictures off, and with it the picks that were saved with
    the cube. Docks that are open list it at once.

    Parameters
    ----------
    name
        The name of the layer; by default the name of the photo that the cube was made from.

    Raises
    ------
    CubeError
        If *viewer* is no viewer of napari, or *cube* no `SpectralCube`.

    Notes
    -----
    =======  =====================================================================================
    cube     in any unit and number type; the layer holds the very same numbers
    returns  the layer of the bands; its first axis in nm where these are evenly spaced
    =======  =====================================================================================

    Examples
    --------
    >>> viewer = napari.Viewer()  # doctest: +SKIP
    >>> layer = nm.add_cube(viewer, nm.read_cube("cube.hdr"))  # doctest: +SKIP
    """
    if not isinstance(cube, SpectralCube):
        raise CubeError(
            f"Expected a SpectralCube, got {shown(type(cube).__name__)}. "
            "Make one of an array: SpectralCube(data, wavelengths)."
        )
    if not (hasattr(viewer, "layers") and hasattr(viewer, "add_image")):
        raise CubeError(
            f"Expected a viewer of napari, got {shown(type(viewer).__name__)}. "
            "Make one: napari.Viewer()."
        )
    from napari_mst.plugin.files.opening import add_layers, saved_picks
    from napari_mst.plugin.files.recognising import attend
    from napari_mst.plugin.viewer.layers import cube_layer
    from napari_mst.plugin.viewer.sharing import unwrapped

    viewer = unwrapped(viewer)
    attend(viewer)
    described = cube_layer(cube, name)
    layers = [described, *saved_picks({described[1]["name"]: cube}, viewer)]
    return add_layers(viewer, layers)[0]
