"""Valid numbers of a cube: outside bad bands, and other than the fill value.

A header names the bad bands and the fill value (ENVI: `bbl` and `data ignore value`). The numbers
of the cube stay as stored; computations take the `usable` cube. Letters: B bands, H rows, W
columns; b good bands.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_mst.base.arrays import Array, Doubles
from napari_mst.cube.lazy import lazy_of
from napari_mst.cube.parts import Cube, PlainCube, metadata_of_bands, without

_BAD = "bbl"
_IGNORED = "data ignore value"


def good_bands(cube: PlainCube) -> NDArray[np.int_]:
    """Indices of the bands that the file does not mark as bad; all bands if it marks all."""
    count = len(cube.wavelengths)
    marks = cube.metadata.get(_BAD, ())
    is_list = isinstance(marks, Sequence) and len(marks) == count
    is_good = [bool(mark) for mark in marks] if is_list else []
    return np.flatnonzero(is_good) if any(is_good) else np.arange(count)


def usable(cube: Cube) -> Cube:
    """The good bands of *cube*, with NaN for the fill value.

    The numbers are read and changed on demand.
    """
    bands = good_bands(cube)
    if len(bands) == len(cube.wavelengths) and not _has_fill(cube.metadata):
        return cube
    kind = np.result_type(cube.data.dtype, np.float32)
    data = lazy_of(cube.data).part(bands.tolist())
    fields = metadata_of_bands(cube.metadata, bands.tolist(), len(cube.wavelengths))
    return replace(
        cube,
        data=data.mapped(lambda part, _: known(part, cube.metadata), kind),
        wavelengths=cube.wavelengths[bands],
        metadata=without(fields, [_IGNORED]),
    )


def known(numbers: Array, metadata: Mapping[str, Any]) -> Array:
    """*numbers* with NaN for the fill value, and then as floats."""
    is_none = numbers == metadata[_IGNORED] if _has_fill(metadata) else np.zeros(1, dtype=bool)
    return np.where(is_none, np.float32(np.nan), numbers) if is_none.any() else numbers


def in_all_bands(cube: PlainCube, values: Array) -> Doubles:
    """The *values* (..., b) of the good bands, spread over all bands (..., B); NaN in bad bands."""
    every = np.full((*values.shape[:-1], len(cube.wavelengths)), np.nan)
    every[..., good_bands(cube)] = values
    return every


def _has_fill(metadata: Mapping[str, Any]) -> bool:
    value = metadata.get(_IGNORED)
    return isinstance(value, int | float) and bool(np.isfinite(value))
