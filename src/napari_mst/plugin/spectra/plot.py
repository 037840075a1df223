"""The plot of spectra: curves, the visible spectrum below them, and a line at the shown band."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyqtgraph as pg
from napari.utils.theme import Theme
from qtpy.QtCore import QPointF, QSignalBlocker, Qt, Signal
from qtpy.QtGui import QColor, QDragEnterEvent, QDropEvent
from qtpy.QtWidgets import QInputDialog

from napari_mst.cube import NANOMETRES
from napari_mst.plugin.spectra.drawn_curves import MARGIN, CurvesItem, ValueRange, legend_html
from napari_mst.plugin.spectra.resolve import NO_ENTRY, DrawnCurve, LegendLine, Marker
from napari_mst.plugin.viewer.bands import VISIBLE, visible_spectrum
from napari_mst.plugin.viewer.themed_plot import ThemedPlot

LOWEST = 180
"""Pixels; a plot that is lower cannot be read."""
STRIP_HEIGHT = 14
"""Height in pixels of the strip of colours, which carries the handles."""
RAIL_HEIGHT = 15
"""Pixels between the curves and the strip, for the labels of the band and of the cursor."""
BOTTOM_HEIGHT = 40
"""Pixels of the wavelength axis with its ticks and label."""
FAINT = 0.5
"""Opacity of the legend's background, which lies over curves, and of the line above a handle."""
NEAR = 8.0
"""Distance from a curve in pixels within which a click hits it."""
NEAR_ZERO = 0.5
"""The axis begins at zero if the least value is below this share of the largest."""


class SpectraPlot(ThemedPlot):
    """Draws curves, with lines that can be dragged.

    `band_dragged` and `cursor_moved` carry a wavelength (None: no cursor). `handle_dragged` also
    carries the number of the handle, or of the end of the span. `rows_clicked` carries the row of a
    curve in a list (empty: none), and `file_dropped` a path. A double click on a line asks for its
    wavelength.
    """

    band_dragged = Signal(float)
    cursor_moved = Signal(object)
    handle_dragged = Signal(int, float)
    handle_dropped = Signal()
    file_dropped = Signal(str)
    rows_clicked = Signal(list)

    def __init__(self) -> None:
        super().__init__(LOWEST)
        self.view = pg.ViewBox(enableMenu=False)
        # The lines that cross the curves, and the strip of colours below them.
        self.guides = pg.ViewBox(enableMouse=False, enableMenu=False)
        self.left = self.add_axis(self.view, 0)
        self.bottom = self.add_axis(self.view, 2, BOTTOM_HEIGHT)
        self.curves, self.live = CurvesItem(), CurvesItem(is_live=True)
        first, last = VISIBLE
        colours = np.round(255 * visible_spectrum(np.arange(first, last))).astype(np.uint8)
        self.colours = pg.ImageItem(colours[:, None])
        self.guides.addItem(self.colours, ignoreBounds=True)
        self.band, self.cursor = self._guide("", movable=True), self._guide("")
        self.handles: list[pg.InfiniteLine] = []
        self.span = pg.LinearRegionItem()
        self.legend = pg.TextItem(anchor=(1, 0))
        self._keys: Sequence[LegendLine] = ()
        self._top: float | None = None
        self._seen: ValueRange = ()
        self._axes = ("", 0.0, 1.0)
        self._arrange()
        # Not "sigPositionChanged", as the slider also moves the line, which must not move the
        # slider in turn.
        self.band.sigDragged.connect(self._on_band_dragged)
        for changed in (self.span.sigRegionChanged, self.span.sigRegionChangeFinished):
            changed.connect(self._on_span)
        self.scene().sigMouseMoved.connect(self._on_mouse_moved)
        self.scene().sigMouseClicked.connect(self._on_mouse_clicked)

    # ------------------------------------------------------------ layout

    def _arrange(self) -> None:
        self.ci.layout.setSpacing(0)
        self.ci.layout.setContentsMargins(4, 8, 10, 4)
        self.addItem(self.view, 0, 1)
        self.ci.layout.setRowFixedHeight(1, STRIP_HEIGHT + RAIL_HEIGHT)
        # pyqtgraph would hide numbers that reach beyond the axis, such as one at its end.
        self.bottom.setStyle(hideOverlappingLabels=False)
        self.view.setMouseEnabled(x=True, y=False)
        # The ranges are set by `set_axes` and `_fit_values`.
        self.view.disableAutoRange()
        for item in (self.curves, self.live, self.span):
            self.view.addItem(item, ignoreBounds=True)
        self.legend.setParentItem(self.view)
        self.legend.setZValue(10)
        # Not in the layout, which allows one item per cell. Below the view, so that the mouse finds
        # the curves first.
        self.guides.setParentItem(self.ci)
        self.guides.setXLink(self.view)
        self.guides.setZValue(-1)
        self.guides.setYRange(0, 1, padding=0)
        self.view.sigResized.connect(self._place)
        for hidden in (self.band, self.cursor, self.legend, self.span):
            hidden.hide()

    def _place(self) -> None:
        """Fit the guides to the view and the strip, and place their labels."""
        self.legend.setPos(self.view.width() - 6, 4)
        below = STRIP_HEIGHT + RAIL_HEIGHT
        self.guides.setGeometry(self.view.geometry().adjusted(0, 0, 0, below))
        self.guides.linkedViewChanged(self.view, pg.ViewBox.XAxis)
        height = max(self.guides.height(), 1.0)
        first, last = VISIBLE
        self.colours.setRect(first, 0, last - first, STRIP_HEIGHT / height)
        for line in (self.band, self.cursor):
            line.label.setPosition((STRIP_HEIGHT + RAIL_HEIGHT / 2) / height)
        for handle in self.handles:
            handle.label.setPosition(STRIP_HEIGHT / 2 / height)

    def _guide(self, label: str, **how: Any) -> pg.InfiniteLine:
        """Add a vertical line with a label beside it, on the side with room."""
        line = pg.InfiniteLine(angle=90, label=label, **how)
        line.label.textItem.document().setDocumentMargin(1)
        self.guides.addItem(line, ignoreBounds=True)
        return line

    # ------------------------------------------------------------ look

    def set_theme(self, theme: Theme) -> None:
        """See `ThemedPlot`."""
        super().set_theme(theme)
        background = theme.background.as_hex()
        text, strong = theme.text.as_hex(), theme.icon.as_hex()
        self.live.ink = text
        self.band.setPen(strong, width=1.5)
        self.band.setHoverPen(strong, width=3)
        self.cursor.setPen(theme.secondary.as_hex(), style=Qt.PenStyle.DotLine)
        for line in (self.band, self.cursor):
            line.label.setColor(text)
            line.label.fill = pg.mkBrush(background)
        self.legend.fill = pg.mkBrush(_faint(background))
        self._name(self._keys)

    @contextmanager
    def as_printed(self) -> Iterator[None]:
        """Show the plot with its legend, and without lines that follow the mouse."""
        passing = (self.guides, self.live)
        for item in passing:
            item.hide()
        self.legend.setVisible(bool(self._keys))
        try:
            with super().as_printed():
                yield
        finally:
            for item in passing:
                item.show()
            self.legend.hide()

    def set_legend(self, keys: Sequence[LegendLine]) -> None:
        """Set the legend of the printed plot; on the screen, the table names the curves."""
        if keys != self._keys:
            self._name(keys)

    def _name(self, keys: Sequence[LegendLine]) -> None:
        self._keys = keys
        self.legend.setHtml(legend_html(keys, self._theme.text.as_hex()))

    # ------------------------------------------------------------ wavelengths

    def set_axes(
        self, wavelengths: Sequence[float], unit: str, label: str, top: float | None = None
    ) -> None:
        """Fit the axes to *wavelengths* in *unit*, if they are new; *label* names the values.

        The value axis spans at least 0 to *top*; without *top*, it fits the curves.
        """
        if (label, top) != (self.left.labelText, self._top):
            relabel(self.left, label)
            self._top = top
            self._fit_values()
        axes = (unit, float(min(wavelengths)), float(max(wavelengths)))
        if axes == self._axes:  # a zoom stays
            return
        self._axes = axes
        is_nm = unit == NANOMETRES
        self.colours.setVisible(is_nm)
        relabel(self.bottom, "wavelength (nm)" if is_nm else unit)
        for line in (self.band, self.cursor):
            line.label.setFormat("{value:.0f} nm" if is_nm else "{value:g}")
        with QSignalBlocker(self.span):
            self.span.setBounds(axes[1:])
        self.show_all_wavelengths()

    def show_all_wavelengths(self) -> None:
        """Show all wavelengths again after a zoom."""
        self.view.setXRange(*self._axes[1:], padding=0.03)

    def set_guides(self, band: float | None, cursor: float | None) -> None:
        """Draw the line of the shown band and the reading line; None hides a line."""
        for line, value in ((self.band, band), (self.cursor, cursor)):
            # Each change redraws the plot, and this is called at every move of the mouse.
            if line.isVisible() != (value is not None):
                line.setVisible(value is not None)
            if value is not None and line.value() != value:
                line.setValue(value)
            # pyqtgraph does not update the label of a line that moves while it is hidden.
            line.label.valueChanged()

    def set_handles(self, markers: Sequence[Marker]) -> None:
        """Draw a line with a handle on the strip at each of *markers*."""
        if [marker.name for marker in markers] != [line.label.format for line in self.handles]:
            while self.handles:
                self.guides.removeItem(self.handles.pop())
            self.handles += map(self._added_handle, markers)
            self._place()
        for line, marker in zip(self.handles, markers, strict=True):
            line.setToolTip(f"{marker.name}: {marker.wavelength:.4g}. Drag it.")
            # A dragged line stays under the mouse rather than at the nearest band.
            if not line.moving:
                line.setValue(marker.wavelength)

    def set_span(self, ends: Sequence[float]) -> None:
        """Draw a range that can be dragged as a whole or by its *ends*; none without ends."""
        self.span.setVisible(bool(ends))
        # A dragged range stays under the mouse.
        if ends and not any(part.moving for part in (self.span, *self.span.lines)):
            with QSignalBlocker(self.span):
                self.span.setRegion(ends)

    def _added_handle(self, marker: Marker) -> pg.InfiniteLine:
        centred = {"anchors": [(0.5, 0.5)] * 2}
        how = {"pen": pg.mkPen(_faint(marker.colour)), "labelOpts": centred}
        line = self._guide(marker.name, movable=True, **how)
        line.setHoverPen(marker.colour, width=3)
        line.label.setColor("white")
        line.label.fill = pg.mkBrush(marker.colour)
        line.sigDragged.connect(self._on_handle_dragged)
        line.sigPositionChangeFinished.connect(self.handle_dropped)
        return line

    # ------------------------------------------------------------ curves

    def set_live(self, lines: Sequence[DrawnCurve]) -> None:
        """Draw the spectra under the mouse, in the style of their cubes."""
        if lines is self.live.lines:
            return
        self.live.set_lines(lines)
        seen = _around(*self._seen, *self.live.values)
        # The axis only grows while the mouse moves, so that it does not jitter.
        if seen != self._seen:
            self._seen = seen
            self._fit_values()

    def set_lines(self, lines: Sequence[DrawnCurve]) -> None:
        """Draw the pinned curves."""
        if lines is not self.curves.lines:
            self.curves.set_lines(lines)
            self._seen = ()
            self._fit_values()

    def _fit_values(self) -> None:
        """Fit the value axis to all curves, and to the spectra seen under the mouse since then."""
        whole = () if self._top is None else (0.0, self._top)
        shown = _around(*self.curves.values, *self._seen, *whole)
        if not shown:
            return
        low, high = shown
        # An axis that nearly reaches zero begins there.
        if 0 <= low < NEAR_ZERO * high:
            low = 0.0
        if high <= low:
            high = low + 1.0
        self.view.setYRange(low, high, padding=0 if shown == whole else MARGIN)

    # ------------------------------------------------------------ mouse

    def rows_at(self, position: QPointF) -> list[int]:
        """Return the row of the nearest curve to a place in the scene; [] if none is near."""
        place = self.view.mapSceneToView(position)
        _, per_pixel = self.view.viewPixelSize()
        near = []
        # All curves are one item of the scene, so Qt cannot tell which of them is here.
        for line in self.curves.lines:
            curve = line.spectrum
            # `np.interp` needs increasing wavelengths, but a file may list its bands in any order.
            order = np.argsort(curve.wavelengths)
            at = np.interp(place.x(), curve.wavelengths[order], curve.values[order])
            away = abs(at - place.y())
            if away < NEAR * per_pixel and line.entry != NO_ENTRY:
                near.append((away, line.entry))
        return [min(near)[1]] if near else []

    def _on_mouse_clicked(self, event: Any) -> None:
        """Select the curve under a click; a double click asks for a line, or shows everything."""
        if event.double():
            line = self._line_at(event.scenePos())
            self.show_all_wavelengths() if line is None else self._ask(line)
        elif event.button() == Qt.MouseButton.LeftButton and _has(self.view, event.scenePos()):
            self.rows_clicked.emit(self.rows_at(event.scenePos()))

    def _line_at(self, position: QPointF) -> pg.InfiniteLine | None:
        """Return the movable line that has itself or its label at a place in the scene."""
        there = self.scene().items(position)
        there += [item.parentItem().parentItem() for item in there if item.parentItem()]
        lines = (self.band, *self.handles, *self.span.lines)
        return next((line for line in lines if line in there), None)

    def _ask(self, line: pg.InfiniteLine) -> None:
        """Move *line* to the wavelength that the user types."""
        at, is_given = QInputDialog.getDouble(
            self, "Wavelength", "Show it at:", line.value(), *self._axes[1:], 2
        )
        if is_given:
            line.setValue(at)
            line.sigDragged.emit(line)
            line.sigPositionChangeFinished.emit(line)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        """Qt calls this when something is dragged over the plot; files are accepted."""
        event.setAccepted(event.mimeData().hasUrls())

    dragMoveEvent = dragEnterEvent  # otherwise the scene would refuse them

    def dropEvent(self, event: QDropEvent) -> None:
        """Qt calls this when files are dropped."""
        for url in event.mimeData().urls():
            self.file_dropped.emit(url.toLocalFile())

    def leaveEvent(self, event: object) -> None:
        """Qt calls this when the mouse leaves the plot."""
        super().leaveEvent(event)
        self.cursor_moved.emit(None)

    def _on_mouse_moved(self, position: QPointF) -> None:
        is_over = _has(self.guides, position)
        self.cursor_moved.emit(self.view.mapSceneToView(position).x() if is_over else None)

    def _on_band_dragged(self, line: pg.InfiniteLine) -> None:
        self.band_dragged.emit(line.value())

    def _on_handle_dragged(self, line: pg.InfiniteLine) -> None:
        self.handle_dragged.emit(self.handles.index(line), line.value())

    def _on_span(self) -> None:
        for number, wavelength in enumerate(self.span.getRegion()):
            self.handle_dragged.emit(number, wavelength)


def relabel(axis: pg.AxisItem, text: str) -> None:
    """Write *text* along *axis*. pyqtgraph would centre it only when the plot is resized."""
    axis.setLabel(text)
    axis.resizeEvent()


def _faint(colour: str) -> QColor:
    faint = QColor(colour)
    faint.setAlphaF(FAINT)
    return faint


def _has(box: pg.ViewBox, position: QPointF) -> bool:
    return bool(box.sceneBoundingRect().contains(position))


def _around(*values: float) -> ValueRange:
    """Return the range of *values*."""
    return (min(values), max(values)) if values else ()
