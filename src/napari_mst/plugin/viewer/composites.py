"""Pictures of cubes: RGB layers that lie above the layers of their cubes, and stand for them.

A picture is a layer of its own, linked to its cube by a reference in its metadata. So the cube
layer stays what every dock, writer and slider takes it for, (B, H, W) with its wavelengths, and the
eye in napari's list of layers switches between picture and bands. `layers.active_cube_layer` finds
the cube of a picture that is selected. Letters: H rows, W columns.
"""

import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image, Layer
from numpy.typing import NDArray

from napari_mst.plugin.viewer.placement import Placement

COMPOSITE_KEY = "napari_mst_picture_of"
"""The key in the metadata of a picture under which a weak reference to its cube layer lies."""
MODEL_KEY = "napari_mst_picture_as_of"
"""The key in the metadata of a cube layer under which the `Model` of its picture lies."""
ENDING = " (picture)"
"""Ends the name of a picture."""
CONTRAST = (0, 255)
"""Limits of contrast of 8-bit pictures."""
_PLACE = ("scale", "translate", "rotate", "shear", "affine", "units")


class Model(NamedTuple):
    """A cube layer, compared with a new one: both pictures begin with the same look.

    Attributes
    ----------
    is_picture
        False if the bands were shown instead of the picture.
    """

    layer: "weakref.ref[Image]"
    is_picture: bool


def resembling(layer: Image, *, is_picture: bool) -> dict[str, Model]:
    """Return metadata for a new cube layer, whose picture shall look as that of *layer*."""
    return {MODEL_KEY: Model(weakref.ref(layer), is_picture)}


def model_of(cube_layer: Layer) -> Image | None:
    """Return the layer whose picture the one of *cube_layer* resembles; None if there is none."""
    model = cube_layer.metadata.get(MODEL_KEY)
    return model.layer() if isinstance(model, Model) else None


def _begins_shown(cube_layer: Layer) -> bool:
    model = cube_layer.metadata.get(MODEL_KEY)
    is_wanted = not isinstance(model, Model) or model.is_picture
    return bool(cube_layer.visible) and is_wanted


def is_composite(layer: Layer | None) -> bool:
    """Tell whether *layer* is the picture of a cube."""
    return layer is not None and COMPOSITE_KEY in layer.metadata


def cube_layer_of(layer: Layer) -> Image | None:
    """Return the cube layer whose picture *layer* is; None if it is none, or the cube is gone."""
    return cube_layer_in(layer.metadata)


def cube_layer_in(metadata: Mapping[str, Any]) -> Image | None:
    """Return the cube layer that the *metadata* of its picture lead to; None if there is none."""
    reference = metadata.get(COMPOSITE_KEY)
    found = reference() if isinstance(reference, weakref.ref) else None
    return found if isinstance(found, Image) else None


def composites_of(viewer: ViewerModel, cube_layer: Layer) -> list[Image]:
    """List the pictures of *cube_layer*: one, and those that the user has duplicated."""
    return [
        layer
        for layer in viewer.layers
        if isinstance(layer, Image) and cube_layer_of(layer) is cube_layer
    ]


def composite_of(viewer: ViewerModel, cube_layer: Layer) -> Image | None:
    """Return the picture of *cube_layer*; None if there is none."""
    return next(iter(composites_of(viewer, cube_layer)), None)


def is_picture_shown(viewer: ViewerModel, cube_layer: Layer) -> bool:
    """Tell whether a picture of *cube_layer* is visible."""
    return any(layer.visible for layer in composites_of(viewer, cube_layer))


def add_composite(viewer: ViewerModel, cube_layer: Image, picture: NDArray[np.uint8]) -> Image:
    """Put *picture* (H, W, 3) directly above *cube_layer*; what was selected stays selected."""
    with selection_kept(viewer):
        added: Image = viewer.add_image(
            picture,
            rgb=True,
            contrast_limits=CONTRAST,
            name=f"{cube_layer.name}{ENDING}",
            visible=_begins_shown(cube_layer),
            metadata={COMPOSITE_KEY: weakref.ref(cube_layer)},
            **Placement.of(cube_layer).image_kwargs(),
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
    composite: Image, cube_layer: Image, picture: NDArray[np.uint8], place: Placement | None = None
) -> None:
    """Show *picture* on the *place* in the world, or on that of the whole *cube_layer*."""
    place = place or Placement.of(cube_layer)
    composite.data = picture
    follow(composite, place.image_kwargs())


def follow(composite: Image, place: dict[str, Any]) -> None:
    """Put *composite* on its *place*, and change nothing that is right already."""
    for name in _PLACE:
        before = getattr(composite, name)
        if name == "affine":
            before = before.affine_matrix
        if name == "units":
            before = tuple(str(unit) for unit in before)
            is_same = before == tuple(place[name])
        else:
            is_same = np.array_equal(np.asarray(before), np.asarray(place[name]))
        # Each change has napari draw the layer again.
        if not is_same:
            setattr(composite, name, place[name])
