"""Writing OME-Zarr.

Letters: B bands, H rows, W columns.
"""

import errno
import json
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from napari_mst.arrays import DType, even_step
from napari_mst.cube import SpectralCube
from napari_mst.cube.lazy import Numbers
from napari_mst.formats.numbers import write_blocks
from napari_mst.formats.record import OWN, Description, record_of, seal_of
from napari_mst.formats.zarr.reading import SEAL, stored_chunks
from napari_mst.watch import Watch

_CHUNK = 512  # the longest side of a chunk
_SMALLEST = 1024  # the longest side of the smallest level: images that a screen shows whole
_LEVEL = -1  # of zstd: level 1 saves a tenth of the bytes, and is four times as slow to read


def write_zarr(
    folder: Path,
    cube: SpectralCube,
    dtype: DType,
    watch: Watch,
    fill: Callable[[Path], object] | None = None,
) -> None:
    """Save *cube* in chunks of one band, compressed without loss, and smaller copies of it.

    By *fill*, if it is given, several processes write the numbers (see `write_rows`).
    """
    import zarr

    # Until the save ends the folder is called ".NAME.zarr.tmp".
    ome = _ome(cube, Path(folder.stem[1:]).stem)
    attributes = {"ome": ome, OWN: json.dumps(record_of(cube))}
    group = zarr.create_group(str(folder), attributes=attributes, zarr_format=3)

    def written(share: float) -> None:
        watch.reach(share)
        # Where the folder has gone, zarr would make it again, with a part of the cube.
        folder.stat()

    rest = Watch(written)
    try:
        array = _level(group, "0", cube.shape, dtype)
        _, side, _ = array.chunks
        first = rest.part(0, 0.75)
        if fill is not None:
            fill(folder)
            crc = write_blocks(array, dtype, first, lambda *_: None, side)
        else:
            crc = write_blocks(cube.data, dtype, first, array.__setitem__, side)
        for number in range(1, len(ome["multiscales"][0]["datasets"])):
            # Each level has a quarter of the pixels of the one before.
            _write_half(group, number, rest.part(1 - 0.25**number, 1 - 0.25 ** (number + 1)))
        written(1.0)
    except BaseException:
        _wait_for_chunks()
        raise
    array.attrs[SEAL] = seal_of(cube, dtype, crc, Description()).decode()
    stored, count = stored_chunks(folder, array)
    if stored != count:
        raise FileNotFoundError(errno.ENOENT, f"{count - stored} chunks that were gone again")


def write_frames(folder: Path, cubes: Iterator[SpectralCube]) -> None:
    """Save *cubes* of one size, the frames of a clip, as (T, B, H, W): T frames."""
    import zarr

    array: Any = None
    for number, cube in enumerate(cubes):
        numbers = np.asarray(cube.data)
        if array is None:
            ome = _ome(cube, Path(folder.stem[1:]).stem)
            (image,) = ome["multiscales"]
            image["axes"].insert(0, {"name": "t", "type": "time"})
            del image["datasets"][1:]
            for each in image["datasets"][0]["coordinateTransformations"]:
                each[each["type"]].insert(0, float(each["type"] == "scale"))
            group = zarr.create_group(str(folder), attributes={"ome": ome}, zarr_format=3)
            array = _level(group, "0", (1, *cube.shape), numbers.dtype)
        array.resize((number + 1, *cube.shape))
        array[number] = numbers


def write_rows(folder: Path, data: Numbers, share: slice, watch: Watch) -> None:
    """Write a *share* of the rows of chunks of *data* to the array that `write_zarr` has made."""
    import zarr

    array: Any = zarr.open_array(str(folder / "0"), mode="r+")
    _, side, _ = array.chunks
    tops = range(0, data.shape[1], side)[share]
    for done, top in enumerate(tops, 1):
        array[:, top : top + side] = np.ascontiguousarray(data[:, top : top + side], array.dtype)
        watch.reach(done / len(tops))


def _level(group: Any, name: str, shape: tuple[int, ...], dtype: DType) -> Any:
    """A new array in *group*: one level of the pyramid."""
    from zarr.codecs import ZstdCodec

    *outer, height, width = shape
    return group.create_array(
        name,
        shape=shape,
        dtype=dtype,
        chunks=(*[1] * len(outer), _chunk_side(height), _chunk_side(width)),
        # The fastest codec that has a checksum and that GDAL reads, from 3.11 on: Blosc has none,
        # and `crc32c` beside it GDAL refuses.
        compressors=[ZstdCodec(level=_LEVEL, checksum=True)],
        dimension_names=("t", "wavelength", "y", "x")[-len(shape) :],
        # By default zarr leaves out chunks of zeros, and they would look like lost ones.
        config={"write_empty_chunks": True},
    )


def _chunk_side(length: int) -> int:
    """The side of chunks that share *length* about evenly.

    zarr fills the last chunk up, so one of a few pixels would take the time of a whole one.
    """
    return -(-length // -(-length // _CHUNK))


def _write_half(group: Any, number: int, watch: Watch) -> None:
    """Add the level *number* to *group*: means of 2 x 2 pixels of the level before."""
    before = group[f"{number - 1}"]
    bands, height, width = before.shape
    half = _level(group, f"{number}", (bands, -(-height // 2), -(-width // 2)), before.dtype)
    _, side, _ = half.chunks
    for band, top in product(range(bands), range(0, half.shape[1], side)):
        rows = before[band, 2 * top : 2 * (top + side)]
        # The last row and column may stand alone.
        pairs = np.pad(rows, [(0, length % 2) for length in rows.shape], "edge")
        means = pairs.reshape(len(pairs) // 2, 2, -1, 2).mean((1, 3), np.float64)
        half[band, top : top + side] = means.astype(before.dtype)
        watch.reach((band + 1) / bands)


def _ome(cube: SpectralCube, name: str) -> dict[str, Any]:
    """The OME metadata: one image, its axes, and the levels of its pyramid."""
    # A type of our own: programs make a layer of each band of an axis of type `channel`.
    bands = {"name": "wavelength", "type": "wavelength"}
    step, start = 1.0, 0.0
    even = even_step(cube.wavelengths, 1e-6)
    # OME-Zarr has a scale for an axis, but no list of places: uneven bands have none.
    if cube.has_wavelengths and even > 0:
        bands["unit"] = "nanometer"
        step, start = even, float(cube.wavelengths[0])
    _, height, width = cube.shape
    datasets: list[dict[str, Any]] = []
    while not datasets or max(height, width) > _SMALLEST << (len(datasets) - 1):
        size = 2.0 ** len(datasets)
        # The middle of a pixel of means lies between those of the pixels that it is the mean of.
        transformations = [
            {"type": "scale", "scale": [step, size, size]},
            {"type": "translation", "translation": [start, size / 2 - 0.5, size / 2 - 0.5]},
        ]
        datasets.append({"path": f"{len(datasets)}", "coordinateTransformations": transformations})
    axes = [bands, {"name": "y", "type": "space"}, {"name": "x", "type": "space"}]
    return {"version": "0.5", "multiscales": [{"name": name, "axes": axes, "datasets": datasets}]}


def _wait_for_chunks() -> None:
    """Wait until zarr writes no chunk: after an error it goes on with those that it has begun."""
    import asyncio

    from zarr.core.sync import sync

    async def others() -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*tasks, return_exceptions=True)

    sync(others())
