"""Writing OME-Zarr: zarr makes the metadata, and we compress chunks and move all to the disk.

Letters: B bands, H rows, W columns.
"""

import json
from itertools import product
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from napari_mst import crash_safe
from napari_mst.cube import SpectralCube
from napari_mst.formats import seal
from napari_mst.formats.numbers import crc32, stored_type
from napari_mst.formats.record import OWN, Description, record_of
from napari_mst.formats.wavelengths import band_names
from napari_mst.formats.zarr.chunks import SEAL
from napari_mst.formats.zarr.reading import is_zarr
from napari_mst.watch import UNWATCHED, Watch

_STORED = ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8")
_CHUNK = 512  # the longest side of a chunk
_BLOCK_BYTES = 16 * 2**20
_LEVEL = 1  # of zstd


def write_zarr(
    path: Path, cube: SpectralCube, *, overwrite: bool = False, watch: Watch = UNWATCHED
) -> Path:
    """Save *cube* in chunks of one band, compressed without loss; bool becomes uint8.

    Raises
    ------
    SaveError
        If the numbers cannot be stored without loss, or as
        `crash_safe.saving_folder`.
    """
    from zarr.storage import MemoryStore

    dtype = stored_type(cube.data, _STORED, "a Zarr file")
    needed = cube.data.size * dtype.itemsize + 2**20
    # zarr writes here; `_write_out` moves what it has written to the disk.
    files: dict[str, Any] = {}
    with crash_safe.saving_folder(path, is_zarr, needed=needed, overwrite=overwrite) as temporary:
        array = _create(MemoryStore(files), cube, dtype, path.stem)

        def written(share: float) -> None:
            _write_out(files, temporary)
            watch.reach(share)

        crc = _write_numbers(_Chunks(array, files), cube, dtype, Watch(written))
        others = Description(names=band_names(cube))
        array.attrs[SEAL] = seal.seal_of(cube, dtype, crc, others).decode()
        _write_out(files, temporary)
    return path


def _create(store: Any, cube: SpectralCube, dtype: np.dtype[Any], name: str) -> Any:
    """The array `0` of a new group, as OME-Zarr calls the full resolution of an image."""
    import zarr
    from zarr.codecs import ZstdCodec

    _, height, width = cube.shape
    attributes = {"ome": _ome(cube, name), OWN: json.dumps(record_of(cube))}
    group = zarr.create_group(store, attributes=attributes, zarr_format=3)
    return group.create_array(
        "0",
        shape=cube.shape,
        dtype=dtype,
        chunks=(1, _chunk_side(height), _chunk_side(width)),
        # The fastest codec that has a checksum and that GDAL reads, from 3.11 on: Blosc has none,
        # and `crc32c` beside it GDAL refuses.
        compressors=[ZstdCodec(level=_LEVEL, checksum=True)],
        dimension_names=("wavelength", "y", "x"),
        # By default zarr leaves out chunks of zeros, and nothing would tell them from lost ones.
        config={"write_empty_chunks": True},
    )


def _chunk_side(length: int) -> int:
    """The side of chunks that share *length* about evenly.

    zarr fills the last chunk up, so one of a few pixels would take the time of a whole one.
    """
    return -(-length // -(-length // _CHUNK))


def _ome(cube: SpectralCube, name: str) -> dict[str, Any]:
    """The OME metadata: one image with its axes, and a label for each band."""
    steps = np.diff(cube.wavelengths)
    step = float(steps[0]) if steps.size else 1.0
    # OME-Zarr has a scale for an axis, but no list of places: uneven bands have none.
    is_even = cube.has_wavelengths and step > 0 and bool(np.allclose(steps, step, rtol=1e-6))
    bands = {"name": "wavelength", "type": "channel"}
    scale = 1.0
    start = 0.0
    if is_even:
        bands["unit"] = "nanometer"
        scale = step
        start = float(cube.wavelengths[0])
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


class _Chunks(NamedTuple):
    """An *array* of zarr, and the *files* that its chunks become.

    zarr itself would take over a millisecond for each chunk, most of it in its event loop, which is
    more than the compression.
    """

    array: Any
    files: dict[str, Any]

    def put(self, block: NDArray[Any], first: tuple[int, int]) -> None:
        """Compress a *block* (b, h, W) of whole chunks, which begins at the chunk *first*."""
        from numcodecs.zstd import Zstd

        codec = Zstd(level=_LEVEL, checksum=True)
        _, height, width = self.array.chunks
        band, row = first
        for index, plane in enumerate(block):
            for y, x in product(range(0, len(plane), height), range(0, plane.shape[1], width)):
                place = (band + index, row + y // height, x // width)
                name = f"{self.array.path}/{self.array.metadata.encode_chunk_key(place)}"
                chunk = _filled_up(plane[y : y + height, x : x + width], (height, width))
                self.files[name] = codec.encode(chunk)


def _filled_up(numbers: NDArray[Any], shape: tuple[int, int]) -> NDArray[Any]:
    """*numbers* side by side in memory, with zeros up to *shape*."""
    if numbers.shape == shape:
        return np.ascontiguousarray(numbers)
    whole = np.zeros(shape, numbers.dtype)
    whole[: numbers.shape[0], : numbers.shape[1]] = numbers
    return whole


def _write_numbers(chunks: _Chunks, cube: SpectralCube, dtype: np.dtype[Any], watch: Watch) -> str:
    """Give *chunks* the numbers, and return their checksum in (B, H, W) order."""
    bands, height, width = cube.shape
    row_bytes = width * dtype.itemsize
    side = _chunk_side(height)
    rows = side * max(1, _BLOCK_BYTES // (side * row_bytes))
    planes = max(1, _BLOCK_BYTES // (height * row_bytes))
    stored = dtype.newbyteorder("<")  # as the codec `bytes` of zarr says
    crc = 0
    for band in range(0, bands, planes):
        for row in range(0, height, rows):
            part = (slice(band, band + planes), slice(row, row + rows))
            block = np.ascontiguousarray(cube.data[part], stored)
            crc = crc32(block, crc)
            chunks.put(block, (band, row // side))
            done = block.shape[0] * min(row + rows, height) / height
            watch.reach((band + done) / bands)
    return f"{crc:08x}"


def _write_out(files: dict[str, Any], folder: Path) -> None:
    """Move the *files* that zarr made, by their paths, into *folder*.

    If the folder has gone meanwhile, this fails. zarr itself would make it again, and call a part
    of the cube a success.
    """
    while files:
        name, content = files.popitem()
        # Outer folders first. `parents=True` would make *folder* again where it has gone.
        for inner in reversed(PurePath(name).parents[:-1]):
            (folder / inner).mkdir(exist_ok=True)
        # Metadata come in a buffer of zarr.
        data = content if isinstance(content, bytes) else content.as_numpy_array()
        (folder / name).write_bytes(data)
