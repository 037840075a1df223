"""Photos of several pages: their pixels as stored and upright, and in sRGB for layers.

Letters: H rows, W columns, C channels, T pages.
"""

from pathlib import Path

import numpy as np
import tifffile

from napari_mst.base.arrays import Array
from napari_mst.base.errors import PhotoError
from napari_mst.photo.files import decode_file
from napari_mst.photo.orientation import orientation_in, upright
from napari_mst.photo.planes import whole_series
from napari_mst.photo.profiles import ColourSpace, in_srgb, space_in
from napari_mst.photo.raw import check_size
from napari_mst.photo.raw_header import is_raw_file


def decode_pages(path: Path, notes: list[str]) -> tuple[Array, ColourSpace | None]:
    """The pixels of the photo file *path* and their colour space, None for sRGB.

    The pixels are (H, W), (H, W, C), or (T, H, W, C) for several pages.

    Raises
    ------
    PhotoError
        See `decode_file`; several colour pages of one size in one TIFF are no error here.
    """
    pages = None if is_raw_file(path) else _colour_pages(path)
    if pages is not None:
        return pages
    photo = decode_file(path, notes)
    return photo.pixels, photo.space


def shown_pages(path: Path) -> Array:
    """The pixels of `decode_pages` in sRGB, for a layer."""
    pixels, space = decode_pages(path, [])
    return pixels if space is None else pages_in_srgb(pixels, space)


def pages_in_srgb(pixels: Array, space: ColourSpace) -> Array:
    """*pixels* of `decode_pages` in sRGB; types that photos do not have stay unchanged."""
    if pixels.dtype.name not in ("uint8", "uint16", "float32"):
        return pixels
    all_rows = pixels.reshape(-1, *pixels.shape[2:]) if pixels.ndim == 4 else pixels
    return in_srgb(all_rows, space, []).reshape(pixels.shape)


def _colour_pages(path: Path) -> tuple[Array, ColourSpace | None] | None:
    """See `decode_pages`; None if *path* is not a TIFF, or has no colour pages."""
    try:
        with tifffile.TiffFile(path) as tiff:
            series = whole_series(tiff)[0]
            page = series.keyframe
            is_rgb = page.photometric == tifffile.PHOTOMETRIC.RGB
            is_colour = is_rgb and page.samplesperpixel in (3, 4)
            if not is_colour or len(series.shape) != 4:
                return None
            check_size(page.imagewidth, page.imagelength * series.size // page.size)
            stored = series.asarray()
            asked, space = orientation_in(page, []), space_in(page)
    except PhotoError:
        raise
    except Exception:  # noqa: BLE001 (no TIFF, or a damaged one: decode_file finds the words)
        return None
    channels_last = np.moveaxis(stored, series.axes.index("S"), -1)
    pages_last = np.moveaxis(channels_last, 0, -1)  # `upright` takes rows and columns first
    return np.moveaxis(upright(pages_last, asked), -1, 0), space
