"""Scatter plot of two values of every pixel, as a density, and selection of pixels by an outline.

The values are sorted into cells once; an outline then becomes a lookup table of cells, so a stroke
over 12 megapixels takes about 60 ms. Letters: H rows, W columns; N cells along an axis.
"""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_mst.analysis import formulas
from napari_mst.analysis.regions import Region
from napari_mst.analysis.statistics import components
from napari_mst.base.arrays import Mask, Singles
from napari_mst.base.errors import SpectrumError, shown
from napari_mst.base.progress import ProgressLike, as_progress
from napari_mst.cube import SpectralCube

CELLS = 255
"""Cells along each axis, so that cell numbers and the number for "no cell" fit into 16 bits."""
OUTSIDE = CELLS**2
"""Cell number of a pixel that is not finite or lies beyond an axis."""
TAILS = 0.02
"""Per cent of the pixels that an axis may leave out at either end, so that highlights do not
squeeze all others into a corner."""
ROOM = 0.03
"""Margin at either end of an axis, as a share of its range."""
SAMPLES = 2**20
"""Approximate number of pixels sampled for the range of an axis."""
CHUNK = 2**18
"""Pixels sorted into cells at a time, so that the values stay in the cache."""

_COMPONENT = re.compile(r"PC ?([1-9]\d?)", re.IGNORECASE)


class Axis(NamedTuple):
    """An axis of a scatter plot: the text that names its values, and its range."""

    text: str
    low: float
    high: float

    @property
    def step(self) -> float:
        """Width of a cell."""
        return (self.high - self.low) / CELLS


@dataclass(frozen=True, eq=False)
class Scatter:
    """Two values of every pixel of a cube, sorted into cells.

    Attributes
    ----------
    x, y
        The axes.
    cells
        (H, W) uint16 cell number of each pixel, counted row by row from the lowest *y*, or
        `OUTSIDE`.
    """

    x: Axis
    y: Axis
    cells: NDArray[np.uint16]

    @property
    def left_out(self) -> float:
        """Share of the pixels outside all cells, 0-1."""
        return 1 - int(self.whole_density.sum()) / self.cells.size

    @cached_property
    def whole_density(self) -> NDArray[np.int_]:
        """Number of pixels in each cell, (N, N)."""
        return _counts(self.cells)

    def density(self, region: Region) -> NDArray[np.int_]:
        """Count the pixels of a *region* in each cell, (N, N)."""
        return _counts(self.cells[region.box][region.mask])

    def inside(self, outline: ArrayLike) -> Mask:
        """Return a mask (H, W) of the pixels in cells with centres inside an *outline* (n, 2).

        The corners of the outline are (x, y). Raises `SpectrumError` if there are fewer than three,
        or if the outline encloses no centre of a cell.
        """
        first = np.array([self.y.low, self.x.low])
        step = np.array([self.y.step, self.x.step])
        corners = (np.asarray(outline, dtype=np.float64)[:, ::-1] - first) / step - 0.5
        region = Region.of_polygon(corners, (CELLS, CELLS))
        is_inside = np.zeros(OUTSIDE + 1, dtype=bool)
        is_inside[:OUTSIDE].reshape(CELLS, CELLS)[region.box] = region.mask
        return is_inside[self.cells]

    def place(self, row: int, column: int) -> tuple[float, float] | None:
        """Return the centre (x, y) of a pixel's cell; None if the pixel is outside all cells."""
        cell = int(self.cells[row, column])
        if cell == OUTSIDE:
            return None
        across, up = cell % CELLS + 0.5, cell // CELLS + 0.5
        return self.x.low + across * self.x.step, self.y.low + up * self.y.step


def _counts(cells: NDArray[np.uint16]) -> NDArray[np.int_]:
    cells = cells.ravel()
    counts = np.zeros(OUTSIDE + 1, np.int_)
    # In chunks, since bincount copies its input as eight bytes per pixel.
    for start in range(0, len(cells), CHUNK):
        counts += np.bincount(cells[start : start + CHUNK], minlength=len(counts))
    return counts[:OUTSIDE].reshape(CELLS, CELLS)


def scatter(cube: SpectralCube, x: str, y: str, *, progress: ProgressLike = None) -> Scatter:
    """Return the scatter plot of two values of every pixel of *cube*.

    Parameters
    ----------
    x, y
        A band formula or an index, as in `maps.formula`, such as "r550" for the band at 550 nm; or
        a principal component, such as "PC 1" for the first.

    Raises
    ------
    SpectrumError
        If a text is not a formula, if the cube lacks a band or a component, or if a value is finite
        at no pixel.
    Cancelled
        Soon after *progress* was cancelled.
    """
    progress = as_progress(progress)
    numbers = [_component(text) for text in (x, y)]
    most = max(numbers)
    planes = components(cube, most, progress=progress.part(0, 0.6)).data if most else ()
    values = [
        planes[number - 1] if number else formulas.evaluated(cube, text, progress.part(start, 1))
        for text, number, start in ((x, numbers[0], 0.6), (y, numbers[1], 0.8))
    ]
    axes = [_axis(text, one) for text, one in zip((x, y), values, strict=True)]
    return Scatter(axes[0], axes[1], _cells(values, axes))


def _component(text: str) -> int:
    """Return the number of the principal component named by *text*; 0 for any other text."""
    found = _COMPONENT.fullmatch(text.strip())
    return int(found[1]) if found else 0


def _axis(text: str, values: Singles) -> Axis:
    sample = values.reshape(-1)[:: max(1, values.size // SAMPLES)]
    sample = sample[np.isfinite(sample)]
    if not sample.size:
        raise SpectrumError(
            f"Expected numbers, got none from {shown(text, 40)!r}. Choose other values."
        )
    low, high = np.percentile(sample, (TAILS, 100 - TAILS)).tolist()
    # Constant values have no range.
    room = ROOM * (high - low) or 0.5
    return Axis(text, low - room, high + room)


def _cells(values: list[Singles], axes: list[Axis]) -> NDArray[np.uint16]:
    cells = np.empty(values[0].shape, np.uint16)
    flat, planes = cells.reshape(-1), [one.reshape(-1) for one in values]
    low, step = np.array([(axis.low, axis.step) for axis in axes]).T[..., None]
    for start in range(0, flat.size, CHUNK):
        part = slice(start, start + CHUNK)
        steps = (np.stack([plane[part] for plane in planes]) - low) / step
        # NaN fails both comparisons.
        is_within = ((steps >= 0) & (steps < CELLS)).all(axis=0)
        column, row = np.where(is_within, steps, 0).astype(np.uint16)
        flat[part] = np.where(is_within, row * CELLS + column, OUTSIDE)
    return cells
