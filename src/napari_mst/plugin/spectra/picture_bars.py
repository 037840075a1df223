"""The bars R, G and B in the plot, which choose the three bands of the picture."""

import weakref

from napari.components import ViewerModel
from napari.layers import Image
from qtpy.QtCore import QObject

from napari_mst.cube import SpectralCube
from napari_mst.cube.pictures import best_bands, has_colour
from napari_mst.plugin.dock import reported
from napari_mst.plugin.jobs.composing import Colours, Composer, Wavelengths, composer_of
from napari_mst.plugin.spectra.pace import Pace
from napari_mst.plugin.spectra.plot import SpectraPlot
from napari_mst.plugin.spectra.snapshot import Marker
from napari_mst.plugin.viewer.composites import is_picture_shown
from napari_mst.plugin.viewer.layers import active_cube_layer, cube_of

NAMES = ("R", "G", "B")
TINTS = ("#e6194b", "#3cb44b", "#4d8fea")
OF_THE_EYE = (640.0, 540.0, 460.0)
"""nm; where the bars stand first on a picture in the colours that an eye sees."""
FEWEST = 3
"""Bands from which on there is something to choose."""


class PictureBars(QObject):
    """Shows the bars in *plot* while the picture of a cube of *viewer* is shown.

    While one is dragged, the picture follows coarsely; once it is dropped, it is painted in full.
    """

    def __init__(self, viewer: ViewerModel, plot: SpectraPlot) -> None:
        super().__init__(plot)
        self._composer: Composer = composer_of(viewer)
        self._plot = plot
        # Neither a viewer nor a cube may be kept alive by a dock.
        self._layer_ref: weakref.ref[Image] | None = None
        self._wanted: Wavelengths | None = None
        self._pace = Pace(self._follow, self)
        plot.bar_dragged.connect(self._on_dragged)
        plot.bar_dropped.connect(self._on_dropped)

    def draw(self, viewer: ViewerModel) -> None:
        """Draw the bars where the picture of the active cube of *viewer* has its bands."""
        layer = active_cube_layer(viewer)
        cube = cube_of(layer)
        is_shown = layer is not None and is_picture_shown(viewer, layer)
        if layer is None or cube is None or not is_shown or len(cube.wavelengths) < FEWEST:
            self._layer_ref = None
            self._plot.set_bars(())
            return
        self._layer_ref = weakref.ref(layer)
        chosen = self._composer.colours(layer).wavelengths or first_wavelengths(cube)
        bars = [Marker(*parts) for parts in zip(NAMES, TINTS, chosen, strict=True)]
        self._plot.set_bars(bars)

    def stop(self) -> None:
        """Let go of the cube."""
        self._pace.stop()
        self._layer_ref = None
        self._wanted = None
        self._plot.set_bars(())

    @property
    def _layer(self) -> Image | None:
        return None if self._layer_ref is None else self._layer_ref()

    def _on_dragged(self, number: int, wavelength: float) -> None:
        layer = self._layer
        cube = cube_of(layer)
        if layer is None or cube is None:
            return
        low, high = float(cube.wavelengths.min()), float(cube.wavelengths.max())
        chosen = self._composer.colours(layer).wavelengths or first_wavelengths(cube)
        places = list(self._wanted or chosen)
        places[number] = min(max(wavelength, low), high)
        red, green, blue = places
        self._wanted = (red, green, blue)
        self._pace.draw_at_once()

    def _follow(self) -> None:
        layer = self._layer
        if layer is not None and self._wanted is not None:
            self._composer.drag(layer, self._wanted)

    def _on_dropped(self) -> None:
        self._pace.stop()
        layer = self._layer
        wanted, self._wanted = self._wanted, None
        if layer is not None and wanted is not None:
            with reported():
                self._composer.show(layer, Colours(wanted))


def first_wavelengths(cube: SpectralCube) -> Wavelengths:
    """Return where the bars stand while nobody has dragged them, in the unit of *cube*."""
    if has_colour(cube):
        return OF_THE_EYE
    red, green, blue = (float(cube.wavelengths[band]) for band in best_bands(cube))
    return red, green, blue
