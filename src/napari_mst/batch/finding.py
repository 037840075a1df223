"""The photos that a person names: files, folders with all folders in them, and patterns."""

import glob
import os
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path

from napari_mst.errors import NapariMstError, PhotoError, shown
from napari_mst.formats import FORMATS, read_cube
from napari_mst.photo.raw_header import RAW_SUFFIXES

PHOTO_SUFFIXES = (
    *(".bmp", ".jp2", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"),
    *RAW_SUFFIXES,
)
"""Files with these suffixes are taken from a folder; a file that is named itself may have any."""

FOLDERS = tuple(suffix for form in FORMATS if form.is_folder for suffix in form.suffixes)
"""A folder with one of these suffixes is a cube, not a place for several."""

Tell = Callable[[str], None]
"""Prints one line for the user."""


FoundPhoto = tuple[Path, Path]
"""A photo, and the folder that was searched for it; of a named file the folder that it is in."""


def find_photos(named: Iterable[Path], output: Path, tell: Tell) -> list[FoundPhoto]:
    """The photos that files, folders and patterns name, each of them once.

    Folders are searched with all folders in them for files that look like photos. Cubes of ours and
    everything in the folder *output* are left out; *tell* prints how many files were left alone.

    Raises
    ------
    PhotoError
        If a folder has no photos or cannot be read, or nothing fits a pattern.
    """
    photos: dict[Path, FoundPhoto] = {}
    for path in chain.from_iterable(map(_expanded, named)):
        # Path.is_dir raises where a name is too long.
        is_folder = os.path.isdir(path)  # noqa: PTH112
        folder = path if is_folder else path.parent
        for photo in _photos_in(path, output, tell) if is_folder else [path]:
            photos.setdefault(absolute(photo), (photo, folder))
    return list(photos.values())


def absolute(path: Path) -> Path:
    """*path* from the root and without "..", but through the links that were named."""
    return Path(os.path.abspath(path))  # noqa: PTH100 (resolve follows links)


def _expanded(pattern: Path) -> list[Path]:
    """The paths that fit a pattern, in order; any other path as it is."""
    # A file may have a name that looks like a pattern, as "a[1].png".
    if os.path.lexists(pattern) or not glob.has_magic(str(pattern)):
        return [pattern]
    paths = sorted(glob.glob(str(pattern), recursive=True))  # noqa: PTH207 (of any folder)
    if not paths:
        raise PhotoError(
            f"Expected files like {shown(pattern)}, got none. Check the folder and the pattern."
        )
    return [Path(path) for path in paths]


def _photos_in(folder: Path, output: Path, tell: Tell) -> list[Path]:
    """The photos below *folder*, in order.

    Hidden files, cubes that are folders, and what is in *output* are left out.
    """
    files: list[Path] = []
    for parent, folders, names in os.walk(folder, onerror=_refuse):
        # os.walk searches the folders that stay in this very list.
        folders[:] = sorted(name for name in folders if _is_searched(Path(parent, name), output))
        files += (Path(parent, name) for name in sorted(names) if not name.startswith("."))
    photos = list(filter(_is_photo, files))
    if not photos:
        raise PhotoError(
            f"Expected photos in the folder {shown(folder)}, got none. Choose another."
        )
    others = len(files) - len(photos)
    if others:
        tell(f"note: {shown(folder)}: {others} files that are no photos are left alone")
    return photos


def _is_searched(folder: Path, output: Path) -> bool:
    is_output = absolute(folder) == absolute(output)
    is_hidden = folder.name.startswith(".")
    is_cube = folder.suffix.lower() in FOLDERS
    return not (is_output or is_hidden or is_cube)


def _refuse(error: OSError) -> None:
    reason = shown(error.strerror or error, 80)
    raise PhotoError(
        f"Expected a folder of photos, got {shown(error.filename)}: {reason}. Check it."
    ) from error


def _is_photo(file: Path) -> bool:
    """True if the name is that of a photo; a TIFF may be a cube of ours, too."""
    suffix = file.suffix.lower()
    if suffix not in (".tif", ".tiff"):
        return suffix in PHOTO_SUFFIXES
    try:
        return not read_cube(file).provenance.model
    except NapariMstError:
        return True
