"""HEIC photos, decoded by libheif in a separate process (`sandbox`).

pillow-heif (BSD-3-Clause) brings libheif and libde265 (LGPL 3.0). Its wheels also contain the
encoder x265 (GPL 2.0), which is not used here.

Letters: H rows, W columns.
"""

import base64
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from napari_mst.base import sandbox
from napari_mst.base.arrays import Array
from napari_mst.base.errors import PhotoError
from napari_mst.base.sandbox import SandboxAnswer
from napari_mst.photo.profiles import ColourSpace, of_coding, of_profile
from napari_mst.photo.raw import check_size

HEIF_SUFFIXES = (".heic", ".heif", ".hif")
_BRANDS = {b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"}
_OTHER_CODEC = {b"avif", b"avis"}
_HEAD = 64  # bytes that contain the brands
# Memory per pixel: its decoded samples, its colours, and its colours in 16 bits.
_PIXEL_BYTES = 32


def is_heif(file: BinaryIO) -> bool:
    """True if *file* is a HEIC photo; rewinds the file."""
    file.seek(0)
    head = file.read(_HEAD)
    file.seek(0)
    if head[4:8] != b"ftyp":
        return False
    length = int.from_bytes(head[:4])
    brands = {head[at : at + 4] for at in (8, *range(16, min(length, _HEAD), 4))}
    return bool(brands & _BRANDS) and not brands & _OTHER_CODEC


def decode_heif(path: Path, notes: list[str]) -> tuple[Array, ColourSpace | None]:
    """The upright pixels, (H, W, 3 or 4) or (H, W), of a HEIC photo, and their colour space.

    The pixels are uint8, or uint16 if the file has more than 8 bits.

    Raises
    ------
    PhotoError
        If pillow-heif is not installed, or the file is damaged or too large.
    """
    if find_spec("pillow_heif") is None:
        raise PhotoError(
            "Expected pillow-heif, which reads HEIC photos, got no such package. "
            "Install it: pip install pillow-heif; or save the photo as JPEG."
        )
    facts, pixels = sandbox.decoded("napari_mst.photo.heif:decoded", path, (), _refusal)
    if facts["others"]:
        notes.append(f"The file holds {facts['others']} more images: its main one was taken.")
    profile = base64.b64decode(facts["profile"])
    if profile:
        return pixels, of_profile(profile)
    return pixels, of_coding(*facts["coding"]) if facts["coding"] else None


def decoded(path: Path) -> SandboxAnswer:
    """The facts of a HEIC photo and its pixels: the part of `decode_heif` in libheif."""
    import pillow_heif

    sandbox.limit_memory(sandbox.ROOM_BYTES)
    try:
        file = pillow_heif.open_heif(path, convert_hdr_to_8bit=False)
        image = file[file.primary_index]
        columns, rows = image.size
        check_size(columns, rows)
        sandbox.limit_memory(sandbox.ROOM_BYTES + _PIXEL_BYTES * columns * rows)
        info: dict[str, Any] = dict(image.info)
        pixels: Array = np.ascontiguousarray(image)
    except MemoryError as error:
        if sandbox.is_limited_from_outside():
            raise
        raise _refusal("one that asks for more memory than its pixels need", "") from error
    except (EOFError, OSError, RuntimeError, SyntaxError, ValueError) as error:
        raise PhotoError(
            f"Expected an intact HEIC photo, got a damaged one ({str(error)[:80]}). Copy it again."
        ) from error
    if pixels.dtype == np.uint16:
        # libheif shifts its values to the left: white in 10 bits is 65472.
        empty = 16 - info["bit_depth"]
        pixels = np.rint((pixels >> empty) * (65535 / (65535 >> empty))).astype(np.uint16)
    coding = info.get("nclx_profile") or {}
    numbers = [coding[name] for name in ("color_primaries", "transfer_characteristics") if coding]
    facts = {
        "shape": pixels.shape,
        "dtype": pixels.dtype.str,
        "profile": base64.b64encode(info.get("icc_profile") or b"").decode(),
        "coding": numbers,
        "others": len(file) - 1,
    }
    return facts, (pixels,)


def _refusal(got: str, advice: str) -> PhotoError:
    return PhotoError(f"Expected a HEIC photo, got {got}. {advice or 'Copy it again.'}")
