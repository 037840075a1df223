"""Regions that a person has drawn: the layers of shapes and labels, and their names and colours."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image, Labels, Shapes
from napari.utils.colormaps.standardize_color import rgb_to_hex
from numpy.typing import ArrayLike, NDArray

from napari_mst.plugin.viewer.layers import METADATA_KEY
from napari_mst.plugin.viewer.picks import unused_colour
from napari_mst.plugin.viewer.placement import Placement
from napari_mst.spectra.spectrum import Spectrum

ROLE = "map"
"""What marks a map of ours in its metadata: its labels are no regions until a person takes the mark away."""


def region_layers(viewer: ViewerModel) -> list[Shapes | Labels]:
    """The visible layers with regions, but for the maps that we made."""
    layers = (
        layer for layer in viewer.layers if isinstance(layer, Shapes | Labels) and layer.visible
    )
    return [layer for layer in layers if layer.metadata.get(METADATA_KEY) != ROLE]


class Looks:
    """Names and colours of the regions of a layer as they are now."""

    def __init__(self, layer: Shapes | Labels, indices: Sequence[int]) -> None:
        self._layer, self._first = layer.name, int(isinstance(layer, Shapes))
        self._names = _names(layer)
        wanted = np.array(indices, dtype=int)
        found = (
            layer.edge_color[wanted] if isinstance(layer, Shapes) else layer.colormap.map(wanted)
        )
        self._colours = dict(
            zip(indices, np.asarray(found, dtype=float).reshape(-1, 4), strict=True)
        )

    def name(self, index: int) -> str:
        """What a region is called: its feature "name", or the layer's name and its number."""
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
    """Which shape or label each row of the features is of."""
    features = layer.features
    is_told = isinstance(layer, Labels) and "index" in features
    return [int(number) for number in (features["index"] if is_told else range(len(features)))]


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
    features, numbers = layer.features.copy(), _numbers(layer)
    if index not in numbers:
        numbers.append(index)
        features = features.reindex(range(len(numbers)))
    if isinstance(layer, Labels):
        features["index"] = numbers
    told = _names(layer) | {index: name}
    features["name"] = [told.get(number, "") for number in numbers]
    layer.features = features


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
