"""The jobs of the attention dock: each takes a request and reports (see `worker.py`), on the job's thread."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from napari_mst.attention.record import AttentionMap, AttentionRecord, AttentionSteps, Selection
from napari_mst.errors import AttentionError
from napari_mst.plugin.jobs.worker import Reports
from napari_mst.plugin.jobs.workspace import Request

if TYPE_CHECKING:
    from napari_mst.attention.explorer import AttentionExplorer


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
    record = _explorer(request, reports).record()
    reports.record(record)
    return record


def make_map(
    record: AttentionRecord, overlay: str, selection: Selection, request: Request, reports: Reports
) -> AttentionMap:
    """A map of `OVERLAYS` over the photo of *record*."""
    return _explorer(request, reports, record).map(overlay, selection)


def make_steps(
    record: AttentionRecord, block: str, head: int, request: Request, reports: Reports
) -> AttentionSteps:
    """The steps of a head on the photo of *record*."""
    return _explorer(request, reports, record).steps(block, head)


def make_sensitivity(
    record: AttentionRecord, band: int, row: int, column: int, request: Request, reports: Reports
) -> AttentionMap:
    """The sensitivity of one band of one pixel of the photo of *record*."""
    return _explorer(request, reports, record).sensitivity(band, row, column, record)


def _explorer(
    request: Request, reports: Reports, record: AttentionRecord | None = None
) -> "AttentionExplorer":
    """Of the photo, or the region of it, of the request; it has to be the photo of *record*."""
    from napari_mst.attention.explorer import AttentionExplorer
    from napari_mst.models import load_model
    from napari_mst.reconstruction.reconstructor import Reconstructor

    photo = request.read()
    if record is not None and photo.sha256 != record.provenance.source_sha256:
        raise AttentionError(
            f"Expected the photo of the record, got '{photo.name}' changed since. Record it again."
        )
    options = request.options
    reconstructor = Reconstructor(load_model(request.model), **options.for_reconstructor)
    device = reconstructor.device
    reconstructor.prepare(reports.say, reports.watch.is_cancelled)
    explorer = AttentionExplorer(
        reconstructor, photo, region=options.region, **reports.watch.arguments
    )
    reports.say(
        f"Running on {device.name} ({device.reason}): {reconstructor.plan(*explorer.shape)}."
    )
    return explorer
