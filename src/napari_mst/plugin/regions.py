"""Regions that a person has drawn: shapes and labels, as pixels of a cube, and their mean spectra.

What a task needs is looked up on the main thread, and frozen; its `run` reads the cube on another one.
Letters: B bands, H rows, W columns.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, pairwise
from typing import Any

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image, Labels, Layer, Shapes
from napari.utils.colormaps.standardize_color import rgb_to_hex
from numpy.typing import ArrayLike, NDArray

from napari_mst.cube import SpectralCube
from napari_mst.errors import SpectrumError
from napari_mst.plugin.layers import METADATA_KEY, Placement, cube_of, image_matrix, to_pixels
from napari_mst.plugin.picks import unused_colour
from napari_mst.spectra.compare import Comparison, compare_region
from napari_mst.spectra.regions import Region, Spread, labelled_regions, region_spectrum
from napari_mst.spectra.spectrum import Origin, Spectrum

ROLE = "map"
"""What marks a map of ours in its metadata: its labels are no regions until a person takes the mark away."""
ELLIPSE_CORNERS = 256
OPEN_SHAPES = frozenset(["line", "path"])
STEP = 0.5
"""Pixels between two points of a line that is read."""
STRIP_PIXELS = 2**18
MOST_LABELS = 1000
"""That are read of a layer, in the order of their numbers."""

Points2 = NDArray[np.float64]
Reads = tuple[Hashable, Callable[[Region], Any]]
"""What is read of a region: a key that tells it from other readings, and the function."""


@dataclass(frozen=True, eq=False)
class Task:
    """Something to be read of a cube for each of some regions; `key` tells it from any other."""

    key: Hashable
    regions: Callable[[], Mapping[int, Region]]
    read: Callable[[Region], Any]

    def run(self) -> "Readings":
        """What is read by the numbers of the regions; nothing of those off the image."""
        try:
            regions = self.regions()
        except SpectrumError:
            return Readings()
        readings = Readings((number, self.read(regions[number])) for number in islice(regions, MOST_LABELS))
        readings.total = len(regions)
        return readings


class Readings(dict[int, Any]):
    """What was read by the number of its region; `total` counts also the regions that were left out."""

    total = 0


def region_layers(viewer: ViewerModel) -> list[Shapes | Labels]:
    """The visible layers with regions, but for the maps that we made."""
    layers = (layer for layer in viewer.layers if isinstance(layer, Shapes | Labels) and layer.visible)
    return [layer for layer in layers if layer.metadata.get(METADATA_KEY) != ROLE]


def tasks_of(layer: Shapes | Labels, on: Image, version: int, viewer: ViewerModel, reads: Reads) -> list[Task]:
    """What *reads* reads of the cube layer *on*, for each region; *version* tells one state of labels from another."""
    what, read = reads
    cube, matrix = cube_of(on), to_pixels(layer, on)
    if cube is None or matrix is None:
        return []
    if isinstance(layer, Labels):
        labels, page = _page(layer, viewer)
        key = (what, id(cube.data), id(layer), version, page, matrix.tobytes())
        return [
            Task(
                key,
                partial(_of_labels, labels, np.asarray(np.linalg.inv(matrix), dtype=np.float64), cube.shape[1:]),
                read,
            )
        ]
    shapes = [_vertices(corners, kind, matrix) for corners, kind in zip(layer.data, layer.shape_type, strict=True)]
    return [
        Task((what, id(cube.data), kind, at.tobytes()), partial(_of_shape, at, kind, cube.shape[1:]), read)
        for at, kind in zip(shapes, layer.shape_type, strict=True)
    ]


def spectra_of(on: Image, spread: Spread) -> Reads:
    """Reads the mean spectra of the cube layer *on*."""
    cube, facts = cube_of(on), _facts(on)
    if cube is None:
        raise TypeError(f"Expected a cube layer, got {on.name!r}.")
    return ("spectra", spread, *facts.values()), partial(region_spectrum, cube, spread=spread, **facts)


def errors_of(on: Image, reference: Image) -> Reads:
    """Compares the pixels of the cube layer *on* with those of *reference*."""
    cube, truth = cube_of(on), cube_of(reference)

    def read(region: Region) -> Comparison | None:
        try:
            return compare_region(cube, truth, region) if cube is not None and truth is not None else None
        except SpectrumError:
            return None

    return ("errors", id(reference.data)), read


def error_band_of(cube: SpectralCube, row: int, column: int) -> Task:
    """Reads lower and upper spectrum of the 90 % error band of a pixel; None if the cube has none."""
    region = partial(Region.of_window, row, column, cube.shape[1:])
    return Task(("error band", id(cube.data), row, column), lambda: {0: region()}, partial(_error_band, cube))


def _error_band(cube: SpectralCube, pixel: Region) -> tuple[NDArray[np.float32], NDArray[np.float32]] | None:
    from napari_mst.uncertainty import spectrum_band  # it imports torch, which takes seconds

    return spectrum_band(cube, pixel.row, pixel.column)


def _vertices(corners: Points2, kind: str, matrix: NDArray[np.float64]) -> Points2:
    """The outline of a shape, as *matrix* takes it to the pixels of a cube."""
    outline = _ellipse(corners[:, -2:]) if kind == "ellipse" else corners[:, -2:]
    return np.asarray(outline @ matrix[:2, :2].T + matrix[:2, 2])


def _of_shape(vertices: Points2, kind: str, shape: tuple[int, int]) -> dict[int, Region]:
    return {0: (_line if kind in OPEN_SHAPES else Region.of_polygon)(vertices, shape)}


def _of_labels(labels: Any, matrix: NDArray[np.float64], shape: tuple[int, int]) -> dict[int, Region]:
    return labelled_regions(on_grid(np.asarray(labels), matrix, shape))


def _facts(layer: Image) -> dict[str, Any]:
    """What the spectra of a cube layer say about it."""
    unit, matrix = str(layer.units[-1]), image_matrix(layer)
    facts = {"cube_name": layer.name}
    if unit == "pixel" or matrix is None or unit != str(layer.units[-2]):
        return facts
    return {**facts, "pixel_area": float(abs(np.linalg.det(matrix[:2, :2]))), "area_unit": f"{unit}^2"}


def _page(layer: Labels, viewer: ViewerModel) -> tuple[Any, tuple[int, ...]]:
    """The (H, W) labels that are shown, and where they lie in the stack."""
    data = layer.data[0] if layer.multiscale else layer.data
    at = np.round(layer.world_to_data(viewer.dims.point)[:-2]).astype(int)
    page = tuple(int(i) for i in np.clip(at, 0, np.array(data.shape[:-2], dtype=int) - 1))
    return data[page], page


def on_grid(labels: NDArray[Any], matrix: NDArray[np.float64], shape: tuple[int, int]) -> NDArray[Any]:
    """The label at the centre of each of (H, W) pixels, which *matrix* takes to pixels of *labels*; 0 outside."""
    if labels.shape == shape and np.allclose(matrix, np.eye(3), atol=1e-6):
        return labels
    found = np.zeros(shape, dtype=labels.dtype)
    columns = np.arange(shape[1])
    step = max(1, STRIP_PIXELS // shape[1])
    for start in range(0, shape[0], step):
        rows = np.arange(start, min(shape[0], start + step))[:, None]
        at = [np.floor(m[0] * rows + m[1] * columns + m[2] + 0.5).astype(int) for m in matrix[:2]]
        inside = np.logical_and.reduce([(one >= 0) & (one < side) for one, side in zip(at, labels.shape, strict=True)])
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


def named(layer: Shapes | Labels, index: int, spectrum: Spectrum) -> Spectrum:
    """*spectrum* with the name and the colour of its region."""
    name = name_of(layer, index)
    return replace(spectrum, name=name, colour=colour_of(layer, index), origin=replace(spectrum.origin, region=name))


def name_of(layer: Layer, index: int) -> str:
    """What a region is called: its feature "name", or the layer's name and its number."""
    told = layer.features.get("name")
    if told is not None and isinstance(layer, Labels):
        told = told[layer.features["index"] == index] if "index" in layer.features else told.iloc[index : index + 1]
    elif told is not None:
        told = told.iloc[index : index + 1]
    name = told.iloc[0] if told is not None and len(told) else ""
    return name if isinstance(name, str) and name else f"{layer.name} {index + isinstance(layer, Shapes)}"


def rename(layer: Layer, index: int, name: str) -> None:
    """Give a region another name, in the feature "name"."""
    features = layer.features.copy()
    if isinstance(layer, Labels):
        known = features["name"].to_dict() if {"index", "name"} <= set(features) else {}
        known = {features["index"][row]: told for row, told in known.items()} | {index: name}
        layer.features = {"index": list(known), "name": list(known.values())}
        return
    told = list(features["name"]) if "name" in features else [""] * len(layer.data)
    told[index] = name
    layer.features = features.assign(name=told)


def colour_of(layer: Shapes | Labels, index: int) -> str:
    """Colour of a region as "#rrggbb": the edge of a shape."""
    colour = layer.edge_color[index] if isinstance(layer, Shapes) else layer.get_color(index)
    return str(rgb_to_hex(np.atleast_2d(colour))[0])[:7].lower()


def recolour(layer: Shapes, colours: Mapping[int, ArrayLike]) -> None:
    """Give the edges of shapes other RGB colours (0-1), and their faces, where these are to be seen through."""
    edges, faces = np.array(layer.edge_color), np.array(layer.face_color)
    for index, colour in colours.items():
        edges[index, :3] = colour
        if faces[index, 3] < 1:
            faces[index, :3] = colour
    layer.edge_color, layer.face_color = edges, faces


def tell_apart(layer: Shapes, picked: NDArray[np.floating]) -> None:
    """Give each shape whose colour an earlier one, or one of the picks (n, 4), has a colour of its own."""
    edges, changes = np.array(layer.edge_color), dict[int, ArrayLike]()
    for index, colour in enumerate(edges):
        taken = np.concatenate([picked.reshape(-1, 4), edges[:index]])
        if np.isclose(taken[:, :3], colour[:3], atol=1e-2).all(axis=1).any():
            edges[index] = unused_colour(taken)
            changes[index] = edges[index, :3]
    if changes:
        recolour(layer, changes)


def add_regions(viewer: ViewerModel, cube_layer: Image) -> Shapes:
    """A layer to draw regions on, selected, on the place of *cube_layer*."""
    return viewer.add_shapes(
        ndim=2,
        **Placement.of(cube_layer).image_kwargs(),
        name="Regions",
        face_color=[1, 1, 1, 0.15],
        edge_width=max(1.0, 0.004 * max(cube_layer.data.shape[-2:])),
        edge_color="#e6194b",
    )
