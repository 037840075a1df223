"""The plot of spectra: curves over wavelength, the visible spectrum under them, a line at the band that is shown."""

from collections.abc import Sequence

import numpy as np
import pyqtgraph as pg
from napari.utils.theme import Theme
from numpy.typing import NDArray
from qtpy.QtCore import QPointF, Qt, Signal

from napari_mst import colour
from napari_mst.cube import NANOMETRES, SpectralCube
from napari_mst.plugin.picks import Spectrum

VISIBLE = (380, 780)
"""nm; the range of the strip of colours."""
DIM = 0.25
"""Share of the brightest wavelength below which a wavelength is drawn darker."""
STRIP_HEIGHT = 9
BOTTOM_HEIGHT, LEFT_WIDTH = 40, 54
"""Pixels for the axes: ticks and label."""


def visible_spectrum(wavelengths: NDArray[np.float64]) -> NDArray[np.uint8]:
    """The colours of monochromatic light at *wavelengths* (nm), (n, 3) sRGB.

    No screen can show them: what is negative is clipped, and each is made as bright as it gets, but for the ends of
    the spectrum, where the eye sees little.
    """
    rgb = np.clip(colour.colour_matching_functions(wavelengths) @ colour.XYZ_TO_SRGB.T, 0, None)
    rgb /= np.maximum(rgb.max(axis=1, keepdims=True), DIM * rgb.max())
    return np.round(255 * colour.linear_to_srgb(rgb)).astype(np.uint8)


class SpectraPlot(pg.GraphicsLayoutWidget):
    """Draws what it is given; `band_dragged` and `cursor_moved` tell a wavelength (None: the cursor left)."""

    band_dragged = Signal(float)
    cursor_moved = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.view = pg.ViewBox(enableMenu=False)
        self.strip = pg.ViewBox(enableMouse=False, enableMenu=False)
        self.left, self.bottom = pg.AxisItem("left"), pg.AxisItem("bottom")
        self.live = pg.PlotCurveItem(antialias=True)
        self.band = pg.InfiniteLine(angle=90, movable=True, label="", labelOpts={"position": 0.94})
        self.cursor = pg.InfiniteLine(angle=90)
        self.curves: list[pg.PlotCurveItem] = []
        self._axes: tuple[str, str, bytes] | None = None
        self._arrange()
        self.band.sigDragged.connect(lambda line: self.band_dragged.emit(line.value()))
        self.scene().sigMouseMoved.connect(self._on_mouse_moved)

    def _arrange(self) -> None:
        self.ci.layout.setSpacing(0)
        self.ci.layout.setContentsMargins(4, 8, 10, 4)
        for name, row, column in (("left", 0, 0), ("view", 0, 1), ("strip", 1, 1), ("bottom", 2, 1)):
            self.addItem(getattr(self, name), row, column)
        self.bottom.setStyle(hideOverlappingLabels=False)
        self.left.setWidth(LEFT_WIDTH)
        self.left.enableAutoSIPrefix(False)
        self.bottom.setHeight(BOTTOM_HEIGHT)
        self.left.linkToView(self.view)
        self.bottom.linkToView(self.view)
        self.strip.setXLink(self.view)
        self.strip.setFixedHeight(STRIP_HEIGHT)
        self.strip.setYRange(0, 1, padding=0)
        colours = visible_spectrum(np.arange(*VISIBLE, dtype=np.float64))
        self.colours = pg.ImageItem(colours[:, None], rect=(VISIBLE[0], 0, VISIBLE[1] - VISIBLE[0], 1))
        self.strip.addItem(self.colours)
        for item in (self.band, self.cursor, self.live):
            self.view.addItem(item, ignoreBounds=item is not self.live)
        self.band.hide()
        self.cursor.hide()

    def set_theme(self, theme: Theme) -> None:
        """Take on the colours of a napari theme."""
        text, faint, background = (part.as_hex() for part in (theme.text, theme.secondary, theme.background))
        self.setBackground(background)
        for axis in (self.left, self.bottom):
            axis.setPen(faint)
            axis.setTextPen(text)
        self.live.setPen(text, width=1.5, style=Qt.PenStyle.DashLine)
        self.band.setPen(theme.icon.as_hex(), width=1.5)
        self.band.setHoverPen(theme.icon.as_hex(), width=3)
        self.band.label.setColor(text)
        self.band.label.fill = pg.mkBrush(background)
        self.cursor.setPen(faint, style=Qt.PenStyle.DotLine)

    def set_cube(self, cube: SpectralCube | None) -> None:
        """Fit the axes to the wavelengths and the quantity of *cube*, unless they are the same as before."""
        axes = None if cube is None else (cube.unit, cube.quantity, cube.wavelengths.tobytes())
        if axes == self._axes:
            return
        self._axes = axes
        is_nm = cube is not None and cube.has_wavelengths
        self.colours.setVisible(is_nm)
        self.band.setVisible(cube is not None)
        if cube is not None:
            self.bottom.setLabel("wavelength (nm)" if is_nm else cube.unit)
            self.left.setLabel(cube.quantity or "value")
            self.band.label.setFormat("{value:.0f} nm" if cube.unit == NANOMETRES else "{value:g}")
            self.view.setXRange(cube.wavelengths.min(), cube.wavelengths.max(), padding=0.03)

    def set_band(self, wavelength: float) -> None:
        """Move the line of the band that is shown."""
        self.band.setValue(wavelength)

    def set_live(self, cube: SpectralCube | None, spectrum: Spectrum | None) -> None:
        """Draw the spectrum of *cube* that is under the mouse, or none."""
        if cube is None or spectrum is None:
            self.live.clear()
        else:
            self.live.setData(cube.wavelengths, spectrum.values)

    def set_pinned(self, cube: SpectralCube | None, spectra: Sequence[Spectrum]) -> None:
        """Draw the pinned spectra of *cube*; the curves that are there are used again."""
        wavelengths = None if cube is None else cube.wavelengths
        while len(self.curves) > len(spectra):
            self.view.removeItem(self.curves.pop())
        while len(self.curves) < len(spectra):
            self.curves.append(pg.PlotCurveItem(antialias=True))
            self.view.addItem(self.curves[-1])
        for curve, spectrum in zip(self.curves, spectra, strict=True):
            curve.setData(wavelengths, spectrum.values)
            curve.setPen(pg.mkColor([round(255 * part) for part in spectrum.colour]), width=2)

    def set_cursor(self, wavelength: float | None) -> None:
        """Draw the reading line at *wavelength*, or none."""
        self.cursor.setVisible(wavelength is not None)
        if wavelength is not None:
            self.cursor.setValue(wavelength)

    def leaveEvent(self, event: object) -> None:
        """Qt calls this when the mouse leaves the plot."""
        super().leaveEvent(event)
        self.cursor_moved.emit(None)

    def _on_mouse_moved(self, position: QPointF) -> None:
        is_inside = self.view.sceneBoundingRect().contains(position)
        self.cursor_moved.emit(self.view.mapSceneToView(position).x() if is_inside else None)
