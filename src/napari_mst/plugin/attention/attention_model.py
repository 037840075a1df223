"""The state of the attention dock, without Qt, and orders for its jobs.

The dock forwards clicks to an `AttentionModel` and draws what it says; a script uses it alone. The
photo that was looked at last is kept ready, so it is read and denoised only once. A function
that orders reads the state and changes nothing. It raises `AttentionError` with a sentence for the
person where there is nothing to order. The jobs run on their own thread.
"""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from napari.components import ViewerModel
from psygnal import Signal

from napari_mst.attention.overlays import EFFECT
from napari_mst.attention.record import (
    AttentionRecord,
    BlockAttention,
    PixelBlock,
    head_title,
)
from napari_mst.attention.record_views import AttentionMap, AttentionSteps, Selection
from napari_mst.base.arrays import Singles
from napari_mst.base.errors import AttentionError
from napari_mst.plugin.attention.attention_layers import show_map
from napari_mst.plugin.jobs.task import Reports
from napari_mst.plugin.jobs.workspace import Recording, Request, SideJob, Workspace
from napari_mst.plugin.reconstruct.form import ReconstructionForm
from napari_mst.plugin.reconstruct.requests import chosen_photo, references_in, request_of
from napari_mst.plugin.viewer.layer_photos import LayerPhoto

Shares = dict[str, tuple[float, ...]]
"""The effect of each head of each block, by that of all heads."""

PHOTO_IS_GONE = "The photo of this run is no longer in the viewer. Open it and record it again."
NO_RUN = "Reconstruct a photo, or press Record: the matrices of all blocks appear here."


def least_even(record: AttentionRecord) -> tuple[str, int]:
    """The block and head whose weights differ most from equal ones; the first if none has any."""
    shares = {
        (name, head): entropy.mean() / np.log2(len(entropy))
        for name, block in record.blocks.items()
        for head, entropy in enumerate(block.entropy)
    }
    return min(shares, key=shares.__getitem__, default=(next(iter(record.shapes)), 0))


class RecordedHead(NamedTuple):
    """One head of one block of a recorded run."""

    recording: Recording
    block: str
    head: int

    @property
    def matrices(self) -> BlockAttention | None:
        """The matrices of all heads of the block; None if pixels attend to pixels in it."""
        return self.recording.record.blocks.get(self.block)

    @property
    def weights(self) -> Singles:
        """The matrix of this head. Raises `AttentionError` if it has none."""
        return self.recording.record[self.block].attention[self.head]

    @property
    def between_pixels(self) -> PixelBlock | None:
        """The block, if pixels attend to pixels in it."""
        return self.recording.record.pixel_blocks.get(self.block)

    @property
    def channels(self) -> int:
        """Number of channels of a head: the side of its matrix, if it has one."""
        channels, heads = self.recording.record.shapes[self.block]
        return channels // heads

    @property
    def title(self) -> str:
        """Its name for people: "stage 1, encoder 62, head 1 of 2"."""
        return head_title(self.recording.record, self.block, self.head)


class AttentionModel:
    """The chosen head and channels, the head that is compared, and the steps that were made.

    `head_changed` and `channels_changed` are emitted when the choice changes; change it with the
    methods.
    """

    head_changed = Signal()
    channels_changed = Signal()

    def __init__(self) -> None:
        self.head: RecordedHead | None = None
        self.compared: RecordedHead | None = None
        # Channel 0 rather than all of them, so that a cell of the matrix is marked.
        self.key: int | None = 0
        self.query: int | None = 0
        self._ready: tuple[Any, Ready] | None = None
        # The steps of the chosen head, once they were computed.
        self.steps: AttentionSteps | None = None
        self._shares = WeakKeyDictionary[Recording, Shares]()

    @property
    def shares(self) -> Shares:
        """The effects of the heads of the chosen run; empty until they were computed."""
        return {} if self.head is None else self._shares.get(self.head.recording, {})

    @property
    def chosen(self) -> RecordedHead:
        """The chosen head. Raises `AttentionError` before the first run."""
        if self.head is None:
            raise AttentionError(NO_RUN)
        return self.head

    @property
    def selection(self) -> Selection:
        """The chosen block, head and channels. Raises `AttentionError` before the first run."""
        return Selection(self.chosen.block, self.chosen.head, self.key, self.query)

    def follow(self, workspace: Workspace) -> None:
        """Look at the newest run of *workspace*, now and later, and forget what it forgets."""
        for recording in workspace.recordings[-1:]:
            self.choose_run(recording)
        workspace.recorded.connect(self.choose_run)
        workspace.forgotten.connect(lambda: self.forget(workspace.recordings))

    def choose_run(self, recording: Recording) -> None:
        """Look at *recording*: at the same head as before, or the one whose weights say most."""
        shapes = recording.record.shapes
        head = RecordedHead(recording, *least_even(recording.record))
        if self.head is not None:
            _, heads = shapes.get(self.head.block, (0, 0))
            if self.head.head < heads:
                head = self.head._replace(recording=recording)
        self._set_head(head)

    def choose(self, block: str, head: int) -> None:
        """Look at another head of the chosen run."""
        self._set_head(RecordedHead(self.chosen.recording, block, head))

    def choose_channels(self, key: int | None, query: int | None) -> None:
        """Choose key channel i and query channel j; None stands for all channels."""
        self.key = key
        self.query = query
        self.channels_changed.emit()

    def click(self, key: int, query: int) -> None:
        """Choose the channels of a cell that is clicked; the second click on it chooses all."""
        is_chosen = (self.key, self.query) == (key, query)
        self.choose_channels(*((None, None) if is_chosen else (key, query)))

    def compare(self, is_on: bool) -> None:
        """Keep the chosen head beside the heads that are chosen next, or stop keeping it."""
        self.compared = self.head if is_on else None
        self.head_changed.emit()

    def keep_steps(self, head: RecordedHead, steps: AttentionSteps) -> None:
        """Keep the *steps* of *head*, if it is still the chosen one."""
        if head == self.head:
            self.steps = steps
            self.channels_changed.emit()

    def keep_shares(self, recording: Recording, shares: Shares) -> None:
        """Keep the effects of the heads of a run."""
        self._shares[recording] = shares
        self.head_changed.emit()

    def _set_head(self, head: RecordedHead) -> None:
        self.head, self.steps = head, None
        # Blocks differ in their channels: a channel that this one lacks becomes its last.
        self.key = None if self.key is None else min(self.key, head.channels - 1)
        self.query = None if self.query is None else min(self.query, head.channels - 1)
        self.head_changed.emit()

    def forget(self, kept: Sequence[Recording]) -> None:
        """Release all recordings except the *kept* ones."""
        self.forget_photo()
        if self.compared is not None and self.compared.recording not in kept:
            self.compared = None
        if self.head is not None and self.head.recording not in kept:
            self.head = self.steps = None
            self.head_changed.emit()

    def forget_photo(self) -> None:
        """Let go of the photo that was looked at last."""
        self._ready = None

    def ready(
        self, request: Request, reports: Reports, record: AttentionRecord | None = None
    ) -> "Ready":
        """Make the photo of *request* ready, unless it is; jobs call it one after the other.

        A photo that has other values by now, or is to be run otherwise, is made ready again. With
        the *record* of a run, its photo must be the one that was recorded: else `AttentionError`.
        """
        key = fingerprint(request)
        if self._ready is None or self._ready[0] != key:
            # What was kept makes room before the next photo is read.
            self.forget_photo()
            self._ready = key, Ready(request, reports)
        ready = self._ready[1]
        if record is not None and ready.photo.sha256 != record.provenance.source_sha256:
            raise AttentionError(
                "Expected the photo that was recorded, "
                f"got '{ready.photo.name}' changed since. Record it again."
            )
        reports.say(f"Running {Path(request.model).name} on {ready.photo.name} ...")
        return ready


class Ready:
    """A photo that was read, and the explorers of its network, each made when it is asked for.

    A network that lacks what an explorer looks at is refused then, with an `AttentionError`.
    """

    def __init__(self, request: Request, reports: Reports) -> None:
        self.photo = request.read()
        reconstructor = request.reconstructor(reports)
        # torch, which they import, is there once the model is loaded.
        from napari_mst.attention.explorer import AttentionExplorer
        from napari_mst.attention.pixels import PixelExplorer
        from napari_mst.attention.recorder import pixel_blocks
        from napari_mst.attention.what_if import HeadEffects

        self.has_pixels = bool(pixel_blocks(reconstructor.network))
        self.channels = cache(partial(AttentionExplorer, reconstructor, self.photo))
        self.pixels = cache(partial(PixelExplorer, reconstructor, self.photo))
        self.effects = cache(partial(HeadEffects, reconstructor, self.photo))


def fingerprint(request: Request) -> tuple[Any, ...]:
    """All that decides what is made ready, with a fingerprint of the pixels.

    CRC-32 takes a tenth of the time of SHA-256.
    """
    values = np.ascontiguousarray(request.source.pixels[request.source.index])
    pixels = values.shape, zlib.crc32(values.view(np.uint8).data)
    return (request.model, request.options, request.corrections, *pixels)


# ------------------------------------------------------------------------ orders

MakeAttention = Callable[[Ready, Reports], Any]
"""The work of a job on a photo that is ready."""
Show = Callable[[ViewerModel, Any, Any], None]
"""Shows what a job has made of a photo, which comes last."""


def recording_order(
    viewer: ViewerModel, model: AttentionModel, form: ReconstructionForm
) -> Request:
    """Order a recording of the photo that is chosen in *form*, by its model, without its cube.

    Raises
    ------
    CameraError, PhotoError
        See `request_of`.
    """

    def record(request: Request, reports: Reports) -> AttentionRecord:
        ready = model.ready(request, reports)
        # The maps that pixels need are kept on the way; a block of both kinds is recorded as well.
        explorer = ready.pixels() if ready.has_pixels else ready.channels()
        recorded = explorer.reporting_to(reports).record()
        reports.record(recorded)
        return recorded

    photo = chosen_photo(form, viewer)
    return replace(request_of(form, photo, references_in(form, viewer)), job=SideJob(record))


def map_order(viewer: ViewerModel, model: AttentionModel, overlay: str) -> Request:
    """Order a map, by its name in `DESCRIPTIONS`, of the chosen head over the photo of its run."""
    selection = model.selection

    def make(ready: Ready, reports: Reports) -> AttentionMap:
        if overlay == EFFECT.name:
            return ready.effects().map(selection.block, selection.head, reports)
        return ready.channels().reporting_to(reports).map(overlay, selection)

    return order_of_run(viewer, model, make, show_map)


def features_order(viewer: ViewerModel, model: AttentionModel, layer: str) -> Request:
    """Order all maps of a *layer* of the network over the photo of the chosen run."""
    return order_of_run(
        viewer,
        model,
        lambda ready, reports: ready.effects().reporting_to(reports).features(layer),
        show_map,
    )


def shares_order(viewer: ViewerModel, model: AttentionModel) -> Request:
    """Order the effects of all heads on the photo of the chosen run."""
    recording = model.chosen.recording
    return order_of_run(
        viewer,
        model,
        lambda ready, reports: ready.effects().shares(reports),
        lambda _, shares, __: model.keep_shares(recording, shares.blocks),
    )


def steps_order(viewer: ViewerModel, model: AttentionModel) -> Request:
    """Order the steps of the chosen head on the photo of its run."""
    head = model.chosen
    return order_of_run(
        viewer,
        model,
        lambda ready, reports: ready.channels().reporting_to(reports).steps(head.block, head.head),
        lambda _, steps, __: model.keep_steps(head, steps),
    )


def source_of_run(viewer: ViewerModel, recording: Recording) -> LayerPhoto:
    """Freeze the photo of *recording*. Raises `AttentionError` if it has left the viewer."""
    photo = recording.reference()
    # A layer that was removed lives on until it is collected.
    if photo is None or photo.layer() not in viewer.layers:
        raise AttentionError(PHOTO_IS_GONE)
    return photo


def order_of_run(
    viewer: ViewerModel, model: AttentionModel, make: MakeAttention, show: Show
) -> Request:
    """Order a job on the photo of the chosen run, run as it was run then."""
    recording = model.chosen.recording

    def work(request: Request, reports: Reports) -> Any:
        return make(model.ready(request, reports, recording.record), reports)

    source = source_of_run(viewer, recording)
    job = SideJob(work, lambda viewer, made, _: show(viewer, made, source))
    return Request(source, recording.model, recording.options, job, recording.corrections)
