"""The jobs of the attention dock: recording, maps and steps, each made on the job's thread."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from napari.components import ViewerModel

from napari_mst.attention.record import AttentionMap, AttentionRecord, AttentionSteps, Selection
from napari_mst.errors import AttentionError
from napari_mst.plugin.attention.layers import show_map
from napari_mst.plugin.jobs.request import Reports, Request, SideJob
from napari_mst.plugin.viewer.photos import LayerPhoto

if TYPE_CHECKING:
    from napari_mst.attention.explorer import AttentionExplorer


class CubePixel(NamedTuple):
    """One band of one pixel of a cube; all count from 0."""

    band: int
    row: int
    column: int


def recording_job() -> SideJob:
    """Record the attention of a run whose cube is not kept."""
    return SideJob(_record)


def map_job(
    record: AttentionRecord, overlay: str, selection: Selection, *, is_new: bool
) -> SideJob:
    """Make a map of `OVERLAYS` over the photo of *record*; *is_new* puts it into its own layer."""
    return _shown_as_map(partial(_map, record, overlay, selection), is_new=is_new)


def sensitivity_job(record: AttentionRecord, pixel: CubePixel, *, is_new: bool) -> SideJob:
    """Map how much *pixel* of the cube of *record* depends on each pixel of the photo."""
    return _shown_as_map(partial(_sensitivity, record, pixel), is_new=is_new)


def steps_job(record: AttentionRecord, block: str, head: int) -> SideJob:
    """Take a head apart, step by step, on the photo of *record*; the dock draws the steps."""
    return SideJob(partial(_steps, record, block, head))


def _shown_as_map(make: Callable[[Request, Reports], AttentionMap], *, is_new: bool) -> SideJob:
    return SideJob(make, partial(_show_map, is_new=is_new))


def _show_map(viewer: ViewerModel, made: AttentionMap, request: Request, *, is_new: bool) -> None:
    """Show a finished map where its photo was when the job began."""
    photo = request.source
    if isinstance(photo, LayerPhoto):
        name = photo.name + photo.region_label
        show_map(viewer, made, name, photo.placement, is_new=is_new)


def _record(request: Request, reports: Reports) -> AttentionRecord:
    record = _explorer(request, reports).record()
    reports.record(record)
    return record


def _map(
    record: AttentionRecord, overlay: str, selection: Selection, request: Request, reports: Reports
) -> AttentionMap:
    return _explorer(request, reports, record).map(overlay, selection)


def _steps(
    record: AttentionRecord, block: str, head: int, request: Request, reports: Reports
) -> AttentionSteps:
    return _explorer(request, reports, record).steps(block, head)


def _sensitivity(
    record: AttentionRecord, pixel: CubePixel, request: Request, reports: Reports
) -> AttentionMap:
    explorer = _explorer(request, reports, record)
    return explorer.sensitivity(pixel.band, pixel.row, pixel.column, record)


def _explorer(
    request: Request, reports: Reports, record: AttentionRecord | None = None
) -> "AttentionExplorer":
    """Open the photo, or the region of it, that *request* asks for.

    With a *record*, it has to be the photo that was recorded.
    """
    # These import torch, which takes seconds: here they do so on the job's thread.
    from napari_mst.attention.explorer import AttentionExplorer
    from napari_mst.models import load_model
    from napari_mst.reconstruction.reconstructor import Reconstructor

    photo = request.read()
    if record is not None and photo.sha256 != record.provenance.source_sha256:
        raise AttentionError(
            "Expected the photo that was recorded, "
            f"got '{photo.name}' changed since. Record it again."
        )
    options = request.options
    reconstructor = Reconstructor(load_model(request.model), **options.for_reconstructor)
    reconstructor.prepare(reports.say, reports.watch.is_cancelled)
    explorer = AttentionExplorer(
        reconstructor, photo, region=options.region, **reports.watch.arguments
    )
    device = reconstructor.device
    plan = reconstructor.plan(*explorer.shape)
    reports.say(f"Running on {device.name} ({device.reason}): {plan}.")
    return explorer
