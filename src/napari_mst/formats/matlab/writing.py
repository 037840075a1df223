"""Writing MAT-files of version 7.3, as the published MST++ toolbox does.

Letters: B bands, H rows, W columns.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from napari_mst.arrays import Array, DType
from napari_mst.cube import SpectralCube
from napari_mst.formats import seal
from napari_mst.formats.matlab.stored import CLASSES, SEAL, USERBLOCK
from napari_mst.formats.numbers import crc32
from napari_mst.formats.record import OWN, Description, record_of
from napari_mst.watch import Watch

# The 128 bytes by which MATLAB knows version 7.3: text, no subsystem data, version 0x0200, and the
# byte order.
_HEADER = (
    b"MATLAB 7.3 MAT-file, Platform: napari-mst, HDF5 schema 1.00 .".ljust(116)
    + bytes(8)
    + b"\0\2IM"
)
# Rows that are transposed at once, so that they stay in the processor's cache.
_ROWS = 64


def write_matlab(path: Path, cube: SpectralCube, dtype: DType, watch: Watch) -> None:
    """Save *cube* as MATLAB 7.3: `cube` (H x W x B), `bands` (nm) and our record, uncompressed."""
    import h5py

    with _full_disk_as_os_error(), h5py.File(path, "w", userblock_size=USERBLOCK) as file:
        stored = _create(file, cube, dtype)
        # The library would take twice as long for the numbers as a plain file does.
        with path.open("r+b") as raw:
            raw.seek(stored.id.get_offset())
            crc = _write_planes(raw, cube.data, dtype, watch)
        _describe(file, stored, cube, crc)
    # The library leaves the user block, which comes first in the file, to others.
    with path.open("r+b") as raw:
        raw.write(_HEADER)


def bands_description(wavelengths: Sequence[float]) -> Description:
    """The description that other programs find in `bands`: *wavelengths* in nm, or none."""
    return Description([str(value) for value in wavelengths], "nm" if wavelengths else "")


@contextmanager
def _full_disk_as_os_error() -> Iterator[None]:
    """An `OSError` where HDF5 raises a `RuntimeError`: it finds out when it closes a file."""
    try:
        yield
    except RuntimeError as error:
        raise OSError(str(error)) from error


def _create(file: Any, cube: SpectralCube, dtype: DType) -> Any:
    """The dataset `cube` (B, W, H), whose place in the file is known before its numbers are."""
    import h5py

    bands, height, width = cube.shape
    plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plan.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    # Zeros would be written first, only to be replaced.
    plan.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    space = h5py.h5s.create_simple((bands, width, height))
    kind = h5py.h5t.py_create(dtype)
    stored = h5py.Dataset(h5py.h5d.create(file.id, b"cube", kind, space, plan))
    stored.attrs["MATLAB_class"] = np.bytes_(CLASSES[dtype.str[1:]])
    file.flush()
    return stored


def _describe(file: Any, stored: Any, cube: SpectralCube, crc: str) -> None:
    """Add the seal, the wavelengths and our record."""
    wavelengths = cube.wavelengths.tolist() if cube.has_wavelengths else []
    text = seal.seal_of(cube, stored.dtype, crc, bands_description(wavelengths))
    stored.attrs[SEAL] = np.bytes_(text)
    if cube.has_wavelengths:
        # MATLAB has matrices only.
        _add(file, "bands", cube.wavelengths[:, np.newaxis], b"double")
    # MATLAB has text as UTF-16, and knows it from numbers by these two attributes.
    codes = np.frombuffer(json.dumps(record_of(cube)).encode("utf-16-le"), "<u2")
    record = _add(file, OWN, codes[:, np.newaxis], b"char")
    record.attrs["MATLAB_int_decode"] = np.int32(2)


def _write_planes(raw: IO[bytes], data: Array, dtype: DType, watch: Watch) -> str:
    """Write (B, W, H) numbers, a band at a time, and return their checksum in (B, H, W) order."""
    bands, height, width = data.shape
    turned = np.empty((width, height), dtype)
    crc = 0
    for band in range(bands):
        plane = np.ascontiguousarray(data[band], dtype)
        crc = crc32(plane, crc)
        for row in range(0, height, _ROWS):
            turned[:, row : row + _ROWS] = plane[row : row + _ROWS].T
        raw.write(turned.data)
        watch.reach((band + 1) / bands)
    return f"{crc:08x}"


def _add(file: Any, name: str, values: Array, matlab_class: bytes) -> Any:
    stored = file.create_dataset(name, data=values)
    stored.attrs["MATLAB_class"] = np.bytes_(matlab_class)
    return stored
