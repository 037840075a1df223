"""The parts of the attention dock, laid out: runs, schematic, channels, pages and progress."""

import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from napari.layers import Image
from napari.utils.theme import Theme
from qtpy.QtCore import Signal
from qtpy.QtWidgets import (
    QComboBox,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QSpinBox,
    QTabWidget,
    QVBoxLayout,
    QWidget,
)

from napari_mst.models import MODELS
from napari_mst.plugin.attention.exploration import Exploration, RecordedHead
from napari_mst.plugin.attention.pages import MapPage, MatrixPage, StepsPage
from napari_mst.plugin.attention.pixel_page import PixelPage
from napari_mst.plugin.attention.schematic import Schematic
from napari_mst.plugin.dock import JobBar
from napari_mst.plugin.files.opening import ask_for_weights
from napari_mst.plugin.jobs.request import Recording
from napari_mst.plugin.jobs.workspace import JobState
from napari_mst.plugin.viewer.widgets import LayerBox, let_shrink

FROM_FILE = "file"
"""Value of the entry that asks for a file of weights."""
LETTERS = 8
"""Width of a list in letters, at least; else a long name would widen the dock."""
RUNS_HINT = (
    "The recorded runs; every run of the reconstruction dock is among them. "
    "A region has an attention of its own. "
    "For the mean of eight flips and transposes, it is the attention of the photo as it is."
)
RECORD_HINT = "Run the photo once and record its attention."
OPEN_HINT = "Open saved matrices, to compare with them."
SAVE_HINT = "Save all matrices of this run with its maps (.npz), or only the newest map (.tif)."


class RunBox(QWidget):
    """The lists of photos, models and runs, with a button beside each."""

    def __init__(self) -> None:
        super().__init__()
        self.photos = LayerBox("The photo to record.")
        self.models = QComboBox(toolTip="The model to record.")
        self.runs = QComboBox(toolTip=RUNS_HINT)
        self.record_button = QPushButton("Record", toolTip=RECORD_HINT)
        self.open_button = QPushButton("Open ...", toolTip=OPEN_HINT)
        self.save_button = QPushButton("Save ...", toolTip=SAVE_HINT)
        self._weights: list[str] = []
        self._chosen = 0
        # "activated" comes from a person alone; filling the list is no choice.
        self.models.activated.connect(self._on_model)
        self._lay_out()

    def _lay_out(self) -> None:
        form = QGridLayout(self)
        form.setContentsMargins(0, 0, 0, 0)
        form.setColumnStretch(1, 1)
        rows = (
            ("Photo", self.photos, self.record_button),
            ("Model", self.models, self.open_button),
            ("Run", self.runs, self.save_button),
        )
        for row, (title, choices, button) in enumerate(rows):
            let_shrink(choices, LETTERS)
            form.addWidget(QLabel(title), row, 0)
            form.addWidget(choices, row, 1)
            form.addWidget(button, row, 2)

    @property
    def layer(self) -> Image | None:
        """The layer of the chosen photo."""
        reference: weakref.ref[Any] | None = self.photos.currentData()
        return reference() if reference is not None else None

    def show_photos(self, layers: Sequence[Image]) -> None:
        """List *layers*; the chosen one stays chosen."""
        self.photos.set_layers(layers, self.layer)

    def show_models(self, recordings: Sequence[Recording], wish: str | None) -> None:
        """List the bundled models and those of *recordings*; the chosen one stays, else *wish*."""
        chosen = self.models.currentData()
        self.models.clear()
        for model, title in self._titles(recordings).items():
            self.models.addItem(title, model)
        self.models.addItem("weights from a file ...", FROM_FILE)
        self.models.setCurrentIndex(max(self.models.findData(chosen or wish), 0))
        self._chosen = self.models.currentIndex()

    def _titles(self, recordings: Sequence[Recording]) -> dict[str, str]:
        """Title of each model that can be recorded: opened files, models of runs, bundled ones."""
        opened = {path: Path(path).name for path in self._weights}
        used = {one.model: Path(one.model).name for one in recordings if one.model}
        # Only the reconstruction dock can ask for the camera that some models need.
        bundled = [card for card in MODELS.values() if card.file and not card.needs_camera]
        return opened | used | {card.name: card.name for card in bundled}

    def add_weights(self, path: str) -> None:
        """List the weights file at *path* as a model, and choose it."""
        if path not in self._weights:
            self._weights.append(path)
            self.models.insertItem(0, Path(path).name, path)
        self.models.setCurrentIndex(self.models.findData(path))
        self._chosen = self.models.currentIndex()

    def _on_model(self, index: int) -> None:
        if self.models.itemData(index) != FROM_FILE:
            self._chosen = index
            return
        # The entry is no model: the list shows the one before again, even if the user cancels.
        self.models.setCurrentIndex(self._chosen)
        path = ask_for_weights(self)
        if path:
            self.add_weights(path)

    def show_runs(self, recordings: Sequence[Recording], chosen: Recording | None) -> None:
        """List *recordings* with *chosen* among them, without a signal."""
        self.runs.blockSignals(True)
        self.runs.clear()
        for number, one in enumerate(recordings, start=1):
            model = one.record.provenance.model or "unknown model"
            self.runs.addItem(f"{number}: {one.name}, {model}")
            if one is chosen:
                self.runs.setCurrentIndex(number - 1)
        self.runs.blockSignals(False)


ALL = -1
"""Value of a box that stands for all channels."""
KEY_HINT = "Key channel i: a row of A, and the output channel that this row makes."
QUERY_HINT = "Query channel j: a column of A. A click on the matrix chooses both channels."


class ChannelBoxes(QWidget):
    """Two boxes in a row; `chosen` carries key and query, with None for all channels."""

    chosen = Signal(object, object)

    def __init__(self) -> None:
        super().__init__()
        self.key = QSpinBox(minimum=ALL, maximum=0, specialValueText="all", toolTip=KEY_HINT)
        self.query = QSpinBox(minimum=ALL, maximum=0, specialValueText="all", toolTip=QUERY_HINT)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        for title, box in (("key i", self.key), ("query j", self.query)):
            layout.addWidget(QLabel(title, toolTip=box.toolTip()))
            layout.addWidget(box)
            box.valueChanged.connect(self._tell)
        layout.addStretch(1)

    def show_channels(self, count: int, key: int | None, query: int | None) -> None:
        """Show the choice among *count* channels, without a signal."""
        for box, channel in ((self.key, key), (self.query, query)):
            box.blockSignals(True)
            # The maximum comes first: Qt would cut the channel to the old one.
            box.setMaximum(count - 1)
            box.setValue(ALL if channel is None else channel)
            box.blockSignals(False)

    def _tell(self) -> None:
        self.chosen.emit(_channel(self.key), _channel(self.query))


def _channel(box: QSpinBox) -> int | None:
    return None if box.value() == ALL else int(box.value())


CANCEL_HINT = "Stop the run; nothing is left of it."


class AttentionPanel(QWidget):
    """Draws an `Exploration` and the state of the job; its parts report what the user does."""

    def __init__(self) -> None:
        super().__init__()
        self.box = RunBox()
        self.schematic = Schematic()
        self.channels = ChannelBoxes()
        self.matrices = MatrixPage()
        self.maps = MapPage()
        self.steps = StepsPage()
        self.pixel = PixelPage()
        self.tabs = QTabWidget()
        self.bar = JobBar()
        self.cancel_button = QPushButton("Cancel", toolTip=CANCEL_HINT)
        self.text = QLabel(wordWrap=True)
        self._lay_out()

    def _lay_out(self) -> None:
        self.tabs.addTab(self.matrices, "Matrix")
        self.tabs.addTab(self.maps, "Maps")
        self.tabs.addTab(self.steps, "Step by step")
        self.tabs.addTab(self.pixel, "Pixel")
        progress = QHBoxLayout()
        progress.addWidget(self.bar, stretch=1)
        progress.addWidget(self.cancel_button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.box)
        layout.addWidget(self.schematic)
        layout.addWidget(self.channels)
        layout.addWidget(self.tabs, stretch=1)
        layout.addLayout(progress)
        layout.addWidget(self.text)

    def set_theme(self, theme: Theme) -> None:
        """Take on the colours of a napari theme."""
        for part in (self.matrices, self.steps.plot, self.schematic):
            part.set_theme(theme)

    def draw_head(self, exploration: Exploration) -> None:
        """Draw the chosen head, and the one that it is compared with."""
        head = exploration.head
        if head is None:
            return
        self.matrices.set_heads([head, exploration.compared])
        self.pixel.draw_head(head)
        self.schematic.set_record(head.recording.record)
        self.schematic.choose(head.block, head.head, exploration.compared_in_run)
        self.draw_channels(exploration)

    def draw_channels(self, exploration: Exploration) -> None:
        """Mark the chosen channels, and draw the steps for them."""
        head = exploration.head
        if head is None:
            return
        key, query = exploration.key, exploration.query
        self.channels.show_channels(head.channels, key, query)
        self.matrices.set_cell(key, query)
        steps = exploration.steps
        if steps is not None:
            self.steps.plot.set_steps(steps, key or 0, query or 0)

    def show_state(self, state: JobState, *, head: RecordedHead | None) -> None:
        """Show how far the job is, and enable the buttons that can be used now."""
        has_head = head is not None
        has_matrices = head is not None and head.matrices is not None
        for button in (*self.maps.buttons.values(), self.steps.button):
            button.setEnabled(state.is_idle and has_matrices)
        self.box.record_button.setEnabled(state.is_idle)
        self.box.save_button.setEnabled(has_head)
        self.matrices.compare_button.setEnabled(has_matrices)
        self.channels.setEnabled(has_matrices)
        self.pixel.denoise_button.setEnabled(state.is_idle)
        self.bar.show_state(state)
        self.cancel_button.setVisible(not state.is_idle)
        # A job that is being cancelled is not idle yet, and is not cancelled twice.
        self.cancel_button.setEnabled(state.phase == "running")
