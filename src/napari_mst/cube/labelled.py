"""Cubes as xarray arrays and HyperSpy signals, whose axes have names and units.

Names and units of arrays follow the CF conventions, version 1.11 (https://cfconventions.org), so
that other programs find the wavelengths in netCDF files. Signals of HyperSpy 2
(https://hyperspy.org/hyperspy-doc/current) have two navigation axes and one signal axis.

Letters: B bands, H rows, W columns.
"""

import json
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_mst.base.arrays import Array, Doubles, doubles, even_step, is_monotonic
from napari_mst.base.errors import CubeError, shown
from napari_mst.cube.curves import BAND_INDEX, NANOMETRES, power_of
from napari_mst.cube.georeference import COUNTS, FIELD, Georeference
from napari_mst.cube.lazy import Lazy
from napari_mst.cube.parts import Cube, PlainCube, metadata_of_cut, with_tuples
from napari_mst.cube.provenance import Provenance

if TYPE_CHECKING:
    from hyperspy.signal import BaseSignal
    from hyperspy.signals import Signal1D
    from xarray import DataArray


STANDARD_NAME = "radiation_wavelength"
"""CF's name for a wavelength."""

CF_NAMES = frozenset({STANDARD_NAME, "sensor_band_central_radiation_wavelength"})
"""CF's names for a wavelength and for the centre wavelength of a sensor band."""

SPECTRAL_NAMES = frozenset(
    {"wavelength", "wavelengths", "wave", "wvl", "wl", "lambda", "band", "bands"}
)
"""Names of the spectral axis in other programs' arrays, in lower case."""

_SYSTEM = "spatial_ref"
"""The variable of the coordinate system, as rioxarray names it."""

ROW_NAMES = frozenset({"y", "row", "rows", "lat", "latitude", "line", "lines"})
"""Names of the row axis in other programs' arrays, in lower case."""

COLUMN_NAMES = frozenset({"x", "column", "columns", "col", "lon", "longitude", "sample", "samples"})
"""Names of the column axis in other programs' arrays, in lower case."""


def as_data_array(cube: PlainCube) -> "DataArray":
    """*cube* as an array with the axes wavelength (or band), y and x.

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
    data = cube.data
    # xarray reads a lazy array at once, but leaves dask arrays lazy.
    if isinstance(data, Lazy) and find_spec("dask"):
        from dask.array import from_array

        data = from_array(data, name=False)
    axes, coordinates, about = in_cf(cube)
    name = cube.quantity or "cube"
    return xarray.DataArray(data, dims=axes, coords=coordinates, name=name, attrs=about)


def in_cf(cube: PlainCube) -> tuple[tuple[str, str, str], dict[str, Any], dict[str, str]]:
    """The axes, the coordinates (axes, values, attributes) and the attributes of *cube* in CF."""
    if cube.unit == BAND_INDEX:
        axis, attributes = "band", {}
    else:
        axis, attributes = "wavelength", {"units": cube.unit}
    if cube.unit == NANOMETRES:
        attributes |= {"standard_name": STANDARD_NAME, "long_name": "wavelength"}
    about = own_texts(cube)
    if cube.quantity:
        about["long_name"] = cube.quantity
    if cube.quantity == "reflectance":
        about["units"] = "1"
    coordinates, mapping = _places(cube)
    if mapping:
        about["grid_mapping"] = _SYSTEM
        coordinates[_SYSTEM] = ((), 0, mapping)
    return (axis, "y", "x"), {axis: ((axis,), cube.wavelengths, attributes), **coordinates}, about


def _places(cube: PlainCube) -> tuple[dict[str, Any], dict[str, Any]]:
    """The coordinates of column and row centres, and the coordinate system (CF's grid mapping).

    If the pixels do not lie along axes on earth, the coordinates count columns and rows. y falls,
    because GDAL takes the first row of a netCDF array without coordinates for the lowest.
    """
    _, height, width = cube.data.shape
    columns, rows = np.arange(width), np.arange(height)
    # Without units: rioxarray 0.19 fails on "1", CF's unit of numbers.
    x, y = ({"axis": axis, "long_name": count} for axis, count in zip("XY", COUNTS, strict=True))
    place = Georeference.of_metadata(cube.metadata)
    if place is None or place.transform is None or place.transform[1] or place.transform[3]:
        return {"x": (("x",), columns, x), "y": (("y",), -rows, y)}, {}
    a, _, c, _, e, f = place.transform
    mapping: dict[str, Any] = {}
    x, y = {"axis": "X"}, {"axis": "Y"}
    if system := place.system():
        mapping = {**system.to_cf(), "spatial_ref": system.to_wkt()}
        x, y = sorted(system.cs_to_cf(), key=lambda axis: str(axis["axis"]))[:2]
    places = {"x": (("x",), c + a * (columns + 0.5), x), "y": (("y",), f + e * (rows + 0.5), y)}
    return places, mapping


def own_texts(cube: PlainCube) -> dict[str, str]:
    """The history, the shape and the metadata of *cube*, as far as JSON can hold them."""
    # A program that cuts the array leaves these texts unchanged, so the stored shape shows the cut.
    texts = {"provenance": cube.provenance.to_json(), "shape": json.dumps(cube.data.shape)}
    metadata = {}
    for key, value in cube.metadata.items():
        with suppress(TypeError, ValueError):
            json.dumps(value)
            metadata[key] = value
    if metadata:
        texts["metadata"] = json.dumps(metadata)
    return texts


def parts_of(array: "DataArray") -> PlainCube:
    """The cube in *array*, whose three axes may be in any order.

    The spectral axis is the one whose coordinate has a CF name for wavelengths, else the one named
    after wavelengths or bands. Rows and columns are found by name, or else keep their order.
    Wavelengths in any unit of length become nm.

    Raises
    ------
    CubeError
        If *array* is not an xarray array with three axes, or its spectral axis is unclear.
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
    rows, columns = (str(name) for name in array.dims if name != spectral)
    if rows.lower() in COLUMN_NAMES or columns.lower() in ROW_NAMES:
        rows, columns = columns, rows
    quantity = array.name if array.name in ("reflectance", "radiance") else ""
    return with_texts(
        PlainCube(
            array.transpose(spectral, rows, columns).data,
            *_wavelengths(array, spectral),
            # An array's name counts as its quantity only if it is a known one.
            quantity=str(array.attrs.get("long_name", quantity)),
        ),
        array.attrs,
        _place(array, rows, columns),
    )


def with_texts(cube: Cube, texts: Mapping[Any, Any], place: Georeference | None = None) -> Cube:
    """*cube* with the history and the metadata in *texts*, perhaps written by `own_texts`.

    If the texts describe a larger cube that contains this one, the facts about missing pixels and
    bands are left out. *place* is the georeference according to the coordinates.
    """
    history = str(texts.get("provenance", ""))
    past = Provenance.from_json(history) if history else Provenance()
    metadata = _metadata_of(texts)
    shape = cube.data.shape
    try:
        bands, rows, columns = map(int, json.loads(texts["shape"]))
    except (KeyError, TypeError, ValueError):
        bands, rows, columns = shape
    if (bands, rows, columns) != shape:
        past = past.with_cut(f"{shape[0]} bands, {shape[1]} x {shape[2]} pixels")
        before = Georeference.of_metadata(metadata)
        metadata = metadata_of_cut(metadata, (bands, rows, columns), shape)
        if place is not None and before is not None:
            # The coordinates do not name the system.
            place = replace(before, transform=place.transform)
    if place is not None and FIELD not in metadata:
        metadata[FIELD] = place.to_json()
    return replace(cube, provenance=past, metadata=metadata)


def _place(array: "DataArray", rows: str, columns: str) -> Georeference | None:
    """The georeference of *array*, from its coordinates and rioxarray's (or CF's) system."""
    if not {rows, columns} <= set(array.coords):
        return None
    named = str(array.attrs.get("grid_mapping", array.encoding.get("grid_mapping", "spatial_ref")))
    about = array.coords[named].attrs if named in array.coords else {}
    sides = [array.coords[name] for name in (rows, columns)]
    if any(side.attrs.get("long_name") in COUNTS for side in sides):
        return None
    y, x = (side.values for side in sides)
    place = Georeference.of_grid(x, y, about)
    if place is None:
        return None
    checked, doubts = place.checked()
    for doubt in doubts:
        warnings.warn(doubt, stacklevel=2)
    return checked


def _spectral_axis(array: "DataArray") -> str:
    """Name of the axis of wavelengths or bands."""
    names = [str(name) for name in array.dims]
    by_cf = [name for name in names if name in array.coords and _has_cf_name(array.coords[name])]
    by_name = [name for name in names if name.lower() in SPECTRAL_NAMES]
    candidates = by_cf or by_name
    if len(candidates) != 1:
        raise CubeError(
            f"Expected one axis called wavelength or band, got {shown(tuple(names))}. "
            "Rename the spectral axis."
        )
    return candidates[0]


def _has_cf_name(coordinate: "DataArray") -> bool:
    return coordinate.attrs.get("standard_name") in CF_NAMES


def _wavelengths(array: "DataArray", axis: str) -> tuple[Doubles, str]:
    """The wavelengths and their unit; band numbers if the array has no wavelengths.

    rioxarray and others number the bands along the axis, and keep the wavelengths beside it.
    """
    along = [coordinate for coordinate in array.coords.values() if coordinate.dims == (axis,)]
    words = SPECTRAL_NAMES - {"band", "bands"}
    named = (each for each in along if _has_cf_name(each) or str(each.name).lower() in words)
    lengths = (each for each in along if power_of(str(each.attrs.get("units", ""))) is not None)
    coordinate = next(chain(named, lengths), None)
    if coordinate is None:
        return np.arange(array.sizes[axis], dtype=np.float64), BAND_INDEX
    where = f"coordinate {shown(str(coordinate.name))}"
    return in_nanometres(coordinate.values, str(coordinate.attrs.get("units", "")), where)


def in_nanometres(values: Array, unit: str, where: str) -> tuple[Doubles, str]:
    """Wavelengths in nm if *unit* is a length, else unchanged; and their unit.

    Raises `CubeError` if *unit* is blank; *where* names the coordinate in the message.
    """
    wavelengths, power = doubles(values), power_of(unit)
    if power is not None:
        return wavelengths * 10.0**power, NANOMETRES
    if not unit.strip():
        raise CubeError(f'Expected the unit of the {where}, got none. Set its units, as in "nm".')
    return wavelengths, unit.strip()


def _metadata_of(attributes: Mapping[Any, Any]) -> dict[str, Any]:
    """The metadata that we stored, or the *attributes* of another program's array."""
    stored = attributes.get("metadata")
    if stored is None:
        ours = {"provenance", "shape", "units", "long_name", "grid_mapping", "coordinates"}
        # Names with a leading underscore belong to libraries, such as netCDF itself.
        keys = [key for key in attributes if key not in ours and not str(key).startswith("_")]
        return {str(key): attributes[key] for key in keys}
    try:
        metadata = json.loads(stored)
    except (TypeError, ValueError):
        metadata = None
    if not isinstance(metadata, dict):
        return {"metadata": stored}
    return with_tuples(metadata)


_OWN = "napari_mst"
"""Node of `original_metadata` with our texts."""

_PIXELS = "px"
"""Unit of axes that count pixels."""


def as_signal(cube: PlainCube) -> "Signal1D":
    """*cube* as a signal (H, W, B), a view of its data.

    Raises
    ------
    CubeError
        If HyperSpy is not installed, or the wavelengths neither rise nor fall.
    """
    try:
        from hyperspy.signals import Signal1D
    except ImportError:
        raise CubeError("Expected HyperSpy, got none. Run: pip install hyperspy") from None
    _, height, width = cube.data.shape
    axes = [
        {"name": "y", "size": height, "units": _PIXELS},
        {"name": "x", "size": width, "units": _PIXELS},
        _signal_axis(cube),
    ]
    return Signal1D(
        np.moveaxis(cube.data, 0, -1),
        axes=axes,
        metadata={"Signal": {"quantity": cube.quantity}},
        original_metadata={_OWN: own_texts(cube)},
    )


def _signal_axis(cube: PlainCube) -> dict[str, Any]:
    """HyperSpy's description of the spectral axis: uniform where possible."""
    at = cube.wavelengths
    size = len(at)
    if cube.unit == BAND_INDEX:
        return {"name": "band", "size": size}
    named = {"name": "wavelength", "units": cube.unit}
    # Most of HyperSpy needs a uniform axis, so rounding errors do not count as uneven.
    step = even_step(at, 1e-7)
    if step:
        return {**named, "size": size, "offset": float(at[0]), "scale": step}
    if not is_monotonic(at):
        raise CubeError(
            "Expected wavelengths that rise or fall from band to band, got others. "
            "Take a part of the bands, as by `cube.sel(wavelength=slice(400, 1000))`."
        )
    return {**named, "axis": at}


def parts_of_signal(signal: "BaseSignal") -> PlainCube:
    """The cube in *signal*, which has one signal axis and two navigation axes.

    Raises
    ------
    CubeError
        If *signal* is not a signal or has other axes, or its signal axis has no unit.
    """
    axes = getattr(signal, "axes_manager", None)
    if axes is None:
        raise CubeError(
            f"Expected a signal of HyperSpy, got {shown(type(signal).__name__)}. "
            "Load one with hyperspy.api.load."
        )
    if (axes.signal_dimension, axes.navigation_dimension) != (1, 2):
        raise CubeError(
            "Expected a signal with 1 signal axis and 2 to navigate, got "
            f"{axes.signal_dimension} and {axes.navigation_dimension}. "
            "Use signal.transpose(signal_axes=[...])."
        )
    (spectral,) = axes.signal_axes
    # HyperSpy numbers the axes from the last axis of the array.
    columns, rows = axes.navigation_axes
    order = [axis.index_in_array for axis in (spectral, rows, columns)]
    quantity = str(signal.metadata.get_item("Signal.quantity", ""))
    # Our texts; empty in a signal from another program.
    node = signal.original_metadata.get_item(_OWN)
    texts = {} if node is None else node.as_dictionary()
    cube = PlainCube(signal.data.transpose(order), *_axis_of(spectral), quantity)
    return with_texts(cube, texts)


def _axis_of(axis: Any) -> tuple[Doubles, str]:
    """The wavelengths of the signal *axis*, and their unit."""
    # HyperSpy marks an unset field with an object that is no text.
    unit, name = (text if isinstance(text, str) else "" for text in (axis.units, axis.name))
    if not unit.strip() and name.lower() in ("band", "bands"):
        return np.arange(len(axis.axis), dtype=np.float64), BAND_INDEX
    return in_nanometres(axis.axis, unit, f"signal axis {shown(name or 'without a name')}")
