"""The part of a photo to reconstruct: what is on the screen, or a drawn rectangle."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image, Shapes
from numpy.typing import ArrayLike

from napari_mst.cube.layer import METADATA_KEY
from napari_mst.errors import PhotoError
from napari_mst.photo.photo import Rectangle
from napari_mst.plugin.viewer.layers import layer_of_role
from napari_mst.plugin.viewer.photos import LayerPhoto
from napari_mst.plugin.viewer.placement import Placement

Part = Literal["whole", "visible", "drawn"]
ROLE, FRAME = "region", "chart frame"
"""Mark the Shapes layers of this plugin, for a part of the photo and around a chart."""
YELLOW = "#ffd400"
LINE = 0.004
"""Width of the rectangle's line, as a share of the longer side of the photo."""


def photo_part(viewer: ViewerModel, layer: Image, part: Part) -> LayerPhoto:
    """Return the *part* of the photo that *layer* shows.

    Raises
    ------
    PhotoError
        If nothing of the photo is on the screen, or no rectangle is drawn on it.
    """
    photo = LayerPhoto.of(layer, viewer.dims.point)
    if part == "whole":
        return photo
    region = _visible(layer, photo.shape) if part == "visible" else _drawn(viewer, photo)
    return replace(photo, region=region)


def shapes_layer(viewer: ViewerModel) -> Shapes | None:
    """Find the layer that the rectangle is drawn on: the selected Shapes layer, else ours."""
    layer: Shapes | None = _selected_shapes(viewer) or layer_of_role(viewer, ROLE)
    return layer


def _selected_shapes(viewer: ViewerModel) -> Shapes | None:
    """Return the selected Shapes layer, unless it is the frame around a chart."""
    active = viewer.layers.selection.active
    is_drawn = isinstance(active, Shapes) and active.metadata.get(METADATA_KEY) != FRAME
    return active if is_drawn else None


def draw(viewer: ViewerModel, layer: Image) -> None:
    """Let the user draw a rectangle on *layer*, on a new Shapes layer if there is none yet."""
    shapes = shapes_layer(viewer)
    if shapes is None:
        shapes = add_outlines(viewer, layer, "Region", ROLE)
    viewer.layers.selection.active = shapes
    shapes.mode = "add_rectangle"


def has_drawing(viewer: ViewerModel) -> bool:
    """True if a Shapes layer with a shape is selected."""
    shapes = _selected_shapes(viewer)
    return shapes is not None and bool(shapes.data)


def drawn_place(viewer: ViewerModel, layer: Image) -> Rectangle:
    """Return the rectangle on *layer* that the shapes enclose. Raises `PhotoError` without one."""
    return _drawn(viewer, LayerPhoto.of(layer, viewer.dims.point))


def add_outlines(viewer: ViewerModel, layer: Image, name: str, role: str) -> Shapes:
    """Add a layer for outlines on the photo of *layer*, which is marked with its *role*."""
    longer_side = max(LayerPhoto.of(layer, viewer.dims.point).shape)
    shapes: Shapes = viewer.add_shapes(
        **Placement.of(layer).image_kwargs(),
        name=name,
        edge_width=max(1.0, LINE * longer_side),
        edge_color=YELLOW,
        face_color="transparent",
        metadata={METADATA_KEY: role},
    )
    return shapes


def _visible(layer: Image, shape: tuple[int, int]) -> Rectangle:
    """The pixels of *layer* that are on the screen."""
    region = _rectangle(layer.corner_pixels[:, -2:], shape)
    if not layer.visible or region is None:
        raise PhotoError(
            f"Expected '{layer.name}' on the screen, got none of it. "
            "Show it, or take the whole photo."
        )
    return region


def _drawn(viewer: ViewerModel, photo: LayerPhoto) -> Rectangle:
    """The pixels of *photo* that the selected shapes enclose, or the last shape if none is."""
    shapes = shapes_layer(viewer)
    if shapes is None or not shapes.data:
        raise PhotoError("Expected a rectangle on the photo, got none. Draw one, then press Run.")
    chosen = [shapes.data[index] for index in shapes.selected_data] or shapes.data[-1:]
    # The shapes may lie on a layer of the user, with another scale and place than the photo.
    world = [shapes.data_to_world(corner)[-2:] for outline in chosen for corner in outline]
    region = _rectangle(photo.placement.pixels_at(world), photo.shape)
    if region is None:
        raise PhotoError(
            "Expected a rectangle on the photo, got one beside it. Draw it on the photo."
        )
    return region


def _rectangle(points: ArrayLike, shape: Sequence[int]) -> Rectangle | None:
    """The pixels of an image of *shape* that the (n, 2) *points* span; None if they span none."""
    spanned = np.asarray(points)
    # A pixel is the square around its centre, so its edges lie half a pixel off.
    low = np.clip(np.floor(spanned.min(axis=0) + 0.5).astype(int), 0, shape)
    high = np.clip(np.ceil(spanned.max(axis=0) + 0.5).astype(int), 0, shape)
    if (low >= high).any():
        return None
    return int(low[0]), int(high[0]), int(low[1]), int(high[1])
