"""Marks on a photo without Qt: the part to reconstruct, a click, a frame around a chart."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image, Layer, Points, Shapes
from numpy.typing import ArrayLike

from napari_mst.base.errors import PhotoError
from napari_mst.calibration.chart import Chart, Corners
from napari_mst.cube.layer import METADATA_KEY
from napari_mst.photo.photo import Photo, Rectangle
from napari_mst.plugin.reconstruct.form import Finding, PartChoice, ReconstructionForm
from napari_mst.plugin.viewer.layer_photos import CORRECTED, FRAME, LayerPhoto, photo_layer
from napari_mst.plugin.viewer.layers import (
    layer_of_role,
    put_above,
    put_on_top,
    selection_kept,
)
from napari_mst.plugin.viewer.placement import Placement
from napari_mst.plugin.viewer.sharing import ViewerHelper

ROLE = "region"
"""Marks the Shapes layer of this plugin for a part of the photo."""
YELLOW = "#ffd400"
LINE = 0.004
"""Width of the rectangle's line, as a share of the longer side of the photo."""
MARKS = "marks"
"""Marks the layer of a click or of squares in its metadata."""
WIDTH = 0.012
"""Width of a mark, as a share of the longer side of the photo."""
MARGIN = 0.2
"""Room around a new frame, as a share of the visible part of the photo."""

Take = Callable[[tuple[float, float]], object]
"""Takes the row and the column of a click, not rounded."""


def photo_part(viewer: ViewerModel, photo: LayerPhoto, part: PartChoice) -> LayerPhoto:
    """Return the *part* of a *photo* in the viewer.

    Raises
    ------
    PhotoError
        If nothing of the photo is on the screen, or no rectangle is drawn on it.
    """
    if part == "whole":
        return photo
    region = _visible(photo) if part == "visible" else drawn_region(viewer, photo)
    return replace(photo, region=region)


def shapes_layer(viewer: ViewerModel) -> Shapes | None:
    """Find the layer that the rectangle is drawn on: the selected Shapes layer, else ours."""
    active = viewer.layers.selection.active
    # The frame around a chart is no drawing.
    is_drawn = isinstance(active, Shapes) and active.metadata.get(METADATA_KEY) != FRAME
    return active if is_drawn else layer_of_role(viewer, ROLE)


def draw(viewer: ViewerModel, layer: Image) -> None:
    """Let the user draw a rectangle on *layer*, on a new Shapes layer if there is none yet."""
    shapes = shapes_layer(viewer)
    if shapes is None:
        shapes = add_outlines(viewer, layer, "Region", ROLE)
    viewer.layers.selection.active = shapes
    shapes.mode = "add_rectangle"


def add_outlines(viewer: ViewerModel, layer: Image, name: str, role: str) -> Shapes:
    """Add a layer for outlines on the photo of *layer*, which is marked with its *role*."""
    longer_side = max(LayerPhoto.of(layer, viewer.dims.point).shape)
    return viewer.add_shapes(
        **Placement.of(layer).image_kwargs(),
        name=name,
        edge_width=max(1.0, LINE * longer_side),
        edge_color=YELLOW,
        face_color="transparent",
        metadata={METADATA_KEY: role},
    )


def _visible(photo: LayerPhoto) -> Rectangle:
    """The pixels of *photo* that are on the screen."""
    layer = photo.layer()
    if layer is not None and layer.visible:
        region = _rectangle(layer.corner_pixels[:, -2:], photo.shape)
        if region is not None:
            return region
    raise PhotoError(
        f"Expected '{photo.name}' on the screen, got none of it. Show it, or take the whole photo."
    )


def drawn_region(viewer: ViewerModel, photo: LayerPhoto) -> Rectangle:
    """The pixels of *photo* that the selected shapes enclose, or the last shape if none is.

    Raises `PhotoError` without one.
    """
    shapes = shapes_layer(viewer)
    if shapes is None or not shapes.data:
        raise PhotoError("Expected a rectangle on the photo, got none. Draw one, then press Run.")
    chosen = [shapes.data[index] for index in shapes.selected_data] or shapes.data[-1:]
    # The shapes may lie on a layer of the user, with another scale and place than the photo.
    world = [shapes.data_to_world(corner)[-2:] for outline in chosen for corner in outline]
    region = _rectangle(photo.placement.pixels_at(world), photo.shape)
    if region is None:
        raise PhotoError(
            "Expected a rectangle on the photo, got one beside it. Draw it on the photo."
        )
    return region


def _rectangle(points: ArrayLike, shape: Sequence[int]) -> Rectangle | None:
    """The pixels of an image of *shape* that the (n, 2) *points* span, or None."""
    spanned = np.asarray(points)
    # A pixel is the square around its centre, so its edges lie half a pixel off.
    low = np.clip(np.floor(spanned.min(axis=0) + 0.5).astype(int), 0, shape)
    high = np.clip(np.ceil(spanned.max(axis=0) + 0.5).astype(int), 0, shape)
    if (low >= high).any():
        return None
    return int(low[0]), int(high[0]), int(low[1]), int(high[1])


class Marks(ViewerHelper):
    """Draws the places on the photo that the form knows, and handles drags and clicks.

    The frame is where `form.corners` say, and squares show where the colours of a chart are read.
    All of it goes when the form forgets it.
    """

    def __init__(self, viewer: ViewerModel, form: ReconstructionForm) -> None:
        super().__init__(viewer)
        self._form = form
        self._take: Take | None = None
        for changed in (form.events.corners, form.events.chart, form.events.finding):
            changed.connect(self.draw)
        form.events.finding.connect(self._draw_preview)
        form.events.photo.connect(self.clear)
        viewer.layers.events.removed.connect(self._on_removed)

    def ask_for_click(self, layer: Image, take: Take) -> Points:
        """Let the user click a place on the photo of *layer*, then hand it to *take*, once."""
        self._form.corners = None
        self._remove(MARKS)
        put_on_top(self.viewer, layer)
        points = _add_points(self.viewer, layer)
        self._take = take
        points.events.data.connect(self._on_click)
        self.viewer.layers.selection.active = points
        points.mode = "add"
        return points

    def ask_for_frame(self, layer: Image, corners: Corners | None = None) -> None:
        """Put a frame around a chart in the photo of *layer*: at its *corners*, if it was found."""
        self.clear()
        # The patches are found by their colours, which a cube of an earlier run would hide.
        put_on_top(self.viewer, layer)
        self._form.corners = corners or _corners_on_screen(self.viewer, layer)
        frame = layer_of_role(self.viewer, FRAME)
        self.viewer.layers.selection.active = frame
        frame.mode = "direct"

    def drop_click(self, *_: object) -> None:
        """Remove the mark of a click that has shown nothing."""
        self._remove(MARKS)
        self.draw()

    def draw(self, *_: object) -> None:
        """Draw the frame and the squares that the form has now."""
        layer, form = self._form.layer, self._form
        chart = self._chart()
        if form.corners is None:
            self._remove(FRAME)
        elif layer is not None:
            self._draw_frame(layer, form.corners)
        if chart is not None and layer is not None:
            points = layer_of_role(self.viewer, MARKS) or _add_points(self.viewer, layer)
            _show_squares(points, chart.centres, chart.window)
        elif not form.finding:
            self._remove(MARKS)

    def clear(self, *_: object) -> None:
        """Remove all marks."""
        for role in (FRAME, MARKS, CORRECTED):
            self._remove(role)

    def _chart(self) -> Chart | None:
        """The chart whose patches are shown; None without one."""
        form = self._form
        if form.corners is not None:
            # Corners that span nothing have no squares, until they are dragged apart.
            with suppress(PhotoError):
                return Chart(form.corners, form.chart)
        calibration = form.finding.calibration
        return None if calibration is None else calibration.chart

    def _draw_frame(self, layer: Image, corners: Corners) -> None:
        frame = layer_of_role(self.viewer, FRAME)
        if frame is None:
            frame = add_outlines(self.viewer, layer, "Corners of the chart", FRAME)
            frame.add_polygons([np.array(corners)])
            frame.selected_data = {0}
            # While a corner is dragged, napari says so by this event alone.
            frame.events.set_data.connect(self._on_drag)
        # napari rounds them, and a change would be told as a drag.
        elif not np.allclose(frame.data[0], corners):
            frame.data = [np.array(corners)]

    def _draw_preview(self, finding: Finding) -> None:
        """Show over the photo how the next run will correct it first."""
        layer = self._form.layer
        with selection_kept(self.viewer):
            self._remove(CORRECTED)
            if finding.sample is None or not self.has(layer):
                return
            photo = finding.sample
            if finding.acquisition is None:
                for correction in finding.corrections:
                    photo = correction.corrected(photo)
            if photo is not finding.sample or finding.acquisition is not None:
                self._add_preview(layer, photo)

    def _add_preview(self, layer: Image, photo: Photo) -> None:
        place = LayerPhoto.of(layer, self.viewer.dims.point).placement_of(photo.shape)
        data, arguments, _ = photo_layer(photo, f"{layer.name} (as corrected)", place)
        added = self.viewer.add_image(data, **arguments | {"metadata": {METADATA_KEY: CORRECTED}})
        put_above(self.viewer, layer, added)

    def _on_drag(self, event: Any) -> None:
        frame: Shapes = event.source
        if frame in self.viewer.layers and len(frame.data) == 1 and len(frame.data[0]) == 4:
            self._form.corners = _corners(frame.data[0])

    def _on_click(self, event: Any) -> None:
        points: Points = event.source
        take = self._take
        # napari emits the event of a click before and after it has changed the data.
        if take is None or not len(points.data):
            return
        self._take = None
        points.mode = "pan_zoom"
        row, column = points.data[0]
        take((float(row), float(column)))

    def _on_removed(self, event: Any) -> None:
        if event.value.metadata.get(METADATA_KEY) == FRAME:
            self._form.corners = None

    def _remove(self, role: str) -> None:
        layers = self.viewer.layers
        layer: Layer | None = layer_of_role(self.viewer, role)
        if layer is not None:
            layers.remove(layer)
            # napari selects another layer only where the last one goes.
            layers.selection.active = layers.selection.active or self._form.layer


def _corners_on_screen(viewer: ViewerModel, layer: Image) -> Corners:
    """Corners around the middle of the photo, or of the part of it that is on the screen."""
    photo = LayerPhoto.of(layer, viewer.dims.point)
    with suppress(PhotoError):
        photo = photo_part(viewer, photo, "visible")
    low, high = MARGIN, 1 - MARGIN
    shares = np.array([(low, low), (low, high), (high, high), (high, low)])
    return _corners(photo.corner + shares * photo.shape)


def _corners(points: Iterable[Sequence[float]]) -> Corners:
    first, second, third, fourth = ((float(row), float(column)) for row, column in points)
    return first, second, third, fourth


def _add_points(viewer: ViewerModel, layer: Image) -> Points:
    return viewer.add_points(
        ndim=2,
        **Placement.of(layer).image_kwargs(),
        name="Measured here",
        symbol="cross",
        size=max(3.0, WIDTH * max(LayerPhoto.of(layer, viewer.dims.point).shape)),
        face_color=YELLOW,
        border_width=0,
        metadata={METADATA_KEY: MARKS},
    )


def _show_squares(points: Points, centres: ArrayLike, side: float) -> None:
    """Draw squares of *side* pixels at *centres* (n, 2), in place of what was there."""
    points.data = np.asarray(centres)
    points.symbol = "square"
    points.size = side
    points.face_color = "transparent"
    points.border_color = YELLOW
    points.border_width = 0.1
