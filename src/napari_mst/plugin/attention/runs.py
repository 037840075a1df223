"""What the attention dock looks at: the photos and models that can be recorded, and the runs that were."""

import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from napari.layers import Image
from qtpy.QtWidgets import QComboBox, QFileDialog, QGridLayout, QLabel, QPushButton, QWidget

from napari_mst.models import MODELS
from napari_mst.plugin.jobs.workspace import Recording
from napari_mst.plugin.viewer.layer_box import LayerBox

WEIGHTS_FILES = "Weights (*.pth *.pt *.ckpt *.safetensors)"
_FILE = "file"  # the entry that opens a dialog


class RunBox(QWidget):
    """The lists of photos, models and runs, and the buttons beside them."""

    def __init__(self) -> None:
        super().__init__()
        self.photos = LayerBox("The photo to record.")
        self.models = QComboBox(toolTip="The model to record.")
        self.models.activated.connect(self._on_model)
        self._weights = list[str]()
        self._chosen = 0
        self.runs = QComboBox()
        self.runs.setToolTip(
            "The recorded runs: every run of the reconstruction dock. A region has an attention of its own; of the "
            "mean over eight flips and transposes, it is that of the photo as it is."
        )
        self.record_button = QPushButton(
            "Record", toolTip="Run the photo once and record its attention."
        )
        self.open_button = QPushButton(
            "Open ...", toolTip="Open matrices that were saved, to compare with them."
        )
        self.save_button = QPushButton("Save ...")
        self.save_button.setToolTip(
            "All matrices of this run with its maps (.npz), or the newest map alone (.tif)."
        )
        form = QGridLayout(self)
        form.setContentsMargins(0, 0, 0, 0)
        form.setColumnStretch(1, 1)
        rows = (
            ("Photo", self.photos, self.record_button),
            ("Model", self.models, self.open_button),
            ("Run", self.runs, self.save_button),
        )
        for row, (title, choices, button) in enumerate(rows):
            choices.setMinimumContentsLength(8)
            choices.setSizeAdjustPolicy(
                QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
            )
            for column, part in enumerate((QLabel(title), choices, button)):
                form.addWidget(part, row, column)

    @property
    def layer(self) -> Image | None:
        """The layer of the chosen photo."""
        reference: weakref.ref[Any] | None = self.photos.currentData()
        return reference() if reference is not None else None

    def show_photos(self, layers: Sequence[Image]) -> None:
        """List *layers*; the chosen one stays chosen."""
        chosen = self.layer
        self.photos.clear()
        for layer in layers:
            self.photos.add(layer.name, weakref.ref(layer))
        if chosen is not None and chosen in layers:
            self.photos.setCurrentIndex(list(layers).index(chosen))

    def show_models(self, recordings: Sequence[Recording], wish: str | None) -> None:
        """List the bundled models and those of *recordings*; the chosen one stays chosen, else it is *wish*."""
        chosen = self.models.currentData()
        bundled = {
            card.name: card.name for card in MODELS.values() if card.file and not card.needs_camera
        }
        used = {one.model: Path(one.model).name for one in recordings if one.model}
        self.models.clear()
        opened = {path: Path(path).name for path in self._weights}
        for model, title in {**opened, **used, **bundled}.items():
            self.models.addItem(title, model)
        self.models.addItem("weights from a file ...", _FILE)
        self.models.setCurrentIndex(max(self.models.findData(chosen or wish), 0))
        self._chosen = self.models.currentIndex()

    def add_weights(self, path: str) -> None:
        """List the weights file at *path* as a model, and choose it."""
        if path not in self._weights:
            self._weights.append(path)
            self.models.insertItem(0, Path(path).name, path)
        self.models.setCurrentIndex(self.models.findData(path))
        self._chosen = self.models.currentIndex()

    def _on_model(self, index: int) -> None:
        if self.models.itemData(index) != _FILE:
            self._chosen = index
            return
        self.models.setCurrentIndex(self._chosen)
        path, _ = QFileDialog.getOpenFileName(self, "Weights", filter=WEIGHTS_FILES)
        if path:
            self.add_weights(path)

    def show_runs(self, recordings: Sequence[Recording]) -> None:
        """List *recordings* and choose the newest, without a signal."""
        self.runs.blockSignals(True)
        self.runs.clear()
        for number, one in enumerate(recordings, start=1):
            self.runs.addItem(
                f"{number}: {one.name}, {one.record.provenance.model or 'unknown model'}"
            )
        self.runs.setCurrentIndex(self.runs.count() - 1)
        self.runs.blockSignals(False)
