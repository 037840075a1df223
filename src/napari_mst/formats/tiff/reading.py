"""Reading TIFF stacks of bands, written by us, GDAL, ImageJ, OME and others.

Damage that tifffile raises, only logs or overlooks becomes one kind of error. An ENVI header beside
a TIFF (`file type = TIFF`, or written by hand as for a raster) describes its bands and numbers.

Letters: B bands, H rows, W columns.
"""

import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from napari_mst.base.arrays import Array
from napari_mst.base.errors import ColourPhoto, CubeFileError, complete, mismatch, shown
from napari_mst.base.memory import check_room
from napari_mst.cube import SpectralCube
from napari_mst.cube.lazy import Lazy, Numbers
from napari_mst.formats.array_files import band_axis_of
from napari_mst.formats.conventions import APPLIED, physical
from napari_mst.formats.cube_record import CHANGED, IGNORED, Description, check, described_cube
from napari_mst.formats.envi import header_fields
from napari_mst.formats.envi.georeference import read_from_envi
from napari_mst.formats.envi.header import DATA_SUFFIXES, Header, first_named, header_bytes
from napari_mst.formats.lazy_files import Chunks, in_chunks
from napari_mst.formats.numbers import in_native_order, is_large, too_large
from napari_mst.formats.tiff.enmap import enmap_header, enmap_metadata
from napari_mst.formats.tiff.writing import SEAL, describe, has_lost_its_seal, scaling_of
from napari_mst.photo.planes import tifffile_log, whole_series
from napari_mst.photo.raw_header import TIFF_MARKS, is_raw

if TYPE_CHECKING:
    from tifffile import TiffFile, TiffPageSeries


# PhotometricInterpretation (TIFF 6.0): 2 is RGB; 3 palette, 5 CMYK and 6 YCbCr are always colours.
_RGB = 2
_UNSPECIFIED = 0  # an extra sample without a defined meaning: TIFF 6.0, tag 338
_ALWAYS_COLOUR = (3, 5, 6)


def is_own_tiff(path: Path) -> bool:
    """True if the TIFF at *path* is a cube that we saved, or was derived from one."""
    with opened(path) as tif:
        return SEAL in tif.pages.first.tags or has_lost_its_seal(tif)


def read_tiff(
    path: Path,
    *,
    band_axis: int | None = None,
    bands: int = 0,
    scale: bool = True,
    verify: bool | None = None,
) -> SpectralCube:
    """The cube in the first image of the TIFF at *path*: planar or interleaved bands, or pages.

    Wavelengths and scaling of a file that is not ours come from the ENVI header beside it
    (`name.tif.hdr`, `name.hdr`) or from GDAL's `name.tif.aux.xml`. See `read_cube` for the options;
    *bands* is the number of wavelengths that the user gives, 0 for none, which may identify the
    axis of the bands.

    Raises
    ------
    CubeFileError
        If the file is damaged, incomplete, not a cube, or needs a codec that is not installed.
    """
    with opened(path) as tif:
        check_chain(tif)
        series, warnings = _image(tif)
        description = describe(tif, path)
        header: Header | None = None
        scaling: dict[str, Any] = {}
        # Only a seal gives the shape. A file of ours needs no header, so a header beside it belongs
        # to another file.
        if not description.shape:
            header, doubts = header_beside(path, series)
            warnings += doubts
            description = _with_header(description, header, warnings)
        check_size(path, series)
        _check_planes(tif, series, description)
        _check_colours(tif, description)
        count = len(description.wavelengths) or bands
        shape, axis, doubts = _layout(series, description, count, band_axis, path.name)
        # tifffile takes the smallest float32 for damage, and fills missing tiles with 0.
        if series.dtype.kind == "f" and IGNORED in description.fields:
            series.keyframe.nodata = float(description.fields[IGNORED])
        cube = np.moveaxis(_numbers(path, tif, series, shape), axis, 0)
        if not description.shape:
            scaling = scaling_of(tif, path, len(cube))
        if has_lost_its_seal(tif):
            warnings.append(CHANGED)
    data = in_native_order(cube)
    check(path.name, data, description, verify)
    warnings += doubts
    if header is not None:
        data, description = _by_header(data, header, description, warnings, scale=scale)
        # Scaling by the header is complete.
        scaling = {} if APPLIED in description.fields else scaling
    if scaling:
        data, fields, quantity, doubts = physical(data, scaling, description.fields, scale=scale)
        description = replace(description, fields=fields, quantity=quantity or description.quantity)
        warnings += doubts
    return described_cube(data, description, warnings)


def _by_header(
    stored: Numbers, header: Header, description: Description, warnings: list[str], *, scale: bool
) -> tuple[Numbers, Description]:
    """The physical numbers and their description, by the *header* beside the file."""
    data, fields, quantity, doubts = header_fields.described(
        stored, header, description.fields, scale=scale
    )
    # The georeference in GeoTIFF tags takes precedence over the one in the header.
    fields, doubts_of_place = read_from_envi(fields, is_sealed=True)
    warnings += [*doubts, *doubts_of_place]
    return data, replace(description, fields=fields, quantity=quantity)


_FEWEST = 3  # smallest number of equal pages that count as bands


def _with_header(
    description: Description, header: Header | None, warnings: list[str]
) -> Description:
    """*description* with the wavelengths and names of the *header* beside the file."""
    if header is None:
        return description
    names = header.items("band names") or description.names
    description = replace(description, names=names)
    texts = header.numbers("wavelength")
    if texts and description.wavelengths:
        warnings.append("The wavelengths are those of the header beside the file.")
    return replace(description, wavelengths=texts, unit=header.unit_word) if texts else description


def _image(tif: "TiffFile") -> tuple["TiffPageSeries", list[str]]:
    """The first image in *tif*, and a warning about others.

    Images of one plane and one size are the bands of a single image, as tifffile writes one page by
    page.
    """
    from tifffile import TiffPageSeries

    first, *others = images = whole_series(tif)
    if not others:
        return first, []
    kinds = {(each.kind, each.shape, each.dtype) for each in images}
    is_stack = len(images) >= _FEWEST and len(kinds) == 1 and first.axes == "YX"
    if not is_stack or first.kind != "shaped":
        return first, [f"The file holds {len(images)} images; the first was read."]
    pages = [each.keyframe for each in images]
    shape = (len(pages), *first.shape)
    stack = TiffPageSeries(pages, shape, first.dtype, "IYX", parent=tif, kind="generic")
    return stack, [f"The {len(pages)} images of the file were taken for its bands."]


def _numbers(
    path: Path, tif: "TiffFile", series: "TiffPageSeries", shape: tuple[int, ...]
) -> Numbers:
    """The numbers of an image with three axes: in memory, or in the file if it is large."""
    # Without a range of planes, tifffile would read the planes of other files from this file if the
    # offsets fit.
    if series.is_multifile:
        check_room(path.name, series.nbytes)
        return series.asarray(key=slice(None)).reshape(shape)
    if is_large(series.nbytes):
        order: Literal["<", ">"] = ">" if tif.byteorder == ">" else "<"
        if series.dataoffset is not None:
            dtype = series.dtype.newbyteorder(order)
            return np.memmap(path, dtype, "r", series.dataoffset, shape)
        lazy = _in_tiles(path, series, shape)
        if lazy is not None:
            return lazy
    if series.dataoffset is None:
        check_room(path.name, series.nbytes)
    return series.asarray().reshape(shape)


def _in_tiles(path: Path, series: "TiffPageSeries", shape: tuple[int, ...]) -> Lazy | None:
    """A lazy array of tiles or strips decoded one by one; None for other layouts."""
    page, pages = series.keyframe, list[Any](series.pages)
    interleaved = page.samplesperpixel > 1 and page.planarconfig == _INTERLEAVED
    image = (page.imagelength, page.imagewidth)
    planes = len(pages) * (1 if interleaved else page.samplesperpixel)
    lying = (*image, page.samplesperpixel) if interleaved else (planes, *image)
    is_flat = page.imagedepth == 1 and (len(pages) == 1 or not interleaved)
    if shape != lying or not is_flat or None in pages:
        return None
    sides = page.chunks if interleaved else (1, *page.chunks)

    def decode(index: int, raw: Array) -> Array:
        segment: Any = page.decode(raw.tobytes(), index, jpegtables=page.jpegtables)[0]
        return segment[0] if interleaved else segment[..., 0]

    places = [
        (place, size, index)
        for each in pages
        for index, (place, size) in enumerate(
            zip(each.dataoffsets, each.databytecounts, strict=True)
        )
    ]
    chunks = Chunks(tuple(map(min, sides, shape)), np.array(places), decode, page.nodata)
    return in_chunks(path, shape, series.dtype, chunks)


def _check_planes(tif: "TiffFile", series: "TiffPageSeries", description: Description) -> None:
    """Refuse a stack with missing pages."""
    page = tif.pages.first
    # ImageJ's metadata give the number of images in the file.
    images = int((tif.imagej_metadata or {}).get("images", 1))
    sealed = int(np.prod(description.shape)) if description.shape else series.size
    if sealed != series.size or images * page.size > series.size:
        bands = description.shape[0] if description.shape else images
        planes = str(series.size // page.size)
        raise mismatch(tif.filename, f"{bands} planes", planes, "Get the file again.")


def _check_colours(tif: "TiffFile", description: Description) -> None:
    """Refuse a colour photo, unless the description says that its channels are bands."""
    page = tif.pages.first
    # Aerial photos have infrared as a fourth sample, which is not marked as alpha.
    is_infrared = page.samplesperpixel == 4 and page.extrasamples == (_UNSPECIFIED,)
    is_rgb = page.photometric == _RGB and page.samplesperpixel in (3, 4) and not is_infrared
    is_colour = is_rgb or page.photometric in _ALWAYS_COLOUR
    if is_colour and not description.shape and not description.wavelengths:
        advice = "Open it as a photo instead."
        raise ColourPhoto(str(mismatch(tif.filename, "a spectral cube", "a colour photo", advice)))


def _layout(
    series: "TiffPageSeries",
    description: Description,
    count: int,
    band_axis: int | None,
    name: str,
) -> tuple[tuple[int, ...], int, list[str]]:
    """The stored shape with three axes, the axis of *count* bands, and doubts about it.

    A *count* of 0 is unknown.
    """
    if description.shape:
        return description.shape, 0, []
    # Axes of length one, other than rows and columns, are dropped.
    sides = zip(series.axes, series.shape, strict=True)
    kept = [(letter, size) for letter, size in sides if letter in "YX" or size > 1]
    letters = "".join(letter for letter, _ in kept)
    shape = tuple(size for _, size in kept)
    if len(shape) == 2:
        shape = (1, *shape)
    if len(shape) != 3:
        advice = "Save one stack in a file of its own."
        raise mismatch(name, "one stack of bands", f"axes {series.axes}", advice)
    # Q is tifffile's letter for an unnamed axis.
    if band_axis is None and (len(letters) < 3 or "Q" not in letters):
        others = [at for at, letter in enumerate(letters) if letter not in "YX"]
        return shape, others[0] if len(others) == 1 else 0, []
    return shape, *band_axis_of(shape, count, band_axis)


COMPRESSION_RATIO = 1500
"""Largest compression ratio; an image that declares a larger one is damaged."""
SMALL_BYTES = 64 * 2**20
"""An image up to this size is harmless, however strongly it is compressed."""
# Tags whose damage changes the numbers: sizes, types, offsets and compression (TIFF 6.0, part 8).
_LAYOUT = "25[6-9]|262|266|273|27[789]|284|317|32[2-5]|339"
_DAMAGE = re.compile(f"invalid value offset|corrupted|TiffTag ({_LAYOUT}|{SEAL}) ")
_UNCOMPRESSED = 1
_INTERLEAVED = 1  # planar configuration


def is_tiff(path: Path) -> bool:
    """True if *path* begins as a TIFF or BigTIFF, and is not a RAW photo."""
    with path.open("rb") as file:
        return file.read(4) in TIFF_MARKS and not is_raw(path.suffix, file)


@contextmanager
def opened(path: Path) -> Iterator["TiffFile"]:
    """The open TIFF; damage that tifffile raises or logs becomes a `CubeFileError`."""
    import tifffile

    # tifffile raises all kinds of errors about a damaged file, but only logs pages and tags beyond
    # the end of the file. It reads a tag on first use, so the log is complete only after the block.
    with complete(path.name, "TIFF"), tifffile_log() as logged, tifffile.TiffFile(path) as tif:
        yield tif
        damage = next(filter(_DAMAGE.search, logged), None)
        if damage:
            raise ValueError(damage)


def check_chain(tif: "TiffFile") -> None:
    """Follow the chain of pages to its end.

    tifffile stops at a broken link, and would return a cube with fewer bands. Raises `ValueError`
    if the chain returns to a page, or leaves the file.
    """
    file, form = tif.filehandle, tif.tiff
    offset = tif.pages.first.offset
    seen: set[int] = set()
    while offset:
        if offset in seen:
            raise ValueError(f"a chain of pages that returns to byte {offset}")
        seen.add(offset)
        try:
            file.seek(offset)
            (tags,) = struct.unpack(form.tagnoformat, file.read(form.tagnosize))
            file.seek(offset + form.tagnosize + tags * form.tagsize)
            (offset,) = struct.unpack(form.offsetformat, file.read(form.offsetsize))
        except struct.error:
            raise ValueError(f"a page at byte {offset}, beyond the end of the file") from None


def check_size(path: Path, series: "TiffPageSeries") -> None:
    """Refuse an image that the file cannot hold, before any allocation."""
    pages = [page for page in series.pages if page is not None]
    files = {page.parent.filehandle.path: page.parent.filehandle.size for page in pages}
    size = sum(files.values())
    # GDAL omits empty tiles and gives them zero bytes.
    is_packed = any(page.compression != _UNCOMPRESSED or 0 in page.databytecounts for page in pages)
    most = max(SMALL_BYTES, size * COMPRESSION_RATIO) if is_packed else size
    if series.nbytes > most:
        raise too_large(path.name, most, series.nbytes)


def header_beside(path: Path, series: "TiffPageSeries") -> tuple[Header | None, list[str]]:
    """The header of the TIFF at *path*, or None; and a warning about an unusable header."""
    names = [f"{path.name}.hdr", f"{path.stem}.hdr"]
    enmap = enmap_metadata(path)
    header_path = enmap or first_named(path.parent, names)
    if header_path is None:
        return None, []
    name = shown(header_path.name, 40)
    try:
        raw = header_bytes(header_path)
        if enmap is not None:
            return enmap_header(raw, enmap.name), []
        # A header may begin with UTF-8's byte order mark. Other programs use `.hdr` files too.
        if not raw.lstrip(b"\xef\xbb\xbf").upper().startswith(b"ENVI"):
            return None, []
        header = Header.parse(raw, header_path.name)
        # The header belongs to the TIFF by its file type, by its name, or by exclusion.
        is_of_tiff = header.text("file type").upper() == "TIFF"
        is_named = header_path.stem.casefold() == path.name.casefold()
        if not is_of_tiff and not is_named and _has_other_data(path):
            return None, []
        fits = _fits(header, series)
    except (CubeFileError, OSError):
        return None, [f"The header {name} beside the file is damaged; it is not used."]
    if fits:
        return header, []
    return None, [
        f"The header {name} beside the file is of an image of another size; it is not used."
    ]


def _has_other_data(path: Path) -> bool:
    """True if ENVI data have the name of the TIFF, so that `name.hdr` belongs to them."""
    names = {f"{path.stem}{suffix}".casefold() for suffix in DATA_SUFFIXES}
    return any(entry.name.casefold() in names for entry in path.parent.iterdir())


def _fits(header: Header, series: "TiffPageSeries") -> bool:
    """True if the sizes in the header are those of the image."""
    page = series.keyframe
    rows = page.imagelength
    columns = page.imagewidth
    sizes = {"lines": rows, "samples": columns, "bands": series.size // (rows * columns)}
    # Sizes missing in the header cannot disagree.
    given = {key: size for key, size in sizes.items() if key in header.fields}
    return all(header.integer(key) == size for key, size in given.items())
