"""A folder of single-band PNG or TIFF files as one cube, as the CAVE database ships its scenes (`name_ms_01.png`, ...).

The bands are the largest set of files whose names differ in one number only; that number gives their order and, where
`nm` follows it, their wavelengths. Letters: B bands, H rows, W columns.
"""

import re
import warnings
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_mst.cube import SpectralCube
from napari_mst.errors import CubeFileError, PhotoError
from napari_mst.formats.numbers import check_room
from napari_mst.formats.record import Description, described_cube
from napari_mst.messages import mismatch, shown

_SUFFIXES = (".png", ".tif", ".tiff")
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)(\s*nm(?![a-z]))?", re.IGNORECASE)
_FEWEST = 3


@dataclass(frozen=True)
class _Band:
    file: Path
    number: str
    is_wavelength: bool


def is_folder_of_bands(path: Path) -> bool:
    """Whether the folder *path* holds three grey images or more whose names differ in one number."""
    from PIL import Image

    bands = _bands(path)
    if not bands:
        return False
    try:
        with warnings.catch_warnings(action="ignore"), Image.open(bands[0].file) as image:
            return image.mode in ("1", "L", "F") or image.mode.startswith("I")
    except Image.DecompressionBombError:
        return False


def read_folder(path: Path) -> SpectralCube:
    """The cube of the band images in the folder *path*: their numbers as stored, in the order of their names' numbers.

    Raises
    ------
    CubeFileError
        If there are none, or one is damaged, coloured, or of another size or type than the first.
    """
    bands = _bands(path)
    if not bands:
        raise mismatch(
            path.name, "band images numbered by name", "none", "Open a folder of PNG or TIFF files."
        )
    first = _decoded(bands[0])
    check_room(path.name, first.nbytes * len(bands))
    cube = np.empty((len(bands), *first.shape), first.dtype)
    for index, band in enumerate(bands):
        plane = _decoded(band) if index else first
        if (plane.shape, plane.dtype) != (first.shape, first.dtype):
            got = f"{plane.shape} {plane.dtype}"
            raise mismatch(
                band.file.name,
                f"{first.shape} {first.dtype}",
                got,
                "All bands need one size and type.",
            )
        cube[index] = plane
    texts = [band.number for band in bands] if all(band.is_wavelength for band in bands) else []
    return described_cube(cube, Description(texts, "nm", [band.file.stem for band in bands]))


def _bands(folder: Path) -> list[_Band]:
    """The largest set of images whose names differ in one number, by that number; none if two sets are as large."""
    families = defaultdict(list)
    for file in sorted(folder.iterdir()):
        if file.suffix.lower() in _SUFFIXES and not file.name.startswith(".") and file.is_file():
            families[_NUMBER.sub("\0", file.stem), file.suffix].append(file)
    found = sorted((family for family in map(_ordered, families.values()) if family), key=len)
    is_clear = len(found) == 1 or (len(found) > 1 and len(found[-1]) > len(found[-2]))
    return found[-1] if is_clear else []


def _ordered(files: list[Path]) -> list[_Band]:
    """*files*, whose names have the same words, by the one number in which they differ; none if that is not so."""
    numbers = [_NUMBER.findall(file.stem) for file in files]
    varying = [at for at, column in enumerate(zip(*numbers, strict=True)) if len(set(column)) > 1]
    if len(files) < _FEWEST or len(varying) != 1:
        return []
    bands = [
        _Band(file, *_split(parts[varying[0]])) for file, parts in zip(files, numbers, strict=True)
    ]
    return sorted(bands, key=lambda band: float(band.number))


def _split(match: tuple[str, str]) -> tuple[str, bool]:
    number, unit = match
    return number, bool(unit)


def _decoded(band: _Band) -> NDArray[Any]:
    from napari_mst.photo.files import decode_file

    try:
        plane, _ = decode_file(band.file, [])
    except PhotoError as error:
        raise CubeFileError(
            f"Expected a band image, got {shown(band.file.name, 40)}: {shown(error, 180)}"
        ) from error
    if plane.ndim != 2:
        raise mismatch(
            band.file.name,
            "one band",
            f"{plane.shape[2]} channels",
            "Open colour images as photos.",
        )
    return np.ascontiguousarray(plane, plane.dtype.newbyteorder("="))
