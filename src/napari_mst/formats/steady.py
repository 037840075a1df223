"""Reading files that a save may replace at any moment: their parts must never be of two cubes."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from napari_mst.errors import CubeFileError, SaveError, shown

ATTEMPTS = 5
"""Number of times that a read is tried, where saves come in between."""

State = TypeVar("State")
Contents = TypeVar("Contents")


def steady_read(
    state: Callable[[], State | None], read: Callable[[State], Contents]
) -> Contents | None:
    """Read while the *state* stays the same; None if it never does.

    The *state* distinguishes the contents that files have one after the other; it is None while
    there are none. Errors count in the same way: a save may be their cause.
    """
    for _ in range(ATTEMPTS):
        before = state()
        if before is None:
            continue
        try:
            contents = read(before)
        except (CubeFileError, FileNotFoundError):
            if state() == before:
                raise
        else:
            if state() == before:
                return contents
    return None


def finish(path: Path, finish_save: Callable[[], None]) -> None:
    """Complete an interrupted save to *path*, or wait for the run that is saving.

    Raises `CubeFileError`.
    """
    try:
        finish_save()
    except SaveError as error:
        raise CubeFileError(
            f"Expected {shown(path.name)} complete, got a save that was interrupted. "
            "Save there again, or make its folder writable."
        ) from error


def changing(path: Path) -> CubeFileError:
    """The error about a file that other runs save again and again."""
    return CubeFileError(
        f"Expected {shown(path.name)} to stay as it is, got changes while reading. Try again."
    )
