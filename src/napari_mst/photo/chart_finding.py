"""A ColorChecker found in a photo, without a click: `find_chart`.

The library colour-checker-detection (BSD-3-Clause) segments the photo into squares, and shows where
a chart is likely. It is the extra `charts`, and imported only here. Its outline is off by a part of
a patch, so the grid is laid through the middles of the squares. Letters: k squares.
"""

import os
from typing import Any

import numpy as np

from napari_mst.arrays import doubles
from napari_mst.cube.colour import linear_to_srgb
from napari_mst.errors import PhotoError, shown
from napari_mst.photo.chart import CHARTS, Chart, ChartKind, Corners, Points, mapped, projective
from napari_mst.photo.photo import Photo

_PIXELS = 2_000_000  # the library works on 1.4 megapixels
_BRIGHT = 0.995  # quantile of a linear photo that is shown as white
_NEAR = 0.3  # of the distance of patches, within which a square is one of them
_ROUNDS = 3
_LEAST = 0.5  # share of the patches whose squares have to be found
_SETTINGS = {"digital-sg": "SETTINGS_SEGMENTATION_COLORCHECKER_SG"}
_USUAL = "SETTINGS_SEGMENTATION_COLORCHECKER_CLASSIC"
_PLUGINS = "QT_QPA_PLATFORM_PLUGIN_PATH"


def find_chart(photo: Photo, kind: str = "classic") -> Chart:
    """The ColorChecker that *photo* shows.

    Look at its squares, or at the report of `calibrate`, before you trust it.

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
    >>> chart = nm.find_chart(nm.Photo.read("photo.jpg"))  # doctest: +SKIP
    >>> calibration = nm.calibrate(photo, chart)  # doctest: +SKIP
    """
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
    """The grids of a *kind* of chart, lying or standing in an *outline* (4, 2), by its *squares*.

    The colours show later which patch is in which corner.

    Returns
    -------
    Of each grid the number of squares that lie on its patches, and the middles of its corner
    patches.
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
    """The outlines (4, 2) of charts that the library sees, and the middles (k, 2) of squares."""
    library = _library()
    small = photo.reduced(_PIXELS)
    linear = small.rows(linear=True)
    white = np.quantile(linear, _BRIGHT) if photo.encoding == "linear" else 1.0
    image = linear_to_srgb((linear / max(float(white), 1e-6)).clip(0, 1))
    image = np.moveaxis(image, 0, -1).astype(np.float32)
    # It would turn a standing photo, and give places in the turned one: here it never does.
    is_standing = image.shape[0] > image.shape[1]
    if is_standing:
        image = image.swapaxes(0, 1)
    settings = getattr(library, _SETTINGS.get(kind, _USUAL))
    parts = library.segmenter_default(np.ascontiguousarray(image), additional_data=True, **settings)
    scale = image.shape[1] / settings["working_width"] * photo.shape[0] / small.shape[0]

    def places(corners: Any) -> Points:
        """Columns and rows of the library as rows and columns of the photo."""
        points: Points = doubles(corners).reshape(-1, 2) * scale
        return points if is_standing else points[:, ::-1]

    squares = [places(square).mean(axis=0) for square in parts.swatches]
    return [places(outline) for outline in parts.rectangles], np.array(squares).reshape(-1, 2)


def _library() -> Any:
    """The library of the extra `charts`."""
    before = os.environ.get(_PLUGINS)
    try:
        import colour_checker_detection
    except ImportError as error:
        raise PhotoError(
            "Expected colour-checker-detection, which finds charts, got no such package. "
            "Install it: pip install 'napari-mst[charts]', or give the four corners."
        ) from error
    finally:
        # OpenCV points Qt to plugins of its own, with which napari would not start.
        if before is None:
            os.environ.pop(_PLUGINS, None)
        else:
            os.environ[_PLUGINS] = before
    return colour_checker_detection
