"""The plot of spectra: curves over wavelength, the visible spectrum under them, a line at the band that is shown."""

import html
from collections.abc import Sequence

import numpy as np
import pyqtgraph as pg
from napari.utils.theme import Theme
from numpy.typing import NDArray
from qtpy.QtCore import QPointF, Qt, Signal
from qtpy.QtGui import QColor, QMouseEvent

from napari_mst import colour
from napari_mst.cube import NANOMETRES
from napari_mst.plugin.spectra.curves import MARGIN, NO_COLOUR, Curves, Line, pen, value_range
from napari_mst.spectra.spectrum import Spectrum

VISIBLE = (380, 780)
"""nm; the range of the strip of colours."""
DIM = 0.25
"""Share of the brightest wavelength below which a wavelength is drawn darker."""
STRIP_HEIGHT = 9
BOTTOM_HEIGHT, LEFT_WIDTH = 40, 54
"""Pixels for the axes: ticks and label."""
MOST_LEGEND = 20
LEGEND_OPACITY = 0.75
"""Of what is behind the legend, so that it is read on top of curves."""
NEAR = 8.0
"""Pixels from a curve at which a click is on it."""
NEAR_ZERO = 0.5
"""Share of the largest value below which the least one has the axis begin at zero."""


def visible_spectrum(wavelengths: NDArray[np.float64]) -> NDArray[np.uint8]:
    """The colours of monochromatic light at *wavelengths* (nm), (n, 3) sRGB.

    No screen can show them: what is negative is clipped, and each is made as bright as it gets, but for the ends of
    the spectrum, where the eye sees little.
    """
    rgb = np.clip(colour.colour_matching_functions(wavelengths) @ colour.XYZ_TO_SRGB.T, 0, None)
    rgb /= np.maximum(rgb.max(axis=1, keepdims=True), DIM * rgb.max())
    return np.round(255 * colour.linear_to_srgb(rgb)).astype(np.uint8)


class SpectraPlot(pg.GraphicsLayoutWidget):
    """Draws what it is given.

    `band_dragged` and `cursor_moved` tell a wavelength (None: the cursor left), `marker_dragged` also which marker,
    `line_clicked` the number of an entry (-1: none).
    """

    band_dragged = Signal(float)
    cursor_moved = Signal(object)
    marker_dragged = Signal(int, float)
    line_clicked = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self.view = pg.ViewBox(enableMenu=False)
        self.strip = pg.ViewBox(enableMouse=False, enableMenu=False)
        self.left, self.bottom = pg.AxisItem("left"), pg.AxisItem("bottom")
        self.curves = Curves()
        self.lives: list[pg.PlotCurveItem] = []
        self.band = pg.InfiniteLine(angle=90, movable=True, label="", labelOpts={"position": 0.94})
        self.cursor = pg.InfiniteLine(angle=90, label="", labelOpts={"position": 0.06})
        self.markers: list[pg.InfiniteLine] = []
        self.legend = pg.TextItem(anchor=(1, 0))
        self.y_range: tuple[float, float] | None = None
        """Fixed range of the values; None to fit it to the curves."""
        self.is_locked = False
        self._pinned_range: tuple[float, float] | None = None
        self._live_lines: tuple[Line, ...] = ()
        self._axes: tuple[str, bytes] | None = None
        self._format = "{value:.0f} nm"
        self._home = (0.0, 1.0)
        self._pressed: QPointF | None = None
        self._theme: Theme | None = None
        self._arrange()
        self.band.sigDragged.connect(self._on_band_dragged)
        self.scene().sigMouseMoved.connect(self._on_mouse_moved)

    def _arrange(self) -> None:
        self.ci.layout.setSpacing(0)
        self.ci.layout.setContentsMargins(4, 8, 10, 4)
        for name, row, column in (
            ("left", 0, 0),
            ("view", 0, 1),
            ("strip", 1, 1),
            ("bottom", 2, 1),
        ):
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
        self.view.setMouseEnabled(x=True, y=False)
        self.view.disableAutoRange()
        colours = visible_spectrum(np.arange(*VISIBLE, dtype=np.float64))
        self.colours = pg.ImageItem(
            colours[:, None], rect=(VISIBLE[0], 0, VISIBLE[1] - VISIBLE[0], 1)
        )
        self.strip.addItem(self.colours)
        for item in (self.curves, self.band, self.cursor):
            self.view.addItem(item, ignoreBounds=True)
        self.legend.setParentItem(self.view)
        self.legend.setZValue(10)
        self.view.sigResized.connect(self._place_legend)
        for hidden in (self.band, self.cursor, self.legend):
            hidden.hide()

    def set_theme(self, theme: Theme, background: str = "") -> None:
        """Take on the colours of a napari theme, perhaps on another *background*."""
        self._theme = theme
        text, faint = theme.text.as_hex(), theme.secondary.as_hex()
        background = background or theme.background.as_hex()
        self.setBackground(background)
        for axis in (self.left, self.bottom):
            axis.setPen(faint)
            axis.setTextPen(text)
        for number, live in enumerate(self.lives):
            live.setPen(pen(QColor(text), number, 1.5))
        self.band.setPen(theme.icon.as_hex(), width=1.5)
        self.band.setHoverPen(theme.icon.as_hex(), width=3)
        self.cursor.setPen(faint, style=Qt.PenStyle.DotLine)
        faded = QColor(background)
        faded.setAlphaF(LEGEND_OPACITY)
        self.legend.fill = pg.mkBrush(faded)
        for line in (self.band, self.cursor, *self.markers):
            line.label.setColor(text)
            line.label.fill = pg.mkBrush(background)

    def set_axes(self, wavelengths: NDArray[np.float64], unit: str, label: str) -> None:
        """Fit the axes to *wavelengths* in *unit*, unless they are the same as before; *label* is of the values."""
        self.left.setLabel(label)
        axes = (unit, wavelengths.tobytes())
        if axes == self._axes:
            return
        self._axes = axes
        is_nm = unit == NANOMETRES
        self.colours.setVisible(is_nm)
        self.bottom.setLabel("wavelength (nm)" if is_nm else unit)
        self._format = "{value:.0f} nm" if is_nm else "{value:g}"
        for line in (self.band, self.cursor):
            line.label.setFormat(self._format)
        self._home = (float(wavelengths.min()), float(wavelengths.max()))
        self.show_all_wavelengths()

    def show_all_wavelengths(self) -> None:
        """Undo a zoom of the wavelengths."""
        self.view.setXRange(*self._home, padding=0.03)

    def set_band(self, wavelength: float | None) -> None:
        """Draw the line of the band that is shown, or none."""
        _place(self.band, wavelength)

    def set_live(self, spectra: Sequence[Spectrum | None]) -> None:
        """Draw the spectra that are under the mouse, of one cube each."""
        while len(self.lives) < len(spectra):
            self.lives.append(pg.PlotCurveItem(antialias=True))
            self.lives[-1].setSegmentedLineMode(
                "on"
            )  # one path of a noisy spectrum takes ten times as long
            self.view.addItem(self.lives[-1], ignoreBounds=True)
            if self._theme is not None:
                self.lives[-1].setPen(
                    pen(QColor(self._theme.text.as_hex()), len(self.lives) - 1, 1.5)
                )
        for live, spectrum in zip(self.lives, [*spectra, *[None] * len(self.lives)], strict=False):
            if spectrum is None:
                live.clear()
            else:
                live.setData(spectrum.wavelengths, spectrum.values, connect="finite")
        self._live_lines = tuple(Line(spectrum) for spectrum in spectra if spectrum is not None)
        if not self._is_fitting():
            self._fit_values()

    def set_lines(self, lines: Sequence[Line]) -> None:
        """Draw the pinned curves."""
        self.curves.set_lines(lines)
        self._pinned_range = value_range(lines)
        self._fit_values()

    def _fit_values(self) -> None:
        """Show all values, unless the range is fixed or locked."""
        if self.y_range is not None:
            self.view.setYRange(*self.y_range, padding=0)
        elif not self.is_locked and (found := self._values()) is not None:
            low, high = found
            low = 0.0 if 0 <= low < NEAR_ZERO * high else low
            self.view.setYRange(low, high if high > low else low + 1.0, padding=MARGIN)

    def _values(self) -> tuple[float, float] | None:
        """The least and the largest value that is drawn."""
        ranges = [
            one for one in (self._pinned_range, value_range(self._live_lines)) if one is not None
        ]
        return (min(low for low, _ in ranges), max(high for _, high in ranges)) if ranges else None

    def _is_fitting(self) -> bool:
        """Whether the range shows all values and is at most twice as wide: it then stays calm under the mouse."""
        found, (low, high) = self._values(), self.view.viewRange()[1]
        return found is None or (
            low <= found[0] and found[1] <= high and 2 * (found[1] - min(found[0], 0)) >= high - low
        )

    def set_range(self, y_range: tuple[float, float] | None, *, is_locked: bool = False) -> None:
        """Fix the range of the values, fit it (None), or lock it as it is, so that the wheel moves it."""
        self.y_range, self.is_locked = y_range, is_locked
        self.view.setMouseEnabled(x=True, y=is_locked)
        self._fit_values()

    def set_legend(self, keys: Sequence[tuple[str, str, int]], is_shown: bool) -> None:
        """Name the curves in the plot: colour, name, number of the cube."""
        more = [f"and {len(keys) - MOST_LEGEND} more"] if len(keys) > MOST_LEGEND else []
        signs = ("&#9473;&#9473;", "&#9549;&#9549;", "&#8901;&#8901;&#8901;", "&#9473;&#8901;")
        rows = [
            f'<span style="color:{tint}">{signs[style % len(signs)]}</span>&nbsp;{html.escape(name)}'
            for tint, name, style in keys[:MOST_LEGEND]
        ]
        text = self._theme.text.as_hex() if self._theme is not None else NO_COLOUR
        self.legend.setHtml(f'<div style="color:{text}">{"<br>".join([*rows, *more])}</div>')
        self.legend.setVisible(is_shown and bool(keys))
        self._place_legend()

    def _place_legend(self) -> None:
        self.legend.setPos(self.view.width() - 6, 4)

    def set_markers(self, markers: Sequence[tuple[str, str, float]]) -> None:
        """Draw lines that can be dragged, each with a name, a colour and a wavelength."""
        while self.markers:
            self.view.removeItem(self.markers.pop())
        for number, (name, tint, wavelength) in enumerate(markers):
            options = {"position": 0.86 - 0.08 * number, "color": tint}
            line = pg.InfiniteLine(
                wavelength,
                angle=90,
                movable=True,
                pen=pg.mkPen(tint, width=2),
                label=f"{name} {self._format}",
                labelOpts=options,
            )
            line.sigDragged.connect(self._on_marker_dragged)
            self.view.addItem(line, ignoreBounds=True)
            self.markers.append(line)
        if self._theme is not None:
            for line in self.markers:
                line.label.fill = pg.mkBrush(self._theme.background.as_hex())

    def _on_band_dragged(self, line: pg.InfiniteLine) -> None:
        self.band_dragged.emit(line.value())

    def _on_marker_dragged(self, line: pg.InfiniteLine) -> None:
        self.marker_dragged.emit(self.markers.index(line), line.value())

    def set_cursor(self, wavelength: float | None) -> None:
        """Draw the reading line at *wavelength*, or none."""
        _place(self.cursor, wavelength)

    def line_at(self, position: QPointF) -> int:
        """The entry whose curve is nearest to a place of the scene; -1 if none is near."""
        x, y = (lambda at: (at.x(), at.y()))(self.view.mapSceneToView(position))
        _, per_pixel = self.view.viewPixelSize()
        best, distance = -1, NEAR * per_pixel
        for line in (one for one in self.curves.lines if one.entry >= 0):
            order = np.argsort(line.spectrum.wavelengths)
            value = np.interp(x, line.spectrum.wavelengths[order], line.spectrum.values[order])
            if abs(value - y) < distance:
                best, distance = line.entry, abs(value - y)
        return best

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Qt calls this when a button goes down in the plot."""
        self._pressed = QPointF(event.position())
        super().mousePressEvent(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Qt calls this when a button goes up in the plot: a click selects the curve under it."""
        super().mouseReleaseEvent(event)
        place = QPointF(event.position())
        is_click = (
            self._pressed is not None and (place - self._pressed).manhattanLength() < NEAR / 2
        )
        if is_click and event.button() == Qt.MouseButton.LeftButton and self._is_inside(place):
            self.line_clicked.emit(self.line_at(place))

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Qt calls this at a double click in the plot: show everything."""
        super().mouseDoubleClickEvent(event)
        self.show_all_wavelengths()

    def leaveEvent(self, event: object) -> None:
        """Qt calls this when the mouse leaves the plot."""
        super().leaveEvent(event)
        self.cursor_moved.emit(None)

    def _is_inside(self, position: QPointF) -> bool:
        return bool(self.view.sceneBoundingRect().contains(position))

    def _on_mouse_moved(self, position: QPointF) -> None:
        self.cursor_moved.emit(
            self.view.mapSceneToView(position).x() if self._is_inside(position) else None
        )


def _place(line: pg.InfiniteLine, value: float | None) -> None:
    """Show *line* at *value*, or hide it."""
    line.setVisible(value is not None)
    if value is not None:
        line.setValue(value)
        line.label.valueChanged()  # pyqtgraph leaves it out for a line that moved while it was hidden
