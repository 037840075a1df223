"""Pixels that a person points at, and what they attend to: the mouse, the job, the sentence."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image
from psygnal import Signal

from napari_mst.attention.overlays import ALIKE as ALIKE_MAP
from napari_mst.attention.record import block_title
from napari_mst.denoising.photos import BEST_H
from napari_mst.errors import AttentionError, DenoisingError
from napari_mst.plugin.attention.alike import Alike
from napari_mst.plugin.attention.exploration import Exploration
from napari_mst.plugin.attention.layers import limits, map_arguments, put_map, show_patch
from napari_mst.plugin.attention.orders import (
    NO_PHOTO,
    alike_job,
    denoising_job,
    pixel_job,
    pixel_order,
    window_job,
)
from napari_mst.plugin.jobs.request import Request
from napari_mst.plugin.jobs.workspace import JobState, Workspace
from napari_mst.plugin.viewer.canvas_mouse import CanvasMouse
from napari_mst.plugin.viewer.composites import selection_kept
from napari_mst.plugin.viewer.photos import LayerPhoto
from napari_mst.plugin.viewer.picks import Position
from napari_mst.plugin.viewer.sharing import ViewerHelper

if TYPE_CHECKING:
    from napari_mst.attention.pixel_weights import PixelWeights

NETWORK = "network"
ALIKE = "alike"
SINGLE = "single"
WINDOW = "window"
OF_NETWORK = (NETWORK, WINDOW)
"""The choice that the network of the chosen run computes."""
WAITING = "Estimating the noise of the photo ..."


class Picking(ViewerHelper):
    """Asks for the weights of the pixel under the mouse while it is on.

    A click during a job waits for its end; only the last one counts.

    Attributes
    ----------
    mechanism
        `NETWORK`, `WINDOW`, `ALIKE` or `SINGLE`.
    h
        The strength of non-local means.
    side, reading
        Pixels along a side of the patch of a single head, and the axis of A that sums to 1.
    changed
        Emitted with a sentence for a person.
    patch_changed
        Emitted with the `HeadSteps` of the patch, or window, that was clicked.
    """

    changed = Signal(str)
    patch_changed = Signal(object)

    def __init__(
        self,
        viewer: ViewerModel,
        workspace: Workspace,
        exploration: Exploration,
        photo: Callable[[], Image | None],
    ) -> None:
        super().__init__(viewer)
        self.mechanism = NETWORK
        self.h = BEST_H
        self.side = 4
        self.reading: Literal["columns", "rows"] = "columns"
        self.is_on = False
        self._workspace = workspace
        self._exploration = exploration
        self._photo = photo
        self._mouse = CanvasMouse(viewer, self._on_move, self.click)
        self._pending: Request | None = None
        self._alike: Alike | None = None
        self._layer_photo: LayerPhoto | None = None
        self._pixel: tuple[int, int] | None = None

    def turn(self, is_on: bool) -> None:
        """Begin to listen to the mouse, or stop."""
        self.is_on = is_on
        if not is_on:
            self._mouse.detach()
            return
        self._mouse.attach()
        if self.mechanism not in OF_NETWORK:
            self._prepare()

    def choose(self, mechanism: str, h: float) -> None:
        """Compare pixels by another attention, or with another strength."""
        self.mechanism, self.h = mechanism, h
        self._alike = None
        if self.is_on and mechanism not in OF_NETWORK:
            self._prepare()

    def choose_patch(self, side: int, reading: Literal["columns", "rows"]) -> None:
        """Take patches of another size, or read A otherwise; the patch that is shown follows."""
        self.side, self.reading = side, reading
        if self.mechanism == SINGLE and self._pixel is not None:
            self._show_patch(self._pixel)

    def forget(self) -> None:
        """Let go of the photo."""
        self._alike = None
        self._layer_photo = None
        self._pending = None
        self._exploration.shelf.clear()

    def denoise(self) -> bool:
        """Denoise the chosen photo as a layer; False if nothing started."""
        order = self._order_of_photo(denoising_job(self.h))
        return order is not None and self._workspace.run(order)

    def click(self, position: Position) -> None:
        """Ask what the pixel at world *position* attends to."""
        if self.mechanism not in OF_NETWORK:
            self._on_move(position)
            if self.mechanism == SINGLE and self._layer_photo is not None:
                self._show_patch(_pixel_of(self._layer_photo, position))
            return
        job = window_job if self.mechanism == WINDOW else pixel_job
        order = pixel_order(self.viewer, self._exploration, position, job)
        if isinstance(order, str):
            self.changed.emit(order)
            return
        self._start(order)

    def on_state(self, state: JobState) -> None:
        """Start what waits, once no job runs."""
        if state.is_idle and self._pending is not None:
            order, self._pending = self._pending, None
            self._start(order)

    def on_made(self, made: Any) -> None:
        """Say what a job of this page has found."""
        if isinstance(made, Alike):
            self._alike = made
            self._pixel = None
            self.changed.emit(f"Noise {made.how.noise.codes:.1f} codes. Move over the photo.")
        elif hasattr(made, "places"):
            self.changed.emit(self._sentence(made))
        elif hasattr(made, "steps"):
            self.patch_changed.emit(made)
            self.changed.emit(self._sentence(made.pixel))

    def _start(self, order: Request) -> None:
        if not self._workspace.run(order):
            self._pending = order

    def _prepare(self) -> None:
        """Have the noise of the chosen photo estimated."""
        order = self._order_of_photo(alike_job(self.h))
        if order is not None:
            self.changed.emit(WAITING)
            self._start(order)

    def _order_of_photo(self, job: object) -> Request | None:
        layer = self._photo()
        if layer is None:
            self.changed.emit(NO_PHOTO)
            return None
        self._layer_photo = LayerPhoto.of(layer, self.viewer.dims.point)
        return Request(self._layer_photo, "", job=job)  # type: ignore[arg-type]

    def _on_move(self, position: Position) -> None:
        """Show the weights of non-local means for the pixel under the mouse."""
        viewer, alike, photo = self.viewer, self._alike, self._layer_photo
        if self.mechanism != ALIKE or alike is None or photo is None:
            return
        pixel = _pixel_of(photo, position)
        if pixel == self._pixel:
            return
        self._pixel = pixel
        try:
            found = alike.weights(*pixel)
        except DenoisingError:
            return  # the mouse has left the photo
        made = alike.map(found)
        arguments = {**map_arguments(made, photo.placement), "contrast_limits": limits(made)}
        with selection_kept(viewer):
            put_map(viewer, made, f"{ALIKE_MAP.title}: {photo.name}", arguments)
        self.changed.emit(alike.sentence(*pixel, found))

    def _show_patch(self, pixel: tuple[int, int]) -> None:
        """Show every number of a single head on the patch that begins at *pixel*."""
        from napari_mst.attention.patch_steps import patch_steps  # the job has imported torch

        alike, photo = self._alike, self._layer_photo
        if alike is None or photo is None:
            return
        try:
            found = patch_steps(alike.photo, alike.how, pixel, self.side, self.reading)
        except AttentionError as error:
            self.changed.emit(str(error))
            return
        self._pixel = pixel
        show_patch(self.viewer, found, photo)
        self.patch_changed.emit(found)
        last = (found.row + self.side - 1, found.column + self.side - 1)
        self.changed.emit(f"Pixels ({found.row}, {found.column}) to {last}, {self.side**2} tokens.")

    def _sentence(self, found: "PixelWeights") -> str:
        """Say what a pixel attends to in the head that is shown."""
        head = self._exploration.head
        number = 0 if head is None or head.block != found.block else head.head
        number = min(number, len(found.weights) - 1)
        weights = found.weights[number]
        keys = int(found.heard.sum())
        bits = -(weights * np.log2(np.maximum(weights, 1e-300))).sum()
        row, column = found.query
        of_head = None if head is None else head.between_pixels
        title = block_title(found.block, None if of_head is None else of_head.channels)
        return (
            f"Pixel ({row}, {column}), {title}, head {number} of {len(found.weights)}: {keys} keys "
            f"add up to {weights.sum():.6f}; {found.effective_keys[number]:.1f} count (1 / sum of "
            f"squares). Entropy {bits:.2f} of {np.log2(keys):.2f} bits, largest weight "
            f"{weights.max():.3f}, equal weights {1 / keys:.3f}."
        )


def _pixel_of(photo: LayerPhoto, position: Position) -> tuple[int, int]:
    """Row and column of *photo* under world *position*; they may lie outside."""
    row, column = np.floor(photo.placement.pixels_at([position[-2:]])[0] + 0.5)
    return int(row), int(column)
