"""Attention maps as napari layers that lie exactly on their photo, in colours that compare.

A layer keeps its `AttentionMap`, without the numbers, in `layer.metadata["napari_mst"]`.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image
from napari.utils.colormaps import Colormap
from napari.utils.transforms import Affine
from numpy.typing import NDArray

from napari_mst.attention.overlays import DESCRIPTIONS, Overlay
from napari_mst.attention.record import AttentionMap
from napari_mst.plugin.viewer.layers import METADATA_KEY, put_on_top
from napari_mst.plugin.viewer.placement import Placement

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
"""Where a signed map is zero the photo shows."""
OPACITY = 0.8
CLIPPED = 0.2
"""Per cent of the values that lie beyond the limits of the colours: a few extremes would darken all others."""


def show_map(
    viewer: ViewerModel, one: AttentionMap, photo: str, placement: Placement, *, is_new: bool
) -> Image:
    """The layer of a map over *photo* at *placement*: the one of this kind and photo, or a new one.

    All layers of a kind get the same contrast limits, the widest that one of them needs.
    """
    title = DESCRIPTIONS[one.overlay].title
    name, arguments = f"{title}: {photo}", map_arguments(one, placement)
    present = next((layer for layer in map_layers(viewer) if layer.name == name), None)
    if present is None or is_new:
        selected = viewer.layers.selection.active
        layer: Image = viewer.add_image(one.values, name=name, **arguments)
        viewer.layers.selection.active = selected
    else:
        layer = present
        layer.data = one.values
        for key in ("scale", "translate", "rotate", "shear", "affine", "metadata"):
            setattr(layer, key, arguments[key])
    put_on_top(viewer, layer)
    _share_limits([other for other in map_layers(viewer) if map_of(other).overlay == one.overlay])
    return layer


def map_arguments(one: AttentionMap, placement: Placement) -> dict[str, Any]:
    """The arguments of `add_image` that put a map exactly on the photo at *placement*, whatever its resolution."""
    photo = Affine(
        scale=placement.scale,
        translate=placement.translate,
        rotate=placement.rotate,
        shear=[placement.shear],
    )
    is_signed = DESCRIPTIONS[one.overlay].is_signed
    return {
        **placement.image_kwargs(),
        "scale": placement.scale * one.pitch,
        "translate": np.asarray(photo(one.offset)),
        "rgb": False,
        "colormap": SIGNED if is_signed else UNSIGNED,
        "contrast_limits": limits(one),
        "opacity": OPACITY,
        "blending": "translucent",
        "metadata": {METADATA_KEY: replace(one, values=np.empty((0, 0), np.float32))},
    }


def map_layers(viewer: ViewerModel) -> list[Image]:
    """The layers of attention maps."""
    return [
        layer
        for layer in viewer.layers
        if isinstance(layer.metadata.get(METADATA_KEY), AttentionMap)
    ]


def map_of(layer: Image) -> AttentionMap:
    """The map that *layer* shows."""
    stored: AttentionMap = layer.metadata[METADATA_KEY]
    return replace(stored, values=np.asarray(layer.data, dtype=np.float32))


def summary(one: AttentionMap) -> str:
    """A sentence on a map that was made."""
    description = DESCRIPTIONS[one.overlay]
    where = (
        one.selection
        if isinstance(description, Overlay) and description.uses
        else one.selection.block
    )
    what = f"{description.title}, {where}"
    if one.overlay == "score":
        return f"{what}: adds up to {one.total:.4g} over the padded photo, which is the logit."
    return f"{what}. Unit: {one.unit}."


def limits(one: AttentionMap) -> tuple[float, float]:
    """The range of the colours: around zero for a signed map, else from zero."""
    high = float(np.percentile(_magnitude(one.values), 100 - CLIPPED)) or 1.0
    return (-high, high) if DESCRIPTIONS[one.overlay].is_signed else (0.0, high)


def _magnitude(values: NDArray[np.float32]) -> NDArray[np.float32]:
    return (
        np.abs(values[np.isfinite(values)]) if np.isfinite(values).any() else np.ones(1, np.float32)
    )


def _share_limits(layers: list[Image]) -> None:
    low, high = zip(*(limits(map_of(layer)) for layer in layers), strict=True)
    for layer in layers:
        layer.contrast_limits = (min(low), max(high))
