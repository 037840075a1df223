"""The head of a RAW file: which files are RAW photos, and which camera they name.

A RAW file holds small pictures for a quick look as well, in formats that other decoders take for
the photo. So every path that reads photos asks `is_raw` first. The marks of the formats are those
of TIFF 6.0, Adobe's DNG 1.7.1 and, for Canon's CR3 and Fujifilm's RAF, of LibRaw 0.22.
"""

import io
import warnings
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from napari_mst.errors import PhotoError

if TYPE_CHECKING:
    from tifffile import TiffPage

RAW_SUFFIXES = (
    ".dng",
    ".nef",
    ".nrw",
    ".cr2",
    ".cr3",
    ".arw",
    ".raf",
    ".rw2",
    ".orf",
    ".pef",
    ".srw",
    ".rwl",
    ".3fr",
    ".iiq",
)
"""A file with one of these suffixes is a RAW photo, or damaged."""

_HEAD = 1 << 16  # bytes within which CR3 and TIFF-like files name their camera
_RAF = b"FUJIFILMCCD-RAW"
_RAF_MODEL = slice(28, 60)
_CR3 = (slice(4, 12), b"ftypcrx ")
_CR3_CAMERA = b"CMT1"  # the box whose contents are a TIFF with make and model
_CR2 = (slice(8, 10), b"CR")
_TIFF_LIKE = (b"IIRO", b"IIRS", b"MMOR", b"IIU\0")  # Olympus and Panasonic
TIFF_MARKS = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")

_MAKE, _MODEL, _DNG_VERSION = 271, 272, 50706
_CFA_DIMENSIONS, _CFA_PATTERN = 33421, 33422
_WHITE_LEVEL = 50717
_FULL_SCALE = 65535  # the highest that LibRaw counts; it would take it for a level beyond
_CFA, _LINEAR_RAW = 32803, 34892  # kinds of colour (tag 262)
_PAGES = 8  # that are looked at: RAW files have up to six, stacks of other programs thousands

_SENSORS = ((2, 2), (6, 6))  # Bayer's and Fujifilm's X-Trans
_RED_GREEN_BLUE = {0, 1, 2}


def is_raw_file(path: Path) -> bool:
    """True if *path* is a RAW photo, by its suffix or its contents; False if it is not there."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return is_raw(path.suffix, file)
    except OSError:
        return False


def is_raw(suffix: str, file: BinaryIO) -> bool:
    """True if *file*, whose name ends in *suffix*, is a RAW photo; it is left at its beginning."""
    file.seek(0)
    head = file.read(64)
    file.seek(0)
    if suffix.lower() in RAW_SUFFIXES or head.startswith((_RAF, *_TIFF_LIKE)):
        return True
    if any(head[where] == mark for where, mark in (_CR3, _CR2)):
        return True
    return head.startswith(TIFF_MARKS) and _has_raw_page(file)


def camera_in_raw(path: Path) -> tuple[str, str]:
    """Make and model of the camera of a RAW photo; empty where it does not say, or is damaged."""
    with path.open("rb") as file:
        head = file.read(_HEAD)
        if head.startswith(_RAF):
            return "FUJIFILM", _text(head[_RAF_MODEL])
        if head[_CR3[0]] == _CR3[1]:
            start = head.find(_CR3_CAMERA) + len(_CR3_CAMERA)
            return _camera_in_tiff(io.BytesIO(head[start:]))
        return _camera_in_tiff(file)


def check_raw(file: BinaryIO) -> None:
    """Refuse a TIFF-like RAW photo of which LibRaw would guess something.

    It prints to the terminal that a file ends early, takes an unknown pattern of colours for
    another, and an impossible white level for full scale.

    Raises
    ------
    PhotoError
        If the file is cut off, its colour filters are neither Bayer's nor X-Trans, or its white
        level is above 65535.
    """
    file.seek(0, io.SEEK_END)
    size = file.tell()
    try:
        pages = list(_pages(file))
    except Exception:  # noqa: BLE001 (no TIFF, or a head so damaged that LibRaw has to judge)
        return
    for page in pages:
        _check_page(page, size)


def _check_page(page: "TiffPage", size: int) -> None:
    ends = [at + count for at, count in zip(page.dataoffsets, page.databytecounts, strict=False)]
    needed = max(ends, default=0)
    if needed > size:
        raise PhotoError(
            f"Expected an intact RAW file of {needed:,} bytes, got {size:,}: it is cut off. "
            "Copy it again."
        )
    white = np.max(page.tags.valueof(_WHITE_LEVEL, 0))
    if white > _FULL_SCALE:
        raise PhotoError(
            f"Expected a white level up to {_FULL_SCALE}, got {white}. Convert the file again."
        )
    if page.photometric != _CFA:
        return
    dimensions = tuple(page.tags.valueof(_CFA_DIMENSIONS, (2, 2)))
    colours = set(page.tags.valueof(_CFA_PATTERN, b"") or ())
    if dimensions not in _SENSORS or not colours <= _RED_GREEN_BLUE:
        rows, columns = dimensions
        raise PhotoError(
            "Expected a sensor with a Bayer or X-Trans pattern of red, green and blue, got another "
            f"pattern of {rows} x {columns}. Convert the file to a linear DNG."
        )


def _has_raw_page(file: BinaryIO) -> bool:
    try:
        return any(_is_raw_page(page) for page in _pages(file))
    except Exception:  # noqa: BLE001 (a damaged TIFF is refused where it is read)
        return False
    finally:
        file.seek(0)


def _is_raw_page(page: "TiffPage") -> bool:
    return page.photometric in (_CFA, _LINEAR_RAW) or _DNG_VERSION in page.tags


def _pages(file: BinaryIO) -> Iterator["TiffPage"]:
    """The first pages of a TIFF-like file, each with the pages below it."""
    import tifffile

    file.seek(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with tifffile.TiffFile(file) as tiff:
            for page in islice(tiff.pages, _PAGES):
                whole = page.aspage()
                yield whole
                yield from (below.aspage() for below in islice(whole.pages or (), _PAGES))


def _camera_in_tiff(file: BinaryIO) -> tuple[str, str]:
    try:
        first = next(_pages(file))
    except Exception:  # noqa: BLE001 (a mere hint: a damaged file is refused where it is read)
        return "", ""
    make, model = (str(first.tags.valueof(tag, "")) for tag in (_MAKE, _MODEL))
    return make.strip("\0 "), model.strip("\0 ")


def _text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode("ascii", "replace").strip()
