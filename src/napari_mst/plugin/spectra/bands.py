"""Steps from band to band, and from the cube to its photo and back, as keys do."""

import weakref

from napari.components import ViewerModel
from napari.layers import Image
from napari.utils.notifications import show_info

from napari_mst.plugin.viewer.composites import composites_of
from napari_mst.plugin.viewer.layers import active_cube_layer, band_of, cube_of, go_to
from napari_mst.plugin.viewer.photos import photo_layers

NO_PHOTO = "There is no photo below the cube to compare with. Open it: File > Open."

_opacities: "weakref.WeakKeyDictionary[Image, float]" = weakref.WeakKeyDictionary()


def step_band(viewer: ViewerModel, step: int) -> None:
    """Show the band of the selected cube that is *step* bands on; the first and last are ends."""
    layer = active_cube_layer(viewer)
    cube = cube_of(layer)
    if layer is None or cube is None:
        return
    band = band_of(layer, viewer.dims.point) + step
    if 0 <= band < len(cube.wavelengths):
        go_to(viewer, layer, float(cube.wavelengths[band]))


def flip_to_photo(viewer: ViewerModel) -> None:
    """Show what lies below the selected cube, or the cube again.

    The cube and its picture only become transparent: it stays the one under the mouse, and its
    curves stay.
    """
    layer = active_cube_layer(viewer)
    if layer is None:
        return
    both = (layer, *composites_of(viewer, layer))
    if layer.opacity == 0:
        for one in both:
            # A picture may have been painted meanwhile.
            one.opacity = _opacities.pop(one, one.opacity or 1.0)
    elif any(photo.visible for photo in photo_layers(viewer)):
        for one in both:
            _opacities[one] = one.opacity
            one.opacity = 0
    else:
        show_info(NO_PHOTO)
