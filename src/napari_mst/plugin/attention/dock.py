"""The dock "Attention (MST++)": which channels attend to which, in every block and at every pixel.

Its state is an `Exploration`. The dock forwards clicks to it and to the workspace; its panel draws
what they say.
"""

from pathlib import Path
from typing import Any

from napari.components import ViewerModel
from napari.utils.theme import get_theme
from qtpy.QtCore import QSize
from qtpy.QtGui import QHideEvent
from qtpy.QtWidgets import QFileDialog, QVBoxLayout

from napari_mst.attention.files import read_attention, write_attention, write_maps
from napari_mst.attention.maps import AttentionMap, AttentionSteps
from napari_mst.cube.layer import METADATA_KEY
from napari_mst.errors import AttentionError
from napari_mst.plugin.attention.exploration import Exploration
from napari_mst.plugin.attention.layers import map_layers, map_of, summary
from napari_mst.plugin.attention.orders import NO_RUN, map_order, recording_order, steps_order
from napari_mst.plugin.attention.panel import AttentionPanel
from napari_mst.plugin.attention.picking import Picking
from napari_mst.plugin.dock import Dock, Link, reported
from napari_mst.plugin.jobs.request import Recording, Request, extent
from napari_mst.plugin.jobs.workspace import JobState
from napari_mst.plugin.viewer.layers import active_cube_layer, cube_of
from napari_mst.plugin.viewer.light_layer import LightViews, TellsLight
from napari_mst.plugin.viewer.photos import DENOISED, photo_layers
from napari_mst.plugin.viewer.sharing import shared

TIFF_SUFFIXES = (".tif", ".tiff")


def save_record(path: str | Path, viewer: ViewerModel, recording: Recording | None) -> Path:
    """Save a run or a map, by the suffix of *path*; an existing file is replaced.

    `.npz` holds the matrices of *recording* and the maps of its photo in the viewer; `.tif` holds
    the newest map.

    Raises
    ------
    NapariMstError
        If there is no run or no map, or the file cannot be written.
    """
    path = Path(path)
    maps = [map_of(layer) for layer in map_layers(viewer)]
    if path.suffix.lower() in TIFF_SUFFIXES:
        if not maps:
            raise AttentionError("Expected a map to save as TIFF, got none. Make one first.")
        return write_maps(path, maps[-1:], overwrite=True)
    if recording is None:
        raise AttentionError("Expected a run to save, got none. Record one first.")
    photo = recording.record.provenance.source_sha256
    own = [one for one in maps if one.provenance.source_sha256 == photo]
    return write_attention(path, recording.record, own, overwrite=True)


def read_record(path: str | Path) -> Recording:
    """Read the matrices of a file. Raises `AttentionError`."""
    record = read_attention(path)
    photo = record.provenance.source + extent(record.provenance)
    return Recording(record, f"{Path(path).name}: {photo}")


SIZE = (460, 640)
"""Width and height, in pixels, that the dock asks for."""


def new_exploration(_: ViewerModel) -> Exploration:
    """Make what the attention docks of a viewer share."""
    return Exploration()


class AttentionDock(Dock):
    """Shows the recordings of the workspace, and asks it for maps and steps."""

    def __init__(self, napari_viewer: ViewerModel) -> None:
        super().__init__(napari_viewer)
        self.exploration = shared(self.viewer, new_exploration)
        self.panel = AttentionPanel()
        self.picking = Picking(
            self.viewer, self.workspace, self.exploration, lambda: self.panel.box.layer
        )
        # Of the runs that are known already, a person may have chosen another than the newest.
        self._runs = len(self.workspace.recordings) if self.exploration.recording else 0
        layout = QVBoxLayout(self)
        layout.setContentsMargins(3, 4, 3, 4)
        layout.addWidget(self.panel)
        # A light is found by a network of its own, which has no run in the lists above.
        self.light = LightViews(self.viewer)
        layout.addWidget(self.light)
        self._wire()

    def _wire(self) -> None:
        panel = self.panel
        panel.box.runs.currentIndexChanged.connect(self._choose_run)
        panel.box.record_button.clicked.connect(self.record)
        panel.box.open_button.clicked.connect(self._ask_to_open)
        panel.box.save_button.clicked.connect(self._ask_to_save)
        panel.schematic.chosen.connect(self.exploration.choose)
        panel.channels.chosen.connect(self.exploration.choose_channels)
        panel.matrices.clicked.connect(self.exploration.choose_channels)
        panel.matrices.compare_button.toggled.connect(self.exploration.compare)
        panel.maps.wanted.connect(self.make_map)
        panel.maps.new_layer.toggled.connect(self._want_new_layer)
        panel.steps.button.clicked.connect(self.make_steps)
        panel.steps.plot.clicked.connect(self.exploration.choose_channels)
        panel.cancel_button.clicked.connect(self.workspace.cancel)
        panel.pixel.pick_button.toggled.connect(self.picking.turn)
        panel.pixel.by.currentIndexChanged.connect(self._choose_mechanism)
        panel.pixel.h.valueChanged.connect(self._choose_mechanism)
        panel.pixel.side.valueChanged.connect(self._choose_patch)
        panel.pixel.reading.currentIndexChanged.connect(self._choose_patch)
        panel.pixel.denoise_button.clicked.connect(self.picking.denoise)
        panel.pixel.before_button.toggled.connect(self._show_before)

    def sizeHint(self) -> QSize:
        """Qt asks for this when it lays out the docks."""
        return QSize(*SIZE)

    def links(self) -> list[Link]:
        """See `Dock`."""
        layers = self.viewer.layers.events
        return [
            (self.exploration.head_changed, self._draw_head),
            (self.exploration.channels_changed, self._draw_channels),
            (layers.inserted, self._show_photos),
            (layers.removed, self._show_photos),
            (layers.removed, self._let_go),
            (layers.renamed, self._show_photos),
            (self.workspace.state_changed, self._show_state),
            (self.workspace.state_changed, self.picking.on_state),
            (self.picking.changed, self.panel.pixel.text.setText),
            (self.picking.patch_changed, self.panel.pixel.numbers.show_steps),
            (self.workspace.recorded, self._show_recordings),
            (self.workspace.made, self._show_made),
            (self.viewer.events.theme, self._on_theme),
        ]

    def hideEvent(self, event: QHideEvent | None) -> None:
        """Listen to the mouse no more, and let go of the photo."""
        was_shown = bool(self._connected)
        if was_shown and self._viewer_ref() is not None:
            self.panel.pixel.pick_button.setChecked(False)
            self.picking.forget()
        super().hideEvent(event)

    def refresh(self) -> None:
        """See `Dock`."""
        self._on_theme()
        self._show_photos()
        # A dock that was hidden has not heard of the steps that were made meanwhile.
        if isinstance(self.workspace.last_made, AttentionSteps):
            self.exploration.keep_steps(self.workspace.last_made)
        self.light.list_views(self.workspace.last_made)
        self._show_recordings()
        self._draw_head()

    # ------------------------------------------------------------------------ what the user does

    def record(self) -> bool:
        """Record the attention of the chosen photo; False if nothing started."""
        box = self.panel.box
        shelf = self.exploration.shelf
        model = box.models.currentData()
        return self._start(recording_order(self.viewer, shelf, box.layer, model))

    def make_map(self, overlay: str) -> bool:
        """Make a map of the chosen head over the photo of the run; False if nothing started."""
        return self._start(map_order(self.viewer, self.exploration, overlay))

    def make_steps(self) -> bool:
        """Take the chosen head apart on the photo of the run; False if nothing started."""
        return self._start(steps_order(self.viewer, self.exploration))

    def save(self, path: str) -> None:
        """Save the chosen run, or the newest map: see `save_record`."""
        save_record(path, self.viewer, self.exploration.recording)

    def open(self, path: str) -> None:
        """Show the matrices of a file beside the runs: see `read_record`."""
        self.workspace.keep(read_record(path))

    def _start(self, order: Request | str) -> bool:
        """Start the job of *order*, or tell the user why there is none."""
        if isinstance(order, str):
            self.panel.text.setText(order)
            return False
        return self.workspace.run(order)

    def _choose_run(self, index: int) -> None:
        recordings = self.workspace.recordings
        if 0 <= index < len(recordings):
            self.exploration.choose_run(recordings[index])

    def _choose_mechanism(self) -> None:
        page = self.panel.pixel
        self.picking.choose(page.mechanism, page.h.value())

    def _choose_patch(self) -> None:
        page = self.panel.pixel
        self.picking.choose_patch(page.side.value(), page.reading.currentData())

    def _show_before(self, is_before: bool) -> None:
        """Hide the denoised photo, or show it again."""
        layer = self.panel.box.layer
        name = "" if layer is None else f"{layer.name} {DENOISED}"
        if name in self.viewer.layers:
            self.viewer.layers[name].visible = not is_before

    def _want_new_layer(self, is_new: bool) -> None:
        self.exploration.is_new_layer = is_new

    def _ask_to_open(self) -> None:
        kinds = "Attention (*.npz)"
        path, _ = QFileDialog.getOpenFileName(self, "Open attention", "", kinds)
        if path:
            with reported():
                self.open(path)

    def _ask_to_save(self) -> None:
        kinds = "Attention (*.npz);;Map (*.tif)"
        path, _ = QFileDialog.getSaveFileName(self, "Save attention", "attention.npz", kinds)
        if path:
            with reported():
                self.save(path)

    # ------------------------------------------------------------------------ what is drawn

    def _show_photos(self) -> None:
        self.panel.box.show_photos(photo_layers(self.viewer))
        self._show_state(self.workspace.state)

    def _show_recordings(self, _: object = None) -> None:
        """List the runs, and look at the newest if it has just come."""
        cube = cube_of(active_cube_layer(self.viewer))
        recordings = self.workspace.recordings
        self.panel.box.show_models(recordings, None if cube is None else cube.provenance.model)
        has_new = len(recordings) > self._runs
        self._runs = len(recordings)
        if recordings and (has_new or self.exploration.recording is None):
            self.exploration.choose_run(recordings[-1])
        self.panel.box.show_runs(recordings, self.exploration.recording)
        self._show_state(self.workspace.state)

    def _let_go(self, event: Any) -> None:
        """Free the photo that was made ready, once a photo has left the viewer."""
        if METADATA_KEY not in event.value.metadata:
            self.exploration.shelf.clear()

    def _draw_head(self) -> None:
        self.panel.draw_head(self.exploration)
        self._show_state(self.workspace.state)

    def _draw_channels(self) -> None:
        self.panel.draw_channels(self.exploration)

    def _show_made(self, made: object, _: Request) -> None:
        if isinstance(made, AttentionSteps):
            self.exploration.keep_steps(made)
            self.panel.tabs.setCurrentWidget(self.panel.steps)
        elif isinstance(made, AttentionMap):
            self.panel.text.setText(summary(made))
        elif isinstance(made, TellsLight):
            self.light.list_views(made)
        else:
            self.picking.on_made(made)

    def _show_state(self, state: JobState) -> None:
        self.panel.show_state(state, head=self.exploration.head)
        self.panel.text.setText(self._sentence(state))

    def _sentence(self, state: JobState) -> str:
        """Choose what the dock says: the job's own sentence, or what to do first."""
        # How a job ended is old news once its photo has left the viewer.
        is_news = self.panel.box.photos.count() > 0 or not state.is_idle
        if state.text and not state.is_of_cube and is_news:
            return state.text
        return "" if self.exploration.head is not None else NO_RUN

    def _on_theme(self) -> None:
        self.panel.set_theme(get_theme(self.viewer.theme))
