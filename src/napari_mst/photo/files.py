"""Image files: their pixels as stored and upright, at full depth.

TIFF and 16-bit PNG go through tifffile and imagecodecs, everything else through Pillow, which has 8 bits a channel.
Letters: H rows, W columns, C channels.
"""

import hashlib
import io
import stat
import warnings
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

import imagecodecs
import numpy as np
import tifffile
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageCms, UnidentifiedImageError

from napari_mst.errors import OutOfMemory, PhotoError
from napari_mst.georeference import TAGS, Georeference

Pixels = NDArray[Any]

_STRIP = 64
"""Rows that are copied at a time."""

_MAX_PIXELS = 178_956_970
"""Largest photo that is read; Pillow's own limit against decompression bombs."""

_ORIENTATIONS = range(1, 9)

_AS_STORED = (tifffile.PHOTOMETRIC.MINISBLACK, tifffile.PHOTOMETRIC.RGB)
"""Colours of a TIFF whose stored values are those that it shows."""

_TIFF_MAGIC = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")


def decode_file(path: Path, notes: list[str]) -> tuple[Pixels, str]:
    """(H, W) or (H, W, C) pixels of the file *path* and its sha256; what was converted is appended to *notes*.

    Raises
    ------
    PhotoError
        If the file is missing, damaged, not an image, larger than 178 megapixels, or holds several images.
    OutOfMemory
        If its pixels do not fit into memory.
    """
    try:
        with _opened(path) as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            file.seek(0)
            decode = _decode_tiff if file.read(4) in _TIFF_MAGIC else _decode_image
            return decode(file, notes), sha256
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
        raise _too_large() from error
    except (
        Exception
    ) as error:  # decoders meet damage with every kind of exception, SyntaxError included
        reason = f"{type(error).__name__}: {str(error)[:80]}"
        raise PhotoError(
            f"Expected an intact image file, got a damaged one ({reason}). Copy it again."
        ) from error


def orientation(path: str | PathLike[str]) -> int:
    """The orientation that a photo file asks for, 1 to 8 (EXIF and TIFF 6.0, tag 274); 1 where it does not say.

    `upright` undoes it, for programs that show the pixels as they are stored. A file that cannot be read, or is no
    image, asks for none: it is refused where it is read.
    """
    try:
        with warnings.catch_warnings(), _opened(Path(path)) as file:
            warnings.simplefilter("ignore")
            is_tiff = file.read(4) in _TIFF_MAGIC
            file.seek(0)
            if is_tiff:
                with tifffile.TiffFile(file) as tiff:
                    return _orientation_of_page(tiff.pages.first)
            with Image.open(file) as image:
                return _orientation(image, [])
    except Exception:  # noqa: BLE001 (decoders meet damage with every kind of exception)
        return 1


def upright(pixels: Pixels, orientation: int) -> Pixels:
    """A view of (H, W) or (H, W, C) *pixels* as stored, with their *orientation* undone; 1 changes nothing."""
    if orientation in (5, 6, 7, 8):
        pixels = pixels.swapaxes(0, 1)
    row_step = -1 if orientation in (3, 4, 7, 8) else 1
    column_step = -1 if orientation in (2, 3, 6, 7) else 1
    return pixels[::row_step, ::column_step]


def georeference_in(path: Path, shape: tuple[int, int] | None = None) -> Georeference | None:
    """The place on earth of a GeoTIFF photo, upright as `decode_file` gives it; None where the file does not say.

    Where a *shape* is given, (H, W), the file has to hold a photo of that shape: else it is the place of another.
    """
    try:
        with _opened(path) as file, tifffile.TiffFile(file) as tiff:
            page = tiff.pages.first
            found = Georeference.from_tags(
                {tag.code: tag.value for tag in page.tags if tag.code in TAGS}
            )
            if found is None:
                return None
            asked = _orientation_of_page(page)
            sides = (page.imagelength, page.imagewidth)
            rows, columns = sides[::-1] if asked in (5, 6, 7, 8) else sides
            is_another = shape is not None and shape != (rows, columns)
            return None if is_another else found.turned(asked, rows, columns)
    except Exception:  # noqa: BLE001 (a file that is no TIFF says nothing; a damaged one is refused where it is read)
        return None


def is_shown_otherwise(path: str | PathLike[str]) -> bool:
    """Whether imageio, with which napari opens photos, gives other pixels of a photo file than `decode_file`.

    It leaves photos lying on their side, takes CMYK for RGB with transparency, leaves inverted and other colours of a
    TIFF as they are stored, and halves the depth of 16-bit colour in PNG. Only the head of the file is looked at.
    """
    if orientation(path) != 1:
        return True
    try:
        with warnings.catch_warnings(), Path(path).open("rb") as file:
            warnings.simplefilter("ignore")
            is_tiff = file.read(4) in _TIFF_MAGIC
            file.seek(0)
            if is_tiff:
                with tifffile.TiffFile(file) as tiff:
                    return tiff.pages.first.photometric not in _AS_STORED
            with Image.open(file) as image:
                is_deep = (
                    image.format == "PNG"
                    and image.mode.startswith("RGB")
                    and _png_depth(file) == 16
                )
                return is_deep or image.mode == "CMYK"
    except Exception:  # noqa: BLE001 (decoders meet damage with every kind of exception)
        return False


def decode_pages(path: Path, notes: list[str]) -> Pixels:
    """(H, W) or (H, W, C) pixels of the photo file *path*; of several pages in colour (T, H, W, C), all upright.

    Raises
    ------
    PhotoError
        As `decode_file`, but for several pages of one size in one TIFF.
    """
    pages = _colour_pages(path)
    return decode_file(path, notes)[0] if pages is None else pages


def _colour_pages(path: Path) -> Pixels | None:
    """(T, H, W, C) pixels of the TIFF *path*; None if it is none, or has one page, or others than in colour."""
    try:
        with tifffile.TiffFile(path) as tiff:
            series, page = tiff.series[0], tiff.series[0].keyframe
            is_colour = page.photometric == tifffile.PHOTOMETRIC.RGB and page.samplesperpixel in (
                3,
                4,
            )
            if not is_colour or len(series.shape) != 4:
                return None
            _refuse_large(page.imagewidth, page.imagelength * series.size // page.size)
            stored = series.asarray()
            asked = _orientation_of_page(page)
    except PhotoError:
        raise
    except Exception:  # noqa: BLE001 (no TIFF, or a damaged one: decode_file finds the words)
        return None
    channels_last = (
        stored if series.axes.endswith("S") else np.moveaxis(stored, series.axes.index("S"), -1)
    )
    return np.moveaxis(upright(np.moveaxis(channels_last, 0, -1), asked), -1, 0)


def camera_named_in(path: Path) -> tuple[str, str]:
    """Make and model of the camera that a file names (EXIF, TIFF); empty where it does not say, or is no image."""
    try:
        with warnings.catch_warnings(), _opened(path) as file, Image.open(file) as image:
            warnings.simplefilter("ignore")
            tags = image.getexif()
            make, model = (
                str(tags.get(tag, "")).strip("\0 ")
                for tag in (ExifTags.Base.Make, ExifTags.Base.Model)
            )
            return make, model
    except Exception:  # noqa: BLE001 (a hint: a file that cannot be read is refused where it is read)
        return "", ""


def _opened(path: Path) -> io.BufferedReader:
    """The file, open for reading. A pipe would wait for a writer and a device may never end: they are refused first."""
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise PhotoError(
            "Expected an image file, got a pipe or a device. Copy its contents into a file first."
        )
    return path.open("rb")


def _decode_image(file: BinaryIO, notes: list[str]) -> Pixels:
    file.seek(0)
    image = Image.open(file)
    _refuse_large(*image.size)
    pages = getattr(image, "n_frames", 1)
    if pages > 1 and image.format != "MPO":  # a JPEG of a phone, whose other pages are previews
        raise _several(f"{pages} pages")
    notes += _profile_notes(image.info.get("icc_profile"))
    asked = _orientation(image, notes)
    if (
        image.format == "PNG" and _png_depth(file) == 16
    ):  # Pillow keeps only the upper 8 bits of 16-bit colour
        file.seek(0)
        return upright(imagecodecs.png_decode(file.read()), asked)
    return upright(_pixels_of(_in_plain_mode(image, notes)), asked)


def _decode_tiff(file: BinaryIO, notes: list[str]) -> Pixels:
    file.seek(0)
    with tifffile.TiffFile(file) as tiff:
        images = [series for series in tiff.series if not series.keyframe.is_reduced]
        if len(images) != 1:
            raise _several(f"{len(images)} images")
        series, page = images[0], images[0].keyframe
        declared = (tiff.imagej_metadata or {}).get("images", 1)
        if declared > 1 and series.axes in (
            "YX",
            "YXS",
        ):  # tifffile tells its log only that pages are missing
            raise EOFError(f"{declared} pages declared, 1 found")
        grey = (tifffile.PHOTOMETRIC.MINISBLACK, tifffile.PHOTOMETRIC.MINISWHITE)
        if page.photometric not in (*grey, tifffile.PHOTOMETRIC.RGB):
            return _decode_image(file, notes)
        is_planar = _is_planar_tiff(series)
        _refuse_large(page.imagewidth, page.imagelength)
        pixels = np.moveaxis(series.asarray(), 0, -1) if is_planar else series.asarray()
        if page.photometric == tifffile.PHOTOMETRIC.MINISWHITE:
            pixels = np.invert(pixels)
        notes += _profile_notes(page.tags.valueof("InterColorProfile"))
        return upright(pixels, _orientation_of_page(page))


def _is_planar_tiff(series: tifffile.TiffPageSeries) -> bool:
    """Whether channels come first: in samples, or as three pages that nothing calls slices or times."""
    if series.axes in ("YX", "YXS"):
        return False
    if series.axes == "SYX" or (series.axes in ("CYX", "QYX") and series.shape[0] == 3):
        return True
    raise _several(f"a stack of shape {series.shape}")


def _several(got: str) -> PhotoError:
    return PhotoError(
        f"Expected one image, got {got}. Save the page that you want as a file of its own."
    )


def _too_large() -> PhotoError:
    return PhotoError(
        f"Expected at most {_MAX_PIXELS:,} pixels, got more. Crop the photo, or pass it as an array."
    )


def _refuse_large(columns: int, rows: int) -> None:
    if columns * rows > _MAX_PIXELS:
        raise _too_large()


def _orientation_of_page(page: tifffile.TiffPage) -> int:
    value = page.tags.valueof("Orientation", 1)
    return int(value) if value in _ORIENTATIONS else 1


def _orientation(image: Image.Image, notes: list[str]) -> int:
    if image.format == "TIFF":  # Pillow turns it upright by itself
        return 1
    try:
        value = int(image.getexif().get(ExifTags.Base.Orientation, 1))
        return value if value in _ORIENTATIONS else 1
    except (SyntaxError, ValueError, TypeError):
        notes.append("The file's EXIF data is damaged: no orientation was applied.")
        return 1


def _png_depth(file: BinaryIO) -> int:
    file.seek(24)
    return file.read(1)[0]


def _profile_notes(profile: bytes | None) -> list[str]:
    if not profile:
        return []
    try:
        name = ImageCms.getProfileDescription(ImageCms.ImageCmsProfile(io.BytesIO(profile))).strip()
    except (ImageCms.PyCMSError, OSError):
        name = "unreadable"
    if "srgb" in name.lower() and "linear" not in name.lower():
        return []
    return [
        f"The file's colour profile ({name[:60]}) is ignored: its values are taken as they are stored."
    ]


def _in_plain_mode(image: Image.Image, notes: list[str]) -> Image.Image:
    if image.mode in ("L", "LA", "RGB", "RGBA", "I", "F") or image.mode.startswith("I;16"):
        return image
    if image.mode == "1":
        return image.convert("L")
    if image.mode not in ("P", "PA"):
        notes.append(f"Converted from {image.mode} to RGB without its colour profile.")
    return image.convert("RGBA" if image.has_transparency_data else "RGB")


def _pixels_of(image: Image.Image) -> Pixels:
    """The pixels of a Pillow image, copied in strips: its own export would hold two more copies at once."""
    image.load()
    columns, rows = image.size
    first = np.asarray(image.crop((0, 0, 1, 1)))
    pixels = np.empty((rows, columns, *first.shape[2:]), first.dtype)
    for top in range(0, rows, _STRIP):
        bottom = min(top + _STRIP, rows)
        pixels[top:bottom] = np.asarray(image.crop((0, top, columns, bottom)))
    return pixels
