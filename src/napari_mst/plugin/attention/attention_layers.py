"""Attention maps as napari layers, placed exactly on their photo, in comparable colours.

Each layer stores its `AttentionMap` in `layer.metadata["napari_mst"]`, without the values.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image
from napari.utils.colormaps import Colormap

from napari_mst.attention.overlays import (
    DESCRIPTIONS,
    DIFFERENCE,
    EFFECT,
    FEATURES,
    WEIGHTS,
)
from napari_mst.attention.record import AttentionRecord, block_title
from napari_mst.attention.record_views import AttentionMap
from napari_mst.base.errors import AttentionError
from napari_mst.cube.layer import METADATA_KEY
from napari_mst.photo.photo import Photo
from napari_mst.plugin.viewer.layer_photos import DENOISED, MAP, LayerPhoto, hide_maps, photo_layer
from napari_mst.plugin.viewer.layers import (
    PLACE,
    UNIT_KEY,
    follow,
    put_above,
    put_on_top,
    selection_kept,
)

if TYPE_CHECKING:
    from napari_mst.attention.head_steps import Outline, PixelWeights

UNSIGNED = "inferno"
SIGNED = Colormap(
    [
        [0.1, 0.35, 0.95, 1],
        [0.25, 0.6, 1, 0.75],
        [1, 1, 1, 0],
        [1, 0.6, 0.2, 0.75],
        [0.9, 0.1, 0.1, 1],
    ],
    name="blue-clear-red",
    display_name="blue, clear, red",
)
"""Colours of a signed map. Zero is transparent: there the photo shows through."""
OPACITY = 0.8
CLIPPED = 0.2
"""Per cent of the values outside the colour range: a few extremes would darken the rest."""
MOST_SCANNED = 1 << 19
"""Approximate number of values that are sampled to choose the colours of a map."""
TWO_MAPS = "Select two maps of the same size in the list of layers first, with Ctrl and a click."
COLOURS = {"keys": "#f58231", "window": "#3df0ff", "masked": "#8c8c8c", "pixel": "#ffffff"}
"""Colour of each outline."""
WIDTH = 0.12
"""Width of an outline in pixels of the map."""


def show_map(viewer: ViewerModel, made: AttentionMap, photo: LayerPhoto) -> None:
    """Show a finished map alone, where its photo was when the job began, and select it."""
    _bring_forward(viewer, put_map(viewer, made, photo))


def show_difference(viewer: ViewerModel) -> None:
    """Show the upper of two selected maps minus the lower one. Raises `AttentionError`."""
    selected = [layer for layer in map_layers(viewer) if layer in viewer.layers.selection]
    if len(selected) != 2 or selected[0].data.shape != selected[1].data.shape:
        raise AttentionError(TWO_MAPS)
    lower, upper = selected
    place = {key: getattr(upper, key) for key in PLACE}
    place["affine"] = upper.affine.affine_matrix
    values = map_of(upper).values - map_of(lower).values
    made = replace(map_of(upper), values=values, overlay=DIFFERENCE.name)
    _bring_forward(viewer, _put(viewer, made, f"Difference: {upper.name} - {lower.name}", place))


def _bring_forward(viewer: ViewerModel, layer: Image) -> None:
    """Show only the map *layer*, above all others, at its first channel."""
    put_on_top(viewer, layer)
    show_alone(viewer, layer)
    if layer.ndim == 3:
        viewer.dims.set_point(viewer.dims.ndim - 3, 0)
    # napari scrolls its list of layers to the selected one.
    viewer.layers.selection.active = layer


def show_alone(viewer: ViewerModel, layer: Image) -> None:
    """Show the map *layer*, and hide the other maps."""
    if not layer.visible:
        layer.visible = True
    hide_maps(viewer, layer)


def put_map(viewer: ViewerModel, made: AttentionMap, photo: LayerPhoto, head: str = "") -> Image:
    """Put a map of *photo*, or of one *head*, into the layer of its kind, and return the layer.

    An existing layer keeps the user's colours and opacity. All layers of a kind share the widest
    contrast limits that any of them needs.
    """
    of = f" of {made.selection.block}" if made.overlay == FEATURES.name else head
    name = f"{DESCRIPTIONS[made.overlay].title}{of}: {photo.name}{photo.region_label}"
    model = made.provenance.model
    if any(map_of(each).provenance.model != model for each in _named(viewer, name)):
        name = f"{name}, {model}"  # beside the map of another model
    place = photo.placement.of_part(made.offset, (made.pitch, made.pitch))
    is_plane = made.values.ndim == 2
    return _put(viewer, made, name, place.image_kwargs() if is_plane else place.cube_kwargs((0, 1)))


def _named(viewer: ViewerModel, name: str) -> list[Image]:
    return [layer for layer in map_layers(viewer) if layer.name == name]


def _put(viewer: ViewerModel, made: AttentionMap, name: str, place: dict[str, Any]) -> Image:
    """Put a map into the layer called *name*, which is added if there is none."""
    # Short enough for a colour bar; a map without a unit has its title there.
    unit, *_ = made.unit.replace(",", ";").split(";")
    metadata = {
        # The layer's data already hold the numbers.
        METADATA_KEY: replace(made, values=np.empty((0, 0), np.float32)),
        UNIT_KEY: DESCRIPTIONS[made.overlay].title if unit == "1" else unit,
    }
    layer = next(iter(_named(viewer, name)), None)
    if layer is None:
        with selection_kept(viewer):
            layer = viewer.add_image(
                made.values,
                name=name,
                # napari would guess `rgb` from the shape, and scan all pixels for limits.
                rgb=False,
                contrast_limits=limits(made),
                colormap=SIGNED if DESCRIPTIONS[made.overlay].is_signed else UNSIGNED,
                opacity=OPACITY,
                blending="translucent",
                metadata=metadata,
                **place,
            )
        put_on_top(viewer, layer)
    else:
        layer.data = made.values
        layer.metadata = metadata
        follow(layer, place)
    alike = [other for other in map_layers(viewer) if map_of(other).overlay == made.overlay]
    lows, highs = zip(*(limits(map_of(other)) for other in alike), strict=True)
    for other in alike:
        # Each change has the layer drawn again.
        if tuple(other.contrast_limits) != (min(lows), max(highs)):
            other.contrast_limits = (min(lows), max(highs))
    return layer


def limits(made: AttentionMap) -> tuple[float, float]:
    """Choose the colour range: symmetric about zero for a signed map, otherwise from zero."""
    step = max(math.isqrt(made.values.size // MOST_SCANNED), 1)
    scanned = made.values[..., ::step, ::step]
    finite = scanned[np.isfinite(scanned)]
    magnitude = np.abs(finite) if finite.size else np.ones(1)
    # A map of zeros needs a range of some width, too.
    high = float(np.percentile(magnitude, 100 - CLIPPED)) or 1.0
    return (-high if DESCRIPTIONS[made.overlay].is_signed else 0.0, high)


def map_layers(viewer: ViewerModel) -> list[Image]:
    """List the layers of attention maps, from the bottom up."""
    return [
        layer
        for layer in viewer.layers
        if isinstance(layer.metadata.get(METADATA_KEY), AttentionMap)
    ]


def map_of(layer: Image) -> AttentionMap:
    """Return the map that *layer* shows."""
    stored: AttentionMap = layer.metadata[METADATA_KEY]
    return replace(stored, values=np.asarray(layer.data, dtype=np.float32))


def summary(made: AttentionMap, record: AttentionRecord) -> str:
    """Describe in one sentence a finished map of the run *record*."""
    description = DESCRIPTIONS[made.overlay]
    chosen = made.selection
    if chosen.block in record.shapes:
        channels, _ = record.shapes[chosen.block]
        chosen = replace(chosen, block=block_title(chosen.block, channels))
    if made.overlay == EFFECT.name:
        of_head = f"{chosen.block}, head {chosen.head}"
        return (
            f"{description.title}, {of_head}: {made.values.mean():.2g} in the mean of all pixels."
        )
    # A map that depends on no channel describes the whole block.
    where = chosen if getattr(description, "uses", "") else chosen.block
    what = f"{description.title}, {where}"
    if made.overlay == "score":
        return f"{what}: adds up to {made.total:.4g} over the padded photo, which is the logit."
    return f"{what}. Unit: {made.unit}."


# ------------------------------------------------------------------------------ one pixel


def show_weights(
    viewer: ViewerModel, weights: "PixelWeights", photo: LayerPhoto, shown_head: int
) -> AttentionMap:
    """Show *weights* over their *photo*: one layer per head, and outlines of the window.

    Only the layer of *shown_head* is visible; its map is returned.
    """
    from napari_mst.attention.head_steps import outlines  # imports torch

    maps = weights.maps(photo.corner)
    layers = [put_map(viewer, made, photo, f", head {made.selection.head}") for made in maps]
    for layer in map_layers(viewer):
        # The previous block may have had more heads.
        if layer not in layers and map_of(layer).overlay == WEIGHTS.name:
            viewer.layers.remove(layer)
    show_alone(viewer, layers[shown_head])
    viewer.layers.selection.active = layers[shown_head]
    show_outlines(viewer, outlines(weights), photo, weights.pitch)
    return maps[shown_head]


def show_outlines(
    viewer: ViewerModel, drawn: Sequence["Outline"], photo: LayerPhoto, pitch: int = 1
) -> None:
    """Outline the window of a pixel, its keys, and the pixels that the mask excludes."""
    name = f"Window of a pixel: {photo.name}"
    # Pixels are squares around their centres.
    first = np.array(photo.corner) - 0.5
    corners = [first + np.reshape(rectangle, (2, 2)).T for _, rectangle in drawn]
    look = {
        "edge_color": [COLOURS[role] for role, _ in drawn],
        "edge_width": WIDTH * pitch,
    }
    if name not in viewer.layers:
        with selection_kept(viewer):
            viewer.add_shapes(
                corners,
                shape_type="rectangle",
                name=name,
                face_color="transparent",
                metadata={METADATA_KEY: MAP},
                **look,
                **photo.placement.image_kwargs(),
            )
        return
    # A new layer would take ten times as long.
    for key, value in {"data": corners, **look, "visible": True}.items():
        setattr(viewer.layers[name], key, value)


def show_denoised(viewer: ViewerModel, denoised: Photo, source: LayerPhoto) -> None:
    """Show a denoised photo directly above its original, and hide the images above both.

    The new layer is a photo like any other: it can be reconstructed, saved and compared.
    """
    pixels, arguments, _ = photo_layer(denoised, f"{source.name} {DENOISED}", source.placement)
    name = arguments["name"]
    layer = viewer.layers[name] if name in viewer.layers else viewer.add_image(pixels, **arguments)
    layer.data = pixels
    photo = source.layer()
    if photo is not None and photo in viewer.layers:
        put_above(viewer, photo, layer)
    layer.visible = True
    for other in viewer.layers[viewer.layers.index(layer) + 1 :]:
        if isinstance(other, Image):
            other.visible = False
    viewer.layers.selection.active = layer
