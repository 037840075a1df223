"""The pinned curves of the plot of spectra, drawn as one item."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from qtpy.QtCore import QRectF
from qtpy.QtGui import QColor, QPainter, QPen

from napari_mst.spectra.spectrum import Spectrum

DASHES = (None, [6, 4], [1.5, 3], [8, 3, 1.5, 3])
"""Pattern of the curves of the first cube, the second, ... in widths of the pen."""
NO_COLOUR = "#888888"
BAND_OPACITY = 0.22
FADED = 0.25
"""Opacity of the curves that are not selected, while some are."""
MOST_SMOOTH = 200
"""Number of curves beyond which they are drawn thin and not smoothed, to stay quick."""
MARGIN = 0.05
"""Share of the range of the values that is left free above and below."""


@dataclass(frozen=True, eq=False)
class Line:
    """A curve that is drawn: its spectrum, which cube it is of (0, 1, ...), which entry, and whether it is faded."""

    spectrum: Spectrum
    style: int = 0
    entry: int = 0
    is_faded: bool = False

    def tint(self, opacity: float) -> QColor:
        """Its colour, at *opacity* (0-1) if it is not faded."""
        colour = QColor(self.spectrum.colour or NO_COLOUR)
        colour.setAlphaF(opacity * (FADED if self.is_faded else 1.0))
        return colour


class Curves(pg.GraphicsObject):
    """All pinned curves as one item, kept as a picture, so that the live curve is redrawn without them."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: Sequence[Line] = ()
        self._rect = QRectF()
        self.setCacheMode(self.CacheMode.DeviceCoordinateCache)

    def set_lines(self, lines: Sequence[Line]) -> None:
        """Draw *lines* from now on."""
        self.prepareGeometryChange()
        self.lines = lines
        self._rect = _extent(lines)
        self.update()

    def boundingRect(self) -> QRectF:
        """Qt asks for this, in wavelengths and values."""
        return self._rect

    def paint(self, painter: QPainter, *_: object) -> None:
        """Qt calls this when the picture is to be drawn anew."""
        is_smooth = len(self.lines) <= MOST_SMOOTH
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, is_smooth)
        for line in self.lines:
            spectrum, tint = line.spectrum, line.tint(BAND_OPACITY)
            if spectrum.lower is not None and spectrum.upper is not None:
                painter.fillPath(_band(spectrum.wavelengths, spectrum.lower, spectrum.upper), tint)
        for line in sorted(self.lines, key=lambda one: one.is_faded, reverse=True):
            painter.setPen(pen(line.tint(1.0), line.style, 2 if is_smooth else 1))
            painter.drawPath(
                pg.arrayToQPath(line.spectrum.wavelengths, line.spectrum.values, connect="finite")
            )


def pen(colour: QColor, style: int, width: float) -> QPen:
    """A pen for the curves of cube number *style*."""
    made = QPen(colour, width)
    made.setCosmetic(True)
    if (dashes := DASHES[style % len(DASHES)]) is not None:
        made.setDashPattern(dashes)
    return made


def _band(x: NDArray[np.float64], lower: NDArray[np.float64], upper: NDArray[np.float64]) -> object:
    good = np.isfinite(lower) & np.isfinite(upper)
    return pg.arrayToQPath(
        np.concatenate([x[good], x[good][::-1]]),
        np.concatenate([upper[good], lower[good][::-1]]),
        connect="all",
    )


def value_range(lines: Iterable[Line]) -> tuple[float, float] | None:
    """The least and the largest value of *lines* and their bounds; None if there is no number."""
    spectra = [line.spectrum for line in lines]
    parts = [
        part for one in spectra for part in (one.values, one.lower, one.upper) if part is not None
    ]
    values = np.concatenate(parts) if parts else np.empty(0)
    values = values[np.isfinite(values)]
    return (float(values.min()), float(values.max())) if values.size else None


def _extent(lines: Sequence[Line]) -> QRectF:
    values = value_range(lines)
    if values is None:
        return QRectF()
    ends = [(line.spectrum.wavelengths.min(), line.spectrum.wavelengths.max()) for line in lines]
    left, right = min(low for low, _ in ends), max(high for _, high in ends)
    (low, high), wide = values, (right - left) or 1.0
    tall = (high - low) or 1.0
    return QRectF(
        left - MARGIN * wide, low - MARGIN * tall, (1 + 2 * MARGIN) * wide, (1 + 2 * MARGIN) * tall
    )
