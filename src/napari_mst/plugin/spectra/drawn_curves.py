"""The pinned curves of the plot of spectra, its legend, and the strip of colours below it."""

import html
from collections.abc import Iterable, Sequence

import numpy as np
import pyqtgraph as pg
from qtpy.QtCore import QRectF
from qtpy.QtGui import QColor, QPainter, QPainterPath, QPen

from napari_mst.base.arrays import Doubles
from napari_mst.cube.spectrum import Spectrum
from napari_mst.plugin.spectra.resolve import NO_COLOUR, DrawnCurve, LegendLine

MOST = 8
"""Curves that the legend names; it counts the others."""
SIGNS = ("&#9473;&#9473;", "&#9549;&#9549;", "&#8901;&#8901;&#8901;", "&#9473;&#8901;")
"""The styles of `DASHES` in the legend: solid, dashed, dotted, and dash-dotted."""
DASHES = (None, [6, 4], [1.5, 3], [8, 3, 1.5, 3])
"""Dashes of the curves of the first cube, the second, ... in pen widths; None is solid."""
BAND_OPACITY = 0.22
FADED = 0.45
"""Opacity of unselected curves while others are selected."""
MOST_SMOOTH = 200
"""Most curves drawn smooth; more are drawn thin, jagged and grouped by colour, to stay quick."""
ValueRange = tuple[float, ...]
"""The least and the largest value; empty for none."""
GAP = np.array([np.nan])
MARGIN = 0.05
"""Share of the range of the values that is left free at each end."""


class CurvesItem(pg.GraphicsObject):
    """Several curves as one item of the scene.

    Qt caches pinned curves as a picture, so that live curves are redrawn without them.

    Attributes
    ----------
    ink
        The colour of curves without a colour of their own.
    values
        The least and the largest drawn value; empty if there is none.
    """

    ink = NO_COLOUR

    def __init__(self, *, is_live: bool = False) -> None:
        super().__init__()
        self.lines: Sequence[DrawnCurve] = ()
        self.values: ValueRange = ()
        self._rect = QRectF()
        # Qt takes a hundred times as long to draw a wider path of a noisy spectrum.
        self._width = 1 if is_live else 2
        if not is_live:
            self.setCacheMode(self.CacheMode.DeviceCoordinateCache)

    def set_lines(self, lines: Sequence[DrawnCurve]) -> None:
        """Draw *lines* from now on."""
        # First, as Qt indexes the scene by the old rectangle until this call.
        self.prepareGeometryChange()
        self.lines = lines
        self.values = value_range(lines)
        self._rect = QRectF()
        if self.values:
            low, high = self.values
            wavelengths = np.concatenate([line.spectrum.wavelengths for line in lines])
            corner = np.array([wavelengths.min(), low])
            size = np.array([wavelengths.max(), high]) - corner
            # A single band or a flat curve would give the item no area.
            size[size == 0] = 1.0
            self._rect = QRectF(*(corner - MARGIN * size), *((1 + 2 * MARGIN) * size))
        self.update()

    def boundingRect(self) -> QRectF:
        """The extent of the curves in wavelengths and values, for Qt."""
        return self._rect

    def paint(self, painter: QPainter, *_: object) -> None:
        """Qt calls this when the picture is out of date."""
        is_smooth = len(self.lines) <= MOST_SMOOTH
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, is_smooth)
        # Areas come first, so that none of them covers a curve.
        for line in self.lines:
            band = _band(line.spectrum)
            if band is not None:
                painter.fillPath(band, self._tint(line, BAND_OPACITY))
        # Selected curves are drawn last, over the faded ones.
        lines = sorted(self.lines, key=lambda line: line.is_faded, reverse=True)
        strokes = [[line] for line in lines] if is_smooth else _by_look(lines)
        for alike in strokes:
            colour, style = self._tint(alike[0], 1.0), alike[0].style
            painter.setPen(pen(colour, style, self._width if is_smooth else 1))
            painter.drawPath(_path(alike))

    def _tint(self, line: DrawnCurve, opacity: float) -> QColor:
        """Return the colour of *line*, at *opacity* (0-1) if it is not faded."""
        colour = QColor(line.spectrum.colour or self.ink)
        colour.setAlphaF(opacity * FADED if line.is_faded else opacity)
        return colour


def _by_look(lines: Sequence[DrawnCurve]) -> list[list[DrawnCurve]]:
    """Group the *lines* that one pen draws."""
    groups = dict[tuple[bool, int, str], list[DrawnCurve]]()
    for line in lines:
        look = (line.is_faded, line.style, line.spectrum.colour)
        groups.setdefault(look, []).append(line)
    return list(groups.values())


def _path(lines: Sequence[DrawnCurve]) -> QPainterPath:
    """Join the curves of *lines* into one path, with gaps between them."""
    spectra = [line.spectrum for line in lines]
    x = np.concatenate([part for curve in spectra for part in (curve.wavelengths, GAP)])
    y = np.concatenate([part for curve in spectra for part in (curve.values, GAP)])
    return pg.arrayToQPath(x, y, connect="finite")


def pen(colour: QColor, style: int, width: float) -> QPen:
    """Return a pen for the curves of cube number *style*."""
    made = QPen(colour, width)
    # The width is in screen pixels, not in wavelengths and values.
    made.setCosmetic(True)
    dashes = DASHES[style % len(DASHES)]
    if dashes is not None:
        made.setDashPattern(dashes)
    return made


def _band(spectrum: Spectrum) -> QPainterPath | None:
    """Return the area between the bounds of *spectrum*."""
    x = spectrum.wavelengths
    lower = spectrum.lower
    upper = spectrum.upper
    if lower is None or upper is None:
        return None
    # A gap has no bounds; the area is closed across it.
    good = np.isfinite(lower) & np.isfinite(upper)
    around = np.concatenate([x[good], x[good][::-1]])
    bounds = np.concatenate([upper[good], lower[good][::-1]])
    return pg.arrayToQPath(around, bounds, connect="all")


def value_range(lines: Iterable[DrawnCurve]) -> ValueRange:
    """Return the least and the largest value of *lines* and their bounds; empty without values.

    Wide bounds are clipped, so that the curves keep at least half of the axis.
    """
    spectra = [line.spectrum for line in lines]
    values = _finite(one.values for one in spectra)
    if not values.size:
        return ()
    low, high = float(values.min()), float(values.max())
    room = max(high - low, abs(low), abs(high))
    bounds = _finite(part for one in spectra for part in (one.lower, one.upper))
    bounds = bounds.clip(low - room, high + room)
    return float(bounds.min(initial=low)), float(bounds.max(initial=high))


def _finite(every: Iterable[Doubles | None]) -> Doubles:
    values = np.concatenate([GAP, *(part for part in every if part is not None)])
    return values[np.isfinite(values)]


def legend_html(keys: Sequence[LegendLine], text: str) -> str:
    """Return a line for each of *keys*, with names in the colour *text* ("#rrggbb")."""
    # Names come from files and users: Qt would take "<" in them for a tag.
    rows = [
        f'<span style="color:{key.colour}">{SIGNS[key.style % len(SIGNS)]}</span>'
        f"&nbsp;{html.escape(key.name)}"
        for key in keys[:MOST]
    ]
    if len(keys) > MOST:
        rows.append(f"and {len(keys) - MOST} more")
    return f'<div style="color:{text}">{"<br>".join(rows)}</div>'
