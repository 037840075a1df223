"""Cubes as xarray has them: an array whose axes have names, coordinates and units.

Names and units follow the CF conventions, version 1.11 (https://cfconventions.org), so that netCDF
files of these arrays tell their wavelengths to other programs.

Letters: B bands, H rows, W columns.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from napari_mst.curves import BAND_INDEX, NANOMETRES, power_of
from napari_mst.errors import CubeError
from napari_mst.georeference import FIELD, Georeference
from napari_mst.messages import shown

if TYPE_CHECKING:
    from xarray import DataArray

STANDARD_NAME = "radiation_wavelength"
"""CF's name for a wavelength."""

BAND_STANDARD_NAME = "sensor_band_central_radiation_wavelength"
"""CF's name for the centre of a band of a sensor."""

_SPECTRAL_NAMES = frozenset(
    {"wavelength", "wavelengths", "wave", "wvl", "wl", "lambda", "band", "bands"}
)
"""Names of the spectral axis in arrays of others, in lower case."""

_ROW_NAMES = frozenset({"y", "row", "rows", "lat", "latitude", "line", "lines"})
"""Names of the axis of rows in arrays of others, in lower case."""

_COLUMN_NAMES = frozenset(
    {"x", "column", "columns", "col", "lon", "longitude", "sample", "samples"}
)
"""Names of the axis of columns in arrays of others, in lower case."""


class Whole(NamedTuple):
    """The cube that a history and metadata describe, where the numbers are a part of it.

    Attributes
    ----------
    shape
        (B, H, W) of the whole cube.
    corner
        The row and the column of the whole cube at which the part begins; None if unknown.
    """

    shape: tuple[int, int, int]
    corner: tuple[int, int] | None = None


class LabelledCube(NamedTuple):
    """The parts of a cube that an array of xarray, or a signal of HyperSpy, tells.

    Attributes
    ----------
    data
        (B, H, W).
    wavelengths
        (B,) in *unit*.
    unit
        "nm"; "band" where the array has no wavelengths; or the array's own word.
    quantity
        The meaning of the numbers; "" if unknown.
    provenance
        The history as JSON; "" if unknown.
    metadata
        Further fields.
    whole
        The cube that *provenance* and *metadata* are of; None if that is this very cube.
    """

    data: NDArray[Any]
    wavelengths: NDArray[np.float64]
    unit: str
    quantity: str
    provenance: str
    metadata: Mapping[str, Any]
    whole: Whole | None = None


def as_data_array(cube: LabelledCube) -> "DataArray":
    """The array of *cube* with the axes wavelength (or band), y and x.

    Raises
    ------
    CubeError
        If xarray is not installed.
    """
    try:
        import xarray
    except ImportError:
        raise CubeError(
            'Expected xarray, got none. Run: pip install "napari-mst[xarray]"'
        ) from None
    axis, coordinate = _spectral_coordinate(cube)
    coordinates: dict[str, Any] = {axis: coordinate, **_places(cube)}
    return xarray.DataArray(
        cube.data,
        dims=(axis, "y", "x"),
        coords=coordinates,
        name=cube.quantity or "cube",
        attrs=_attributes(cube),
    )


def _spectral_coordinate(cube: LabelledCube) -> tuple[str, Any]:
    """The name of the spectral axis, and its coordinate as xarray takes it."""
    if cube.unit == BAND_INDEX:
        return "band", ("band", cube.wavelengths)
    attributes = {"units": cube.unit}
    if cube.unit == NANOMETRES:
        attributes |= {"standard_name": STANDARD_NAME, "long_name": "wavelength"}
    return "wavelength", ("wavelength", cube.wavelengths, attributes)


def _places(cube: LabelledCube) -> dict[str, Any]:
    """The coordinates of the centres of columns and rows, where these lie along the axes on earth.

    A turned image has no such coordinates: its place is then told by the metadata alone.
    """
    place = Georeference.from_json(str(cube.metadata.get(FIELD)))
    if place is None or place.transform is None:
        return {}
    a, b, c, d, e, f = place.transform
    if b or d:
        return {}
    _, height, width = cube.data.shape
    x = c + a * (np.arange(width) + 0.5)
    y = f + e * (np.arange(height) + 0.5)
    return {"x": ("x", x), "y": ("y", y)}


def _attributes(cube: LabelledCube) -> dict[str, str]:
    """The attributes of the array: texts only, since netCDF keeps no other structure."""
    attributes = own_texts(cube)
    if cube.quantity:
        attributes["long_name"] = cube.quantity
    if cube.quantity == "reflectance":
        attributes["units"] = "1"
    return attributes


def own_texts(cube: LabelledCube) -> dict[str, str]:
    """The history, the shape and the metadata of *cube*, as far as JSON can keep them."""
    texts = {}
    if cube.provenance:
        texts["provenance"] = cube.provenance
    metadata = {key: value for key, value in cube.metadata.items() if _is_plain(value)}
    if metadata:
        texts["metadata"] = json.dumps(metadata)
    if texts:
        # Who cuts the array leaves these texts as they are: the shape tells that it was cut.
        texts["shape"] = json.dumps(cube.data.shape)
    return texts


def _is_plain(value: Any) -> bool:
    """True if JSON can keep *value*."""
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True


def parts_of(array: "DataArray") -> LabelledCube:
    """The parts of a cube that *array*, of three axes in any order, tells.

    The spectral axis is the one whose coordinate has a CF name of wavelengths, or a length unit and
    the name of wavelengths or bands; rows and columns are found by their names, or else keep their
    order. Wavelengths in any unit of length become nm.

    Raises
    ------
    CubeError
        If *array* is no array of xarray with three axes, or it is not clear which is spectral.
    """
    if not (hasattr(array, "dims") and hasattr(array, "coords") and hasattr(array, "attrs")):
        raise CubeError(
            f"Expected an xarray.DataArray, got {shown(type(array).__name__)}. "
            "Take one variable of a dataset."
        )
    if len(array.dims) != 3:
        raise CubeError(
            f"Expected an array of three axes, got {shown(array.dims)}. Select a cube of it."
        )
    spectral = _spectral_axis(array)
    rows, columns = _image_axes([str(name) for name in array.dims if name != spectral])
    wavelengths, unit = _wavelengths(array, spectral)
    metadata = metadata_of(array.attrs)
    data = array.transpose(spectral, rows, columns).data
    whole = whole_of(array.attrs, data.shape)
    if whole is not None:
        whole = whole._replace(corner=_corner(array, (rows, columns), metadata))
    return LabelledCube(
        data=data,
        wavelengths=wavelengths,
        unit=unit,
        quantity=_quantity(array),
        provenance=str(array.attrs.get("provenance", "")),
        metadata=metadata,
        whole=whole,
    )


def whole_of(texts: Mapping[Any, Any], shape: tuple[int, ...]) -> Whole | None:
    """The cube that `own_texts` were made of, if its shape is another than *shape*."""
    try:
        bands, rows, columns = map(int, json.loads(texts["shape"]))
    except (KeyError, TypeError, ValueError):
        return None
    return None if shape == (bands, rows, columns) else Whole((bands, rows, columns))


def _corner(
    array: "DataArray", axes: tuple[str, str], metadata: Mapping[str, Any]
) -> tuple[int, int] | None:
    """The row and column, of the cube with this *metadata*, at which *array* begins.

    The coordinates of the pixels on earth tell. None without them, and where pixels were left out.
    """
    place = Georeference.from_json(str(metadata.get(FIELD)))
    if place is None or place.transform is None or not set(axes) <= set(array.coords):
        return None
    a, _, c, _, e, f = place.transform
    corner = []
    for axis, start, step in zip(axes, (f, c), (e, a), strict=True):
        pixels = (np.asarray(array.coords[axis].values, np.float64) - start) / step - 0.5
        first = round(pixels[0])
        if not np.allclose(pixels, first + np.arange(len(pixels)), rtol=0, atol=0.01):
            return None
        corner.append(first)
    return corner[0], corner[1]


def _spectral_axis(array: "DataArray") -> str:
    """The name of the axis of wavelengths or bands."""
    names = [str(name) for name in array.dims]
    told = [name for name in names if _is_named_wavelength(array, name)]
    known = [name for name in names if name.lower() in _SPECTRAL_NAMES]
    found = told or known
    if len(found) != 1:
        raise CubeError(
            f"Expected one axis called wavelength or band, got {shown(tuple(names))}. "
            "Rename the spectral axis."
        )
    return found[0]


def _is_named_wavelength(array: "DataArray", axis: str) -> bool:
    """True if the coordinate of *axis* has a CF name of wavelengths."""
    if axis not in array.coords:
        return False
    name = array.coords[axis].attrs.get("standard_name")
    return name in (STANDARD_NAME, BAND_STANDARD_NAME)


def _image_axes(names: list[str]) -> tuple[str, str]:
    """The names of the axes of rows and columns, out of two."""
    first, second = names
    is_turned = first.lower() in _COLUMN_NAMES or second.lower() in _ROW_NAMES
    return (second, first) if is_turned else (first, second)


def _wavelengths(array: "DataArray", axis: str) -> tuple[NDArray[np.float64], str]:
    """The wavelengths and their unit: band numbers where the array has none."""
    numbers = np.arange(array.sizes[axis], dtype=np.float64)
    coordinate = _wavelength_coordinate(array, axis)
    if coordinate is None:
        return numbers, BAND_INDEX
    values = np.asarray(coordinate.values, dtype=np.float64)
    unit = str(coordinate.attrs.get("units", "")).strip()
    power = power_of(unit)
    if power is not None:
        return values * 10.0**power, NANOMETRES
    if not unit:
        raise CubeError(
            f"Expected the unit of the coordinate {shown(str(coordinate.name))}, got none. "
            'Set its attribute "units", as in "nm".'
        )
    return values, unit


def _wavelength_coordinate(array: "DataArray", axis: str) -> "DataArray | None":
    """The coordinate along *axis* that holds wavelengths; None if there is none.

    rioxarray and others number the bands along the axis, and keep their wavelengths beside it.
    """
    along: list[DataArray] = [
        array.coords[name] for name in array.coords if array.coords[name].dims == (axis,)
    ]
    for coordinate in along:
        name = coordinate.attrs.get("standard_name")
        is_wavelength = str(coordinate.name).lower() in _SPECTRAL_NAMES - {"band", "bands"}
        if name in (STANDARD_NAME, BAND_STANDARD_NAME) or is_wavelength:
            return coordinate
    for coordinate in along:
        if power_of(str(coordinate.attrs.get("units", ""))) is not None:
            return coordinate
    return None


def _quantity(array: "DataArray") -> str:
    """The meaning of the numbers: the long name of the array, or its name if we know that word."""
    if "long_name" in array.attrs:
        return str(array.attrs["long_name"])
    return str(array.name) if array.name in ("reflectance", "radiance") else ""


def metadata_of(attributes: Mapping[Any, Any]) -> dict[str, Any]:
    """Our metadata as they were, or the *attributes* of an array of others."""
    stored = attributes.get("metadata")
    if stored is None:
        ours = {"provenance", "shape", "units", "long_name"}
        return {str(key): value for key, value in attributes.items() if key not in ours}
    try:
        metadata = json.loads(stored)
    except (TypeError, ValueError):
        metadata = None
    if not isinstance(metadata, dict):
        return {"metadata": stored}
    # JSON has no tuples; warnings and bands of a header are.
    return {
        key: tuple(value) if isinstance(value, list) else value for key, value in metadata.items()
    }
