"""The cube as a napari Image layer: data, arguments and kind, as napari's readers return them.

Nothing here imports napari, so that a script can describe a layer without it. Letters: B bands, H
rows, W columns.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from napari_mst.base.arrays import Doubles, even_step, singles
from napari_mst.cube.curves import NANOMETRES
from napari_mst.cube.lazy import Numbers, coarse_of, levels_of, sample_of

METADATA_KEY = "napari_mst"
"""Key of a layer's metadata with everything that this plugin knows about the layer."""
WAVELENGTH = "wavelength (nm)"
"""Label of the first axis if its world coordinates are wavelengths."""
PAGE = "page"
"""Label of the page axis of a stack that has no label."""
NO_UNIT = "pixel"
"""Unit of the first axis. With nm, napari would warn about every stack of photos beside the cube,
and would scale the image if a layer beside it is in micrometres."""
COLORMAP = "gray"
"""Bands are shown in grey, so that nobody mistakes false colours for real ones."""
UNEVEN = 0.01
"""Largest deviation of a band from an even axis, in steps: beyond it the slider would be wrong."""
SAMPLES = 2**17
"""Approximate number of values that set the contrast limits. They take 8 ms, so that a large cube
opens at once and its bands can be played; a million values would take 60 ms."""
BRIGHTEST = 99.9
"""Percentile at which the contrast limits end, so that a few highlights do not darken the rest."""

STACK_KEY = "napari_mst_stack"
"""Metadata key of a stack's layer for all of its cubes."""

LayerTuple = tuple[Any, dict[str, Any], str]
"""A layer as napari's readers give it: data, arguments, kind."""


SpectralAxis = tuple[float, float, str]
"""Start, step and label of the first axis of a cube layer, as in napari."""


class Stack(NamedTuple):
    """The cubes of a photo's pages: all numbers (T, B, H, W), and one cube per page.

    *axis* is the start, the step and the label of the page axis.
    """

    data: Any
    cubes: Sequence[Any]
    axis: tuple[float, float, str] = (0.0, 1.0, PAGE)


def spectral_axis(wavelengths: Doubles, unit: str) -> SpectralAxis:
    """The first axis of a cube layer: wavelengths, or band numbers."""
    # A slider is linear, so unevenly spaced bands are numbered instead.
    step = even_step(wavelengths, UNEVEN)
    if unit != NANOMETRES or step <= 0:
        return 0.0, 1.0, "band"
    return float(wavelengths[0]), step, WAVELENGTH


def layer_arguments(data: Numbers, axis: SpectralAxis, name: str) -> dict[str, Any]:
    """The arguments of a layer called *name* for *data* (B, H, W), placed at pixel (0, 0)."""
    start, step, label = axis
    return {
        "name": name,
        "scale": (step, 1.0, 1.0),
        "translate": (start, 0.0, 0.0),
        "units": (NO_UNIT, "pixel", "pixel"),
        "axis_labels": (label, "y", "x"),
        # Both are explicit: napari guesses `rgb` from the shape, and reads all data to set limits.
        "rgb": False,
        "contrast_limits": contrast_limits(data),
        "multiscale": coarse_of(data) is not data,
        "colormap": COLORMAP,
    }


def contrast_limits(data: Numbers, darkest: float | None = None) -> tuple[float, float]:
    """One range for all bands of *data* (B, H, W), from a sample of its pixels.

    It starts at the percentile *darkest*, by default at 0 or at the lowest value if that is
    negative, and ends at the percentile `BRIGHTEST`.
    """
    data = coarse_of(data)
    places = sample_of(data, SAMPLES / len(data))
    # A few pixels cost a whole tile, so only some of the bands are read.
    bands = slice(None, None, max(1, len(data) // 8) if len(places) > 1 else 1)
    sample = np.concatenate([singles(data[bands, *place]).ravel() for place in places])
    values = sample[np.isfinite(sample)]
    if not values.size:
        return 0.0, 1.0
    low = min(0.0, float(values.min())) if darkest is None else np.percentile(values, darkest)
    low = float(low)
    high = float(np.percentile(values, BRIGHTEST))
    return (low, high) if high > low else (low, low + 1.0)


def layer_data(data: Numbers) -> Any:
    """The data of a cube layer: its numbers, or a pyramid if they are lazy with a coarse copy."""
    coarse = coarse_of(data)
    return data if coarse is data else levels_of(data, coarse)
