"""The dock "Hyperspectral reconstruction (MST++)": choose a photo, a model and a device, run, cancel, watch."""

import weakref
from pathlib import Path

from magicgui.types import FileDialogMode
from magicgui.widgets import FileEdit
from napari.components import ViewerModel
from napari.layers import Image
from qtpy.QtCore import Qt
from qtpy.QtGui import QResizeEvent
from qtpy.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDoubleSpinBox,
    QFormLayout,
    QHBoxLayout,
    QLabel,
    QProgressBar,
    QPushButton,
    QSizePolicy,
    QVBoxLayout,
)

from napari_mst.cube import SpectralCube
from napari_mst.errors import CameraError, NapariMstError, OutOfMemory, PhotoError
from napari_mst.models import MODELS
from napari_mst.models.cards import card_of_file
from napari_mst.photo.cameras import Capture
from napari_mst.plugin.dock import Dock, Link
from napari_mst.plugin.files.recognising import attend
from napari_mst.plugin.files.saving import ask_to_save
from napari_mst.plugin.files.weights import WEIGHTS_FILES
from napari_mst.plugin.jobs.request import Request
from napari_mst.plugin.jobs.workspace import JobState
from napari_mst.plugin.reconstruct.camera_rows import CameraRows
from napari_mst.plugin.reconstruct.crop import Part, draw, photo_part
from napari_mst.plugin.reconstruct.devices import survey
from napari_mst.plugin.viewer.layer_box import LayerBox
from napari_mst.plugin.viewer.layers import quality_layer
from napari_mst.plugin.viewer.photos import LayerPhoto, photo_layers
from napari_mst.reconstruction.options import RunOptions

PRECISIONS_ROLE = Qt.ItemDataRole.UserRole + 1
STEPS = 1000
"""Steps of the progress bar."""
CORRECTION_HINT = (
    "Move spectra whose colour is not that of the photo just as far as its codes tell. Noise that the network removed "
    "stays away. For models that know how a photo shows their spectra."
)
QUALITY_HINT = (
    "Add a layer that shows how far the colours were off before the correction, in 8-bit codes."
)
PARTS: dict[str, Part] = {
    "whole photo": "whole",
    "what is on the screen": "visible",
    "a drawn rectangle": "drawn",
}
PART_HINT = (
    "How much of the photo to reconstruct. Attention is global, so a part is another image: its numbers differ from "
    "those of the whole photo."
)
ENSEMBLE_HINT = "The published 8-fold ensemble: eight times the time, nearly the same accuracy. Its spread is no error bar."
PRECISIONS = {
    "float32": "Exact to rounding.",
    "bfloat16": "16 bits: features take half the memory. On a processor faster only where numba is not installed. "
    "Not exact: the error is measured on a sample of your photo, before the run, and kept with the cube.",
    "float16": "16 bits, and finer than bfloat16, but large numbers do not fit: then you are told. Features take half "
    "the memory. The error is measured on a sample of your photo, before the run, and kept with the cube.",
    "float64": "The reference: slower, and twice the memory.",
}
MEMORY_HINT = (
    "How much of this computer's memory a run may take; automatic is most of what is free. What does not fit goes "
    "through a temporary file: slower, same numbers."
)
SAVE_HINT = "Save the cube that is selected or shown, with its wavelengths, its history and the picks on it."
FROM_FILE = "MST++ weights from a file: published, or your own"


class Paragraph(QLabel):
    """Wrapped text as high as its lines: a layout alone lets a label be lower, and cut, or higher."""

    def __init__(self) -> None:
        flags = Qt.TextInteractionFlag.TextSelectableByMouse
        super().__init__(
            wordWrap=True, textInteractionFlags=flags, textFormat=Qt.TextFormat.PlainText
        )

    def setText(self, text: str) -> None:
        """Show *text* in full."""
        super().setText(text)
        self._fit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep the text whole at another width."""
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        self.setFixedHeight(max(self.heightForWidth(self.width()), 0))


class ReconstructDock(Dock):
    """Forwards clicks to the workspace and draws what it says; `run` and `cancel` are the buttons."""

    def __init__(self, napari_viewer: ViewerModel) -> None:
        super().__init__(napari_viewer)
        self.survey = survey()
        self.photos = LayerBox(
            "The Image layer to reconstruct: RGB, grey, or the current page of a stack."
        )
        self.parts = QComboBox(toolTip=PART_HINT)
        for title, part in PARTS.items():
            self.parts.addItem(title, part)
        self.models = QComboBox()
        self.weights = FileEdit(
            mode=FileDialogMode.EXISTING_FILE,
            filter=WEIGHTS_FILES,
            tooltip="The weights, as their authors publish them.",
        )
        self.about = Paragraph()
        self.devices, self.precisions = QComboBox(), QComboBox()
        self.memory = QDoubleSpinBox(
            maximum=4096,
            decimals=1,
            singleStep=0.5,
            suffix=" GB",
            specialValueText="automatic",
            toolTip=MEMORY_HINT,
        )
        self.correction = QCheckBox("match the photo", checked=True, toolTip=CORRECTION_HINT)
        self.quality = QCheckBox("show what was off", toolTip=QUALITY_HINT)
        self.ensemble = QCheckBox("Mean of 8 flips and transposes", toolTip=ENSEMBLE_HINT)
        self.run_button, self.cancel_button = QPushButton("Run"), QPushButton("Cancel")
        self.save_button = QPushButton("Save cube ...", toolTip=SAVE_HINT)
        self.cpu_button = QPushButton("Run on the CPU instead")
        self.bar = QProgressBar(maximum=STEPS, textVisible=True)
        self.text = Paragraph()
        self._lay_out()
        self._wire()

    def _lay_out(self) -> None:
        self.form = QFormLayout(
            fieldGrowthPolicy=QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow
        )
        self.form.addRow("Photo", self.photos)
        self.form.addRow("Part", self.parts)
        self.form.addRow("Model", self.models)
        self.form.addRow("Weights", self.weights.native)
        self.form.addRow("", self.about)
        self.camera = CameraRows(self.form)
        self.form.addRow("Device", self.devices)
        self.form.addRow("Precision", self.precisions)
        self.form.addRow("Memory", self.memory)
        colours = QHBoxLayout()
        colours.addWidget(self.correction)
        colours.addWidget(self.quality)
        self.form.addRow("Colours", colours)
        self.form.addRow("Ensemble", self.ensemble)
        buttons = QHBoxLayout()
        buttons.addWidget(self.run_button)
        buttons.addWidget(self.cancel_button)
        buttons.addWidget(self.save_button)
        layout = QVBoxLayout(self)
        layout.addLayout(self.form)
        layout.addLayout(buttons)
        for widget in (self.bar, self.text, self.cpu_button):
            layout.addWidget(widget)
        self.weights.native.layout().setContentsMargins(0, 0, 0, 0)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Maximum)
        self.cpu_button.hide()

    def _wire(self) -> None:
        self.run_button.clicked.connect(self.run)
        self.cancel_button.clicked.connect(self.workspace.cancel)
        self.save_button.clicked.connect(self.save_cube)
        self.cpu_button.clicked.connect(self._run_on_cpu)
        self.parts.activated.connect(self._draw_part)
        self.photos.currentIndexChanged.connect(self._show_camera)
        self.weights.changed.connect(self._show_model)
        self.models.currentIndexChanged.connect(self._show_model)
        self.correction.toggled.connect(self.quality.setEnabled)
        self.devices.currentIndexChanged.connect(self._show_device)
        self.precisions.currentIndexChanged.connect(self._show_precision)
        self.destroyed.connect(self.workspace.cancel)
        for card in MODELS.values():
            self.models.addItem(card.title if card.file else FROM_FILE, card.name)

    def links(self) -> list[Link]:
        """See `Dock`."""
        layers = self.viewer.layers.events
        changes = (layers.inserted, layers.removed, layers.reordered, layers.renamed)
        return [
            *((change, self.refresh) for change in changes),
            (self.survey.ended, self._show_devices),
            (self.workspace.state_changed, self._show_state),
            (self.workspace.cube_ready, self._show_quality),
            (self.workspace.failed, self._offer_cpu),
            (attend(self.viewer).changed, self.refresh),
        ]

    def save_cube(self) -> None:
        """Ask for a file, and save the cube that is shown."""
        ask_to_save(self.viewer)

    def refresh(self) -> None:
        """See `Dock`."""
        chosen = self.photo
        layers = photo_layers(self.viewer)
        self.photos.clear()
        for layer in layers:
            self.photos.add(layer.name, weakref.ref(layer))
        if chosen in layers:
            self.photos.setCurrentIndex(layers.index(chosen))
        self.survey.begin()
        self._show_devices()
        self._show_state(self.workspace.state)

    def run(self) -> bool:
        """Start the reconstruction of the chosen photo; False if nothing started."""
        layer = self.photo
        if layer is None or not self.is_ready:
            return False
        if not self.model:
            self.text.setText("Choose the weights file of this model first.")
            return False
        try:
            capture = self._capture(layer)
            photo = photo_part(self.viewer, layer, self.parts.currentData())
        except (PhotoError, CameraError) as error:
            self.text.setText(str(error))
            return False
        self.cpu_button.hide()
        return self.workspace.run(
            photo,
            self.model,
            RunOptions(
                device=self.devices.currentData(),
                memory=round(self.memory.value() * 1e9) or None,
                precision=self.precisions.currentText(),
                correct_colour=self.correction.isChecked(),
                capture=capture,
                ensemble=self.ensemble.isChecked(),
            ),
        )

    def _capture(self, layer: Image) -> Capture | None:
        """How the photo came about, for a model that needs to know."""
        if not self.needs_camera:
            return None
        self.camera.check(layer)
        return self.camera.capture

    @property
    def needs_camera(self) -> bool:
        """Whether the chosen model has to be told the camera and the illuminant."""
        card = MODELS[self.models.currentData()]
        own = card if card.file else card_of_file(Path(self.model))
        return own is not None and own.needs_camera

    @property
    def is_ready(self) -> bool:
        """Whether the devices are known, so that a job can start."""
        return self.devices.count() > 0

    @property
    def photo(self) -> Image | None:
        """The chosen layer."""
        layer: weakref.ref[Image] | None = self.photos.currentData()
        return layer() if layer is not None else None

    @property
    def model(self) -> str:
        """The chosen model: a name of `MODELS`, or the path of a weights file; "" if none is chosen."""
        card = MODELS[self.models.currentData()]
        return card.name if card.file else self.weights.line_edit.value

    def _draw_part(self) -> None:
        """A rectangle was chosen: let the user draw it."""
        if self.parts.currentData() == "drawn" and self.photo is not None:
            draw(self.viewer, self.photo)
            self.text.setText("Draw a rectangle on the photo, then press Run.")

    def _show_devices(self) -> None:
        """List the devices, once they are known."""
        is_known = self.survey.devices or self.survey.error
        if self.is_ready or not is_known:
            return
        if self.survey.error:
            self._add_device("automatic", "auto", self.survey.error, ("float32",))
        else:
            best = self.survey.devices[0]
            self._add_device(
                f"automatic ({best.name})", "auto", f"{best.name}: {best.reason}", best.precisions
            )
        for device in self.survey.devices:
            self._add_device(
                device.name, device.name, f"{device.name}: {device.reason}", device.precisions
            )
        self._show_device()
        self._show_state(self.workspace.state)

    def _add_device(self, text: str, name: str, reason: str, precisions: tuple[str, ...]) -> None:
        index = self.devices.count()
        self.devices.addItem(text, name)
        self.devices.setItemData(index, precisions, PRECISIONS_ROLE)
        self.devices.setItemData(index, reason, Qt.ItemDataRole.ToolTipRole)

    def _show_device(self) -> None:
        self.devices.setToolTip(self.devices.currentData(Qt.ItemDataRole.ToolTipRole))
        self._offer(self.devices.currentData(PRECISIONS_ROLE))
        if not self.workspace.is_busy:
            self.text.setText(self._hint())

    def _offer(self, precisions: tuple[str, ...] | None) -> None:
        """Offer the *precisions* of the chosen device; the one that was chosen stays if it is among them."""
        chosen = self.precisions.currentText()
        self.precisions.clear()
        for index, name in enumerate(precisions or ()):
            self.precisions.addItem(name)
            self.precisions.setItemData(index, PRECISIONS[name], Qt.ItemDataRole.ToolTipRole)
        self.precisions.setCurrentIndex(max(self.precisions.findText(chosen), 0))

    def _show_precision(self) -> None:
        self.precisions.setToolTip(self.precisions.currentData(Qt.ItemDataRole.ToolTipRole))

    def _show_model(self) -> None:
        card = MODELS[self.models.currentData()]
        self.form.setRowVisible(self.weights.native, not card.file)
        self._show_camera()
        nm = card.wavelengths
        bands = f"{len(nm)} bands, {nm[0]:g}-{nm[-1]:g} nm" if nm else "unknown bands"
        self.about.setText(f"{bands}, {card.quantity}. {card.domain}")
        measured = (
            f"{data}: {', '.join(f'{name} {value:g}' for name, value in values.items())}"
            for data, values in card.accuracy.items()
        )
        facts = [
            f"Training data: {card.training_data}",
            *measured,
            f"Licence: {card.licence}",
            card.reference,
        ]
        self.about.setToolTip("\n".join(facts))

    def _show_camera(self) -> None:
        self.camera.show(self.photo, is_needed=self.needs_camera)
        if not self.workspace.is_busy:
            self.text.setText(self._hint())

    def _show_state(self, state: JobState) -> None:
        is_idle = state.phase == "idle"
        self.run_button.setEnabled(is_idle and self.is_ready and self.photos.count() > 0)
        self.cancel_button.setEnabled(state.phase == "running")
        self.bar.setVisible(not is_idle)
        self.bar.setValue(round(state.fraction * STEPS))
        self.bar.setFormat("" if is_idle else f"%p %{_time_left(state.seconds_left)}")
        is_told = state.is_of_cube and state.text and (not is_idle or self.photos.count())
        self.text.setText(state.text if is_told else self._hint())

    def _hint(self) -> str:
        if not self.photos.count():
            return "Open a photo first: File > Open, or File > Open Sample > napari-mst."
        ready = (
            f"Ready for {self.devices.toolTip()}." if self.is_ready else "Looking for devices ..."
        )
        return f"{self.camera.hint} {ready}".lstrip()

    def _show_quality(self, cube: SpectralCube, photo: LayerPhoto) -> None:
        layer = quality_layer(cube, f"{photo.name} (colours off)", photo.placement_of(cube))
        if layer is not None and self.quality.isChecked():
            active = self.viewer.layers.selection.active
            self.viewer.add_image(layer[0], **layer[1], visible=False)
            self.viewer.layers.selection.active = active

    def _offer_cpu(self, error: NapariMstError, request: Request) -> None:
        has_gpu = self.devices.count() > 2
        self.cpu_button.setVisible(
            isinstance(error, OutOfMemory) and has_gpu and request.options.device != "cpu"
        )

    def _run_on_cpu(self) -> None:
        self.devices.setCurrentIndex(self.devices.findData("cpu"))
        self.run()


def _time_left(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f", {seconds:.0f} s left" if seconds < 90 else f", {seconds / 60:.0f} min left"
