"""Cube layers and their pictures: how each becomes an Image layer, and is found in one again.

A cube layer holds (B, H, W). Its `SpectralCube` stays in `layer.metadata["napari_mst"]`, where the
docks and the writers find wavelengths and provenance.

A picture is an RGB layer of its own, above that of its cube and linked to it by a reference in its
metadata. So the cube layer stays what every dock, writer and slider takes it for, and the eye in
napari's list of layers switches between picture and bands. `active_cube_layer` finds the cube of a
picture that is selected. Letters: B bands, H rows, W columns.
"""

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any

import numpy as np
from napari import current_viewer
from napari.components import ViewerModel
from napari.layers import Image, Layer, Points, Shapes

from napari_mst.cube import SpectralCube
from napari_mst.cube.layer import (
    METADATA_KEY,
    STACK_KEY,
    LayerTuple,
    Stack,
    spectral_axis,
)
from napari_mst.cube.lazy import Lazy, Level
from napari_mst.plugin.viewer.late_bands import LateBands
from napari_mst.plugin.viewer.placement import Placement, image_matrix

COMPOSITE_KEY = "napari_mst_picture_of"
"""The key in the metadata of a picture under which a weak reference to its cube layer lies."""
MAP_KEY = "napari_mst_map_of"
"""The key in the metadata of a map under which a weak reference to its cube layer lies."""
MAP_CUBE_KEY = "napari_mst_map"
"""The key in the metadata of a map under which it lies as a cube of one band, for its file."""
PHOTO_KEY = "napari_mst_photo"
"""The key in the metadata of a cube layer under which its photo's `LayerPhoto.reference` lies."""
ALIKE_KEY = "napari_mst_picture_as_of"
"""The key under which a weak reference to another cube lies, whose colours the picture takes."""
ENDING = " (picture)"
"""Ends the name of a picture."""
CONTRAST = (0, 255)
"""Limits of contrast of 8-bit pictures."""
PLACE = tuple(field.name for field in fields(Placement))
"""The attributes of a layer that say where it lies."""


def is_composite(layer: Layer | None) -> bool:
    """True if *layer* is the picture of a cube."""
    return layer is not None and COMPOSITE_KEY in layer.metadata


def cube_layer_in(metadata: Mapping[str, Any], key: str = COMPOSITE_KEY) -> Image | None:
    """Return the cube layer that the *metadata* of a layer lead to; None if there is none.

    *key* selects the reference; by default, the cube whose picture the layer is.
    """
    reference = metadata.get(key)
    layer: Image | None = reference and reference()
    return layer


def weak(layer: Any) -> Callable[[], Any]:
    """Return a reference to *layer* that does not keep it alive; it finds None once it is gone."""
    return (lambda: None) if layer is None else weakref.ref(layer)


def composites_of(viewer: ViewerModel, cube_layer: Layer) -> list[Image]:
    """List the pictures of *cube_layer*: one, and those that the user has duplicated."""
    return [
        layer
        for layer in viewer.layers
        if isinstance(layer, Image) and cube_layer_in(layer.metadata) is cube_layer
    ]


def composite_of(viewer: ViewerModel, cube_layer: Layer) -> Image | None:
    """Return the picture of *cube_layer*; None if there is none."""
    return next(iter(composites_of(viewer, cube_layer)), None)


def is_picture_shown(viewer: ViewerModel, cube_layer: Layer) -> bool:
    """True if a picture of *cube_layer* is visible."""
    return any(layer.visible for layer in composites_of(viewer, cube_layer))


def add_composite(viewer: ViewerModel, cube_layer: Image, picture: Any, *, is_shown: bool) -> Image:
    """Put *picture* (H, W, 3) directly above *cube_layer*; what was selected stays selected.

    It may be a pyramid, the finest level first.
    """
    with selection_kept(viewer):
        added: Image = viewer.add_image(
            picture,
            rgb=True,
            multiscale=isinstance(picture, list),
            contrast_limits=CONTRAST,
            name=f"{cube_layer.name}{ENDING}",
            visible=is_shown and bool(cube_layer.visible),
            metadata={COMPOSITE_KEY: weakref.ref(cube_layer)},
            **place_of_picture(cube_layer, picture).image_kwargs(),
        )
        put_above(viewer, cube_layer, added)
    return added


@contextmanager
def selection_kept(viewer: ViewerModel) -> Iterator[None]:
    """Keep selected what is selected, while layers are added to *viewer* and removed from it."""
    selected, active = set(viewer.layers.selection), viewer.layers.selection.active
    yield
    viewer.layers.selection = {layer for layer in selected if layer in viewer.layers}
    viewer.layers.selection.active = active if active in viewer.layers else None


def put_above(viewer: ViewerModel, cube_layer: Layer, composite: Layer) -> None:
    """Move *composite* directly above *cube_layer*."""
    layers = viewer.layers
    wanted = layers.index(cube_layer) + 1
    if layers.index(composite) != wanted:
        layers.move(layers.index(composite), wanted)


def set_picture(
    composite: Image, cube_layer: Image, picture: Any, place: Placement | None = None
) -> None:
    """Show *picture* at the *place* in the world, or over the whole *cube_layer*."""
    place = place or place_of_picture(cube_layer, picture)
    is_plain = isinstance(picture, np.ndarray)
    composite.data = [picture] if composite.multiscale and is_plain else picture
    follow(composite, place.image_kwargs())


def place_of_picture(cube_layer: Layer, picture: Any) -> Placement:
    """Return where *picture* (h, w, 3), perhaps of larger pixels, covers all of *cube_layer*."""
    finest = picture if isinstance(picture, np.ndarray) else picture[0]
    step = np.array(cube_layer.data.shape[-2:]) / finest.shape[:2]
    return Placement.of(cube_layer).of_part((step - 1) / 2, step)


def follow(composite: Image, place: dict[str, Any]) -> None:
    """Move *composite* to *place*, without a change to attributes that are right already."""
    before = Placement.of(composite).image_kwargs()
    for name in PLACE:
        # Each change has napari draw the layer again.
        if not np.array_equal(before[name], place[name]):
            setattr(composite, name, place[name])


UNIT_KEY = "napari_mst_unit"
"""The key in the metadata of a map for its quantity, which the colour bar shows."""


def cube_layer(cube: SpectralCube, name: str, placement: Placement | None = None) -> LayerTuple:
    """Describe the Image layer of *cube*, on *placement* or from pixel (0, 0)."""
    data, arguments, kind = cube.to_layer_data(name)
    if isinstance(data, Lazy) and current_viewer() is not None:
        data = LateBands(data)
    if placement is None:
        return data, arguments, kind
    start, step, _ = spectral_axis(cube.wavelengths, cube.unit)
    return data, {**arguments, **placement.cube_kwargs((start, step))}, kind


def stack_layer(
    stack: Stack, name: str, placement: Placement, pages: tuple[float, float]
) -> LayerTuple:
    """Describe the Image layer of *stack*, whose *pages* begin at a number and advance by one."""
    _, arguments, kind = cube_layer(stack.cubes[0], name)
    arguments["axis_labels"] = (stack.axis[2], *arguments["axis_labels"])
    arguments["metadata"] |= {STACK_KEY: stack}
    bands = arguments["translate"][0], arguments["scale"][0]
    return stack.data, arguments | placement.cube_kwargs(pages, bands), kind


def put_cube(layer: Image, data: Any, arguments: Mapping[str, Any]) -> None:
    """Give *layer* the *data*, the cube and the place that `cube_layer` has described."""
    # The metadata come first: listeners to new data look there for the cube.
    layer.metadata = {**layer.metadata, **arguments["metadata"]}
    # The pixels may have been larger, so that its scale and its origin were others.
    for name in ("axis_labels", "units", "scale", "translate"):
        setattr(layer, name, arguments[name])
    layer.data = data


def cube_of(layer: Layer | None) -> SpectralCube | None:
    """Return the cube that *layer* shows, with the layer's own data; None if it shows none."""
    if not isinstance(layer, Image):
        return None
    return cube_of_data(layer.data, layer.metadata)


def cube_at(layer: Layer) -> SpectralCube:
    """Return the cube of a layer that is known to show one. Raises `TypeError` if it does not."""
    cube = cube_of(layer)
    if cube is None:
        raise TypeError(f"Expected a cube layer, got {layer.name!r}.")
    return cube


def cube_of_data(data: Any, metadata: Mapping[str, Any]) -> SpectralCube | None:
    """Return the cube of a layer's *data* and *metadata*.

    For a stack, this is the cube of the page that is shown.

    None if the metadata hold none, or *data* no longer has its bands.
    """
    cube = metadata.get(METADATA_KEY)
    if not isinstance(cube, SpectralCube):
        return None
    if isinstance(data, Sequence):  # the levels of a pyramid
        data = data[0]
    if isinstance(data, Level | LateBands):
        data = data.numbers
    if STACK_KEY in metadata and np.shape(data)[1:] == cube.shape:
        return cube
    if np.ndim(data) != 3 or len(data) != len(cube.wavelengths):
        return None
    # The user or another plugin may have given the layer other numbers: those count.
    return cube if data is cube.data else replace(cube, data=data)


def map_cube_of(data: Any, metadata: Mapping[str, Any]) -> SpectralCube | None:
    """Return the map in a layer of *data* (H, W) and *metadata* as a cube of one band.

    None if the layer shows no map, or its *data* has another size by now.
    """
    cube = metadata.get(MAP_CUBE_KEY)
    if cube is None or np.shape(data) != cube.shape[1:]:
        return None
    return replace(cube, data=np.asarray(data)[None])


def name_of_cube(layer: Layer) -> str:
    """Return the name of the cube that *layer* shows: in a stack, with the number of its page."""
    stack, cube = layer.metadata.get(STACK_KEY), layer.metadata[METADATA_KEY]
    pages = () if stack is None else stack.cubes
    page = next((page for page, one in enumerate(pages) if one is cube), None)
    return layer.name if page is None else page_name(layer.name, page)


def page_name(name: str, page: int) -> str:
    """Return *name* with the number of a *page*, from 0 as the slider counts."""
    return f"{name}, page {page}"


def layer_of_role(viewer: ViewerModel, role: str) -> Any:
    """Find the layer that this plugin has marked with *role* in its metadata; None without one."""
    marked = (layer for layer in viewer.layers if layer.metadata.get(METADATA_KEY) == role)
    return next(marked, None)


def active_cube_layer(viewer: ViewerModel) -> Image | None:
    """Return the selected cube layer, else the topmost visible one.

    A picture and a map of spectra count as their cube.
    None if there is no cube, or the selected one is hidden.
    """
    active = viewer.layers.selection.active
    if active is not None:
        known = active.metadata
        active = cube_layer_in(known) or cube_layer_in(known, MAP_KEY) or active
    if cube_of(active) is not None and active in viewer.layers:
        return active if is_cube_shown(viewer, active) else None
    return next(_seen_cubes(viewer), None)


def _seen_cubes(viewer: ViewerModel) -> Iterator[Image]:
    # napari lists layers from the bottom up.
    for layer in reversed(viewer.layers):
        if cube_of(layer) is not None and is_cube_shown(viewer, layer):
            yield layer


def is_cube_shown(viewer: ViewerModel, layer: Image) -> bool:
    """True if a band of the cube *layer* is visible, or its picture."""
    return layer.visible or is_picture_shown(viewer, layer)


def shown_cube_layers(viewer: ViewerModel) -> list[Image]:
    """List the active cube layer, then the other visible ones of its unit, topmost first.

    Layers that turn the axis of their bands into the image are left out: a point of the image is
    not one pixel of theirs.
    """
    active = active_cube_layer(viewer)
    if active is None:
        return []
    unit = cube_at(active).unit
    seen = (layer for layer in _seen_cubes(viewer) if cube_at(layer).unit == unit)
    shown = [active, *(layer for layer in seen if layer is not active)]
    return [layer for layer in shown if image_matrix(layer) is not None]


def band_of(layer: Image, point: Sequence[float]) -> int:
    """Return the band of the cube *layer* that is shown when the sliders stand at world *point*."""
    band = round(float(layer.world_to_data(point)[-3]))
    # A slider spans all layers, so it may stand beside the bands of this one.
    return min(max(band, 0), layer.data.shape[-3] - 1)


def go_to(viewer: ViewerModel, layer: Image, wavelength: float) -> None:
    """Move the slider to the band of the cube *layer* nearest to *wavelength*, in its unit."""
    pixel = np.zeros(layer.ndim)
    pixel[-3] = cube_at(layer).nearest_band(wavelength)
    # Axes that other layers have on top come before the three of a cube.
    viewer.dims.set_point(viewer.dims.ndim - 3, layer.data_to_world(pixel)[-3])


def put_on_top(viewer: ViewerModel, layer: Layer) -> None:
    """Show *layer*, with its picture, above all images, but below what is drawn on them.

    Picks and regions of this plugin that *layer* would cover are moved above it.
    """
    # To show what is shown already makes napari slice and draw it again.
    if not layer.visible:
        layer.visible = True
    layers = viewer.layers
    for one in (layer, *composites_of(viewer, layer)):
        images = [at for at, other in enumerate(layers) if not isinstance(other, Points | Shapes)]
        layers.move(layers.index(one), images[-1] + 1)
    below = layers[: layers.index(layer)]
    for other in below:
        if isinstance(other, Points | Shapes) and METADATA_KEY in other.metadata:
            layers.move(layers.index(other), len(layers))
