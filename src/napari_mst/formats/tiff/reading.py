"""Reading TIFF stacks of bands: ours, and those of GDAL, ImageJ, OME and others.

Letters: B bands, H rows, W columns.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from napari_mst.cube import SpectralCube
from napari_mst.errors import ColourPhoto
from napari_mst.formats import seal
from napari_mst.formats.arrays import band_axis_of
from napari_mst.formats.envi.header import Header
from napari_mst.formats.numbers import in_native_order, is_large
from napari_mst.formats.record import Description, described_cube
from napari_mst.formats.tiff.beside import applied, described, header_beside
from napari_mst.formats.tiff.metadata import SEAL, describe, has_lost_its_seal
from napari_mst.formats.tiff.opening import check_chain, check_size, is_tiff, opened
from napari_mst.messages import mismatch
from napari_mst.photo.planes import whole_series

if TYPE_CHECKING:
    from tifffile import TiffFile, TiffPageSeries

__all__ = ["is_own_tiff", "is_tiff", "read_tiff"]

# PhotometricInterpretation (TIFF 6.0): 2 is RGB; 3 palette, 5 CMYK and 6 YCbCr are colours always.
_RGB = 2
_ALWAYS_COLOUR = (3, 5, 6)


@dataclass(frozen=True)
class _Told:
    """The descriptions in a TIFF and in the ENVI header beside it, and warnings about the two."""

    description: Description
    header: Header | None
    warnings: list[str]


def is_own_tiff(path: Path) -> bool:
    """True if the TIFF at *path* is a cube that we saved, or that a program made from one."""
    with opened(path) as tif:
        return SEAL in tif.pages.first.tags or has_lost_its_seal(tif)


def read_tiff(
    path: Path, *, band_axis: int | None = None, scale: bool = True, verify: bool | None = None
) -> SpectralCube:
    """The cube in the first image of the TIFF at *path*: planar or interleaved bands, or pages.

    For a file that is not ours the ENVI header beside it (`name.tif.hdr`, `name.hdr`) is used: its
    wavelengths and its scaling.

    Parameters
    ----------
    band_axis
        0 or -1: which axis holds the bands, where neither metadata nor sizes tell.
    scale
        Apply gains, offsets and the reflectance scale factor of a header beside the file, once:
        floats, with NaN for ignored values. False keeps the numbers as stored.
    verify
        Compare the numbers with the checksum that we saved; by default unless the file is
        memory-mapped.

    Returns
    -------
    What was assumed or ignored on the way is in `metadata["warnings"]`.

    Raises
    ------
    CubeFileError
        If the file is damaged, incomplete, not a cube, or needs a codec that is not installed.
    """
    with opened(path) as tif:
        check_chain(tif)
        series = whole_series(tif)[0]
        told = _told(path, tif)
        check_size(path, series)
        _check_contents(tif, told.description)
        stored = _numbers(path, tif)
        cube = _bands_first(stored, series.axes, told.description, band_axis, path.name)
        warnings = _warnings(tif)
    data = in_native_order(cube)
    description = told.description
    seal.check_shape(path.name, data, description)
    seal.verify(path.name, data, description, verify)
    warnings += told.warnings
    if told.header is not None:
        data, description, doubts = applied(told.header, data, description, scale=scale)
        warnings += doubts
    return described_cube(data, description, warnings)


def _told(path: Path, tif: "TiffFile") -> _Told:
    own = describe(tif)
    # Only a seal gives the shape: a file of ours needs no header, and one beside it is another's.
    if own.shape:
        return _Told(own, None, [])
    header, warnings = header_beside(path, tif.series[0])
    if header is None:
        return _Told(own, None, warnings)
    description, warnings = described(header, own)
    return _Told(description, header, warnings)


def _warnings(tif: "TiffFile") -> list[str]:
    warnings = []
    if len(tif.series) > 1:
        warnings.append(f"The file holds {len(tif.series)} images; the first was read.")
    if has_lost_its_seal(tif):
        warnings.append(seal.CHANGED)
    return warnings


def _numbers(path: Path, tif: "TiffFile") -> NDArray[Any]:
    """The numbers of the first image: in memory, or mapped if they are many and in one piece."""
    series: TiffPageSeries = tif.series[0]
    # Without a range of planes, tifffile takes those of all files for being in this one where the
    # places fit.
    if series.is_multifile:
        return series.asarray(key=slice(None)).reshape(series.shape)
    # Numbers that are compressed or in several places cannot be mapped.
    if series.dataoffset is None or not is_large(series.nbytes):
        return series.asarray()
    order: Literal["<", ">"] = ">" if tif.byteorder == ">" else "<"
    dtype = series.dtype.newbyteorder(order)
    return np.memmap(path, dtype, "r", series.dataoffset, shape=series.shape)


def _check_contents(tif: "TiffFile", description: Description) -> None:
    """Refuse a stack that lost pages, and a colour photo."""
    _check_planes(tif, description)
    _check_colours(tif, description)


def _check_planes(tif: "TiffFile", description: Description) -> None:
    """Refuse a stack that lost pages."""
    series = tif.series[0]
    page = tif.pages.first
    # ImageJ's metadata say how many images the file should have.
    images = int((tif.imagej_metadata or {}).get("images", 1))
    sealed = int(np.prod(description.shape)) if description.shape else series.size
    if sealed != series.size or images * page.size > series.size:
        bands = description.shape[0] if description.shape else images
        found = str(series.size // page.size)
        raise mismatch(tif.filename, f"{bands} planes", found, "Get the file again.")


def _check_colours(tif: "TiffFile", description: Description) -> None:
    """Refuse a colour photo, unless something says that its channels are bands."""
    page = tif.pages.first
    is_rgb = page.photometric == _RGB and page.samplesperpixel in (3, 4)
    is_colour = is_rgb or page.photometric in _ALWAYS_COLOUR
    if is_colour and not description.shape and not description.wavelengths:
        advice = "Open it as a photo instead."
        raise ColourPhoto(str(mismatch(tif.filename, "a spectral cube", "a colour photo", advice)))


def _bands_first(
    stored: NDArray[Any],
    axes: str,
    description: Description,
    band_axis: int | None,
    name: str,
) -> NDArray[Any]:
    """*stored* as (B, H, W), from the *axes* that tifffile names, one letter for each."""
    if description.shape:
        return stored.reshape(description.shape)
    # Axes of length one beside rows and columns fall away.
    kept = [
        (letter, size)
        for letter, size in zip(axes, stored.shape, strict=True)
        if letter in "YX" or size > 1
    ]
    letters = "".join(letter for letter, _ in kept)
    cube = stored
    if len(kept) > 1:
        cube = cube.reshape([size for _, size in kept])
    if cube.ndim == 2:
        cube = cube[np.newaxis]
    if cube.ndim != 3:
        advice = "Save one stack in a file of its own."
        raise mismatch(name, "one stack of bands", f"axes {axes}", advice)
    axis = _band_axis(letters, cube.shape, len(description.wavelengths), band_axis)
    return np.moveaxis(cube, axis, 0)


def _band_axis(axes: str, shape: tuple[int, ...], wavelengths: int, wanted: int | None) -> int:
    """0 or -1: as the axes say, else as `band_axis_of`."""
    # Q is tifffile's letter for an axis that nothing names, S the one for interleaved samples.
    if wanted is None and (len(axes) < 3 or "Q" not in axes):
        return -1 if axes.endswith("S") and len(axes) == 3 else 0
    return band_axis_of(shape, wavelengths, wanted)
