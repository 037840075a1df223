"""Cubes as HyperSpy has them: signals with two axes to navigate and one axis of the spectrum.

HyperSpy 2, https://hyperspy.org/hyperspy-doc/current. Letters: B bands, H rows, W columns.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from napari_mst.arrays import Doubles
from napari_mst.cube.curves import BAND_INDEX
from napari_mst.cube.labelled import in_nanometres, own_texts, with_texts
from napari_mst.cube.parts import PlainCube
from napari_mst.errors import CubeError, shown

if TYPE_CHECKING:
    from hyperspy.signal import BaseSignal
    from hyperspy.signals import Signal1D

_OWN = "napari_mst"
"""The node of `original_metadata` that holds our texts."""

_PIXELS = "px"
"""The unit of axes that count pixels."""


def as_signal(cube: PlainCube) -> "Signal1D":
    """The signal of *cube*: (H, W, B), a view of its data.

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
    """The axis of the bands, as HyperSpy describes one: uniform where it can be."""
    at = cube.wavelengths
    size = len(at)
    if cube.unit == BAND_INDEX:
        return {"name": "band", "size": size}
    named = {"name": "wavelength", "units": cube.unit}
    step = (at[-1] - at[0]) / (size - 1) if size > 1 else 1.0
    # Most of HyperSpy asks for a uniform axis, so rounding does not count as uneven.
    if np.allclose(at, at[0] + step * np.arange(size), rtol=1e-9, atol=0) and step:
        return {**named, "size": size, "offset": float(at[0]), "scale": float(step)}
    steps = np.diff(at)
    if not ((steps > 0).all() or (steps < 0).all()):
        raise CubeError(
            "Expected wavelengths that rise or fall from band to band, got others. "
            "Take a part of the bands, as by `cube.sel(wavelength=slice(400, 1000))`."
        )
    return {**named, "axis": at}


def parts_of_signal(signal: "BaseSignal") -> PlainCube:
    """The cube that *signal* holds, of one signal axis and two to navigate.

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
    # Those of HyperSpy count from the last axis of the array.
    columns, rows = axes.navigation_axes
    order = [axis.index_in_array for axis in (spectral, rows, columns)]
    quantity = str(signal.metadata.get_item("Signal.quantity", ""))
    # Our texts; empty if it was not made by us.
    node = signal.original_metadata.get_item(_OWN)
    texts = {} if node is None else node.as_dictionary()
    cube = PlainCube(signal.data.transpose(order), *_wavelengths(spectral), quantity)
    return with_texts(cube, texts, lambda _: _corner(rows, columns))


def _wavelengths(axis: Any) -> tuple[Doubles, str]:
    """The wavelengths of the signal *axis*, and their unit."""
    # HyperSpy marks what is not set by an object that is no text.
    unit, name = (text if isinstance(text, str) else "" for text in (axis.units, axis.name))
    if not unit.strip() and name.lower() in ("band", "bands"):
        return np.arange(len(axis.axis), dtype=np.float64), BAND_INDEX
    return in_nanometres(
        axis.axis,
        unit.strip(),
        f"the unit of the signal axis {shown(name or 'without a name')}, got none. "
        'Set it, as in signal.axes_manager[-1].units = "nm".',
    )


def _corner(rows: Any, columns: Any) -> tuple[int, int] | None:
    """The row and column at which the signal begins; None if its pixels are not those of the cube.

    HyperSpy moves the offset of an axis when it cuts, and scales the axis when it adds pixels up.
    """
    are_pixels = all(
        axis.units == _PIXELS and getattr(axis, "scale", None) == 1 for axis in (rows, columns)
    )
    return (round(rows.offset), round(columns.offset)) if are_pixels else None
