"""Crash-safe saving: under its final name a file is the old one or the new one, whole, at any time.

New contents go to temporaries beside their targets, reach the disk (fsync) and are then moved into
place by atomic renames, under a lock file. For a pair (data, header) the header is the commit
record: the old header leaves first and the new one arrives last, so no header ever describes other
data. A save that was killed between two renames is finished by the next save or read (`recover`).
An old file that is still mapped by an open layer keeps its contents. New contents keep the
permissions of the file that they replace. A symbolic link stays, and the file that it leads to is
replaced.
"""

import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from napari_mst.base.errors import SaveError, shown

LOCK_SECONDS = 30.0
"""Seconds that a save waits for another run that saves to the same name."""

_FLUSHES = 8  # files of a folder flushed at the same time: a disk writes them together


def check_targets(
    targets: Sequence[Path], *, overwrite: bool = False, is_folder: bool = False
) -> None:
    """Refuse targets that could never be saved, before any work; nothing stays on disk.

    Raises
    ------
    SaveError
        If a target exists (without *overwrite*) or is a folder (a file where *is_folder*), its
        folder is missing or read-only, or its name is invalid or too long.
    """
    with _explained(targets[-1]):
        for target in targets:
            _check_name(target, overwrite, is_folder)
            # Only an attempt shows whether the folder is writable and accepts a name this long.
            probe = _beside(_real(target), "try")
            probe.open("wb").close()
            probe.unlink(missing_ok=True)


@contextmanager
def saving(
    *targets: Path,
    needed: int,
    overwrite: bool = False,
    is_ours: Callable[[Path], bool] | None = None,
) -> Iterator[list[Path]]:
    """Yield one temporary path per target, for the block to write.

    When the block ends without an error, all temporaries become the targets, or none of them if a
    step fails.

    Parameters
    ----------
    targets
        One file, or several in one folder of which the last is the commit record (a header).
    needed
        Bytes that will be written, checked against the free space first.
    is_ours
        For a target that is a folder; the temporary path is then an empty folder. An old folder
        that is not empty is replaced only if *is_ours* returns True for it.

    Raises
    ------
    SaveError
        In the cases of `check_targets`, or if the disk is full, another run holds the lock, or a
        step fails. The old files are then intact and the temporaries are gone.
    """
    is_folder = is_ours is not None
    with keeping(targets, needed, is_folder=is_folder) as files:
        for target in targets:
            _check_name(target, overwrite, is_folder)
        record = files[-1]
        if is_ours and record.exists() and not is_ours(record) and any(record.iterdir()):
            raise SaveError(
                f"Expected a cube to replace, got the folder {shown(record.name)}. "
                "Choose another name."
            )
        _check_space(record, needed)
        temporaries = [unfinished(file) for file in files]
        try:
            for file, temporary in zip(files, temporaries, strict=True):
                # The old file may be private, so nobody else may read the new one either.
                if is_folder:
                    temporary.mkdir(mode=0o700 if file.exists() else 0o777)
                elif file.exists():
                    temporary.touch(mode=0o600)
            yield temporaries
            written = [file for temporary in temporaries for file in _files_in(temporary)]
            with ThreadPoolExecutor(_FLUSHES) as pool:
                list(pool.map(_flush, written))
            # Permissions come last: nobody else may read a file that is still being written.
            for file, temporary in zip(files, temporaries, strict=True):
                _keep_access_within(file, temporary)
            _commit(temporaries, files, is_folder)
        finally:
            _discard(reversed(temporaries))


@contextmanager
def keeping(
    targets: Sequence[Path], needed: int = 0, *, is_folder: bool = False
) -> Iterator[list[Path]]:
    """Make saves to *targets* wait until the block ends; yields the real files.

    An interrupted save to them is completed or undone first. Errors name the *needed* bytes.

    Raises
    ------
    SaveError
        If another run holds the lock too long, or a target is no valid name of a file (or folder).
    """
    with _explained(targets[-1], needed):
        for target in targets:
            _check_name(target, overwrite=True, is_folder=is_folder)
        files = [_real(target) for target in targets]
        with _locked(files[-1]):
            recover(files)
            yield files


def is_interrupted(targets: Sequence[Path]) -> bool:
    """True if a killed save left a pair without its record, which `keeping` can complete."""
    record = _real(targets[-1])
    return not record.exists() and any(_beside(record, kind).exists() for kind in ("old", "tmp"))


def unfinished(target: Path) -> Path:
    """The temporary path of *target* during `saving`, for other processes that write to it."""
    return _beside(_real(target), "tmp")


def recover(targets: Sequence[Path]) -> None:
    """Finish or undo the renames of a killed save, remove its leftovers; call under the lock."""
    *data, record = targets
    temporaries = [_beside(target, "tmp") for target in targets]
    backups = [_beside(target, "old") for target in targets]
    # A save first renames the old files to backups. A save to a new name has no old files: there
    # the renames have begun once the data files are no longer temporary.
    has_backup = any(path.exists() for path in backups)
    has_moved_data = bool(data) and not any(path.exists() for path in temporaries[:-1])
    if (has_backup or has_moved_data) and not record.exists():
        # The new record is moved last: while its temporary exists, all new data exist too, still
        # temporary or in place. A folder may be half removed: only its backup is sure to be whole.
        sources = temporaries if data and temporaries[-1].exists() else backups
        for source, target in zip(sources, targets, strict=True):
            if source.exists():
                source.replace(target)
    _discard([*backups, *reversed(temporaries)])


def _commit(temporaries: Sequence[Path], targets: Sequence[Path], is_folder: bool) -> None:
    """Move the temporaries into place; if a move fails, undo the others in reverse order."""
    # One rename replaces a single file, which therefore needs no backup.
    has_backups = is_folder or len(targets) > 1
    old = [target for target in targets if has_backups and target.exists()]
    leaving = [(target, _beside(target, "old")) for target in old]
    # The old record leaves first and the new one arrives last, so none describes other data.
    moves = [*reversed(leaving), *zip(temporaries, targets, strict=True)]
    done: list[tuple[Path, Path]] = []
    try:
        for source, destination in moves:
            source.replace(destination)
            done.append((source, destination))
    except BaseException:
        for source, destination in reversed(done):
            destination.replace(source)
        raise
    for folder in {target.parent for target in targets}:
        with suppress(OSError):
            _flush(folder)
    _discard(backup for _, backup in leaving)


def _real(target: Path) -> Path:
    """The file that *target* leads to if it is a symbolic link, existing or not; else itself."""
    real = Path(os.path.realpath(target)) if target.is_symlink() else target
    if real.is_symlink():
        raise SaveError(
            f"Expected a file name to save to, got {shown(target.name)}, a link in a circle. "
            "Remove it."
        )
    return real


def _keep_access(old: Path, new: Path) -> None:
    """Give *new* the permissions of *old*, its owner and its group, as far as the system allows."""
    try:
        access = old.stat()
    except FileNotFoundError:
        return
    with suppress(OSError, AttributeError):  # only root gives files away; Windows has no such call
        os.chown(new, access.st_uid, access.st_gid)
    with suppress(OSError):  # a file system without permissions
        new.chmod(stat.S_IMODE(access.st_mode))


def _keep_access_within(old: Path, new: Path) -> None:
    """Give *new* the permissions of *old*; files in a folder get those of a file in *old*."""
    file = next(_files_in(old), None)
    for entry in new.rglob("*"):
        if entry.is_dir():
            _keep_access(old, entry)
        elif file is not None:
            _keep_access(file, entry)
    _keep_access(old, new)


def _files_in(path: Path) -> Iterator[Path]:
    """All files in the folder *path*; *path* itself if it is a file."""
    return filter(Path.is_file, path.rglob("*") if path.is_dir() else [path])


def _beside(target: Path, kind: str) -> Path:
    return target.with_name(f".{target.name}.{kind}")


def _check_name(target: Path, overwrite: bool, is_folder: bool = False) -> None:
    """Refuse a *target* that cannot be a new file, or a new folder if *is_folder*."""
    if "\0" in str(target) or not target.name:
        raise SaveError(
            f"Expected a file name to save to, got {shown(target)!r}. Choose another name."
        )
    if not target.parent.is_dir():
        raise SaveError(
            f"Expected an existing folder, got {shown(target.parent)}. Create it or choose another."
        )
    if target.is_dir() and not is_folder:
        raise SaveError(
            f"Expected a file name to save to, got the folder {shown(target)}. Choose another name."
        )
    if target.is_file() and is_folder:
        raise SaveError(
            f"Expected a folder name to save to, got the file {shown(target)}. Choose another name."
        )
    if not overwrite and os.path.lexists(target):
        raise SaveError(
            f"Expected a new file, got {shown(target.name)} which exists. "
            "Choose another name, or replace it: --overwrite, in Python overwrite=True."
        )


def _check_space(target: Path, needed: int) -> None:
    """Refuse to save unless *needed* bytes and a twentieth more are free."""
    free = free_bytes(target)
    if free < needed + needed // 20:
        raise SaveError(
            f"Expected {needed} bytes of free space for {shown(target.name)}, got {free} free. "
            "Make room or save elsewhere; nothing was changed."
        )


@contextmanager
def _explained(target: Path, needed: int = 0) -> Iterator[None]:
    """Turn an `OSError` into a `SaveError` that names the needed and the free space."""
    try:
        yield
    except SaveError:
        raise
    except OSError as error:
        raise SaveError(_explanation(target, needed, error)) from error


def _explanation(target: Path, needed: int, error: OSError) -> str:
    name = shown(target.name)
    if not target.parent.is_dir():
        return (
            f"Expected the folder of {name} to stay during the save, got none any more. "
            "Save elsewhere."
        )
    room = ""
    if needed:
        with suppress(OSError):
            room = f" ({needed} bytes needed, {free_bytes(target)} bytes free)"
    return (
        f"Expected to save {name}{room}, got: {shown(error.strerror or error, 80)}. "
        "Check the folder, or close the program that uses the file; the old file is intact."
    )


def free_bytes(target: Path) -> int:
    """Free bytes on the disk of *target*."""
    return shutil.disk_usage(target.parent).free


@contextmanager
def _locked(target: Path) -> Iterator[None]:
    """Hold the lock file of *target*, and remove it at the end.

    A run that waits for the lock then creates a new file: filelock >= 3.31 detects the removal.
    """
    from filelock import FileLock, Timeout

    path = _beside(target, "lock")
    try:
        lock = FileLock(path, timeout=LOCK_SECONDS).acquire()
    except Timeout:
        raise SaveError(
            f"Expected to be alone, got another run that is saving {shown(target.name)}. "
            "Wait for it, then try again."
        ) from None
    with lock:
        try:
            yield
        finally:
            _discard([path])


def _flush(path: Path) -> None:
    """Flush a file, or the renames in a folder, to disk. Windows needs no call for a folder."""
    is_folder = path.is_dir()
    if is_folder and os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDONLY if is_folder else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _discard(paths: Iterable[Path]) -> None:
    for path in paths:
        with suppress(OSError):
            # A folder is one that a save replaced, or did not finish.
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
