"""Cube files: one row of `FORMATS` a format, `read_cube` and `write_cube` over all of them.

What a reader had to assume or ignore it says in `cube.metadata["warnings"]`, a tuple of sentences for a person to read;
the key is absent if there was nothing, and writers leave it out.
"""

import errno
from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from os import PathLike
from pathlib import Path
from typing import Any

from napari_mst import crash_safe
from napari_mst.cube import SpectralCube
from napari_mst.errors import CubeError, CubeFileError, OutOfMemory, SaveError
from napari_mst.formats import folder, npz
from napari_mst.formats.envi import reading as envi
from napari_mst.formats.matlab import reading as matlab
from napari_mst.formats.tiff import reading as tiff
from napari_mst.formats.zarr import reading as zarr
from napari_mst.messages import out_of_memory, shown
from napari_mst.watch import Progress, Watch

__all__ = [
    "FORMATS",
    "Format",
    "check_target",
    "find_format",
    "is_own_cube",
    "read_cube",
    "write_cube",
]


def _itself(path: Path) -> tuple[Path]:
    return (path,)


def _never(_: Path) -> bool:
    return False


def _read_only(path: Path, *_: Any, **__: Any) -> Path:
    raise SaveError(
        f"Expected a format that can be written, got {shown(path.name)}. Choose another suffix."
    )


@dataclass(frozen=True)
class Format:
    """One kind of cube file. Its functions import what they need when they are called.

    Attributes
    ----------
    name, title
        For the command line and for a person.
    suffixes
        Lower case, with the dot: what may be written; the first is the default. None if it is only read.
    more_suffixes
        What may be read besides.
    is_mine
        Whether a file is of this kind, by its contents.
    is_own
        Whether a file of this kind is a cube that we saved, by its description alone: its numbers are not read.
    read, write
        `read(path, **options)` and `write(path, cube, overwrite=..., watch=..., **options)`.
    targets
        The files that saving to a path writes; the last is the one to open.
    is_folder
        Whether a cube is a folder rather than a file.
    """

    name: str
    title: str
    suffixes: tuple[str, ...]
    more_suffixes: tuple[str, ...]
    is_mine: Callable[[Path], bool]
    read: Callable[..., SpectralCube]
    write: Callable[..., Path] = _read_only
    targets: Callable[[Path], tuple[Path, ...]] = _itself
    is_folder: bool = False
    is_own: Callable[[Path], bool] = _never


FORMATS: tuple[Format, ...] = (
    Format(
        name="tiff",
        title="TIFF",
        suffixes=(".tif", ".tiff"),
        more_suffixes=(),
        is_mine=tiff.is_tiff,
        read=tiff.read_tiff,
        write=tiff.write_tiff,
        is_own=tiff.is_own_tiff,
    ),
    Format(
        name="npz",
        title="NumPy archive",
        suffixes=(".npz",),
        more_suffixes=(),
        is_mine=npz.is_npz,
        read=npz.read_npz,
        write=npz.write_npz,
        is_own=npz.is_own_npz,
    ),
    Format(
        name="matlab",
        title="MATLAB 7.3",
        suffixes=(".mat",),
        more_suffixes=(),
        is_mine=matlab.is_matlab,
        read=matlab.read_matlab,
        write=matlab.write_matlab,
    ),
    Format(
        name="zarr",
        title="OME-Zarr",
        suffixes=(".zarr",),
        more_suffixes=(),
        is_mine=zarr.is_zarr,
        read=zarr.read_zarr,
        write=zarr.write_zarr,
        is_own=zarr.is_own_zarr,
        is_folder=True,
    ),
    Format(
        name="folder",
        title="Folder of band images",
        suffixes=(),
        more_suffixes=(),
        is_mine=folder.is_folder_of_bands,
        read=folder.read_folder,
        is_folder=True,
    ),
    Format(
        name="envi",
        title="ENVI raster",
        suffixes=(".hdr", ".img"),
        more_suffixes=envi.DATA_SUFFIXES,
        is_mine=envi.is_envi,
        read=envi.read_envi,
        write=envi.write_envi,
        targets=envi.targets,
    ),
)
"""In the order of asking: ENVI data have no mark of their own, only a header beside them, so they come last."""


def find_format(path: str | PathLike[str]) -> Format | None:
    """The format of the file at *path* by its contents, or None if it is none of ours or cannot be read."""
    path = Path(path)
    try:
        if not _can_be_opened(path):
            return None
        is_folder = path.is_dir()
        return next((f for f in FORMATS if f.is_folder == is_folder and f.is_mine(path)), None)
    except OSError:
        return None


def is_own_cube(path: str | PathLike[str]) -> bool:
    """Whether the file at *path* is a cube that we saved as TIFF, npz or Zarr, which other programs open too.

    Only its description is looked at; a damaged one says no.
    """
    path = Path(path)
    form = find_format(path)
    try:
        return form is not None and form.is_own(path)
    except (CubeFileError, OSError, ValueError, AttributeError):
        return False


def read_cube(path: str | PathLike[str], **options: Any) -> SpectralCube:
    """The spectral cube in the file at *path*; *options* are those of its format's reader.

    Raises
    ------
    CubeFileError
        If there is no such file, or it is damaged or not a cube.
    OutOfMemory
        If it does not fit into memory.
    """
    path = Path(path)
    form = _reader(path)
    if unknown := ", ".join(options.keys() - signature(form.read).parameters.keys()):
        raise CubeFileError(
            f"Expected options of {form.title} files, got {shown(unknown)}. Leave them out."
        )
    try:
        return form.read(path, **options)
    except (CubeFileError, OutOfMemory):
        raise
    except OSError as error:
        if error.errno == errno.ENOMEM:
            raise out_of_memory(path.name) from error
        reason = shown(error.strerror or error, 80)
        raise CubeFileError(
            f"Expected {shown(path.name)} to be readable, got: {reason}. Check the file."
        ) from error
    except CubeError as error:
        raise CubeFileError(f"Expected a cube in {shown(path.name)}, got none. {error}") from error
    except MemoryError as error:
        raise out_of_memory(path.name) from error


def write_cube(
    path: str | PathLike[str],
    cube: SpectralCube,
    *,
    overwrite: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> Path:
    """Save *cube* in the format of the suffix of *path*, crash-safe, and return the file to open.

    Raises
    ------
    SaveError
        If the suffix is unknown, the target exists (without *overwrite*), the disk is full, or the numbers cannot be
        stored without loss. What was there before is intact.
    """
    path = Path(path)
    return _writer(path).write(path, cube, overwrite=overwrite, watch=Watch(progress), **options)


def check_target(path: str | PathLike[str], *, overwrite: bool = False) -> Path:
    """Refuse now what `write_cube` would refuse after a long computation; returns the file to open.

    Raises
    ------
    SaveError
        If the suffix is unknown, the target exists (without *overwrite*), or nothing can be written there.
    """
    path = Path(path)
    form = _writer(path)
    targets = form.targets(path)
    crash_safe.check_targets(targets, overwrite=overwrite, is_folder=form.is_folder)
    return targets[-1]


def _can_be_opened(path: Path) -> bool:
    """Whether *path* is a file or a folder. Reading from a pipe or a device may never end."""
    return path.is_file() or path.is_dir()


def _by_suffix(path: Path, *, reading: bool) -> Format | None:
    suffix = path.suffix.lower()
    forms = [form for form in FORMATS if form.is_folder] if reading and path.is_dir() else FORMATS
    return next(
        (f for f in forms if suffix in (*f.suffixes, *(f.more_suffixes if reading else ()))), None
    )


def _reader(path: Path) -> Format:
    if path.exists() and not _can_be_opened(path):
        raise CubeFileError(
            f"Expected a cube file, got a pipe or a device: {shown(path.name)}. Open another file."
        )
    form = find_format(path) or _by_suffix(path, reading=True)
    if form is None:
        kinds = ", ".join(suffix for form in FORMATS for suffix in form.suffixes)
        raise CubeFileError(
            f"Expected a cube file ({kinds}), got {shown(path.name)}. Open another file."
        )
    return form


def _writer(path: Path) -> Format:
    form = _by_suffix(path, reading=False)
    if form is None:
        kinds = ", ".join(suffix for form in FORMATS for suffix in form.suffixes)
        raise SaveError(
            f"Expected a file name ending in {kinds}, got {shown(path.name)!r}. Add one of them."
        )
    return form
