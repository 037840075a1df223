"""Reading Zarr folders: ours, OME-Zarr of others, and single arrays; large ones lazily.

A folder may be replaced by a save at any moment. It is read again then, so that a cube never has
parts of two. Letters: B bands, H rows, W columns.
"""

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from napari_mst import crash_safe
from napari_mst.cube import SpectralCube
from napari_mst.errors import CubeFileError, NapariMstError, SaveError
from napari_mst.formats import seal
from napari_mst.formats.arrays import band_axis_of, cube_name
from napari_mst.formats.numbers import check_room, is_large
from napari_mst.formats.record import OWN, Description, described_cube
from napari_mst.formats.zarr.chunks import (
    ATTEMPTS,
    SEAL,
    Steadfast,
    absent_chunks,
    damaged,
    stored_chunks,
)
from napari_mst.formats.zarr.installed import HOW_TO_INSTALL, is_installed
from napari_mst.messages import mismatch, shown

# The metadata files of Zarr 3, and of groups and arrays of Zarr 2.
_MARKS = ("zarr.json", ".zgroup", ".zarray")


class _Request(NamedTuple):
    """The folder to read, and the options of `read_zarr`."""

    path: Path
    variable: str | None
    band_axis: int | None
    verify: bool | None


class _Opened(NamedTuple):
    """An open array, the OME metadata of its group, and our record there, or ""."""

    array: Any
    ome: Mapping[str, Any]
    record: str


def is_zarr(path: Path) -> bool:
    """True if the folder *path* is a Zarr array or group."""
    return any((path / mark).is_file() for mark in _MARKS)


def is_own_zarr(path: Path) -> bool:
    """True if the metadata of the Zarr folder *path* hold our record of a cube."""
    metadata = json.loads((path / "zarr.json").read_bytes())
    return OWN in metadata.get("attributes", {})


def read_zarr(
    path: Path,
    *,
    variable: str | None = None,
    band_axis: int | None = None,
    verify: bool | None = None,
) -> SpectralCube:
    """The cube in the Zarr folder at *path*; above `numbers.LAZY_BYTES` its `data` is a dask array.

    Parameters
    ----------
    variable
        Path of the array that is the cube, where a group that is no OME-Zarr has several of three
        axes.
    band_axis
        0 or -1: which of its axes holds the bands, where nothing else tells.
    verify
        Compare the numbers with the checksum that we saved; by default unless they are read
        lazily.

    Raises
    ------
    CubeFileError
        If the folder is damaged, incomplete, holds no cube or several, or zarr is not installed.
    """
    if not is_installed():
        raise mismatch(path.name, "zarr 3", "none", HOW_TO_INSTALL)
    request = _Request(path, variable, band_axis, verify)
    for _ in range(ATTEMPTS):
        cube = _attempt(request)
        if cube is not None:
            return cube
    if not (path.exists() or crash_safe.is_interrupted([path])):
        raise mismatch(path.parent.name, f"a folder {shown(path.name)}", "none", "Check the path.")
    # So many saves came in between that only holding them off helps.
    with _undisturbed(path):
        return _read(request)


def _attempt(request: _Request) -> SpectralCube | None:
    """The cube, or None if a save came in between: its parts may be of two cubes."""
    path = request.path
    if crash_safe.is_interrupted([path]):
        _finish(path)
    before = _identity(path)
    try:
        cube = _read(request)
    except CubeFileError:
        if before is not None and _identity(path) == before:
            raise
        return None
    return cube if _identity(path) == before else None


def _identity(path: Path) -> tuple[int, ...] | None:
    """A number for each folder that is ever saved to *path*; None while there is none."""
    try:
        folder = path.stat()
    except OSError:
        return None
    # A file system gives the inode of a folder that is gone to a new one, but then the time of its
    # last change differs.
    return folder.st_dev, folder.st_ino, folder.st_ctime_ns


@contextmanager
def _undisturbed(path: Path) -> Iterator[None]:
    """Make saves to *path* wait while the block reads it. Raises `CubeFileError`."""
    try:
        with crash_safe.keeping_folder(path):
            yield
    except SaveError as error:
        name = shown(path.name)
        raise CubeFileError(
            f"Expected {name} to stay as it is, got changes while reading. Try again."
        ) from error


def _finish(path: Path) -> None:
    """Complete an interrupted save, or wait for the run that is saving. Raises `CubeFileError`."""
    try:
        crash_safe.finish_folder(path)
    except SaveError as error:
        raise CubeFileError(
            f"Expected {shown(path.name)} complete, got a save that was interrupted. "
            "Save there again, or make its folder writable."
        ) from error


def _read(request: _Request) -> SpectralCube:
    """The cube in the folder as it is now.

    Whatever zarr raises about damage becomes a `CubeFileError`.
    """
    try:
        opened = _opened(request)
        if SEAL in opened.array.attrs:
            return _ours(request, opened)
        return _foreign(request, opened)
    except (NapariMstError, MemoryError):
        raise
    # zarr and its codecs let any type escape from a damaged file.
    except Exception as error:
        raise damaged(request.path.name, error) from error


def _opened(request: _Request) -> _Opened:
    import zarr

    # Not above: the module needs zarr.
    from napari_mst.formats.zarr.codecs import bounded

    path = request.path
    root: Any = zarr.open(str(path), mode="r")
    attributes: dict[str, Any] = dict(root.attrs)
    # Since version 0.5 OME-Zarr has its metadata under the key `ome`.
    ome = attributes.get("ome", attributes)
    array = root
    if not isinstance(root, zarr.Array):
        array = root[_array_name(request, root, ome)]
    _check_chunks(path, array)
    return _Opened(bounded(path.name, array), ome, attributes.get(OWN, ""))


def _array_name(request: _Request, group: Any, ome: Mapping[str, Any]) -> str:
    """The full resolution of the first image of an OME-Zarr, else the one array of three axes."""
    if request.variable is None and "multiscales" in ome:
        return str(ome["multiscales"][0]["datasets"][0]["path"])
    shapes = {name: array.shape for name, array in group.arrays()}
    return cube_name(request.path.name, shapes, request.variable)


def _check_chunks(path: Path, array: Any) -> None:
    """Refuse chunks of which not even one fits into memory, and a sealed array that lost some."""
    if array.dtype.kind not in "biufc":
        raise mismatch(path.name, "numbers", f"{array.dtype}", "Open another file.")
    chunk_bytes = math.prod(array.shards or array.chunks) * array.dtype.itemsize
    check_room(f"a chunk of {path.name}", chunk_bytes)
    if SEAL not in array.attrs:
        return
    found, count = stored_chunks(path, array)
    if found != count:
        raise mismatch(path.name, f"{count} chunks", str(found), "Get the file again.")


def _ours(request: _Request, opened: _Opened) -> SpectralCube:
    path, array = request.path, opened.array
    others = Description(names=_labels(opened.ome))
    description = seal.sealed_description(path.name, array.attrs[SEAL], [opened.record], others)
    seal.check_shape(path.name, array, description)
    data = _loaded(path, array)
    seal.verify(path.name, data, description, request.verify)
    return described_cube(data, description)


def _foreign(request: _Request, opened: _Opened) -> SpectralCube:
    path, array = request.path, opened.array
    warnings = [seal.CHANGED] if opened.record else []
    warnings += absent_chunks(path, array)
    axes = _axis_types(opened)
    kept = _kept_axes(array.shape, axes)
    if len(kept) != 3:
        found = f"shape {array.shape}"
        raise mismatch(path.name, "bands, rows and columns", found, "Save one stack as a file.")
    shape = tuple(array.shape[at] for at in kept)
    axis = 0
    if axes[kept[0]] != "channel" or request.band_axis is not None:
        axis = band_axis_of(shape, 0, request.band_axis)
    # A magnitude has to be computed from all numbers, which a lazy cube never has.
    if is_large(array.nbytes) and array.dtype.kind == "c":
        raise mismatch(path.name, "real numbers", f"{array.dtype}", "Save their magnitude.")
    data = np.moveaxis(_loaded(path, array).reshape(shape), axis, 0)
    if isinstance(data, np.ndarray):
        data = np.ascontiguousarray(data)
    return described_cube(data, Description(names=_labels(opened.ome)), warnings)


def _axis_types(opened: _Opened) -> list[str]:
    """The type of each axis in the OME metadata; empty texts where there are none."""
    multiscales = opened.ome.get("multiscales", [{}])[0]
    types = [axis.get("type", "") for axis in multiscales.get("axes", ())]
    return types or [""] * opened.array.ndim


def _kept_axes(shape: tuple[int, ...], types: list[str]) -> list[int]:
    """The axes of bands, rows and columns: axes of length one beside them fall away."""
    ndim = len(shape)
    if ndim == 3:
        return [0, 1, 2]
    # OME images have axes of time and depth too; the image lies along the last two.
    image = (ndim - 2, ndim - 1)
    kept = []
    for at, length in enumerate(shape):
        if length > 1 or types[at] == "channel" or at in image:
            kept.append(at)
    return kept


def _loaded(path: Path, array: Any) -> NDArray[Any]:
    """The numbers of a Zarr array: in memory, or, where they are large, as a dask array.

    The dask array reads what is asked for.
    """
    if not is_large(array.nbytes):
        check_room(path.name, array.nbytes)
        numbers: NDArray[Any] = array[...]
        return numbers
    import dask.array

    steadfast = Steadfast(path, array, is_sealed=SEAL in array.attrs)
    chunks = array.shards or array.chunks
    lazy: NDArray[Any] = dask.array.from_array(steadfast, chunks=chunks, name=False)
    return lazy


def _labels(ome: Mapping[str, Any]) -> list[str]:
    return [str(channel.get("label", "")) for channel in ome.get("omero", {}).get("channels", ())]
