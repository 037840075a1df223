"""The jobs of the attention dock: each takes a request and reports (see `worker.py`), on the job's thread."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from napari_mst.attention_record import AttentionMap, AttentionRecord, AttentionSteps, Selection
from napari_mst.errors import AttentionError
from napari_mst.photo import Photo
from napari_mst.plugin.worker import Reports
from napari_mst.plugin.workspace import Request

if TYPE_CHECKING:
    from napari_mst.reconstruction import Reconstructor


@dataclass(frozen=True, eq=False)
class MapJob:
    """A job that makes a map, and whether that goes into a layer of its own."""

    make: Callable[[Request, Reports], AttentionMap]
    is_new: bool

    def __call__(self, request: Request, reports: Reports) -> AttentionMap:
        """The map."""
        return self.make(request, reports)


def record_now(request: Request, reports: Reports) -> AttentionRecord:
    """The attention of a run whose cube is not kept."""
    photo, reconstructor = _prepared(request, reports)
    record = reconstructor.attention(photo, reports.progress, reports.is_cancelled)
    reports.record(record)
    return record


def make_map(
    record: AttentionRecord, overlay: str, selection: Selection, request: Request, reports: Reports
) -> AttentionMap:
    """A map of `OVERLAYS` over the photo of *record*."""
    photo, reconstructor = _prepared(request, reports, record)
    return reconstructor.attention_map(photo, overlay, selection, reports.progress, reports.is_cancelled)


def make_steps(record: AttentionRecord, block: str, head: int, request: Request, reports: Reports) -> AttentionSteps:
    """The steps of a head on the photo of *record*."""
    photo, reconstructor = _prepared(request, reports, record)
    return reconstructor.attention_steps(photo, block, head, reports.progress, reports.is_cancelled)


def make_sensitivity(
    record: AttentionRecord, band: int, row: int, column: int, request: Request, reports: Reports
) -> AttentionMap:
    """The sensitivity of one band of one pixel of the photo of *record*."""
    photo, reconstructor = _prepared(request, reports, record)
    stop = reports.is_cancelled
    return reconstructor.sensitivity(photo, band, row, column, record, reports.progress, stop)


def _prepared(
    request: Request, reports: Reports, record: AttentionRecord | None = None
) -> "tuple[Photo, Reconstructor]":
    """The photo, which has to be that of *record*, and the pipeline."""
    from napari_mst.models import load_model
    from napari_mst.reconstruction import Reconstructor

    photo = request.source.read()
    if record is not None and photo.sha256 != record.provenance.source_sha256:
        raise AttentionError(f"Expected the photo of the record, got '{photo.name}' changed since. Record it again.")
    reconstructor = Reconstructor(load_model(request.model), device=request.device)
    device = reconstructor.device
    reports.say(f"Running on {device.name} ({device.reason}): {reconstructor.plan(*photo.shape)}.")
    return photo, reconstructor
