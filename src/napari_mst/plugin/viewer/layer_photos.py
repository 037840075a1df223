"""Photos that Image layers show: which layers hold one, and how it is read from them.

Letters: H rows, W columns, C colour channels.
"""

import math
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image, Layer

from napari_mst.attention.record_views import AttentionMap
from napari_mst.base.arrays import Array
from napari_mst.base.errors import PhotoError
from napari_mst.cube.layer import METADATA_KEY, PAGE, WAVELENGTH, LayerTuple
from napari_mst.photo.files import georeference_in, has_colours_of_its_own, orientation
from napari_mst.photo.orientation import upright
from napari_mst.photo.photo import Encoding, Photo, Rectangle
from napari_mst.photo.photo_pages import decode_pages, pages_in_srgb
from napari_mst.photo.raw import SATURATED, Shot, saturation_notes
from napari_mst.plugin.viewer.layers import cube_of, is_composite
from napari_mst.plugin.viewer.placement import Placement


# Two photos are equal only if they are the same object: `session` uses them as keys, and
# their arrays have no hash and no single truth value.
@dataclass(frozen=True, eq=False)
class LayerPhoto:
    """A photo as an Image layer showed it when it was asked for. Only `read` looks at its pixels.

    Attributes
    ----------
    index
        The page of a stack: one number for each axis before those of the photo.
    region
        The part that a cube shall cover; None for the whole photo.
    path
        The file that the layer was opened from; None if there is none.
    shot
        How the photo was taken, if it is the linear one of a RAW file.
    """

    name: str
    placement: Placement
    layer: "weakref.ref[Image]"
    pixels: Any
    index: tuple[int, ...]
    region: Rectangle | None = None
    path: str | None = None
    shot: Shot | None = None

    @classmethod
    def of(cls, layer: Image, point: Sequence[float]) -> "LayerPhoto":
        """Freeze the photo, or the page of a stack, that *layer* shows.

        The sliders stand at world *point*.
        """
        return cls.of_page(layer, page_shown(layer, stack_shape(layer), point))

    @classmethod
    def of_page(
        cls, layer: Image, index: tuple[int, ...], region: Rectangle | None = None
    ) -> "LayerPhoto":
        """Freeze the page *index* of *layer*, or a *region* of it."""
        return cls(
            name=layer.name,
            placement=Placement.of(layer),
            layer=weakref.ref(layer),
            # The job reads later, when the layer may have other pixels or be gone.
            pixels=_finest(layer),
            index=index,
            region=region,
            path=layer.source.path,
            shot=_shot_of(layer),
        )

    @property
    def shape(self) -> tuple[int, int]:
        """(H, W) of the photo, or of the region of it."""
        if self.region is not None:
            top, bottom, left, right = self.region
            return bottom - top, right - left
        return image_shape(self.pixels.shape[len(self.index) :])

    @property
    def corner(self) -> tuple[int, int]:
        """Row and column of the first pixel of the region."""
        return (0, 0) if self.region is None else (self.region[0], self.region[2])

    @property
    def region_label(self) -> str:
        """The region as it stands in the names of layers; "" for the whole photo."""
        return "" if self.region is None else " [{}:{}, {}:{}]".format(*self.region)

    def placement_of(self, shape: tuple[int, ...]) -> Placement:
        """Return where an image of any *shape* (h, w) covers the photo, or the region of it."""
        step = np.array(self.shape) / shape
        # The first pixel of a coarser image is centred between the pixels that it covers.
        return self.placement.of_part(self.corner + (step - 1) / 2, step)

    def pages(self) -> "list[LayerPhoto]":
        """List the pages of the stack, in order; a photo alone is its only page."""
        stacked = self.pixels.shape[: len(self.index)]
        return [replace(self, index=index) for index in np.ndindex(stacked)]

    def reference(self) -> "Callable[[], LayerPhoto | None]":
        """Return what finds the photo again, without keeping its pixels."""
        return partial(_photo_again, self.layer, self.index, self.region)

    def read(self, encoding: Encoding | None = None) -> Photo:
        """Read the whole photo. Raises `PhotoError` if the layer holds something else."""
        pixels = np.asarray(self.pixels[self.index])
        photo = self._photo(pixels, encoding)
        notes = list(photo.assumptions)
        if self.index:
            page = ", ".join(map(str, self.index))
            notes.append(f"This is page {page} of a stack; each page is a photo of its own.")
        if _is_planar(pixels.shape):
            notes.append("The 3 planes were taken as red, green and blue.")
        # A page of a stack has no place on earth.
        has_place = self.path and not self.index
        place = georeference_in(Path(str(self.path)), notes, photo.shape) if has_place else None
        return replace(photo, assumptions=tuple(notes), georeference=place)

    def cut(self, photo: Photo) -> Photo:
        """Return the region of *photo*, which was read whole."""
        return photo if self.region is None else photo.cropped(self.region)

    def _photo(self, pixels: Array, encoding: Encoding | None) -> Photo:
        """Return *pixels* as a photo; values of a RAW file keep their meaning."""
        if self.shot is None:
            photo = Photo.from_array(pixels, encoding=encoding, name=self.name)
            return self._in_colours_of_file(photo, pixels, encoding) if self.path else photo
        scale = float(SATURATED)
        photo = Photo.from_array(pixels, encoding="linear", full_scale=scale, name=self.name)
        notes = (*self.shot.notes, *saturation_notes(pixels), *photo.assumptions)
        return replace(photo, assumptions=notes, shot=self.shot)

    def _in_colours_of_file(self, photo: Photo, pixels: Array, encoding: Encoding | None) -> Photo:
        """Return the *photo* of *pixels* as `Photo.read` converts it, if they are the file's."""
        path, notes = Path(str(self.path)), list[str]()
        if not has_colours_of_its_own(path):
            return photo
        try:
            stored, space = decode_pages(path, notes)
        except PhotoError:  # the file is no longer what the layer was opened from
            return photo
        page = stored[self.index] if self.index and stored.ndim == 4 else stored
        # The recogniser shows the colours in sRGB; napari's own reader, as they are stored, and
        # photos on their side.
        shown = page if space is None else pages_in_srgb(page, space)
        on_its_side = upright(page, _TURNED_BACK.get(turn := orientation(path), turn))
        if np.array_equal(pixels, shown):
            pixels = page
        elif not (np.array_equal(pixels, page) or np.array_equal(pixels, on_its_side)):
            other = f"The file states {space.name if space else 'colours of its own'}, but its "
            note = f"{other}layer has other pixels by now: they were taken as sRGB."
            return replace(photo, assumptions=(*photo.assumptions, note))
        encoding = encoding or ("srgb" if space else None)
        photo = Photo.from_array(pixels, encoding=encoding, name=self.name)
        photo = replace(photo, assumptions=(*notes, *photo.assumptions))
        return photo if space is None else photo.in_srgb(space)


_TURNED_BACK = {6: 8, 8: 6}
"""EXIF orientations that another one undoes; the rest undo themselves."""


def page_shown(layer: Layer, pages: Sequence[int], point: Sequence[float]) -> tuple[int, ...]:
    """Return the page of *layer* that the sliders at world *point* show.

    *pages* are the lengths of the axes in front of the image axes.
    """
    # A slider stands in world units: between two pages, or beside all pages of this layer.
    page = np.round(layer.world_to_data(point)[: len(pages)])
    return tuple(np.clip(page, 0, np.array(pages) - 1).astype(int).tolist())


def _photo_again(
    layer_ref: "weakref.ref[Image]", index: tuple[int, ...], region: Rectangle | None
) -> LayerPhoto | None:
    """Return the photo as the layer has it now; None if the layer or its page is gone."""
    layer = layer_ref()
    if layer is None:
        return None
    stacked = stack_shape(layer)
    # The stack may have got an axis for bands meanwhile: see `make_room_for_bands`.
    index = (*index, *(0 for _ in stacked[len(index) :]))
    has_page = all(at < pages for at, pages in zip(index, stacked, strict=False))
    return LayerPhoto.of_page(layer, index, region) if has_page else None


def stack_shape(layer: Image) -> tuple[int, ...]:
    """Return how many pages *layer* has along each axis before those of a photo; () for one."""
    shape = tuple(_finest(layer).shape)
    # One photo is (H, W, 3 or 4), (3, H, W), or grey (H, W).
    axes = 3 if layer.rgb or _is_planar(shape) else 2
    return shape[: len(shape) - axes]


def has_pages(layer: Image) -> bool:
    """True if *layer* is a stack of photos, whose pages have one slider."""
    stacked = stack_shape(layer)
    return 1 < math.prod(stacked) == stacked[0]


THICK = 1e6
"""The width of the one band of a stack of photos, so that it is seen beside all bands of a cube."""


def make_room_for_bands(layer: Image, start: float) -> None:
    """Give a stack of photos an axis of one band, so that its pages keep a slider of their own.

    The band lies at *start*, where those of a cube begin, so that their slider begins there.

    napari counts axes from the last: the slider of the pages would become the slider of the bands.
    """
    if layer.multiscale or len(stack_shape(layer)) != 1:
        return
    step, first, label = layer.scale[0], layer.translate[0], layer.axis_labels[0]
    layer.data = np.expand_dims(layer.data, 1)
    # Else the slider of the pages would have a number of napari's, "-4", for a name.
    layer.axis_labels = (PAGE if label == "-3" else label, WAVELENGTH, "y", "x")
    layer.scale = (step, THICK, *layer.scale[-2:])
    layer.translate = (first, start, *layer.translate[-2:])


DENOISED = "(denoised)"
"""Ends the name of a layer that shows a denoised photo."""


CORRECTED = "corrected photo"
"""Marks a preview of what the next run does to its photo first, which is none to run itself."""
FRAME = "chart frame"
"""Marks the outlines around a chart, which are no regions of a cube."""
MAP, MADE_PHOTO = "map", "made photo"
"""Mark layers that this plugin made of a photo or cube: maps, their outlines, and photos."""


def is_made(layer: Layer) -> bool:
    """True for a map, its outlines, the frame of a chart, or a photo that this plugin made."""
    return layer.metadata.get(METADATA_KEY) in (MAP, MADE_PHOTO, CORRECTED, FRAME)


def hide_maps(viewer: ViewerModel, kept: Image | None = None) -> None:
    """Hide all maps, except the one to be *kept*: two over each other cannot be read."""
    for layer in viewer.layers:
        role = layer.metadata.get(METADATA_KEY)
        is_map = isinstance(role, AttentionMap) or role == MAP
        # To hide what is hidden would have it drawn again.
        if is_map and layer is not kept and layer.visible:
            layer.visible = False


def photo_layer(photo: Photo, name: str, placement: Placement | None = None) -> LayerTuple:
    """Describe the Image layer of *photo*, a RAW one or one that was made, on *placement*.

    Floats become 0-1, as napari draws them.
    """
    pixels = np.moveaxis(photo.pixels, 0, -1)
    if pixels.dtype.kind == "f":
        pixels = (pixels / photo.full_scale).astype(np.float32)
        if photo.valid is not None:
            pixels[~photo.valid] = np.nan
    # By how a RAW photo was taken, jobs know that it is linear. A photo that was made is no measure
    # for the colours of a cube.
    metadata = {METADATA_KEY: MADE_PHOTO if photo.shot is None else photo.shot}
    look = {"name": name, "rgb": True, "metadata": metadata}
    place = {} if placement is None else placement.image_kwargs()
    return pixels, place | look, "image"


def image_shape(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return (H, W) of one photo of *shape*: (H, W), (H, W, C) or planar (C, H, W)."""
    is_last = len(shape) == 2 or _is_planar(shape)
    rows, columns = shape[-2:] if is_last else shape[-3:-1]
    return rows, columns


def photo_layers(viewer: ViewerModel) -> list[Image]:
    """List the Image layers that a photo can be read from, topmost first."""
    images = (layer for layer in reversed(viewer.layers) if isinstance(layer, Image))
    return [layer for layer in images if _is_photo(layer)]


def is_raw(layer: Image) -> bool:
    """True if *layer* shows a RAW photo, perhaps divided by a white frame."""
    return _shot_of(layer) is not None


def is_of_sensor(layer: Image) -> bool:
    """True if *layer* shows the values of a sensor as a RAW file has them, not balanced."""
    shot = _shot_of(layer)
    return shot is not None and not shot.is_flat


def _is_photo(layer: Image) -> bool:
    """True unless *layer* shows a cube, its picture, a map, or a preview of a correction."""
    role = layer.metadata.get(METADATA_KEY)
    # A denoised photo is a photo, though it has the text of its role there as maps have.
    is_map = isinstance(role, AttentionMap | str) and not layer.rgb
    return not (role == CORRECTED or is_map or is_composite(layer) or cube_of(layer) is not None)


def _shot_of(layer: Image) -> Shot | None:
    """Return how the RAW photo in *layer* was taken; None where its pixels are others by now."""
    shot = layer.metadata.get(METADATA_KEY)
    return shot if isinstance(shot, Shot) and layer.dtype == np.uint16 else None


def _finest(layer: Image) -> Any:
    """Return the pixels of *layer* in full resolution."""
    # napari holds the levels of a multiscale layer from the finest to the coarsest.
    return layer.data[0] if layer.multiscale else layer.data


def _is_planar(shape: tuple[int, ...]) -> bool:
    # A last axis of 3 or 4 is one of colours, even where the first has 3 as well.
    return len(shape) > 2 and shape[-3] == 3 and shape[-1] not in (3, 4)
