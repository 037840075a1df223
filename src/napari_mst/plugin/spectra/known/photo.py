"""Finds the photo that a cube was made from, among the layers that show photos."""

from collections.abc import Sequence

from napari.components import ViewerModel
from napari.layers import Image

from napari_mst.adaptation.colours import colour_difference, photo_of
from napari_mst.cube import SpectralCube
from napari_mst.cube.layer import METADATA_KEY
from napari_mst.errors import PhotoError
from napari_mst.photo.photo import Encoding, Photo
from napari_mst.plugin.viewer.photos import LayerPhoto, photo_layers

FARTHEST = 8.0
"""Mean difference in 8-bit codes between a cube and its own photo; another photo is further off."""


def photos_for(viewer: ViewerModel, layer: Image, cube: SpectralCube) -> tuple[LayerPhoto, ...]:
    """The photos that *cube*, of *layer*, may be from: those of its name first, by size.

    A photo of another size may be one of which the cube shows a region.
    """
    made = [one for one in photo_layers(viewer) if METADATA_KEY not in one.metadata]
    found = [LayerPhoto.of(one, viewer.dims.point) for one in made]
    rows, columns = cube.shape[1:]
    fits = [one for one in found if one.shape[0] >= rows and one.shape[1] >= columns]
    return tuple(sorted(fits, key=lambda photo: not _is_named_after(photo, layer, cube)))


def _is_named_after(photo: LayerPhoto, layer: Image, cube: SpectralCube) -> bool:
    return photo.name == cube.provenance.source or layer.name.startswith(photo.name)


def photo_from(photos: Sequence[LayerPhoto], cube: SpectralCube) -> Photo:
    """Read the one of *photos* that *cube* was made from, cut to what the cube shows.

    It is told by its pixels: they are the very ones, or their colours are those of the cube.

    Raises
    ------
    PhotoError
        If there is none.
    """
    encoding: Encoding | None = "linear" if cube.provenance.camera else None
    others = list[str]()
    for layer_photo in photos:
        photo = layer_photo.read(encoding)
        try:
            part = photo_of(cube, photo)
        except PhotoError:  # another size
            continue
        if photo.sha256 == cube.provenance.source_sha256:
            return part
        difference = colour_difference(cube, part)
        if difference <= FARTHEST:
            return part
        others.append(f"{layer_photo.name[:30]!r}, whose colours are {difference:.0f} codes off")
    rows, columns = cube.shape[1:]
    raise PhotoError(
        f"Expected a layer with the photo of the cube, {rows} x {columns} pixels, got "
        f"{others[0] if others else 'none'}. Open the photo that the cube was made from."
    )
