"""The state that the docks of one viewer share, and the layers of what their jobs deliver.

Results are shown here rather than in a dock, since the dock may be hidden or closed by then.
"""

import weakref
from dataclasses import replace

from napari.components import ViewerModel
from napari.layers import Image
from napari.utils.notifications import show_warning

from napari_mst.base.errors import NapariMstError
from napari_mst.cube import SpectralCube
from napari_mst.cube.layer import Stack, contrast_limits
from napari_mst.plugin.files.recognising import attend
from napari_mst.plugin.jobs.worker import start
from napari_mst.plugin.jobs.workspace import (
    MakeCubes,
    Request,
    SideJob,
    Workspace,
    lines_of,
    reconstruct_pages,
    reconstruct_with_previews,
)
from napari_mst.plugin.pictures.composing import Composer
from napari_mst.plugin.viewer.bands import FIRST_BAND, Bands
from napari_mst.plugin.viewer.layer_photos import LayerPhoto, make_room_for_bands
from napari_mst.plugin.viewer.layers import (
    PHOTO_KEY,
    active_cube_layer,
    cube_at,
    cube_layer,
    go_to,
    put_cube,
    put_on_top,
    stack_layer,
)
from napari_mst.plugin.viewer.sharing import ViewerHelper, report, shared

PREVIEW = " (preview)"


class Session(ViewerHelper):
    """The workspace of one viewer, whose results it puts into layers."""

    def __init__(self, viewer: ViewerModel, make: MakeCubes) -> None:
        super().__init__(viewer)
        self.workspace = Workspace(start, make)
        self._previews = weakref.WeakKeyDictionary[LayerPhoto, weakref.ref[Image]]()
        self.workspace.cube_ready.connect(self.add)
        self.workspace.made.connect(self.show_made)
        self.workspace.failed.connect(self.report)
        self.workspace.cancelled.connect(self.drop_preview)
        viewer.layers.events.removed.connect(self._on_removed)

    def _on_removed(self, _: object) -> None:
        """Let go of what was recorded of photos, once everything was cleared."""
        if not self.viewer.layers:
            self.workspace.forget_photos()

    def add(self, cube: SpectralCube, photo: LayerPhoto) -> None:
        """Show *cube* where its *photo* was when the job began.

        It goes into the layer of its preview, if the user has not removed that.
        """
        is_first = photo not in self._previews
        layer = self._preview_of(photo)
        if layer is not None:
            _replace(self.viewer, layer, cube, photo)
        else:
            layer = _add(self.viewer, cube, photo)
        # The user may have removed the preview, after having read this.
        if is_first:
            _tell_change(self.viewer, photo)
        if _ending(cube):
            self._previews[photo] = weakref.ref(layer)

    def drop_preview(self, photo: LayerPhoto) -> None:
        """Remove the preview of a cancelled run, unless it states its error.

        A failed run leaves its preview.
        """
        layer = self._preview_of(photo)
        if layer is not None and cube_at(layer).provenance.is_preview:
            self.viewer.layers.remove(layer)

    def _preview_of(self, photo: LayerPhoto) -> Image | None:
        """The layer of the preview of *photo*, if there is one; it is forgotten."""
        preview_ref = self._previews.pop(photo, None)
        layer = preview_ref and preview_ref()
        # A layer that the user has removed lives on until it is collected.
        return layer if self.has(layer) else None

    def report(self, error: NapariMstError, request: Request) -> None:
        """Show *error* as a napari notification, unless the page of the photo shows it."""
        is_shown = request.is_of_photo and len(self.workspace.failed) > 1
        if not is_shown:
            report(error)

    def show_made(self, made: object, request: Request) -> None:
        """Let the job of *request* show what it has *made*."""
        if request.job is not None:
            request.job.show(self.viewer, made, request)


def request_of_pages(request: Request) -> Request:
    """Order the cubes of all pages of the stack whose page *request* is for, as one layer."""

    def lines(stack: Stack) -> list[str]:
        return lines_of(stack.cubes[0].provenance)

    return replace(request, job=SideJob(reconstruct_pages, _show_stack, True, lines))


def _show_stack(viewer: ViewerModel, stack: Stack, request: Request) -> None:
    _add(viewer, stack.cubes[0], request.source, stack)
    _tell_change(viewer, request.source)


def workspace_of(viewer: ViewerModel, make: MakeCubes = reconstruct_with_previews) -> Workspace:
    """Return the workspace of *viewer*, made on first use; *make* makes its cubes."""
    session = shared(viewer, Session, make)
    attend(viewer)
    return session.workspace


def _add(
    viewer: ViewerModel, cube: SpectralCube, photo: LayerPhoto, stack: Stack | None = None
) -> Image:
    is_first = active_cube_layer(viewer) is None
    name = _present_name(viewer, photo) or photo.name
    pages = zip(photo.index, photo.pixels.shape, strict=False)
    shown_page = [str(at) for at, length in pages if length > 1]
    if shown_page and stack is None:
        # It is seen on the other pages as well.
        name += f", page {', '.join(shown_page)}"
    name = f"{name} ({cube.provenance.model}){photo.region_label}{_ending(cube)}"
    place = photo.placement_of(cube.shape[1:])
    data, arguments, _ = cube_layer(cube, name, place)
    arguments["metadata"][PHOTO_KEY] = photo.reference()
    layer, page = photo.layer(), 0.0
    if layer is not None and photo.index:
        page = viewer.dims.point[-layer.ndim]
        make_room_for_bands(layer, arguments["translate"][0])
    if stack is not None:
        axis = (0.0, 1.0) if layer is None else (layer.translate[0], layer.scale[0])
        data, arguments, _ = stack_layer(stack, name, place, axis)
    added: Image = viewer.add_image(data, **arguments)
    put_on_top(viewer, added)
    if photo.index:
        # The slider of the bands has taken the place of the slider of the pages.
        viewer.dims.set_point(0, page)
    # With other cubes in the viewer, the slider stands where the user has put it.
    if is_first and cube.has_wavelengths:
        go_to(viewer, added, FIRST_BAND)
    # Its picture looks like the photo below it: a band shows at once that there is a cube.
    Composer.of(viewer).show_picture(added, is_shown=False)
    return added


def _present_name(viewer: ViewerModel, photo: LayerPhoto) -> str | None:
    """The present name of the layer of *photo*; None if the layer was removed during the run."""
    layer = photo.layer()
    return None if layer is None or layer not in viewer.layers else layer.name


def _tell_change(viewer: ViewerModel, photo: LayerPhoto) -> None:
    """Warn the user if the layer of *photo* has changed since the run began."""
    name = _present_name(viewer, photo)
    if name == photo.name:
        return
    change = "removed" if name is None else f"renamed to '{name}'"
    show_warning(
        f"The layer '{photo.name}' was {change} during the run. "
        "Its cube is a new layer in the same place."
    )


def _replace(viewer: ViewerModel, layer: Image, cube: SpectralCube, photo: LayerPhoto) -> None:
    """Put the exact *cube* into the *layer* of its preview; what the user has set there stays."""
    before = cube_at(layer)
    data, arguments, _ = cube_layer(cube, layer.name, photo.placement_of(cube.shape[1:]))
    # Limits that differ from the preview's first limits were set by the user.
    contrast = Bands.of(viewer)
    is_of_preview = tuple(layer.contrast_limits) == contrast_limits(before.data)
    has_own_limits = not is_of_preview and not contrast.is_given(layer)
    put_cube(layer, data, arguments)
    if not has_own_limits:
        layer.contrast_limits = arguments["contrast_limits"]
        contrast.renew(layer)
    layer.name = layer.name.removesuffix(_ending(before))


def _ending(cube: SpectralCube) -> str:
    """The end of the name of a layer until its exact cube is there; "" for that one."""
    history = cube.provenance
    if history.is_estimate:
        return f" (estimate ±{history.estimate_error:.1%})"
    return PREVIEW if history.is_preview else ""
