"""ENVI rasters: a flat file of numbers and its text header (`header`).

Reads every data type, byte order and interleave as (B, H, W); writes BSQ, little-endian. A file of up to
`numbers.LAZY_BYTES` comes into memory, checked against the checksum that we save; a larger one is memory-mapped.
Letters: B bands, H rows, W columns.
"""

import gzip
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_mst import crash_safe
from napari_mst.cube import SpectralCube
from napari_mst.errors import CubeFileError, SaveError
from napari_mst.formats.envi.georeference import in_envi, read_from_envi
from napari_mst.formats.envi.header import (
    AXES,
    MAX_BYTES,
    OWN,
    Header,
    Layout,
    header_text,
    provenance,
)
from napari_mst.formats.envi.values import APPLIED, metadata, physical
from napari_mst.formats.numbers import LAZY_BYTES, blocks, check_room, crc32, stored_type
from napari_mst.formats.record import CHANGED
from napari_mst.formats.wavelengths import power_of, spectral_axis
from napari_mst.messages import mismatch, shown
from napari_mst.watch import UNWATCHED, Watch

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
_STORED = ("u1", "i2", "u2", "i4", "u4", "f4", "f8")
_ATTEMPTS = 5
_GZIP_RATIO = 1040
"""No deflate stream grows by more than 1032 times (RFC 1951)."""


def is_envi(path: Path) -> bool:
    """Whether *path* is an ENVI header, or a data file beside one; other kinds of `.hdr` are not."""
    header = _header_of(path)
    if header is None:
        return False
    with header.open("rb") as file:
        return file.read(16).replace(b"\0", b"").lstrip(b"\xef\xbb\xbf\xff\xfe").startswith(b"ENVI")


def targets(path: Path) -> tuple[Path, Path]:
    """The data file and the header that saving to *path* writes; the header is the one to open."""
    return path.with_suffix(".img"), path.with_suffix(".hdr")


def read_envi(path: Path, *, scale: bool = True, verify: bool | None = None) -> SpectralCube:
    """The cube at *path*, a header or its data file.

    Parameters
    ----------
    scale
        Apply gains, offsets and the reflectance scale factor, once: float (B, H, W) with NaN for ignored values.
        False keeps the numbers as stored.
    verify
        Compare the data with the checksum in a header that we wrote and nobody changed; by default unless the file
        is memory-mapped.

    Returns
    -------
    What was assumed or ignored on the way is in `metadata["warnings"]`.

    Raises
    ------
    CubeFileError
        If header or data are missing, damaged, contradictory or of an unsupported kind.
    """
    for _ in range(_ATTEMPTS):
        header_path = _header_of(path)
        if header_path is not None:
            raw = _head(header_path)
            try:
                cube = _read_pair(
                    raw, header_path, None if header_path == path else path, scale, verify
                )
            except (CubeFileError, FileNotFoundError):
                if header_path.exists() and _head(header_path) == raw:
                    raise
            else:
                if _head(header_path) == raw:
                    return cube
        elif crash_safe.is_interrupted(targets(path)):
            finish(path, targets(path))
        else:
            raise CubeFileError(
                f"Expected an ENVI header at or beside {shown(path.name)}, got none. Put it there."
            )
    raise CubeFileError(
        f"Expected {shown(path.name)} to stay as it is, got changes while reading. Try again."
    )


def write_envi(
    path: Path, cube: SpectralCube, *, overwrite: bool = False, watch: Watch = UNWATCHED
) -> Path:
    """Save *cube* as `name.img` and `name.hdr`, and return the header.

    float32 stays float32; types that ENVI has not (int8, float16, bool, 64-bit integers) are widened without loss.

    Raises
    ------
    SaveError
        If the numbers cannot be stored without loss, or as `crash_safe.saving`.
    """
    data_path, header_path = targets(path)
    cube = in_envi(cube)
    dtype = stored_type(cube.data, _STORED, "an ENVI file")
    needed = cube.data.size * dtype.itemsize + 2**16
    with crash_safe.saving(data_path, header_path, needed=needed, overwrite=overwrite) as (
        data,
        header,
    ):
        crc = 0
        with data.open("wb") as file:
            for block in blocks(cube.data, dtype, watch):
                file.write(block.data)
                crc = crc32(block, crc)
        header.write_bytes(header_text(cube, dtype, f"{crc:08x}").encode("ascii"))
    return header_path


def finish(path: Path, files: tuple[Path, Path]) -> None:
    """Complete an interrupted save of *path* to *files*. Raises `CubeFileError`."""
    try:
        crash_safe.finish(files)
    except SaveError as error:
        raise CubeFileError(
            f"Expected {shown(path.name)} complete, got a save that was interrupted. Save there again, or make the "
            "folder writable."
        ) from error


def _head(path: Path) -> bytes:
    """The bytes of the header, up to one too many; none if it has just gone."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return b""


def _read_pair(
    raw: bytes, header_path: Path, data_path: Path | None, scale: bool, verify: bool | None
) -> SpectralCube:
    header = Header.parse(raw, header_path.name)
    layout = header.layout()
    stored, warnings = load(
        header, data_path or data_of(header, header_path, layout), layout, verify
    )
    word = header.text("wavelength units") or header.text("wavelength unit")
    names = header.items("band names")
    wavelengths, unit, doubts = spectral_axis(
        header.numbers("wavelength"), word, names, layout.bands
    )
    fields, more = metadata(header, layout.bands, power_of(word) or 0)
    warnings += doubts + more
    if scale:
        stored, fields, more = physical(stored, header, fields)
        warnings += more
    fields = read_from_envi(fields, is_sealed=header.is_sealed)
    quantity = header.text(f"{OWN}quantity") or "reflectance" * (
        "reflectance" in fields.get(APPLIED, "")
    )
    if warnings:
        fields["warnings"] = tuple(warnings)
    return SpectralCube(stored, wavelengths, unit, quantity, provenance(header), fields)


def load(
    header: Header, path: Path, layout: Layout, verify: bool | None
) -> tuple[NDArray[Any], list[str]]:
    """The (B, H, W) numbers as stored: in memory, contiguous, in native byte order; or a view of a memory map."""
    if layout.is_compressed:
        flat, extra = np.frombuffer(_inflated(path, layout), layout.dtype), 0
    else:
        extra = _excess(path, layout)
        flat = _numbers(path, layout)
    is_mapped = isinstance(flat, np.memmap)
    warnings = header.doubts(layout)
    warnings += [
        f"The data file is {extra} bytes longer than its header says; they are ignored."
    ] * (extra > 0)
    if not header.is_sealed:
        warnings += _doubts(header, path, layout, extra)
    elif verify or (verify is None and not is_mapped):
        _verify(header, path, flat)
    cube = flat.reshape(layout.stored_shape).transpose(AXES[layout.interleave])
    if not is_mapped:
        cube = np.ascontiguousarray(cube, dtype=layout.dtype.newbyteorder("="))
    return cube, warnings


def _excess(path: Path, layout: Layout) -> int:
    """Bytes of the data file beyond those needed. Raises `CubeFileError` if there are too few."""
    found, needed = path.stat().st_size, layout.offset + layout.data_bytes
    if found < needed:
        raise mismatch(path.name, f"{needed} bytes", str(found), "The data file is incomplete.")
    return found - needed


def _numbers(path: Path, layout: Layout) -> NDArray[Any]:
    if layout.data_bytes > LAZY_BYTES:
        return np.memmap(path, layout.dtype, "r", layout.offset, (layout.count,))
    flat = np.fromfile(path, layout.dtype, layout.count, offset=layout.offset)
    if flat.size != layout.count:
        raise mismatch(path.name, f"{layout.count} numbers", str(flat.size), "Read it again.")
    return flat


def _inflated(path: Path, layout: Layout) -> bytes:
    """The numbers of a gzip-compressed data file, never more than the header says. Raises `CubeFileError`."""
    needed = layout.offset + layout.data_bytes
    most = _GZIP_RATIO * path.stat().st_size
    if needed > most:
        raise mismatch(
            path.name, f"at most {most} bytes, compressed", str(needed), "Decompress it first."
        )
    check_room(path.name, needed)
    try:
        with gzip.open(path) as file:
            data = file.read(needed)
    except (OSError, EOFError, zlib.error):
        raise mismatch(
            path.name, "gzip data", "other or damaged data", "Check 'file compression'."
        ) from None
    if len(data) < needed:
        raise mismatch(path.name, f"{needed} bytes", str(len(data)), "The data file is incomplete.")
    return data[layout.offset :]


def _verify(header: Header, path: Path, flat: NDArray[Any]) -> None:
    expected = header.text(f"{OWN}data crc32")
    if expected != (found := f"{crc32(flat):08x}"):
        advice = "The data were damaged or changed since they were saved."
        raise mismatch(path.name, f"data with checksum {shown(expected, 8)}", found, advice)


def _doubts(header: Header, path: Path, layout: Layout, extra: int) -> list[str]:
    """What to say of a header of ours that was changed. Raises `CubeFileError` if it is damaged."""
    if not header.is_ours:
        return []
    saved, size, crc = (header.text(f"{OWN}data {key}") for key in ("layout", "bytes", "crc32"))
    if saved != str(layout):
        is_told = size.isdecimal() and len(crc) == 8 and not extra
        is_same = (
            size == str(path.stat().st_size)
            and crc == f"{crc32(np.memmap(path, np.uint8, 'r')):08x}"
        )
        if is_same or not is_told:
            raise header.error(
                f"the layout {shown(saved)}",
                str(layout),
                "The header was damaged since it was saved.",
            )
    return [CHANGED]


def _header_of(path: Path) -> Path | None:
    """*path* if it is a header by name, else `name.ext.hdr` or `name.hdr` beside it, in any case."""
    if path.suffix.lower() == ".hdr":
        return path if path.is_file() else None
    names = [f"{path.name}.hdr".casefold()]
    if path.suffix.lower() in DATA_SUFFIXES:
        names.append(f"{path.stem}.hdr".casefold())
    headers = [
        entry
        for entry in path.parent.iterdir()
        if entry.name.casefold() in names and entry.is_file()
    ]
    return min(headers, key=lambda entry: names.index(entry.name.casefold()), default=None)


def data_of(header: Header, path: Path, layout: Layout) -> Path:
    """The one data file of the header at *path*. Raises `CubeFileError` if there is none, or several."""
    found = [entry for entry in path.parent.iterdir() if _may_be_data(entry, path)]
    exact = [entry for entry in found if entry.stat().st_size == layout.offset + layout.data_bytes]
    ours = [entry for entry in exact if header.is_sealed and entry.suffix == ".img"]
    likely = [
        entry for entry in found if entry.name.removeprefix(path.stem).lower() in DATA_SUFFIXES
    ]
    for candidates in (ours, exact, likely):
        if len(candidates) == 1:
            return candidates[0]
    names = shown(", ".join(sorted(entry.name for entry in exact or likely)) or "none")
    advice = "Open the data file itself, or rename it."
    raise mismatch(path.parent.name, f"one data file named {shown(path.stem)}", names, advice)


def _may_be_data(entry: Path, header: Path) -> bool:
    stem = header.stem.casefold()
    name = entry.name.casefold()
    is_named = name == stem or name.startswith(f"{stem}.")
    has_own_header = name != stem and entry.with_name(f"{entry.name}.hdr").exists()
    return (
        is_named
        and entry.suffix.lower() not in (".hdr", ".xml")
        and entry.is_file()
        and not has_own_header
    )
