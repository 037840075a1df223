"""Image files: their pixels as stored and upright, at full depth.

RAW photos go through LibRaw, HEIC through libheif, TIFF and 16-bit PNG through tifffile and
imagecodecs, everything else through Pillow, which has 8 bits per channel. Pillow may open only
`FORMATS`: its other formats start programs, like PostScript, or have no use here.

Letters: H rows, W columns, C channels, T pages.
"""

import hashlib
import io
import stat
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import imagecodecs
import numpy as np
import tifffile
from PIL import ExifTags, Image, UnidentifiedImageError

from napari_mst.base.arrays import Array
from napari_mst.base.errors import OutOfMemory, PhotoError
from napari_mst.cube.georeference import TAGS, Georeference
from napari_mst.cube.lazy import mapped
from napari_mst.photo.heif import decode_heif, is_heif
from napari_mst.photo.orientation import orientation_in, upright
from napari_mst.photo.planes import whole_series
from napari_mst.photo.profiles import ColourSpace, in_srgb, space_in
from napari_mst.photo.raw import MAX_PIXELS, Shot, check_size, develop_raw, too_large
from napari_mst.photo.raw_header import TIFF_MARKS, camera_in_raw, check_raw, is_raw, is_raw_file

FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "PPM", "JPEG2000", "TIFF", "AVIF")
"""Formats that Pillow may open, by their first bytes; JPEG includes MPO."""


class Decoded(NamedTuple):
    """A decoded photo file.

    Attributes
    ----------
    pixels
        (H, W) or (H, W, C), upright, as stored; linear if there is a *shot*.
    sha256
        Checksum of the file.
    shot
        The circumstances of a RAW photo; None for any other photo.
    space
        The colour space of the pixels; None for sRGB, or if the file does not state it.
    """

    pixels: Array
    sha256: str
    shot: Shot | None = None
    space: ColourSpace | None = None


_AS_STORED = (tifffile.PHOTOMETRIC.MINISBLACK, tifffile.PHOTOMETRIC.RGB)
"""Colour types of a TIFF whose stored values are shown unchanged."""

_PNG_DEPTH = 24
"""Offset of the bit depth in a PNG: byte 9 of its first chunk, IHDR (ISO/IEC 15948)."""

_JPEG_MAGIC = b"\xff\xd8\xff"
"""First bytes of a JPEG: its start, and the mark of the next segment (ISO/IEC 10918-1)."""


def decode_file(path: Path, notes: list[str]) -> Decoded:
    """Decode the file *path*; *notes* gets a sentence about each conversion.

    Raises
    ------
    PhotoError
        If the file is missing, damaged, not an image, larger than 178 megapixels (except a TIFF),
        or holds several images.
    OutOfMemory
        If the pixels do not fit into memory or, for a larger TIFF, onto the disk.
    """
    with _explained(path), _opened(path) as file, _quiet():
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        # RAW comes first: other decoders would take the preview in it for the photo.
        if is_raw(path.suffix, file):
            check_raw(file)
            pixels, shot = develop_raw(path, notes)
            return Decoded(pixels, sha256, shot)
        if is_heif(file):
            pixels, space = decode_heif(path, notes)
        else:
            pixels, space = (_decode_tiff if _is_tiff(file) else _decode_image)(file, notes)
        return Decoded(pixels, sha256, space=space)


def open_image(file: BinaryIO | Path) -> Image.Image:
    """Open *file* with Pillow as one of `FORMATS`, without decoding its pixels."""
    return Image.open(file, formats=FORMATS)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn any error of a decoder of *path* into an error with advice."""
    try:
        yield
    except PhotoError:
        raise
    except MemoryError as error:
        raise OutOfMemory(
            "Expected memory for the image, got too little. Close other programs."
        ) from error
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise PhotoError(
            f"Expected an image file, got none ({error.strerror}). Check the path."
        ) from error
    except UnidentifiedImageError as error:
        got = "something else" if path.stat().st_size else "an empty one"
        raise PhotoError(
            f"Expected an image file, got {got}. Save it again, as PNG, TIFF or JPEG."
        ) from error
    except Image.DecompressionBombError as error:
        raise too_large() from error
    except Exception as error:  # decoders raise anything about damage, even SyntaxError
        reason = f"{type(error).__name__}: {str(error)[:80]}"
        raise PhotoError(
            f"Expected an intact image file, got a damaged one ({reason}). Copy it again."
        ) from error


def zarr_image(path: Path) -> Any:
    """The array in the Zarr folder *path*, or the finest level of an OME-Zarr; reads no pixels.

    Raises
    ------
    PhotoError
        If zarr is not installed, or the folder holds neither an array nor an OME-Zarr.
    """
    try:
        import zarr

        found = zarr.open(path, mode="r")
        if isinstance(found, zarr.Group):
            attributes: Any = found.attrs.get("ome", found.attrs)
            found = found[attributes["multiscales"][0]["datasets"][0]["path"]]
    except ImportError as error:
        raise PhotoError(
            "Expected zarr, which reads Zarr folders, got no such package. "
            "Install it: pip install 'napari-mst[zarr]'."
        ) from error
    except Exception as error:  # zarr's errors depend on its version and the damage
        raise PhotoError(
            "Expected the image of an OME-Zarr or an array, got neither. Check the folder."
        ) from error
    return found


def orientation(path: str | PathLike[str]) -> int:
    """The orientation stated in a photo file, 1 to 8; 1 if it states none.

    `upright` undoes it, for programs that show the stored pixels. A file that is unreadable or not
    an image counts as upright; reading it raises the error.
    """
    if is_raw_file(Path(path)):  # LibRaw turns the photo upright by itself
        return 1
    try:
        with _head(Path(path)) as (head, _):
            return orientation_in(head, [])
    except Exception:  # noqa: BLE001 (decoders meet damage with every kind of exception)
        return 1


def georeference_in(
    path: Path, notes: list[str], shape: tuple[int, int] | None = None
) -> Georeference | None:
    """The georeference of a GeoTIFF photo; doubts about it are added to *notes*.

    None if the file has none, or is not upright, which a map never is. If a *shape* (H, W) is
    given, the photo in the file must have that shape, or the georeference belongs to another photo.
    """
    try:
        with _opened(path) as file, tifffile.TiffFile(file) as tiff:
            page = tiff.pages.first
            is_another = shape not in (None, (page.imagelength, page.imagewidth))
            if is_another or orientation_in(page, []) != 1:
                return None
            tags = {tag.code: tag.value for tag in page.tags if tag.code in TAGS}
        place = Georeference.from_tags(tags)
        checked, doubts = place.checked() if place else (None, [])
        notes += doubts
        return checked
    # Files other than TIFFs have no georeference; reading a damaged file raises the error.
    except Exception:  # noqa: BLE001
        return None


def is_shown_otherwise(path: str | PathLike[str]) -> bool:
    """True if imageio, which napari uses for photos, and `decode_file` return different pixels.

    imageio ignores the orientation, takes CMYK for RGB with transparency, keeps inverted and other
    colours of a TIFF as stored, halves the depth of 16-bit colour in PNG, returns the preview of a
    RAW photo, and takes every colour space for sRGB. Only the head of the file is read.
    """
    if orientation(path) != 1 or is_raw_file(Path(path)):
        return True
    try:
        with _head(Path(path)) as (head, file):
            space = space_in(head, file)
            if space is not None and space.channels:
                return True
            if isinstance(head, tifffile.TiffPage):
                return head.photometric not in _AS_STORED
            is_in_colour = head.mode.startswith("RGB")
            return head.mode == "CMYK" or (is_in_colour and _is_deep_png(head, file))
    except Exception:  # noqa: BLE001 (decoders meet damage with every kind of exception)
        return False


def has_colours_of_its_own(path: Path) -> bool:
    """True if the photo file *path* has, or like HEIC may have, colours other than sRGB.

    Only the head of the file is read.
    """
    if is_heif_file(path):
        return True
    try:
        with _head(path) as (head, file):
            return space_in(head, file) is not None or getattr(head, "mode", "") == "CMYK"
    except Exception:  # noqa: BLE001 (decoders meet damage with every kind of exception)
        return False


def camera_named_in(path: Path) -> tuple[str, str]:
    """Make and model of the camera named in a file (EXIF, TIFF, RAW).

    Both are empty if the file names none, or is not an image.
    """
    try:
        if is_raw_file(path):
            return camera_in_raw(path)
        with _quiet(), _opened(path) as file, open_image(file) as image:
            tags = image.getexif()
            make = str(tags.get(ExifTags.Base.Make, "")).strip("\0 ")
            model = str(tags.get(ExifTags.Base.Model, "")).strip("\0 ")
            return make, model
    except Exception:  # noqa: BLE001 (a mere hint: a damaged file is refused where it is read)
        return "", ""


def is_heif_file(path: Path) -> bool:
    """True if *path* is a HEIC photo by its contents; False if it is missing."""
    try:
        with _opened(path) as file:
            return is_heif(file)
    except (OSError, PhotoError):
        return False


def is_jpeg(path: Path) -> bool:
    """True if the file *path*, known to be readable, is a JPEG."""
    with path.open("rb") as file:
        return file.read(len(_JPEG_MAGIC)) == _JPEG_MAGIC


def _opened(path: Path) -> io.BufferedReader:
    """The file, open for reading."""
    mode = path.stat().st_mode
    # Reading a pipe would wait for a writer, and a device may never end. A folder fails on opening.
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise PhotoError(
            "Expected an image file, got a pipe or a device. Copy its contents into a file first."
        )
    return path.open("rb")


@contextmanager
def _head(path: Path) -> Iterator[tuple[tifffile.TiffPage | Image.Image, BinaryIO]]:
    """The first page of the TIFF *path*, or Pillow's image of any other file; and the open file."""
    with _quiet(), _opened(path) as file:
        if _is_tiff(file):
            with tifffile.TiffFile(file) as tiff:
                yield tiff.pages.first, file
        else:
            with open_image(file) as image:
                yield image, file


def _quiet() -> AbstractContextManager[None]:
    """Silence warnings of decoders; a note or an error says the same."""
    return warnings.catch_warnings(action="ignore")


def _is_tiff(file: BinaryIO) -> bool:
    """True if *file* is a TIFF; reads its beginning and rewinds it."""
    file.seek(0)
    magic = file.read(4)
    file.seek(0)
    return magic in TIFF_MARKS


def _decode_image(file: BinaryIO, notes: list[str]) -> tuple[Array, ColourSpace | None]:
    file.seek(0)
    image = open_image(file)
    check_size(*image.size)
    pages = getattr(image, "n_frames", 1)
    # MPO is a phone's JPEG, whose other pages are previews.
    if pages > 1 and image.format != "MPO":
        raise _several(f"{pages} pages")
    asked = orientation_in(image, notes)  # first, since it reports damaged EXIF
    space = space_in(image, file)
    # Pillow keeps only the upper 8 bits of 16-bit colour.
    if _is_deep_png(image, file):
        file.seek(0)
        return upright(imagecodecs.png_decode(file.read()), asked), space
    if image.mode == "CMYK" and space is not None and space.channels == len(image.mode):
        return upright(in_srgb(np.asarray(image), space, notes), asked), None
    return upright(np.asarray(_in_plain_mode(image, notes)), asked), space


def _decode_tiff(file: BinaryIO, notes: list[str]) -> tuple[Array, ColourSpace | None]:
    file.seek(0)
    with tifffile.TiffFile(file) as tiff:
        images = [series for series in whole_series(tiff) if not series.keyframe.is_reduced]
        if len(images) != 1:
            raise _several(f"{len(images)} images")
        series = images[0]
        if series.is_multifile:
            raise _several("one in several files")
        page = series.keyframe
        declared = (tiff.imagej_metadata or {}).get("images", 1)
        # tifffile only logs missing pages.
        if declared > 1 and series.axes in ("YX", "YXS"):
            raise EOFError(f"{declared} pages declared, 1 found")
        if page.photometric not in (*_AS_STORED, tifffile.PHOTOMETRIC.MINISWHITE):
            return _decode_image(file, notes)
        is_planar = _is_planar_tiff(series)
        pixels = _decoded(file, series)
        if is_planar:
            pixels = np.moveaxis(pixels, 0, -1)
        if page.photometric == tifffile.PHOTOMETRIC.MINISWHITE:
            np.invert(pixels, out=pixels)
        is_infrared = page.extrasamples[-1:] == (tifffile.EXTRASAMPLE.UNSPECIFIED,)
        if page.samplesperpixel == 4 and is_infrared:
            notes.append("The fourth channel, which is no alpha (infrared?), was left out.")
            pixels = pixels[..., :3]
        return upright(pixels, orientation_in(page, notes)), space_in(page)


def _decoded(file: BinaryIO, series: tifffile.TiffPageSeries) -> Array:
    """The pixels of an image in a TIFF *file*, in a memory-mapped file if the image is large.

    Strips or tiles are decoded one by one, so that only a few are in memory at a time.
    """
    if series.size <= 3 * MAX_PIXELS:
        return series.asarray()
    # A deflate stream grows at most 1032 times (RFC 1951), so a larger image is a bomb.
    if series.nbytes > 1040 * file.seek(0, io.SEEK_END):
        raise too_large()
    return series.asarray(out=mapped(series.shape, series.dtype))


def _is_planar_tiff(series: tifffile.TiffPageSeries) -> bool:
    """True if channels come first: as samples, or as three pages that are not slices or times."""
    if series.axes in ("YX", "YXS"):
        return False
    if series.axes == "SYX" or (series.axes in ("CYX", "QYX") and series.shape[0] == 3):
        return True
    raise _several(f"a stack of shape {series.shape}")


def _several(got: str) -> PhotoError:
    return PhotoError(
        f"Expected one image, got {got}. Save the page that you want as a file of its own."
    )


def _is_deep_png(image: Image.Image, file: BinaryIO) -> bool:
    """True if *image*, opened from *file*, is a PNG with 16 bits per channel."""
    if image.format != "PNG":
        return False
    file.seek(_PNG_DEPTH)
    return file.read(1)[0] == 16


def _in_plain_mode(image: Image.Image, notes: list[str]) -> Image.Image:
    if image.mode in ("L", "LA", "RGB", "RGBA", "I", "F") or image.mode.startswith("I;16"):
        return image
    if image.mode == "1":
        return image.convert("L")
    if image.mode not in ("P", "PA"):
        notes.append(f"Converted from {image.mode} to RGB without its colour profile.")
    return image.convert("RGBA" if image.has_transparency_data else "RGB")
