"""Pictures as PNG and TIFF files with their colour profile, saved crash-safe.

Letters: H rows, W columns.
"""

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from napari_mst import crash_safe
from napari_mst.arrays import Codes
from napari_mst.errors import SaveError, shown

KINDS = {".png": "png", ".tif": "tiff", ".tiff": "tiff"}
"""Suffix -> Pillow's name of the format."""

_FACTS = "napari_mst"
_DATE = slice(24, 36)  # bytes of the date in the header of a profile: ICC.1:2022, 7.2


def check_picture_target(path: Path, *, overwrite: bool = False) -> None:
    """Refuse now what `write_picture` would refuse later. Raises `SaveError`."""
    if path.suffix.lower() not in KINDS:
        raise SaveError(
            f"Expected a file name ending in {', '.join(KINDS)}, got {shown(path.name)!r}. "
            "Choose one of them."
        )
    crash_safe.check_targets([path], overwrite=overwrite)


def write_picture(
    path: Path,
    picture: Codes,
    title: str,
    facts: Mapping[str, Any],
    *,
    overwrite: bool = False,
) -> Path:
    """Save an sRGB *picture* (H, W, 3), or (H, W, 4) with alpha, and return its path.

    The file holds the sRGB profile, *title*, and *facts* as JSON. The same picture gives the same
    bytes.

    Raises
    ------
    SaveError
        If the suffix is none of `KINDS`, the target exists (without *overwrite*), or the disk is
        full.
    """
    from PIL.Image import fromarray  # slow to import: only for pictures
    from PIL.PngImagePlugin import PngInfo

    check_picture_target(path, overwrite=overwrite)
    kind = KINDS[path.suffix.lower()]
    about: dict[str, Any]
    if kind == "png":
        texts = PngInfo()
        texts.add_text("Title", title)
        texts.add_text(_FACTS, json.dumps(facts))
        about = {"pnginfo": texts}
    else:
        # Tags of TIFF are ASCII, and so is our JSON.
        text = json.dumps({"title": title, _FACTS: facts})
        about = {"compression": "tiff_deflate", "description": text}
    needed = picture.size + 2**16
    with crash_safe.saving(path, needed=needed, overwrite=overwrite) as (temporary,):
        fromarray(picture).save(temporary, format=kind, icc_profile=srgb_profile(), **about)
    return path


@functools.cache
def srgb_profile() -> bytes:
    """The ICC profile of sRGB, the same bytes on every day."""
    from PIL import ImageCms

    profile = bytearray(ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())
    # The library notes when it made the profile, so that no two files would be equal.
    profile[_DATE] = bytes(len(profile[_DATE]))
    return bytes(profile)
