"""Attention maps as napari layers that lie exactly on their photo, in colours that compare.

A layer keeps its `AttentionMap`, without the numbers, in `layer.metadata["napari_mst"]`.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image
from napari.utils.colormaps import Colormap
from numpy.typing import NDArray

from napari_mst.attention.maps import AttentionMap
from napari_mst.attention.overlays import DESCRIPTIONS, Overlay
from napari_mst.cube.layer import METADATA_KEY
from napari_mst.plugin.viewer.layers import UNIT_KEY, put_on_top
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
"""Colours of a signed map: where it is zero the photo shows through."""
OPACITY = 0.8
CLIPPED = 0.2
"""Per cent of the values that lie beyond the colours: a few extremes would darken all others."""


def show_map(
    viewer: ViewerModel, made: AttentionMap, photo: str, placement: Placement, *, is_new: bool
) -> Image:
    """Show a map over the photo named *photo*, at *placement*, and return its layer.

    It goes into the layer of the same kind and photo, or into a new one if there is none, or
    *is_new* asks for it. All layers of a kind get the same contrast limits, the widest that one of
    them needs.
    """
    name = f"{DESCRIPTIONS[made.overlay].title}: {photo}"
    arguments = map_arguments(made, placement)
    present = [layer for layer in map_layers(viewer) if layer.name == name]
    if present and not is_new:
        layer = present[0]
        _replace(layer, made, arguments)
    else:
        layer = _add(viewer, made, name, arguments)
    put_on_top(viewer, layer)
    same_kind = [one for one in map_layers(viewer) if map_of(one).overlay == made.overlay]
    _share_limits(same_kind)
    return layer


def _add(viewer: ViewerModel, made: AttentionMap, name: str, arguments: dict[str, Any]) -> Image:
    """Add a layer; what was selected stays selected."""
    selected = viewer.layers.selection.active
    layer: Image = viewer.add_image(made.values, name=name, **arguments)
    viewer.layers.selection.active = selected
    return layer


def _replace(layer: Image, made: AttentionMap, arguments: dict[str, Any]) -> None:
    """Put another map into *layer*; its colours and opacity stay as the user has set them."""
    layer.data = made.values
    for key in ("scale", "translate", "rotate", "shear", "affine", "metadata"):
        setattr(layer, key, arguments[key])


def map_arguments(made: AttentionMap, placement: Placement) -> dict[str, Any]:
    """Return the arguments of `add_image` that put a map exactly on the photo at *placement*.

    The resolution of the map may be any.
    """
    own = placement.of_part(made.offset, (made.pitch, made.pitch))
    is_signed = DESCRIPTIONS[made.overlay].is_signed
    return {
        **own.image_kwargs(),
        # napari would guess `rgb` from the shape, and find limits in a slow scan of the pixels.
        "rgb": False,
        "colormap": SIGNED if is_signed else UNSIGNED,
        "contrast_limits": limits(made),
        "opacity": OPACITY,
        "blending": "translucent",
        # The layer's data are the numbers already.
        "metadata": {
            METADATA_KEY: replace(made, values=np.empty((0, 0), np.float32)),
            UNIT_KEY: _unit(made),
        },
    }


def _unit(made: AttentionMap) -> str:
    """The unit of a map, or its title if it has none, short enough for a colour bar."""
    unit, *_ = made.unit.replace(",", ";").split(";")
    return DESCRIPTIONS[made.overlay].title if unit == "1" else unit


def map_layers(viewer: ViewerModel) -> list[Image]:
    """List the layers of attention maps, from the bottom up."""
    return [
        one for one in viewer.layers if isinstance(one.metadata.get(METADATA_KEY), AttentionMap)
    ]


def map_of(layer: Image) -> AttentionMap:
    """Return the map that *layer* shows."""
    stored: AttentionMap = layer.metadata[METADATA_KEY]
    return replace(stored, values=np.asarray(layer.data, dtype=np.float32))


def summary(made: AttentionMap) -> str:
    """Say in a sentence what a finished map shows."""
    description = DESCRIPTIONS[made.overlay]
    # A map that depends on no channel is one of the whole block.
    has_channels = isinstance(description, Overlay) and bool(description.uses)
    where = made.selection if has_channels else made.selection.block
    what = f"{description.title}, {where}"
    if made.overlay == "score":
        return f"{what}: adds up to {made.total:.4g} over the padded photo, which is the logit."
    return f"{what}. Unit: {made.unit}."


def limits(made: AttentionMap) -> tuple[float, float]:
    """Choose the range of the colours: around zero for a signed map, else from zero."""
    magnitude = np.abs(_finite(made.values))
    # A map of zeros would have limits without a width.
    high = float(np.percentile(magnitude, 100 - CLIPPED)) or 1.0
    return (-high if DESCRIPTIONS[made.overlay].is_signed else 0.0, high)


def _finite(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """The finite *values*; a single 1 if there is none, as a percentile needs one."""
    finite = values[np.isfinite(values)]
    return finite if finite.size else np.ones(1, np.float32)


def _share_limits(layers: list[Image]) -> None:
    ranges = [limits(map_of(layer)) for layer in layers]
    low = min(start for start, _ in ranges)
    high = max(stop for _, stop in ranges)
    for layer in layers:
        layer.contrast_limits = (low, high)
