"""Plots in the colours of napari's theme, which are saved as figures."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyqtgraph as pg
from napari.utils.theme import Theme, get_theme
from qtpy.QtCore import QPoint, QRect, QRectF, Qt
from qtpy.QtGui import QImage, QPainter
from qtpy.QtSvg import QSvgGenerator

from napari_mst.base.atomic_save import saving
from napari_mst.base.errors import SaveError
from napari_mst.plugin.viewer.widgets import set_lowest

PICTURES = "PNG picture (*.png);;SVG drawing (*.svg)"
SUFFIXES = (".png", ".svg")
FINENESS = 3
"""Pixels of a PNG for each pixel on the screen, so that it can be printed."""
BYTES_PER_PIXEL = 4


class ThemedPlot(pg.GraphicsLayoutWidget):
    """A plot that is at least *lowest* pixels high.

    Attributes
    ----------
    axes
        The axes, which `set_theme` colours.
    """

    def __init__(self, lowest: int) -> None:
        super().__init__()
        self.axes: Sequence[pg.AxisItem] = ()
        self._theme = get_theme("dark")
        set_lowest(self, lowest)

    def set_theme(self, theme: Theme) -> None:
        """Take on the colours of a napari theme."""
        self._theme = theme
        self.setBackground(theme.background.as_hex())
        for axis in self.axes:
            axis.setPen(theme.secondary.as_hex())
            axis.setTextPen(theme.text.as_hex())

    @contextmanager
    def as_printed(self) -> Iterator[None]:
        """Show the plot dark on white, whatever its theme."""
        theme, light = self._theme, get_theme("light")
        light.background = "white"
        self.set_theme(light)
        try:
            yield
        finally:
            self.set_theme(theme)

    def save(self, path: Path) -> None:
        """Save the plot dark on white as `.png` or `.svg`; crash-safe.

        Raises
        ------
        SaveError
            If the suffix is another, or the file cannot be written.
        """
        suffix = path.suffix.lower()
        if suffix not in SUFFIXES:
            raise SaveError(
                f"A plot is saved as {' or '.join(SUFFIXES)}, not as {path.name[:60]!r}."
            )
        size = self.size()
        pixels = FINENESS**2 * size.width() * size.height()
        frame = QRect(QPoint(), size)
        needed = BYTES_PER_PIXEL * pixels
        with self.as_printed(), saving(path, needed=needed, overwrite=True) as (temporary,):
            drawing = QSvgGenerator()
            drawing.setFileName(str(temporary))
            drawing.setSize(size)
            drawing.setViewBox(frame)
            image = QImage(size * FINENESS, QImage.Format.Format_RGB32)
            # The painter then counts in pixels of the screen, so lines and letters keep their
            # sizes.
            image.setDevicePixelRatio(FINENESS)
            # A new image holds what was in that memory before.
            image.fill(Qt.GlobalColor.white)
            painter = QPainter(drawing if suffix == ".svg" else image)
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            self.scene().render(painter, QRectF(frame), QRectF(frame))
            # Only now does Qt write the file of an SVG.
            painter.end()
            if suffix == ".png" and not image.save(str(temporary), "PNG"):
                raise SaveError(f"{path.name[:60]!r} could not be written. Choose another folder.")
