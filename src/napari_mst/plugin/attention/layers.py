"""Attention maps as napari layers that lie exactly on their photo, in colours that compare.

A layer keeps its `AttentionMap`, without the numbers, in `layer.metadata["napari_mst"]`.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image, Shapes
from napari.utils.colormaps import Colormap
from numpy.typing import NDArray

from napari_mst.attention.maps import AttentionMap
from napari_mst.attention.overlays import DESCRIPTIONS, WEIGHTS, Overlay
from napari_mst.cube.layer import METADATA_KEY
from napari_mst.plugin.viewer.composites import selection_kept
from napari_mst.plugin.viewer.layers import UNIT_KEY, put_on_top
from napari_mst.plugin.viewer.photos import LayerPhoto
from napari_mst.plugin.viewer.placement import Placement

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

    maps = found.maps((0, 0) if photo.region is None else (photo.region[0], photo.region[2]))
    high = max(float(one.values.max()) for one in maps)
    names = []
    with selection_kept(viewer):
        for one in maps:
            name = f"{WEIGHTS.title}, head {one.selection.head}: {photo.name}"
            arguments = {**map_arguments(one, photo.placement), "contrast_limits": (0.0, high)}
            layer = put_map(viewer, one, name, arguments)
            layer.visible = one.selection.head == shown_head
            names.append(name)
        _drop_others(viewer, names)
        show_outlines(viewer, outlines(found), photo, found.pitch)


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
    with selection_kept(viewer):
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
    return layer


def _corners(outline: "Outline", top: int, left: int) -> list[tuple[float, float]]:
    """The corners of an outline, whose pixels are squares around their centres."""
    first_row, last_row, first_column, last_column = outline.rectangle
    rows = (first_row + top - 0.5, last_row + top - 0.5)
    columns = (first_column + left - 0.5, last_column + left - 0.5)
    return [(rows[i], columns[j]) for i, j in ((0, 0), (0, 1), (1, 1), (1, 0))]


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
    with selection_kept(viewer):
        layer: Image = viewer.add_image(made.values, name=name, **arguments)
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
