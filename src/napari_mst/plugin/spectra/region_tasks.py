"""What is read of a cube for the regions that a person has drawn: shapes and labels.

What a task needs is looked up on the main thread, and frozen; its `run` reads the cube on another one.
Letters: B bands, H rows, W columns.
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
from napari_mst.plugin.viewer.layers import cube_of
from napari_mst.plugin.viewer.placement import image_matrix, to_pixels
from napari_mst.spectra.compare import Comparison, compare_labels, compare_region
from napari_mst.spectra.incremental_means import MovingMeans
from napari_mst.spectra.labels import Labelled, label_spectra
from napari_mst.spectra.regions import Region, Spread, region_spectrum
from napari_mst.spectra.spectrum import Origin, Spectrum
from napari_mst.watch import Watch

ELLIPSE_CORNERS = 256
OPEN_SHAPES = frozenset(["line", "path"])
STEP = 0.5
"""Pixels between two points of a line that is read."""
STRIP_PIXELS = 2**18

Points2 = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Task:
    """Something to be read of a cube.

    Attributes
    ----------
    key
        Tells it from any other.
    slot
        What it is of: that of a shape stays the same while the shape is dragged, and its key changes.
    run
        Reads; it is given who watches, and raises `Cancelled` soon after they cancel.
    is_large
        Whether it waits for all that are not.
    """

    key: Hashable
    slot: Hashable
    run: Callable[[Watch], Any]
    is_large: bool = False


@dataclass(frozen=True, eq=False)
class Reading:
    """What is read: a key that tells it from other readings; of one region, whose slot is told; of all labels."""

    what: tuple[Hashable, ...]
    of_region: Callable[[Region, Hashable], Any]
    of_labels: Callable[..., Labelled[Any] | None]


def tasks_of(
    layer: Shapes | Labels, on: Image, version: Hashable, viewer: ViewerModel, reading: Reading
) -> list[Task]:
    """Tasks of the cube layer *on*: one a shape, or one for all labels, whose state *version* tells from another.

    The first gives what was read, or None off the image; the other gives it by the numbers of the labels.
    """
    cube, matrix = cube_of(on), to_pixels(layer, on)
    if cube is None or matrix is None:
        return []
    slot, shape = (reading.what[0], id(on), id(layer)), cube.shape[1:]
    if isinstance(layer, Labels):
        labels, page = _page(layer, viewer)
        key = (reading.what, id(cube.data), id(layer), version, page, matrix.tobytes())
        inverse = np.asarray(np.linalg.inv(matrix), dtype=np.float64)
        return [
            Task(key, slot, partial(_read_labels, labels, inverse, shape, reading), is_large=True)
        ]
    outlines = [
        _vertices(corners, kind, matrix)
        for corners, kind in zip(layer.data, layer.shape_type, strict=True)
    ]
    return [
        Task(
            (reading.what, id(cube.data), kind, outline.tobytes()),
            (*slot, index, len(outlines)),
            partial(_read_shape, outline, kind, shape, reading, (*slot, index)),
        )
        for index, (outline, kind) in enumerate(zip(outlines, layer.shape_type, strict=True))
    ]


def spectra_of(on: Image, spread: Spread, moving: MovingMeans) -> Reading:
    """Reads the mean spectra of the cube layer *on*."""
    cube, facts = cube_of(on), _facts(on)
    if cube is None:
        raise TypeError(f"Expected a cube layer, got {on.name!r}.")

    def of_region(region: Region, slot: Hashable) -> Spectrum:
        return region_spectrum(
            cube, region, spread, known=moving.mean_and_std(slot, cube, region), **facts
        )

    def of_labels(labels: NDArray[Any], watch: Watch) -> Labelled[Spectrum]:
        return label_spectra(cube, labels, spread, **facts, **watch.arguments)

    return Reading(
        ("spectra", spread, *facts.values()),
        of_region,
        of_labels,
    )


def errors_of(on: Image, reference: Image) -> Reading:
    """Compares the pixels of the cube layer *on* with those of *reference*; nothing if they cannot be compared."""
    cube, truth = cube_of(on), cube_of(reference)

    def of_region(region: Region, _: Hashable) -> Comparison | None:
        try:
            return (
                compare_region(cube, truth, region)
                if cube is not None and truth is not None
                else None
            )
        except SpectrumError:
            return None

    def of_labels(labels: NDArray[Any], watch: Watch) -> Labelled[Comparison] | None:
        try:
            return (
                None
                if cube is None or truth is None
                else compare_labels(cube, truth, labels, **watch.arguments)
            )
        except SpectrumError:
            return None

    return Reading(("errors", id(reference.data)), of_region, of_labels)


def error_band_of(cube: SpectralCube, row: int, column: int) -> Task:
    """Reads lower and upper spectrum of the 90 % error band of a pixel; None if the cube has none."""
    key = ("error band", id(cube.data), row, column)
    return Task(key, key, lambda _: _error_band(cube, row, column))


def _error_band(
    cube: SpectralCube, row: int, column: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]] | None:
    from napari_mst.reconstruction.error_bands import (
        spectrum_band,
    )  # it imports torch, which takes seconds

    return spectrum_band(cube, row, column)


def _vertices(corners: Points2, kind: str, matrix: NDArray[np.float64]) -> Points2:
    """The outline of a shape, as *matrix* takes it to the pixels of a cube."""
    outline = _ellipse(corners[:, -2:]) if kind == "ellipse" else corners[:, -2:]
    return np.asarray(outline @ matrix[:2, :2].T + matrix[:2, 2])


def _read_shape(
    vertices: Points2, kind: str, shape: tuple[int, int], reading: Reading, slot: Hashable, _: Watch
) -> Any:
    try:
        region = (_line if kind in OPEN_SHAPES else Region.of_polygon)(vertices, shape)
    except SpectrumError:
        return None
    return reading.of_region(region, slot)


def _read_labels(
    labels: Any, matrix: NDArray[np.float64], shape: tuple[int, int], reading: Reading, watch: Watch
) -> Any:
    return reading.of_labels(labels=on_grid(np.asarray(labels), matrix, shape), watch=watch)


def _facts(layer: Image) -> dict[str, Any]:
    """What the spectra of a cube layer say about it."""
    unit, matrix = str(layer.units[-1]), image_matrix(layer)
    facts = {"cube_name": layer.name}
    if unit == "pixel" or matrix is None or unit != str(layer.units[-2]):
        return facts
    return {
        **facts,
        "pixel_area": float(abs(np.linalg.det(matrix[:2, :2]))),
        "area_unit": f"{unit}^2",
    }


def _page(layer: Labels, viewer: ViewerModel) -> tuple[Any, tuple[int, ...]]:
    """The (H, W) labels that are shown, and where they lie in the stack."""
    data = layer.data[0] if layer.multiscale else layer.data
    at = np.round(layer.world_to_data(viewer.dims.point)[:-2]).astype(int)
    page = tuple(int(i) for i in np.clip(at, 0, np.array(data.shape[:-2], dtype=int) - 1))
    return data[page], page


def on_grid(
    labels: NDArray[Any], matrix: NDArray[np.float64], shape: tuple[int, int]
) -> NDArray[Any]:
    """The label at the centre of each of (H, W) pixels, which *matrix* takes to pixels of *labels*; 0 outside."""
    if labels.shape == shape and np.allclose(matrix, np.eye(3), atol=1e-6):
        return labels
    found = np.zeros(shape, dtype=labels.dtype)
    columns = np.arange(shape[1])
    step = max(1, STRIP_PIXELS // shape[1])
    for start in range(0, shape[0], step):
        rows = np.arange(start, min(shape[0], start + step))[:, None]
        at = [np.floor(m[0] * rows + m[1] * columns + m[2] + 0.5).astype(int) for m in matrix[:2]]
        inside = np.logical_and.reduce(
            [(one >= 0) & (one < side) for one, side in zip(at, labels.shape, strict=True)]
        )
        found[start : start + step][inside] = labels[at[0][inside], at[1][inside]]
    return found


def _ellipse(corners: Points2) -> Points2:
    """The outline of the ellipse in a (4, 2) frame."""
    turn = np.linspace(0, 2 * np.pi, ELLIPSE_CORNERS, endpoint=False)[:, None]
    centre = corners.mean(axis=0)
    one, two = (corners[1] - corners[0]) / 2, (corners[3] - corners[0]) / 2
    return np.asarray(centre + np.cos(turn) * one + np.sin(turn) * two)


def _line(vertices: Points2, shape: tuple[int, int]) -> Region:
    """The pixels under a line through *vertices*. Raises `SpectrumError` if there are none."""
    parts = [
        np.linspace(start, stop, max(2, int(np.abs(stop - start).max() / STEP) + 2))
        for start, stop in pairwise(vertices)
    ]
    pixels = np.floor(np.concatenate(parts) + 0.5).astype(int)
    pixels = pixels[((pixels >= 0) & (pixels < shape)).all(axis=1)]
    if not len(pixels):
        raise SpectrumError("Expected a line on the image, got none there. Move it.")
    first = pixels.min(axis=0)
    mask = np.zeros(pixels.max(axis=0) - first + 1, dtype=bool)
    mask[tuple((pixels - first).T)] = True
    return Region(int(first[0]), int(first[1]), mask, Origin())
