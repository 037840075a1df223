"""Writing OME-Zarr.

Letters: B bands, H rows, W columns.
"""

import errno
import json
from pathlib import Path
from typing import Any

import numpy as np

from napari_mst.arrays import DType
from napari_mst.cube import SpectralCube
from napari_mst.cube.layer import even_step
from napari_mst.formats.numbers import crc32
from napari_mst.formats.record import OWN, Description, record_of, seal_of
from napari_mst.formats.wavelengths import band_names
from napari_mst.formats.zarr.reading import SEAL, stored_chunks
from napari_mst.watch import Watch

_CHUNK = 512  # the longest side of a chunk
_BLOCK_BYTES = 16 * 2**20
_LEVEL = -1  # of zstd: level 1 saves a tenth of the bytes, and is four times as slow to read


def write_zarr(folder: Path, cube: SpectralCube, dtype: DType, watch: Watch) -> None:
    """Save *cube* in chunks of one band, compressed without loss."""
    # Until the save ends the folder is called ".NAME.zarr.tmp".
    array = _create(folder, cube, dtype, Path(folder.stem[1:]).stem)

    def written(share: float) -> None:
        watch.reach(share)
        # Where the folder has gone, zarr would make it again, with a part of the cube.
        folder.stat()

    try:
        crc = _write_numbers(array, cube, dtype, Watch(written))
    except BaseException:
        _wait_for_chunks()
        raise
    others = Description(names=band_names(cube))
    array.attrs[SEAL] = seal_of(cube, dtype, crc, others).decode()
    stored, count = stored_chunks(folder, array)
    if stored != count:
        raise FileNotFoundError(errno.ENOENT, f"{count - stored} chunks that were gone again")


def _create(folder: Path, cube: SpectralCube, dtype: DType, name: str) -> Any:
    """The array `0` of a new group in *folder*, as OME-Zarr calls the full size of an image."""
    import zarr
    from zarr.codecs import ZstdCodec

    _, height, width = cube.shape
    attributes = {"ome": _ome(cube, name), OWN: json.dumps(record_of(cube))}
    group = zarr.create_group(str(folder), attributes=attributes, zarr_format=3)
    return group.create_array(
        "0",
        shape=cube.shape,
        dtype=dtype,
        chunks=(1, _chunk_side(height), _chunk_side(width)),
        # The fastest codec that has a checksum and that GDAL reads, from 3.11 on: Blosc has none,
        # and `crc32c` beside it GDAL refuses.
        compressors=[ZstdCodec(level=_LEVEL, checksum=True)],
        dimension_names=("wavelength", "y", "x"),
        # By default zarr leaves out chunks of zeros, and they would look like lost ones.
        config={"write_empty_chunks": True},
    )


def _chunk_side(length: int) -> int:
    """The side of chunks that share *length* about evenly.

    zarr fills the last chunk up, so one of a few pixels would take the time of a whole one.
    """
    return -(-length // -(-length // _CHUNK))


def _ome(cube: SpectralCube, name: str) -> dict[str, Any]:
    """The OME metadata: one image with its axes, and a label for each band."""
    bands = {"name": "wavelength", "type": "channel"}
    scale, start = 1.0, 0.0
    step = even_step(cube.wavelengths, 1e-6)
    # OME-Zarr has a scale for an axis, but no list of places: uneven bands have none.
    if cube.has_wavelengths and step > 0:
        bands["unit"] = "nanometer"
        scale, start = step, float(cube.wavelengths[0])
    transformations = [
        {"type": "scale", "scale": [scale, 1.0, 1.0]},
        {"type": "translation", "translation": [start, 0.0, 0.0]},
    ]
    image = {
        "name": name,
        "axes": [bands, {"name": "y", "type": "space"}, {"name": "x", "type": "space"}],
        "datasets": [{"path": "0", "coordinateTransformations": transformations}],
    }
    channels = [{"label": label, "color": "FFFFFF"} for label in band_names(cube)]
    return {"version": "0.5", "multiscales": [image], "omero": {"channels": channels}}


def _write_numbers(array: Any, cube: SpectralCube, dtype: DType, watch: Watch) -> str:
    """Fill the *array* by blocks of whole chunks, and return their checksum in (B, H, W) order."""
    bands, height, width = cube.shape
    row_bytes = width * dtype.itemsize
    side = _chunk_side(height)
    rows = side * max(1, _BLOCK_BYTES // (side * row_bytes))
    planes = max(1, _BLOCK_BYTES // (height * row_bytes))
    crc = 0
    for band in range(0, bands, planes):
        for row in range(0, height, rows):
            part = (slice(band, band + planes), slice(row, row + rows))
            block = np.ascontiguousarray(cube.data[part], dtype)
            crc = crc32(block, crc)
            array[part] = block
            done = block.shape[0] * min(row + rows, height) / height
            watch.reach((band + done) / bands)
    return f"{crc:08x}"


def _wait_for_chunks() -> None:
    """Wait until zarr writes no chunk: after an error it goes on with those that it has begun."""
    import asyncio

    from zarr.core.sync import sync

    async def others() -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*tasks, return_exceptions=True)

    sync(others())
