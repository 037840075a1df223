"""The state of the attention dock, without Qt, and the requests for its jobs.

The dock forwards clicks to an `AttentionModel` and draws its state; a script can use the model
alone. The last photo stays prepared, so it is read and denoised only once. The functions that make
requests only read the state. They raise `AttentionError`, with a sentence for the user, where
nothing can be requested. Jobs run on another thread.
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
"""Effect of each head, by block, as a share of the effect of all heads."""

PHOTO_IS_GONE = "The photo of this run is no longer in the viewer. Open it and record it again."
NO_RUN = "Reconstruct a photo, or press Record: the matrices of all blocks appear here."


def least_even(record: AttentionRecord) -> tuple[str, int]:
    """Return the block and head with the least uniform weights; the first if none has a matrix."""
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
        """The matrices of all heads of the block; None for attention between pixels."""
        return self.recording.record.blocks.get(self.block)

    @property
    def weights(self) -> Singles:
        """The matrix of this head. Raises `AttentionError` if it has none."""
        return self.recording.record[self.block].attention[self.head]

    @property
    def between_pixels(self) -> PixelBlock | None:
        """The block, if its attention is between pixels."""
        return self.recording.record.pixel_blocks.get(self.block)

    @property
    def channels(self) -> int:
        """Number of channels of a head, which is the side length of its matrix."""
        channels, heads = self.recording.record.shapes[self.block]
        return channels // heads

    @property
    def title(self) -> str:
        """Display name, such as "stage 1, encoder 62, head 1 of 2"."""
        return head_title(self.recording.record, self.block, self.head)


class AttentionModel:
    """The chosen head and channels, the head to compare with, and the computed steps.

    `head_changed` and `channels_changed` announce another choice. Use the methods to change it.
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
        # The steps of the chosen head, once they are computed.
        self.steps: AttentionSteps | None = None
        self._shares = WeakKeyDictionary[Recording, Shares]()

    @property
    def shares(self) -> Shares:
        """The effects of the heads of the chosen run; empty until they are computed."""
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
        """Choose the newest run of *workspace*, now and later, and drop the runs that it drops."""
        for recording in workspace.recordings[-1:]:
            self.choose_run(recording)
        workspace.recorded.connect(self.choose_run)
        workspace.forgotten.connect(lambda: self.forget(workspace.recordings))

    def choose_run(self, recording: Recording) -> None:
        """Choose *recording*, at the same head as before, or else at the least even head."""
        shapes = recording.record.shapes
        head = RecordedHead(recording, *least_even(recording.record))
        if self.head is not None:
            _, heads = shapes.get(self.head.block, (0, 0))
            if self.head.head < heads:
                head = self.head._replace(recording=recording)
        self._set_head(head)

    def choose(self, block: str, head: int) -> None:
        """Choose another head of the chosen run."""
        self._set_head(RecordedHead(self.chosen.recording, block, head))

    def choose_channels(self, key: int | None, query: int | None) -> None:
        """Choose key channel i and query channel j; None stands for all channels."""
        self.key = key
        self.query = query
        self.channels_changed.emit()

    def click(self, key: int, query: int) -> None:
        """Choose the channels of a clicked cell; a second click on it chooses all channels."""
        is_chosen = (self.key, self.query) == (key, query)
        self.choose_channels(*((None, None) if is_chosen else (key, query)))

    def compare(self, is_on: bool) -> None:
        """Keep the chosen head to compare it with the heads chosen next, or drop it."""
        self.compared = self.head if is_on else None
        self.head_changed.emit()

    def keep_steps(self, head: RecordedHead, steps: AttentionSteps) -> None:
        """Keep the *steps* of *head*, if it is still chosen."""
        if head == self.head:
            self.steps = steps
            self.channels_changed.emit()

    def keep_shares(self, recording: Recording, shares: Shares) -> None:
        """Keep the effects of the heads of a run."""
        self._shares[recording] = shares
        self.head_changed.emit()

    def _set_head(self, head: RecordedHead) -> None:
        self.head, self.steps = head, None
        # Blocks have different numbers of channels: a number beyond the last becomes the last.
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
        """Release the prepared photo."""
        self._ready = None

    def ready(
        self, request: Request, reports: Reports, record: AttentionRecord | None = None
    ) -> "Ready":
        """Return the prepared photo of *request*. Jobs call this one after the other.

        A photo is prepared again when its values or its settings have changed. `AttentionError` is
        raised if it is no longer the photo of *record*.
        """
        key = fingerprint(request)
        if self._ready is None or self._ready[0] != key:
            # Free the memory of the previous photo before the next one is read.
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
    """A photo in memory, and the explorers of its network, each made on first use.

    An explorer raises `AttentionError` if the network lacks the attention that it explores.
    """

    def __init__(self, request: Request, reports: Reports) -> None:
        self.photo = request.read()
        reconstructor = request.reconstructor(reports)
        # These import torch, which loading the model has imported already.
        from napari_mst.attention.explorer import AttentionExplorer
        from napari_mst.attention.pixels import PixelExplorer
        from napari_mst.attention.recorder import pixel_blocks
        from napari_mst.attention.what_if import HeadEffects

        self.has_pixels = bool(pixel_blocks(reconstructor.network))
        self.channels = cache(partial(AttentionExplorer, reconstructor, self.photo))
        self.pixels = cache(partial(PixelExplorer, reconstructor, self.photo))
        self.effects = cache(partial(HeadEffects, reconstructor, self.photo))


def fingerprint(request: Request) -> tuple[Any, ...]:
    """Return a key of everything that the prepared photo depends on, with a checksum of its pixels.

    CRC-32 takes a tenth of the time of SHA-256.
    """
    values = np.ascontiguousarray(request.source.pixels[request.source.index])
    pixels = values.shape, zlib.crc32(values.view(np.uint8).data)
    return (request.model, request.options, request.corrections, *pixels)


# ------------------------------------------------------------------------ requests

MakeAttention = Callable[[Ready, Reports], Any]
"""The work of a job on a prepared photo."""
Show = Callable[[ViewerModel, Any, Any], None]
"""Shows the result of a job in a viewer; the last argument is the photo."""


def recording_order(
    viewer: ViewerModel, model: AttentionModel, form: ReconstructionForm
) -> Request:
    """Request a recording of the photo that is chosen in *form*, with its model, without a cube.

    Raises
    ------
    CameraError, PhotoError
        See `request_of`.
    """

    def record(request: Request, reports: Reports) -> AttentionRecord:
        ready = model.ready(request, reports)
        # The explorer of pixels also keeps the maps that they need, and records both kinds.
        explorer = ready.pixels() if ready.has_pixels else ready.channels()
        recorded = explorer.reporting_to(reports).record()
        reports.record(recorded)
        return recorded

    photo = chosen_photo(form, viewer)
    return replace(request_of(form, photo, references_in(form, viewer)), job=SideJob(record))


def map_order(viewer: ViewerModel, model: AttentionModel, overlay: str) -> Request:
    """Request the map *overlay*, a name in `DESCRIPTIONS`, of the chosen head on its photo."""
    selection = model.selection

    def make(ready: Ready, reports: Reports) -> AttentionMap:
        if overlay == EFFECT.name:
            return ready.effects().map(selection.block, selection.head, reports)
        return ready.channels().reporting_to(reports).map(overlay, selection)

    return order_of_run(viewer, model, make, show_map)


def features_order(viewer: ViewerModel, model: AttentionModel, layer: str) -> Request:
    """Request all maps of a *layer* of the network for the photo of the chosen run."""
    return order_of_run(
        viewer,
        model,
        lambda ready, reports: ready.effects().reporting_to(reports).features(layer),
        show_map,
    )


def shares_order(viewer: ViewerModel, model: AttentionModel) -> Request:
    """Request the effects of all heads on the photo of the chosen run."""
    recording = model.chosen.recording
    return order_of_run(
        viewer,
        model,
        lambda ready, reports: ready.effects().shares(reports),
        lambda _, shares, __: model.keep_shares(recording, shares.blocks),
    )


def steps_order(viewer: ViewerModel, model: AttentionModel) -> Request:
    """Request the steps of the chosen head on the photo of its run."""
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
    # A removed layer lives on until it is garbage-collected.
    if photo is None or photo.layer() not in viewer.layers:
        raise AttentionError(PHOTO_IS_GONE)
    return photo


def order_of_run(
    viewer: ViewerModel, model: AttentionModel, make: MakeAttention, show: Show
) -> Request:
    """Request a job on the photo of the chosen run, with the settings of that run."""
    recording = model.chosen.recording

    def work(request: Request, reports: Reports) -> Any:
        return make(model.ready(request, reports, recording.record), reports)

    source = source_of_run(viewer, recording)
    job = SideJob(work, lambda viewer, made, _: show(viewer, made, source))
    return Request(source, recording.model, recording.options, job, recording.corrections)
