"""The look of single bands: the contrast of each one or of the whole cube, and its colour."""

import weakref
from typing import Any

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image
from napari.utils.colormaps import Colormap

from napari_mst.colour import XYZ_TO_SRGB, colour_matching_functions, linear_to_srgb
from napari_mst.cube.layer import COLORMAP, contrast_limits
from napari_mst.plugin.viewer.layers import band_of, cube_of
from napari_mst.plugin.viewer.remembered import recalled
from napari_mst.plugin.viewer.sharing import ViewerHelper

VISIBLE = (380.0, 780.0)
"""nm; bands beyond are shown in grey, as the eye sees no colour there."""
DIM = 0.25
"""Share of the brightest wavelength below which a wavelength is drawn darker."""
SAMPLES = 2**17
"""About how many pixels of a band are looked at, as the slider may be played."""

Limits = tuple[float, float]


class BandContrast(ViewerHelper):
    """Gives the bands of its viewer their own contrast, or the colour of their wavelength.

    At first each band has its own contrast: in that of the whole cube, most bands are dim. Limits
    that the user sets are not touched again until the switch is turned.
    """

    def __init__(self, viewer: ViewerModel) -> None:
        super().__init__(viewer)
        self._limits: weakref.WeakKeyDictionary[Image, Limits] = weakref.WeakKeyDictionary()
        self._maps: weakref.WeakKeyDictionary[Image, Any] = weakref.WeakKeyDictionary()
        kept = recalled()
        self._is_own = kept.has_own_contrast
        self._is_coloured = kept.has_own_colour
        viewer.dims.events.current_step.connect(self._on_step)
        viewer.layers.events.inserted.connect(self._on_inserted)
        for layer in viewer.layers:
            self._know(layer)
        self._on_step()

    @property
    def is_own(self) -> bool:
        """Tell whether each band has its own contrast, instead of that of the whole cube."""
        return self._is_own

    @is_own.setter
    def is_own(self, is_own: bool) -> None:
        self._is_own = is_own
        for layer in self.viewer.layers:
            # To turn the switch is to give up limits of one's own.
            if cube_of(layer) is not None:
                layer.contrast_limits = contrast_limits(layer.data)
                self._limits[layer] = _limits_of(layer)
        self._on_step()

    @property
    def is_coloured(self) -> bool:
        """Tell whether each band has the colour of its wavelength."""
        return self._is_coloured

    @is_coloured.setter
    def is_coloured(self, is_coloured: bool) -> None:
        self._is_coloured = is_coloured
        for layer, before in list(self._maps.items()):
            layer.colormap = before
        self._maps.clear()
        self._on_step()

    def _on_inserted(self, event: Any) -> None:
        self._know(event.value)
        self._on_step()

    def is_given(self, layer: Image) -> bool:
        """Tell whether the limits of *layer* are not the user's."""
        return self._limits.get(layer) == _limits_of(layer)

    def renew(self, layer: Image) -> None:
        """Take the limits that *layer* has now as those of its cube, and dress it."""
        self._limits[layer] = _limits_of(layer)
        self._on_step()

    def _know(self, layer: Any) -> None:
        # A new layer has the limits of its cube: to look for them again would take as long.
        if cube_of(layer) is not None and layer not in self._limits:
            self._limits[layer] = _limits_of(layer)

    def _on_step(self, _: object = None) -> None:
        if not (self._is_own or self._is_coloured):
            return
        for layer in self.viewer.layers:
            if cube_of(layer) is not None and self.viewer.dims.ndisplay == 2:
                self._dress(layer)

    def _dress(self, layer: Image) -> None:
        band = band_of(layer, self.viewer.dims.point)
        if self._is_own:
            self._limit(layer, band)
        if self._is_coloured:
            cube = cube_of(layer)
            self._maps.setdefault(layer, layer.colormap)
            if cube is not None:
                at = float(cube.wavelengths[band]) if cube.has_wavelengths else np.inf
                layer.colormap = colormap_of(at)

    def _limit(self, layer: Image, band: int) -> None:
        if not self.is_given(layer):
            return
        rows, columns = layer.data.shape[-2:]
        stride = max(1, int(np.sqrt(rows * columns / SAMPLES)))
        layer.contrast_limits = contrast_limits(layer.data[band : band + 1, ::stride, ::stride])
        self._limits[layer] = _limits_of(layer)


def _limits_of(layer: Image) -> Limits:
    low, high = layer.contrast_limits
    return float(low), float(high)


def colormap_of(wavelength: float) -> Colormap | str:
    """Return the colour map from black to the colour of *wavelength* (nm), and on to white.

    Grey beyond what the eye sees; the usual map of bands where a cube has no wavelengths.
    """
    if not np.isfinite(wavelength):
        return COLORMAP
    first, last = VISIBLE
    if not first <= wavelength <= last:
        return "gray"
    brightest = _rgb(np.arange(first, last)).max()
    rgb = _rgb(np.array([wavelength]))[0]
    # The eye is dull at the ends of the spectrum; half as dull still differs from the middle.
    hue = linear_to_srgb(rgb / max(float(rgb.max()), DIM * float(brightest)))
    colours = [(0, 0, 0, 1), (*hue, 1), (1, 1, 1, 1)]
    return Colormap(colours, controls=[0, 0.85, 1], name=f"{wavelength:.0f} nm")


def _rgb(wavelengths: Any) -> Any:
    return np.clip(colour_matching_functions(wavelengths) @ XYZ_TO_SRGB.T, 0, None)
