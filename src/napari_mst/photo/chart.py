"""A ColorChecker in a photo: where its patches are, and what they show.

Letters: n patches, in the order of their kind of chart (`chart_kinds`).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from napari_mst.errors import PhotoError
from napari_mst.messages import shown
from napari_mst.photo.chart_kinds import CHARTS, ChartKind
from napari_mst.photo.photo import Photo

_HALF = 0.16  # half the side of the square that is read, as a share of the distance of patches
_CLIPPED = 0.99
_MOST_CLIPPED = 0.1

Corner = tuple[float, float]


@dataclass(frozen=True)
class Chart:
    """A ColorChecker in a photo.

    Attributes
    ----------
    corners
        Row and column of the middle of the four corner patches, in their order around the chart:
        dark skin, bluish green, black, white of a Classic. Another start, or the other way round,
        is recognised.
    kind
        "classic", "passport", or "digital-sg".

    Raises
    ------
    PhotoError
        If there are not four corners, they lie on a line, or there is no such kind.

    Notes
    -----
    =======  ==================================
    corners  pixels of the photo, (row, column)
    centres  (n, 2) pixels, (row, column)
    patches  (n) names: 24 of a Classic
    =======  ==================================

    Examples
    --------
    >>> chart = nm.Chart(((5, 5), (5, 55), (35, 55), (35, 5)))
    >>> chart.centres[:3].round()
    array([[ 5.,  5.],
           [ 5., 15.],
           [ 5., 25.]])
    >>> chart.window, chart.patches[0]
    (3, 'dark skin')
    """

    corners: tuple[Corner, Corner, Corner, Corner]
    kind: str = "classic"

    def __post_init__(self) -> None:
        if self.kind not in CHARTS:
            raise PhotoError(
                f"Expected a chart {', '.join(CHARTS)}, got {shown(str(self.kind))!r}. "
                "Choose one of them."
            )
        if np.shape(self.corners) != (4, 2) or not np.isfinite(self.corners).all():
            raise PhotoError(
                "Expected four corners of a chart, each a row and a column, got others. "
                "Give the middles of its corner patches."
            )
        first, second, third, fourth = np.array(self.corners, dtype=np.float64)
        area = abs(_cross(third - first, fourth - second)) / 2
        if area < self._form.rows * self._form.columns:
            raise PhotoError(
                f"Expected corners that span a chart, got an area of {area:.0f} pixels. "
                "Give the middles of its corner patches."
            )

    @property
    def _form(self) -> ChartKind:
        return CHARTS[self.kind]

    @property
    def patches(self) -> tuple[str, ...]:
        """(n): the names of the patches."""
        return self._form.patches

    @property
    def arrangements(self) -> list["Chart"]:
        """The chart with its corners in all orders around it, as they are given first."""
        first, second, third, fourth = self.corners
        around = [
            (first, second, third, fourth),
            (second, third, fourth, first),
            (third, fourth, first, second),
            (fourth, first, second, third),
        ]
        charts = []
        for a, b, c, d in around:
            charts += [Chart((a, b, c, d), self.kind), Chart((d, c, b, a), self.kind)]
        return charts

    @property
    def centres(self) -> NDArray[np.float64]:
        """(n, 2): row and column of the middle of each patch, by a projective map."""
        down, across = np.array(self._form.places).T
        return self._mapped(down, across)

    @property
    def window(self) -> int:
        """Side of the square of pixels that is read of each patch: 1, 3, 5, ..."""
        rows, columns = self._form.rows, self._form.columns
        down, across = np.mgrid[:rows, :columns].reshape(2, -1)
        grid = self._mapped(down, across).reshape(rows, columns, 2)
        steps = [np.linalg.norm(np.diff(grid, axis=axis), axis=-1).min() for axis in (0, 1)]
        return 2 * int(_HALF * min(steps)) + 1

    def _mapped(self, down: NDArray[np.intp], across: NDArray[np.intp]) -> NDArray[np.float64]:
        """Row and column in the photo (k, 2) of these rows and columns (k,) of the grid."""
        right, bottom = self._form.columns - 1, self._form.rows - 1
        on_chart = np.array([(0, 0), (right, 0), (right, bottom), (0, bottom)], dtype=np.float64)
        matrix = projective(on_chart, np.array(self.corners, dtype=np.float64))
        return mapped(matrix, np.column_stack([across, down]).astype(np.float64))


def chart_colours(photo: Photo, chart: Chart) -> NDArray[np.float64]:
    """(n, 3): the median of each patch, in linear shares of full scale.

    Raises
    ------
    PhotoError
        If a patch lies outside the photo, or is clipped.
    """
    half = chart.window // 2
    rows, columns = photo.shape
    colours = []
    for name, (row, column) in zip(chart.patches, np.rint(chart.centres).astype(int), strict=True):
        if not (half <= row < rows - half and half <= column < columns - half):
            raise PhotoError(
                f"Expected the chart within {rows} rows x {columns} columns, got its patch "
                f"{name!r} at row {row}, column {column}. Check the corners."
            )
        place = (row - half, row + half + 1, column - half, column + half + 1)
        colours.append(_patch_colour(photo.cropped(place), name))
    return np.stack(colours)


def _patch_colour(part: Photo, name: str) -> NDArray[np.float64]:
    values = part.rows(0, part.shape[0], linear=True).reshape(3, -1).astype(np.float64)
    clipped = float((values >= _CLIPPED).any(axis=0).mean())
    if part.pixels.dtype.kind == "u" and clipped > _MOST_CLIPPED:
        raise PhotoError(
            f"Expected a chart below full scale, got its patch {name!r} with {clipped:.0%} of its "
            "pixels clipped. Expose the photo less."
        )
    return np.asarray(np.median(values, axis=1))


def _cross(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    return float(a[0] * b[1] - a[1] * b[0])


def projective(source: NDArray[np.float64], target: NDArray[np.float64]) -> NDArray[np.float64]:
    """(3, 3): takes points *source* (k, 2) to *target* (k, 2); by least squares for more than 4.

    Those of *source* are columns and rows of a grid, those of *target* rows and columns.
    """
    equations = []
    for (x, y), (u, v) in zip(source, target, strict=True):
        equations.append([x, y, 1, 0, 0, 0, -u * x, -u * y])
        equations.append([0, 0, 0, x, y, 1, -v * x, -v * y])
    solved, *_ = np.linalg.lstsq(np.array(equations), target.ravel(), rcond=None)
    return np.append(solved, 1.0).reshape(3, 3)


def mapped(matrix: NDArray[np.float64], points: NDArray[np.float64]) -> NDArray[np.float64]:
    """*points* (k, 2) taken by a projective *matrix* (3, 3)."""
    places = matrix @ np.column_stack([points, np.ones(len(points))]).T
    return np.asarray((places[:2] / places[2]).T)
