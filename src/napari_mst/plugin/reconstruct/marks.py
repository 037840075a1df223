"""Marks on a photo by which it is measured: a click, or a frame around a chart; without Qt."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image, Layer, Points, Shapes
from numpy.typing import ArrayLike

from napari_mst.cube.layer import METADATA_KEY
from napari_mst.errors import PhotoError
from napari_mst.photo.chart import Chart, Corners
from napari_mst.photo.photo import Photo
from napari_mst.plugin.reconstruct.drawing import FRAME, YELLOW, add_outlines, photo_part
from napari_mst.plugin.reconstruct.form import Finding, ReconstructionForm
from napari_mst.plugin.viewer.layers import layer_of_role, selection_kept
from napari_mst.plugin.viewer.photos import CORRECTED, LayerPhoto, photo_layer
from napari_mst.plugin.viewer.placement import Placement
from napari_mst.plugin.viewer.sharing import ViewerHelper

MARKS = "marks"
"""Marks the layer of a click or of squares in its metadata."""
WIDTH = 0.012
"""Width of a mark, as a share of the longer side of the photo."""
MARGIN = 0.2
"""Room around a new frame, as a share of the visible part of the photo."""

Take = Callable[[tuple[float, float]], object]
"""Takes the row and the column of a click, not rounded."""


class Marks(ViewerHelper):
    """Draws what the form knows of places on its photo, and takes what a person drags or clicks.

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
        points = _add_points(self.viewer, layer)
        self._take = take
        points.events.data.connect(self._on_click)
        self.viewer.layers.selection.active = points
        points.mode = "add"
        return points

    def ask_for_frame(self, layer: Image, corners: Corners | None = None) -> None:
        """Put a frame around a chart in the photo of *layer*: at its *corners*, if it was found."""
        self.clear()
        self._form.corners = corners or _corners_on_screen(self.viewer, layer)
        frame = layer_of_role(self.viewer, FRAME)
        self.viewer.layers.selection.active = frame
        frame.mode = "direct"

    def drop_click(self, *_: object) -> None:
        """Take the mark of a click away that has shown nothing."""
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
        elif form.finding is None:
            self._remove(MARKS)

    def clear(self, *_: object) -> None:
        """Take all marks away."""
        for role in (FRAME, MARKS, CORRECTED):
            self._remove(role)

    def _chart(self) -> Chart | None:
        """The chart whose patches are shown; None without one."""
        form = self._form
        if form.corners is not None:
            # Corners that span nothing have no squares, until they are dragged apart.
            with suppress(PhotoError):
                return Chart(form.corners, form.chart)
        calibration = form.finding.calibration if form.finding is not None else None
        return None if calibration is None else calibration.chart

    def _draw_frame(self, layer: Image, corners: Corners) -> None:
        frame = layer_of_role(self.viewer, FRAME)
        if frame is None:
            frame = _add_frame(self.viewer, layer, corners)
            # While a corner is dragged, napari says so by this event alone.
            frame.events.set_data.connect(self._on_drag)
        elif not np.array_equal(frame.data[0], corners):
            frame.data = [np.array(corners)]

    def _draw_preview(self, finding: Finding | None) -> None:
        """Lay over the photo what the next run will make of it first."""
        layer = self._form.layer
        with selection_kept(self.viewer):
            self._remove(CORRECTED)
            if finding is None or finding.sample is None or not self.has(layer):
                return
            photo = finding.sample
            if finding.capture is None:
                for correction in finding.corrections:
                    photo = correction.corrected(photo)
            if photo is not finding.sample or finding.capture is not None:
                self._add_preview(layer, photo)

    def _add_preview(self, layer: Image, photo: Photo) -> None:
        place = LayerPhoto.of(layer, self.viewer.dims.point).placement_of(photo.shape)
        data, arguments, _ = photo_layer(photo, f"{layer.name} (as corrected)", place)
        self.viewer.add_image(data, **arguments | {"metadata": {METADATA_KEY: CORRECTED}})
        self.viewer.layers.move(len(self.viewer.layers) - 1, self.viewer.layers.index(layer) + 1)

    def _on_drag(self, event: Any) -> None:
        frame: Shapes = event.source
        if frame in self.viewer.layers and len(frame.data) == 1 and len(frame.data[0]) == 4:
            first, second, third, fourth = ((row, column) for row, column in frame.data[0].tolist())
            self._form.corners = (first, second, third, fourth)

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
        photo = photo_part(viewer, layer, "visible")
    (rows, columns), (top, left) = photo.shape, photo.corner
    low, high = top + MARGIN * rows, top + (1 - MARGIN) * rows
    west, east = left + MARGIN * columns, left + (1 - MARGIN) * columns
    return (low, west), (low, east), (high, east), (high, west)


def _add_points(viewer: ViewerModel, layer: Image) -> Points:
    points: Points = viewer.add_points(
        ndim=2,
        **Placement.of(layer).image_kwargs(),
        name="Measured here",
        symbol="cross",
        size=max(3.0, WIDTH * max(LayerPhoto.of(layer, viewer.dims.point).shape)),
        face_color=YELLOW,
        border_width=0,
        metadata={METADATA_KEY: MARKS},
    )
    return points


def _add_frame(viewer: ViewerModel, layer: Image, corners: Corners) -> Shapes:
    frame = add_outlines(viewer, layer, "Corners of the chart", FRAME)
    frame.add_polygons([np.array(corners)])
    frame.selected_data = {0}
    return frame


def _show_squares(points: Points, centres: ArrayLike, side: float) -> None:
    """Draw squares of *side* pixels at *centres* (n, 2), in place of what was there."""
    points.data = np.asarray(centres)
    points.symbol = "square"
    points.size = side
    points.face_color = "transparent"
    points.border_color = YELLOW
    points.border_width = 0.1
