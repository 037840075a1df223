"""The plot of spectra: curves, the visible spectrum under them, a line at the band shown."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import pyqtgraph as pg
from napari.utils.theme import Theme, get_theme
from qtpy.QtCore import QPointF, Qt, Signal
from qtpy.QtGui import QColor, QMouseEvent

from napari_mst.cube import NANOMETRES
from napari_mst.plugin.spectra.curves import (
    MARGIN,
    VISIBLE,
    CurvesItem,
    legend_html,
    pen,
    value_range,
    visible_spectrum,
)
from napari_mst.plugin.spectra.snapshot import FITTED, NO_ENTRY, Key, Line, Marker, ValueRange
from napari_mst.spectra.spectrum import Spectrum, Values

STRIP_HEIGHT = 9
"""Pixels of the strip of colours."""
BOTTOM_HEIGHT = 40
"""Pixels of the wavelength axis with its ticks and label."""
LEFT_WIDTH = 54
"""Pixels of the value axis with its ticks and label."""
LEGEND_OPACITY = 0.75
"""Opacity of the legend's background, so that its text can be read on top of curves."""
LIVE_WIDTH = 1.5
"""Pixels of the pens of live curves."""
NEAR = 8.0
"""Pixels from a curve at which a click is on it."""
NEAR_ZERO = 0.5
"""Share of the largest value below which the least one has the axis begin at zero."""


class Look(NamedTuple):
    """Everything of the plot that is another on paper."""

    theme: Theme
    background: str
    keys: Sequence[Key]
    is_legend_shown: bool


class SpectraPlot(pg.GraphicsLayoutWidget):
    """Draws the curves that it is given.

    `band_dragged` and `cursor_moved` carry a wavelength (None: no cursor), `marker_dragged`
    also the number of the marker, `bar_dragged` that of a bar (0 is red), `line_clicked` the row of
    a curve (`NO_ENTRY`: none).
    """

    band_dragged = Signal(float)
    cursor_moved = Signal(object)
    marker_dragged = Signal(int, float)
    bar_dragged = Signal(int, float)
    bar_dropped = Signal()
    line_clicked = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self.view = pg.ViewBox(enableMenu=False)
        self.strip = pg.ViewBox(enableMouse=False, enableMenu=False)
        self.left = pg.AxisItem("left")
        self.bottom = pg.AxisItem("bottom")
        self.curves = CurvesItem()
        self.lives: list[pg.PlotCurveItem] = []
        self.band = pg.InfiniteLine(angle=90, movable=True, label="", labelOpts={"position": 0.94})
        self.cursor = pg.InfiniteLine(angle=90, label="", labelOpts={"position": 0.06})
        self.markers: list[pg.InfiniteLine] = []
        self.bars: list[pg.InfiniteLine] = []
        self.legend = pg.TextItem(anchor=(1, 0))
        self.value_range = FITTED
        self._look = Look(get_theme("dark"), "", (), False)
        self._pinned_range: tuple[float, float] | None = None
        self._live_lines: tuple[Line, ...] = ()
        self._axes: tuple[str, bytes] | None = None
        self._format = "{value:.0f} nm"
        self._home = (0.0, 1.0)
        self._pressed: QPointF | None = None
        self._arrange_axes()
        self._arrange_strip()
        self._arrange_items()
        # Not "sigPositionChanged": the slider moves the line, too, and is not to be moved by it.
        self.band.sigDragged.connect(self._on_band_dragged)
        self.scene().sigMouseMoved.connect(self._on_mouse_moved)

    # ------------------------------------------------------------ layout

    def _arrange_axes(self) -> None:
        self.ci.layout.setSpacing(0)
        self.ci.layout.setContentsMargins(4, 8, 10, 4)
        self.addItem(self.left, 0, 0)
        self.addItem(self.view, 0, 1)
        self.addItem(self.strip, 1, 1)
        self.addItem(self.bottom, 2, 1)
        # pyqtgraph hides numbers that reach beyond the axis, such as one at its end.
        self.bottom.setStyle(hideOverlappingLabels=False)
        self.left.setWidth(LEFT_WIDTH)
        # Else pyqtgraph writes small values as 200 with "(x0.001)" at the axis.
        self.left.enableAutoSIPrefix(False)
        self.bottom.setHeight(BOTTOM_HEIGHT)
        self.left.linkToView(self.view)
        self.bottom.linkToView(self.view)
        self.view.setMouseEnabled(x=True, y=False)
        # The ranges are set by `set_axes` and `_fit_values`.
        self.view.disableAutoRange()

    def _arrange_strip(self) -> None:
        self.strip.setXLink(self.view)
        self.strip.setFixedHeight(STRIP_HEIGHT)
        self.strip.setYRange(0, 1, padding=0)
        first, last = VISIBLE
        colours = visible_spectrum(np.arange(first, last, dtype=np.float64))
        self.colours = pg.ImageItem(colours[:, None], rect=(first, 0, last - first, 1))
        self.strip.addItem(self.colours)

    def _arrange_items(self) -> None:
        for item in (self.curves, self.band, self.cursor):
            self.view.addItem(item, ignoreBounds=True)
        self.legend.setParentItem(self.view)
        self.legend.setZValue(10)
        self.view.sigResized.connect(self._place_legend)
        for hidden in (self.band, self.cursor, self.legend):
            hidden.hide()

    # ------------------------------------------------------------ look

    def set_theme(self, theme: Theme, background: str = "") -> None:
        """Take on the colours of a napari theme, perhaps on another *background*."""
        self._look = self._look._replace(theme=theme, background=background)
        text = theme.text.as_hex()
        faint = theme.secondary.as_hex()
        background = background or theme.background.as_hex()
        self.setBackground(background)
        for axis in (self.left, self.bottom):
            axis.setPen(faint)
            axis.setTextPen(text)
        for number, live in enumerate(self.lives):
            live.setPen(self._live_pen(number))
        self.band.setPen(theme.icon.as_hex(), width=1.5)
        self.band.setHoverPen(theme.icon.as_hex(), width=3)
        self.cursor.setPen(faint, style=Qt.PenStyle.DotLine)
        for bar in self.bars:
            bar.label.fill = pg.mkBrush(background)
        for line in (self.band, self.cursor, *self.markers):
            line.label.setColor(text)
            line.label.fill = pg.mkBrush(background)
        see_through = QColor(background)
        see_through.setAlphaF(LEGEND_OPACITY)
        self.legend.fill = pg.mkBrush(see_through)
        self.set_legend(self._look.keys, self._look.is_legend_shown)

    @contextmanager
    def as_printed(self) -> Iterator[None]:
        """Show the plot black on white with its legend, and without lines that follow the mouse."""
        look = self._look
        live = [line.spectrum for line in self._live_lines]
        guides = [line for line in (self.band, self.cursor, *self.bars) if line.isVisible()]
        self.set_live([])
        self.set_theme(get_theme("light"), "white")
        self.set_legend(look.keys, is_shown=True)
        for line in guides:
            line.hide()
        try:
            yield
        finally:
            for line in guides:
                line.show()
            self.set_legend(look.keys, look.is_legend_shown)
            self.set_theme(look.theme, look.background)
            self.set_live(live)

    def set_legend(self, keys: Sequence[Key], is_shown: bool) -> None:
        """Name the curves in the plot."""
        self._look = self._look._replace(keys=keys, is_legend_shown=is_shown)
        self.legend.setHtml(legend_html(keys, self._look.theme.text.as_hex()))
        self.legend.setVisible(is_shown and bool(keys))
        self._place_legend()

    def _place_legend(self) -> None:
        self.legend.setPos(self.view.width() - 6, 4)

    def _live_pen(self, number: int) -> object:
        return pen(QColor(self._look.theme.text.as_hex()), number, LIVE_WIDTH)

    # ------------------------------------------------------------ wavelengths

    def set_axes(self, wavelengths: Values, unit: str, label: str) -> None:
        """Fit the axes to *wavelengths* in *unit*, if these are new; *label* names the values."""
        self.left.setLabel(label)
        axes = (unit, wavelengths.tobytes())
        if axes == self._axes:  # a zoom stays
            return
        self._axes = axes
        is_nm = unit == NANOMETRES
        self.colours.setVisible(is_nm)
        self.bottom.setLabel("wavelength (nm)" if is_nm else unit)
        self._format = "{value:.0f} nm" if is_nm else "{value:g}"
        for line in (self.band, self.cursor):
            line.label.setFormat(self._format)
        # The labels of the bars have the unit, too: the bars are made again.
        self.set_bars(())
        self._home = (float(wavelengths.min()), float(wavelengths.max()))
        self.show_all_wavelengths()

    def show_all_wavelengths(self) -> None:
        """Undo a zoom of the wavelengths."""
        self.view.setXRange(*self._home, padding=0.03)

    def set_band(self, wavelength: float | None) -> None:
        """Draw the line of the band that is shown, or none."""
        _place(self.band, wavelength)

    def set_cursor(self, wavelength: float | None) -> None:
        """Draw the reading line at *wavelength*, or none."""
        _place(self.cursor, wavelength)

    def set_markers(self, markers: Sequence[Marker]) -> None:
        """Draw lines that can be dragged."""
        self._draw_lines(self.markers, markers, 0.86, self._on_marker_dragged)

    def set_bars(self, bars: Sequence[Marker]) -> None:
        """Draw the bars of red, green and blue, or none; they can be dragged."""
        if len(bars) != len(self.bars):
            self._draw_lines(self.bars, bars, 0.3, self._on_bar_dragged)
            for line in self.bars:
                line.sigPositionChangeFinished.connect(self._on_bar_dropped)
        for line, bar in zip(self.bars, bars, strict=True):
            # Under the mouse it is where the mouse is, and not at the band nearest to that.
            if not line.moving:
                line.setValue(bar.wavelength)

    def _draw_lines(
        self,
        lines: list[pg.InfiniteLine],
        markers: Sequence[Marker],
        top: float,
        on_dragged: Callable[[pg.InfiniteLine], None],
    ) -> None:
        """Put a line for each of *markers* in place of *lines*, with labels from *top* down."""
        while lines:
            self.view.removeItem(lines.pop())
        for number, marker in enumerate(markers):
            line = pg.InfiniteLine(
                marker.wavelength,
                angle=90,
                movable=True,
                pen=pg.mkPen(marker.colour, width=2),
                label=f"{marker.name} {self._format}",
                # The labels stand one below the other, also where the lines are close.
                labelOpts={"position": top - 0.08 * number, "color": marker.colour},
            )
            line.label.fill = pg.mkBrush(self._look.theme.background.as_hex())
            line.sigDragged.connect(on_dragged)
            self.view.addItem(line, ignoreBounds=True)
            lines.append(line)

    # ------------------------------------------------------------ curves

    def set_live(self, spectra: Sequence[Spectrum | None]) -> None:
        """Draw the spectra that are under the mouse, one for each cube."""
        while len(self.lives) < len(spectra):
            self._add_live()
        for live in self.lives[len(spectra) :]:
            live.clear()
        for live, spectrum in zip(self.lives, spectra, strict=False):
            if spectrum is None:
                live.clear()
            else:
                live.setData(spectrum.wavelengths, spectrum.values, connect="finite")
        self._live_lines = tuple(Line(spectrum) for spectrum in spectra if spectrum is not None)
        if not self._is_fitting():
            self._fit_values()

    def _add_live(self) -> None:
        live = pg.PlotCurveItem(antialias=True)
        # One path of a noisy spectrum takes ten times as long as its segments.
        live.setSegmentedLineMode("on")
        live.setPen(self._live_pen(len(self.lives)))
        self.view.addItem(live, ignoreBounds=True)
        self.lives.append(live)

    def set_lines(self, lines: Sequence[Line]) -> None:
        """Draw the pinned curves."""
        self.curves.set_lines(lines)
        # Remembered, as the live curves ask for it at every move of the mouse.
        self._pinned_range = self.curves.values
        self._fit_values()

    def set_value_range(self, value_range: ValueRange) -> None:
        """Fix the range of the values, fit it, or lock it as it is, so that the wheel moves it."""
        self.value_range = value_range
        self.view.setMouseEnabled(x=True, y=value_range.is_locked)
        self._fit_values()

    def _fit_values(self) -> None:
        """Show all values, unless the range is fixed or locked."""
        if self.value_range.limits is not None:
            self.view.setYRange(*self.value_range.limits, padding=0)
            return
        values = self._values()
        if self.value_range.is_locked or values is None:
            return
        low, high = values
        # An axis that nearly reaches zero may as well begin there.
        if 0 <= low < NEAR_ZERO * high:
            low = 0.0
        if high <= low:
            high = low + 1.0
        self.view.setYRange(low, high, padding=MARGIN)

    def _values(self) -> tuple[float, float] | None:
        """The least and the largest value that is drawn."""
        ranges = [self._pinned_range, value_range(self._live_lines)]
        drawn = [one for one in ranges if one is not None]
        if not drawn:
            return None
        return min(low for low, _ in drawn), max(high for _, high in drawn)

    def _is_fitting(self) -> bool:
        """True if the axis shows all values and is at most twice as long as needed.

        Such an axis stays as it is, so that it rests while the mouse moves.
        """
        values = self._values()
        if values is None:
            return True
        low, high = values
        bottom, top = self.view.viewRange()[1]
        is_inside = bottom <= low and high <= top
        needed = high - min(low, 0)
        return is_inside and 2 * needed >= top - bottom

    # ------------------------------------------------------------ mouse

    def line_at(self, position: QPointF) -> int:
        """The row of the curve nearest to a place in the scene; `NO_ENTRY` if none is near."""
        place = self.view.mapSceneToView(position)
        _, per_pixel = self.view.viewPixelSize()
        best = NO_ENTRY
        distance = NEAR * per_pixel
        # All curves are one item of the scene, so Qt cannot tell which of them is here.
        for line in self.curves.lines:
            if line.entry == NO_ENTRY:
                continue
            away = abs(_value_at(line.spectrum, place.x()) - place.y())
            if away < distance:
                best = line.entry
                distance = away
        return best

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Qt calls this when a button goes down in the plot."""
        self._pressed = QPointF(event.position())
        super().mousePressEvent(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Qt calls this when a button goes up in the plot: a click selects the curve under it."""
        super().mouseReleaseEvent(event)
        place = QPointF(event.position())
        is_left = event.button() == Qt.MouseButton.LeftButton
        if is_left and self._is_click(place) and self._is_inside(place):
            self.line_clicked.emit(self.line_at(place))

    def _is_click(self, place: QPointF) -> bool:
        """True if the mouse has hardly moved since its button went down; else it has dragged."""
        return self._pressed is not None and (place - self._pressed).manhattanLength() < NEAR / 2

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
        wavelength = None
        if self._is_inside(position):
            wavelength = self.view.mapSceneToView(position).x()
        self.cursor_moved.emit(wavelength)

    def _on_band_dragged(self, line: pg.InfiniteLine) -> None:
        self.band_dragged.emit(line.value())

    def _on_bar_dragged(self, line: pg.InfiniteLine) -> None:
        self.bar_dragged.emit(self.bars.index(line), line.value())

    def _on_bar_dropped(self, _: pg.InfiniteLine) -> None:
        self.bar_dropped.emit()

    def _on_marker_dragged(self, line: pg.InfiniteLine) -> None:
        self.marker_dragged.emit(self.markers.index(line), line.value())


def _value_at(spectrum: Spectrum, wavelength: float) -> float:
    """The value of the curve at *wavelength*, between its bands."""
    # A file may list its bands in any order, which `np.interp` does not allow.
    order = np.argsort(spectrum.wavelengths)
    return float(np.interp(wavelength, spectrum.wavelengths[order], spectrum.values[order]))


def _place(line: pg.InfiniteLine, value: float | None) -> None:
    """Show *line* at *value*, or hide it."""
    is_shown = value is not None
    # Each change draws the plot again, and this is called at every move of the mouse.
    if line.isVisible() == is_shown and (value is None or line.value() == value):
        return
    line.setVisible(is_shown)
    if value is not None:
        line.setValue(value)
        # pyqtgraph leaves the label of a line alone that has moved while it was hidden.
        line.label.valueChanged()
