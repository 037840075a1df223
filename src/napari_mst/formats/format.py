"""The rows of the table `FORMATS`: each describes one kind of cube file."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from napari_mst.cube import SpectralCube
from napari_mst.errors import SaveError
from napari_mst.messages import shown


def _path_alone(path: Path) -> tuple[Path]:
    return (path,)


def _never_own(_: Path) -> bool:
    return False


def _needs_nothing() -> None:
    pass


def _refuse_to_write(path: Path, *_: Any, **__: Any) -> Path:
    raise SaveError(
        f"Expected a format that can be written, got {shown(path.name)}. Choose another suffix."
    )


@dataclass(frozen=True)
class Format:
    """One kind of cube file.

    Its functions import the library that they need only when they are called, so that a person
    without zarr can use every other format.

    Attributes
    ----------
    name, title
        For the command line and for a person.
    suffixes
        The suffixes that may be written, in lower case, with the dot; the first is the default.
        Empty for a format that is only read.
    more_suffixes
        Suffixes that may be read besides.
    is_mine
        Tells by the contents of a file whether it is of this kind.
    is_own
        Tells whether a file of this kind is a cube that we saved. It looks at the description of
        the file only and reads no numbers.
    read, write
        `read(path, **options)` and `write(path, cube, overwrite=..., watch=..., **options)`.
    targets
        Lists the files that saving to a path writes; the last is the one to open.
    check_installed
        Raises `SaveError` where the libraries that write the format are missing.
    is_folder
        True where a cube is a folder rather than a file.
    """

    name: str
    title: str
    suffixes: tuple[str, ...]
    more_suffixes: tuple[str, ...]
    is_mine: Callable[[Path], bool]
    read: Callable[..., SpectralCube]
    write: Callable[..., Path] = _refuse_to_write
    targets: Callable[[Path], tuple[Path, ...]] = _path_alone
    check_installed: Callable[[], None] = _needs_nothing
    is_folder: bool = False
    is_own: Callable[[Path], bool] = _never_own
