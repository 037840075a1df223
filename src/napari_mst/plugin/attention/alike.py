"""Non-local means in the window: what counts for a pixel of a photo, and the photo denoised."""

from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import NamedTuple

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image

from napari_mst.attention.maps import AttentionMap, Selection
from napari_mst.attention.overlays import ALIKE
from napari_mst.cube import Provenance
from napari_mst.denoising.non_local_means import PixelWeights
from napari_mst.denoising.photos import Denoising, in_codes, pixel_weights
from napari_mst.photo.photo import Photo
from napari_mst.plugin.viewer.composites import put_above, selection_kept
from napari_mst.plugin.viewer.photos import DENOISED, LayerPhoto, photo_layer


@dataclass(frozen=True, eq=False)
class Alike:
    """A photo, and the way in which non-local means compare its pixels."""

    photo: Photo
    how: Denoising
    provenance: Provenance

    @classmethod
    def of(cls, photo: Photo, how: Denoising) -> "Alike":
        """Make one for *photo*, whose noise is known."""
        past = Provenance(
            source=photo.name,
            source_sha256=photo.sha256,
            encoding=photo.encoding,
            denoise=f"{how.h:g}",
            denoising=str(how),
            assumptions=photo.assumptions,
            versions={name: version(name) for name in ("napari-mst", "numpy")},
        )
        return cls(photo, how, past)

    def weights(self, row: int, column: int) -> PixelWeights:
        """The weights of a pixel. Raises `DenoisingError`."""
        return pixel_weights(self.photo, self.how, row, column)

    def map(self, found: PixelWeights) -> AttentionMap:
        """The weights *found* as a map over the photo."""
        return AttentionMap(
            values=found.weights.astype(np.float32),
            overlay=ALIKE.name,
            unit=ALIKE.unit,
            selection=Selection(str(self.how)),
            pitch=1,
            offset=(float(found.top), float(found.left)),
            total=float(found.weights.sum()),
            provenance=self.provenance,
        )

    def sentence(self, row: int, column: int, found: PixelWeights) -> str:
        """Say in a few words what counts for a pixel, and what it is before and after."""
        before, after = in_codes(self.photo, found, row, column)
        was = ", ".join(f"{value:.1f}" for value in before)
        becomes = ", ".join(f"{value:.1f}" for value in after)
        return (
            f"Pixel ({row}, {column}): {found.weights.size} weights add up to "
            f"{found.weights.sum():.6f}; {found.effective:.1f} pixels count (1 / sum of squares). "
            f"Before {was}, after {becomes} (8-bit codes)."
        )


class DenoisedPhoto(NamedTuple):
    """A photo after non-local means, and what it was before."""

    photo: Photo
    before: Alike

    @property
    def provenance(self) -> Provenance:
        """The history of the denoised photo."""
        note = f"The photo was denoised: {self.before.how}."
        past = self.before.provenance
        return replace(past, assumptions=(*past.assumptions, note))


def show_denoised(viewer: ViewerModel, found: DenoisedPhoto, source: LayerPhoto) -> Image:
    """Show a denoised photo right above the one that it was, and return its layer.

    It is a photo like any other: it can be reconstructed, saved and compared.
    """
    pixels, arguments, _ = photo_layer(found.photo, f"{source.name} {DENOISED}", source.placement)
    name = arguments["name"]
    present = next((one for one in viewer.layers if one.name == name), None)
    with selection_kept(viewer):
        if isinstance(present, Image) and present.data.shape == pixels.shape:
            present.data = pixels
            layer = present
        else:
            layer = viewer.add_image(pixels, **arguments)
        layer.visible = True
        photo = source.layer()
        # Below the maps that lie on both.
        if photo is not None and photo in viewer.layers:
            put_above(viewer, photo, layer)
    return layer
