"""Mean spectra of regions of a cube: a pixel, a window around it, a mask, a label, a polygon.

Only the bounding box of a region is read, a few rows at a time, so a memory-mapped cube stays on
disk. All labels of an image, such as thousands of segmented cells, are measured in one pass.
Letters: B bands, H rows, W columns; h, w of a bounding box; N labels.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_mst.analysis.label_means import (
    IN_PIXELS,
    LabelNumbers,
    PixelArea,
    Pixels,
    Spread,
    averages,
)
from napari_mst.base.arrays import Brief, Doubles, Mask
from napari_mst.base.errors import SpectrumError, check_pixel, shown
from napari_mst.base.progress import ProgressLike, as_progress
from napari_mst.cube import SpectralCube
from napari_mst.cube.spectrum import STD, Origin, Spectrum
from napari_mst.engine.windows import Window

T = TypeVar("T")

ON_EDGE = 1e-9
"""Distance in pixels within which a pixel centre lies on an edge."""


@dataclass(frozen=True, eq=False, repr=False)
class Region(Brief):
    """A set of pixels of an image.

    Attributes
    ----------
    row, column
        Position of the first pixel of the mask in the image.
    mask
        (h, w), True for the pixels of the region.
    origin
        Description of the region, which becomes the origin of its spectrum.

    Notes
    -----
    ============  ==========================================================
    mask          (h, w) bool
    row, column   pixels of the image, from 0
    of_mask()     (H, W) bool, or numbers that are not 0
    of_label()    (H, W) whole numbers
    of_polygon()  pixels, (row, column); centres of pixels are whole numbers
    ============  ==========================================================

    Examples
    --------
    >>> nm.Region.of_window(2, 2, (4, 5), window=3).size
    9
    >>> nm.Region.of_polygon([(0, 0), (0, 4), (3, 0)], (4, 5), name="leaf").size
    11
    >>> nm.Region.of_mask(np.eye(4), name="diagonal").size
    4
    >>> nm.Region.of_label(np.array([[0, 7], [7, 7]]), 7).box
    (slice(0, 2, None), slice(0, 2, None))
    """

    row: int
    column: int
    mask: Mask
    origin: Origin = field(default_factory=Origin)

    @classmethod
    def of_mask(cls, mask: ArrayLike, name: str = "") -> "Region":
        """Return the True pixels of an (H, W) mask. Raises `SpectrumError` if there are none."""
        whole = np.ma.filled(np.asanyarray(mask), 0)
        if whole.ndim != 2:
            raise SpectrumError(f"Expected a mask of shape (rows, columns), got {whole.shape}.")
        whole = whole != 0
        rows = np.flatnonzero(whole.any(axis=1))
        columns = np.flatnonzero(whole.any(axis=0))
        if not rows.size:
            raise _empty(name)
        top = int(rows[0])
        left = int(columns[0])
        box = whole[top : rows[-1] + 1, left : columns[-1] + 1]
        return cls(top, left, box, Origin(region=name))

    @classmethod
    def of_label(cls, labels: NDArray[np.integer[Any]], value: int, name: str = "") -> "Region":
        """Return the pixels of an (H, W) label image that have *value*.

        Raises `SpectrumError` if there are none.
        """
        return cls.of_mask(np.asanyarray(labels) == value, name or f"label {value}")

    @classmethod
    def of_polygon(cls, vertices: ArrayLike, shape: tuple[int, int], name: str = "") -> "Region":
        """Return the pixels of an image of *shape* (H, W) with centres in a polygon or on its edge.

        There are three or more *vertices* (row, column). Where the polygon crosses itself, pixels
        enclosed twice are outside (even-odd rule). Raises `SpectrumError` if no pixel is inside.
        """
        corners = np.asarray(vertices, dtype=np.float64)
        is_list_of_points = corners.ndim == 2 and corners.shape[1] == 2 and len(corners) >= 3
        if not is_list_of_points or not np.isfinite(corners).all():
            raise SpectrumError(
                f"Expected 3 or more finite (row, column) vertices, got {corners.shape}."
            )
        low = np.clip(np.ceil(corners.min(axis=0) - ON_EDGE), 0, shape).astype(int)
        high = np.clip(np.floor(corners.max(axis=0) + ON_EDGE) + 1, 0, shape).astype(int)
        height, width = np.maximum(high - low, 0)
        mask = _polygon_mask(corners - low, height, width)
        if not mask.any():
            raise _empty(name)
        outline = tuple((float(row), float(column)) for row, column in corners)
        return cls(int(low[0]), int(low[1]), mask, Origin(region=name, vertices=outline))

    @classmethod
    def of_window(cls, row: int, column: int, shape: tuple[int, int], window: int = 1) -> "Region":
        """Return the square of *window* x *window* pixels (1, 3, 5, ...) around a pixel.

        The square is cut at the borders of the image. Raises `SpectrumError` if the pixel is
        outside, or if *window* is not odd.
        """
        if window < 1 or window % 2 == 0:
            raise SpectrumError(f"Expected a window of 1, 3, 5, ... pixels, got {window}.")
        check_pixel(SpectrumError, row, column, shape)
        part = Window(row, row + 1, column, column + 1).grown(window // 2).clipped(shape)
        mask = np.ones(part.size, dtype=bool)
        return cls(part.top, part.left, mask, Origin(row=row, column=column, window=window))

    @property
    def size(self) -> int:
        """Number of pixels."""
        return int(np.count_nonzero(self.mask))

    @property
    def box(self) -> tuple[slice, slice]:
        """Image rows and columns covered by the mask."""
        height, width = self.mask.shape
        return slice(self.row, self.row + height), slice(self.column, self.column + width)


def point_spectrum(  # noqa: PLR0913 (public, its options by name)
    cube: SpectralCube,
    row: int,
    column: int,
    window: int = 1,
    *,
    name: str = "",
    colour: str = "",
    cube_name: str = "",
) -> Spectrum:
    """Return the spectrum of one pixel, or the mean of the *window* around it, cut at the borders.

    The spectrum carries the names and the colour. For a single pixel without these, `cube.spectrum`
    gives the same.

    Notes
    -----
    =======  =====================================================
    cube     any unit: reflectance, radiance
    returns  float64 in the unit of the cube; wavelengths as there
    =======  =====================================================

    Examples
    --------
    >>> cube = nm.SpectralCube(np.arange(24.0).reshape(2, 3, 4), [500, 600])
    >>> nm.point_spectrum(cube, row=1, column=2).values
    array([ 6., 18.])
    >>> nm.point_spectrum(cube, row=1, column=2, window=3).upper.round(1)
    array([ 9.4, 21.4])
    """
    region = Region.of_window(row, column, cube.shape[1:], window)
    spread: Spread = STD if window > 1 else ""
    return region_spectrum(cube, region, spread, name=name, colour=colour, cube_name=cube_name)


def region_spectrum(  # noqa: PLR0913 (public, its options by name)
    cube: SpectralCube,
    region: Region,
    spread: Spread = STD,
    *,
    cube_name: str = "",
    pixel_area: PixelArea = IN_PIXELS,
    name: str = "",
    colour: str = "",
) -> Spectrum:
    """Return the mean spectrum of *region*.

    Each band averages the pixels with a finite value there; it is NaN if there are none.
    `origin.excluded` counts the pixels left out, in the band that averages the fewest.

    Parameters
    ----------
    spread
        "std" for bounds one standard deviation from the mean, or "" for none.
    pixel_area
        Area of one pixel, and its unit.
    name, colour
        Name and colour of the `Spectrum`; by default the name of the region, and no colour.

    Raises
    ------
    SpectrumError
        If the region is not within the image.

    Notes
    -----
    =======  =====================================================
    cube     any unit: reflectance, radiance
    returns  float64 in the unit of the cube; wavelengths as there
    =======  =====================================================

    Examples
    --------
    >>> cube = nm.SpectralCube(np.arange(24.0).reshape(2, 3, 4), [500, 600])
    >>> region = nm.Region.of_mask([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0]], name="corner")
    >>> leaf = nm.region_spectrum(cube, region)
    >>> leaf.values, leaf.lower.round(1)
    (array([ 2.5, 14.5]), array([ 0.4, 12.4]))
    """
    check_inside(cube, region)
    statistics = averages(pixels_of(region), cube, spread)
    fields = statistics.fields(0, replace(region.origin, cube=cube_name), pixel_area)
    title = name or region_name(region)
    return Spectrum(cube.wavelengths, unit=cube.unit, name=title, colour=colour, **fields)


def pixels_of(region: Region) -> Pixels:
    """Return the pixels of *region* as an image with the single label 1."""
    return Pixels((region.mask != 0).view(np.uint8), np.array([1]), region.row, region.column)


def check_inside(cube: SpectralCube, region: Region) -> None:
    """Raise `SpectrumError` if *region* has no pixels, or pixels outside *cube*."""
    _, height, width = cube.shape
    rows, columns = region.box
    is_within = min(rows.start, columns.start) >= 0
    is_within &= rows.stop <= height and columns.stop <= width
    if not is_within or not region.mask.any():
        raise SpectrumError(
            f"Expected a region within {height} rows x {width} columns, "
            f"got rows {rows.start}-{rows.stop - 1}, columns {columns.start}-{columns.stop - 1}. "
            "Draw it on the image of this cube."
        )


def region_name(region: Region) -> str:
    """Return the name of *region*, or the position of its pixel."""
    origin = region.origin
    if origin.row is None:
        return origin.region
    return f"row {origin.row}, column {origin.column}"


def _polygon_mask(corners: Doubles, height: int, width: int) -> Mask:
    """Return a mask (h, w) of the pixels with centres inside the polygon or on its edge.

    *corners* are (row, column) within the box. Pixels enclosed twice are outside.
    """
    crossings = np.zeros((height, width + 1), dtype=bool)
    on_edge = np.zeros((height, width), dtype=bool)
    for start, end in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        # The edge runs from its upper to its lower end.
        (row, column), (end_row, end_column) = sorted((tuple(start), tuple(end)))
        first = max(0, np.ceil(row - ON_EDGE))
        last = min(height - 1, np.floor(end_row + ON_EDGE))
        rows = np.arange(first, last + 1, dtype=int)
        if end_row - row <= ON_EDGE:
            # No row crosses an edge that runs along it.
            left = max(0, int(np.ceil(column - ON_EDGE)))
            right = int(np.floor(end_column + ON_EDGE)) + 1
            on_edge[rows, left : max(left, right)] = True
            continue
        at = column + (rows - row) * ((end_column - column) / (end_row - row))
        nearest = np.rint(at)
        is_on = (np.abs(at - nearest) <= ON_EDGE) & (nearest >= 0) & (nearest < width)
        on_edge[rows[is_on], nearest[is_on].astype(int)] = True
        # The lower end belongs to the next edge, so each corner is crossed once.
        is_crossed = (rows >= row) & (rows < end_row)
        first_right = np.clip(np.ceil(at[is_crossed]), 0, width).astype(int)
        crossings[rows[is_crossed], first_right] ^= True
    # From left to right, each crossing of the outline switches between outside and inside.
    return np.logical_xor.accumulate(crossings[:, :width], axis=1) | on_edge


def _empty(name: str) -> SpectrumError:
    return SpectrumError(
        f"Expected pixels of the image in the region {shown(name, 40)!r}, got none. Draw it larger."
    )


class Labelled(Mapping[int, T]):
    """Results for all labels, by number; each is built on access.

    Attributes
    ----------
    numbers
        (N,) the labels, ascending.
    curves
        (N, B) their mean values.
    """

    def __init__(self, numbers: LabelNumbers, curves: Doubles, make: Callable[[int], T]) -> None:
        self.numbers = numbers
        self.curves = curves
        self._make = make

    def __getitem__(self, number: int) -> T:
        at = int(np.searchsorted(self.numbers, number))
        if at == len(self.numbers) or self.numbers[at] != number:
            raise KeyError(number)
        return self._make(at)

    def __iter__(self) -> Iterator[int]:
        return iter(self.numbers.tolist())

    def __len__(self) -> int:
        return len(self.numbers)


def label_spectra(  # noqa: PLR0913 (public, its options by name)
    cube: SpectralCube,
    labels: LabelNumbers,
    spread: Spread = STD,
    *,
    cube_name: str = "",
    pixel_area: PixelArea = IN_PIXELS,
    progress: ProgressLike = None,
) -> Labelled[Spectrum]:
    """Return the mean spectrum of every label but 0 of an (H, W) image, in one pass over the cube.

    Each spectrum equals `regions.region_spectrum` of the label's pixels.

    Raises
    ------
    SpectrumError
        If *labels* is not an integer image of the size of the cube, or *spread* is unknown.
    Cancelled
        Soon after *progress* was cancelled.

    Notes
    -----
    =======  ===================================
    cube     any unit: reflectance, radiance
    labels   (H, W) whole numbers; 0 is no label
    returns  float64 in the unit of the cube
    =======  ===================================

    Examples
    --------
    >>> cube = nm.SpectralCube(np.arange(24.0).reshape(2, 3, 4), [500, 600])
    >>> labels = np.array([[0, 1, 1, 1], [0, 2, 2, 2], [2, 2, 2, 2]])
    >>> spectra = nm.label_spectra(cube, labels)
    >>> list(spectra), spectra[1].values
    ([1, 2], array([ 2., 14.]))
    """
    pixels = labelled_pixels(cube, labels, progress)
    numbers = pixels.numbers
    statistics = averages(pixels, cube, spread)
    # Spectra are built later; until then they must not keep the cube alive.
    wavelengths = cube.wavelengths
    unit = cube.unit

    def made(at: int) -> Spectrum:
        name = f"label {numbers[at]}"
        fields = statistics.fields(at, Origin(cube_name, region=name), pixel_area)
        return Spectrum(wavelengths, unit=unit, name=name, **fields)

    return Labelled(numbers, statistics.mean, made)


def labelled_pixels(
    cube: SpectralCube, labels: LabelNumbers, progress: ProgressLike = None
) -> Pixels:
    """Return the pixels of an (H, W) label image of *cube*; 0 means no label.

    Raises `SpectrumError` if the image does not hold integers or differs in size.
    """
    labels = np.ma.filled(np.asanyarray(labels), 0)
    if labels.shape != cube.shape[1:] or labels.dtype.kind not in "iub":
        raise SpectrumError(
            f"Expected an image of whole numbers of {cube.shape[1]} x {cube.shape[2]} pixels, "
            f"got {labels.dtype} of {' x '.join(map(str, labels.shape))}. "
            "Take the labels of this cube."
        )
    # A mask is an image with the single label 1.
    labels = labels.astype(np.uint8) if labels.dtype.kind == "b" else labels
    numbers = np.unique(labels)
    return Pixels(labels, numbers[numbers != 0], progress=as_progress(progress))
