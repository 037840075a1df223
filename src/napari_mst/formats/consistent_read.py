"""Reads files that a save may replace at any moment, without mixing parts of two cubes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from napari_mst.base.atomic_save import keeping
from napari_mst.base.errors import CubeFileError, SaveError, shown

ATTEMPTS = 5
"""Number of attempts to read a file that saves keep replacing."""

FileState = TypeVar("FileState")
Contents = TypeVar("Contents")


def read_consistently(
    state: Callable[[], FileState | None], read: Callable[[FileState], Contents]
) -> Contents | None:
    """The result of *read*, repeated until *state* is the same before and after; else None.

    *state* identifies the current contents of the files; it is None while there are none. An error
    counts only if the state stays the same, since a save may be its cause.
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


@contextmanager
def held(*targets: Path, is_folder: bool = False) -> Iterator[None]:
    """Make saves to *targets* wait; an interrupted save is completed or undone first.

    Raises `CubeFileError` if another run does not stop saving.
    """
    try:
        with keeping(targets, is_folder=is_folder):
            yield
    except SaveError as error:
        raise CubeFileError(
            f"Expected {shown(targets[-1].name)} complete, got a save that was interrupted. "
            "Save there again, or make its folder writable."
        ) from error
