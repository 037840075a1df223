"""The slider of the wavelengths: it tells where it stands, and a cube that opens is seen.

napari's own text of the slice (the overlay `current_slice`) is left alone: under software OpenGL it crashes napari when
the layers are cleared.
"""

import weakref
from typing import Any

from napari.components import ViewerModel
from napari.layers import Image

from napari_mst.cube import BAND_INDEX
from napari_mst.plugin.viewer.layers import active_cube_layer, band_of, cube_of, go_to

FIRST_BAND = 550.0
"""nm; the band that is shown first, where the eye is most sensitive."""


class SliderLabel:
    """Writes the wavelength of the active cube of *viewer* beside the slider, and moves that to a cube that opens."""

    def __init__(self, viewer: ViewerModel) -> None:
        self._viewer_ref = weakref.ref(viewer)
        viewer.layers.events.inserted.connect(self._on_inserted)
        viewer.layers.events.removed.connect(self.write)
        viewer.layers.selection.events.active.connect(self.write)
        viewer.dims.events.current_step.connect(self.write)
        viewer.dims.events.axis_labels.connect(
            self.write
        )  # napari writes its own when a layer is added

    def write(self, _: object = None) -> None:
        """Write the wavelength, or the number of the band; nothing where there is no cube."""
        viewer = self._viewer_ref()
        layer = None if viewer is None else active_cube_layer(viewer)
        cube = cube_of(layer)
        if viewer is None or layer is None or cube is None:
            return
        band = band_of(layer, viewer.dims.point)
        is_number = cube.unit == BAND_INDEX
        text = f"band {band}" if is_number else f"{cube.wavelengths[band]:.4g} {cube.unit}"
        told = (*viewer.dims.axis_labels[:-3], text, *viewer.dims.axis_labels[-2:])
        if viewer.dims.axis_labels != told:
            viewer.dims.axis_labels = told

    def _on_inserted(self, event: Any) -> None:
        viewer = self._viewer_ref()
        if viewer is not None:
            bring_into_view(viewer, event.value)
            self.write()


def bring_into_view(viewer: ViewerModel, layer: Any) -> None:
    """Move the slider to a band of the cube *layer*, if it stands beside all of them."""
    if cube_of(layer) is None or viewer.dims.ndisplay != 2:
        return
    band = float(layer.world_to_data(viewer.dims.point)[0])
    if not -0.5 <= band <= len(layer.data) - 0.5:
        go_to(viewer, layer, _first(layer))


def _first(layer: Image) -> float:
    """The wavelength of a cube *layer* that is shown first."""
    cube = cube_of(layer)
    if cube is None:
        raise TypeError(f"Expected a cube layer, got {layer.name!r}.")
    low, high = float(cube.wavelengths.min()), float(cube.wavelengths.max())
    is_eye = cube.has_wavelengths and low <= FIRST_BAND <= high
    return FIRST_BAND if is_eye else float(cube.wavelengths[len(cube.wavelengths) // 2])


_labels: "weakref.WeakKeyDictionary[ViewerModel, SliderLabel]" = weakref.WeakKeyDictionary()


def show_wavelength(viewer: ViewerModel) -> None:
    """Have the slider of *viewer* tell its wavelength, from now on."""
    viewer = getattr(
        viewer, "__wrapped__", viewer
    )  # napari gives a proxy, which cannot be held weakly
    if viewer not in _labels:
        _labels[viewer] = SliderLabel(viewer)
    _labels[viewer].write()
