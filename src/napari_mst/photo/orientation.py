"""The orientation of a photo, 1 to 8 in EXIF and TIFF; 1 is upright."""

import tifffile
from PIL import ExifTags, Image

from napari_mst.base.arrays import Array

# TIFF 6.0, tag 274; all except 1 are rotated or mirrored.
_ORIENTATIONS = range(1, 9)
_ON_THEIR_SIDE = (5, 6, 7, 8)
_LAST_ROW_FIRST = (3, 4, 7, 8)  # after rows and columns are swapped
_LAST_COLUMN_FIRST = (2, 3, 6, 7)


def orientation_in(head: tifffile.TiffPage | Image.Image, notes: list[str]) -> int:
    """The orientation stated in the *head* of an image; *notes* gets a note on damaged EXIF."""
    try:
        if not isinstance(head, Image.Image):
            value = head.tags.valueof("Orientation", 1)
        elif head.format == "TIFF":  # Pillow turns the photo upright by itself
            return 1
        else:
            value = int(head.getexif().get(ExifTags.Base.Orientation, 1))
        return int(value) if value in _ORIENTATIONS else 1
    except (SyntaxError, ValueError, TypeError):
        notes.append("The file's EXIF data is damaged: no orientation was applied.")
        return 1


def upright(pixels: Array, orientation: int) -> Array:
    """A view of the stored *pixels*, (H, W) or (H, W, C), with their *orientation* undone."""
    if orientation in _ON_THEIR_SIDE:
        pixels = pixels.swapaxes(0, 1)
    row_step = -1 if orientation in _LAST_ROW_FIRST else 1
    column_step = -1 if orientation in _LAST_COLUMN_FIRST else 1
    return pixels[::row_step, ::column_step]
