"""Photos and cubes on object storage, by URL: listing them, and copying to and from local files.

fsspec opens the storage: s3:// with the package s3fs, gs:// with gcsfs, https:// with aiohttp. A
URL is held in a `Path`, which keeps one of its two slashes: "s3:/bucket/photo.jpg".
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from napari_mst.base.errors import NapariMstError, PhotoError, SaveError, shown

_URL = re.compile(r"([a-z][a-z0-9+.-]+):/+(?=[^/])")

Stamps = Mapping[Path, tuple[int, int]]
"""Files in a folder, with modification time and inode."""


def url_of(path: Path) -> str:
    """Return the URL held in *path*; "" for a path on this computer."""
    text = path.as_posix()
    return _URL.sub(r"\1://", text, count=1) if _URL.match(text) else ""


def named(path: Path) -> str:
    """Return the URL or the path for display."""
    return url_of(path) or str(path)


@contextmanager
def opened(path: Path, error: type[NapariMstError] = PhotoError) -> Iterator[tuple[Any, str]]:
    """Yield the file system of *path* and its name there; failures become an *error*."""
    try:
        from fsspec.core import url_to_fs

        # Other processes write there, so cached listings may be outdated.
        yield url_to_fs(named(path), use_listings_cache=False)
    except NapariMstError:
        raise
    except Exception as fault:  # each storage raises the exceptions of its library
        reason = shown(fault, 120) or type(fault).__name__
        raise error(f"Expected to reach {shown(named(path))}, got: {reason}. Check it.") from fault


def is_folder(path: Path) -> bool:
    """True if the URL *path* is a folder of objects."""
    with opened(path) as (system, name):
        return bool(system.isdir(name))


def check_there(path: Path) -> None:
    """Raise `PhotoError` if nothing is at the URL *path*."""
    with opened(path) as (system, name):
        if not system.exists(name):
            raise FileNotFoundError("nothing is there")


def listed(path: Path) -> list[Path]:
    """Return all objects below the URL *path*, or matching it, sorted and without hidden ones."""
    with opened(path) as (system, name):
        found = system.glob(name) if "*" in name else system.find(name)
        paths = (Path(system.unstrip_protocol(each)) for each in sorted(found))
        return [each for each in paths if not each.name.startswith(".")]


def fetch(path: Path, local: Path) -> bool:
    """Copy the object, or the Zarr group, at the URL *path* to *local*; False if it is missing."""
    with opened(path) as (system, name):
        try:
            if path.suffix.lower() == ".zarr":
                system.get(f"{name}/", str(local), recursive=True)
            else:
                system.get_file(name, str(local))
        except FileNotFoundError:
            return False
        return True


def stamps(folder: Path) -> Stamps:
    """Return the state of the files in *folder*, from which `upload` detects changes."""
    files = (file for file in folder.rglob("*") if file.is_file())
    return {file: (file.stat().st_mtime_ns, file.stat().st_ino) for file in files}


def upload(folder: Path, to: Path, before: Stamps) -> None:
    """Copy the files of *folder* that have changed since *before* to the URL *to*.

    Headers, and the metadata of Zarr groups, are deleted first and uploaded last, so no object ever
    describes outdated or missing ones.

    Raises
    ------
    SaveError
        If the upload fails; the same command makes the cube again.
    """
    changed = [file for file, stamp in stamps(folder).items() if before.get(file) != stamp]
    places = {file: to / file.relative_to(folder) for file in changed}
    records = [file for file in changed if file.suffix == ".hdr" or file.parent.suffix == ".zarr"]
    for record in records:
        # All chunks of an old Zarr group are deleted, as the new group may have fewer.
        old = places[record].parent if record.name == "zarr.json" else places[record]
        with opened(old, SaveError) as (system, name):
            if system.exists(name):
                system.rm(name, recursive=True)
    for file in [*(file for file in changed if file not in records), *records]:
        with opened(places[file], SaveError) as (system, name):
            system.put_file(str(file), name)


@contextmanager
def marked(folder: Path) -> Iterator[Path]:
    """Put a file into *folder* for a `with` block, by which other processes show that they see it.

    Raises `SaveError` if nothing can be written there.
    """
    mark = folder / f".{uuid4()}"
    with opened(mark, SaveError) as (system, name):
        system.pipe_file(name, b"")
        try:
            yield mark
        finally:
            system.rm_file(name)


def is_there(path: Path) -> bool:
    """True if this process sees the file or object *path*."""
    try:
        check_there(path)
    except PhotoError:
        return False
    return True
