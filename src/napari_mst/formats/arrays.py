"""Files of named arrays (NumPy, MATLAB, HDF5): which of them is the cube, which its wavelengths, and how the axes lie.

Letters: B bands, H rows, W columns.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_mst.errors import ChoiceNeeded
from napari_mst.formats.wavelengths import may_be_nanometres
from napari_mst.messages import mismatch, shown

WAVELENGTHS = ("wavelengths", "wavelength", "bands", "lambda", "wl", "wvl")
"""What arrays of wavelengths are called; `bands` in the ICVL, NTIRE and ARAD cubes."""


def cube_name(name: str, shapes: Mapping[str, tuple[int, ...]], wanted: str | None) -> str:
    """Which array of the file *name* is the cube: the *wanted*, else `cube`, else the only one of three axes.

    Parameters
    ----------
    shapes
        Of the arrays of numbers in the file, by name.

    Raises
    ------
    CubeFileError
        If there is none.
    ChoiceNeeded
        If there are several, listing them.
    """
    cubes = {key: shape for key, shape in shapes.items() if len(shape) == 3 and 0 not in shape}
    if wanted is not None:
        if wanted in cubes:
            return wanted
        raise mismatch(
            name,
            f"an array of three axes named {shown(wanted, 30)!r}",
            _listed(cubes),
            "Choose another.",
        )
    if "cube" in cubes:
        return "cube"
    if not cubes:
        raise mismatch(
            name,
            "an array of numbers with three axes",
            _listed(shapes),
            "Save the cube as one array.",
        )
    if len(cubes) > 1:
        message = str(
            mismatch(
                name,
                "one array of three axes",
                _listed(cubes),
                "Say which: variable='name' (--variable NAME).",
            )
        )
        raise ChoiceNeeded(
            message,
            "variable",
            {key: f"{shown(key)}: {_size(shape)}" for key, shape in cubes.items()},
        )
    return next(iter(cubes))


def wavelengths_name(shapes: Mapping[str, tuple[int, ...]], sides: tuple[int, ...]) -> str | None:
    """Which array holds the wavelengths of the bands: one of the known names, as long as a side of the cube."""
    by_name = {key.lower(): key for key, shape in shapes.items() if _length(shape) in sides}
    return next((by_name[known] for known in WAVELENGTHS if known in by_name), None)


def wavelengths_of(key: str, values: NDArray[Any]) -> tuple[list[str], str, list[str]]:
    """The *values* of the array *key* as text, their unit, and what had to be assumed; nothing if they only count."""
    flat = np.ravel(values)
    if flat.dtype.kind not in "iuf" or any(
        np.array_equal(flat, first + np.arange(flat.size)) for first in (0, 1)
    ):
        return [], "", []
    is_nm = may_be_nanometres(flat)
    told = [f"The unit of '{shown(key, 30)}' is not given; nm was assumed."] * is_nm
    return [str(value) for value in flat.tolist()], "nm" * is_nm, told


def band_axis_of(shape: tuple[int, ...], wavelengths: int, wanted: int | None) -> int:
    """0 or -1, the axis of the bands: the *wanted*, the one with that many *wavelengths*, or the one clearly shortest.

    Raises
    ------
    ChoiceNeeded
        If nothing tells.
    """
    if wanted in (0, -1):
        return int(wanted)
    by_count = (shape[0] == wavelengths, shape[2] == wavelengths)
    by_size = (shape[0] < min(shape[1:]), shape[2] < min(shape[:2]))
    for is_first, is_last in (by_count, by_size):
        if is_first != is_last:
            return 0 if is_first else -1
    first, *_, last = shape
    raise ChoiceNeeded(
        f"Expected bands first or last, got shape {shape}. Say which: band_axis=0 or -1 (--band-axis).",
        "band_axis",
        {
            -1: f"last: {last} bands of {_size(shape[:2])}",
            0: f"first: {first} bands of {_size(shape[1:])}",
        },
    )


def _length(shape: tuple[int, ...]) -> int:
    """Of a vector, of whichever orientation; 0 if it is none."""
    sizes = [size for size in shape if size != 1]
    return (sizes or [1])[0] if len(sizes) < 2 else 0


def axis_doubts(
    shape: tuple[int, ...], axis: int, wavelengths: int, wanted: int | None
) -> list[str]:
    """What to say of an *axis* from `band_axis_of` that was chosen by size alone."""
    if wanted is not None or wavelengths == shape[axis]:
        return []
    return [
        f"The bands were taken to lie along the {'last' if axis else 'first'} axis, the shortest."
    ]


def _size(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


def _listed(shapes: Mapping[str, tuple[int, ...]]) -> str:
    """Names and sizes, as many as fit into a message."""
    texts = [f"{shown(key, 20)} {'x'.join(map(str, shape))}" for key, shape in shapes.items()]
    return shown(", ".join(texts) or "none", 120)
