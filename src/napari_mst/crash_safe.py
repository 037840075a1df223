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
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from napari_mst.errors import SaveError, shown

LOCK_SECONDS = 30.0
"""Seconds that a save waits for another run that saves to the same name."""

_FLUSHES = 8  # files of a folder that are made durable at a time: the disk takes them together


def check_targets(
    targets: Sequence[Path], *, overwrite: bool = False, is_folder: bool = False
) -> None:
    """Refuse, before any work is done, targets that could never be saved; nothing stays on disk.

    Raises
    ------
    SaveError
        If a target exists (without *overwrite*) or is a folder (a file where *is_folder*), its
        folder is missing or read-only, or its name is invalid or too long.
    """
    with _explained(targets[-1]):
        for target in targets:
            _check_name(target, overwrite, is_folder)
            # Only an attempt shows whether the folder can be written to and takes so long a name.
            probe = _beside(_real(target), "try")
            probe.open("wb").close()
            probe.unlink(missing_ok=True)


@contextmanager
def saving(*targets: Path, needed: int, overwrite: bool = False) -> Iterator[list[Path]]:
    """Temporary paths, one a target, to be written in the block.

    When it ends well, they become the targets: all, or none if anything fails on the way.

    Parameters
    ----------
    targets
        One file, or several in one folder of which the last is the commit record (a header).
    needed
        Bytes that will be written, checked against the free space first.

    Raises
    ------
    SaveError
        See `check_targets`; or if the disk is full, another run holds the lock, or anything fails
        on the way. The old files are then intact and the temporaries are gone.
    """
    with _explained(targets[-1], needed):
        for target in targets:
            _check_name(target, overwrite=True)
        files = [_real(target) for target in targets]
        with _locked(files[-1]):
            recover(files)
            for target in targets:
                _check_name(target, overwrite)
            _check_space(files[-1], needed)
            temporaries = [_beside(file, "tmp") for file in files]
            try:
                for file, temporary in zip(files, temporaries, strict=True):
                    _hide(file, temporary)
                yield temporaries
                for temporary in temporaries:
                    _flush(temporary)
                # Access comes last: until then nobody else may read what is being written.
                for file, temporary in zip(files, temporaries, strict=True):
                    _keep_access(file, temporary)
                _commit(temporaries, files)
            finally:
                _discard(reversed(temporaries))


@contextmanager
def saving_folder(
    target: Path, is_ours: Callable[[Path], bool], *, needed: int, overwrite: bool = False
) -> Iterator[Path]:
    """An empty temporary folder that becomes the folder *target*, whole, when the block ends well.

    An old folder steps aside for a moment; a save that was killed in that moment is undone by the
    next save or read (`finish_folder`). A folder that is not empty and not *is_ours* is never
    replaced.

    Raises
    ------
    SaveError
        See `saving`.
    """
    with _explained(target, needed):
        _check_name(target, overwrite=True, is_folder=True)
        folder = _real(target)
        with _locked(folder):
            _recover_folder(folder)
            _check_name(target, overwrite, is_folder=True)
            if folder.exists() and not is_ours(folder) and any(folder.iterdir()):
                raise SaveError(
                    f"Expected a cube to replace, got the folder {shown(target.name)}. "
                    "Choose another name."
                )
            _check_space(folder, needed)
            temporary = _beside(folder, "tmp")
            backup = _beside(folder, "old")
            try:
                temporary.mkdir(mode=0o700 if folder.exists() else 0o777)
                yield temporary
                with ThreadPoolExecutor(_FLUSHES) as pool:
                    list(pool.map(_flush, filter(Path.is_file, temporary.rglob("*"))))
                if folder.exists():
                    _keep_access_within(folder, temporary)
                    folder.replace(backup)
                temporary.replace(folder)
                with suppress(OSError):
                    _flush_folder(folder.parent)
            finally:
                _recover_folder(folder)


def finish_folder(target: Path) -> None:
    """Undo an interrupted save of a folder, or wait for the run that saves it.

    Raises
    ------
    SaveError
        If another run holds the lock for long.
    """
    with keeping_folder(target):
        pass


@contextmanager
def keeping_folder(target: Path) -> Iterator[None]:
    """Keep the folder *target* as it is while the block reads it: saves wait.

    Raises
    ------
    SaveError
        If another run holds the lock for long.
    """
    with _explained(target):
        folder = _real(target)
        with _locked(folder):
            _recover_folder(folder)
            yield


def is_interrupted(targets: Sequence[Path]) -> bool:
    """True if a killed save left a pair without its record, which `finish` can complete."""
    record = _real(targets[-1])
    return not record.exists() and any(_beside(record, kind).exists() for kind in ("old", "tmp"))


def finish(targets: Sequence[Path]) -> None:
    """Complete an interrupted save of a pair, or wait for the run that saves it.

    Raises
    ------
    SaveError
        If another run holds the lock for long.
    """
    with _explained(targets[-1]):
        files = [_real(target) for target in targets]
        with _locked(files[-1]):
            recover(files)


def recover(targets: Sequence[Path]) -> None:
    """Finish or undo the renames of a killed save, and remove its rest; call under the lock."""
    *data, record = targets
    temporaries = [_beside(target, "tmp") for target in targets]
    backups = [_beside(target, "old") for target in targets]
    # Renames begin with the old files, which step aside. A first save has none: its renames have
    # begun where its data are no longer temporary.
    has_backup = any(path.exists() for path in backups)
    has_moved_data = not any(path.exists() for path in temporaries[:-1])
    if data and (has_backup or has_moved_data) and not record.exists():
        # The new record is moved last: while it is there, so are all new data, here or in place.
        sources = temporaries if temporaries[-1].exists() else backups
        for source, target in zip(sources, targets, strict=True):
            if source.exists():
                source.replace(target)
    _discard([*backups, *reversed(temporaries)])


def _recover_folder(target: Path) -> None:
    """Put back the old folder if there is no new one, and remove the rest; call under the lock."""
    temporary = _beside(target, "tmp")
    backup = _beside(target, "old")
    if backup.exists() and not target.exists():
        backup.replace(target)
    for rest in (backup, temporary):
        shutil.rmtree(rest, ignore_errors=True)


def _commit(temporaries: Sequence[Path], targets: Sequence[Path]) -> None:
    """Move the temporaries into place; undone, in reverse, if a step fails."""
    # A single file is replaced by one rename, and needs no backup.
    backups = [_beside(target, "old") for target in targets] if len(targets) > 1 else []
    pairs = zip(targets, backups, strict=False)
    leaving = [(target, backup) for target, backup in pairs if target.exists()]
    # The old record leaves first and the new one arrives last: none ever describes other data.
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
            _flush_folder(folder)
    _discard(backups)


def _real(target: Path) -> Path:
    """The file that a symbolic link leads to, existing or not; *target* itself if it is no link."""
    real = Path(os.path.realpath(target)) if target.is_symlink() else target
    if real.is_symlink():
        raise SaveError(
            f"Expected a file name to save to, got {shown(target.name)}, a link in a circle. "
            "Remove it."
        )
    return real


def _hide(old: Path, temporary: Path) -> None:
    """Let nobody else read the file that is to replace *old*, which may be private."""
    if old.exists():
        temporary.touch(mode=0o600)


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
    """Give the folder *new* and all folders in it the permissions of *old*.

    Its files get those of a file in *old*.
    """
    file = next((entry for entry in old.rglob("*") if entry.is_file()), None)
    for entry in new.rglob("*"):
        if entry.is_dir():
            _keep_access(old, entry)
        elif file is not None:
            _keep_access(file, entry)
    _keep_access(old, new)


def _beside(target: Path, kind: str) -> Path:
    return target.with_name(f".{target.name}.{kind}")


def _check_name(target: Path, overwrite: bool, is_folder: bool = False) -> None:
    """Refuse a *target* that cannot be a new file, or folder where *is_folder*."""
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
    """Refuse to save *needed* bytes, and a twentieth to spare, where there is no room for them."""
    free = free_bytes(target)
    if free < needed + needed // 20:
        raise SaveError(
            f"Expected {needed} bytes of free space for {shown(target.name)}, got {free} free. "
            "Make room or save elsewhere; nothing was changed."
        )


@contextmanager
def _explained(target: Path, needed: int = 0) -> Iterator[None]:
    """Any `OSError` as a `SaveError` that says what was needed and free."""
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
    """Bytes that are free on the disk of *target*."""
    return shutil.disk_usage(target.parent).free


@contextmanager
def _locked(target: Path) -> Iterator[None]:
    """Hold the lock file of *target*, and remove it at the end.

    Another run that waits for it takes a new one: filelock >= 3.31 detects a removed file.
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
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _flush_folder(folder: Path) -> None:
    """Make the renames durable; Windows has no such call and needs none."""
    if os.name != "nt":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _discard(paths: Sequence[Path] | Iterator[Path]) -> None:
    for path in paths:
        with suppress(OSError):
            path.unlink()
