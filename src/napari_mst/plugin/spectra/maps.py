"""The job that makes a map on another thread, and the layers that show it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from napari.layers import Image
from napari.utils.colormaps import DirectLabelColormap

from napari_mst.cube.layer import METADATA_KEY, LayerTuple
from napari_mst.denoising.photos import denoised_photo, denoising_of
from napari_mst.plugin.spectra.region_layers import ROLE
from napari_mst.plugin.viewer.layers import UNIT_KEY, cube_layer
from napari_mst.plugin.viewer.photos import DENOISED, LayerPhoto, photo_layer
from napari_mst.plugin.viewer.placement import Placement
from napari_mst.spectra.map_files import FinishedMap
from napari_mst.spectra.map_kind import MapInputs, MapKind, MapPlane, MapResult
from napari_mst.watch import Watch

LABELS_OPACITY = 0.6
"""The image stays visible below labels."""

GREY = "#888888"
"""The colour of a class whose spectrum has none."""


@dataclass(frozen=True, eq=False)
class Order:
    """Everything that a map and its layers are made from, frozen when the map was asked for.

    The photo is read on the thread of the job, so `inputs.photo` is None until then.
    """

    kind: MapKind
    inputs: MapInputs
    name: str
    placement: Placement
    photo: LayerPhoto | None = None


def make_map(order: Order, watch: Watch) -> list[LayerTuple]:
    """The job: the layers of a map, on the place of its cube, the topmost last.

    Each is a plane: a stack would lie on the slider of the wavelengths, where it has no place.
    """
    inputs = order.inputs
    if order.kind.needs == "photo" and order.photo is not None:
        inputs = replace(inputs, photo=order.photo.read())
    result = order.kind.make(inputs, watch)
    if order.kind.content == "cube":
        made = FinishedMap(order.kind, inputs, result).to_cube()
        name = f"{order.kind.title}: {order.name}"
        data, arguments, layer_type = cube_layer(made, name, order.placement)
        return [(data, {**arguments, "visible": True}, layer_type)]
    layers = []
    for plane in result.planes:
        is_first = plane is result.planes[0]
        layers.append(_layer(order, result, plane, is_first))
    return layers[::-1]


@dataclass(frozen=True, eq=False)
class PhotoOrder:
    """A photo to denoise, with h in units of its noise."""

    photo: LayerPhoto
    h: float


def denoise_photo(order: PhotoOrder, watch: Watch) -> list[LayerTuple]:
    """The job: the layer of a photo that was denoised, on the place of the photo."""
    photo = order.photo.read()
    made = denoised_photo(photo, denoising_of(photo, order.h, watch), watch)
    return [photo_layer(made, f"{order.photo.name} {DENOISED}", order.photo.placement)]


def _layer(order: Order, result: MapResult, plane: MapPlane, is_first: bool) -> LayerTuple:
    """The layer of one plane; the first of several is shown."""
    title = plane.title or order.kind.title
    arguments = {
        "name": f"{title}: {order.name}",
        "metadata": {METADATA_KEY: ROLE, UNIT_KEY: order.kind.unit or title},
        "visible": is_first,
        **order.placement.image_kwargs(),
    }
    if order.kind.content == "labels":
        look = _label_look(result)
        if "colormap" in look:
            # napari compiles what colours these labels when it is used first, which takes seconds:
            # here that holds up nobody.
            look["colormap"].map(plane.pixels[:1, :1])
        return plane.pixels, {**arguments, **look}, "labels"
    return plane.pixels, {**arguments, **_image_look(order.kind, plane)}, "image"


def _image_look(kind: MapKind, plane: MapPlane) -> dict[str, Any]:
    # Without limits napari would look for them in the pixels, which is slow.
    limits = kind.limits_of(plane.pixels)
    if kind.content == "rgb":
        return {"rgb": True, "contrast_limits": limits}
    return {"colormap": kind.colormap, "contrast_limits": limits}


def _label_look(result: MapResult) -> dict[str, Any]:
    """Names of the labels 1, 2, ..., and their colours where the spectra have some."""
    names = {"index": list(range(len(result.names) + 1)), "name": ["", *result.names]}
    look: dict[str, Any] = {"features": names, "opacity": LABELS_OPACITY}
    if result.tints:
        table: dict[int | None, str] = {None: "transparent", 0: "transparent"}
        for number, tint in enumerate(result.tints, 1):
            table[number] = tint or GREY
        look["colormap"] = DirectLabelColormap(color_dict=table)
    return look


def fitting_photo(
    photos: Sequence[Image], shape: tuple[int, int], point: Sequence[float]
) -> LayerPhoto | None:
    """The topmost of *photos* that has *shape* (H, W)."""
    # A composite is an RGB image as well, but one that was made from the cube.
    fits = (
        LayerPhoto.of(one, point)
        for one in photos
        if one.rgb and one.metadata.get(METADATA_KEY) != ROLE
    )
    return next((photo for photo in fits if np.shape(photo.pixels)[-3:-1] == shape), None)
