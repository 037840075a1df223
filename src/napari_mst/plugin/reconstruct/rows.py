"""The rows of the reconstruction form as widgets: each writes one field of the form."""

from collections.abc import Callable, Sequence
from typing import Any

from magicgui.types import FileDialogMode
from magicgui.widgets import FileEdit
from napari.components import ViewerModel
from napari.layers import Image
from qtpy.QtCore import Qt
from qtpy.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDoubleSpinBox,
    QFormLayout,
    QVBoxLayout,
    QWidget,
)

from napari_mst.plugin.dock import Link
from napari_mst.plugin.files.weights import WEIGHTS_FILES
from napari_mst.plugin.reconstruct import texts
from napari_mst.plugin.reconstruct.camera_rows import CameraRows
from napari_mst.plugin.reconstruct.crop import Part
from napari_mst.plugin.reconstruct.denoise_row import DenoiseRow
from napari_mst.plugin.reconstruct.finding_rows import FindingRows
from napari_mst.plugin.reconstruct.fold import Fold
from napari_mst.plugin.reconstruct.form import ReconstructionForm
from napari_mst.plugin.reconstruct.frame_rows import FrameRows
from napari_mst.plugin.viewer.layer_box import LayerBox
from napari_mst.plugin.viewer.paragraph import Paragraph
from napari_mst.plugin.viewer.slots import calling

PARTS: dict[str, Part] = {
    "whole photo": "whole",
    "what is on the screen": "visible",
    "a drawn rectangle": "drawn",
}
MOST_MEMORY = 4096
"""GB."""
LETTERS = 8
"""Width of a list in letters, at least."""


class FormRows(QWidget):
    """Writes what the user does into *form*, and draws it again while it is listened to."""

    def __init__(self, form: ReconstructionForm, viewer: ViewerModel) -> None:
        super().__init__()
        self.form = form
        self.photos = LayerBox(texts.PHOTO_HINT)
        self.parts = QComboBox(toolTip=texts.PART_HINT)
        self.models = QComboBox(toolTip=texts.MODEL_HINT)
        self.weights = FileEdit(
            mode=FileDialogMode.EXISTING_FILE, filter=WEIGHTS_FILES, tooltip=texts.WEIGHTS_HINT
        )
        self.about = Paragraph()
        self.devices = QComboBox(toolTip=texts.DEVICE_HINT)
        self.precisions = QComboBox(toolTip=texts.PRECISION_HINT)
        self.memory = QDoubleSpinBox(
            maximum=MOST_MEMORY,
            decimals=1,
            singleStep=0.5,
            suffix=" GB",
            specialValueText="automatic",
            toolTip=texts.MEMORY_HINT,
        )
        self.denoise = DenoiseRow()
        self.correction = QCheckBox("match the photo", toolTip=texts.CORRECTION_HINT)
        self.quality = QCheckBox("show what was off", toolTip=texts.QUALITY_HINT)
        self.ensemble = QCheckBox("mean of 8 flips", toolTip=texts.ENSEMBLE_HINT)
        self._readers: dict[str, Callable[[], Any]] = {}
        self._is_drawing = False
        self._lay_out(viewer)
        self._fill()
        # Filling a list selects its first entry, which is no choice of the user: bind it later.
        self._bind_all()
        self.draw()

    def links(self) -> list[Link]:
        """See `Dock`."""
        return [(self.form.events, self.draw)]

    def _lay_out(self, viewer: ViewerModel) -> None:
        for box in (self.photos, self.parts, self.models, self.devices, self.precisions):
            _let_shrink(box)
        self._layout = _form_layout()
        self._layout.addRow("Photo", self.photos)
        self._layout.addRow("Part", self.parts)
        self._layout.addRow("Model", self.models)
        self._layout.addRow("Weights", self.weights.native)
        self._layout.addRow("", self.about)
        self.camera = CameraRows(self._layout)
        self.findings = FindingRows(self._layout, viewer)
        self.settings = Fold("Settings", self._settings(), texts.SETTINGS_HINT)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addLayout(self._layout)
        layout.addWidget(self.settings)
        self.weights.native.layout().setContentsMargins(0, 0, 0, 0)
        for part in (self.weights.line_edit, self.weights.choose_btn):
            part.native.setToolTip(texts.WEIGHTS_HINT)

    def _settings(self) -> QWidget:
        """The rows that are folded away."""
        rows = QWidget()
        layout = _form_layout(rows)
        layout.addRow("Device", self.devices)
        layout.addRow("Precision", self.precisions)
        layout.addRow("Memory", self.memory)
        layout.addRow("Denoise", self.denoise)
        layout.addRow("Colours", self.correction)
        layout.addRow("", self.quality)
        layout.addRow("Ensemble", self.ensemble)
        self.frames = FrameRows(layout)
        return rows

    def _fill(self) -> None:
        """List what never changes."""
        for title, part in PARTS.items():
            self.parts.addItem(title, part)
        for card in self.form.cards.values():
            self.models.addItem(card.title if card.file else texts.FROM_FILE, card.name)

    def _bind_all(self) -> None:
        bind = self._bind
        bind(self.photos.currentIndexChanged, "photo", self.photos.currentData)
        bind(self.parts.currentIndexChanged, "part", self.parts.currentData)
        bind(self.models.currentIndexChanged, "card", self.models.currentData)
        # `value` would turn an empty path into ".", which is no file.
        bind(self.weights.changed, "weights", lambda: self.weights.line_edit.value)
        bind(self.devices.currentIndexChanged, "device", self.devices.currentData)
        bind(self.precisions.currentIndexChanged, "precision", self.precisions.currentText)
        bind(self.memory.valueChanged, "memory", self.memory.value)
        bind(self.denoise.choices.currentIndexChanged, "denoise", self.denoise.choices.currentData)
        bind(self.denoise.h.valueChanged, "denoise_h", self.denoise.h.value)
        bind(self.correction.toggled, "has_correction", self.correction.isChecked)
        bind(self.quality.toggled, "has_quality", self.quality.isChecked)
        bind(self.ensemble.toggled, "is_ensemble", self.ensemble.isChecked)
        camera = self.camera
        bind(camera.camera.editTextChanged, "camera", camera.camera.currentText)
        bind(camera.illuminant.editTextChanged, "illuminant", camera.illuminant.currentText)
        bind(camera.white.textChanged, "white", lambda: camera.white_value)
        bind(camera.balanced.toggled, "is_balanced", camera.balanced.isChecked)
        bind(camera.linear.toggled, "is_linear", camera.linear.isChecked)
        bind(self.findings.grey.valueChanged, "grey", self.findings.grey.value)
        frames = self.frames
        bind(frames.white.changed, "white_frame", lambda: frames.white.line_edit.value)
        bind(frames.dark.changed, "dark_frame", lambda: frames.dark.line_edit.value)
        bind(frames.reflectance.valueChanged, "frame_reflectance", frames.reflectance.value)
        bind(self.findings.kind.currentIndexChanged, "chart", self.findings.kind.currentData)
        self.findings.bars.chosen.connect(self._take_light)
        self.findings.correct_white.toggled.connect(self._correct_white)
        self.findings.forget.connect(self._forget)

    def _bind(self, changed: Any, field: str, read: Callable[[], Any]) -> None:
        """Write what *read* returns into *field* of the form, whenever a widget has *changed*."""
        self._readers[field] = read
        changed.connect(calling(self._forward, field))

    def _forward(self, field: str) -> None:
        # A widget that is being drawn has nothing to tell.
        if not self._is_drawing:
            setattr(self.form, field, self._readers[field]())

    def _take_light(self, name: str) -> None:
        self.form.take_light(name)

    def _correct_white(self, is_wanted: bool) -> None:
        if not self._is_drawing:
            self.form.correct_white(is_wanted)

    def _forget(self) -> None:
        self.form.finding = None

    def show_photos(self, layers: Sequence[Image]) -> None:
        """List *layers*; the chosen one stays chosen."""
        self._is_drawing = True
        self.photos.set_layers(layers, self.form.layer)
        self._is_drawing = False
        # If the chosen layer is gone, the list shows its first one, and the form has to hear of it.
        self._forward("photo")

    def draw(self, _: object = None) -> None:
        """Draw what the form says."""
        form = self.form
        self._is_drawing = True
        select(self.photos, form.photo)
        select(self.parts, form.part)
        select(self.models, form.card)
        self._draw_model()
        self.camera.draw(form)
        self.findings.draw(form)
        self.frames.draw(form)
        self._draw_device()
        self.memory.setValue(form.memory)
        self.denoise.draw(form)
        self.correction.setChecked(form.has_correction)
        self.quality.setChecked(form.has_quality)
        self.quality.setEnabled(form.has_correction)
        self.ensemble.setChecked(form.is_ensemble)
        self.settings.set_title(texts.settings_title(form))
        self._is_drawing = False

    def _draw_model(self) -> None:
        card = self.form.chosen_card
        self._layout.setRowVisible(self.weights.native, not card.file)
        # Setting the same text would move the cursor of a user who is typing.
        if self.weights.line_edit.value != self.form.weights:
            self.weights.line_edit.value = self.form.weights
        self.about.setText(texts.model_summary(card))
        self.about.setToolTip(texts.model_facts(card))
        self.models.setToolTip(f"{texts.MODEL_HINT}\n{texts.model_facts(card)}")

    def _draw_device(self) -> None:
        """List the devices, and the precisions of the chosen one."""
        self.devices.clear()
        for index, entry in enumerate(self.form.devices):
            self.devices.addItem(entry.title, entry.name)
            self.devices.setItemData(index, entry.about, Qt.ItemDataRole.ToolTipRole)
        select(self.devices, self.form.device)
        chosen = self.form.chosen_device
        about = texts.DEVICE_HINT if chosen is None else chosen.about
        self.devices.setToolTip(about)
        self.precisions.clear()
        for index, name in enumerate(() if chosen is None else chosen.precisions):
            self.precisions.addItem(name)
            hint = texts.PRECISION_HINTS[name]
            self.precisions.setItemData(index, hint, Qt.ItemDataRole.ToolTipRole)
        self.precisions.setCurrentText(self.form.precision)
        self.precisions.setToolTip(texts.PRECISION_HINTS[self.form.precision])


def select(box: QComboBox, value: object) -> None:
    """Select the entry of *box* that holds *value*, if there is one."""
    index = box.findData(value)
    if index >= 0:
        box.setCurrentIndex(index)


def _form_layout(parent: QWidget | None = None) -> QFormLayout:
    growing = QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow
    layout = QFormLayout(parent, fieldGrowthPolicy=growing)
    layout.setContentsMargins(0, 0, 0, 0)
    return layout


def _let_shrink(box: QComboBox) -> None:
    """Let *box* be narrower than its longest entry, which would widen the dock."""
    box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
    box.setMinimumContentsLength(LETTERS)
