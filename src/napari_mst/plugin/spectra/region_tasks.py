"""The tasks that read a cube for the regions that a person has drawn: shapes and labels.

A task takes what it needs from the layers on the main thread, and freezes it; its `run` then reads
the cube on another one. Letters: B bands, H rows, W columns.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image, Labels, Shapes
from numpy.typing import NDArray

from napari_mst.cube import SpectralCube
from napari_mst.errors import SpectrumError
from napari_mst.plugin.spectra.reader import Identity, Task
from napari_mst.plugin.viewer.layers import cube_at
from napari_mst.plugin.viewer.placement import image_matrix, to_pixels
from napari_mst.spectra.compare import compare_labels, compare_region
from napari_mst.spectra.incremental_means import MovingMeans
from napari_mst.spectra.labels import Labelled, label_spectra
from napari_mst.spectra.regions import Region, Spread, region_spectrum
from napari_mst.spectra.spectrum import Origin, Values
from napari_mst.watch import Watch

ELLIPSE_CORNERS = 256
"""Corners of the polygon that stands for an ellipse."""
OPEN_SHAPES = frozenset(["line", "path"])
"""napari's names for shapes without an inside: the pixels under the line are read."""
STEP = 0.5
"""Largest distance in pixels between two points of a line that is read."""
STRIP_PIXELS = 2**18
"""Pixels of labels that are brought onto the grid of a cube at a time."""

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Reading:
    """A way to read each region of a cube layer: its spectrum, or its errors.

    Attributes
    ----------
    on
        The cube layer.
    what
        Identifies the reading.
    of_region
        Reads one region; also gets the slot of its task.
    of_labels
        Reads all labels at once.
    """

    on: Image
    what: tuple[Hashable, ...]
    of_region: Callable[[Region, Hashable], Any]
    of_labels: Callable[[Array, Watch], Labelled[Any] | None]


def shape_tasks(layer: Shapes, reading: Reading) -> list[Task]:
    """The tasks that read each shape of *layer*; each gives what was read, or None off the image.

    There are none where both layers do not lie in one plane.
    """
    cube = cube_at(reading.on)
    matrix = to_pixels(layer, reading.on)
    if matrix is None:
        return []
    tasks = []
    for index, (corners, kind) in enumerate(zip(layer.data, layer.shape_type, strict=True)):
        outline = corners[:, -2:]
        if kind == "ellipse":
            outline = _ellipse(outline)
        vertices = outline @ matrix[:2, :2].T + matrix[:2, 2]
        key = (reading.what, Identity(cube.data), kind, vertices.tobytes())
        slot = (reading.what[0], id(reading.on), id(layer), index)
        # `MovingMeans` compares the pixels, so it is not misled by another shape at this index.
        run = partial(_read_shape, vertices, kind, cube.shape[1:], reading, slot)
        # The count is part of the slot: after one was deleted, its index may be that of another.
        tasks.append(Task(key, (*slot, len(layer.data)), run))
    return tasks


def label_tasks(
    layer: Labels, reading: Reading, version: Hashable, viewer: ViewerModel
) -> list[Task]:
    """The task that reads all labels of *layer*, and gives what was read by their numbers.

    *version* identifies a state of their pixels. There is none where both layers do not
    lie in one plane.
    """
    cube = cube_at(reading.on)
    matrix = to_pixels(layer, reading.on)
    if matrix is None:
        return []
    labels, page = _page(layer, viewer)
    # The pixels themselves are not compared, as that would take as long as to read them again.
    key = (reading.what, Identity(cube.data), id(layer), version, page, matrix.tobytes())
    slot = (reading.what[0], id(reading.on), id(layer))
    to_labels = np.asarray(np.linalg.inv(matrix), dtype=np.float64)
    run = partial(_read_labels, labels, to_labels, cube.shape[1:], reading)
    return [Task(key, slot, run, is_large=True)]


def spectra_of(on: Image, spread: Spread, moving: MovingMeans) -> Reading:
    """Reads the mean spectra of the cube layer *on*."""
    cube = cube_at(on)
    facts = _facts(on)
    return Reading(
        on,
        ("spectra", spread, *facts.values()),
        lambda region, slot: region_spectrum(
            cube, region, spread, known=moving.mean_and_std(slot, cube, region), **facts
        ),
        lambda labels, watch: label_spectra(cube, labels, spread, **facts, watch=watch),
    )


def errors_of(on: Image, reference: Image) -> Reading:
    """Compares pixels of the cube layer *on* with *reference*; gives None if that is impossible."""
    cube = cube_at(on)
    truth = cube_at(reference)
    return Reading(
        on,
        ("errors", Identity(reference.data)),
        lambda region, _: compared(compare_region, cube, truth, region),
        lambda labels, watch: compared(compare_labels, cube, truth, labels, watch),
    )


def compared(compare: Callable[..., Any], *of: object) -> Any:
    """The result of *compare*; None if it cannot be done, as units or sizes differ."""
    try:
        return compare(*of)
    except SpectrumError:
        return None


def error_band_of(cube: SpectralCube, row: int, column: int) -> Task:
    """Reads the lower and upper spectrum of the 90 % error band of a pixel; None without one."""
    key = ("error band", Identity(cube.data), row, column)
    return Task(key, key, lambda _: _error_band(cube, row, column))


def _error_band(
    cube: SpectralCube, row: int, column: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]] | None:
    # It imports torch, which takes seconds: here, where that happens on another thread.
    from napari_mst.adaptation.bands import spectrum_band

    return spectrum_band(cube, row, column)


def _read_shape(
    vertices: Values,
    kind: str,
    shape: tuple[int, int],
    reading: Reading,
    slot: Hashable,
    _: Watch,
) -> Any:
    try:
        is_open = kind in OPEN_SHAPES
        region = _line(vertices, shape) if is_open else Region.of_polygon(vertices, shape)
    except SpectrumError:
        return None
    return reading.of_region(region, slot)


def _read_labels(
    labels: Any, matrix: Values, shape: tuple[int, int], reading: Reading, watch: Watch
) -> Any:
    # A lazy layer is computed only here, on the thread of the read.
    return reading.of_labels(on_grid(np.asarray(labels), matrix, shape), watch)


def _facts(layer: Image) -> dict[str, Any]:
    """The name of a cube layer and the area of its pixels, for `region_spectrum`."""
    facts: dict[str, Any] = {"cube_name": layer.name}
    unit = str(layer.units[-1])
    matrix = image_matrix(layer)
    # An area needs one unit of length for both axes.
    if unit == "pixel" or matrix is None or unit != str(layer.units[-2]):
        return facts
    facts["pixel_area"] = float(abs(np.linalg.det(matrix[:2, :2])))
    facts["area_unit"] = f"{unit}^2"
    return facts


def _page(layer: Labels, viewer: ViewerModel) -> tuple[Any, tuple[int, ...]]:
    """The (H, W) labels that are shown, and their indices in the stack."""
    # Of a pyramid, the finest level.
    data = layer.data[0] if layer.multiscale else layer.data
    at = np.round(layer.world_to_data(viewer.dims.point)[:-2]).astype(int)
    last = np.array(data.shape[:-2], dtype=int) - 1
    page = tuple(int(index) for index in np.clip(at, 0, last))
    return data[page], page


def on_grid(labels: Array, matrix: Values, shape: tuple[int, int]) -> Array:
    """The label at the centre of each of (H, W) pixels; 0 outside.

    *matrix* takes these pixels to pixels of *labels*.
    """
    # The usual case: labels of the image itself, which need no second grid.
    if labels.shape == shape and np.allclose(matrix, np.eye(3), atol=1e-6):
        return labels
    found = np.zeros(shape, dtype=labels.dtype)
    columns = np.arange(shape[1])
    # In strips: the places of all pixels at once would take more memory than the labels.
    step = max(1, STRIP_PIXELS // shape[1])
    down, across, offset = matrix[:2].T[:, :, None, None]
    for start in range(0, shape[0], step):
        rows = np.arange(start, min(shape[0], start + step))[:, None]
        at = _rounded(down * rows + across * columns + offset)
        inside = ((at >= 0) & (at < np.reshape(labels.shape, (2, 1, 1)))).all(axis=0)
        found[start : start + step][inside] = labels[tuple(at[:, inside])]
    return found


def _rounded(places: Values) -> NDArray[np.int_]:
    """The pixels that *places* lie in; halves go up, as where a pick is read."""
    return np.asarray(np.floor(places + 0.5).astype(int))


def _ellipse(corners: Values) -> Values:
    """The outline of the ellipse in a (4, 2) frame."""
    turn = np.linspace(0, 2 * np.pi, ELLIPSE_CORNERS, endpoint=False)[:, None]
    centre = corners.mean(axis=0)
    first_axis = (corners[1] - corners[0]) / 2
    second_axis = (corners[3] - corners[0]) / 2
    return np.asarray(centre + np.cos(turn) * first_axis + np.sin(turn) * second_axis)


def _line(vertices: Values, shape: tuple[int, int]) -> Region:
    """The pixels under a line through *vertices*. Raises `SpectrumError` if there are none."""
    parts = []
    for start, stop in pairwise(vertices):
        count = int(np.abs(stop - start).max() / STEP) + 2
        parts.append(np.linspace(start, stop, count))
    pixels = _rounded(np.concatenate(parts))
    pixels = pixels[((pixels >= 0) & (pixels < shape)).all(axis=1)]
    if not len(pixels):
        raise SpectrumError("Expected a line on the image, got none there. Move it.")
    # The mask only covers the rectangle around the line, not the image.
    first = pixels.min(axis=0)
    mask = np.zeros(pixels.max(axis=0) - first + 1, dtype=bool)
    mask[tuple((pixels - first).T)] = True
    return Region(int(first[0]), int(first[1]), mask, Origin())
