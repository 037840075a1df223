"""Plots in the colours of napari's theme, which are saved as figures."""

from collections.abc import Iterator
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
LEFT_WIDTH = 54
"""Pixels of a value axis with its ticks and label."""


class ThemedPlot(pg.GraphicsLayoutWidget):
    """A plot that is at least *lowest* pixels high, in the colours of napari's theme."""

    def __init__(self, lowest: int) -> None:
        super().__init__()
        self._every_axis = list[pg.AxisItem]()
        self._theme = get_theme("dark")
        set_lowest(self, lowest)

    def add_axis(self, view: pg.ViewBox, row: int, height: int | None = None) -> pg.AxisItem:
        """Add an axis of *view* to a row: at its left, or below if it has a *height*."""
        axis = pg.AxisItem("left" if height is None else "bottom")
        axis.linkToView(view)
        # Otherwise pyqtgraph writes small values as 200 with "(x0.001)" at the axis.
        axis.enableAutoSIPrefix(False)
        if height is None:
            axis.setWidth(LEFT_WIDTH)
        else:
            axis.setHeight(height)
        self.addItem(axis, row, int(height is not None))
        self._every_axis.append(axis)
        return axis

    def set_theme(self, theme: Theme) -> None:
        """Take on the colours of a napari theme."""
        self._theme = theme
        self.setBackground(theme.background.as_hex())
        for axis in self._every_axis:
            axis.setPen(theme.secondary.as_hex())
            axis.setTextPen(theme.text.as_hex())

    @contextmanager
    def as_printed(self) -> Iterator[None]:
        """Show the plot dark on white, whatever its theme."""
        theme, light = self._theme, get_theme("light")
        # Setting a colour of napari's copy emits the events of the original: viewers turn dark.
        white = {"background": type(light.background)("white")}
        self.set_theme(light.model_copy(update=white))
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
            # Qt does not clear the memory of a new image.
            image.fill(Qt.GlobalColor.white)
            painter = QPainter(drawing if suffix == ".svg" else image)
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            self.scene().render(painter, QRectF(frame), QRectF(frame))
            # Only now does Qt write the file of an SVG.
            painter.end()
            if suffix == ".png" and not image.save(str(temporary), "PNG"):
                raise SaveError(f"{path.name[:60]!r} could not be written. Choose another folder.")
