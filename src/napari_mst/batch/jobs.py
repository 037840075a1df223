"""The jobs of a run: its photos, their output files, and the outputs that exist already.

Photos are given as files, folders (searched recursively) and patterns.
"""

import glob
import hashlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path

from napari_mst.base.errors import (
    ChoiceNeeded,
    ColourPhoto,
    NapariMstError,
    OutOfMemory,
    PhotoError,
    SaveError,
    shown,
)
from napari_mst.base.progress import Progress
from napari_mst.batch import storage
from napari_mst.batch.storage import named, url_of
from napari_mst.cube import Provenance
from napari_mst.formats import FORMATS, check_target, find_format, is_own_cube, read_cube
from napari_mst.photo.heif import HEIF_SUFFIXES
from napari_mst.photo.photo import Photo
from napari_mst.photo.raw_header import RAW_SUFFIXES

PHOTO_SUFFIXES = (
    *(".avif", ".bmp", ".jp2", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"),
    *HEIF_SUFFIXES,
    *RAW_SUFFIXES,
)
"""Suffixes of files that are taken from a folder; a file named directly may have any suffix."""

FOLDERS = tuple(suffix for form in FORMATS if form.is_folder for suffix in form.suffixes)
"""Suffixes of folders that are a cube or a photo instead of a place for several."""

Report = Callable[[str], None]
"""Prints one line for the user."""


FoundPhoto = tuple[Path, Path]
"""A photo, and the folder in which it was found; for a named file, its parent folder."""


def find_photos(places: Iterable[Path], output: Path, report: Report) -> list[FoundPhoto]:
    """Return the photos named by files, folders, patterns and URLs, each of them once.

    Folders are searched recursively for files that look like photos. Our own cubes, and everything
    in the folder *output*, are skipped; *report* prints the number of other files.

    Raises
    ------
    PhotoError
        If a folder has no photos or cannot be read, or if nothing matches a pattern.
    """
    photos: dict[Path, FoundPhoto] = {}
    for path in chain.from_iterable(map(_expanded, places)):
        is_several = holds_several(path)
        folder = path if is_several else path.parent
        for photo in _photos_in(path, output, report) if is_several else [path]:
            photos.setdefault(absolute(photo), (photo, folder))
    return list(photos.values())


def holds_several(path: Path) -> bool:
    """True for a folder that is not itself one cube or photo."""
    suffix = path.suffix.lower()
    if url_of(path):
        return suffix not in (*FOLDERS, *PHOTO_SUFFIXES) and storage.is_folder(path)
    # Path.is_dir raises if a name is too long.
    return os.path.isdir(path) and suffix not in FOLDERS  # noqa: PTH112


def absolute(path: Path) -> Path:
    """Make *path* absolute and remove "..", without following links; URLs stay unchanged."""
    return path if url_of(path) else Path(os.path.abspath(path))  # noqa: PTH100 (resolve follows links)


def _expanded(pattern: Path) -> list[Path]:
    """Return the paths that match a pattern, sorted; any other path unchanged."""
    # A file name may look like a pattern, such as "a[1].png".
    if os.path.lexists(pattern) or not glob.has_magic(str(pattern)):
        if url_of(pattern):
            storage.check_there(pattern)
        return [pattern]
    if url_of(pattern):
        paths = storage.listed(pattern)
    else:
        found = glob.glob(str(pattern), recursive=True)  # noqa: PTH207 (of any folder)
        paths = sorted(map(Path, found))
    if not paths:
        place = shown(named(pattern))
        raise PhotoError(
            f"Expected files like {place}, got none. Check the folder and the pattern."
        )
    return paths


def _photos_in(folder: Path, output: Path, report: Report) -> list[Path]:
    """Return the photos below *folder*, sorted.

    Hidden files, cubes that are folders, and everything in *output* are skipped.
    """
    files = _objects_in(folder, output) if url_of(folder) else _files_in(folder, output)
    photos = list(filter(_is_photo, files))
    if not photos:
        raise PhotoError(
            f"Expected photos in the folder {shown(named(folder))}, got none. Choose another."
        )
    others = len(files) - len(photos)
    if others:
        report(f"note: {shown(named(folder))}: {others} files that are no photos are left alone")
    return photos


def _files_in(folder: Path, output: Path) -> list[Path]:
    files: list[Path] = []
    for parent, folders, names in os.walk(folder, onerror=_refuse):
        # os.walk descends only into folders that remain in this list.
        folders[:] = sorted(name for name in folders if _is_searched(Path(parent, name), output))
        files += (Path(parent, name) for name in sorted(names) if not name.startswith("."))
    return files


def _objects_in(folder: Path, output: Path) -> list[Path]:
    def is_found(file: Path) -> bool:
        folders = (each for each in file.parents if each.is_relative_to(folder) and each != folder)
        return all(_is_searched(each, output) for each in folders)

    return [file for file in storage.listed(folder) if is_found(file)]


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
    """True if the file has the suffix of a photo and is not a TIFF with one of our cubes."""
    suffix = file.suffix.lower()
    if suffix not in (".tif", ".tiff") or url_of(file):
        return suffix in PHOTO_SUFFIXES
    return not is_own_cube(file)


ASIDE = ".damaged"
"""Suffix for the files of a damaged cube that is made again."""

SIDES = ("lower", "upper")
"""Sides of the prediction interval of a cube."""


@dataclass(frozen=True)
class BatchJob:
    """One photo and its output files.

    Attributes
    ----------
    target
        The file of the cube.
    name
        Name of the photo in messages: its path below the folder of all photos.
    bands
        Files of the lower and the upper side of the prediction interval, if requested.
    """

    photo: Path
    target: Path
    name: str
    bands: tuple[Path, ...] = ()

    @property
    def outputs(self) -> tuple[Path, ...]:
        """All output files, the cube first."""
        return (self.target, *self.bands)


def plan_jobs(
    found: Sequence[FoundPhoto], output: Path, suffix: str, with_bands: bool
) -> list[BatchJob]:
    """Return a job for each photo.

    Cubes below *output* mirror the photos below the folder that all photos share.
    """
    folders = {absolute(folder) for _, folder in found}

    def job(photo: Path) -> BatchJob:
        whole = absolute(photo)
        # common to all folders, or to all folders on this drive
        root = os.path.commonpath([each for each in folders if each.anchor == whole.anchor])
        below = whole.relative_to(root)
        target = output / below.with_name(f"{below.stem}{suffix}")
        return BatchJob(photo, target, below.as_posix(), band_targets(target) if with_bands else ())

    return [job(photo) for photo, _ in found]


def band_targets(target: Path) -> tuple[Path, ...]:
    """Return the files of both sides of the prediction interval of the cube *target*."""
    return tuple(target.with_name(f"{target.stem}_{side}{target.suffix}") for side in SIDES)


@contextmanager
def folders_for(jobs: Sequence[BatchJob]) -> Iterator[None]:
    """Make missing output folders for a `with` block; remove those that stay empty.

    Raises
    ------
    SaveError
        If a folder cannot be made.
    """
    made: list[Path] = []
    try:
        for folder in sorted({job.target.parent for job in jobs if not url_of(job.target)}):
            made += make_folder(folder)
        yield
    finally:
        for folder in reversed(made):
            with suppress(OSError):  # it is not empty
                folder.rmdir()


def make_folder(folder: Path) -> list[Path]:
    """Make *folder*; returns the folders that were missing, outermost first."""
    try:
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise not_saved(folder, error) from error
    return missing[::-1]


def not_saved(path: Path, error: OSError) -> SaveError:
    """Return the error that explains why *path* cannot be written."""
    reason = shown(error.strerror or error, 80)
    return SaveError(f"Expected to save to {shown(path)}, got: {reason}. Choose another folder.")


def check_names(jobs: Sequence[BatchJob]) -> None:
    """Raise `SaveError` if two photos would become the same file."""
    first = dict[str, BatchJob]()
    for job in jobs:
        # Some file systems ignore case.
        other = first.setdefault(str(job.target).casefold(), job)
        if other is not job:
            names = f"{shown(other.photo.name)} and {shown(job.photo.name)}"
            raise SaveError(
                f"Expected photos of different names, got {names} for {shown(job.target.name)}. "
                "Rename one."
            )
    for band in chain.from_iterable(job.bands for job in jobs):
        if str(band).casefold() in first:
            raise SaveError(
                "Expected another name for a photo, got that of the prediction interval "
                f"{shown(band.name)}. Rename."
            )


def check_outputs(job: BatchJob, overwrite: bool, stay: Collection[Path] = ()) -> None:
    """Check that the outputs of *job* can be saved without overwriting files or the photo.

    Outputs that *stay* may exist.

    Raises
    ------
    SaveError
        As `formats.check_target` does, or if an output is the photo itself.
    """
    for path in job.outputs:
        if url_of(path):
            continue  # checked later, on a local copy
        check_target(path, overwrite=overwrite or path in stay)
        if _is_same_file(job.photo, path):
            raise SaveError(
                f"Expected a new name for the cube, got the photo {shown(job.photo.name)}. "
                "Choose another."
            )


def may_stay(job: BatchJob) -> set[Path]:
    """Return the outputs that are cubes, empty, missing, or left by an interrupted save.

    `finished` and `damaged` read them later.
    """
    return {
        path
        for path in job.outputs
        if find_format(path) or not (path.exists() and path.stat().st_size)
    }


def is_there(path: Path) -> bool:
    """True if the cube *path*, or a part of it, exists."""
    return any(map(os.path.lexists, files_of(path)))


def files_of(path: Path) -> list[Path]:
    """Return the files, or the folder, that make up the cube *path*."""
    forms = (form for form in FORMATS if path.suffix.lower() in form.suffixes)
    return [file for form in forms for file in form.targets(path)]


def finished(job: BatchJob, history: Callable[[str], Provenance]) -> set[Path]:
    """Return the outputs that exist, are undamaged, and match this run.

    *history* returns, for the sha256 of a photo, the history of its cube in this run.
    """
    there = {path for path in job.outputs if is_there(path)}
    if not there:
        return set()
    try:
        if job.photo.is_dir():  # an OME-Zarr
            sha256 = Photo.read(job.photo).sha256
        else:
            with job.photo.open("rb") as file:
                sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, NapariMstError):
        return set()
    origin = history(sha256)
    sides = dict(zip(job.bands, SIDES, strict=False))
    return {path for path in there if _is_cube_of(path, origin, sides.get(path, ""))}


def damaged(job: BatchJob, done: Collection[Path]) -> dict[Path, str]:
    """Return the outputs that exist, are not *done*, and cannot be read, with the reasons."""
    faults = {}
    for path in job.outputs:
        if path in done or not is_there(path):
            continue
        try:
            read_cube(path, verify=True)
        except (ColourPhoto, ChoiceNeeded, OutOfMemory):
            pass  # not one of our cubes, or an intact one
        except NapariMstError as error:
            faults[path] = str(error)
    return faults


def set_aside(path: Path) -> None:
    """Rename the files of the damaged cube *path*, which may have been changed on purpose.

    Raises
    ------
    SaveError
        If a file cannot be renamed.
    """
    for file in filter(os.path.lexists, files_of(path)):
        kept = (f"{file.name}{ASIDE}{number or ''}" for number in count())
        free = next(name for name in kept if not os.path.lexists(file.with_name(name)))
        try:
            file.rename(file.with_name(free))
        except OSError as error:
            raise not_saved(file, error) from error


def _is_same_file(photo: Path, target: Path) -> bool:
    try:
        return photo.samefile(target)
    except OSError:
        return False


def _is_cube_of(path: Path, history: Provenance, side: str) -> bool:
    """True if *path* is the undamaged cube with *history*, or the *side* of its interval."""
    # Imports torch, which must wait until there is a file to read.
    from napari_mst.reconstruction.model_intervals import interval_side

    try:
        cube = read_cube(path, verify=True)
    except NapariMstError:
        return False
    is_ours = cube.provenance.gives_the_cube_of(history) and interval_side(cube) == side
    return is_ours and "warnings" not in cube.metadata


@contextmanager
def claimed(job: BatchJob, progress: Progress, *, waits: bool) -> Iterator[bool]:
    """Claim *job* for this run during a `with` block; yields whether the claim succeeded.

    With *waits*, it waits for another run that claimed the job, until *progress* is cancelled.

    Raises
    ------
    SaveError
        If the lock file cannot be made.
    """
    from filelock import FileLock, Timeout

    path = job.target.with_name(f".{job.target.name}.run")
    lock = FileLock(path)
    try:
        make_folder(job.target.parent)
        lock.acquire(timeout=-1 if waits else 0, cancel_check=progress.is_cancelled)
    except Timeout:
        yield False
        return
    except OSError as error:
        raise not_saved(job.target, error) from error
    try:
        yield True
    finally:
        # Deleted while still locked, so that no other run locks a file that then disappears.
        with suppress(OSError):
            path.unlink()
        lock.release()
