"""What belongs to one viewer and is shared by its docks: the workspace, and what becomes of a finished job."""

import weakref
from functools import partial

from napari.components import ViewerModel
from napari.layers import Image
from napari.utils.notifications import show_error, show_warning

from napari_mst.attention.record import AttentionMap
from napari_mst.cube import SpectralCube
from napari_mst.errors import NapariMstError
from napari_mst.plugin.attention.jobs import MapJob
from napari_mst.plugin.attention.layers import show_map
from napari_mst.plugin.files.recognising import attend
from napari_mst.plugin.jobs.worker import start_job
from napari_mst.plugin.jobs.workspace import Request, Start, Workspace
from napari_mst.plugin.viewer.layers import (
    SUFFIX,
    active_cube_layer,
    contrast_limits,
    cube_layer,
    go_to,
    put_on_top,
)
from napari_mst.plugin.viewer.photos import LayerPhoto
from napari_mst.plugin.viewer.slider import FIRST_BAND

PREVIEW = " (preview)"
"""What ends the name of a layer until its exact cube is there."""

_sessions: "weakref.WeakKeyDictionary[ViewerModel, tuple[Workspace, Results]]" = (
    weakref.WeakKeyDictionary()
)


def unwrapped(viewer: ViewerModel) -> ViewerModel:
    """The viewer behind the proxy that napari gives to docks; a proxy cannot be held weakly."""
    return getattr(viewer, "__wrapped__", viewer)


def workspace_of(viewer: ViewerModel, start: Start = start_job) -> Workspace:
    """The workspace of *viewer*, made on first use; *start* starts its jobs."""
    viewer = unwrapped(viewer)
    if viewer not in _sessions:
        workspace, results = Workspace(start), Results(viewer)
        workspace.preview_ready.connect(results.add)
        workspace.cube_ready.connect(results.add)
        workspace.made.connect(partial(_add_map, weakref.ref(viewer)))
        workspace.failed.connect(_notify)
        _sessions[viewer] = workspace, results
        attend(viewer)
    return _sessions[viewer][0]


def _notify(error: NapariMstError) -> None:
    show_error(str(error))


def _add_map(viewer_ref: "weakref.ref[ViewerModel]", made: object, request: Request) -> None:
    """Show a finished map where its photo was when the job began; a dock may be hidden by then."""
    viewer, photo, job = viewer_ref(), request.source, request.job
    if viewer is None or not isinstance(photo, LayerPhoto) or not isinstance(job, MapJob):
        return
    if isinstance(made, AttentionMap):
        show_map(viewer, made, photo.name + _region(photo), photo.placement, is_new=job.is_new)


class Results:
    """The layers of the cubes that jobs deliver. What it knows of *viewer* and layers does not keep them alive."""

    def __init__(self, viewer: ViewerModel) -> None:
        self._viewer_ref = weakref.ref(viewer)
        self._previews: weakref.WeakKeyDictionary[LayerPhoto, weakref.ref[Image]] = (
            weakref.WeakKeyDictionary()
        )

    def add(self, cube: SpectralCube, photo: LayerPhoto) -> None:
        """Show *cube* where its *photo* was when the job began: in the layer of its preview, if that is still there."""
        viewer = self._viewer_ref()
        if viewer is None:
            return
        preview = self._previews.pop(photo, None)
        layer = None if preview is None else preview()
        if layer is not None and layer in viewer.layers:
            _replace(layer, cube, photo)
        else:
            layer = _add(viewer, cube, photo)
        if cube.provenance.is_preview:
            self._previews[photo] = weakref.ref(layer)


def _add(viewer: ViewerModel, cube: SpectralCube, photo: LayerPhoto) -> Image:
    layer = photo.layer()
    present = layer if layer in viewer.layers else None
    name = photo.name if present is None else present.name
    is_first = active_cube_layer(viewer) is None
    data, arguments, _ = cube_layer(cube, _cube_name(name, cube, photo), photo.placement_of(cube))
    added: Image = viewer.add_image(data, **arguments)
    put_on_top(viewer, added)
    if is_first and cube.has_wavelengths:
        go_to(viewer, added, FIRST_BAND)
    if present is None or name != photo.name:
        change = "removed" if present is None else f"renamed to '{name}'"
        show_warning(
            f"The layer '{photo.name}' was {change} during the run. Its cube is a new layer where it was."
        )
    return added


def _replace(layer: Image, cube: SpectralCube, photo: LayerPhoto) -> None:
    """Put the exact *cube* into the *layer* of its preview; what the user has set on the layer stays."""
    data, arguments, _ = cube_layer(cube, layer.name, photo.placement_of(cube))
    has_own_limits = tuple(layer.contrast_limits) != contrast_limits(layer.data)
    layer.metadata = {**layer.metadata, **arguments["metadata"]}
    layer.data = data
    layer.scale, layer.translate = arguments["scale"], arguments["translate"]
    if not has_own_limits:
        layer.contrast_limits = arguments["contrast_limits"]
    layer.name = layer.name.removesuffix(PREVIEW)


def _cube_name(name: str, cube: SpectralCube, photo: LayerPhoto) -> str:
    return f"{name} {SUFFIX}{_region(photo)}{PREVIEW if cube.provenance.is_preview else ''}"


def _region(photo: LayerPhoto) -> str:
    return "" if photo.region is None else " [{}:{}, {}:{}]".format(*photo.region)
