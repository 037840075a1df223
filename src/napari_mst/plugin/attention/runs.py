"""The lists of the attention dock: photos and models to record, and the recorded runs."""

import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from napari.layers import Image
from qtpy.QtWidgets import QComboBox, QGridLayout, QLabel, QPushButton, QWidget

from napari_mst.models import MODELS
from napari_mst.plugin.files.weights import ask_for_weights
from napari_mst.plugin.jobs.request import Recording
from napari_mst.plugin.viewer.layer_box import LayerBox

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
        policy = QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
        for row, (title, choices, button) in enumerate(rows):
            choices.setMinimumContentsLength(LETTERS)
            choices.setSizeAdjustPolicy(policy)
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
        # The entry is no model: the list shows the one before again, whatever the user answers.
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
