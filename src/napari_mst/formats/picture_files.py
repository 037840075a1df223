"""PNG pictures with a colour profile, saved crash-safe.

Letters: H rows, W columns.
"""

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from napari_mst.base import atomic_save
from napari_mst.base.arrays import Codes
from napari_mst.base.errors import SaveError, shown

PICTURE = ".png"
"""Suffix of pictures."""

_FACTS = "napari_mst"
_DATE = slice(24, 36)  # bytes of the date in the header of an ICC profile: ICC.1:2022, 7.2


def check_picture_target(path: Path, *, overwrite: bool = False) -> None:
    """Refuse a *path* that `write_picture` would refuse. Raises `SaveError`."""
    if path.suffix.lower() != PICTURE:
        raise SaveError(
            f"Expected a file name ending in {PICTURE}, got {shown(path.name)!r}. Choose another."
        )
    atomic_save.check_targets([path], overwrite=overwrite)


def write_picture(
    path: Path,
    picture: Codes,
    title: str,
    facts: Mapping[str, Any],
    *,
    overwrite: bool = False,
) -> Path:
    """Save an sRGB *picture* (H, W, 3), or (H, W, 4) with alpha, and return its path.

    The file holds the sRGB profile, *title*, and *facts* as JSON. Equal pictures give equal files.

    Raises
    ------
    SaveError
        If the suffix is not `PICTURE`, it exists (without *overwrite*), or the disk is full.
    """
    from PIL.Image import fromarray  # slow to import: only for pictures
    from PIL.PngImagePlugin import PngInfo

    check_picture_target(path, overwrite=overwrite)
    texts = PngInfo()
    texts.add_text("Title", title)
    texts.add_text(_FACTS, json.dumps(facts))
    needed = picture.size + 2**16
    with atomic_save.saving(path, needed=needed, overwrite=overwrite) as (temporary,):
        fromarray(picture).save(temporary, "png", icc_profile=srgb_profile(), pnginfo=texts)
    return path


@functools.cache
def srgb_profile() -> bytes:
    """The ICC profile of sRGB, with the same bytes every day."""
    from PIL import ImageCms

    profile = bytearray(ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())
    # The library stores the current time in the profile, which would make all files differ.
    profile[_DATE] = bytes(len(profile[_DATE]))
    return bytes(profile)
