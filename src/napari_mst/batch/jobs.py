"""Many photos in one run: the cubes that they become, those that are there already, and who makes which.

Several runs over the same photos share the work. Before a run makes a cube it claims it, with a lock file beside it,
and leaves to the others what they have claimed. A claim ends with its process, in whatever way that ends: the next run
makes what a killed one has left.
"""

import glob
import hashlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from napari_mst.cube import Provenance
from napari_mst.errors import NapariMstError, PhotoError, SaveError
from napari_mst.formats import FORMATS, check_target, find_format, read_cube
from napari_mst.messages import shown
from napari_mst.watch import Watch

PHOTO_SUFFIXES = (".bmp", ".jp2", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")
"""Files of these names are taken from a folder; a file that is named itself may have any."""

FOLDERS = tuple(suffix for form in FORMATS if form.is_folder for suffix in form.suffixes)
"""A folder with one of these suffixes is a cube, not a place for several."""

SIDES = ("lower", "upper")
"""One side of the error band of a cube."""

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Found:
    """A photo, and the folder that was named for it: the one to search, or that of the file that was named."""

    photo: Path
    folder: Path


@dataclass(frozen=True)
class Job:
    """One photo and the files that it becomes: the cube *target*, and the lower and the upper of its error bands.

    *name* is what the photo is called in what is said of it: its path below the folder of all photos.
    """

    photo: Path
    target: Path
    name: str
    bands: tuple[Path, ...] = ()

    @property
    def outputs(self) -> tuple[Path, ...]:
        """All files to write, the cube first."""
        return (self.target, *self.bands)


def find_photos(named: Iterable[Path], output: Path, tell: Tell) -> list[Found]:
    """The photos that files, folders (with all folders in them) and patterns name, each of them once.

    Of a folder those files are taken that look like photos, but for cubes of ours, and nothing from the folder
    *output*; *tell* is told how many were left alone.

    Raises
    ------
    PhotoError
        If a folder has no photos or cannot be read, or nothing fits a pattern.
    """
    found: dict[Path, Found] = {}
    for path in (path for pattern in named for path in _expanded(pattern)):
        is_folder = os.path.isdir(path)  # noqa: PTH112 (Path.is_dir raises where a name is too long)
        for photo in _photos_in(path, output, tell) if is_folder else [path]:
            folder = path if is_folder else path.parent
            found.setdefault(_absolute(photo), Found(photo, folder))
    return list(found.values())


def plan_jobs(found: Sequence[Found], output: Path, suffix: str, with_bands: bool) -> list[Job]:
    """One job a photo: its cube lies below *output* as the photo lies below the folder that all photos share."""
    return [_job(one.photo, _below(one, found), output, suffix, with_bands) for one in found]


def band_targets(target: Path) -> tuple[Path, ...]:
    """The files of the lower and the upper error band of the cube *target*."""
    return tuple(target.with_name(f"{target.stem}_{side}{target.suffix}") for side in SIDES)


@contextmanager
def folders_for(jobs: Sequence[Job]) -> Iterator[None]:
    """The folders of the outputs, made where they are missing; those that stay empty go again.

    Raises
    ------
    SaveError
        If one cannot be made.
    """
    made: list[Path] = []
    try:
        for folder in sorted({job.target.parent for job in jobs}):
            made += _made(folder)
        yield
    finally:
        for folder in reversed(made):
            with suppress(OSError):
                folder.rmdir()


def check_names(jobs: Sequence[Job]) -> None:
    """Refuse photos that become one file. Raises `SaveError`."""
    first: dict[str, Job] = {}
    for job in jobs:
        other = first.setdefault(str(job.target).casefold(), job)
        if other is not job:
            names = f"{shown(other.photo.name)} and {shown(job.photo.name)}"
            raise SaveError(
                f"Expected photos of different names, got {names} for {shown(job.target.name)}. Rename one."
            )
    for band in (band for job in jobs for band in job.bands):
        if str(band).casefold() in first:
            raise SaveError(
                f"Expected another name for a photo, got that of the error band {shown(band.name)}. Rename."
            )


def check_outputs(job: Job, overwrite: bool, stay: Collection[Path] = ()) -> None:
    """Refuse what could not be saved, or would cost a file or the photo; those that *stay* may exist.

    Raises
    ------
    SaveError
        As `formats.check_target`; or if an output is the photo itself.
    """
    for path in job.outputs:
        check_target(path, overwrite=overwrite or path in stay)
        if _is_same_file(job.photo, path):
            raise SaveError(
                f"Expected a new name for the cube, got the photo {shown(job.photo.name)}. Choose another."
            )


def may_stay(job: Job) -> set[Path]:
    """The outputs that are cubes, or that an interrupted save may have left: `finished` looks into them."""
    return {path for path in job.outputs if find_format(path) or not path.exists()}


def is_there(path: Path) -> bool:
    """True if the cube *path*, or a part of it, exists."""
    forms = [form for form in FORMATS if path.suffix.lower() in form.suffixes]
    return any(os.path.lexists(target) for form in forms for target in form.targets(path))


def finished(job: Job, wanted: Callable[[str], Provenance]) -> set[Path]:
    """The outputs that are there, undamaged, and of this very run.

    *wanted* gives, for the sha256 of a photo, what is to be said of its cube.
    """
    there = {path for path in job.outputs if is_there(path)}
    if not there:
        return set()
    try:
        with job.photo.open("rb") as file:
            cube = wanted(hashlib.file_digest(file, "sha256").hexdigest())
    except OSError:
        return set()
    band = replace(cube, error_factor=0.0)
    parts = [
        (job.target, cube, ""),
        *((path, band, side) for path, side in zip(job.bands, SIDES, strict=False)),
    ]
    return {
        path for path, origin, side in parts if path in there and _is_cube_of(path, origin, side)
    }


@contextmanager
def claimed(job: Job, watch: Watch, *, waits: bool) -> Iterator[bool]:
    """Claim *job* for this run while the block lasts, and give whether it is ours: with *waits*, unless cancelled.

    Raises
    ------
    SaveError
        If the lock file cannot be made.
    """
    from filelock import FileLock, Timeout

    path = job.target.with_name(f".{job.target.name}.run")
    lock = FileLock(path)
    try:
        _made(job.target.parent)
        lock.acquire(timeout=-1 if waits else 0, cancel_check=watch.is_cancelled)
    except Timeout:
        yield False
        return
    except OSError as error:
        raise _not_saved(job.target, error) from error
    try:
        yield True
    finally:
        with suppress(OSError):
            path.unlink()
        lock.release()


def _expanded(pattern: Path) -> list[Path]:
    """The paths that a pattern names, in order, where the shell has left it to us; any other path as it is."""
    if os.path.lexists(pattern) or not glob.has_magic(str(pattern)):
        return [pattern]
    paths = sorted(glob.glob(str(pattern), recursive=True))  # noqa: PTH207 (of any folder, absolute or not)
    if not paths:
        raise PhotoError(
            f"Expected files like {shown(pattern)}, got none. Check the folder and the pattern."
        )
    return [Path(path) for path in paths]


def _photos_in(folder: Path, output: Path, tell: Tell) -> list[Path]:
    files = list(_files_in(folder, output))
    photos = [file for file in files if _is_photo(file)]
    if not photos:
        raise PhotoError(
            f"Expected photos in the folder {shown(folder)}, got none. Choose another."
        )
    if others := len(files) - len(photos):
        tell(f"note: {shown(folder)}: {others} files that are no photos are left alone")
    return photos


def _files_in(folder: Path, output: Path) -> Iterator[Path]:
    """Every file below *folder*, in order, without hidden ones, cubes that are folders, and what is in *output*."""
    for parent, folders, names in os.walk(folder, onerror=_refuse):
        folders[:] = sorted(name for name in folders if _is_searched(Path(parent, name), output))
        yield from (Path(parent, name) for name in sorted(names) if not name.startswith("."))


def _is_searched(folder: Path, output: Path) -> bool:
    is_output = _absolute(folder) == _absolute(output)
    return not (is_output or folder.name.startswith(".") or folder.suffix.lower() in FOLDERS)


def _refuse(error: OSError) -> None:
    reason = shown(error.strerror or error, 80)
    raise PhotoError(
        f"Expected a folder of photos, got {shown(error.filename)}: {reason}. Check it."
    ) from error


def _is_photo(file: Path) -> bool:
    """By its name; a TIFF may be a cube of ours, too."""
    suffix = file.suffix.lower()
    if suffix not in PHOTO_SUFFIXES:
        return False
    return suffix not in (".tif", ".tiff") or not _is_our_cube(file)


def _is_our_cube(file: Path) -> bool:
    try:
        return bool(read_cube(file).provenance.model)
    except NapariMstError:
        return False


def _below(one: Found, found: Iterable[Found]) -> Path:
    """The path of a photo below the folder that all photos, or all on its drive, share."""
    photo = _absolute(one.photo)
    folders = {_absolute(other.folder) for other in found}
    root = os.path.commonpath([folder for folder in folders if folder.anchor == photo.anchor])
    return photo.relative_to(root)


def _absolute(path: Path) -> Path:
    """From the root and without "..", but through the links that were named."""
    return Path(os.path.abspath(path))  # noqa: PTH100 (resolve follows links)


def _job(photo: Path, below: Path, output: Path, suffix: str, with_bands: bool) -> Job:
    target = output / below.with_name(f"{below.stem}{suffix}")
    return Job(photo, target, below.as_posix(), band_targets(target) if with_bands else ())


def _made(folder: Path) -> list[Path]:
    """The folders that had to be made for *folder*, outermost first."""
    try:
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _not_saved(folder, error) from error
    return missing[::-1]


def _not_saved(path: Path, error: OSError) -> SaveError:
    reason = shown(error.strerror or error, 80)
    return SaveError(f"Expected to save to {shown(path)}, got: {reason}. Choose another folder.")


def _is_same_file(photo: Path, target: Path) -> bool:
    try:
        return photo.samefile(target)
    except OSError:
        return False


def _is_cube_of(path: Path, wanted: Provenance, side: str) -> bool:
    """True if *path* is, undamaged, the cube of *wanted*, or that *side* of its error band."""
    from napari_mst.reconstruction.error_bands import (
        band_side,  # imports torch: not before there is something to look into
    )

    try:
        cube = read_cube(path, verify=True)
    except NapariMstError:
        return False
    is_ours = cube.provenance.gives_the_cube_of(wanted) and band_side(cube) == side
    return is_ours and "warnings" not in cube.metadata
