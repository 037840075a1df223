"""The jobs of the attention dock: recording, maps and steps, each made on the job's thread."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from napari.components import ViewerModel

from napari_mst.attention.maps import AttentionMap, AttentionSteps, Selection
from napari_mst.attention.record import AttentionRecord
from napari_mst.denoising.photos import denoised_photo, denoising_of
from napari_mst.plugin.attention.alike import Alike, DenoisedPhoto, show_denoised
from napari_mst.plugin.attention.layers import show_map
from napari_mst.plugin.attention.pixel_layers import show_weights
from napari_mst.plugin.attention.shelf import Look, Ready, Shelf
from napari_mst.plugin.jobs.job import Reports
from napari_mst.plugin.jobs.request import Request, SideJob
from napari_mst.plugin.viewer.photos import LayerPhoto

if TYPE_CHECKING:
    from napari_mst.attention.pixel_weights import PixelWeights
    from napari_mst.attention.window_steps import WindowSteps


class CubePixel(NamedTuple):
    """One band of one pixel of a cube; all count from 0."""

    band: int
    row: int
    column: int


def recording_job(shelf: Shelf) -> SideJob:
    """Record the attention of a run whose cube is not kept."""
    return SideJob(partial(_record, Look(shelf)))


def map_job(look: Look, overlay: str, selection: Selection, *, is_new: bool) -> SideJob:
    """Make a map of `OVERLAYS` over the photo of *look*; *is_new* puts it into its own layer."""
    return _shown_as_map(partial(_map, look, overlay, selection), is_new=is_new)


def sensitivity_job(look: Look, pixel: CubePixel, *, is_new: bool) -> SideJob:
    """Map how much *pixel* of the cube of *look* depends on each pixel of the photo."""
    return _shown_as_map(partial(_sensitivity, look, pixel), is_new=is_new)


def steps_job(look: Look, block: str, head: int) -> SideJob:
    """Take a head apart, step by step, on the photo of *look*; the dock draws the steps."""
    return SideJob(partial(_steps, look, block, head))


def pixel_job(look: Look, head: tuple[str, int], pixel: tuple[int, int]) -> SideJob:
    """Tell what a *pixel* attends to in the block of *head*, the head that is shown."""
    block, number = head
    return SideJob(partial(_pixel, look, block, pixel), partial(_show_pixel, number))


def window_job(look: Look, head: tuple[str, int], pixel: tuple[int, int]) -> SideJob:
    """Take a *head*, a block and its number, apart on the window of a *pixel*."""
    return SideJob(partial(_window_steps, look, head, pixel), _show_window_steps)


def alike_job(h: float) -> SideJob:
    """Estimate the noise of a photo, by which non-local means compare its pixels."""
    return SideJob(partial(_alike, h))


def denoising_job(h: float) -> SideJob:
    """Denoise a photo by non-local means, as a layer of its own."""
    return SideJob(partial(_denoised, h), _show_denoised)


def _shown_as_map(make: Callable[[Request, Reports], AttentionMap], *, is_new: bool) -> SideJob:
    return SideJob(make, partial(_show_map, is_new=is_new))


def _show_map(viewer: ViewerModel, made: AttentionMap, request: Request, *, is_new: bool) -> None:
    """Show a finished map where its photo was when the job began."""
    photo = request.source
    if isinstance(photo, LayerPhoto):
        name = photo.name + photo.region_label
        show_map(viewer, made, name, photo.placement, is_new=is_new)


def _record(look: Look, request: Request, reports: Reports) -> AttentionRecord:
    ready = look.ready(request, reports)
    _say_how(ready, request, reports)
    # The maps that pixels need are kept on the way, and a block of both kinds is heard as well.
    if ready.pixels is not None:
        record = look.pixels(request, reports).record(reports)
    else:
        record = look.channels(request, reports).record()
    reports.record(record)
    return record


def _map(
    look: Look, overlay: str, selection: Selection, request: Request, reports: Reports
) -> AttentionMap:
    return look.channels(request, reports).map(overlay, selection)


def _steps(look: Look, block: str, head: int, request: Request, reports: Reports) -> AttentionSteps:
    return look.channels(request, reports).steps(block, head)


def _sensitivity(look: Look, pixel: CubePixel, request: Request, reports: Reports) -> AttentionMap:
    explorer = look.channels(request, reports)
    return explorer.sensitivity(pixel.band, pixel.row, pixel.column, look.record)


def _pixel(
    look: Look, block: str, pixel: tuple[int, int], request: Request, reports: Reports
) -> "PixelWeights":
    row, column = pixel
    return look.pixels(request, reports).weights(block, row, column, reports)


def _show_pixel(head: int, viewer: ViewerModel, found: "PixelWeights", request: Request) -> None:
    if isinstance(request.source, LayerPhoto):
        show_weights(viewer, found, request.source, head)


def _window_steps(
    look: Look, head: tuple[str, int], pixel: tuple[int, int], request: Request, reports: Reports
) -> "WindowSteps":
    return look.pixels(request, reports).steps(*head, *pixel, reports)


def _show_window_steps(viewer: ViewerModel, found: "WindowSteps", request: Request) -> None:
    _show_pixel(found.head, viewer, found.pixel, request)


def _alike(h: float, request: Request, reports: Reports) -> Alike:
    # A single head is computed while the mouse waits, and torch takes seconds to import.
    import napari_mst.attention.patch_steps  # noqa: F401

    photo = request.read()
    return Alike.of(photo, denoising_of(photo, h, reports))


def _denoised(h: float, request: Request, reports: Reports) -> DenoisedPhoto:
    photo = request.read()
    how = denoising_of(photo, h, reports)
    reports.say(f"Denoising by {how} ...")
    return DenoisedPhoto(denoised_photo(photo, how, reports), Alike.of(photo, how))


def _show_denoised(viewer: ViewerModel, found: DenoisedPhoto, request: Request) -> None:
    if isinstance(request.source, LayerPhoto):
        show_denoised(viewer, found, request.source)


def _say_how(ready: Ready, request: Request, reports: Reports) -> None:
    """Tell the user where the network runs."""
    reports.say(f"Running {Path(request.model).name} on {ready.photo.name} ...")
