"""Plain NumPy arrays: `.npy` files, which hold numbers and nothing else.

They are only read, with the wavelengths that the caller gives: a cube that is saved as `.npz` keeps
its own. Pickled objects are refused, since unpickling runs code. Source: numpy.lib.format.
Letters: B bands, H rows, W columns.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.lib.format import MAGIC_PREFIX

from napari_mst.arrays import Array
from napari_mst.cube import SpectralCube
from napari_mst.cube.lazy import check_room
from napari_mst.errors import complete, mismatch
from napari_mst.formats.arrays import band_axis_of
from napari_mst.formats.numbers import in_native_order, is_large
from napari_mst.formats.record import Description, described_cube

Wavelengths = Sequence[float] | slice
"""Wavelengths in nm: one for each band, or a slice from that of the first band to the last's."""


def is_npy(path: Path) -> bool:
    """True if *path* begins as a `.npy` file."""
    with path.open("rb") as file:
        return file.read(len(MAGIC_PREFIX)) == MAGIC_PREFIX


def read_npy(
    path: Path, *, band_axis: int | None = None, wavelengths: Wavelengths | None = None
) -> SpectralCube:
    """The cube in the array at *path*.

    Parameters
    ----------
    band_axis
        0 or -1: which of its axes holds the bands, where neither wavelengths nor sizes show it.
    wavelengths
        In nm, one for each band; or slice(400, 700), evenly spaced from the first band to the last.
        Without them the bands are numbered.

    Raises
    ------
    CubeFileError
        If the file is damaged, or no array of numbers with three axes, or has another number of
        bands.
    ChoiceNeeded
        If nothing shows which axis holds the bands.
    """
    data = mapped_array(path)
    count = 0 if wavelengths is None or isinstance(wavelengths, slice) else len(wavelengths)
    axis, doubts = band_axis_of(data.shape, count, band_axis)
    texts = _texts(path, wavelengths, data.shape[axis])
    if not is_large(data.nbytes):
        check_room(path.name, data.nbytes)
        data = np.array(data)
    cube = in_native_order(np.moveaxis(data, axis, 0))
    return described_cube(cube, Description(texts, "nm" if texts else ""), doubts)


def mapped_array(path: Path) -> Array:
    """The array at *path* as it is stored: three axes, mapped into memory but not read.

    Raises
    ------
    CubeFileError
        If the file is damaged, or no array of numbers with three axes.
    """
    # numpy and the parser of the header raise five unrelated types about damaged files.
    with complete(path.name, "NPY file"):
        data: Array = np.load(os.fspath(path), mmap_mode="r", allow_pickle=False)
    if data.ndim != 3 or data.dtype.kind not in "biufc" or 0 in data.shape:
        fault = f"{data.dtype} of shape {data.shape}"
        raise mismatch(path.name, "numbers of three axes", fault, "Save the cube as one array.")
    return data


def _texts(path: Path, wavelengths: Wavelengths | None, bands: int) -> list[str]:
    """The wavelengths of *bands* bands as text; none if they are unknown."""
    if wavelengths is None:
        return []
    if isinstance(wavelengths, slice):
        wavelengths = np.linspace(wavelengths.start, wavelengths.stop, bands).tolist()
    values = np.array(wavelengths, dtype=np.float64)
    if len(values) != bands:
        expected = f"{len(values)} bands, one for each wavelength"
        raise mismatch(path.name, expected, str(bands), f"Give {bands} wavelengths.")
    if not (values > 0).all():
        fault = f"{values.min():g} nm"
        raise mismatch(path.name, "bands of wavelengths above 0", fault, "Give them in nm.")
    return [repr(nm) for nm in values.tolist()]
