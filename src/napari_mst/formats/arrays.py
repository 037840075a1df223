"""Files of named arrays (NumPy, MATLAB, HDF5): finding the cube, its wavelengths and its axes.

Letters: B bands, H rows, W columns.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from napari_mst.arrays import Array
from napari_mst.cube.curves import may_be_nanometres
from napari_mst.errors import ChoiceNeeded, mismatch, shown

WAVELENGTHS = ("wavelengths", "wavelength", "bands", "lambda", "wl", "wvl")
"""Names of arrays of wavelengths; the ICVL, NTIRE and ARAD cubes call theirs `bands`."""


def cube_name(name: str, shapes: Mapping[str, tuple[int, ...]], chosen: str | None) -> str:
    """The name of the array that is the cube of the file *name*.

    The *chosen* array, else the one called `cube`, else the only one with three axes.

    Parameters
    ----------
    shapes
        The shape of each array of numbers in the file, by name.

    Raises
    ------
    CubeFileError
        If there is none.
    ChoiceNeeded
        If there are several; the error lists them.
    """
    cubes = {key: shape for key, shape in shapes.items() if len(shape) == 3 and 0 not in shape}
    if chosen is not None and chosen not in cubes:
        expected = f"an array of three axes named {shown(chosen, 30)!r}"
        raise mismatch(name, expected, _listed(cubes), "Choose another.")
    if not cubes:
        expected = "an array of numbers with three axes"
        raise mismatch(name, expected, _listed(shapes), "Save the cube as one array.")
    if chosen is not None:
        return chosen
    if "cube" in cubes:
        return "cube"
    if len(cubes) > 1:
        advice = "Say which: variable='name' (--variable NAME)."
        message = str(mismatch(name, "one array of three axes", _listed(cubes), advice))
        choices: dict[str | int, str] = {
            key: f"{shown(key)}: {_size(shape)}" for key, shape in cubes.items()
        }
        raise ChoiceNeeded(message, "variable", choices)
    return next(iter(cubes))


def wavelengths_of(
    shapes: Mapping[str, tuple[int, ...]],
    name: str,
    read: Callable[[str], Array],
    units: Mapping[str, str] = MappingProxyType({}),
) -> tuple[list[str], str, list[str]]:
    """The wavelengths of the cube *name* that another array holds.

    That array has one of the known names, and as many values as one of the sides of the cube.

    Parameters
    ----------
    read
        Gives the numbers of an array by its name.
    units
        The units of arrays, where the file has any.

    Returns
    -------
    Its values as text, their unit, and what had to be assumed. All three are empty where there is
    no such array, or its values only count the bands (0, 1, 2, ... or 1, 2, 3, ...).
    """
    key = key_of(shapes, name, WAVELENGTHS)
    if key is None:
        return [], "", []
    flat = np.ravel(read(key))
    is_real = flat.dtype.kind in "iuf"
    # Numbers of bands are not wavelengths, even if the array is called so.
    counts = (first + np.arange(flat.size) for first in (0, 1))
    if not is_real or any(np.array_equal(flat, count) for count in counts):
        return [], "", []
    texts = [str(value) for value in flat.tolist()]
    if key in units:
        return texts, units[key], []
    if not may_be_nanometres(flat):
        return texts, "", []
    return texts, "nm", [f"The unit of '{shown(key, 30)}' is not given; nm was assumed."]


def key_of(
    shapes: Mapping[str, tuple[int, ...]], name: str, spellings: Sequence[str]
) -> str | None:
    """The array with one of the *spellings*, in any group, and as long as a side of *name*."""
    keys = [key for key, shape in shapes.items() if key != name and _length(shape) in shapes[name]]
    words = {key.rpartition("/")[2].lower(): key for key in reversed(keys)}
    return next((words[spelling] for spelling in spellings if spelling in words), None)


def band_axis_of(
    shape: tuple[int, ...], wavelengths: int, chosen: int | None
) -> tuple[int, list[str]]:
    """The axis of the bands, and a warning where it was chosen by size alone.

    It is the *chosen* one, else the one that is as long as there are *wavelengths*, else the one
    that is clearly the shortest.

    Raises
    ------
    ChoiceNeeded
        If nothing shows which.
    """
    if chosen in (0, 1, -1):
        return int(chosen), []
    first, *_, last = shape
    by_count = (first == wavelengths, last == wavelengths)
    by_size = (first < min(shape[1:]), last < min(shape[:2]))
    # Two sides that both fit decide nothing: the next rule is tried.
    for is_first, is_last in (by_count, by_size):
        if is_first != is_last:
            axis = 0 if is_first else -1
            place = "first" if is_first else "last"
            doubt = f"The bands were taken to lie along the {place} axis, the shortest."
            return axis, [] if wavelengths == shape[axis] else [doubt]
    raise ChoiceNeeded(
        f"Expected bands first or last, got shape {shape}. "
        "Say which: band_axis=0 or -1 (--band-axis).",
        "band_axis",
        {
            -1: f"last: {last} bands of {_size(shape[:2])}",
            0: f"first: {first} bands of {_size(shape[1:])}",
        },
    )


def _length(shape: tuple[int, ...]) -> int:
    """The length of a vector; 0 if the *shape* is not one of a vector.

    MATLAB has no vectors, only matrices with one row or one column.
    """
    sizes = [size for size in shape if size != 1]
    if not sizes:
        return 1
    return sizes[0] if len(sizes) == 1 else 0


def _size(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


def _listed(shapes: Mapping[str, tuple[int, ...]]) -> str:
    """Names and sizes of arrays, as many as fit into a message."""
    texts = [f"{shown(key, 20)} {'x'.join(map(str, shape))}" for key, shape in shapes.items()]
    return shown(", ".join(texts) or "none", 120)
