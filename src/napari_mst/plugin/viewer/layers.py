"""Cube layers: how a cube becomes an Image layer, and how it is found in a layer again.

A cube layer holds (B, H, W). Its `SpectralCube` stays in `layer.metadata["napari_mst"]`, where the
docks and the writers find wavelengths and provenance. Letters: B bands, H rows, W columns.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image, Layer, Points, Shapes
from numpy.typing import NDArray

from napari_mst.cube import SpectralCube
from napari_mst.plugin.viewer.composites import (
    composites_of,
    cube_layer_of,
    is_composite,
    is_picture_shown,
)
from napari_mst.plugin.viewer.placement import Placement, image_matrix

METADATA_KEY = "napari_mst"
"""The key under which a layer's metadata hold what this plugin knows of the layer."""
UNIT_KEY = "napari_mst_unit"
"""The key in the metadata of a map under which lies what its values are, for the colour bar."""
QUALITY_KEY = "napari_mst_quality"
"""Marks a layer that shows how far the colours were off; such a layer is no photo."""
COLORMAP = "inferno"
SUFFIX = "(MST++)"
"""Ends the name of every layer that holds a reconstructed cube."""
UNEVEN = 0.01
"""The most that a band may lie off an even axis, in steps; beyond it the slider would be wrong."""
SAMPLES = 1_000_000
"""Contrast limits come from about this many values, so that a large cube opens at once."""
BRIGHTEST = 99.9
"""Percentile that the contrast limits end at, so that a few highlights do not darken the rest."""

LayerTuple = tuple[Any, dict[str, Any], str]
"""A layer as napari's readers give it: data, arguments, kind."""


class SpectralAxis(NamedTuple):
    """The first axis of a cube layer, in the terms of a napari layer."""

    start: float
    step: float
    label: str
    unit: str


def cube_layer(cube: SpectralCube, name: str, placement: Placement | None = None) -> LayerTuple:
    """Describe the Image layer of *cube*, on *placement* or from pixel (0, 0)."""
    placement = placement or Placement.at_origin()
    axis = spectral_axis(cube, placement.is_calibrated)
    arguments = {
        **placement.cube_kwargs(axis.start, axis.step, axis.unit),
        "name": name,
        "axis_labels": (axis.label, "y", "x"),
        # Both are explicit: napari guesses `rgb` from the shape, and scans all data for the limits.
        "rgb": False,
        "contrast_limits": contrast_limits(cube.data),
        "colormap": COLORMAP,
        "metadata": {METADATA_KEY: cube},
    }
    return cube.data, arguments, "image"


def quality_layer(cube: SpectralCube, name: str, placement: Placement) -> LayerTuple | None:
    """Describe the Image layer that shows how far the colours of *cube* were off, in 8-bit codes.

    None if the cube does not know.
    """
    if cube.quality is None:
        return None
    # At least one code: else a photo without any error would show its rounding in full contrast.
    _, high = contrast_limits(cube.quality[None])
    arguments = {
        **placement.image_kwargs(),
        "name": name,
        "rgb": False,
        "contrast_limits": (0.0, max(high, 1.0)),
        "colormap": COLORMAP,
        "metadata": {QUALITY_KEY: True, UNIT_KEY: "colour error, 8-bit codes"},
    }
    return cube.quality, arguments, "image"


def spectral_axis(cube: SpectralCube, is_calibrated: bool) -> SpectralAxis:
    """Choose the first axis of the layer of *cube*: wavelengths, or band numbers.

    *is_calibrated* says that the image axes have a length unit.
    """
    # napari converts every axis with a length unit to one unit: beside um, a wavelength axis in nm
    # would scale the image too, so it then goes without a unit.
    no_unit = "dimensionless" if is_calibrated else "pixel"
    # A slider is linear, so bands that are not evenly spaced are counted.
    if not cube.has_wavelengths or not _is_evenly_rising(cube.wavelengths):
        return SpectralAxis(0.0, 1.0, "band", no_unit)
    start = float(cube.wavelengths[0])
    step = _mean_step(cube.wavelengths)
    if is_calibrated:
        return SpectralAxis(start, step, "wavelength (nm)", no_unit)
    return SpectralAxis(start, step, "wavelength", "nm")


def _is_evenly_rising(wavelengths: NDArray[np.float64]) -> bool:
    step = _mean_step(wavelengths)
    line = wavelengths[0] + step * np.arange(len(wavelengths))
    return step > 0 and bool(np.abs(wavelengths - line).max() <= UNEVEN * step)


def _mean_step(wavelengths: NDArray[np.float64]) -> float:
    """Mean distance between neighbouring bands; 1 for a single band."""
    return float(np.diff(wavelengths).mean()) if len(wavelengths) > 1 else 1.0


def contrast_limits(data: NDArray[Any]) -> tuple[float, float]:
    """Choose one range for all bands of *data* (B, H, W), from a sample of its pixels.

    It goes from 0, or the lowest value if that is negative, to the percentile `BRIGHTEST`.
    """
    stride = max(1, int(np.sqrt(data.size / SAMPLES)))
    sample = np.asarray(data[:, ::stride, ::stride], dtype=np.float32)
    values = sample[np.isfinite(sample)]
    if not values.size:
        return 0.0, 1.0
    low = min(0.0, float(values.min()))
    high = float(np.percentile(values, BRIGHTEST))
    return (low, high) if high > low else (low, low + 1.0)


def cube_of(layer: Layer | None) -> SpectralCube | None:
    """Return the cube that *layer* shows, with the layer's own data; None if it shows none."""
    if not isinstance(layer, Image):
        return None
    return cube_of_data(layer.data, layer.metadata)


def cube_of_data(data: Any, metadata: Mapping[str, Any]) -> SpectralCube | None:
    """Return the cube of a layer's *data* and *metadata*.

    None if the metadata hold none, or *data* no longer has its bands.
    """
    cube = metadata.get(METADATA_KEY)
    if not isinstance(cube, SpectralCube) or np.ndim(data) != 3:
        return None
    if len(data) != len(cube.wavelengths):
        return None
    # The user or another plugin may have given the layer other numbers: those count.
    return cube if data is cube.data else replace(cube, data=data)


def active_cube_layer(viewer: ViewerModel) -> Image | None:
    """Return the selected cube layer, else the topmost visible one; a picture counts as its cube.

    None if there is no cube, or the selected one is hidden.
    """
    active = viewer.layers.selection.active
    if is_composite(active):
        active = cube_layer_of(active)
    if cube_of(active) is not None and active in viewer.layers:
        return active if is_cube_shown(viewer, active) else None
    # napari lists layers from the bottom up.
    cubes = [layer for layer in reversed(viewer.layers) if cube_of(layer) is not None]
    return next((layer for layer in cubes if is_cube_shown(viewer, layer)), None)


def is_cube_shown(viewer: ViewerModel, layer: Image) -> bool:
    """Tell whether a band of the cube *layer* is visible, or its picture."""
    return layer.visible or is_picture_shown(viewer, layer)


def shown_cube_layers(viewer: ViewerModel) -> list[Image]:
    """List the active cube layer, then the other visible ones of its unit, topmost first.

    Layers that turn the axis of their bands into the image are left out: a point of the image is
    not one pixel of theirs.
    """
    active = active_cube_layer(viewer)
    cube = cube_of(active)
    if active is None or cube is None:
        return []
    shown = [active]
    for layer in reversed(viewer.layers):
        other = cube_of(layer)
        if layer is active or other is None or other.unit != cube.unit:
            continue
        if is_cube_shown(viewer, layer):
            shown.append(layer)
    return [layer for layer in shown if image_matrix(layer) is not None]


def band_of(layer: Image, point: Sequence[float]) -> int:
    """Return the band of the cube *layer* that is shown when the sliders stand at world *point*."""
    band = round(float(layer.world_to_data(point)[0]))
    # A slider spans all layers, so it may stand beside the bands of this one.
    return min(max(band, 0), len(layer.data) - 1)


def go_to(viewer: ViewerModel, layer: Image, wavelength: float) -> None:
    """Move the slider to the band of the cube *layer* nearest to *wavelength*, in its unit."""
    cube = cube_of(layer)
    if cube is not None:
        world = layer.data_to_world((cube.nearest_band(wavelength), 0, 0))
        # Axes that other layers have on top come before the three of a cube.
        viewer.dims.set_point(viewer.dims.ndim - 3, world[0])


def put_on_top(viewer: ViewerModel, layer: Layer) -> None:
    """Show *layer*, with its picture, above all images, but below what is drawn on them.

    Picks and regions of this plugin that *layer* would cover are moved above it.
    """
    layer.visible = True
    layers = viewer.layers
    for one in (layer, *composites_of(viewer, layer)):
        images = [at for at, other in enumerate(layers) if not isinstance(other, Points | Shapes)]
        layers.move(layers.index(one), images[-1] + 1)
    below = layers[: layers.index(layer)]
    for other in below:
        if isinstance(other, Points | Shapes) and METADATA_KEY in other.metadata:
            layers.move(layers.index(other), len(layers))
