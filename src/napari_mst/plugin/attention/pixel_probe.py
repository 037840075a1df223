"""Finds what a clicked pixel attends to: handles the click, runs the job, words the result."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from napari.components import ViewerModel
from psygnal import Signal

from napari_mst.attention.record import beside_uniform
from napari_mst.attention.record_views import AttentionMap
from napari_mst.base.arrays import Array, Pixel
from napari_mst.base.errors import AttentionError, NapariMstError, PhotoError, plain
from napari_mst.denoising.photo_denoising import (
    ROUNDING,
    Denoising,
    denoised_photo,
    denoising_to_look_at,
)
from napari_mst.photo.photo import Photo
from napari_mst.plugin.attention.attention_layers import (
    show_denoised,
    show_outlines,
    show_weights,
)
from napari_mst.plugin.attention.attention_model import (
    AttentionModel,
    Ready,
    RecordedHead,
    Show,
    order_of_run,
    source_of_run,
)
from napari_mst.plugin.attention.drawings import Drawing, six_pictures, window_pictures
from napari_mst.plugin.jobs.task import Reports
from napari_mst.plugin.jobs.workspace import JobState, Request, SideJob, Workspace
from napari_mst.plugin.reconstruct.form import ReconstructionForm
from napari_mst.plugin.reconstruct.requests import photo_layer
from napari_mst.plugin.viewer.canvas_mouse import CanvasMouse
from napari_mst.plugin.viewer.layer_photos import LayerPhoto, hide_maps, image_shape
from napari_mst.plugin.viewer.picks import Position
from napari_mst.plugin.viewer.sharing import ViewerHelper

if TYPE_CHECKING:
    from napari_mst.attention.head_steps import HeadSteps, PixelWeights, WindowSteps

NETWORK = "network"
SINGLE = "single"
SIX = "six"
PATCH = 4
"""Pixels along each side of the patch of a single head; each pixel is a token."""
WAITING = "Estimating the noise of the photo ..."
NOT_BETWEEN_PIXELS = "No pixel has weights in this block. Choose another attention above."
OUTSIDE = "This is not on the photo. Click a pixel of it."


@dataclass(frozen=True, eq=False)
class PhotoPatches:
    """A photo, and the settings with which non-local means compares its patches."""

    photo: Photo
    how: Denoising


class PixelView(NamedTuple):
    """The contents of the page Pixel: a sentence, the numbers of a head, and pictures."""

    text: str = ""
    steps: "HeadSteps | None" = None
    pictures: Sequence[Drawing] = ()


class PixelProbe(ViewerHelper):
    """Requests the weights of each clicked pixel while it is on.

    A click during a job waits until the job ends; only the last click counts.

    Attributes
    ----------
    kind
        `NETWORK`, `SINGLE` or `SIX`.
    h
        Strength of non-local means in 8-bit codes; None derives it from the noise of the photo.
    changed
        Emitted with the `PixelView` to show.
    """

    changed = Signal(PixelView)

    def __init__(
        self,
        viewer: ViewerModel,
        workspace: Workspace,
        model: AttentionModel,
        form: ReconstructionForm,
    ) -> None:
        super().__init__(viewer)
        self.kind = SIX
        self.h: float | None = None
        self.is_on = False
        self._workspace = workspace
        self._model = model
        self._form = form
        self._mouse = CanvasMouse(viewer, on_click=self.click, is_alone=True)
        self._pending: Request | None = None
        self._patches: tuple[LayerPhoto, PhotoPatches] | None = None
        self._pixel: Pixel | None = None
        self._position: Position | None = None

    def turn(self, is_on: bool) -> None:
        """Start or stop listening to the mouse."""
        self.is_on = is_on
        if is_on:
            self._mouse.connect()
            self._prepare()
        else:
            self._mouse.disconnect()

    def choose(self, kind: str, h: float | None) -> None:
        """Compare pixels by another kind of attention, or with another strength.

        A clicked pixel stays. If neither has changed, the photo is another, and the pixel is
        dropped.
        """
        if (kind, h) == (self.kind, self.h):
            self._position = None
        if self._position is None:
            self._pixel = None
        self.kind, self.h = kind, h
        self._patches = self._pending = None
        self.changed.emit(PixelView())
        if self.is_on or (self._pixel is not None and kind != NETWORK):
            # The maps of the previous kind no longer apply.
            hide_maps(self.viewer)
            self._prepare()
            if kind == NETWORK and self._position is not None:
                self.click(self._position)
        else:
            self.begin()

    def begin(self) -> None:
        """Show six attentions of a pixel without a click, where there is no run to show."""
        is_idle = self._pixel is None and self._model.head is None
        if is_idle and self.kind == SIX and self._form.layer is not None:
            self._prepare()

    def forget(self) -> None:
        """Release the photo."""
        self._patches = None
        self._pending = None
        self._model.forget_photo()

    def denoise(self) -> bool:
        """Denoise the chosen photo into a layer; False if nothing started."""

        def denoised(patches: PhotoPatches, reports: Reports) -> Photo:
            reports.say(f"Denoising by non-local means, h = {patches.how.codes:.3g} codes ...")
            return denoised_photo(patches.photo, patches.how, reports)

        order = self._order_of_photo(denoised, show_denoised)
        return order is not None and self._workspace.run(order)

    def click(self, position: Position) -> None:
        """Ask what the pixel at world *position* attends to."""
        self._position = position
        try:
            if self.kind == NETWORK:
                self._pixel = _pixel_of(self._photo(), position)
                self._start(self._order_of_network(position))
            else:
                self._show(_pixel_of(self._photo(), position))
        except NapariMstError as error:
            self.changed.emit(PixelView(plain(error)))

    def follow_head(self) -> None:
        """Ask again about the clicked pixel, for the block and the head that are chosen now."""
        if self.kind != NETWORK:
            return
        self.changed.emit(PixelView())
        if self.is_on and self._position is not None:
            self.click(self._position)

    def on_state(self, state: JobState) -> None:
        """Start the waiting job, once no other job runs."""
        if state.is_idle and self._pending is not None:
            order, self._pending = self._pending, None
            self._start(order)

    def _start(self, order: Request) -> None:
        if not self._workspace.run(order):
            self._pending = order

    # ------------------------------------------------------------------------ by the network

    def _order_of_network(self, position: Position) -> Request:
        """Request what the pixel at *position* attends to in the chosen block."""
        head = self._model.chosen
        if head.between_pixels is None:
            raise AttentionError(NOT_BETWEEN_PIXELS)
        source = source_of_run(self.viewer, head.recording)
        row, column = np.subtract(_pixel_of(source, position), source.corner).tolist()
        rows, columns = source.shape
        if not (0 <= row < rows and 0 <= column < columns):
            raise AttentionError(OUTSIDE)

        def make(ready: Ready, reports: Reports) -> "WindowSteps | PixelWeights":
            pixels = ready.pixels().reporting_to(reports)
            # A window too large for all its steps still shows its weights.
            with suppress(AttentionError):
                return pixels.steps(head.block, head.head, row, column)
            return pixels.weights(head.block, row, column)

        def show(viewer: ViewerModel, made: Any, photo: LayerPhoto) -> None:
            from napari_mst.attention.head_steps import WindowSteps  # the job has imported torch

            if self.kind == NETWORK:
                steps = made if isinstance(made, WindowSteps) else None
                pixel = made if steps is None else steps.pixel
                weights = show_weights(viewer, pixel, photo, head.head)
                pictures = window_pictures(window_of(photo, weights), weights)
                self.changed.emit(PixelView(_sentence(pixel, head), steps, pictures))

        return order_of_run(self.viewer, self._model, make, show)

    # ------------------------------------------------------------------------ by the photo alone

    def _prepare(self) -> None:
        """Estimate the noise of the chosen photo, which scales the comparison of its pixels."""
        if self.kind == NETWORK:
            return
        order = self._order_of_photo(lambda patches, _: patches, self._take)
        if order is not None:
            # The photo may have changed since.
            self._patches = None
            self.changed.emit(PixelView())
            self._start(order)

    def _photo(self) -> LayerPhoto:
        """Freeze the chosen photo. Raises `PhotoError` if there is none."""
        return LayerPhoto.of(photo_layer(self._form, self.viewer), self.viewer.dims.point)

    def _order_of_photo(
        self, make: Callable[[PhotoPatches, Reports], object], show: Show
    ) -> Request | None:
        """Request a job on the chosen photo and its noise; None without a photo."""
        h = self.h

        def work(request: Request, reports: Reports) -> object:
            # Clicks call these on the main thread: import torch here, which takes seconds.
            import napari_mst.attention.six_attentions  # noqa: F401

            reports.say(WAITING)
            photo = request.read()
            return make(PhotoPatches(photo, denoising_to_look_at(photo, h, reports)), reports)

        try:
            source = self._photo()
        except PhotoError as error:
            self.changed.emit(PixelView(plain(error)))
            return None
        job = SideJob(
            work, lambda viewer, made, _: show(viewer, made, source), lines=lambda _: [""]
        )
        return Request(source, "", job=job)

    def _take(self, _: ViewerModel, patches: PhotoPatches, photo: LayerPhoto) -> None:
        # Another kind may have been chosen meanwhile.
        if self.kind != NETWORK:
            self._patches = photo, patches
            noise, h = patches.how.noise.codes, patches.how.codes
            has_noise = noise > ROUNDING
            which = f"The noise is {noise:.1f} codes" if has_noise else "No noise was measured"
            self.changed.emit(PixelView(f"{which}: h is {h:.3g} codes. Click the photo."))
            # A click may have come before.
            if self._pixel is not None or self.kind == SIX:
                self._show(self._pixel or self._middle(photo))

    def _middle(self, photo: LayerPhoto) -> Pixel:
        """Return the pixel of *photo* nearest to the centre of the canvas."""
        # napari 0.9 has moved the camera to the scene.
        camera = getattr(self.viewer, "scene", self.viewer).camera
        last = np.subtract(photo.shape, 1)
        row, column = np.clip(_pixel_of(photo, camera.center), 0, last).tolist()
        return row, column

    def _show(self, pixel: Pixel) -> None:
        """Show what *pixel* attends to, from the photo alone, as soon as its noise is known."""
        self._pixel = pixel
        if self._patches is None:
            return
        photo, patches = self._patches
        show = {SINGLE: self._shown_patch, SIX: self._shown_six}
        try:
            self.changed.emit(show[self.kind](photo, patches, pixel))
        except AttentionError as error:
            # A patch may also be larger than the photo.
            self.changed.emit(PixelView(OUTSIDE if self.kind == SIX else plain(error)))

    def _shown_six(self, _: LayerPhoto, patches: PhotoPatches, pixel: Pixel) -> PixelView:
        from napari_mst.attention.six_attentions import side_by_side  # the job has imported torch

        six = side_by_side(patches.photo, *pixel, patches.how.codes)
        return PixelView(six.sentence, None, list(six_pictures(six)))

    def _shown_patch(self, photo: LayerPhoto, patches: PhotoPatches, pixel: Pixel) -> PixelView:
        """Return all numbers of a single head on the patch that begins at *pixel*."""
        from napari_mst.attention.head_steps import patch_steps

        steps = patch_steps(patches.photo, patches.how, pixel, PATCH, "columns")
        top, left = steps.corner
        bottom, right = top + PATCH, left + PATCH
        patch = ("window", (top, bottom, left, right))
        show_outlines(self.viewer, [patch], photo)
        last = f"({bottom - 1}, {right - 1})"
        text = f"Pixels ({top}, {left}) to {last}, {PATCH**2} tokens."
        return PixelView(text, steps)


def _sentence(pixel: "PixelWeights", head: RecordedHead) -> str:
    """Say what a pixel attends to in a head."""
    heard = pixel.weights[head.head, pixel.heard]
    count = pixel.effective_keys[head.head]
    return (
        f"Pixel {pixel.query}, {head.title}: {len(heard)} keys add up to {heard.sum():.6f}; "
        f"{count:.1f} count (1 / sum of squares). {beside_uniform(heard[None])}"
    )


def _pixel_of(photo: LayerPhoto, position: Position) -> tuple[int, int]:
    """Row and column of *photo* under world *position*; they may lie outside."""
    row, column = np.floor(photo.placement.pixels_at([position[-2:]])[0] + 0.5)
    return int(row), int(column)


def window_of(photo: LayerPhoto, weights: AttentionMap) -> Array:
    """The pixels of *photo* under *weights*: (h, w) or (h, w, colours).

    Beyond the photo, its last pixels are repeated.
    """
    pixels = photo.pixels[photo.index]
    shape = image_shape(pixels.shape)
    if pixels.shape[:2] != shape:
        pixels = np.moveaxis(pixels, 0, -1)
    rows, columns = (
        np.clip(first + np.arange(count * weights.pitch), 0, side - 1)
        for first, count, side in zip(weights.corner, weights.values.shape, shape, strict=True)
    )
    # Only this part of a lazy photo is read.
    near = np.asarray(pixels[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1])
    return near[np.ix_(rows - rows[0], columns - columns[0])]
