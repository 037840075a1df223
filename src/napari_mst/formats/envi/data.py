"""The data file of an ENVI raster: a flat run of numbers, in memory or mapped.

Letters: B bands, H rows, W columns.
"""

import gzip
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_mst.formats.envi.header import AXES, OWN, Header, Layout
from napari_mst.formats.numbers import DEFLATE_RATIO, check_room, crc32, in_native_order, is_large
from napari_mst.formats.seal import CHANGED
from napari_mst.messages import mismatch, shown


def load(
    header: Header, path: Path, layout: Layout, verify: bool | None
) -> tuple[NDArray[Any], list[str]]:
    """The (B, H, W) numbers of the data file at *path* as stored, and warnings.

    The numbers are in memory, contiguous and in native byte order; or a view of a memory map.

    Parameters
    ----------
    verify
        Compare them with the checksum in a header that is as we wrote it; None does so where they
        are in memory.

    Raises
    ------
    CubeFileError
        If the file is too short, damaged, or not what its header says.
    """
    excess = 0
    if layout.is_compressed:
        # Compressed data cannot be mapped, however large they are.
        flat: NDArray[Any] = np.frombuffer(_inflated(path, layout), layout.dtype)
    else:
        excess = _excess(path, layout)
        flat = _numbers(path, layout)
    warnings = header.doubts(layout)
    if excess:
        warnings.append(
            f"The data file is {excess} bytes longer than its header says; they are ignored."
        )
    # A checksum counts only in a header that is as we wrote it.
    if not header.is_sealed:
        warnings += _doubts(header, path, layout, excess)
    elif verify or (verify is None and not isinstance(flat, np.memmap)):
        _verify(header, path, flat)
    cube = flat.reshape(layout.stored_shape).transpose(AXES[layout.interleave])
    return in_native_order(cube), warnings


def _excess(path: Path, layout: Layout) -> int:
    """Bytes of the data file beyond those needed. Raises `CubeFileError` if there are too few."""
    found = path.stat().st_size
    needed = layout.offset + layout.data_bytes
    if found < needed:
        raise mismatch(path.name, f"{needed} bytes", str(found), "The data file is incomplete.")
    return found - needed


def _numbers(path: Path, layout: Layout) -> NDArray[Any]:
    if is_large(layout.data_bytes):
        return np.memmap(path, layout.dtype, "r", layout.offset, (layout.count,))
    flat = np.fromfile(path, layout.dtype, layout.count, offset=layout.offset)
    # The size was compared before, so another program is changing the file at this moment.
    if flat.size != layout.count:
        raise mismatch(path.name, f"{layout.count} numbers", str(flat.size), "Read it again.")
    return flat


def _inflated(path: Path, layout: Layout) -> bytes:
    """The numbers of a gzip-compressed data file, never more than the header says.

    Raises `CubeFileError`.
    """
    needed = layout.offset + layout.data_bytes
    most = DEFLATE_RATIO * path.stat().st_size
    if needed > most:
        expected = f"at most {most} bytes, compressed"
        raise mismatch(path.name, expected, str(needed), "Decompress it first.")
    check_room(path.name, needed)
    try:
        with gzip.open(path) as file:
            # Reading stops at what is needed, so a bomb is never inflated.
            data = file.read(needed)
    except (OSError, EOFError, zlib.error):
        advice = "Check 'file compression'."
        raise mismatch(path.name, "gzip data", "other or damaged data", advice) from None
    if len(data) < needed:
        raise mismatch(path.name, f"{needed} bytes", str(len(data)), "The data file is incomplete.")
    return data[layout.offset :]


def _verify(header: Header, path: Path, flat: NDArray[Any]) -> None:
    """Compare the numbers with the checksum in the *header*. Raises `CubeFileError`."""
    expected = header.text(f"{OWN}data crc32")
    found = f"{crc32(flat):08x}"
    if found != expected:
        advice = "The data were damaged or changed since they were saved."
        raise mismatch(path.name, f"data with checksum {shown(expected, 8)}", found, advice)


def _doubts(header: Header, path: Path, layout: Layout, excess: int) -> list[str]:
    """The warning about a header of ours that was changed.

    Raises `CubeFileError` if the header is damaged: where the data are still those that we saved,
    they cannot lie otherwise than we wrote.
    """
    if not header.is_ours:
        return []
    saved = header.text(f"{OWN}data layout")
    if saved == str(layout):
        return [CHANGED]
    size = header.text(f"{OWN}data bytes")
    crc = header.text(f"{OWN}data crc32")
    # Who cuts an image changes its data and its layout. Where the data are as they were, nobody
    # cut it, and the layout is damaged.
    is_told = size.isdecimal() and len(crc) == 8 and not excess
    is_same = size == str(path.stat().st_size) and crc == _file_checksum(path)
    if is_same or not is_told:
        advice = "The header was damaged since it was saved."
        raise header.error(f"the layout {shown(saved)}", str(layout), advice)
    return [CHANGED]


def _file_checksum(path: Path) -> str:
    return f"{crc32(np.memmap(path, np.uint8, 'r')):08x}"
