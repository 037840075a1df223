"""Folders of single-band PNG or TIFF files as one cube, as the CAVE database ships its scenes.

CAVE calls its files `name_ms_01.png`, `name_ms_02.png`, ... The bands are the largest set of files
whose names differ in one number only. That number gives their order and, where `nm` follows it,
their wavelengths. Letters: B bands, H rows, W columns.
"""

import re
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np

from napari_mst.arrays import Array
from napari_mst.cube import SpectralCube
from napari_mst.cube.lazy import check_room
from napari_mst.errors import CubeFileError, PhotoError, mismatch, shown
from napari_mst.formats.numbers import in_native_order
from napari_mst.formats.record import Description, described_cube

_SUFFIXES = (".png", ".tif", ".tiff")
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)(\s*nm(?![a-z]))?", re.IGNORECASE)
_FEWEST = 3


_Band = tuple[float, str, Path]
"""The number in the name of a file, its unit ("nm" of a wavelength, or ""), and the file."""


def is_folder_of_bands(path: Path) -> bool:
    """True if the folder *path* holds three or more grey images whose names differ in one number.

    Only the first of them is opened.
    """
    from PIL.Image import DecompressionBombError

    from napari_mst.photo.files import open_image

    bands = _bands(path)
    if not bands:
        return False
    try:
        # Pillow warns of large images, but here only their mode is asked for.
        with warnings.catch_warnings(action="ignore"), open_image(bands[0][2]) as image:
            # Pillow's modes of one channel; "I" also comes as "I;16" and "I;16B".
            return image.mode in ("1", "L", "F") or image.mode.startswith("I")
    except DecompressionBombError:
        return False


def read_folder(path: Path) -> SpectralCube:
    """The cube of the band images in the folder *path*.

    The numbers are as stored, in the order of the numbers in the names.

    Raises
    ------
    CubeFileError
        If there are no such images, or one is damaged, coloured, or of another size or type than
        the first.
    """
    bands = _bands(path)
    if not bands:
        advice = "Open a folder of PNG or TIFF files."
        raise mismatch(path.name, "band images numbered by name", "none", advice)
    numbers, units, files = zip(*bands, strict=True)
    first = _decoded(files[0])
    check_room(path.name, first.nbytes * len(bands))
    cube = np.empty((len(bands), *first.shape), first.dtype)
    cube[0] = first
    for index, file in enumerate(files[1:], start=1):
        plane = _decoded(file)
        if (plane.shape, plane.dtype) != (first.shape, first.dtype):
            expected = f"{first.shape} {first.dtype}"
            got = f"{plane.shape} {plane.dtype}"
            advice = "All bands need one size and type."
            raise mismatch(file.name, expected, got, advice)
        cube[index] = plane
    wavelengths = [repr(number) for number in numbers] if all(units) else []
    names = [file.stem for file in files]
    return described_cube(cube, Description(wavelengths, "nm", names))


def _bands(folder: Path) -> list[_Band]:
    """The largest set of images whose names differ in one number, in the order of that number.

    Empty if there is no such set, or if two are equally large.
    """
    families = defaultdict(list)
    for file in sorted(folder.iterdir()):
        if file.suffix.lower() in _SUFFIXES and not file.name.startswith(".") and file.is_file():
            words = _NUMBER.sub("\0", file.stem)
            families[words, file.suffix].append(file)
    ordered = [_ordered(files) for files in families.values()]
    largest = max(ordered, key=len, default=[])
    rivals = [family for family in ordered if len(family) == len(largest)]
    return largest if len(rivals) == 1 else []


def _ordered(files: list[Path]) -> list[_Band]:
    """*files*, whose names have the same words, in the order of the one number that differs.

    Empty if they are too few, or if more than one number differs.
    """
    numbers = [_NUMBER.findall(file.stem) for file in files]
    columns = zip(*numbers, strict=True)
    varying = [place for place, column in enumerate(columns) if len(set(column)) > 1]
    if len(files) < _FEWEST or len(varying) != 1:
        return []
    bands = []
    for file, named in zip(files, numbers, strict=True):
        number, unit = named[varying[0]]
        bands.append((float(number), unit, file))
    return sorted(bands)


def _decoded(file: Path) -> Array:
    from napari_mst.photo.files import decode_file

    name = file.name
    try:
        plane, *_ = decode_file(file, [])
    except PhotoError as error:
        raise CubeFileError(
            f"Expected a band image, got {shown(name, 40)}: {shown(error, 180)}"
        ) from error
    if plane.ndim != 2:
        channels = f"{plane.shape[2]} channels"
        raise mismatch(name, "one band", channels, "Open colour images as photos.")
    return in_native_order(plane)
