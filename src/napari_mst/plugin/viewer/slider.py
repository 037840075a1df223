"""The slider of the wavelengths: it says where it stands, and moves so that a new cube is seen.

napari's own text of the slice (the overlay `current_slice`) is left alone: under software OpenGL it
crashes napari when the layers are cleared.
"""

from typing import Any

from napari.components import ViewerModel

from napari_mst.cube import BAND_INDEX, SpectralCube
from napari_mst.plugin.viewer.layers import active_cube_layer, band_of, cube_of, go_to
from napari_mst.plugin.viewer.sharing import ViewerHelper

FIRST_BAND = 550.0
"""nm; the band that is shown first, where the eye is most sensitive."""


class SliderLabel(ViewerHelper):
    """Writes the wavelength of the active cube beside the slider.

    It also moves the slider to a cube that opens.
    """

    def __init__(self, viewer: ViewerModel) -> None:
        super().__init__(viewer)
        viewer.layers.events.inserted.connect(self._on_inserted)
        viewer.layers.events.removed.connect(self.write)
        viewer.layers.selection.events.active.connect(self.write)
        viewer.dims.events.current_step.connect(self.write)
        # napari writes labels of its own when a layer is added.
        viewer.dims.events.axis_labels.connect(self.write)
        self.write()

    def write(self, _: object = None) -> None:
        """Write the wavelength, or the number of the band; nothing where there is no cube."""
        dims, layer = self.viewer.dims, active_cube_layer(self.viewer)
        cube = cube_of(layer)
        if layer is None or cube is None:
            return
        text = _band_label(cube, band_of(layer, dims.point))
        labels = (*dims.axis_labels[:-3], text, *dims.axis_labels[-2:])
        # Without this comparison, writing would call this method again, without end.
        if dims.axis_labels != labels:
            dims.axis_labels = labels

    def _on_inserted(self, event: Any) -> None:
        bring_into_view(self.viewer, event.value)
        self.write()


def _band_label(cube: SpectralCube, band: int) -> str:
    if cube.unit == BAND_INDEX:
        return f"band {band}"
    return f"{cube.wavelengths[band]:.4g} {cube.unit}"


def bring_into_view(viewer: ViewerModel, layer: Any) -> None:
    """Move the slider to a band of the cube *layer*, if it stands beside all of them."""
    cube = cube_of(layer)
    # In 3-D napari draws all bands at once, and their axis has no slider.
    if cube is None or viewer.dims.ndisplay != 2:
        return
    band = float(layer.world_to_data(viewer.dims.point)[0])
    if not -0.5 <= band <= len(layer.data) - 0.5:
        go_to(viewer, layer, _first_wavelength(cube))


def _first_wavelength(cube: SpectralCube) -> float:
    """Choose what is shown first: `FIRST_BAND` if the cube covers it, else the middle band."""
    low = float(cube.wavelengths.min())
    high = float(cube.wavelengths.max())
    if cube.has_wavelengths and low <= FIRST_BAND <= high:
        return FIRST_BAND
    return float(cube.wavelengths[len(cube.wavelengths) // 2])
