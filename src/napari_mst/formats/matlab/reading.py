"""Reading MAT-files in a process of their own (`process`): their libraries crash on damaged ones.

Letters: B bands, H rows, W columns.
"""

import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_mst.cube import SpectralCube
from napari_mst.formats import numbers, seal
from napari_mst.formats.matlab.stored import HDF5_MARK, SEAL
from napari_mst.formats.matlab.writing import bands_description
from napari_mst.formats.record import OWN, Description, described_cube
from napari_mst.isolation.asking import decoding
from napari_mst.memory import free_host_memory
from napari_mst.messages import mismatch

_LEVEL_5_MARKS = (b"\0\1IM", b"\1\0MI", b"\0\2IM", b"\2\0MI")


def is_matlab(path: Path) -> bool:
    """True if *path* begins as a MAT-file of version 5 to 7.3, or is an HDF5 file called `.mat`."""
    with path.open("rb") as file:
        head = file.read(128)
    if head[124:128] in _LEVEL_5_MARKS:
        return True
    return head.startswith(HDF5_MARK) and path.suffix.lower() == ".mat"


def read_matlab(
    path: Path,
    *,
    variable: str | None = None,
    band_axis: int | None = None,
    verify: bool | None = None,
) -> SpectralCube:
    """The cube in the MAT-file at *path*, with rows and columns as MATLAB shows them.

    Parameters
    ----------
    variable
        Name of the array that is the cube, where there are several of three axes; `group/name` in
        a structure.
    band_axis
        0 or -1: which of its axes (in MATLAB) holds the bands, where neither wavelengths nor sizes
        tell.
    verify
        Compare the numbers with the checksum that we saved; by default unless the file is
        memory-mapped.

    Raises
    ------
    CubeFileError
        If the file is damaged, even where that crashes its reader or never ends; if it is too
        large when decompressed, or has no array, or several, that may be the cube.
    """
    options = [variable, band_axis, free_host_memory(), numbers.LAZY_BYTES]
    refusal = partial(mismatch, path.name, "a MAT-file")
    with decoding("napari_mst.formats.matlab.process:answer", path, options, refusal) as decoder:
        told = decoder.description()
        is_mapped = "offset" in told
        data = _mapped(path, told) if is_mapped else decoder.numbers(told["shape"], told["dtype"])
    if SEAL not in told:
        description = Description(told.get("wavelengths", ()), told.get("unit", ""))
        return described_cube(data, description, told.get("warnings", ()))
    others = bands_description(told["bands"])
    description = seal.sealed_description(path.name, told[SEAL], [told.get(OWN, "")], others)
    seal.check_shape(path.name, data, description)
    seal.verify(path.name, data, description, verify)
    return described_cube(data, description)


def _mapped(path: Path, told: Mapping[str, Any]) -> NDArray[Any]:
    """A view of the file, (B, H, W)."""
    shape = told["shape"]
    flat = np.memmap(path, told["dtype"], "r", told["offset"], (math.prod(shape),))
    return np.moveaxis(flat.reshape(shape, order="F"), told["axis"], 0)
