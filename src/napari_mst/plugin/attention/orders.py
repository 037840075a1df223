"""Turn what a person wants to see of the attention into an order for a job, without Qt.

Each function reads the state and changes nothing. It returns the order, or a sentence that tells
the user why there is none.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image

from napari_mst.attention.overlays import SENSITIVITY
from napari_mst.cube import Provenance
from napari_mst.plugin.attention.exploration import Exploration
from napari_mst.plugin.attention.jobs import (
    CubePixel,
    map_job,
    recording_job,
    sensitivity_job,
    steps_job,
)
from napari_mst.plugin.attention.shelf import Look, Shelf
from napari_mst.plugin.jobs.request import Recording, Request, SideJob
from napari_mst.plugin.viewer import picks
from napari_mst.plugin.viewer.layers import active_cube_layer, band_of, cube_of
from napari_mst.plugin.viewer.photos import LayerPhoto, LayerReference
from napari_mst.reconstruction.options import RunOptions

PixelJob = Callable[[Look, tuple[str, int], tuple[int, int]], SideJob]
"""A look at a photo, a head and a pixel of the photo -> the job that tells about the pixel."""

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
