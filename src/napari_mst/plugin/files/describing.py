"""The command "Wavelengths ...": a person gives the wavelengths that a layer's file lacks."""

import numpy as np
from napari import current_viewer
from napari.layers import Image
from napari.utils.notifications import show_warning

from napari_mst.formats.wavelengths import with_wavelengths
from napari_mst.plugin.files import questions
from napari_mst.plugin.files.recognising import Recogniser
from napari_mst.plugin.viewer.layers import active_cube_layer, cube_of


def set_wavelengths() -> None:
    """Ask for the wavelengths of the selected layer, a cube or any stack."""
    viewer = current_viewer()
    active = viewer.layers.selection.active if viewer is not None else None
    is_stack = isinstance(active, Image) and active.ndim == 3 and not active.rgb
    layer = active if is_stack else viewer and active_cube_layer(viewer)
    if viewer is None or layer is None:
        show_warning("There is no cube whose wavelengths could be set: select its layer.")
        return
    cube = cube_of(layer)
    stack = np.asarray(layer.data) if cube is None else cube.data
    axis = questions.likely_axis(stack.shape) if cube is None else 0
    text = questions.said_of(layer.name, stack).replace(" and no wavelengths", "")
    bands = questions.ask_bands("Describe", text, stack.shape, axis, is_axis_known=cube is not None)
    if bands is None:
        return
    if cube is None:
        described = bands.cube_of(stack)
    elif bands.wavelengths is None:
        return
    else:
        described = with_wavelengths(cube, bands.wavelengths.tolist())
    Recogniser.of(viewer).show_cube(layer, described)
