"""The cube that is saved of a layer: the layer's numbers, wavelengths that are asked for, picks."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from napari import current_viewer
from napari.layers import Layer

from napari_mst.cube import BAND_INDEX, SpectralCube
from napari_mst.errors import Cancelled, SaveError
from napari_mst.plugin.files import questions
from napari_mst.plugin.files.opening import PICKS
from napari_mst.plugin.viewer import picks
from napari_mst.plugin.viewer.composites import cube_layer_in
from napari_mst.plugin.viewer.layers import cube_of_data


def cube_to_save(data: Any, attributes: Mapping[str, Any]) -> SpectralCube:
    """Make the cube to save of a layer's *data* and *attributes*, with the picks on it.

    The picture of a cube stands for that cube.

    Without wavelengths the user is asked for them.

    Raises
    ------
    SaveError
        If the layer is not (B, H, W).
    Cancelled
        If the user was asked, and cancelled.
    """
    layer = cube_layer_in(attributes.get("metadata", {}))
    if layer is not None:
        data, attributes, *_ = layer.as_layer_data_tuple()
    return _with_picks(_cube(data, attributes), data)


def _cube(data: Any, attributes: Mapping[str, Any]) -> SpectralCube:
    pixels = data[0] if attributes.get("multiscale") else data
    cube = cube_of_data(pixels, attributes.get("metadata", {}))
    axis = 0
    if cube is None:
        cube = _numbered(pixels, attributes)
        axis = questions.likely_axis(pixels.shape)
    parent = questions.window()
    if cube.unit != BAND_INDEX or parent is None:
        return cube
    # The layer's own axis says nothing if the bands lie along another.
    known = _calibrated(attributes, len(pixels)) if axis == 0 else None
    name = attributes.get("name", "")
    purpose = questions.to_save(name)
    dialog = questions.WavelengthsDialog(purpose, pixels.shape, axis, known, parent)
    return _completed(cube, dialog)


def _numbered(pixels: Any, attributes: Mapping[str, Any]) -> SpectralCube:
    """Make a cube of any stack, whose bands have only numbers. Raises `SaveError`."""
    if np.ndim(pixels) != 3 or attributes.get("rgb"):
        raise SaveError(
            f"Expected a layer of (bands, rows, columns), got {np.shape(pixels)}. "
            "Select a cube layer."
        )
    numbers = np.arange(len(pixels), dtype=np.float64)
    return SpectralCube(pixels, numbers, unit=BAND_INDEX, quantity="")


def _completed(cube: SpectralCube, dialog: questions.WavelengthsDialog) -> SpectralCube:
    """Give *cube* the axis and the wavelengths that the user says in *dialog*.

    Raises `Cancelled`.
    """
    bands = questions.ask_wavelengths(dialog)
    if bands is None:
        raise Cancelled("Saving was cancelled; nothing was written.")
    told = bands.cube_of(cube.data)
    return replace(cube, data=told.data, wavelengths=told.wavelengths, unit=told.unit)


def _calibrated(attributes: Mapping[str, Any], bands: int) -> tuple[float, float] | None:
    """Return where the first axis of a layer begins and ends; None if its unit is not nm."""
    units = attributes.get("units") or ()
    # The units of a layer are pint's, whose text is the long name.
    if not units or str(units[0]) != "nanometer":
        return None
    start = float(attributes["translate"][0])
    step = float(attributes["scale"][0])
    return start, start + (bands - 1) * step


def _with_picks(cube: SpectralCube, data: Any) -> SpectralCube:
    """Add the picks on the layer of *data* to *cube*, in place of those that it had.

    A cube whose layer is not in the viewer keeps what it has.
    """
    viewer = current_viewer()
    layer = layer_of(data)
    if viewer is None or layer is None:
        return cube
    points = picks.picks_layer(viewer)
    text = "" if points is None else picks.picks_text(points, layer)
    metadata = {key: value for key, value in cube.metadata.items() if key != PICKS}
    if text:
        metadata[PICKS] = text
    return replace(cube, metadata=metadata)


def layer_of(data: Any) -> Layer | None:
    """Find the layer that holds this very *data*; napari's writers are given no layer."""
    viewer = current_viewer()
    layers = viewer.layers if viewer is not None else ()
    return next((layer for layer in layers if layer.data is data), None)
