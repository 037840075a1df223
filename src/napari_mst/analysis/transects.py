"""Transects: spectra along a line through a cube.

Letters: B bands, H rows, W columns; n places along the line.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from napari_mst.analysis import formulas
from napari_mst.base.arrays import Doubles, Singles, singles
from napari_mst.base.errors import SpectrumError
from napari_mst.base.progress import NO_PROGRESS, ProgressLike, as_progress
from napari_mst.cube import SpectralCube

CHUNK = 64
"""Places read at a time, so that a file is read only near the line."""


@dataclass(frozen=True, eq=False)
class Transect:
    """The spectra along a line.

    Attributes
    ----------
    cube
        The spectra as a cube of one row, (B, 1, n), with wavelengths, quantity and history.
    places
        (n, 2) row and column of each place, about a pixel apart; pixel centres are whole numbers.
    distances
        (n,) distance of each place from the start of the line, in *unit*.
    unit
        "pixel", or the unit of the given pixel size.
    """

    cube: SpectralCube
    places: Doubles
    distances: Doubles
    unit: str = "pixel"

    @property
    def values(self) -> Singles:
        """(B, n) spectra; NaN beyond the image."""
        return singles(self.cube.data[:, 0])

    def along(self, text: str) -> Singles:
        """Return the values (n,) of a band formula or an index along the line: see `maps.formula`.

        Raises `SpectrumError` if *text* is not a formula, or if the cube lacks one of its bands.
        """
        return singles(formulas.evaluated(self.cube, text, NO_PROGRESS)[0])

    def table(self, text: str = "") -> dict[str, Any]:
        """Return the columns distance, row, column, the value of formula *text*, and all bands."""
        cube = self.cube
        bands = {
            f"{at:g} {cube.unit}": each
            for at, each in zip(cube.wavelengths, self.values, strict=True)
        }
        return {
            f"distance ({self.unit})": self.distances,
            "row": self.places[:, 0],
            "column": self.places[:, 1],
            **({text: self.along(text)} if text else {}),
            **bands,
        }


def transect(
    cube: SpectralCube,
    vertices: ArrayLike,
    *,
    pixel_size: tuple[float, float] = (1.0, 1.0),
    unit: str = "pixel",
    progress: ProgressLike = None,
) -> Transect:
    """Return the spectra of *cube* along a line through *vertices*, interpolated linearly.

    Parameters
    ----------
    vertices
        (m, 2) rows and columns in pixels, at least two; they may lie beyond the image.
    pixel_size, unit
        Height and width of a pixel, and their unit, for the distances.

    Raises
    ------
    SpectrumError
        If the line has no length, or lies beyond the image.
    Cancelled
        Soon after *progress* was cancelled.
    """
    corners = np.asarray(vertices, dtype=np.float64)
    if corners.ndim != 2 or corners.shape[1] != 2 or not np.isfinite(corners).all():
        raise SpectrumError(f"Expected (row, column) vertices of a line, got {corners.shape}.")
    lengths = np.concatenate([[0], np.hypot(*np.diff(corners, axis=0).T).cumsum()])
    if lengths[-1] == 0:
        raise SpectrumError("Expected a line, got a point. Draw it from one place to another.")
    at = np.linspace(0, lengths[-1], int(np.ceil(lengths[-1])) + 1)
    places = np.stack([np.interp(at, lengths, corners[:, axis]) for axis in (0, 1)], axis=1)
    shape = np.array(cube.shape[1:])
    is_inside = np.all((places >= -0.5) & (places <= shape - 0.5), axis=1)
    if not is_inside.any():
        raise SpectrumError("Expected a line on the image, got one beside it. Draw it on the cube.")
    values = np.full((len(cube.wavelengths), 1, len(places)), np.nan, np.float32)
    progress = as_progress(progress)
    for start in range(0, len(places), CHUNK):
        progress.reach(start / len(places))
        chunk = start + np.flatnonzero(is_inside[start : start + CHUNK])
        if len(chunk):
            values[:, 0, chunk] = _interpolated(cube, np.clip(places[chunk], 0, shape - 1))
    steps = np.hypot(*(np.diff(places, axis=0) * pixel_size).T)
    line = replace(cube, data=values, colour_error=None)
    return Transect(line, places, np.concatenate([[0], steps.cumsum()]), unit)


def _interpolated(cube: SpectralCube, places: Doubles) -> Singles:
    """Return the spectra (B, n) of *cube* at *places*; only surrounding pixels are read."""
    from scipy.ndimage import map_coordinates  # slow to import

    low = np.floor(places.min(axis=0)).astype(int)
    high = np.ceil(places.max(axis=0)).astype(int) + 1
    box = singles(cube.data[:, low[0] : high[0], low[1] : high[1]])
    at = (places - low).T
    return np.stack([map_coordinates(band, at, order=1, mode="nearest") for band in box])
