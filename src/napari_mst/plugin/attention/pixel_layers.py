"""Layers of the weights of a pixel: an image for each head, and the outlines of its window."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image, Shapes

from napari_mst.attention.maps import AttentionMap
from napari_mst.attention.overlays import WEIGHTS
from napari_mst.cube.layer import METADATA_KEY
from napari_mst.plugin.attention.layers import map_arguments, map_layers, map_of
from napari_mst.plugin.viewer.layers import put_on_top
from napari_mst.plugin.viewer.photos import LayerPhoto

if TYPE_CHECKING:
    from napari_mst.attention.outlines import Outline
    from napari_mst.attention.patch_steps import PatchSteps
    from napari_mst.attention.pixel_weights import PixelWeights

ROLE = "map"
"""Marks the outlines as something that was made: they are no regions of a person."""
COLOURS = {"keys": "#f58231", "window": "#3df0ff", "masked": "#8c8c8c", "pixel": "#ffffff"}
"""Colour of each outline."""
WIDTH = 0.12
"""Width of an outline in pixels of the map."""


def show_weights(
    viewer: ViewerModel, found: "PixelWeights", photo: LayerPhoto, shown_head: int
) -> None:
    """Show *found* over its *photo*: a layer for each head, of which one is seen, and outlines."""
    from napari_mst.attention.outlines import outlines  # imports torch

    selected = viewer.layers.selection.active
    maps = found.maps((0, 0) if photo.region is None else (photo.region[0], photo.region[2]))
    high = max(float(one.values.max()) for one in maps)
    names = []
    for one in maps:
        name = f"{WEIGHTS.title}, head {one.selection.head}: {photo.name}"
        arguments = {**map_arguments(one, photo.placement), "contrast_limits": (0.0, high)}
        layer = put_map(viewer, one, name, arguments)
        layer.visible = one.selection.head == shown_head
        names.append(name)
    _drop_others(viewer, names)
    show_outlines(viewer, outlines(found), photo, found.pitch)
    viewer.layers.selection.active = selected


def put_map(viewer: ViewerModel, one: AttentionMap, name: str, arguments: dict[str, Any]) -> Image:
    """Put a map of one pixel into the layer *name*, which is made if it is not there."""
    present = next((layer for layer in map_layers(viewer) if layer.name == name), None)
    if present is None:
        added: Image = viewer.add_image(one.values, name=name, **arguments)
        put_on_top(viewer, added)
        return added
    present.data = one.values
    for key in ("scale", "translate", "rotate", "shear", "affine", "metadata", "contrast_limits"):
        # Each change has the layer drawn again, and few differ from pixel to pixel.
        if key == "metadata" or not np.array_equal(getattr(present, key), arguments[key]):
            setattr(present, key, arguments[key])
    return present


def _drop_others(viewer: ViewerModel, names: list[str]) -> None:
    """Remove the heads of a block that had more of them."""
    for layer in map_layers(viewer):
        is_of_pixel = map_of(layer).overlay == WEIGHTS.name
        if is_of_pixel and layer.name not in names:
            viewer.layers.remove(layer)


def show_patch(viewer: ViewerModel, found: "PatchSteps", photo: LayerPhoto) -> None:
    """Outline the patch of a single head."""
    from napari_mst.attention.outlines import Outline  # imports torch

    bottom, right = found.row + found.side, found.column + found.side
    patch = Outline("window", (found.row, bottom, found.column, right))
    show_outlines(viewer, [patch], photo)


def show_outlines(
    viewer: ViewerModel, drawn: Sequence["Outline"], photo: LayerPhoto, pitch: int = 1
) -> Shapes:
    """Outline the window of a pixel, its keys and what the mask keeps from it."""
    name = f"Window of a pixel: {photo.name}"
    selected = viewer.layers.selection.active
    present = next((layer for layer in viewer.layers if layer.name == name), None)
    top, left = (0, 0) if photo.region is None else (photo.region[0], photo.region[2])
    corners = [_corners(one, top, left) for one in drawn]
    colours = [COLOURS[one.role] for one in drawn]
    if isinstance(present, Shapes) and present.nshapes == len(drawn):
        # A new layer would take ten times as long.
        present.data = corners
        present.edge_color = colours
        present.edge_width = WIDTH * pitch
        return present
    if present is not None:
        viewer.layers.remove(present)
    layer: Shapes = viewer.add_shapes(
        corners,
        shape_type="rectangle",
        name=name,
        edge_color=colours,
        face_color="transparent",
        edge_width=WIDTH * pitch,
        metadata={METADATA_KEY: ROLE},
        **photo.placement.image_kwargs(),
    )
    viewer.layers.selection.active = selected
    return layer


def _corners(outline: "Outline", top: int, left: int) -> list[tuple[float, float]]:
    """The corners of an outline, whose pixels are squares around their centres."""
    first_row, last_row, first_column, last_column = outline.rectangle
    rows = (first_row + top - 0.5, last_row + top - 0.5)
    columns = (first_column + left - 0.5, last_column + left - 0.5)
    return [(rows[i], columns[j]) for i, j in ((0, 0), (0, 1), (1, 1), (1, 0))]
