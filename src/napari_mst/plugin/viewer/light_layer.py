"""A layer of the attention that found the light of a photo: patch by patch over the photo.

A click on it shows what the clicked patch attends to; a click beside the photo, what led to
the answer.
"""

import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image
from numpy.typing import NDArray
from qtpy.QtWidgets import QComboBox

from napari_mst.cube.layer import METADATA_KEY
from napari_mst.light.attention import PatchAttention
from napari_mst.plugin.viewer.photos import image_shape
from napari_mst.plugin.viewer.placement import Placement

ROLE = "light attention"
"""Marks this layer in its metadata."""


HINT = (
    "Show as a layer which patches of the photo show the light: through all blocks of the network, "
    "or in one. Click a patch there to see what it attends to."
)


@runtime_checkable
class TellsLight(Protocol):
    """Something that a job made, and that may hold the estimated light of the photo on a layer."""

    layer: Callable[[], Image | None]
    light: Any


class View(NamedTuple):
    """The part of the attention that is shown.

    Attributes
    ----------
    block
        A block, counted from 0; None for the rollout through all blocks.
    head
        A head of it, counted from 0; None for the mean of its heads.
    """

    block: int | None = None
    head: int | None = None

    @property
    def title(self) -> str:
        """The view for a person, who counts from 1."""
        if self.block is None:
            return "all blocks (rollout)"
        heads = "mean of heads" if self.head is None else f"head {self.head + 1}"
        return f"block {self.block + 1}, {heads}"


def views_of(attention: PatchAttention) -> list[View]:
    """List the views of *attention*: the rollout first, then each block, and its heads."""
    blocks, heads = attention.blocks.shape[:2]
    choices = [None, *range(heads)]
    return [View(), *(View(block, head) for block in range(blocks) for head in choices)]


class LightViews(QComboBox):
    """Lists the views of the attention that found a light; hidden while nobody asked for one."""

    def __init__(self, viewer: ViewerModel) -> None:
        super().__init__(toolTip=HINT)
        self._viewer = weakref.ref(viewer)
        self._told: TellsLight | None = None
        # `activated` comes only from the user: listing the views must not add a layer.
        self.activated.connect(self._show)
        self.hide()

    def list_views(self, told: object) -> None:
        """List what *told* the light, if that is what it did; else nothing."""
        teller = told if isinstance(told, TellsLight) and told.light is not None else None
        # Listing the views again would forget which one the user has chosen.
        if teller is not None and teller is self._told:
            return
        self._told = teller
        self.clear()
        self.setVisible(teller is not None)
        if self._told is not None:
            self.addItem("show what told the light ...")
            for view in views_of(self._told.light.attention):
                self.addItem(view.title, view)

    def _show(self) -> None:
        viewer, told, view = self._viewer(), self._told, self.currentData()
        layer = None if told is None else told.layer()
        if viewer is None or told is None or layer is None or view is None:
            return
        if layer in viewer.layers:
            show_attention(viewer, layer, told.light.attention, view)


def show_attention(
    viewer: ViewerModel, photo: Image, attention: PatchAttention, view: View
) -> Image:
    """Show *view* over the layer *photo*, in place of the view that was shown before."""
    values = _values(attention, view, None)
    layer = _present(viewer)
    if layer is None:
        layer = _added(viewer, photo, values)
    layer.mouse_drag_callbacks[:] = [partial(_on_press, attention, view)]
    _show(layer, values, f"Light, {view.title}: {photo.name}")
    viewer.layers.selection.active = layer
    return layer


def _added(viewer: ViewerModel, photo: Image, values: NDArray[np.float64]) -> Image:
    finest = photo.data[0] if photo.multiscale else photo.data
    # Patches divide the photo evenly; the first is centred on the middle of its pixels.
    step = np.array(image_shape(finest.shape)) / len(values)
    place = Placement.of(photo).of_part((step - 1) / 2, step)
    layer: Image = viewer.add_image(
        values,
        **place.image_kwargs(),
        colormap="inferno",
        opacity=0.7,
        metadata={METADATA_KEY: ROLE, "photo": weakref.ref(photo)},
    )
    return layer


def _present(viewer: ViewerModel) -> Image | None:
    own = (layer for layer in viewer.layers if layer.metadata.get(METADATA_KEY) == ROLE)
    return next((layer for layer in own if isinstance(layer, Image)), None)


def _show(layer: Image, values: NDArray[np.float64], name: str) -> None:
    layer.data = values
    layer.contrast_limits = (0, max(float(values.max()), 1e-12))
    layer.name = name


def _values(
    attention: PatchAttention, view: View, patch: tuple[int, int] | None
) -> NDArray[np.float64]:
    """The map (G, G) of *view*, of the class token or of a *patch*."""
    if view.block is None:
        token = 0 if patch is None else 1 + patch[0] * attention.grid + patch[1]
        return attention.rollout[token, 1:].reshape(attention.grid, attention.grid)
    if patch is None:
        return attention.class_token_map(view.block, view.head)
    return attention.patch_map(patch, view.block, view.head)


def _on_press(attention: PatchAttention, view: View, layer: Image, event: Any) -> None:
    """Show the row of the patch under the mouse."""
    patch = _patch_at(layer, event.position, attention.grid)
    values = _values(attention, view, patch)
    asking = "" if patch is None else f", patch {patch[0] + 1},{patch[1] + 1}"
    photo = layer.metadata["photo"]()
    name = "" if photo is None else photo.name
    _show(layer, values, f"Light, {view.title}{asking}: {name}")


def _patch_at(layer: Image, position: Sequence[float], grid: int) -> tuple[int, int] | None:
    row, column = np.round(layer.world_to_data(position)[-2:]).astype(int).tolist()
    return (row, column) if 0 <= row < grid and 0 <= column < grid else None
