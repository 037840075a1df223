"""Plain arrays (`.npy`) that napari has opened: whether they are cubes only the user can tell."""

import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from napari.layers import Image

from napari_mst.cube import SpectralCube
from napari_mst.messages import shown
from napari_mst.plugin.files import questions

SUFFIX = ".npy"
FEWEST_BANDS = 4
"""A stack of fewer planes is rather a photo, planar."""

Told = Callable[[Image, SpectralCube], object]
"""Called with the layer and the cube that the user has described."""


def may_be_cube(layer: Image) -> bool:
    """Tell whether *layer* is of a plain array, one of whose outer axes may hold bands."""
    is_plain = Path(str(layer.source.path)).suffix.lower() == SUFFIX
    if not is_plain or layer.rgb or layer.multiscale or layer.ndim != 3:
        return False
    shape = layer.data.shape
    return FEWEST_BANDS <= shape[questions.likely_axis(shape)] < max(shape)


def offer(layer: Image, told: Told) -> None:
    """Offer to give *layer* wavelengths; the user goes on without an answer if they like."""
    size = " x ".join(map(str, layer.data.shape))
    text = (
        f"'{shown(layer.name, 40)}' holds {size} numbers ({layer.data.dtype}) and no wavelengths. "
        "Is it a spectral cube?"
    )
    questions.offer(text, "Set wavelengths ...", partial(_ask, weakref.ref(layer), told))


def _ask(layer_ref: "weakref.ref[Image]", told: Told) -> None:
    """Ask for the wavelengths of the layer, and hand on its cube."""
    layer = layer_ref()
    parent = questions.window()
    if layer is None or parent is None:
        return
    stack = np.asarray(layer.data)
    bands = questions.ask_bands(layer.name, stack, parent)
    if bands is not None:
        told(layer, bands.cube_of(stack))
