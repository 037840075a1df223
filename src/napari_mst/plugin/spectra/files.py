"""The menu Save of the spectra dock: cube, spectra and plot to files and to the clipboard."""

from pathlib import Path

from qtpy.QtCore import QRect, QRectF, QSize, Qt
from qtpy.QtGui import QImage, QPainter
from qtpy.QtSvg import QSvgGenerator
from qtpy.QtWidgets import QApplication, QFileDialog, QGraphicsScene, QMenu, QWidget

from napari_mst.crash_safe import saving
from napari_mst.errors import SaveError
from napari_mst.plugin.dock import reported
from napari_mst.plugin.files.saving import ask_to_save
from napari_mst.plugin.spectra.bench import Bench
from napari_mst.plugin.spectra.plot import SpectraPlot
from napari_mst.spectra.library import read_spectra, spectra_text

SAVES = "Table (*.csv);;ENVI spectral library (*.sli)"
OPENS = "Spectra (*.csv *.txt *.sli *.hdr)"
PICTURES = "PNG picture (*.png);;SVG drawing (*.svg)"


class SpectraFiles:
    """Asks for files over the window of *parent*, and has *bench* and *plot* save and open them."""

    def __init__(self, bench: Bench, plot: SpectraPlot, menu: QMenu, parent: QWidget) -> None:
        self._bench = bench
        self._plot = plot
        self._parent = parent
        menu.addAction("Save cube ...", self.save_cube)
        menu.addAction("Save spectra ...", self.save_spectra)
        menu.addAction("Open spectra ...", self.open_spectra)
        menu.addAction("Copy spectra", self.copy_spectra)
        menu.addAction("Save plot ...", self.save_plot)
        menu.addAction("Copy plot", self.copy_plot)

    def save_cube(self) -> None:
        """Ask for a file, and save the cube with its wavelengths, its history and the picks."""
        ask_to_save(self._bench.viewer)

    def save_spectra(self) -> None:
        """Ask for a file, and save the spectra whose curves are shown."""
        path, _ = QFileDialog.getSaveFileName(self._parent, "Save spectra", "spectra.csv", SAVES)
        if path:
            self._bench.save_spectra(path)

    def open_spectra(self) -> None:
        """Ask for a file; spectra that belong to the cube become picks and regions again."""
        path, _ = QFileDialog.getOpenFileName(self._parent, "Open spectra", "", OPENS)
        if path:
            with reported():
                self._bench.open_spectra(read_spectra(path))

    def copy_spectra(self) -> None:
        """Put the spectra on the clipboard, as a table."""
        # The worker only makes the text: Qt's clipboard is left to the thread of the window.
        self._bench.saver.use(self._bench.shown, spectra_text, _copy)

    def save_plot(self) -> None:
        """Ask for a file, and save the plot with its legend."""
        path, _ = QFileDialog.getSaveFileName(self._parent, "Save plot", "spectra.png", PICTURES)
        if path:
            with reported():
                self.save_plot_as(path)

    def save_plot_as(self, path: str | Path) -> Path:
        """Save the plot with its legend as `.png` or `.svg`, black on white. Raises `SaveError`."""
        with self._plot.as_printed():
            return save_picture(self._plot.scene(), self._plot.size(), path)

    def copy_plot(self) -> None:
        """Put a picture of the plot on the clipboard."""
        QApplication.clipboard().setPixmap(self._plot.grab())


def _copy(text: str) -> str:
    QApplication.clipboard().setText(text)
    return "Copied as a table."


SUFFIXES = (".png", ".svg")
FINENESS = 3
"""Pixels of a PNG for each pixel on the screen, so that it can be printed."""
BYTES_PER_PIXEL = 4


def save_picture(scene: QGraphicsScene, size: QSize, path: str | Path) -> Path:
    """Save *scene*, *size* pixels large on the screen, as `.png` or `.svg`; crash-safe.

    Raises
    ------
    SaveError
        If the suffix is another, or the file cannot be written.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        expected = " or ".join(SUFFIXES)
        raise SaveError(
            f"Expected a file name ending in {expected}, got {path.name[:60]!r}. Add one."
        )
    pixels = FINENESS**2 * size.width() * size.height()
    with saving(path, needed=BYTES_PER_PIXEL * pixels, overwrite=True) as (temporary,):
        if suffix == ".svg":
            _save_svg(scene, size, temporary)
        else:
            _save_png(scene, size, temporary)
    return path


def _save_svg(scene: QGraphicsScene, size: QSize, path: Path) -> None:
    generator = QSvgGenerator()
    generator.setFileName(str(path))
    generator.setSize(size)
    generator.setViewBox(QRect(0, 0, size.width(), size.height()))
    generator.setTitle("Spectra")
    _paint(scene, QPainter(generator), size)


def _save_png(scene: QGraphicsScene, size: QSize, path: Path) -> None:
    image = QImage(size * FINENESS, QImage.Format.Format_RGB32)
    # The painter then counts in pixels of the screen, so lines and letters keep their sizes.
    image.setDevicePixelRatio(FINENESS)
    # A new image holds whatever was in that memory.
    image.fill(Qt.GlobalColor.white)
    _paint(scene, QPainter(image), size)
    if not image.save(str(path), "PNG"):
        raise SaveError(
            f"Expected to write {path.name[:60]!r}, got a failure. Choose another folder."
        )


def _paint(scene: QGraphicsScene, painter: QPainter, size: QSize) -> None:
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    frame = QRectF(0, 0, size.width(), size.height())
    scene.render(painter, frame, frame)
    # Only now does Qt write the file of an SVG.
    painter.end()
