"""A ColorChecker in a photo: finding it, and locating and reading its patches.

A new kind of chart is an entry in `data/charts.json`. Letters: n patches of known reflectance, in
the order of the kind of chart.
"""

import functools
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from types import MappingProxyType
from typing import Any

import numpy as np

from napari_mst.base.arrays import Doubles, Indices, doubles
from napari_mst.base.errors import PhotoError, shown
from napari_mst.cube.colour import linear_to_srgb, stored
from napari_mst.photo.photo import Photo, PhotoLike, as_photo

Points = Doubles
"""Rows and columns (k, 2), or other values of several patches."""


@dataclass(frozen=True, eq=False)
class ChartKind:
    """The layout of a chart, and its colours.

    Attributes
    ----------
    title
        Readable name.
    rows, columns
        Size of the grid, whose corner patches the user clicks.
    corners
        Readable names of the corner patches, in order around the chart.
    patches
        (n) names of the patches with known reflectances.
    places
        (n, 2) row and column of each patch on the grid.
    greys
        Indices of the grey patches that determine the balance, from white to black.
    table, key
        File in `data` with the reflectances (n, 31), and name of the array in it.
    """

    title: str
    rows: int
    columns: int
    corners: str
    patches: Sequence[str]
    places: Sequence[Sequence[int]]
    greys: Sequence[int]
    table: str
    key: str

    @functools.cached_property
    def reflectances(self) -> Points:
        """(n, 31) measured reflectances at 400, 410, ..., 700 nm."""
        return stored(self.table)[self.key]

    def corner_places(self, margin: float = 0.0) -> Points:
        """Return columns and rows (4, 2) of the corner patches, moved outwards by *margin*."""
        square = doubles([(0, 0), (1, 0), (1, 1), (0, 1)])
        return square * (self.columns - 1 + 2 * margin, self.rows - 1 + 2 * margin) - margin


def _charts() -> Mapping[str, ChartKind]:
    file = resources.files("napari_mst").joinpath("data", "charts.json")
    kinds = json.loads(file.read_text(encoding="utf-8"))
    return MappingProxyType({name: ChartKind(**fields) for name, fields in kinds.items()})


CHARTS = _charts()
"""Known kinds of charts, by the name that `Chart` takes; the usual kind first."""


_HALF = 0.16  # half the side of the square read in a patch, as a share of the patch spacing
_CLIPPED = 0.99
_MOST_CLIPPED = 0.1

Corner = tuple[float, float]
Corners = tuple[Corner, Corner, Corner, Corner]


@dataclass(frozen=True)
class Chart:
    """A ColorChecker in a photo.

    Attributes
    ----------
    corners
        Row and column of the centres of the four corner patches, in order around the chart: dark
        skin, bluish green, black, white of a Classic. Other starting corners and the opposite
        direction are recognised.
    kind
        "classic", "passport", or "digital-sg".

    Raises
    ------
    PhotoError
        If there are not four corners, if they lie on a line, or if the kind is unknown.

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

    corners: Corners
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
        corners = doubles(self.corners)
        (a, b), (c, d) = corners[2] - corners[0], corners[3] - corners[1]
        area = abs(float(a * d - b * c)) / 2
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
        """Names of the n patches."""
        return tuple(self._form.patches)

    @property
    def arrangements(self) -> list["Chart"]:
        """The chart with its corners in all eight orders; the given order comes first."""
        charts = []
        for start in range(4):
            a, b, c, d = self.corners[start:] + self.corners[:start]
            charts += [Chart((a, b, c, d), self.kind), Chart((d, c, b, a), self.kind)]
        return charts

    @property
    def centres(self) -> Points:
        """(n, 2) row and column of the centre of each patch, by a projective map."""
        return self._mapped(np.transpose(self._form.places))

    @property
    def window(self) -> int:
        """Side of the square of pixels that is read in each patch: 1, 3, 5, ..."""
        shape = self._form.rows, self._form.columns
        grid = self._mapped(np.indices(shape).reshape(2, -1)).reshape(*shape, 2)
        steps = [np.linalg.norm(np.diff(grid, axis=axis), axis=-1).min() for axis in (0, 1)]
        return 2 * int(_HALF * min(steps)) + 1

    def _mapped(self, places: Indices) -> Points:
        """Map rows and columns (2, k) of the grid to rows and columns (k, 2) of the photo."""
        matrix = projective(self._form.corner_places(), doubles(self.corners))
        return mapped(matrix, doubles(places[::-1].T))


def chart_colours(photo: Photo, chart: Chart) -> Points:
    """Return the median (n, 3) of each patch, in linear shares of full scale.

    Colours of a photo in Display P3 or Adobe RGB may lie outside sRGB. Raises `PhotoError` if a
    patch lies outside the photo.
    """
    parts = (part.light().reshape(3, -1).astype(np.float64) for _, part in _patches(photo, chart))
    return np.stack([np.median(part, axis=1) for part in parts])


def check_exposure(photo: Photo, chart: Chart) -> None:
    """Raise `PhotoError` if a patch of the *chart* is clipped in *photo*."""
    for name, part in _patches(photo, chart):
        clipped = float(part.at_full_scale(_CLIPPED).mean())
        if clipped > _MOST_CLIPPED:
            raise PhotoError(
                f"Expected a chart below full scale, got {clipped:.0%} of the pixels clipped where "
                f"its patch {name!r} should be. There may be no chart here; if there is, expose it "
                "less."
            )


def _patches(photo: Photo, chart: Chart) -> Iterator[tuple[str, Photo]]:
    """Yield name and pixels of each patch; raises the errors of `chart_colours`."""
    half = chart.window // 2
    rows, columns = photo.shape
    for name, (row, column) in zip(chart.patches, np.rint(chart.centres).astype(int), strict=True):
        if not (half <= row < rows - half and half <= column < columns - half):
            raise PhotoError(
                f"Expected the chart within {rows} rows x {columns} columns, got its patch "
                f"{name!r} at row {row}, column {column}. Check the corners."
            )
        part = photo.cropped((row - half, row + half + 1, column - half, column + half + 1))
        yield name, part


def projective(source: Points, target: Points) -> Points:
    """Fit a projective map (3, 3) from *source* (k, 2) to *target* (k, 2).

    More than four points are fitted by least squares. *source* holds columns and rows of a grid,
    *target* rows and columns.
    """
    equations = []
    for (x, y), (u, v) in zip(source, target, strict=True):
        equations.append([x, y, 1, 0, 0, 0, -u * x, -u * y])
        equations.append([0, 0, 0, x, y, 1, -v * x, -v * y])
    solved, *_ = np.linalg.lstsq(np.array(equations), target.ravel(), rcond=None)
    return np.append(solved, 1.0).reshape(3, 3)


def mapped(matrix: Points, points: Points) -> Points:
    """Map *points* (k, 2) by a projective *matrix* (3, 3)."""
    places = matrix @ np.column_stack([points, np.ones(len(points))]).T
    return (places[:2] / places[2]).T


_PIXELS = 2_000_000  # the library works on 1.4 megapixels
_BRIGHT = 0.995  # quantile of a linear photo that becomes white
_NEAR = 0.3  # distance, in patch spacings, up to which a square belongs to a patch
_ROUNDS = 3
_LEAST = 0.5  # share of the patches whose squares must be found
_SETTINGS = {"digital-sg": "SETTINGS_SEGMENTATION_COLORCHECKER_SG"}
_USUAL = "SETTINGS_SEGMENTATION_COLORCHECKER_CLASSIC"
_PLUGINS = "QT_QPA_PLATFORM_PLUGIN_PATH"


def find_chart(photo: PhotoLike, kind: str = "classic") -> Chart:
    """Find the ColorChecker in *photo*.

    Check its squares, or the report of `calibrate`, before you trust the result.

    Raises
    ------
    PhotoError
        If no chart of this kind is found, or colour-checker-detection is not installed.

    Notes
    -----
    =======  =================================================
    photo    sRGB or linear: uint8, uint16, float 0-1
    returns  corners in pixels of the photo, (row, column)
    =======  =================================================

    Examples
    --------
    >>> chart = nm.find_chart("photo.jpg")  # doctest: +SKIP
    >>> calibration = nm.calibrate(photo, chart)  # doctest: +SKIP
    """
    photo = as_photo(photo)
    usual = Chart(((0, 0), (0, 99), (99, 99), (99, 0)), kind)
    outlines, squares = _segmented(photo, usual.kind)
    fits = [fit for outline in outlines for fit in grids(outline, squares, CHARTS[kind])]
    matched, corners = max(fits, default=(0, usual.corners))
    if not matched or matched < _LEAST * len(usual.patches):
        raise PhotoError(
            f"Expected a {CHARTS[kind].title} in {shown(photo.name, 60) or 'the photo'}, found "
            "none. Give the middles of its four corner patches."
        )
    return Chart(corners, kind)


def grids(outline: Points, squares: Points, kind: ChartKind) -> list[tuple[int, Corners]]:
    """Fit grids of a *kind* of chart to *squares* in an *outline* (4, 2), in both directions.

    Later, the colours show which patch is in which corner.

    Returns
    -------
    For each grid, the number of squares on its patches, and the centres of its corner patches.
    """
    return [_grid(np.roll(outline, turn, axis=0), squares, kind) for turn in (0, 1)]


def _grid(outline: Points, squares: Points, kind: ChartKind) -> tuple[int, Corners]:
    matrix = projective(kind.corner_places(0.5), outline)
    for _ in range(_ROUNDS):
        on_chart = mapped(doubles(np.linalg.inv(matrix)), squares)
        places = np.rint(on_chart)
        is_near = (np.abs(on_chart - places) < _NEAR).all(axis=1)
        is_inside = (places >= 0).all(axis=1) & (places < (kind.columns, kind.rows)).all(axis=1)
        used = is_near & is_inside
        if np.count_nonzero(used) < len(outline):
            break
        matrix = projective(places[used], squares[used])
    matched = len({tuple(place) for place in places[used].tolist()})
    a, b, c, d = ((row, column) for row, column in mapped(matrix, kind.corner_places()).tolist())
    return matched, (a, b, c, d)


def _segmented(photo: Photo, kind: str) -> tuple[list[Points], Points]:
    """Return outlines (4, 2) of charts found by the library, and the centres (k, 2) of squares."""
    library = _library()
    small = photo.reduced(_PIXELS)
    linear = small.rows(linear=True)
    white = np.quantile(linear, _BRIGHT) if photo.encoding == "linear" else 1.0
    image = linear_to_srgb((linear / max(float(white), 1e-6)).clip(0, 1))
    image = np.moveaxis(image, 0, -1).astype(np.float32)
    # The library would rotate an upright photo and return rotated positions, so rotate it here.
    is_standing = image.shape[0] > image.shape[1]
    if is_standing:
        image = image.swapaxes(0, 1)
    settings = getattr(library, _SETTINGS.get(kind, _USUAL))
    parts = library.segmenter_default(np.ascontiguousarray(image), additional_data=True, **settings)
    scale = image.shape[1] / settings["working_width"] * photo.shape[0] / small.shape[0]

    def places(corners: Any) -> Points:
        """Convert columns and rows from the library to rows and columns of the photo."""
        points: Points = doubles(corners).reshape(-1, 2) * scale
        return points if is_standing else points[:, ::-1]

    squares = [places(square).mean(axis=0) for square in parts.swatches]
    return [places(outline) for outline in parts.rectangles], np.array(squares).reshape(-1, 2)


def _library() -> Any:
    """Import the library of the extra `charts`."""
    before = os.environ.get(_PLUGINS)
    try:
        import colour_checker_detection
    except ImportError as error:
        raise PhotoError(
            "Expected colour-checker-detection, which finds charts, got no such package. "
            "Install it: pip install 'napari-mst[charts]', or give the four corners."
        ) from error
    finally:
        # OpenCV redirects Qt to its plugins, which would keep napari from starting.
        if before is None:
            os.environ.pop(_PLUGINS, None)
        else:
            os.environ[_PLUGINS] = before
    return colour_checker_detection
