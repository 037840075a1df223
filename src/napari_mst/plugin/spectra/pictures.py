"""Saves the plot as a picture: pixels (PNG) or lines (SVG)."""

from pathlib import Path

from qtpy.QtCore import QRect, QRectF, QSize, Qt
from qtpy.QtGui import QImage, QPainter
from qtpy.QtSvg import QSvgGenerator
from qtpy.QtWidgets import QGraphicsScene

from napari_mst.crash_safe import saving
from napari_mst.errors import SaveError

PICTURES = (".png", ".svg")
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
    if suffix not in PICTURES:
        expected = " or ".join(PICTURES)
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
