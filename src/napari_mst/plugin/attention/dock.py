"""The dock "Attention (MST++)": which channels attend to which in every block, and what that does at every pixel."""

from collections.abc import Callable
from functools import partial
from typing import Any

from napari.components import ViewerModel
from napari.utils.theme import get_theme
from qtpy.QtCore import QSize
from qtpy.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QProgressBar,
    QPushButton,
    QSpinBox,
    QTabWidget,
    QVBoxLayout,
)

from napari_mst.attention.overlays import SENSITIVITY
from napari_mst.attention.record import (
    AttentionMap,
    AttentionSteps,
    Selection,
)
from napari_mst.plugin.attention import files, jobs
from napari_mst.plugin.attention.layers import summary
from napari_mst.plugin.attention.pages import Head, MapPage, MatrixPage, StepsPage
from napari_mst.plugin.attention.runs import RunBox
from napari_mst.plugin.attention.schematic import Schematic
from napari_mst.plugin.dock import Dock, Link
from napari_mst.plugin.jobs.workspace import JobState, Recording, Request
from napari_mst.plugin.viewer import picks
from napari_mst.plugin.viewer.layers import active_cube_layer, band_of, cube_of
from napari_mst.plugin.viewer.photos import LayerPhoto, LayerReference, photo_layers
from napari_mst.reconstruction.options import RunOptions

STEPS = 1000
"""Steps of the progress bar."""
SIZE = (460, 640)
"""Pixels; what the dock asks for."""
HINT = "Reconstruct a photo, or press Record: the matrices of all blocks appear here."
ALL = -1
"""Value of a channel's box for all channels."""


class AttentionDock(Dock):
    """Draws the recordings of the workspace, and asks it for maps."""

    def __init__(self, napari_viewer: ViewerModel) -> None:
        super().__init__(napari_viewer)
        self.box, self.schematic = RunBox(), Schematic()
        self.key, self.query = (
            QSpinBox(minimum=ALL, maximum=0, specialValueText="all") for _ in range(2)
        )
        self.key.setToolTip("Key channel i: a row of A, and the output channel that the row makes.")
        self.query.setToolTip("Query channel j: a column of A. A click on the matrix chooses both.")
        self.matrices, self.maps, self.steps = MatrixPage(), MapPage(), StepsPage()
        self.tabs = QTabWidget()
        self.bar = QProgressBar(maximum=STEPS)
        self.cancel_button = QPushButton("Cancel")
        self.text = QLabel(HINT, wordWrap=True)
        self._head: Head | None = None
        self._compared: Head | None = None
        self._lay_out()
        self._wire()

    def _lay_out(self) -> None:
        channels, progress, layout = QHBoxLayout(), QHBoxLayout(), QVBoxLayout(self)
        for text, box in (("key i", self.key), ("query j", self.query)):
            channels.addWidget(QLabel(text, toolTip=box.toolTip()))
            channels.addWidget(box)
        channels.addStretch(1)
        for title, page in (
            ("Matrix", self.matrices),
            ("Maps", self.maps),
            ("Step by step", self.steps),
        ):
            self.tabs.addTab(page, title)
        progress.addWidget(self.bar, stretch=1)
        progress.addWidget(self.cancel_button)
        layout.addWidget(self.box)
        layout.addWidget(self.schematic)
        layout.addLayout(channels)
        layout.addWidget(self.tabs, stretch=1)
        layout.addLayout(progress)
        layout.addWidget(self.text)

    def _wire(self) -> None:
        self.box.runs.currentIndexChanged.connect(self._show_run)
        self.box.record_button.clicked.connect(self.record)
        self.box.open_button.clicked.connect(self._ask_to_open)
        self.box.save_button.clicked.connect(self._ask_to_save)
        self.schematic.chosen.connect(self.choose)
        self.matrices.clicked.connect(self.choose_channels)
        self.steps.plot.clicked.connect(self.choose_channels)
        self.matrices.compare_button.toggled.connect(self._compare)
        self.key.valueChanged.connect(self._show_channels)
        self.query.valueChanged.connect(self._show_channels)
        self.maps.wanted.connect(self.make_map)
        self.steps.button.clicked.connect(self.make_steps)
        self.cancel_button.clicked.connect(self.workspace.cancel)

    def sizeHint(self) -> QSize:
        """Qt asks for this when it lays out the docks."""
        return QSize(*SIZE)

    def links(self) -> list[Link]:
        """See `Dock`."""
        layers = self.viewer.layers.events
        return [
            *(
                (change, self._show_photos)
                for change in (layers.inserted, layers.removed, layers.renamed)
            ),
            (self.workspace.state_changed, self._show_state),
            (self.workspace.recorded, self._show_recordings),
            (self.workspace.made, self._show_made),
            (self.viewer.events.theme, self._on_theme),
        ]

    def refresh(self) -> None:
        """See `Dock`."""
        self._on_theme()
        self._show_photos()
        if isinstance(self.workspace.last_made, AttentionSteps):
            self.steps.steps = self.workspace.last_made
        self._show_recordings()
        self._show_state(self.workspace.state)

    @property
    def recording(self) -> Recording | None:
        """The chosen run."""
        index = self.box.runs.currentIndex()
        return (
            self.workspace.recordings[index]
            if 0 <= index < len(self.workspace.recordings)
            else None
        )

    @property
    def selection(self) -> Selection | None:
        """The chosen block, head and channels."""
        if self._head is None:
            return None
        key, query = (None if box.value() == ALL else box.value() for box in (self.key, self.query))
        return Selection(self._head[1], self._head[2], key, query)

    def choose(self, block: str, head: int) -> None:
        """Show a head of a block of the chosen run."""
        recording = self.recording
        if recording is None:
            return
        self._head = (recording, block, head)
        depth = recording.record[block].attention.shape[-1]
        for box in (self.key, self.query):
            box.setMaximum(depth - 1)
        self._draw()

    def choose_channels(self, key: int, query: int) -> None:
        """Choose key channel i and query channel j."""
        self.key.setValue(key)
        self.query.setValue(query)

    def record(self) -> bool:
        """Record the attention of the chosen photo; False if nothing started."""
        layer = self.box.layer
        if layer is None:
            self.text.setText(
                "Open a photo first: File > Open, or File > Open Sample > napari-mst."
            )
            return False
        photo = LayerPhoto.of(layer, self.viewer.dims.point)
        return self.workspace.run(photo, self.box.models.currentData(), job=jobs.record_now)

    def make_map(self, overlay: str) -> bool:
        """Make a map of the chosen head over the photo of the run; False if nothing started."""
        selection, recording = self.selection, self.recording
        if selection is None or recording is None:
            return False
        if overlay == SENSITIVITY.name:
            at = self._picked(recording)
            if at is None:
                return False
            make = partial(jobs.make_sensitivity, recording.record, *at)
        else:
            make = partial(jobs.make_map, recording.record, overlay, selection)
        return self._start(jobs.MapJob(make, self.maps.new_layer.isChecked()))

    def make_steps(self) -> bool:
        """Take the chosen head apart on the photo of the run; False if nothing started."""
        if self._head is None:
            return False
        recording, block, head = self._head
        return self._start(partial(jobs.make_steps, recording.record, block, head))

    def save(self, path: str) -> None:
        """Save the chosen run, or the newest map: see `files.save`."""
        files.save(path, self.viewer, self.recording)

    def open(self, path: str) -> None:
        """Show the matrices of a file beside the runs: see `files.read`."""
        self.workspace.keep(files.read(path))

    def _ask_to_open(self) -> None:
        files.ask_to_open(self, self.open)

    def _ask_to_save(self) -> None:
        files.ask_to_save(self, self.save)

    def _start(self, job: Callable[..., Any]) -> bool:
        recording = self.recording
        reference = recording.reference if recording is not None else None
        photo = reference.photo() if isinstance(reference, LayerReference) else None
        if recording is None or photo is None or photo.layer() not in self.viewer.layers:
            self.text.setText(
                "The photo of this run is no longer in the viewer. Open it and record it again."
            )
            return False
        options = RunOptions(device=recording.device, capture=recording.capture)
        return self.workspace.run(photo, recording.model, options, job)

    def _picked(self, recording: Recording) -> tuple[int, int, int] | None:
        """Band that is shown, row and column of the last pick on the cube of this run; None, and a hint, if none is."""
        layer, points = active_cube_layer(self.viewer), picks.picks_layer(self.viewer)
        cube = cube_of(layer)
        pixels: list[list[int]] = []
        if layer is not None and points is not None and points.visible:
            at, inside = picks.pixels_of(points, layer)
            pixels = at[inside].tolist()
        if layer is None or cube is None or not pixels:
            self.text.setText(
                "Pin a spectrum first: in the dock Spectra, click a pixel of the cube."
            )
            return None
        cube_of_run = recording.record.provenance
        if any(
            getattr(cube.provenance, part) != getattr(cube_of_run, part)
            for part in ("source_sha256", "region")
        ):
            self.text.setText(
                f"Select the cube of this run first: '{layer.name}' is of another photo or region."
            )
            return None
        row, column = pixels[-1]
        return band_of(layer, self.viewer.dims.point), row, column

    def _show_photos(self) -> None:
        self.box.show_photos(photo_layers(self.viewer))
        self._show_state(self.workspace.state)

    def _show_recordings(self, _: object = None) -> None:
        """List the runs, and show the newest; for a matrix that is shown, the same head of it."""
        cube, recordings = cube_of(active_cube_layer(self.viewer)), self.workspace.recordings
        self.box.show_models(recordings, None if cube is None else cube.provenance.model)
        self.box.show_runs(recordings)
        self._show_run()

    def _show_run(self) -> None:
        recording = self.recording
        if recording is None:
            self._draw()
            return
        self.schematic.set_blocks(
            {name: (heads * depth, heads) for name, (heads, depth) in _sizes(recording).items()}
        )
        _, block, head = self._head or (None, "", 0)
        is_there = block in recording.record.blocks and head < len(
            recording.record[block].attention
        )
        self.choose(*((block, head) if is_there else (next(iter(recording.record)), 0)))

    def _compare(self, is_on: bool) -> None:
        self._compared = self._head if is_on else None
        self._draw()

    def _draw(self) -> None:
        self._show_state(self.workspace.state)
        if self._head is None:
            return
        self.matrices.set_heads([self._head, *([self._compared] if self._compared else [])])
        same = self._compared if self._compared and self._compared[0] is self._head[0] else None
        self.schematic.choose(*self._head[1:], compared=same[1:] if same else None)
        self._show_channels()

    def _show_channels(self) -> None:
        selection = self.selection
        if selection is not None:
            self.matrices.set_cell(selection.key, selection.query)
            self.steps.choose(selection)

    def _show_made(self, made: object, _: Request) -> None:
        if isinstance(made, AttentionSteps):
            self.steps.steps = made
            self.tabs.setCurrentWidget(self.steps)
            self._show_channels()
        elif isinstance(made, AttentionMap):
            self.text.setText(summary(made))

    def _show_state(self, state: JobState) -> None:
        is_idle, has_head = state.phase == "idle", self._head is not None
        for button in (*self.maps.buttons.values(), self.steps.button):
            button.setEnabled(is_idle and has_head)
        self.box.record_button.setEnabled(is_idle)
        self.box.save_button.setEnabled(has_head)
        self.matrices.compare_button.setEnabled(has_head)
        self.bar.setVisible(not is_idle)
        self.cancel_button.setVisible(not is_idle)
        self.cancel_button.setEnabled(state.phase == "running")
        self.bar.setValue(round(state.fraction * STEPS))
        has_photo = self.box.photos.count() > 0
        is_told = not state.is_of_cube and state.text and (has_photo or not is_idle)
        self.text.setText(state.text if is_told else "" if has_head else HINT)

    def _on_theme(self) -> None:
        theme = get_theme(self.viewer.theme)
        for part in (self.matrices, self.steps.plot, self.schematic):
            part.set_theme(theme)


def _sizes(recording: Recording) -> dict[str, tuple[int, int]]:
    """Heads, and channels of each, by block."""
    shapes = {name: block.attention.shape for name, block in recording.record.blocks.items()}
    return {name: (heads, depth) for name, (heads, depth, _) in shapes.items()}
