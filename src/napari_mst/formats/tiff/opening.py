"""Opening TIFF files that may be damaged.

What tifffile raises, only logs or overlooks becomes one kind of error.
"""

import logging
import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from napari_mst.errors import NapariMstError
from napari_mst.formats.numbers import check_room
from napari_mst.formats.tiff.metadata import SEAL
from napari_mst.messages import mismatch, shown
from napari_mst.photo.raw_header import is_raw

if TYPE_CHECKING:
    from tifffile import FileHandle, TiffFile, TiffFormat, TiffPageSeries

_MAGIC = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
COMPRESSION_RATIO = 1500
"""The most that we let a compressed image grow; one that declares more is taken for damage."""
SMALL_BYTES = 64 * 2**20
"""An image of this size is harmless, whatever its file is compressed to."""
# The tags without which numbers are read as others: sizes, types, places and compression
# (TIFF 6.0, section 8).
_LAYOUT = "25[6-9]|262|266|273|27[789]|284|317|32[2-5]|339"
_DAMAGE = re.compile(f"invalid value offset|corrupted|TiffTag ({_LAYOUT}|{SEAL}) ")
_UNCOMPRESSED = 1


def is_tiff(path: Path) -> bool:
    """True if *path* begins as a TIFF or BigTIFF, and is no RAW photo."""
    with path.open("rb") as file:
        return file.read(4) in _MAGIC and not is_raw(path.suffix, file)


@contextmanager
def opened(path: Path) -> Iterator["TiffFile"]:
    """The open file; whatever tifffile raises or logs about damage becomes a `CubeFileError`."""
    import tifffile

    listener = _Listener()
    logger = logging.getLogger("tifffile")
    logger.addFilter(listener)
    try:
        with tifffile.TiffFile(path) as tif:
            yield tif
            # tifffile reads a tag when it is asked for, so damage may be logged up to here.
            listener.check()
    except (NapariMstError, MemoryError):
        raise
    # tifffile lets any type escape from a damaged file.
    except Exception as error:
        # That a codec is not installed stands only in the text of the error.
        if "imagecodecs" in str(error):
            advice = "Run: pip install imagecodecs"
            raise mismatch(path.name, "a known codec", "another", advice) from error
        found = shown(error, 80)
        raise mismatch(path.name, "a complete TIFF", found, "Get the file again.") from error
    finally:
        logger.removeFilter(listener)


def check_chain(tif: "TiffFile") -> None:
    """Follow the chain of pages to its end.

    tifffile takes the pages before a fault for all of them, and would give a cube with fewer bands.
    Raises `ValueError` if the chain returns to a page, or leaves the file.
    """
    offset = tif.pages.first.offset
    seen: set[int] = set()
    while offset:
        if offset in seen:
            raise ValueError(f"a chain of pages that returns to byte {offset}")
        seen.add(offset)
        offset = _next_page(tif.filehandle, tif.tiff, offset)


def check_size(path: Path, series: "TiffPageSeries") -> None:
    """Refuse, before any allocation, an image that cannot be in the file."""
    pages = [page for page in series.pages if page is not None]
    files = {page.parent.filehandle.path: page.parent.filehandle.size for page in pages}
    found = sum(files.values())
    is_compressed = any(page.compression != _UNCOMPRESSED for page in pages)
    most = max(SMALL_BYTES, found * COMPRESSION_RATIO) if is_compressed else found
    if series.nbytes > most:
        expected = f"at most {most} bytes of numbers"
        advice = "The file is incomplete, or not what it says."
        raise mismatch(path.name, expected, f"{series.nbytes} declared", advice)
    # Numbers in one piece may be mapped, which takes no memory.
    if is_compressed or series.is_multifile:
        check_room(path.name, series.nbytes)


class _Listener(logging.Filter):
    """Keeps what tifffile only logs: pages and tags that lie beyond the end of the file."""

    def __init__(self) -> None:
        super().__init__()
        self.damage = ""

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        if _DAMAGE.search(text):
            self.damage = self.damage or text
        # Damage becomes an error; the rest of the log is not for the person who opens a file.
        return False

    def check(self) -> None:
        if self.damage:
            raise ValueError(self.damage)


def _next_page(file: "FileHandle", form: "TiffFormat", offset: int) -> int:
    """The offset of the page after the one at *offset*; 0 after the last.

    Raises `ValueError` outside the file.
    """
    try:
        file.seek(offset)
        (tags,) = struct.unpack(form.tagnoformat, file.read(form.tagnosize))
        file.seek(offset + form.tagnosize + tags * form.tagsize)
        (following,) = struct.unpack(form.offsetformat, file.read(form.offsetsize))
    except struct.error:
        raise ValueError(f"a page at byte {offset}, beyond the end of the file") from None
    return int(following)
