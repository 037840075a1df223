"""Folders of single-band PNG or TIFF files as one cube, like the scenes of the CAVE database.

CAVE names its files `name_ms_01.png`, `name_ms_02.png`, ..., in a folder within a folder. The bands
are the largest set of files whose names differ only in numbers. The number that differs in every
file gives the order and, if `nm` follows or it can be nothing else, the wavelengths. Letters: B
bands, H rows, W columns.
"""

import re
import warnings
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from napari_mst.base.arrays import Array
from napari_mst.base.errors import CubeFileError, PhotoError, mismatch, shown
from napari_mst.base.memory import check_room
from napari_mst.cube import SpectralCube
from napari_mst.formats.cube_record import Description, described_cube
from napari_mst.formats.numbers import in_native_order

_SUFFIXES = (".png", ".tif", ".tiff")
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)(\s*nm(?![a-z]))?", re.IGNORECASE)
_FEWEST = 3
_RANGE = (300, 2600)  # nm
_STEP = 2  # nm


_Band = tuple[float, str, Path]
"""The number in the name of a file, its unit ("nm" for a wavelength, else ""), and the file."""

_Number = tuple[str, str]
"""The digits and the unit of a number in a name."""


def is_folder_of_bands(path: Path) -> bool:
    """True if the folder *path* holds three or more grey images whose names differ in one number.

    Only the first image is opened.
    """
    from PIL.Image import DecompressionBombError

    from napari_mst.photo.files import open_image

    try:
        first = _bands(path)[0][2]
        # Pillow warns about large images, but only the mode is needed here.
        with warnings.catch_warnings(action="ignore"), open_image(first) as image:
            # Pillow's modes of one channel; "I" also comes as "I;16" and "I;16B".
            is_grey = image.mode in ("1", "L", "F") or image.mode.startswith("I")
        return is_grey or _decoded(first).ndim == 2
    except (CubeFileError, DecompressionBombError):
        return False


def read_folder(path: Path) -> SpectralCube:
    """The cube of the band images in the folder *path*.

    The bands have the order of the numbers in the names; values stay as stored.

    Raises
    ------
    CubeFileError
        If there are no such images, or one is damaged, coloured, or differs from the first in size
        or type.
    """
    numbers, units, files = zip(*_bands(path), strict=True)
    first = _decoded(files[0])
    check_room(path.name, first.nbytes * len(files))
    cube = np.empty((len(files), *first.shape), first.dtype)
    cube[0] = first
    for index, file in enumerate(files[1:], start=1):
        plane = _decoded(file)
        if (plane.shape, plane.dtype) != (first.shape, first.dtype):
            expected = f"{first.shape} {first.dtype}"
            got = f"{plane.shape} {plane.dtype}"
            advice = "All bands need one size and type."
            raise mismatch(file.name, expected, got, advice)
        cube[index] = plane
    doubts = []
    if not all(units) and _can_only_be_nm(numbers):
        doubts = ["The numbers in the names of the files were taken for wavelengths in nm."]
    wavelengths = [repr(number) for number in numbers] if all(units) or doubts else []
    names = [file.stem for file in files]
    return described_cube(cube, Description(wavelengths, "nm", names), doubts)


def _bands(folder: Path, *, is_inside: bool = False) -> list[_Band]:
    """The images of the scene in *folder*, in the order of the numbers in their names.

    Raises `CubeFileError` with the reason if there is no such scene.
    """
    seen = [entry for entry in sorted(folder.iterdir()) if not entry.name.startswith(".")]
    images = [entry for entry in seen if entry.suffix.lower() in _SUFFIXES and entry.is_file()]
    inside = [entry for entry in seen if entry.is_dir() and entry.suffix.lower() != ".zarr"]
    if not images and len(inside) == 1 and not is_inside:
        return _bands(inside[0], is_inside=True)
    if not images:
        got = f"folders {shown(', '.join(each.name for each in inside), 60)}" if inside else "none"
        advice = "Open one of its folders." if inside else "Open a folder of PNG or TIFF files."
        raise mismatch(folder.name, "a cube, or band images", got, advice)
    families = defaultdict(list)
    for file in images:
        families[_NUMBER.sub("\0", file.stem), file.suffix].append(file)
    largest = max(families.values(), key=len)
    if len(largest) < _FEWEST:
        got = shown(", ".join(file.name for file in images), 60)
        expected = f"{_FEWEST} or more band images whose names differ in a number"
        raise mismatch(folder.name, expected, got, "Number the files by band.")
    if [len(family) for family in families.values()].count(len(largest)) > 1:
        names = [family[0].name for family in families.values() if len(family) == len(largest)]
        got = f"{len(names)}: {shown(', '.join(names), 60)} ..."
        raise mismatch(folder.name, "band images of one scene", got, "Give each a folder.")
    return _ordered(largest, folder.name)


def _ordered(files: list[Path], name: str) -> list[_Band]:
    """*files*, whose names have the same words, in the order of the number that differs in all.

    If several numbers differ in all files, they must agree about the order, unless `nm` follows one
    of them.
    """
    numbers: list[list[_Number]] = [_NUMBER.findall(file.stem) for file in files]
    columns = list(zip(*numbers, strict=True))
    telling = [column for column in columns if len(set(column)) == len(files)]
    if not telling:
        counts = sorted(len(set(column)) for column in columns if len(set(column)) > 1)
        got = f"several acquisitions, as {shown(files[0].name, 30)} and {shown(files[-1].name, 30)}"
        if len(counts) > 1 and counts[0] * counts[1] == len(files):
            got = f"{len(files)} files of {counts[0]} x {counts[1]} numbers, {got}"
        raise mismatch(name, "band images of one scene", got, "Give each acquisition a folder.")
    in_nm = [column for column in telling if all(unit for _, unit in column)]
    wavelengths = [column for column in telling if _can_only_be_nm([float(at) for at, _ in column])]
    orders = {tuple(np.argsort([float(at) for at, _ in column])) for column in telling}
    if not in_nm and len(orders) > 1:
        got = f"two numbers that disagree, as in {shown(files[0].name, 40)}"
        raise mismatch(name, "one order of the bands", got, "Leave one number in the names.")
    column = [*in_nm, *wavelengths, *telling][0]
    return sorted((float(at), unit, file) for (at, unit), file in zip(column, files, strict=True))


def _can_only_be_nm(numbers: Sequence[float]) -> bool:
    """True if the numbers lie in the range of cameras and are too far apart for file numbers."""
    steps = np.diff(sorted(numbers))
    low, high = _RANGE
    return bool(low <= min(numbers) and max(numbers) <= high and (steps >= _STEP).all())


def _decoded(file: Path) -> Array:
    from napari_mst.photo.files import decode_file

    name = file.name
    try:
        plane, *_ = decode_file(file, [])
    except PhotoError as error:
        raise CubeFileError(
            f"Expected a band image, got {shown(name, 40)}: {shown(error, 180)}"
        ) from error
    if plane.ndim == 3 and (plane == plane[..., :1]).all():
        plane = plane[..., 0]  # a grey image that was saved as RGB
    if plane.ndim != 2:
        channels = f"{plane.shape[2]} channels"
        raise mismatch(name, "one band", channels, "Open colour images as photos.")
    return in_native_order(plane)
