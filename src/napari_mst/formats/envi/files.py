"""Finding the two files of an ENVI raster: the header, and the data beside it.

Nothing inside a header names its data file, so each is found by the name of the other, in any case:
`name.hdr` or `name.dat.hdr` beside `name.dat`.
"""

from collections.abc import Sequence
from pathlib import Path

from napari_mst.errors import mismatch, shown
from napari_mst.formats.envi.header import MAX_BYTES, DataLayout, Header

DATA_SUFFIXES = (
    "",
    ".img",
    ".dat",
    ".raw",
    ".bin",
    ".bsq",
    ".bil",
    ".bip",
    ".cube",
    ".hsi",
    ".envi",
    ".data",
)
"""The suffixes that data files of ENVI rasters have; the first is none at all."""


def targets(path: Path) -> tuple[Path, Path]:
    """The data file and the header that saving to *path* writes; the header is the one to open."""
    return path.with_suffix(".img"), path.with_suffix(".hdr")


def header_of(path: Path) -> Path | None:
    """The header at or beside *path*, or None.

    *path* itself if it is a header by name; else `name.ext.hdr`, else `name.hdr`.
    """
    if path.suffix.lower() == ".hdr":
        return path if path.is_file() else None
    names = [f"{path.name}.hdr"]
    # A photo beside `name.hdr` is not its data.
    if path.suffix.lower() in DATA_SUFFIXES:
        names.append(f"{path.stem}.hdr")
    return first_named(path.parent, names)


def first_named(folder: Path, names: Sequence[str]) -> Path | None:
    """The file in *folder* with the first of these *names* that occurs, in any case; or None."""
    order = [name.casefold() for name in names]
    entries = [
        entry for entry in folder.iterdir() if entry.name.casefold() in order and entry.is_file()
    ]
    return min(entries, key=lambda entry: order.index(entry.name.casefold()), default=None)


def header_bytes(path: Path) -> bytes:
    """The bytes of the header at *path*, at most one more than a header may have.

    That one byte makes `Header.parse` refuse a file that is too large to be a header, without
    reading all of it.
    """
    with path.open("rb") as file:
        return file.read(MAX_BYTES + 1)


def data_of(header: Header, path: Path, layout: DataLayout) -> Path:
    """The one data file of the header at *path*.

    The file that we wrote with it, else the only one of the right size, else the only one with a
    usual suffix. Raises `CubeFileError` if there is none, or several.
    """
    beside = [entry for entry in path.parent.iterdir() if _may_be_data(entry, path)]
    size = layout.offset + layout.data_bytes
    exact = [entry for entry in beside if entry.stat().st_size == size]
    # A header that is as we wrote it belongs to the file that was saved with it.
    ours = [entry for entry in exact if header.is_sealed and entry.suffix == ".img"]
    # Data that were cut off fit no size; a usual suffix still identifies them.
    likely = [
        entry for entry in beside if entry.name.removeprefix(path.stem).lower() in DATA_SUFFIXES
    ]
    for candidates in (ours, exact, likely):
        if len(candidates) == 1:
            return candidates[0]
    names = ", ".join(sorted(entry.name for entry in exact or likely)) or "none"
    expected = f"one data file named {shown(path.stem)}"
    advice = "Open the data file itself, or rename it."
    raise mismatch(path.parent.name, expected, shown(names), advice)


def _may_be_data(entry: Path, header: Path) -> bool:
    """True if *entry* is named like the *header*, and no other header is nearer to it."""
    stem = header.stem.casefold()
    name = entry.name.casefold()
    is_named = name == stem or name.startswith(f"{stem}.")
    # GDAL writes `name.aux.xml`, with statistics, beside what it reads.
    is_other_kind = entry.suffix.lower() in (".hdr", ".xml")
    if not is_named or is_other_kind or not entry.is_file():
        return False
    return name == stem or not entry.with_name(f"{entry.name}.hdr").exists()
