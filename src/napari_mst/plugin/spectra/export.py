"""Keep what the spectra dock shows: spectra, back onto the image that they are of, and the plot as a picture."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image, Points
from qtpy.QtCore import QRect, QRectF, QSize, Qt
from qtpy.QtGui import QImage, QPainter
from qtpy.QtSvg import QSvgGenerator
from qtpy.QtWidgets import QGraphicsScene

from napari_mst.crash_safe import saving
from napari_mst.errors import SaveError, SpectrumError
from napari_mst.plugin.spectra import region_layers
from napari_mst.plugin.viewer import picks
from napari_mst.plugin.viewer.layers import active_cube_layer, cube_of
from napari_mst.plugin.viewer.placement import to_pixels
from napari_mst.spectra.regions import Region, point_spectrum, region_spectrum
from napari_mst.spectra.spectrum import Spectrum

PICTURES = (".png", ".svg")
FINENESS = 3
"""Pixels of a PNG for each on the screen."""
SAME = 1e-5
"""Largest relative difference at which two spectra are the same; files of text and float32 round."""


def placed(viewer: ViewerModel, spectra: Sequence[Spectrum]) -> list[Spectrum]:
    """Put *spectra* that were taken from the active cube back as picks and polygons; returns the others.

    A spectrum is put back where the cube has its values at its place, so that what is shown is what was saved.
    """
    layer = active_cube_layer(viewer)
    if layer is None:
        return list(spectra)
    at = [_place_of(layer, spectrum) for spectrum in spectra]
    pinned = [spectrum for spectrum, place in zip(spectra, at, strict=True) if place == "pick"]
    drawn = [spectrum for spectrum, place in zip(spectra, at, strict=True) if place == "region"]
    if pinned:
        _pin(viewer, layer, pinned)
    if drawn:
        _draw(viewer, layer, drawn)
    return [spectrum for spectrum, place in zip(spectra, at, strict=True) if not place]


def _place_of(layer: Image, spectrum: Spectrum) -> str:
    """Whether *spectrum* is a "pick" or a "region" of the cube *layer*; "" if its values are not there."""
    cube, origin = cube_of(layer), spectrum.origin
    if cube is None or not np.array_equal(cube.wavelengths, spectrum.wavelengths):
        return ""
    try:
        if origin.row is not None and origin.column is not None:
            there, place = point_spectrum(cube, origin.row, origin.column, origin.window), "pick"
        elif origin.vertices:
            there = region_spectrum(cube, Region.of_polygon(origin.vertices, cube.shape[1:]), "")
            place = "region"
        else:
            return ""
    except SpectrumError:
        return ""
    return (
        place
        if np.allclose(there.values, spectrum.values, rtol=SAME, atol=SAME, equal_nan=True)
        else ""
    )


def _pin(viewer: ViewerModel, layer: Image, spectra: Sequence[Spectrum]) -> None:
    points = picks.picks_layer(viewer) or picks.add_picks(viewer, layer)
    matrix = to_pixels(layer, points)
    if matrix is None:
        return
    pixels, _ = picks.pixels_of(points, layer)
    taken = {
        (*pixel, window)
        for pixel, window in zip(pixels.tolist(), picks.windows(points).tolist(), strict=True)
    }
    for spectrum in spectra:
        origin = spectrum.origin
        if (
            origin.row is None
            or origin.column is None
            or (origin.row, origin.column, origin.window) in taken
        ):
            continue
        taken.add((origin.row, origin.column, origin.window))
        points.feature_defaults = {"name": spectrum.name, "window": origin.window}
        points.add((matrix @ (origin.row, origin.column, 1))[:2])
        _tint(points, spectrum)
    points.feature_defaults = {"name": "", "window": 1}
    points.selected_data = set()


def _tint(points: Points, spectrum: Spectrum) -> None:
    if spectrum.colour:
        picks.recolour(points, len(points.data) - 1, spectrum.colour)


def _draw(viewer: ViewerModel, layer: Image, spectra: Sequence[Spectrum]) -> None:
    active = viewer.layers.selection.active
    shapes = region_layers.add_regions(viewer, layer)
    matrix = to_pixels(layer, shapes)
    viewer.layers.selection.active = active
    if matrix is None:
        return
    outlines = [
        np.array(spectrum.origin.vertices) @ matrix[:2, :2].T + matrix[:2, 2]
        for spectrum in spectra
    ]
    tints = [spectrum.colour or picks.PALETTE[0] for spectrum in spectra]
    shapes.add_polygons(outlines, edge_color=tints)
    shapes.features = {"name": [spectrum.name for spectrum in spectra]}


def save_picture(scene: QGraphicsScene, size: QSize, path: str | Path) -> Path:
    """Save *scene*, *size* pixels large on the screen, as `.png` or `.svg`, crash-safe.

    Raises
    ------
    SaveError
        If the suffix is another, or the file cannot be written.
    """
    path = Path(path)
    if path.suffix.lower() not in PICTURES:
        raise SaveError(
            f"Expected a file name ending in {' or '.join(PICTURES)}, got {path.name[:60]!r}. Add one."
        )
    needed = 4 * FINENESS**2 * size.width() * size.height()
    with saving(path, needed=needed, overwrite=True) as (temporary,):
        (_svg if path.suffix.lower() == ".svg" else _png)(scene, size, temporary)
    return path


def _svg(scene: QGraphicsScene, size: QSize, path: Path) -> None:
    generator = QSvgGenerator()
    generator.setFileName(str(path))
    generator.setSize(size)
    generator.setViewBox(QRect(0, 0, size.width(), size.height()))
    generator.setTitle("Spectra")
    _paint(scene, QPainter(generator), size)


def _png(scene: QGraphicsScene, size: QSize, path: Path) -> None:
    image = QImage(size * FINENESS, QImage.Format.Format_RGB32)
    image.setDevicePixelRatio(FINENESS)
    image.fill(Qt.GlobalColor.white)
    _paint(scene, QPainter(image), size)
    if not image.save(str(path), "PNG"):
        raise SaveError(
            f"Expected to write {path.name[:60]!r}, got a failure. Choose another folder."
        )


def _paint(scene: QGraphicsScene, painter: QPainter, size: QSize) -> None:
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    scene.render(
        painter,
        QRectF(0, 0, size.width(), size.height()),
        QRectF(0, 0, size.width(), size.height()),
    )
    painter.end()
