"""Regions that a person has drawn: the layers of shapes and labels, and their names and colours."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image, Labels, Layer, Shapes
from napari.utils.colormaps.standardize_color import rgb_to_hex
from numpy.typing import ArrayLike, NDArray

from napari_mst.cube.layer import METADATA_KEY
from napari_mst.plugin.viewer.layers import active_cube_layer
from napari_mst.plugin.viewer.picks import PALETTE, unused_colour
from napari_mst.plugin.viewer.placement import Placement
from napari_mst.spectra.spectrum import Spectrum

ROLE = "map"
"""Marks our maps in their metadata: labels with this mark are no regions."""
WHITE = [1.0, 1.0, 1.0, 0.15]
"""RGBA of the faces of new shapes: one sees the image through them. napari takes no tuple."""
RELATIVE_WIDTH = 0.004
"""Width of the edges of new shapes as a share of the longer side of the image."""


def region_layers(viewer: ViewerModel) -> list[Shapes | Labels]:
    """The visible layers with regions, without the maps that we made."""
    return [layer for layer in viewer.layers if _has_regions(layer)]


def _has_regions(layer: Layer) -> bool:
    is_drawn = isinstance(layer, Shapes | Labels) and layer.visible
    return is_drawn and layer.metadata.get(METADATA_KEY) != ROLE


class Looks:
    """Names and colours that the regions of a layer have right now."""

    def __init__(self, layer: Shapes | Labels, indices: Sequence[int]) -> None:
        self._layer = layer.name
        # A person counts shapes from 1; labels have the numbers that they are painted with.
        self._first = 1 if isinstance(layer, Shapes) else 0
        self._names = _names(layer)
        wanted = np.array(indices, dtype=int)
        if isinstance(layer, Shapes):
            found = layer.edge_color[wanted]
        else:
            found = layer.colormap.map(wanted)
        rgba = np.asarray(found, dtype=float).reshape(-1, 4)
        self._colours = dict(zip(indices, rgba, strict=True))

    def name(self, index: int) -> str:
        """Name of a region: its feature "name", or else the layer's name and its number."""
        return self._names.get(index) or f"{self._layer} {index + self._first}"

    def colour(self, index: int) -> str:
        """Colour of a region as "#rrggbb": the edge of a shape."""
        return str(rgb_to_hex(self._colours[index][None])[0])[:7].lower()

    def named(self, spectrum: Spectrum, index: int) -> Spectrum:
        """*spectrum* with the name and the colour of its region."""
        name = self.name(index)
        return replace(
            spectrum,
            name=name,
            colour=self.colour(index),
            origin=replace(spectrum.origin, region=name),
        )


def _numbers(layer: Shapes | Labels) -> list[int]:
    """The index of the shape, or the label, that each row of the features describes."""
    features = layer.features
    if isinstance(layer, Labels) and "index" in features:
        return [int(number) for number in features["index"]]
    return list(range(len(features)))


def _names(layer: Shapes | Labels) -> dict[int, str]:
    """The names that a person has given, by the index of the shape, or by the label."""
    told = layer.features.get("name", ())
    return {
        number: name
        for number, name in zip(_numbers(layer), told, strict=False)
        if isinstance(name, str)
    }


def rename(layer: Shapes | Labels, index: int, name: str) -> None:
    """Give a region another name, in the feature "name"; other features stay."""
    # A copy: napari tells of other features only when they are assigned.
    features = layer.features.copy()
    numbers = _numbers(layer)
    # A label has a row of its own only when somebody has said something about it.
    if index not in numbers:
        numbers.append(index)
        features = features.reindex(range(len(numbers)))
    if isinstance(layer, Labels):
        features["index"] = numbers
    told = _names(layer) | {index: name}
    features["name"] = [told.get(number, "") for number in numbers]
    layer.features = features


def recolour(layer: Shapes, colours: Mapping[int, ArrayLike]) -> None:
    """Give the edges of shapes other RGB colours (0-1), and also faces that one sees through."""
    edges, faces = np.array(layer.edge_color), np.array(layer.face_color)
    for index, colour in colours.items():
        edges[index, :3] = colour
        # A face that hides the image was made so by a person: it stays.
        if faces[index, 3] < 1:
            faces[index, :3] = colour
    layer.edge_color = edges
    layer.face_color = faces


def tell_apart(layer: Shapes, picked: NDArray[np.floating]) -> None:
    """Give each shape another colour if an earlier one has it, or a pick, with RGBA (n, 4)."""
    edges = np.array(layer.edge_color)
    changes = dict[int, ArrayLike]()
    for index, colour in enumerate(edges):
        taken = np.concatenate([picked.reshape(-1, 4), edges[:index]])
        is_taken = np.isclose(taken[:, :3], colour[:3], atol=1e-2).all(axis=1).any()
        if is_taken:
            edges[index] = unused_colour(taken)
            changes[index] = edges[index, :3]
    if changes:
        recolour(layer, changes)


def draw(viewer: ViewerModel, mode: str) -> Shapes | None:
    """Have the layer of regions on the selected cube drawn on with the napari tool *mode*.

    None without a cube.
    """
    cube_layer = active_cube_layer(viewer)
    if cube_layer is None:
        return None
    shapes = [layer for layer in region_layers(viewer) if isinstance(layer, Shapes)]
    layer = shapes[-1] if shapes else add_regions(viewer, cube_layer)
    viewer.layers.selection.active = layer
    layer.mode = mode
    return layer


def add_regions(viewer: ViewerModel, cube_layer: Image) -> Shapes:
    """Add a layer to draw regions on, where *cube_layer* lies; it becomes the selected one."""
    longer_side = max(cube_layer.data.shape[-2:])
    return viewer.add_shapes(
        # Without an axis for wavelengths, a region lies on every band.
        ndim=2,
        **Placement.of(cube_layer).image_kwargs(),
        name="Regions",
        face_color=WHITE,
        edge_width=max(1.0, RELATIVE_WIDTH * longer_side),
        edge_color=PALETTE[0],
    )
