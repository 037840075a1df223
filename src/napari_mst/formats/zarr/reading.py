"""Reading Zarr folders: ours, other programs' OME-Zarr, and single arrays; large ones in chunks.

A save may replace a folder at any moment. The folder is then read again, so that a cube never mixes
parts of two cubes: chunks are found only by name. Letters: B bands, H rows, W columns.
"""

import json
import math
import operator
import os
import re
import struct
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from napari_mst.base import atomic_save
from napari_mst.base.arrays import Array
from napari_mst.base.errors import SaveError, complete, mismatch, shown
from napari_mst.base.memory import check_room, keep_blocks
from napari_mst.cube import BAND_INDEX, NANOMETRES, SpectralCube
from napari_mst.cube.layer import Stack
from napari_mst.cube.lazy import Lazy, Numbers, cached
from napari_mst.formats.array_files import (
    NO_ANSWERS,
    Answers,
    StoredArray,
    band_axis_of,
    cube_name,
    find_cube,
    hyperspy_axes,
    kept_axes,
)
from napari_mst.formats.consistent_read import held, read_consistently
from napari_mst.formats.cube_record import (
    CHANGED,
    OWN,
    Description,
    SealedTexts,
    described_cube,
    sealed_cube,
)
from napari_mst.formats.matlab.mat_files import foreign_cube
from napari_mst.formats.numbers import is_large

SEAL = "napari_mst_seal"
"""Attribute of an array with our seal."""


def stored_chunks(path: Path, array: Any) -> tuple[int, int]:
    """The number of stored chunks (or shards) of *array* in the folder *path*, and the full number.

    The files are counted, since zarr's own count tests every chunk of the grid, and a damaged file
    may declare any number of chunks.
    """
    sides = array.shards or array.chunks
    grid = [math.ceil(length / side) for length, side in zip(array.shape, sides, strict=True)]
    folder = path / array.path
    stored = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            file = Path(parent, name)
            is_chunk = _is_chunk(file.relative_to(folder).as_posix(), array, grid)
            # zarr treats an empty shard as a shard without chunks.
            if is_chunk and file.stat().st_size > 0:
                stored += 1
    return stored, math.prod(grid)


def absent_chunks(path: Path, array: Any) -> list[str]:
    """A warning if chunks of *array* are absent.

    Many programs omit chunks of zeros, which look like lost chunks.
    """
    stored, count = stored_chunks(path, array)
    if stored == count:
        return []
    value = shown(array.fill_value or 0, 20)
    return [
        f"{count - stored} of {count} chunks are not in the folder; their numbers were taken to be "
        f"{value}, the fill value. If the folder was copied, compare it with the original."
    ]


def _is_chunk(key: str, array: Any, grid: Sequence[int]) -> bool:
    """True if *key* is the file name of a chunk within the *grid*."""
    # Other files among the chunks, such as metadata, have no such name.
    place = tuple(int(digits) for digits in re.findall(r"\d+", key))
    is_within = len(place) == len(grid) and all(map(operator.lt, place, grid))
    return is_within and array.metadata.encode_chunk_key(place) == key


def steadfast(path: Path, array: Any, *, is_sealed: bool) -> Callable[[Any], Any]:
    """A function from a key to the numbers of *array*, which works while the array stays the same.

    A save to the same folder would otherwise mix chunks of another cube into an open layer. The
    metadata of a sealed array contain the checksum of its numbers: unchanged metadata mean
    unchanged numbers. A foreign array has no checksum, so it counts as changed as soon as its
    metadata are rewritten.

    The function raises `CubeFileError` if the numbers are damaged or another cube was saved there,
    and `OutOfMemory`.
    """
    file = path / array.path / ("zarr.json" if array.metadata.zarr_format == 3 else ".zarray")

    def metadata() -> object:
        """The metadata and, unless sealed, the identity of their file; None if missing."""
        try:
            info = file.stat()
            text = file.read_bytes()
        except OSError:
            return None
        return (
            text
            if is_sealed
            else (text, info.st_dev, info.st_ino, info.st_mtime_ns, info.st_ctime_ns)
        )

    opened = metadata()

    def same() -> object:
        return opened if metadata() == opened else None

    def read(key: Any) -> Any:
        with complete(path.name, "Zarr file"):
            return array[key]

    def numbers(key: Any) -> Any:
        found = read_consistently(same, lambda _: read(key))
        if found is None:
            expected, got = "the cube that was opened", "another one saved over it"
            raise mismatch(path.name, expected, got, "Open it again.")
        return found

    return numbers


HOW_TO_INSTALL = 'Run: pip install "napari-mst[zarr]"'


def check_installed() -> None:
    """Raise `SaveError` unless zarr 3 is installed."""
    if not is_installed():
        raise SaveError(f"Expected zarr 3 for Zarr files, got none. {HOW_TO_INSTALL}")


def is_installed() -> bool:
    """True if zarr 3 is installed."""
    try:
        return int(version("zarr").partition(".")[0]) >= 3
    except PackageNotFoundError:
        return False


# The metadata files of Zarr 3, and of groups and arrays of Zarr 2.
_MARKS = ("zarr.json", ".zgroup", ".zarray")


def is_zarr(path: Path) -> bool:
    """True if the folder *path* is a Zarr array or group."""
    return any((path / mark).is_file() for mark in _MARKS)


def is_own_zarr(path: Path) -> bool:
    """True if the metadata of the Zarr folder *path* contain our record of a cube."""
    metadata = json.loads((path / "zarr.json").read_bytes())
    return OWN in metadata.get("attributes", {})


def read_zarr(
    path: Path,
    *,
    answers: Answers = NO_ANSWERS,
    scale: bool = True,
    verify: bool | None = None,
) -> SpectralCube:
    """The cube in the Zarr folder at *path*; above `numbers.LAZY_BYTES` its `data` are `Lazy`.

    *variable* is the path of an array, for a group of several arrays that is not an OME-Zarr.

    Raises
    ------
    CubeFileError
        If the folder is damaged, incomplete, holds no cube or several, or zarr is not installed.
    """
    if not is_installed():
        raise mismatch(path.name, "zarr 3", "none", HOW_TO_INSTALL)

    def read(_: object) -> SpectralCube:
        return _read(path, answers, scale=scale, verify=verify)

    # Chunks are found only by name: they belong to one cube only while the folder stays the same.
    cube = read_consistently(partial(_identity, path), read)
    if cube is not None:
        return cube
    # Saves keep replacing the folder, so they have to wait.
    with held(path, is_folder=True):
        return read(None)


def _identity(path: Path) -> tuple[int, ...] | None:
    """The identity of the folder now at *path*; None while a save replaces it."""
    try:
        folder = path.stat()
    except FileNotFoundError:
        if atomic_save.is_interrupted([path]):
            with held(path, is_folder=True):
                pass
        elif not path.exists():
            raise
        return None
    # A file system may reuse the inode of a deleted folder, but then the time of the last change
    # differs.
    return folder.st_dev, folder.st_ino, folder.st_ctime_ns


def _read(path: Path, answers: Answers, *, scale: bool, verify: bool | None) -> SpectralCube:
    """The cube in the folder as it is now."""
    import zarr

    # Not at the top, since the module needs zarr.
    from napari_mst.formats.zarr.codecs import bounded

    with complete(path.name, "Zarr file"):
        root: Any = zarr.open(str(path), mode="r")
        attributes: dict[str, Any] = dict(root.attrs)
        # Since version 0.5, OME-Zarr metadata are under the key `ome`.
        ome = attributes.get("ome", attributes)
        variable = answers.variable
        is_array = isinstance(root, zarr.Array)
        # The full resolution of the first image of an OME-Zarr.
        if variable is None and not is_array and "multiscales" in ome:
            variable = str(ome["multiscales"][0]["datasets"][0]["path"])
        arrays: dict[str, StoredArray] = {}
        if is_array or "multiscales" not in ome:
            arrays = _arrays(path, root)
            variable = cube_name(path.name, arrays, variable) if not is_array else variable
        array = root if is_array else root[variable]
        _check_chunks(path, array)
        warnings = [CHANGED] if OWN in attributes and SEAL not in array.attrs else []
        if SEAL in array.attrs:
            described, record = Description(names=_labels(ome)), attributes.get(OWN, "")
            data = _loaded(path, bounded(array))
            texts = SealedTexts(array.attrs[SEAL], record, described)
            return sealed_cube(path.name, data, texts, verify)
        warnings += absent_chunks(path, array)
        kept = kept_axes(array.shape)
        if "multiscales" in ome or len(kept) != 3:
            return _image(path, bounded(array), ome, answers, warnings)
        found = find_cube(path.name, arrays, answers._replace(variable=variable or ""))
        data = np.moveaxis(_loaded(path, bounded(array), kept), found.axis, 0)
        data = np.ascontiguousarray(data) if isinstance(data, np.ndarray) else data
        found.warnings[:0] = warnings
        return foreign_cube(asdict(found), data, scale=scale)


def _arrays(path: Path, root: Any) -> dict[str, StoredArray]:
    """The arrays of numbers in *root*, an array or a group, by name."""
    import zarr

    is_array = isinstance(root, zarr.Array)
    members = [("", root)] if is_array else root.members(max_depth=None)
    groups: dict[str, Any] = dict(members)
    arrays = {}
    for name, item in members:
        if not isinstance(item, zarr.Array) or item.dtype.kind not in "biufc":
            continue
        about: dict[str, Any] = dict(item.attrs)
        axes: Any = item.metadata.dimension_names if item.metadata.zarr_format == 3 else None
        # xarray stores names and fill value in other places for Zarr 2 than for Zarr 3.
        axes = axes or about.pop("_ARRAY_DIMENSIONS", None) or ()
        if item.metadata.zarr_format == 2 and axes and item.fill_value is not None:
            about.setdefault("_FillValue", np.asarray(item.fill_value).item())
        if isinstance(about.get("_FillValue"), str):
            (about["_FillValue"],) = struct.unpack("<d", b64decode(about["_FillValue"]))
        parent = name.rpartition("/")[0]
        keys = [f"{parent}/axis-{at}".strip("/") for at in range(item.ndim)]
        signal = [groups[key] for key in keys if key in groups]
        if len(signal) == 3:
            axes, more = hyperspy_axes([dict(group.attrs) for group in signal])
            about |= more
        kept = kept_axes(item.shape)
        axes = [axes[at] for at in kept] if axes else ()
        arrays[name] = StoredArray(
            tuple(item.shape[at] for at in kept),
            item.dtype,
            item.nbytes,
            partial(_whole, path, item),
            axes=tuple(str(axis or "").lower() for axis in axes),
            attributes=about,
        )
    return arrays


def _whole(path: Path, array: Any) -> Array:
    """All numbers of *array*, read into memory."""
    from napari_mst.formats.zarr.codecs import bounded

    _check_chunks(path, array)
    check_room(path.name, array.nbytes)
    numbers: Array = bounded(array)[...]
    return numbers


def _check_chunks(path: Path, array: Any) -> None:
    """Refuse chunks that do not fit into memory, and a sealed array with missing chunks."""
    if array.dtype.kind not in "biufc":
        raise mismatch(path.name, "numbers", f"{array.dtype}", "Open another file.")
    chunk_bytes = math.prod(array.shards or array.chunks) * array.dtype.itemsize
    check_room(f"a chunk of {path.name}", chunk_bytes)
    if SEAL not in array.attrs:
        return
    stored, count = stored_chunks(path, array)
    if stored != count:
        raise mismatch(path.name, f"{count} chunks", str(stored), "Get the file again.")


def _image(
    path: Path, array: Any, ome: Mapping[str, Any], answers: Answers, warnings: list[str]
) -> SpectralCube:
    """The image in another program's OME-Zarr, with more *warnings*."""
    _, band_axis, count = answers
    multiscales = ome.get("multiscales", [{}])[0]
    axes = [axis.get("type", "") for axis in multiscales.get("axes", ())] or [""] * array.ndim
    left = _kept_axes(array, axes)
    if len(left) != 3:
        fault = f"shape {array.shape}"
        raise mismatch(path.name, "bands, rows and columns", fault, "Save one stack as a file.")
    shape = tuple(array.shape[at] for at in left)
    axis = 0
    along: tuple[list[str], str] = [], ""
    if axes[left[0]] in ("", "space", "time") or band_axis is not None:
        axis, doubts = band_axis_of(shape, count, band_axis)
        warnings += doubts
    else:
        along = _wavelengths(multiscales, left[0], shape[0])
    data = np.moveaxis(_loaded(path, array, left), axis, 0)
    if isinstance(data, np.ndarray):
        data = np.ascontiguousarray(data)
    return described_cube(data, Description(*along, _labels(ome)), warnings)


def _wavelengths(image: Mapping[str, Any], axis: int, count: int) -> tuple[list[str], str]:
    """Wavelengths of *count* bands along *axis* of an OME-Zarr image, and "nm"; else nothing."""
    if image["axes"][axis].get("unit") != "nanometer":
        return [], ""
    changes = image["datasets"][0]["coordinateTransformations"]
    step, start = (
        sum(each[kind][axis] for each in changes if each["type"] == kind)
        for kind in ("scale", "translation")
    )
    return [repr(start + step * band) for band in range(count)], "nm"


def _kept_axes(array: Any, types: list[str]) -> list[int]:
    """The axes of bands, rows and columns; other axes of length one are dropped."""
    # OME images may have axes of time and depth; rows and columns are the last two axes.
    first = array.ndim - (3 if array.ndim == 3 else 2)
    return [
        at
        for at, length in enumerate(array.shape)
        if length > 1 or types[at] == "channel" or at >= first
    ]


def _loaded(path: Path, array: Any, axes: Sequence[int] = (0, 1, 2)) -> Numbers:
    """The numbers of a Zarr array along three *axes*: in memory, or `Lazy` if the array is large.

    The other axes have one element.
    """
    shape = tuple(array.shape[at] for at in axes)
    keep_blocks()
    if not is_large(array.nbytes):
        check_room(path.name, array.nbytes)
        return array[...].reshape(shape)
    numbers_at = steadfast(path, array, is_sealed=SEAL in array.attrs)

    def read(*ranges: range) -> Array:
        key = [slice(0, 1)] * array.ndim
        for at, wanted in zip(axes, ranges, strict=True):
            key[at] = slice(wanted.start, wanted.stop)
        numbers: Array = numbers_at(tuple(key))
        return numbers.reshape([len(wanted) for wanted in ranges])

    sides = array.shards or array.chunks
    dtype = array.dtype.newbyteorder("=")
    return cached(Lazy(path.name, shape, dtype, read), [sides[at] for at in axes])


def _labels(ome: Mapping[str, Any]) -> list[str]:
    return [str(channel.get("label", "")) for channel in ome.get("omero", {}).get("channels", ())]


_FRAME_BYTES = 2**12
"""Memory per frame of a clip in addition to its numbers."""
FRAMES = (0.0, 1.0, "frame")


def clip_image(path: Path) -> dict[str, Any] | None:
    """The OME description of the clip in the folder *path*; None if there is no clip.

    Raises `CubeFileError`.
    """
    file = path / "zarr.json"
    if not file.is_file():
        return None
    with complete(path.name, "Zarr file"):
        ome = json.loads(file.read_bytes()).get("attributes", {}).get("ome", {})
        image: dict[str, Any] = ome.get("multiscales", [{}])[0]
        axes = [axis["name"] for axis in image.get("axes", [])]
    return image if axes == ["t", "wavelength", "y", "x"] else None


def read_clip(path: Path) -> Stack | None:
    """The frames of the clip in the folder *path*, in memory, as `write_frames` saves them.

    None if there is no clip. Raises `CubeFileError` or `OutOfMemory`.
    """
    import zarr

    from napari_mst.formats.zarr.codecs import bounded

    image = clip_image(path)
    if image is None:
        return None
    with complete(path.name, "Zarr file"):
        array: Any = zarr.open_array(str(path / "0"), mode="r")
        _check_chunks(path, array)
        if array.ndim != 4 or 0 in array.shape:
            fault = f"shape {array.shape}"
            raise mismatch(path.name, "frames, bands, rows and columns", fault, "Make it again.")
        check_room(path.name, array.nbytes + _FRAME_BYTES * array.shape[0])
        scale, translation = (
            each[each["type"]] for each in image["datasets"][0]["coordinateTransformations"]
        )
        frames = bounded(array)[:]
        # OME-Zarr cannot express uneven wavelengths and times, which therefore have no unit.
        has_times, has_wavelengths = ("unit" in axis for axis in image["axes"][:2])
        unit = NANOMETRES if has_wavelengths else BAND_INDEX
        wavelengths = translation[1] + scale[1] * np.arange(frames.shape[1])
        cubes = [SpectralCube(frame, wavelengths, unit) for frame in frames]
    return Stack(frames, cubes, (0.0, float(scale[0]), "time (s)") if has_times else FRAMES)
