"""TIFF stacks of bands: written for GDAL and QGIS (default), for Fiji or as OME-TIFF; read from these and others.

The default is one planar image of B samples a pixel with the axes CYX: GDAL, napari, tifffile and imageio read it with
its wavelengths; ImageJ reads only its own flavour. Letters: B bands, H rows, W columns.
"""

import json
import logging
import re
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from napari_mst import crash_safe
from napari_mst.cube import SpectralCube
from napari_mst.errors import ColourPhoto, NapariMstError, SaveError
from napari_mst.formats import record
from napari_mst.formats.arrays import band_axis_of
from napari_mst.formats.envi.georeference import in_tiff
from napari_mst.formats.numbers import (
    LAZY_BYTES,
    blocks,
    check_room,
    checksum,
    rows_per_block,
    stored_type,
)
from napari_mst.formats.record import Description, described_cube
from napari_mst.formats.tiff import beside, metadata
from napari_mst.messages import mismatch, shown
from napari_mst.watch import UNWATCHED, Watch

if TYPE_CHECKING:
    from tifffile import FileHandle, TiffFile, TiffFormat, TiffPageSeries

Flavour = Literal["gdal", "imagej", "ome"]
_STORED = {
    "gdal": ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8"),
    "imagej": ("u1", "u2", "i2", "f4"),
    "ome": ("u1", "i1", "u2", "i2", "u4", "i4", "f4", "f8"),
}
_MAGIC = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_CLASSIC_BYTES = 2**32 - 2**25
"""The most that offsets of 32 bits reach, less room for tags; beyond it the file is a BigTIFF."""
_COMPRESSION_RATIO = 1500
_SMALL_BYTES = 64 * 2**20
_LAYOUT = "25[6-9]|262|266|273|27[789]|284|317|32[2-5]|339"
"""The tags without which numbers are read as others: sizes, types, places, compression (TIFF 6.0, section 8)."""
_DAMAGE = re.compile(f"invalid value offset|corrupted|TiffTag ({_LAYOUT}|{metadata.SEAL}) ")


def is_tiff(path: Path) -> bool:
    """Whether *path* begins as a TIFF or BigTIFF."""
    with path.open("rb") as file:
        return file.read(4) in _MAGIC


def is_own_tiff(path: Path) -> bool:
    """Whether the TIFF at *path* is a cube that we saved, or was made from one by another program."""
    with _opened(path) as tif:
        return metadata.SEAL in tif.pages.first.tags or metadata.has_lost_its_seal(tif)


def write_tiff(
    path: Path,
    cube: SpectralCube,
    *,
    overwrite: bool = False,
    watch: Watch = UNWATCHED,
    flavour: Flavour = "gdal",
    compress: bool = False,
) -> Path:
    """Save *cube*; *compress* without loss (deflate). Types that the flavour has not are widened without loss.

    Raises
    ------
    SaveError
        If the flavour cannot hold the numbers or the size, or as `crash_safe.saving`.
    """
    import tifffile

    if flavour not in _STORED:
        raise SaveError(
            f"Expected flavour {', '.join(_STORED)}, got {shown(flavour)!r}. Choose one of them."
        )
    dtype = stored_type(cube.data, _STORED[flavour], f"a TIFF ({flavour})")
    needed = cube.data.size * dtype.itemsize
    is_big = needed > _CLASSIC_BYTES
    if flavour == "imagej" and (is_big or cube.shape[2] == 1):
        raise SaveError(
            f"Expected 2 columns or more and under 4 GB for ImageJ, got {cube.shape}. Use flavour='ome'."
        )
    with crash_safe.saving(path, needed=needed + 2**20, overwrite=overwrite) as (temporary,):
        tifffile.imwrite(
            temporary,
            _encoded(cube.data, dtype, watch, compress),
            shape=cube.shape,
            dtype=dtype,
            byteorder="<",
            bigtiff=is_big,
            photometric="minisblack",
            rowsperstrip=min(rows_per_block(cube.shape[2], dtype), cube.shape[1])
            if compress
            else None,
            compression="zlib" if compress else None,
            **_arguments(cube, flavour, dtype),
        )
    return path


def read_tiff(
    path: Path, *, band_axis: int | None = None, scale: bool = True, verify: bool | None = None
) -> SpectralCube:
    """The cube in the first image of the TIFF at *path*: planar or interleaved bands, or pages.

    Of a file that is not ours the ENVI header beside it (`name.tif.hdr`, `name.hdr`) is used: wavelengths, scaling.

    Parameters
    ----------
    band_axis
        0 or -1: which axis holds the bands, where neither metadata nor sizes tell.
    scale
        Apply gains, offsets and the reflectance scale factor of a header beside the file, once: floats, with NaN for
        ignored values. False keeps the numbers as stored.
    verify
        Compare the numbers with the checksum that we saved; by default unless the file is memory-mapped.

    Returns
    -------
    What was assumed or ignored on the way is in `metadata["warnings"]`.

    Raises
    ------
    CubeFileError
        If the file is damaged, incomplete, not a cube, or needs a codec that is not installed.
    """
    with _opened(path) as tif:
        _check_chain(tif)
        description = metadata.describe(tif)
        series = tif.series[0]
        header, doubts = (None, []) if description.shape else beside.header_beside(path, series)
        if header is not None:
            description, doubts = beside.described(header, description)
        _check_size(path, series)
        _check_planes(tif, series, description)
        is_mapped = series.dataoffset is not None and series.nbytes > LAZY_BYTES
        stored = _mapped(path, series, tif.byteorder) if is_mapped else series.asarray()
        warnings = [f"The file holds {len(tif.series)} images; the first was read."] * (
            len(tif.series) > 1
        )
        warnings += [record.CHANGED] * metadata.has_lost_its_seal(tif)
        data = _bands_first(stored, series.axes, description, band_axis, path)
    record.check(path.name, data, description)
    if verify or (verify is None and not is_mapped):
        record.verify(path.name, data, description)
    if header is not None:
        data, description, more = beside.applied(header, data, description, scale=scale)
        doubts += more
    return described_cube(data, description, [*warnings, *doubts])


def _encoded(
    data: NDArray[Any], dtype: np.dtype[Any], watch: Watch, compress: bool
) -> Iterator[Any]:
    stored = blocks(data, dtype, watch)
    return (zlib.compress(block.data) for block in stored) if compress else stored


def _arguments(cube: SpectralCube, flavour: Flavour, dtype: np.dtype[Any]) -> dict[str, Any]:
    """The keywords of `tifffile.imwrite` that make the flavour."""
    cube, places = in_tiff(cube)
    told = record.record(cube)
    crc = checksum(cube.data, dtype)
    place = metadata.place({code: value for code, _, _, value, *_ in places})
    if flavour == "imagej":
        labels = metadata.xml_names(cube)
        told_imagej = {
            "axes": "CYX",
            "mode": "grayscale",
            "Labels": labels,
            "Info": json.dumps(told),
        }
        seal = record.seal(cube, dtype, crc, Description(fields=place))
        return {
            "imagej": True,
            "metadata": told_imagej,
            "extratags": [*places, _text_tag(metadata.SEAL, seal)],
        }
    if flavour == "ome":
        channels = metadata.ome_channels(cube)
        described = {"axes": "CYX", "Channel": channels, "Description": json.dumps(told)}
        seal = record.seal(cube, dtype, crc, metadata.seen_in_ome(channels, place))
        return {
            "ome": True,
            "metadata": described,
            "extratags": [*places, _text_tag(metadata.SEAL, seal)],
        }
    xml = metadata.gdal_xml(cube)
    nodata = str(cube.metadata.get("data ignore value", ""))
    seal = record.seal(cube, dtype, crc, metadata.seen_in_gdal(xml, nodata, place))
    tags = [
        *places,
        _text_tag(metadata.SEAL, seal),
        _text_tag(metadata.GDAL_METADATA, xml),
    ]
    if nodata:
        tags.append(_text_tag(metadata.GDAL_NODATA, nodata.encode()))
    planar = {"planarconfig": "separate"} if len(cube.data) > 1 else {}
    return {"metadata": {"axes": "CYX", **told}, "extratags": tags, **planar}


def _text_tag(code: int, text: bytes) -> tuple[int, int, int, bytes, bool]:
    """An ASCII tag (type 2) of the first page."""
    return code, 2, 0, text, True


@contextmanager
def _opened(path: Path) -> Iterator["TiffFile"]:
    """The open file; whatever tifffile raises or logs about damage becomes a `CubeFileError`."""
    import tifffile

    heard = _Listener()
    logger = logging.getLogger("tifffile")
    logger.addFilter(heard)
    try:
        with tifffile.TiffFile(path) as tif:
            yield tif
            heard.check()
    except (NapariMstError, MemoryError):
        raise
    except Exception as error:  # tifffile lets any type escape from a damaged file
        if "imagecodecs" in str(error):
            raise mismatch(
                path.name, "a known codec", "another", "Run: pip install imagecodecs"
            ) from error
        raise mismatch(
            path.name, "a complete TIFF", shown(error, 80), "Get the file again."
        ) from error
    finally:
        logger.removeFilter(heard)


class _Listener(logging.Filter):
    """Keeps what tifffile only logs: pages and tags that lie beyond the end of the file."""

    def __init__(self) -> None:
        super().__init__()
        self.damage = ""

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        if _DAMAGE.search(text):
            self.damage = self.damage or text
        return False

    def check(self) -> None:
        if self.damage:
            raise ValueError(self.damage)


def _check_chain(tif: "TiffFile") -> None:
    """Follow the chain of pages to its end; tifffile takes the pages before a fault for all of them.

    Raises `ValueError` if the chain returns to a page, or leaves the file.
    """
    form, file = tif.tiff, tif.filehandle
    offset, seen = tif.pages.first.offset, set[int]()
    while offset:
        if offset in seen:
            raise ValueError(f"a chain of pages that returns to byte {offset}")
        seen.add(offset)
        offset = _next_page(file, form, offset)


def _next_page(file: "FileHandle", form: "TiffFormat", offset: int) -> int:
    """Where the page after the one at *offset* begins; 0 after the last. Raises `ValueError` outside the file."""
    try:
        file.seek(offset)
        (tags,) = struct.unpack(form.tagnoformat, file.read(form.tagnosize))
        file.seek(offset + form.tagnosize + tags * form.tagsize)
        (following,) = struct.unpack(form.offsetformat, file.read(form.offsetsize))
    except struct.error:
        raise ValueError(f"a page at byte {offset}, beyond the end of the file") from None
    return int(following)


def _check_size(path: Path, series: "TiffPageSeries") -> None:
    """Refuse, before any allocation, an image that cannot be in the file."""
    found = path.stat().st_size
    is_compressed = any(page.compression != 1 for page in series.pages if page is not None)
    most = max(_SMALL_BYTES, found * _COMPRESSION_RATIO) if is_compressed else found
    if series.nbytes > most:
        advice = "The file is incomplete, or not what it says."
        raise mismatch(
            path.name, f"at most {most} bytes of numbers", f"{series.nbytes} declared", advice
        )
    if is_compressed:
        check_room(path.name, series.nbytes)


def _check_planes(tif: "TiffFile", series: "TiffPageSeries", description: Description) -> None:
    """Refuse a stack that lost pages, and a colour photo."""
    declared = int(np.prod(description.shape)) if description.shape else 0
    images = int((tif.imagej_metadata or {}).get("images", 1))
    page = tif.pages.first
    if (declared and declared != series.size) or images * page.size > series.size:
        bands = description.shape[0] if description.shape else images
        raise mismatch(
            tif.filename, f"{bands} planes", str(series.size // page.size), "Get the file again."
        )
    is_colour = page.photometric in (3, 5, 6) or (
        page.photometric == 2 and page.samplesperpixel in (3, 4)
    )
    if is_colour and not description.shape and not description.wavelengths:
        sentence = mismatch(
            tif.filename, "a spectral cube", "a colour photo", "Open it as a photo instead."
        )
        raise ColourPhoto(str(sentence))


def _mapped(path: Path, series: "TiffPageSeries", byteorder: str) -> NDArray[Any]:
    order: Literal["<", ">"] = ">" if byteorder == ">" else "<"
    return np.memmap(
        path, series.dtype.newbyteorder(order), "r", series.dataoffset or 0, shape=series.shape
    )


def _bands_first(
    stored: NDArray[Any], axes: str, description: Description, band_axis: int | None, path: Path
) -> NDArray[Any]:
    """*stored* as (B, H, W); in native byte order and contiguous unless it is a memory map."""
    if description.shape:
        cube = stored.reshape(description.shape)
    else:
        letters = [
            (letter, size)
            for letter, size in zip(axes, stored.shape, strict=True)
            if letter in "YX" or size > 1
        ]
        cube = stored.reshape([size for _, size in letters] if len(letters) > 1 else stored.shape)
        cube = cube[np.newaxis] if cube.ndim == 2 else cube
        if cube.ndim != 3:
            raise mismatch(
                path.name,
                "one stack of bands",
                f"axes {axes}",
                "Save one stack in a file of its own.",
            )
        axis = _band_axis(
            "".join(letter for letter, _ in letters),
            cube.shape,
            len(description.wavelengths),
            band_axis,
        )
        cube = np.moveaxis(cube, axis, 0)
    return (
        cube
        if isinstance(stored, np.memmap)
        else np.ascontiguousarray(cube, cube.dtype.newbyteorder("="))
    )


def _band_axis(axes: str, shape: tuple[int, ...], wavelengths: int, wanted: int | None) -> int:
    """0 or -1: as the axes say, else as `band_axis_of`."""
    if wanted is None and (len(axes) < 3 or "Q" not in axes):
        return -1 if axes.endswith("S") and len(axes) == 3 else 0
    return band_axis_of(shape, wavelengths, wanted)
