"""OME-Zarr 0.5: folders of compressed chunks, for cubes larger than memory; a large one is read lazily.

The first axis is `wavelength` (of type channel), with a scale where the bands are evenly spaced; all wavelengths are in
our record. Each chunk carries the checksum of Zstandard. Foreign Zarr files of format 2 and 3 are read as well.
Source: Open Microscopy Environment, "OME-Zarr specification" 0.5. Letters: B bands, H rows, W columns.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from napari_mst import crash_safe
from napari_mst.cube import SpectralCube
from napari_mst.errors import CubeFileError, NapariMstError, SaveError
from napari_mst.formats import record
from napari_mst.formats.arrays import band_axis_of, cube_name
from napari_mst.formats.numbers import LAZY_BYTES, check_room, crc32, stored_type
from napari_mst.formats.record import OWN, Description, described, described_cube
from napari_mst.formats.wavelengths import band_names
from napari_mst.formats.zarr.chunks import (
    ATTEMPTS,
    Steadfast,
    absent_chunks,
    damaged,
    stored_chunks,
)
from napari_mst.messages import mismatch, shown
from napari_mst.watch import UNWATCHED, Watch

_STORED = ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8")
_MARKS = ("zarr.json", ".zgroup", ".zarray")
_SEAL = "napari_mst_seal"
_CHUNK = 512
_BLOCK_BYTES = 16 * 2**20
_PIP = 'Run: pip install "napari-mst[zarr]"'


def is_zarr(path: Path) -> bool:
    """Whether the folder *path* is a Zarr array or group."""
    return any((path / mark).is_file() for mark in _MARKS)


def is_own_zarr(path: Path) -> bool:
    """Whether the metadata of the Zarr folder *path* hold our record of a cube."""
    described_here = json.loads((path / "zarr.json").read_bytes())
    return OWN in described_here.get("attributes", {})


def write_zarr(
    path: Path, cube: SpectralCube, *, overwrite: bool = False, watch: Watch = UNWATCHED
) -> Path:
    """Save *cube* in chunks of one band, compressed without loss; bool becomes uint8.

    Raises
    ------
    SaveError
        If zarr is not installed, the numbers cannot be stored without loss, or as `crash_safe.saving_folder`.
    """
    if not _is_installed():
        raise SaveError(f"Expected zarr 3 for Zarr files, got none. {_PIP}")
    import zarr
    from zarr.codecs import ZstdCodec
    from zarr.storage import MemoryStore

    dtype = stored_type(cube.data, _STORED, "a Zarr file")
    needed = cube.data.size * dtype.itemsize + 2**20
    _, height, width = cube.shape
    files: dict[str, Any] = {}
    with crash_safe.saving_folder(path, is_zarr, needed=needed, overwrite=overwrite) as temporary:
        group = zarr.create_group(
            MemoryStore(files), attributes=_attributes(cube, path.stem), zarr_format=3
        )
        array = group.create_array(
            "0",
            shape=cube.shape,
            dtype=dtype,
            chunks=(1, min(_CHUNK, height), min(_CHUNK, width)),
            compressors=[ZstdCodec(checksum=True)],
            dimension_names=("wavelength", "y", "x"),
            config={"write_empty_chunks": True},
        )

        def written(fraction: float) -> None:
            _write_out(files, temporary)
            watch.report(fraction)

        crc = _write_numbers(array, cube, dtype, Watch(written))
        array.attrs[_SEAL] = record.seal(
            cube, dtype, crc, Description(names=band_names(cube))
        ).decode()
        _write_out(files, temporary)
    return path


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
        Path of the array that is the cube, where a group that is no OME-Zarr has several of three axes.
    band_axis
        0 or -1: which of its axes holds the bands, where nothing else tells.
    verify
        Compare the numbers with the checksum that we saved; by default unless they are read lazily.

    Raises
    ------
    CubeFileError
        If the folder is damaged, incomplete, holds no cube or several, or zarr is not installed.
    """
    if not _is_installed():
        raise mismatch(path.name, "zarr 3", "none", _PIP)
    read = partial(_read, path, variable, band_axis, verify)
    for _ in range(ATTEMPTS):
        cube = _attempt(path, read)
        if cube is not None:
            return cube
    if not (path.exists() or crash_safe.is_interrupted([path])):
        raise mismatch(path.parent.name, f"a folder {shown(path.name)}", "none", "Check the path.")
    with _undisturbed(path):
        return read()


def _attempt(path: Path, read: Callable[[], SpectralCube]) -> SpectralCube | None:
    """What *read* gives of the folder *path*, or None if a save came in between: its parts may be of two cubes."""
    if crash_safe.is_interrupted([path]):
        _finish(path)
    before = _identity(path)
    try:
        cube = read()
    except CubeFileError:
        if before is not None and _identity(path) == before:
            raise
        return None
    return cube if _identity(path) == before else None


def _identity(path: Path) -> tuple[int, ...] | None:
    """Another one for each folder that is ever saved to *path*; None while there is none.

    A file system gives the number of a folder that is gone to a new one, but then the time of its last change differs.
    """
    try:
        folder = path.stat()
    except OSError:
        return None
    return folder.st_dev, folder.st_ino, folder.st_ctime_ns


@contextmanager
def _undisturbed(path: Path) -> Iterator[None]:
    """Make saves to *path* wait, for a reader whom they have disturbed too often. Raises `CubeFileError`."""
    try:
        with crash_safe.keeping_folder(path):
            yield
    except SaveError as error:
        name = shown(path.name)
        raise CubeFileError(
            f"Expected {name} to stay as it is, got changes while reading. Try again."
        ) from error


def _finish(path: Path) -> None:
    """Complete an interrupted save, or wait for the one that is at it. Raises `CubeFileError`."""
    try:
        crash_safe.finish_folder(path)
    except SaveError as error:
        raise CubeFileError(
            f"Expected {shown(path.name)} complete, got a save that was interrupted. Save there again, or make its "
            "folder writable."
        ) from error


def _is_installed() -> bool:
    try:
        return int(version("zarr").partition(".")[0]) >= 3 and find_spec("dask") is not None
    except PackageNotFoundError:
        return False


def _attributes(cube: SpectralCube, name: str) -> dict[str, Any]:
    """Of the group: the OME metadata and our record."""
    steps = np.diff(cube.wavelengths)
    step = float(steps[0]) if steps.size else 1.0
    is_even = cube.has_wavelengths and step > 0 and bool(np.allclose(steps, step, rtol=1e-6))
    scale, start = (step, float(cube.wavelengths[0])) if is_even else (1.0, 0.0)
    transformations = [
        {"type": "scale", "scale": [scale, 1.0, 1.0]},
        {"type": "translation", "translation": [start, 0.0, 0.0]},
    ]
    bands = {"name": "wavelength", "type": "channel"} | ({"unit": "nanometer"} if is_even else {})
    axes = [bands, {"name": "y", "type": "space"}, {"name": "x", "type": "space"}]
    datasets = [{"path": "0", "coordinateTransformations": transformations}]
    channels = [{"label": label, "color": "FFFFFF"} for label in band_names(cube)]
    ome = {"version": "0.5", "multiscales": [{"name": name, "axes": axes, "datasets": datasets}]}
    return {"ome": {**ome, "omero": {"channels": channels}}, OWN: json.dumps(record.record(cube))}


def _write_numbers(array: Any, cube: SpectralCube, dtype: np.dtype[Any], watch: Watch) -> str:
    """Give *array* several chunks at a time, which zarr compresses at once; the checksum in (B, H, W) order."""
    bands, height, width = cube.shape
    row_bytes = width * dtype.itemsize
    rows = _CHUNK * max(1, _BLOCK_BYTES // (_CHUNK * row_bytes))
    planes = max(1, _BLOCK_BYTES // (height * row_bytes))
    crc = 0
    for band in range(0, bands, planes):
        for row in range(0, height, rows):
            part = slice(band, band + planes), slice(row, row + rows)
            block = np.ascontiguousarray(cube.data[part], dtype)
            crc = crc32(block, crc)
            array[part] = block
            done = block.shape[0] * min(row + rows, height) / height
            watch.report((band + done) / bands)
    return f"{crc:08x}"


def _write_out(files: dict[str, Any], folder: Path) -> None:
    """Move the *files* that zarr made, by their paths, into *folder*.

    zarr itself would make the folder again where it has gone meanwhile, and call a part of the cube a success.
    """
    while files:
        name, content = files.popitem()
        for inner in reversed(PurePath(name).parents[:-1]):
            (folder / inner).mkdir(exist_ok=True)
        (folder / name).write_bytes(content.as_numpy_array())


def _read(
    path: Path, variable: str | None, band_axis: int | None, verify: bool | None
) -> SpectralCube:
    """The cube in the folder as it is now. Whatever zarr raises about damage becomes a `CubeFileError`."""
    try:
        return _cube(path, variable, band_axis, verify)
    except (NapariMstError, MemoryError):
        raise
    except Exception as error:  # zarr and its codecs let any type escape from a damaged file
        raise damaged(path.name, error) from error


def _cube(
    path: Path, variable: str | None, band_axis: int | None, verify: bool | None
) -> SpectralCube:
    import zarr

    from napari_mst.formats.zarr.codecs import bounded

    root: Any = zarr.open(str(path), mode="r")
    attributes: dict[str, Any] = dict(root.attrs)
    ome = attributes.get("ome", attributes)
    array: Any = (
        root if isinstance(root, zarr.Array) else root[_array_name(path, root, ome, variable)]
    )
    _check_chunks(path, array)
    array = bounded(path.name, array)
    if _SEAL in array.attrs:
        labels = Description(names=_labels(ome))
        description = described(path.name, array.attrs[_SEAL], [attributes.get(OWN, "")], labels)
        return _ours(path, array, description, verify)
    changed = [record.CHANGED] if OWN in attributes else []
    warnings = [*changed, *absent_chunks(path, array)]
    return _foreign(path, array, ome, band_axis, warnings)


def _array_name(path: Path, group: Any, ome: Mapping[str, Any], variable: str | None) -> str:
    """The full resolution of the first image of an OME-Zarr, else the one array of three axes."""
    if variable is None and "multiscales" in ome:
        return str(ome["multiscales"][0]["datasets"][0]["path"])
    return cube_name(path.name, {name: array.shape for name, array in group.arrays()}, variable)


def _check_chunks(path: Path, array: Any) -> None:
    """Refuse chunks that do not fit into memory even one at a time, and a sealed array that lost some."""
    if array.dtype.kind not in "biufc":
        raise mismatch(path.name, "numbers", f"{array.dtype}", "Open another file.")
    check_room(
        f"a chunk of {path.name}", math.prod(array.shards or array.chunks) * array.dtype.itemsize
    )
    if _SEAL in array.attrs and absent_chunks(path, array):
        found, count = stored_chunks(path, array)
        raise mismatch(path.name, f"{count} chunks", str(found), "Get the file again.")


def _ours(path: Path, array: Any, description: Description, verify: bool | None) -> SpectralCube:
    record.check(path.name, array, description)
    data = _loaded(path, array)
    if verify or (verify is None and isinstance(data, np.ndarray)):
        record.verify(path.name, data, description)
    return described_cube(data, description)


def _foreign(
    path: Path, array: Any, ome: Mapping[str, Any], band_axis: int | None, warnings: Sequence[str]
) -> SpectralCube:
    """Axes of length one beside bands, rows and columns fall away."""
    multiscales = ome.get("multiscales", [{}])[0]
    axes = [axis.get("type", "") for axis in multiscales.get("axes", ())] or [""] * array.ndim
    images = range(array.ndim - 2, array.ndim)
    kept = [
        at
        for at, n in enumerate(array.shape)
        if n > 1 or axes[at] == "channel" or at in images or array.ndim == 3
    ]
    if len(kept) != 3:
        raise mismatch(
            path.name,
            "bands, rows and columns",
            f"shape {array.shape}",
            "Save one stack as a file.",
        )
    shape = tuple(array.shape[at] for at in kept)
    has_channels = axes[kept[0]] == "channel" and band_axis is None
    axis = 0 if has_channels else band_axis_of(shape, 0, band_axis)
    description = Description(names=_labels(ome))
    if array.nbytes > LAZY_BYTES and array.dtype.kind == "c":
        raise mismatch(path.name, "real numbers", f"{array.dtype}", "Save their magnitude.")
    data = np.moveaxis(_loaded(path, array).reshape(shape), axis, 0)
    data = np.ascontiguousarray(data) if isinstance(data, np.ndarray) else data
    return described_cube(data, description, warnings)


def _loaded(path: Path, array: Any) -> Any:
    """The numbers of a Zarr array, in memory; where they are large, as a dask array that reads what is asked for."""
    if array.nbytes <= LAZY_BYTES:
        check_room(path.name, array.nbytes)
        return array[...]
    import dask.array

    steadfast = Steadfast(path, array, is_sealed=_SEAL in array.attrs)
    return dask.array.from_array(steadfast, chunks=array.shards or array.chunks, name=False)


def _labels(ome: Mapping[str, Any]) -> list[str]:
    return [str(channel.get("label", "")) for channel in ome.get("omero", {}).get("channels", ())]
