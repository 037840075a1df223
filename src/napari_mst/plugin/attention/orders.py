"""Orders for the jobs of the attention dock, from what a person wants to see; and these jobs.

A function that orders reads the state and changes nothing. It returns the order, or a sentence that
says why there is none. The jobs run on their own thread.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image

from napari_mst.attention.maps import AttentionMap, Selection
from napari_mst.attention.overlays import SENSITIVITY
from napari_mst.attention.record import AttentionRecord
from napari_mst.cube import Provenance
from napari_mst.denoising.photos import denoised_photo, denoising_of
from napari_mst.plugin.attention.alike import Alike, DenoisedPhoto, show_denoised
from napari_mst.plugin.attention.exploration import Exploration
from napari_mst.plugin.attention.layers import show_map, show_weights
from napari_mst.plugin.attention.shelf import Look, Shelf
from napari_mst.plugin.jobs.job import Reports
from napari_mst.plugin.jobs.request import Recording, Request, SideJob
from napari_mst.plugin.viewer import picks
from napari_mst.plugin.viewer.layers import active_cube_layer, band_of, cube_of
from napari_mst.plugin.viewer.photos import LayerPhoto, LayerReference
from napari_mst.reconstruction.options import RunOptions

if TYPE_CHECKING:
    from napari_mst.attention.pixel_weights import PixelWeights


class CubePixel(NamedTuple):
    """One band of one pixel of a cube; all count from 0."""

    band: int
    row: int
    column: int


def recording_job(shelf: Shelf) -> SideJob:
    """Record the attention of a run whose cube is not kept."""
    look = Look(shelf)

    def record(request: Request, reports: Reports) -> AttentionRecord:
        ready = look.ready(request, reports)
        reports.say(f"Running {Path(request.model).name} on {ready.photo.name} ...")
        # The maps that pixels need are kept on the way; a block of both kinds is heard as well.
        if ready.pixels is not None:
            recorded = look.pixels(request, reports).record(reports)
        else:
            recorded = look.channels(request, reports).record()
        reports.record(recorded)
        return recorded

    return SideJob(record)


def map_job(look: Look, overlay: str, selection: Selection, *, is_new: bool) -> SideJob:
    """Make a map of `OVERLAYS` over the photo of *look*; *is_new* puts it into its own layer."""
    return SideJob(
        lambda request, reports: look.channels(request, reports).map(overlay, selection),
        partial(_show_map, is_new=is_new),
    )


def sensitivity_job(look: Look, pixel: CubePixel, *, is_new: bool) -> SideJob:
    """Map how much *pixel* of the cube of *look* depends on each pixel of the photo."""
    return SideJob(
        lambda request, reports: look.channels(request, reports).sensitivity(*pixel, look.record),
        partial(_show_map, is_new=is_new),
    )


def steps_job(look: Look, block: str, head: int) -> SideJob:
    """Take a head apart, step by step, on the photo of *look*; the dock draws the steps."""
    return SideJob(lambda request, reports: look.channels(request, reports).steps(block, head))


def pixel_job(look: Look, head: tuple[str, int], pixel: tuple[int, int]) -> SideJob:
    """Find what a *pixel* attends to in the block of *head*, the head that is shown."""
    block, number = head
    return SideJob(
        lambda request, reports: look.pixels(request, reports).weights(block, *pixel, reports),
        partial(_show_pixel, number),
    )


def window_job(look: Look, head: tuple[str, int], pixel: tuple[int, int]) -> SideJob:
    """Take a *head*, a block and its number, apart on the window of a *pixel*."""
    return SideJob(
        lambda request, reports: look.pixels(request, reports).steps(*head, *pixel, reports),
        lambda viewer, found, request: _show_pixel(found.head, viewer, found.pixel, request),
    )


def alike_job(h: float) -> SideJob:
    """Estimate the noise of a photo, by which non-local means compare its pixels."""

    def alike(request: Request, reports: Reports) -> Alike:
        # A single head is computed while the mouse waits, and torch takes seconds to import.
        import napari_mst.attention.patch_steps  # noqa: F401

        photo = request.read()
        return Alike.of(photo, denoising_of(photo, h, reports))

    return SideJob(alike)


def denoising_job(h: float) -> SideJob:
    """Denoise a photo by non-local means, as a layer of its own."""

    def denoise(request: Request, reports: Reports) -> DenoisedPhoto:
        photo = request.read()
        how = denoising_of(photo, h, reports)
        reports.say(f"Denoising by {how} ...")
        return DenoisedPhoto(denoised_photo(photo, how, reports), Alike.of(photo, how))

    return SideJob(denoise, _show_denoised)


def _show_map(viewer: ViewerModel, made: AttentionMap, request: Request, *, is_new: bool) -> None:
    """Show a finished map where its photo was when the job began."""
    photo = request.source
    if isinstance(photo, LayerPhoto):
        name = photo.name + photo.region_label
        show_map(viewer, made, name, photo.placement, is_new=is_new)


def _show_pixel(head: int, viewer: ViewerModel, found: "PixelWeights", request: Request) -> None:
    if isinstance(request.source, LayerPhoto):
        show_weights(viewer, found, request.source, head)


def _show_denoised(viewer: ViewerModel, found: DenoisedPhoto, request: Request) -> None:
    if isinstance(request.source, LayerPhoto):
        show_denoised(viewer, found, request.source)


PixelJob = Callable[[Look, tuple[str, int], tuple[int, int]], SideJob]
"""A look at a photo, a head and a pixel of the photo -> the job that looks at the pixel."""

NO_PHOTO = "Open a photo first: File > Open, or File > Open Sample > napari-mst."
NO_RUN = "Reconstruct a photo, or press Record: the matrices of all blocks appear here."
PHOTO_IS_GONE = "The photo of this run is no longer in the viewer. Open it and record it again."
NOT_BETWEEN_PIXELS = (
    "Channels attend to channels in this block. Choose a network with windows, or non-local means."
)
OUTSIDE = "This is not on the photo of the run. Click a pixel of it."
NO_PICK = "Pin a spectrum first: in the dock Spectra, click a pixel of the cube."


def recording_order(
    viewer: ViewerModel, shelf: Shelf, photo: Image | None, model: str
) -> Request | str:
    """Order a recording of the photo that the layer *photo* shows."""
    if photo is None:
        return NO_PHOTO
    source = LayerPhoto.of(photo, viewer.dims.point)
    return Request(source, model, job=recording_job(shelf))


def map_order(viewer: ViewerModel, exploration: Exploration, overlay: str) -> Request | str:
    """Order a map, by its name in `DESCRIPTIONS`, of the chosen head over the photo of its run."""
    recording = exploration.recording
    selection = exploration.selection
    if recording is None or selection is None:
        return NO_RUN
    is_new = exploration.is_new_layer
    look = Look(exploration.shelf, recording.record)
    if overlay != SENSITIVITY.name:
        return _order(viewer, recording, map_job(look, overlay, selection, is_new=is_new))
    pixel = picked_pixel(viewer, recording.record.provenance)
    if isinstance(pixel, str):
        return pixel
    return _order(viewer, recording, sensitivity_job(look, pixel, is_new=is_new))


def steps_order(viewer: ViewerModel, exploration: Exploration) -> Request | str:
    """Order the steps of the chosen head on the photo of its run."""
    head = exploration.head
    if head is None:
        return NO_RUN
    look = Look(exploration.shelf, head.recording.record)
    return _order(viewer, head.recording, steps_job(look, head.block, head.head))


def pixel_order(
    viewer: ViewerModel, exploration: Exploration, position: Sequence[float], job: PixelJob
) -> Request | str:
    """Order the *job* of the pixel at world *position* in the chosen head."""
    head = exploration.head
    if head is None:
        return NO_RUN
    if head.between_pixels is None:
        return NOT_BETWEEN_PIXELS
    look = Look(exploration.shelf, head.recording.record)
    order = _order(viewer, head.recording, job(look, (head.block, head.head), (0, 0)))
    if isinstance(order, str) or not isinstance(order.source, LayerPhoto):
        return order
    photo = order.source
    place = np.floor(photo.placement.pixels_at([position[-2:]])[0] + 0.5)
    top, left = (0, 0) if photo.region is None else (photo.region[0], photo.region[2])
    row, column = int(place[0]) - top, int(place[1]) - left
    rows, columns = photo.shape
    if not (0 <= row < rows and 0 <= column < columns):
        return OUTSIDE
    return replace(order, job=job(look, (head.block, head.head), (row, column)))


def picked_pixel(viewer: ViewerModel, run: Provenance) -> CubePixel | str:
    """Find the last pick on the cube of *run*, in the band that is shown."""
    layer = active_cube_layer(viewer)
    points = picks.picks_layer(viewer)
    cube = cube_of(layer)
    if layer is None or cube is None or points is None or not points.visible:
        return NO_PICK
    pixels, is_inside = picks.pixels_of(points, layer)
    if not is_inside.any():
        return NO_PICK
    if not _is_cube_of(cube.provenance, run):
        return f"Select the cube of this run first: '{layer.name}' shows another photo or region."
    row, column = pixels[is_inside][-1].tolist()
    return CubePixel(band_of(layer, viewer.dims.point), row, column)


def _is_cube_of(cube: Provenance, run: Provenance) -> bool:
    """Tell whether the cube and the run are of the same region of the same photo."""
    return (cube.source_sha256, cube.region) == (run.source_sha256, run.region)


def _order(viewer: ViewerModel, recording: Recording, job: SideJob) -> Request | str:
    """Order *job* on the photo of *recording*, run as it was run then."""
    reference = recording.reference
    photo = reference.photo() if isinstance(reference, LayerReference) else None
    # A layer that was removed lives on until it is collected.
    if photo is None or photo.layer() not in viewer.layers:
        return PHOTO_IS_GONE
    options = RunOptions(
        device=recording.device, capture=recording.capture, denoise=recording.denoise
    )
    return Request(photo, recording.model, options, job, recording.corrections)
