"""The dock "Attention (MST++)": which channels attend to which in every block, and what that does at every pixel."""

import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from napari.components import ViewerModel
from napari.utils.notifications import show_error
from napari.utils.theme import get_theme
from qtpy.QtCore import QSize
from qtpy.QtWidgets import (
    QCheckBox,
    QComboBox,
    QFileDialog,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QProgressBar,
    QPushButton,
    QSpinBox,
    QTabWidget,
    QVBoxLayout,
    QWidget,
)

from napari_mst.attention_record import (
    AttentionMap,
    AttentionSteps,
    Selection,
    read_attention,
    write_attention,
    write_map,
)
from napari_mst.errors import AttentionError, NapariMstError
from napari_mst.models import MODELS
from napari_mst.overlays import OVERLAYS, SENSITIVITY
from napari_mst.plugin import attention_jobs, picks
from napari_mst.plugin.attention_layers import map_layers, map_of
from napari_mst.plugin.attention_plot import MatrixPlot, StepsPlot
from napari_mst.plugin.attention_schematic import Schematic
from napari_mst.plugin.dock import Dock, Link
from napari_mst.plugin.layers import LayerPhoto, LayerReference, active_cube_layer, band_of, cube_of, photo_layers
from napari_mst.plugin.workspace import JobState, Recording, Request

STEPS = 1000
"""Steps of the progress bar."""
SIZE = (460, 640)
"""Pixels; what the dock asks for."""
HINT = "Reconstruct a photo, or press Record: the matrices of all blocks appear here."
ALL = -1
"""Value of a channel's box for all channels."""

Head = tuple[Recording, str, int]
"""A head of a block of a run."""


class AttentionDock(Dock):
    """Draws the recordings of the workspace, and asks it for maps."""

    def __init__(self, napari_viewer: ViewerModel) -> None:
        super().__init__(napari_viewer)
        self.runs = QComboBox(
            toolTip="The recorded runs: every run of the reconstruction dock. A region has an "
            "attention of its own; of the mean over eight flips and transposes, it is that of the photo as it is."
        )
        self.record_button = QPushButton("Record", toolTip="Run the photo once and record its attention.")
        self.open_button = QPushButton("Open ...", toolTip="Open matrices that were saved, to compare with them.")
        self.save_button = QPushButton("Save ...")
        self.save_button.setToolTip("All matrices of this run with its maps (.npz), or the newest map alone (.tif).")
        self.photos = QComboBox(toolTip="The photo to record.")
        self.models = QComboBox(toolTip="The model to record.")
        self.schematic = Schematic()
        self.matrix, self.other = MatrixPlot(), MatrixPlot()
        self.compare_button = QPushButton("Compare", checkable=True)
        self.compare_button.setToolTip(
            "Keep this matrix beside those that you choose next: another head, block or run."
        )
        self.values = QLabel(" ")
        self.key, self.query = (QSpinBox(minimum=ALL, maximum=0, specialValueText="all") for _ in range(2))
        self.key.setToolTip("Key channel i: a row of A, and the output channel that the row makes.")
        self.query.setToolTip("Query channel j: a column of A. A click on the matrix chooses both.")
        self.map_buttons: dict[str, QPushButton] = {}
        self.new_layer = QCheckBox("as a new layer")
        self.new_layer.setToolTip("Add a layer, instead of putting the map into the layer of this kind.")
        self.steps_plot = StepsPlot()
        self.steps_button = QPushButton("Show the steps of this head")
        self.steps_button.setToolTip("Run the photo up to this block, and show what its head does, step by step.")
        self.bar = QProgressBar(maximum=STEPS)
        self.cancel_button = QPushButton("Cancel")
        self.text = QLabel(HINT, wordWrap=True)
        self._head: Head | None = None
        self._compared: Head | None = None
        self._steps: AttentionSteps | None = None
        self._lay_out()
        self._wire()

    def _lay_out(self) -> None:
        layout = QVBoxLayout(self)
        layout.addWidget(self._record_box())
        layout.addWidget(self.schematic)
        layout.addLayout(self._channel_row())
        self.tabs = QTabWidget()
        for title, page in (
            ("Matrix", self._matrix_page()),
            ("Maps", self._map_page()),
            ("Step by step", self._step_page()),
        ):
            self.tabs.addTab(page, title)
        layout.addWidget(self.tabs, stretch=1)
        row = QHBoxLayout()
        row.addWidget(self.bar, stretch=1)
        row.addWidget(self.cancel_button)
        layout.addLayout(row)
        layout.addWidget(self.text)

    def _record_box(self) -> QWidget:
        box = QWidget()
        form = QGridLayout(box)
        form.setContentsMargins(0, 0, 0, 0)
        form.addWidget(QLabel("Photo"), 0, 0)
        form.addWidget(self.photos, 0, 1)
        form.addWidget(self.models, 0, 2)
        form.addWidget(self.record_button, 0, 3, 1, 2)
        form.addWidget(QLabel("Run"), 1, 0)
        form.addWidget(self.runs, 1, 1, 1, 2)
        form.addWidget(self.open_button, 1, 3)
        form.addWidget(self.save_button, 1, 4)
        form.setColumnStretch(1, 3)
        form.setColumnStretch(2, 2)
        for box_ in (self.photos, self.models, self.runs):
            box_.setMinimumContentsLength(8)
            box_.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        return box

    def _channel_row(self) -> QHBoxLayout:
        row = QHBoxLayout()
        for text, box in (("key channel i", self.key), ("query channel j", self.query)):
            row.addWidget(QLabel(text))
            row.addWidget(box)
        row.addStretch(1)
        row.addWidget(self.compare_button)
        return row

    def _matrix_page(self) -> QWidget:
        page = QWidget()
        layout = QVBoxLayout(page)
        layout.setContentsMargins(0, 4, 0, 0)
        row = QHBoxLayout()
        row.addWidget(self.matrix)
        row.addWidget(self.other)
        self.other.hide()
        layout.addLayout(row, stretch=1)
        layout.addWidget(self.values)
        return page

    def _map_page(self) -> QWidget:
        page = QWidget()
        layout = QVBoxLayout(page)
        for one in (*OVERLAYS.values(), SENSITIVITY):
            button = QPushButton(one.title, toolTip=one.tooltip)
            button.clicked.connect(partial(self.make_map, one.name))
            self.map_buttons[one.name] = button
            layout.addWidget(button)
        layout.addWidget(self.new_layer)
        layout.addStretch(1)
        return page

    def _step_page(self) -> QWidget:
        page = QWidget()
        layout = QVBoxLayout(page)
        layout.setContentsMargins(0, 4, 0, 0)
        layout.addWidget(self.steps_button)
        layout.addWidget(self.steps_plot, stretch=1)
        return page

    def _wire(self) -> None:
        self.runs.currentIndexChanged.connect(self._show_run)
        self.schematic.chosen.connect(self.choose)
        for plot in (self.matrix, self.other, self.steps_plot):
            plot.clicked.connect(self.choose_channels)
        self.matrix.hovered.connect(self._show_values)
        self.other.hovered.connect(self._show_values)
        self.compare_button.toggled.connect(self._compare)
        self.key.valueChanged.connect(self._show_channels)
        self.query.valueChanged.connect(self._show_channels)
        self.steps_button.clicked.connect(self.make_steps)
        self.record_button.clicked.connect(self.record)
        self.open_button.clicked.connect(self._open)
        self.save_button.clicked.connect(self._save)
        self.cancel_button.clicked.connect(self.workspace.cancel)

    def sizeHint(self) -> QSize:
        """Qt asks for this when it lays out the docks."""
        return QSize(*SIZE)

    def links(self) -> list[Link]:
        """See `Dock`."""
        layers = self.viewer.layers.events
        return [
            *((change, self._show_photos) for change in (layers.inserted, layers.removed, layers.renamed)),
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
            self._steps = self.workspace.last_made
        self._show_recordings()
        self._show_state(self.workspace.state)

    @property
    def recording(self) -> Recording | None:
        """The chosen run."""
        index = self.runs.currentIndex()
        return self.workspace.recordings[index] if 0 <= index < len(self.workspace.recordings) else None

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
        reference: weakref.ref[Any] | None = self.photos.currentData()
        layer = reference() if reference is not None else None
        if layer is None:
            self.text.setText("Open a photo first: File > Open, or File > Open Sample > MST++ Hyperspectral.")
            return False
        photo = LayerPhoto.of(layer, self.viewer.dims.point)
        return self.workspace.run(photo, self.models.currentData(), job=attention_jobs.record_now)

    def make_map(self, overlay: str, *_: object) -> bool:
        """Make a map of the chosen head over the photo of the run; False if nothing started."""
        selection, recording = self.selection, self.recording
        if selection is None or recording is None:
            return False
        if overlay == SENSITIVITY.name:
            at = self._picked(recording)
            if at is None:
                return False
            make = partial(attention_jobs.make_sensitivity, recording.record, *at)
        else:
            make = partial(attention_jobs.make_map, recording.record, overlay, selection)
        return self._start(attention_jobs.MapJob(make, self.new_layer.isChecked()))

    def make_steps(self) -> bool:
        """Take the chosen head apart on the photo of the run; False if nothing started."""
        if self._head is None:
            return False
        recording, block, head = self._head
        return self._start(partial(attention_jobs.make_steps, recording.record, block, head))

    def save(self, path: str | Path) -> Path:
        """Save the matrices of the run, with its maps in the viewer (`.npz`), or the newest map (`.tif`).

        Raises
        ------
        NapariMstError
            If there is nothing of the kind, or the file cannot be written; an existing file is replaced.
        """
        path, maps = Path(path), [map_of(layer) for layer in map_layers(self.viewer)]
        if path.suffix.lower() in (".tif", ".tiff"):
            if not maps:
                raise AttentionError("Expected a map to save as TIFF, got none. Make one first.")
            return write_map(path, maps[-1], overwrite=True)
        if self.recording is None:
            raise AttentionError("Expected a run to save, got none. Record one first.")
        record = self.recording.record
        own = [one for one in maps if one.provenance.source_sha256 == record.provenance.source_sha256]
        return write_attention(path, record, own, overwrite=True)

    def open(self, path: str | Path) -> None:
        """Show the matrices of a file beside the runs. Raises `AttentionError`."""
        record = read_attention(path)
        self.workspace.keep(Recording(record, f"{Path(path).name}: {record.provenance.source}"))

    def _start(self, job: Callable[..., Any]) -> bool:
        recording = self.recording
        reference = recording.reference if recording is not None else None
        photo = reference.photo() if isinstance(reference, LayerReference) else None
        if recording is None or photo is None or photo.layer() not in self.viewer.layers:
            self.text.setText("The photo of this run is no longer in the viewer. Open it and record it again.")
            return False
        return self.workspace.run(photo, recording.model, recording.device, job=job)

    def _picked(self, recording: Recording) -> tuple[int, int, int] | None:
        """Band that is shown, row and column of the last pick on the cube of this run; None, and a hint, if none is."""
        layer, points = active_cube_layer(self.viewer), picks.picks_layer(self.viewer)
        cube = cube_of(layer)
        pixels: list[list[int]] = []
        if layer is not None and points is not None and points.visible:
            at, inside = picks.pixels_of(points, layer)
            pixels = at[inside].tolist()
        if layer is None or cube is None or not pixels:
            self.text.setText("Pin a spectrum first: in the dock Spectra, click a pixel of the cube.")
            return None
        cube_of_run = recording.record.provenance
        if any(getattr(cube.provenance, part) != getattr(cube_of_run, part) for part in ("source_sha256", "region")):
            self.text.setText(f"Select the cube of this run first: '{layer.name}' is of another photo or region.")
            return None
        row, column = pixels[-1]
        return band_of(layer, self.viewer.dims.point), row, column

    def _show_photos(self) -> None:
        chosen = self.photos.currentData()
        layers = photo_layers(self.viewer)
        self.photos.clear()
        for layer in layers:
            self.photos.addItem(layer.name, weakref.ref(layer))
        if chosen is not None and chosen() in layers:
            self.photos.setCurrentIndex(layers.index(chosen()))

    def _show_models(self) -> None:
        chosen = self.models.currentData()
        bundled = {card.name: card.name for card in MODELS.values() if card.file}
        used = {one.model: Path(one.model).name for one in self.workspace.recordings if one.model}
        self.models.clear()
        for model, title in {**used, **bundled}.items():
            self.models.addItem(title, model)
        cube = cube_of(active_cube_layer(self.viewer))
        wish = chosen or (cube.provenance.model if cube is not None else None)
        self.models.setCurrentIndex(max(self.models.findData(wish), 0))

    def _show_recordings(self, _: object = None) -> None:
        """List the runs, and show the newest; for a matrix that is shown, the same head of it."""
        self._show_models()
        self.runs.blockSignals(True)
        self.runs.clear()
        for number, one in enumerate(self.workspace.recordings, start=1):
            self.runs.addItem(f"{number}: {one.name}, {one.record.provenance.model or 'unknown model'}")
        self.runs.setCurrentIndex(self.runs.count() - 1)
        self.runs.blockSignals(False)
        self._show_run()

    def _show_run(self) -> None:
        recording = self.recording
        if recording is None:
            self._draw()
            return
        self.schematic.set_blocks({name: (heads * depth, heads) for name, (heads, depth) in _sizes(recording).items()})
        _, block, head = self._head or (None, "", 0)
        is_there = block in recording.record.blocks and head < len(recording.record[block].attention)
        self.choose(*((block, head) if is_there else (next(iter(recording.record)), 0)))

    def _compare(self, is_on: bool) -> None:
        self._compared = self._head if is_on else None
        self._draw()

    def _draw(self) -> None:
        self.other.setVisible(self._compared is not None)
        self._show_state(self.workspace.state)
        if self._head is None:
            return
        heads = [(self.matrix, self._head), *([(self.other, self._compared)] if self._compared else [])]
        high = max(float(one.record[block].attention[head].max()) for _, (one, block, head) in heads)
        for plot, (one, block, head) in heads:
            plot.set_head(one.name, block, head, one.record[block], high)
        same = self._compared if self._compared and self._compared[0] is self._head[0] else None
        self.schematic.choose(*self._head[1:], compared=same[1:] if same else None)
        self._show_channels()

    def _show_channels(self) -> None:
        selection = self.selection
        if selection is None:
            return
        for plot in (self.matrix, self.other):
            plot.set_cell(selection.key, selection.query)
        steps = self._steps
        if steps is not None and (steps.selection.block, steps.selection.head) == (selection.block, selection.head):
            self.steps_plot.set_steps(steps, selection.key or 0, selection.query or 0)
        self._show_values(None)

    def _show_values(self, cell: tuple[int, int] | None) -> None:
        """Say what lies under the mouse, or at the chosen channels."""
        if self._head is None:
            return
        key, query = cell or (max(self.key.value(), 0), max(self.query.value(), 0))
        told = []
        for one in (self._head, self._compared):
            if one is not None:
                block, head = one[0].record[one[1]], one[2]
                depth = block.attention.shape[-1]
                i, j = min(key, depth - 1), min(query, depth - 1)
                told.append(
                    f"A<sub>{i},{j}</sub> = <b>{block.attention[head, i, j]:.4f}</b>, "
                    f"logit {block.logits[head, i, j]:.3f}, row sum {block.attention[head, i].sum():.4f}, "
                    f"entropy {block.entropy[head, i]:.2f} bits"
                )
        self.values.setText("<br>".join(told))

    def _show_made(self, made: object, _: Request) -> None:
        if isinstance(made, AttentionSteps):
            self._steps = made
            self.tabs.setCurrentIndex(2)
            if self._head is not None:
                self._show_channels()
        elif isinstance(made, AttentionMap):
            self.text.setText(f"{made.selection}: the sum over the padded photo is {made.total:.5g} ({made.unit}).")

    def _show_state(self, state: JobState) -> None:
        is_idle, has_head = state.phase == "idle", self._head is not None
        for button in (*self.map_buttons.values(), self.steps_button):
            button.setEnabled(is_idle and has_head)
        self.record_button.setEnabled(is_idle)
        self.save_button.setEnabled(has_head)
        self.compare_button.setEnabled(has_head)
        self.bar.setVisible(not is_idle)
        self.cancel_button.setVisible(not is_idle)
        self.cancel_button.setEnabled(state.phase == "running")
        self.bar.setValue(round(state.fraction * STEPS))
        self.text.setText(state.text or ("" if has_head else HINT))

    def _on_theme(self) -> None:
        theme = get_theme(self.viewer.theme)
        for part in (self.matrix, self.other, self.steps_plot, self.schematic):
            part.set_theme(theme)

    def _open(self) -> None:
        path, _ = QFileDialog.getOpenFileName(self, "Open attention", "", "Attention (*.npz)")
        if path:
            _told(partial(self.open, path))

    def _save(self) -> None:
        path, _ = QFileDialog.getSaveFileName(self, "Save attention", "attention.npz", "Attention (*.npz);;Map (*.tif)")
        if path:
            _told(partial(self.save, path))


def _told(action: Callable[[], object]) -> None:
    """Do it, and tell the user what went wrong."""
    try:
        action()
    except NapariMstError as error:
        show_error(str(error))


def _sizes(recording: Recording) -> dict[str, tuple[int, int]]:
    """Heads, and channels of each, by block."""
    shapes = {name: block.attention.shape for name, block in recording.record.blocks.items()}
    return {name: (heads, depth) for name, (heads, depth, _) in shapes.items()}
