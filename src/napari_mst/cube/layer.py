"""The cube as an Image layer of napari: data, arguments and kind, as napari's readers give them.

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
"""The key in a layer's metadata for everything that this plugin knows about the layer."""
WAVELENGTH = "wavelength (nm)"
"""The label of the first axis where its world coordinates are wavelengths."""
PAGE = "page"
"""The label of the axis of the pages of a stack that has none."""
NO_UNIT = "pixel"
"""The unit of the first axis. With nm, napari warns about every stack of photos beside the cube;
beside micrometres, it would scale the image as well."""
COLORMAP = "gray"
"""A band is shown in grey, so that nobody mistakes false colours for real ones."""
UNEVEN = 0.01
"""The most that a band may lie off an even axis, in steps; beyond it the slider would be wrong."""
SAMPLES = 2**17
"""Contrast limits come from about this many values, so that a large cube opens at once, and its
bands can be played: these take 8 ms, a million would take 60."""
BRIGHTEST = 99.9
"""Percentile that the contrast limits end at, so that a few highlights do not darken the rest."""

STACK_KEY = "napari_mst_stack"
"""The key under which the metadata of the layer of a stack hold all of its cubes."""

LayerTuple = tuple[Any, dict[str, Any], str]
"""A layer as napari's readers give it: data, arguments, kind."""


SpectralAxis = tuple[float, float, str]
"""The start, the step and the label of the first axis of a cube layer, as napari has them."""


class Stack(NamedTuple):
    """The cubes of the pages of a photo: all numbers (T, B, H, W), and a cube of each page.

    The *axis* has the start, the step and the label of the pages.
    """

    data: Any
    cubes: Sequence[Any]
    axis: tuple[float, float, str] = (0.0, 1.0, PAGE)


def spectral_axis(wavelengths: Doubles, unit: str) -> SpectralAxis:
    """The first axis of the layer of a cube: wavelengths, or band numbers."""
    # A slider is linear, so bands that are not evenly spaced are counted.
    step = even_step(wavelengths, UNEVEN)
    if unit != NANOMETRES or step <= 0:
        return 0.0, 1.0, "band"
    return float(wavelengths[0]), step, WAVELENGTH


def layer_arguments(data: Numbers, axis: SpectralAxis, name: str) -> dict[str, Any]:
    """The arguments of the layer called *name* of *data* (B, H, W), from pixel (0, 0)."""
    start, step, label = axis
    return {
        "name": name,
        "scale": (step, 1.0, 1.0),
        "translate": (start, 0.0, 0.0),
        "units": (NO_UNIT, "pixel", "pixel"),
        "axis_labels": (label, "y", "x"),
        # Both are explicit: napari guesses `rgb` from the shape, and scans all data for the limits.
        "rgb": False,
        "contrast_limits": contrast_limits(data),
        "multiscale": coarse_of(data) is not data,
        "colormap": COLORMAP,
    }


def contrast_limits(data: Numbers, darkest: float | None = None) -> tuple[float, float]:
    """One range for all bands of *data* (B, H, W), from a sample of its pixels.

    It goes from the percentile *darkest*, or else from 0 or the lowest value if that is negative,
    to the percentile `BRIGHTEST`.
    """
    data = coarse_of(data)
    places = sample_of(data, SAMPLES / len(data))
    # Tiles are read for a few pixels each, so only for some of the bands.
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
    """The data of the layer of a cube: its numbers, or a pyramid where all are not at hand."""
    coarse = coarse_of(data)
    return data if coarse is data else levels_of(data, coarse)
