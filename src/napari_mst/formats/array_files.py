"""Files of named arrays (NumPy, MATLAB, HDF5, Zarr): finding the cube, its axes and wavelengths.

Descriptions in a file take precedence over guesses from shapes. Names of axes, coordinates and the
number of bands decide, then MATLAB's order, and only then the shortest side, with a warning.
Letters: B bands, H rows, W columns.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from posixpath import commonpath
from typing import Any, NamedTuple

import numpy as np

from napari_mst.base.arrays import Array, DType
from napari_mst.base.errors import ChoiceNeeded, NapariMstError, OutOfMemory, mismatch, shown
from napari_mst.cube.curves import power_of
from napari_mst.cube.georeference import COUNTS, FIELD, Georeference
from napari_mst.cube.labelled import CF_NAMES, COLUMN_NAMES, ROW_NAMES, SPECTRAL_NAMES
from napari_mst.formats.conventions import WORDS, word_of

WAVELENGTHS = ("wavelengths", "wavelength", "bands", "lambda", "wl", "wvl")
"""Names of arrays of wavelengths; the ICVL, NTIRE and ARAD cubes call theirs `bands`."""
SMALL_BYTES = 64 * 2**20
"""Largest text or array of wavelengths, in bytes; more means damage."""
WAVELENGTHS_AND_UNIT = re.compile(
    r"((center|centre|band|central)_?)?wave_?lengths?_?(?P<unit>nm|um)?"
)
"""Further names of arrays of wavelengths, which may end in the unit."""
_OF_BANDS = {"fwhm": ("fwhm",), "bbl": ("bbl", "good_wavelengths")}
"""Fields with one value per band, and the arrays or attributes that hold them."""
_PUBLISHED = ("cube", "rad")
"""Names of cubes in the NTIRE, ARAD and ICVL data sets and in the published toolbox's results.

In MATLAB's order, their bands come last.
"""
_METRES = 6  # smallest power of ten of a length on the ground, in which rows may be given
_NO_UNITS = ("1", "-", "none", "unitless")
_LISTED = 130  # most characters of names and sizes in a message


@dataclass(frozen=True)
class StoredArray:
    """An array of a file whose numbers are not read yet.

    Attributes
    ----------
    shape
        In the axis order of the program that the format belongs to, such as MATLAB.
    dtype
        The type of the numbers.
    stored_bytes
        Bytes of all numbers as stored, compressed or not.
    read
        Returns the numbers.
    offset, order
        Start of the numbers in the file, and their order, "F" or "C"; None if they are in pieces.
    is_chunked
        True for an HDF5 array in chunks that can be read one by one.
    is_matlab
        True if the axes are in MATLAB's order.
    axes
        Names of the axes in lower case; empty if the file has none.
    attributes
        Texts and numbers stored with the array.
    check
        Raises `CubeFileError` if parts of the array are lost, and returns warnings about parts that
        may never have been written.
    """

    shape: tuple[int, ...]
    dtype: DType
    stored_bytes: int
    read: Callable[[], Array]
    offset: int | None = None
    order: str = "F"
    is_chunked: bool = False
    is_matlab: bool = False
    axes: tuple[str, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    check: Callable[[], list[str]] = list

    @property
    def nbytes(self) -> int:
        """Bytes of the numbers in memory."""
        return math.prod(self.shape) * self.dtype.itemsize


Arrays = Mapping[str, StoredArray]
"""The arrays of numbers in a file by name, which includes the groups of the array."""


class Answers(NamedTuple):
    """The user's answers where a file of arrays is ambiguous, see `read_cube`.

    *bands* is the number of wavelengths that the user gives; 0 for none.
    """

    variable: str | None = None
    band_axis: int | None = None
    bands: int = 0


NO_ANSWERS = Answers()
"""For files that need no answers."""


@dataclass(frozen=True)
class FoundCube:
    """The cube of a file of arrays.

    Attributes
    ----------
    name, axis
        The array, and the index of its axis of bands.
    wavelengths, unit
        Wavelengths as texts, and the file's word for their unit; empty if missing.
    fields
        Metadata from other arrays.
    attributes
        Attributes of the numbers, with the scaling from arrays beside the cube.
    warnings
        Sentences for people.
    """

    name: str
    axis: int
    wavelengths: list[str]
    unit: str
    fields: dict[str, Any]
    attributes: dict[str, Any]
    warnings: list[str]


def find_cube(file: str, arrays: Arrays, answers: Answers) -> FoundCube:
    """The cube among the *arrays* of *file*, with the facts in the other arrays.

    Raises
    ------
    CubeFileError
        If no array has three axes.
    ChoiceNeeded
        If several arrays may be the cube, or several axes the bands.
    """
    name = cube_name(file, arrays, answers.variable)
    array = arrays[name]
    warnings: list[str] = []
    axis = None if answers.band_axis is None else answers.band_axis % 3
    axis = _axis_by_names(arrays, array) if axis is None else axis
    texts, unit = _wavelengths(arrays, name, axis, warnings)
    if axis is None:
        count = answers.bands or len(texts)
        is_published = array.is_matlab and name in _PUBLISHED
        if is_published and count in (0, array.shape[-1]):
            axis = 2
        else:
            axis, doubts = band_axis_of(array.shape, count, None)
            axis %= 3
            warnings += doubts
    fields = _fields(arrays, name, axis, warnings)
    if place := _place(arrays, array, axis, warnings):
        fields[FIELD] = place.to_json()
    # Wavelengths along an axis other than the bands describe no band.
    texts = texts if len(texts) == array.shape[axis] else []
    about = dict(array.attributes) | _scaling_beside(arrays, name, axis, warnings)
    return FoundCube(name, axis, texts, unit if texts else "", fields, about, warnings)


def cube_name(file: str, arrays: Arrays, chosen: str | None) -> str:
    """The name of the array that is the cube of *file*.

    It is the *chosen* array, else the one called `cube`, else the only one with three axes, else
    the only one of these with wavelengths. An array with the uncertainties of another array is not
    a cube.
    """
    shapes = {key: array.shape for key, array in arrays.items()}
    cubes = {key: shape for key, shape in shapes.items() if len(shape) == 3 and 0 not in shape}
    if chosen is not None and chosen not in cubes:
        expected = f"an array of three axes named {shown(chosen, 30)!r}"
        raise mismatch(file, expected, _listed(cubes), "Choose another.")
    if not cubes:
        expected = "an array of numbers with three axes"
        raise mismatch(file, expected, _listed(shapes), "Save the cube as one array.")
    if chosen is not None or "cube" in cubes:
        return "cube" if chosen is None else chosen
    likely = [key for key in cubes if not any(key.startswith(f"{other}_") for other in cubes)]
    if len(likely) > 1:
        described = [key for key in likely if _key_of(arrays, key, WAVELENGTHS, None)]
        likely = described if len(described) == 1 else likely
    if len(likely) == 1:
        return likely[0]
    advice = "Say which: variable='name' (--variable NAME)."
    message = str(mismatch(file, "one array of three axes", _listed(cubes), advice))
    choices: dict[str | int, str] = {key: f"{key}: {_size(shape)}" for key, shape in cubes.items()}
    raise ChoiceNeeded(message, "variable", choices)


def kept_axes(shape: Sequence[int]) -> list[int]:
    """The axes to keep of an array: those of length one are dropped if three others remain."""
    longer = [at for at, size in enumerate(shape) if size > 1]
    return longer if len(shape) > 3 and len(longer) == 3 else list(range(len(shape)))


def band_axis_of(
    shape: tuple[int, ...], wavelengths: int, chosen: int | None
) -> tuple[int, list[str]]:
    """The axis of the bands, and a warning if it was chosen by size alone.

    It is the *chosen* axis, else the only axis with as many elements as there are *wavelengths*,
    else the first or last axis if it is the shortest.

    Raises
    ------
    ChoiceNeeded
        If none of these rules applies.
    """
    if chosen in (0, 1, 2, -1):
        return int(chosen), []
    if shape.count(wavelengths) == 1:
        return shape.index(wavelengths), []
    first, *_, last = shape
    for axis, place, others in ((0, "first", shape[1:]), (-1, "last", shape[:-1])):
        if shape[axis] < min(others):
            return axis, [f"The bands were taken to lie along the {place} axis, the shortest."]
    raise ChoiceNeeded(
        f"Expected bands first or last, got shape {shape}. "
        "Say which: band_axis=0 or -1 (--band-axis).",
        "band_axis",
        {
            -1: f"last: {last} bands of {_size(shape[:2])}",
            0: f"first: {first} bands of {_size(shape[1:])}",
        },
    )


def hyperspy_axes(axes: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The names of the *axes* of a HyperSpy signal, and the wavelengths as attributes of the array.

    HyperSpy marks the navigation axes: rows and columns, or the bands in a stack of images.
    """
    is_image = [bool(axis.get("navigate")) for axis in axes]
    if sum(is_image) == 1:
        is_image = [not mark for mark in is_image]
    if is_image.count(False) != 1:
        return (), {}
    spectral = axes[is_image.index(False)]
    names = tuple("" if mark else "wavelength" for mark in is_image)
    unit = str(spectral.get("units", ""))
    if power_of(unit) is None or not {"offset", "scale", "size"} <= spectral.keys():
        return names, {}
    steps = np.arange(int(spectral["size"]))
    at = float(spectral["offset"]) + float(spectral["scale"]) * steps
    return names, {"wavelengths": at.tolist(), UNITS: unit}


UNITS = "wavelength_units"
"""Attribute of a cube with the unit of its wavelengths."""


def _axis_by_names(arrays: Arrays, array: StoredArray) -> int | None:
    """The axis of bands according to the names of axes and their coordinates; None if unclear."""
    words = _by_word(arrays)
    spectral, image = [], []
    for at, name in enumerate(array.axes):
        about = arrays[words[name]].attributes if name in words else {}
        standard = str(about.get("standard_name", ""))
        is_spectral = name in SPECTRAL_NAMES or "wavelength" in name or name.endswith("bands")
        # Rows and columns of a microscope are in um, like some wavelengths.
        if name in ROW_NAMES | COLUMN_NAMES or "projection" in standard or "itude" in standard:
            image.append(at)
        elif is_spectral or standard in CF_NAMES or _is_length(about):
            spectral.append(at)
    if len(spectral) == 1:
        return spectral[0]
    left = {0, 1, 2} - set(image)
    return left.pop() if len(left) == 1 else None


def _is_length(attributes: Mapping[str, Any]) -> bool:
    """True if *attributes* have a unit of wavelengths rather than of distances on earth."""
    power = power_of(str(attributes.get("units", "")))
    return power is not None and power < _METRES


def _wavelengths(
    arrays: Arrays, name: str, axis: int | None, warnings: list[str]
) -> tuple[list[str], str]:
    """The wavelengths of the cube *name* as texts, and their unit.

    They come from an attribute of the cube, or from an array with a known name and the length of
    one of the cube's sides. Both are empty if there are no wavelengths, or if they only number the
    bands (0, 1, 2, ... or 1, 2, 3, ...).
    """
    cube = arrays[name]
    about = {word_of(key): value for key, value in cube.attributes.items()}
    values = next((about[key] for key in WAVELENGTHS if isinstance(about.get(key), list)), None)
    unit = str(about.get(word_of(UNITS), about.get("wavelengthunit", "")))
    if values is None or len(values) not in cube.shape:
        key = _key_of(arrays, name, WAVELENGTHS, axis)
        values = _read(arrays, key, warnings) if key else None
        if values is None:
            return [], ""
        about = {word_of(key): value for key, value in arrays[str(key)].attributes.items()}
        named = WAVELENGTHS_AND_UNIT.fullmatch(_last(str(key)))
        unit = str(about.get("units", about.get("unit", unit or (named and named["unit"]) or "")))
    flat = np.ravel(np.asarray(values))
    is_real = flat.dtype.kind in "iuf"
    # Band numbers are not wavelengths, whatever the name of the array.
    counts = (first + np.arange(flat.size) for first in (0, 1))
    if not is_real or any(np.array_equal(flat, count) for count in counts):
        return [], ""
    return [str(value) for value in flat.tolist()], "" if unit.lower() in _NO_UNITS else unit


def _fields(arrays: Arrays, name: str, axis: int, warnings: list[str]) -> dict[str, Any]:
    """The fields of the cube *name* with one value per band."""
    cube = arrays[name]
    fields = {}
    for word, spellings in _OF_BANDS.items():
        values = next((cube.attributes[key] for key in spellings if key in cube.attributes), None)
        key = _key_of(arrays, name, spellings, axis)
        if values is None and key is not None:
            values = _read(arrays, key, warnings)
        flat = np.ravel(np.asarray([] if values is None else values))
        if flat.size == cube.shape[axis] and flat.dtype.kind in "biuf":
            fields[word] = flat.tolist()
    return fields


def _scaling_beside(arrays: Arrays, name: str, axis: int, warnings: list[str]) -> dict[str, Any]:
    """Scaling and fill values by name, from arrays in the group of the cube *name*."""
    group, _, _ = name.rpartition("/")
    sizes = (1, arrays[name].shape[axis])
    found = {}
    for key, array in arrays.items():
        parent, _, word = key.rpartition("/")
        if group and parent == group and word_of(word) in WORDS and math.prod(array.shape) in sizes:
            values = _read(arrays, key, warnings)
            if values is not None:
                found[word] = values.item() if values.size == 1 else np.ravel(values).tolist()
    return found


def _read(arrays: Arrays, key: str, warnings: list[str]) -> Array | None:
    """The numbers of a side array; None and a warning if they cannot be read."""
    try:
        doubts = arrays[key].check()
        values = arrays[key].read()
    # Libraries raise all kinds of errors about a damaged file.
    except (NapariMstError, OSError, ValueError, RuntimeError, KeyError, TypeError) as error:
        if isinstance(error, OutOfMemory):
            raise
        warnings.append(f"'{shown(key, 60)}' cannot be read, and was left out.")
        return None
    warnings.extend(doubts)
    return values


def _key_of(arrays: Arrays, name: str, spellings: Sequence[str], axis: int | None) -> str | None:
    """The name of an array with one value per band of *name*; None without one.

    Its name is one of *spellings*, or it is a wavelength by its CF name, or the coordinate of the
    bands in a unit of length. It may lie in any group; the nearest group comes first. Its length is
    that of the *axis* of bands, or of any side if the axis is unknown.
    """
    sides = arrays[name].shape if axis is None else [arrays[name].shape[axis]]
    keys = [
        key
        for key, array in arrays.items()
        if key != name and _length(array.shape) in sides and array.nbytes <= SMALL_BYTES
    ]
    keys.sort(key=lambda key: -len(commonpath([key, name])))
    if spellings is WAVELENGTHS:
        axes = arrays[name].axes
        along = axes[axis] if axes and axis is not None else None
        about = {key: arrays[key].attributes for key in keys}
        described = [key for key in keys if str(about[key].get("standard_name")) in CF_NAMES]
        described += [key for key in keys if _last(key) == along and _is_length(about[key])]
        if described:
            return described[0]
    words = {_last(key): key for key in reversed(keys)}
    if spelling := next((each for each in spellings if each in words), None):
        return words[spelling]
    named = filter(WAVELENGTHS_AND_UNIT.fullmatch, words if spellings is WAVELENGTHS else ())
    return next((words[word] for word in named), None)


def _place(
    arrays: Arrays, array: StoredArray, axis: int, warnings: list[str]
) -> Georeference | None:
    """The georeference of the image, from the coordinates of its axes and its CF grid mapping."""
    words = _by_word(arrays)
    sides = [name for at, name in enumerate(array.axes) if at != axis]
    keys = [words[name] for name in sides if name in words]
    if any(arrays[key].attributes.get("long_name") in COUNTS for key in keys):
        return None
    read = [_read(arrays, key, warnings) for key in keys if len(arrays[key].shape) == 1]
    found = [values for values in read if values is not None]
    if len(found) != 2:
        return None
    y, x = found
    # In CF, the coordinates may follow the name of the grid mapping.
    mapping = str(array.attributes.get("grid_mapping", "")).partition(":")[0].lower()
    about = arrays[words[mapping]].attributes if mapping in words else {}
    return Georeference.of_grid(x, y, about)


def _by_word(arrays: Iterable[str]) -> dict[str, str]:
    """The names of arrays by their last word, in lower case."""
    return {_last(key): key for key in arrays}


def _last(key: str) -> str:
    return key.rpartition("/")[2].lower()


def _length(shape: tuple[int, ...]) -> int:
    """The length of a vector; 0 if *shape* is not the shape of a vector.

    MATLAB has no vectors, only matrices with one row or one column.
    """
    return math.prod(shape) if sum(size != 1 for size in shape) < 2 else 0


def _size(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


def _listed(shapes: Mapping[str, tuple[int, ...]]) -> str:
    """Names and sizes of arrays for a message. Names stay whole, since users have to type them."""
    texts: list[str] = []
    for key, shape in shapes.items():
        text = f"{key} {'x'.join(map(str, shape))}"
        if texts and len(", ".join([*texts, text])) > _LISTED:
            return f"{', '.join(texts)} and {len(shapes) - len(texts)} more"
        texts.append(text)
    return ", ".join(texts) or "none"
