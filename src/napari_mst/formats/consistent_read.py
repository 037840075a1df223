"""Reading files that a save may replace at any moment: their parts must never be of two cubes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from napari_mst.base.atomic_save import keeping
from napari_mst.base.errors import CubeFileError, SaveError, shown

ATTEMPTS = 5
"""Number of times that a read is tried, where saves come in between."""

FileState = TypeVar("FileState")
Contents = TypeVar("Contents")


def read_consistently(
    state: Callable[[], FileState | None], read: Callable[[FileState], Contents]
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


@contextmanager
def held(*targets: Path, is_folder: bool = False) -> Iterator[None]:
    """Let saves to the *targets* wait; an interrupted one is completed or undone before.

    Raises `CubeFileError` if another run goes on saving.
    """
    try:
        with keeping(targets, is_folder=is_folder):
            yield
    except SaveError as error:
        raise CubeFileError(
            f"Expected {shown(targets[-1].name)} complete, got a save that was interrupted. "
            "Save there again, or make its folder writable."
        ) from error
