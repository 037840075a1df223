"""The head of a RAW file: recognises RAW photos, and reads the camera that they name.

A RAW file also contains small previews, which other decoders take for the photo, so every reader of
photos calls `is_raw` first. The marks of the formats come from TIFF 6.0, Adobe's DNG 1.7.1 and, for
Canon's CR3 and Fujifilm's RAF, LibRaw 0.22.
"""

import io
import math
import warnings
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from napari_mst.base.arrays import Doubles
from napari_mst.base.errors import PhotoError

if TYPE_CHECKING:
    from tifffile import TiffPage, TiffTags

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
"""Suffixes of RAW photos: any other content means damage."""

_HEAD = 1 << 16  # bytes within which CR3 and TIFF-like files name their camera
_RAF = b"FUJIFILMCCD-RAW"
_RAF_MODEL = slice(28, 60)
_CR3 = (slice(4, 12), b"ftypcrx ")
_CR3_CAMERA = b"CMT1"  # the box with a TIFF of make and model
_CR2 = (slice(8, 10), b"CR")
_TIFF_LIKE = (b"IIRO", b"IIRS", b"MMOR", b"IIU\0")  # Olympus and Panasonic
TIFF_MARKS = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")

_MAKE, _MODEL, _DNG_VERSION = 271, 272, 50706
_CFA_DIMENSIONS, _CFA_PATTERN = 33421, 33422
_WHITE_LEVEL = 50717
_ANALOG_BALANCE, _AS_SHOT_WHITE_XY = 50727, 50729
_CALIBRATIONS = ((50721, 50723, 50778), (50722, 50724, 50779))
"""ColorMatrix, CameraCalibration and CalibrationIlluminant of each of the two lights."""
_DAYLIGHT = 5500.0
_KELVINS = {
    2: 4200.0,
    3: 2850.0,
    9: 5500.0,
    10: 6500.0,
    11: 7500.0,
    12: 6430.0,
    13: 5000.0,
    14: 4150.0,
    15: 3525.0,
    17: 2856.0,
    18: 4874.0,
    19: 6774.0,
    20: 5503.0,
    21: 6504.0,
    22: 7504.0,
    23: 5003.0,
    24: 3200.0,
}
"""Colour temperatures of EXIF light sources (LightSource); others count as daylight."""
_FULL_SCALE = 65535  # LibRaw's full scale, which it would use in place of a higher white level
_CFA, _LINEAR_RAW = 32803, 34892  # kinds of colour (tag 262)
_PAGES = 8  # most pages looked at: RAW files have up to six, image stacks thousands

_SENSORS = ((2, 2), (6, 6))  # Bayer's and Fujifilm's X-Trans
_RED_GREEN_BLUE = {0, 1, 2}


def is_raw_file(path: Path) -> bool:
    """True if *path* is a RAW photo by its suffix or contents; False if it is missing."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return is_raw(path.suffix, file)
    except OSError:
        return False


def is_raw(suffix: str, file: BinaryIO) -> bool:
    """True if *file*, whose name ends in *suffix*, is a RAW photo; rewinds the file."""
    file.seek(0)
    head = file.read(64)
    file.seek(0)
    if suffix.lower() in RAW_SUFFIXES or head.startswith((_RAF, *_TIFF_LIKE)):
        return True
    if any(head[where] == mark for where, mark in (_CR3, _CR2)):
        return True
    return head.startswith(TIFF_MARKS) and _has_raw_page(file)


def camera_in_raw(path: Path) -> tuple[str, str]:
    """Make and model of the camera of a RAW photo; empty if missing or damaged."""
    with path.open("rb") as file:
        head = file.read(_HEAD)
        if head.startswith(_RAF):
            return "FUJIFILM", _text(head[_RAF_MODEL])
        if head[_CR3[0]] == _CR3[1]:
            start = head.find(_CR3_CAMERA) + len(_CR3_CAMERA)
            return _camera_in_tiff(io.BytesIO(head[start:]))
        return _camera_in_tiff(file)


def neutral_in_dng(path: Path) -> tuple[float, float, float] | None:
    """The sensor values, with green 1, of the white as shot that a DNG states as x and y.

    None if the file does not state it. Source: DNG 1.7.1, chapter 6, "Translating White Balance xy
    Coordinates to Camera Neutral Coordinates".
    """
    try:
        with path.open("rb") as file:
            pages = _pages(file)  # a dropped generator would close the file before tags are read
            tags = next(pages).tags
            x, y = _numbers(tags, _AS_SHOT_WHITE_XY, (2,))
            neutral = _camera_matrix(tags, x, y) @ (x / y, 1, (1 - x - y) / y)
        red, green, blue = (neutral / neutral[1]).round(6).tolist()
    except Exception:  # noqa: BLE001 (no DNG, or one that lacks or damages what is needed)
        return None
    is_light = all(0 < value < math.inf for value in (red, green, blue))
    return (red, green, blue) if is_light else None


def _camera_matrix(tags: "TiffTags", x: float, y: float) -> Doubles:
    """The (3, 3) matrix from XYZ to sensor values under a white of chromaticity *x*, *y*."""
    balance = np.eye(3)
    if _ANALOG_BALANCE in tags:
        balance = np.diag(_numbers(tags, _ANALOG_BALANCE, (3,)))
    matrices, warmths = [], []
    for colour, calibration, light in _CALIBRATIONS:
        if colour in tags:
            has_own = calibration in tags
            own = _numbers(tags, calibration, (3, 3)) if has_own else np.eye(3)
            matrices.append(own @ _numbers(tags, colour, (3, 3)))
            warmths.append(1 / _KELVINS.get(int(tags.valueof(light, 0)), _DAYLIGHT))
    if len(set(warmths)) < 2:
        return balance @ matrices[-1]
    # McCamy's colour temperature of the white; the specification interpolates its inverse.
    n = (x - 0.3320) / (0.1858 - y)
    warmth = 1 / (((449 * n + 3525) * n + 6823.3) * n + 5520.33)
    share = np.clip((warmth - warmths[1]) / (warmths[0] - warmths[1]), 0, 1)
    return balance @ (share * matrices[0] + (1 - share) * matrices[1])


def _numbers(tags: "TiffTags", code: int, shape: tuple[int, ...]) -> Doubles:
    """The fractions in the tag *code*."""
    pairs = np.reshape(tags[code].value, (-1, 2)).astype(np.float64)
    return (pairs[:, 0] / pairs[:, 1]).reshape(shape)


def check_raw(file: BinaryIO) -> None:
    """Refuse a TIFF-like RAW photo that LibRaw would misread.

    LibRaw only prints a message about a truncated file, replaces an unknown colour pattern by
    another pattern, and an impossible white level by full scale.

    Raises
    ------
    PhotoError
        If the file is truncated, its colour filters are neither Bayer nor X-Trans, or its white
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
        return any(
            page.photometric in (_CFA, _LINEAR_RAW) or _DNG_VERSION in page.tags
            for page in _pages(file)
        )
    except Exception:  # noqa: BLE001 (a damaged TIFF is refused where it is read)
        return False
    finally:
        file.seek(0)


def _pages(file: BinaryIO) -> Iterator["TiffPage"]:
    """The first pages of a TIFF-like file, each followed by its subpages."""
    import tifffile

    file.seek(0)
    with warnings.catch_warnings(action="ignore"), tifffile.TiffFile(file) as tiff:
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
