"""Writing OME-Zarr.

Letters: B bands, H rows, W columns.
"""

import errno
import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from napari_mst.base.arrays import Array, Doubles, DType, even_step
from napari_mst.base.errors import SaveError
from napari_mst.base.progress import NO_PROGRESS, Progress
from napari_mst.base.threads import threads_of_cpu
from napari_mst.cube import SpectralCube
from napari_mst.cube.lazy import Numbers
from napari_mst.formats.cube_record import OWN, Description, record_of, seal_of
from napari_mst.formats.numbers import write_blocks
from napari_mst.formats.zarr.reading import SEAL, stored_chunks

_CHUNK = 512  # the longest side of a chunk
_SMALLEST = 1024  # the longest side of the smallest level, which fits on a screen
_UNEVEN = 0.05  # largest deviation of a time from an even axis, in steps: Matroska rounds to ms
_LEVEL = -1  # of zstd: level 1 saves a tenth of the bytes but reads four times as slowly


def write_zarr(
    folder: Path,
    cube: SpectralCube,
    dtype: DType,
    progress: Progress,
    fill: Callable[[Path], object] | None = None,
) -> None:
    """Save *cube* and reduced copies in losslessly compressed chunks of one band.

    If *fill* is given, it makes several processes write the numbers (see `write_rows`).
    """
    import zarr

    # Until the save ends the folder is called ".NAME.zarr.tmp".
    ome = _ome(cube, Path(folder.stem[1:]).stem)
    attributes = {"ome": ome, OWN: json.dumps(record_of(cube))}
    group = zarr.create_group(str(folder), attributes=attributes, zarr_format=3)

    def written(share: float) -> None:
        progress.reach(share)
        # If the folder was deleted, zarr would create it again with a part of the cube.
        folder.stat()

    rest = Progress(written)
    with _chunks_settled():
        array = _level(group, "0", cube.shape, dtype)
        _, side, _ = array.chunks
        first = rest.part(0, 0.75)
        if fill is not None:
            fill(folder)
            crc = write_blocks(array, dtype, first, lambda *_: None, side)
        else:
            crc = write_blocks(cube.data, dtype, first, array.__setitem__, side)
        for number in range(1, len(ome["multiscales"][0]["datasets"])):
            # Each level has a quarter of the pixels of the previous one.
            _write_half(group, number, rest.part(1 - 0.25**number, 1 - 0.25 ** (number + 1)))
        written(1.0)
    array.attrs[SEAL] = seal_of(cube, dtype, crc, Description()).decode()
    stored, count = stored_chunks(folder, array)
    if stored != count:
        raise FileNotFoundError(errno.ENOENT, f"{count - stored} chunks that were gone again")


class CubeClip(NamedTuple):
    """The cubes of the T frames of a clip, whose *shape* is (T, B, H, W).

    A damaged frame has no cube. The `seconds` since the first frame are None if the clip stores no
    times.
    """

    cubes: Iterator[SpectralCube | None]
    shape: tuple[int, int, int, int]
    seconds: Sequence[float | None]


def write_frames(folder: Path, clip: CubeClip) -> None:
    """Save a *clip* as (T, B, H, W); frames without a cube are NaN.

    The times of the frames are the attribute `seconds` of the array. OME-Zarr cannot list
    coordinates, so only evenly spaced times get a scale and a unit.
    """
    import zarr

    seconds = None if None in clip.seconds else np.array(clip.seconds, np.float64)
    array: Any = None

    def put(place: tuple[slice, slice], block: Array) -> None:
        array[number, *place] = block

    number = -1
    with _chunks_settled():
        for cube in clip.cubes:  # `enumerate` would keep a cube while the next is computed
            number += 1
            if cube is None:
                continue
            if array is None:
                ome = _ome(cube, Path(folder.stem[1:]).stem)
                _add_time(ome["multiscales"][0], seconds)
                group = zarr.create_group(str(folder), attributes={"ome": ome}, zarr_format=3)
                array = _level(group, "0", clip.shape, np.asarray(cube.data).dtype, math.nan)
                # Not a second array, which napari would take for a reduced copy.
                array.attrs["seconds"] = list(clip.seconds)
            write_blocks(cube.data, array.dtype, NO_PROGRESS, put, array.chunks[2])
            del cube
    if array is None:
        raise SaveError("Expected the cubes of a clip, got none. Choose another clip.")


def _add_time(image: Any, seconds: Doubles | None) -> None:
    """Add a first axis of time to the OME metadata of *image*, and keep one level."""
    step = 0.0 if seconds is None else even_step(seconds, _UNEVEN)
    unit = {"unit": "second"} if step > 0 else {}
    image["axes"].insert(0, {"name": "t", "type": "time", **unit})
    del image["datasets"][1:]
    for each in image["datasets"][0]["coordinateTransformations"]:
        each[each["type"]].insert(0, (step or 1.0) if each["type"] == "scale" else 0.0)


def write_rows(folder: Path, data: Numbers, share: slice, progress: Progress) -> None:
    """Write a *share* of the chunk rows of *data* to the array created by `write_zarr`."""
    import zarr

    array: Any = zarr.open_array(str(folder / "0"), mode="r+")
    _, side, _ = array.chunks
    tops = range(0, data.shape[1], side)[share]
    for done, top in enumerate(tops, 1):
        array[:, top : top + side] = np.ascontiguousarray(data[:, top : top + side], array.dtype)
        progress.reach(done / len(tops))


def _level(group: Any, name: str, shape: tuple[int, ...], dtype: DType, fill: float = 0.0) -> Any:
    """Create one level of the pyramid in *group*. Unwritten chunks contain *fill*."""
    from zarr.codecs import ZstdCodec

    *outer, height, width = shape
    return group.create_array(
        name,
        shape=shape,
        dtype=dtype,
        fill_value=fill,
        chunks=(*[1] * len(outer), _chunk_side(height), _chunk_side(width)),
        # The fastest codec with a checksum that GDAL (3.11 or later) reads: Blosc has no checksum,
        # and GDAL refuses Blosc with `crc32c`.
        compressors=[ZstdCodec(level=_LEVEL, checksum=True)],
        dimension_names=("t", "wavelength", "y", "x")[-len(shape) :],
        # By default zarr omits chunks of zeros, which would look like lost chunks.
        config={"write_empty_chunks": True},
    )


def _chunk_side(length: int) -> int:
    """The side of chunks that divide *length* about evenly.

    zarr pads the last chunk, so a chunk of a few pixels would take as long as a whole one.
    """
    return -(-length // -(-length // _CHUNK))


def _write_half(group: Any, number: int, progress: Progress) -> None:
    """Add the level *number* to *group*: means of 2 x 2 pixels of the previous level."""
    before = group[f"{number - 1}"]
    bands, height, width = before.shape
    half = _level(group, f"{number}", (bands, -(-height // 2), -(-width // 2)), before.dtype)
    tops, lefts = map(range, (0, 0), half.shape[1:], half.chunks[1:])
    for band, top, left in product(range(bands), tops, lefts):
        bottom, right = top + tops.step, left + lefts.step
        pixels = before[band, 2 * top : 2 * bottom, 2 * left : 2 * right]
        # The last row or column may have no partner.
        pairs = np.pad(pixels, [(0, length % 2) for length in pixels.shape], "edge")
        means = pairs.reshape(len(pairs) // 2, 2, -1, 2).mean((1, 3), np.float64)
        half[band, top:bottom, left:right] = means.astype(before.dtype)
        progress.reach((band + 1) / bands)


def _ome(cube: SpectralCube, name: str) -> dict[str, Any]:
    """The OME metadata: one image, its axes, and the levels of its pyramid."""
    # A custom type, since programs show each band of a `channel` axis as a layer.
    bands = {"name": "wavelength", "type": "wavelength"}
    step, start = 1.0, 0.0
    even = even_step(cube.wavelengths, 1e-6)
    # OME-Zarr can give an axis a scale but no list of coordinates, so uneven bands have none.
    if cube.has_wavelengths and even > 0:
        bands["unit"] = "nanometer"
        step, start = even, float(cube.wavelengths[0])
    _, height, width = cube.shape
    datasets: list[dict[str, Any]] = []
    while not datasets or max(height, width) > _SMALLEST << (len(datasets) - 1):
        size = 2.0 ** len(datasets)
        # The centre of an averaged pixel lies between the centres of its original pixels.
        transformations = [
            {"type": "scale", "scale": [step, size, size]},
            {"type": "translation", "translation": [start, size / 2 - 0.5, size / 2 - 0.5]},
        ]
        datasets.append({"path": f"{len(datasets)}", "coordinateTransformations": transformations})
    axes = [bands, {"name": "y", "type": "space"}, {"name": "x", "type": "space"}]
    return {"version": "0.5", "multiscales": [{"name": name, "axes": axes, "datasets": datasets}]}


@contextmanager
def _chunks_settled() -> Iterator[None]:
    """Write as many chunks at a time as there are threads, each of which keeps some megabytes.

    After an error, wait until zarr has finished the chunks that it started to write.
    """
    import asyncio

    import zarr
    from zarr.core.sync import sync

    async def others() -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*tasks, return_exceptions=True)

    with zarr.config.set({"async.concurrency": threads_of_cpu()}):
        try:
            yield
        except BaseException:
            sync(others())
            raise
