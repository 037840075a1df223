"""What belongs to one viewer and is shared by its docks: the workspace, and what becomes of a finished job."""

import weakref
from functools import partial

from napari.components import ViewerModel
from napari.utils.notifications import show_error, show_warning

from napari_mst.attention_record import AttentionMap
from napari_mst.cube import SpectralCube
from napari_mst.errors import NapariMstError
from napari_mst.plugin.attention_jobs import MapJob
from napari_mst.plugin.attention_layers import show_map
from napari_mst.plugin.layers import SUFFIX, LayerPhoto, active_cube_layer, cube_layer, go_to, show_wavelength
from napari_mst.plugin.worker import start_job
from napari_mst.plugin.workspace import Request, Start, Workspace

FIRST_BAND = 550.0
"""nm; the band that is shown first, where the eye is most sensitive."""

_workspaces: "weakref.WeakKeyDictionary[ViewerModel, Workspace]" = weakref.WeakKeyDictionary()


def unwrapped(viewer: ViewerModel) -> ViewerModel:
    """The viewer behind the proxy that napari gives to docks; a proxy cannot be held weakly."""
    return getattr(viewer, "__wrapped__", viewer)


def workspace_of(viewer: ViewerModel, start: Start = start_job) -> Workspace:
    """The workspace of *viewer*, made on first use; *start* starts its jobs."""
    viewer = unwrapped(viewer)
    if viewer not in _workspaces:
        workspace = Workspace(start)
        workspace.cube_ready.connect(partial(_add_cube, weakref.ref(viewer)))
        workspace.made.connect(partial(_add_map, weakref.ref(viewer)))
        workspace.failed.connect(_notify)
        _workspaces[viewer] = workspace
    return _workspaces[viewer]


def _notify(error: NapariMstError) -> None:
    show_error(str(error))


def _add_map(viewer_ref: "weakref.ref[ViewerModel]", made: object, request: Request) -> None:
    """Show a finished map where its photo was when the job began; a dock may be hidden by then."""
    viewer, photo, job = viewer_ref(), request.source, request.job
    if viewer is None or not isinstance(photo, LayerPhoto) or not isinstance(job, MapJob):
        return
    if isinstance(made, AttentionMap):
        show_map(viewer, made, photo.name, photo.placement, is_new=job.is_new)


def _add_cube(viewer_ref: "weakref.ref[ViewerModel]", cube: SpectralCube, photo: LayerPhoto) -> None:
    """Add the layer of a finished job, on the place that its photo had when the job began."""
    viewer = viewer_ref()
    if viewer is None:
        return
    layer = photo.layer()
    present = layer if layer in viewer.layers else None
    name = photo.name if present is None else present.name
    is_first = active_cube_layer(viewer) is None
    data, arguments, _ = cube_layer(cube, f"{name} {SUFFIX}", photo.placement)
    added = viewer.add_image(data, **arguments)
    show_wavelength(viewer)
    if is_first and cube.has_wavelengths:
        go_to(viewer, added, FIRST_BAND)
    if present is None or name != photo.name:
        change = "removed" if present is None else f"renamed to '{name}'"
        show_warning(f"The layer '{photo.name}' was {change} during the run. Its cube is a new layer where it was.")
