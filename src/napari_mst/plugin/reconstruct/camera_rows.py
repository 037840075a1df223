"""The rows of a form that tell how a linear photo came about: camera, illuminant, white level and balance."""

from collections.abc import Iterable
from pathlib import Path

from napari.layers import Image
from qtpy.QtCore import QLocale, Qt
from qtpy.QtGui import QDoubleValidator
from qtpy.QtWidgets import (
    QCheckBox,
    QComboBox,
    QCompleter,
    QFileDialog,
    QFormLayout,
    QHBoxLayout,
    QLineEdit,
    QWidget,
)

from napari_mst.errors import CameraError, PhotoError
from napari_mst.photo.cameras import (
    BALANCED,
    OF_SENSOR,
    Capture,
    load_cameras,
    load_illuminants,
    matching_camera,
)
from napari_mst.photo.files import camera_named_in

_FILE = "file"  # the entry that opens a dialog
_TABLES = "Tables (*.csv);;All files (*)"
CAMERA_HINT = (
    "What took the photo: type a part of the name. A CSV file holds lines of nm, red, green, blue."
)
ILLUMINANT_HINT = "The light that the photo was taken in. A CSV file holds lines of nm, power."
WHITE_HINT = (
    "The stored value of a white surface, reflectance 1. Left empty, it is the full scale of the file: spectra of an "
    "under-exposed photo are then too dark, with the right shape."
)
BALANCED_HINT = "White and grey surfaces have equal red, green and blue. If not, the camera's own balance is computed."
LINEAR_HINT = "8-bit photos are nearly always sRGB-encoded, and refused. Tick this if yours holds linear light."


class CameraRows:
    """Rows at the end of *form*, hidden until needed: `capture` is what they say, `hint` what was preselected."""

    def __init__(self, form: QFormLayout) -> None:
        self._form, self._suggested, self.hint = form, "", ""
        self.camera = _choices(load_cameras(), "of a CSV file ...", CAMERA_HINT)
        self.illuminant = _choices(load_illuminants(), "of a CSV file ...", ILLUMINANT_HINT)
        self.white = QLineEdit(placeholderText="full scale", toolTip=WHITE_HINT)
        numbers = QDoubleValidator(0.0, 1e9, 6, self.white)
        numbers.setLocale(QLocale.c())
        self.white.setValidator(numbers)
        self.balanced = QCheckBox("balanced", checked=True, toolTip=BALANCED_HINT)
        self.linear = QCheckBox("8 bits, yet linear", toolTip=LINEAR_HINT)
        ticks = QHBoxLayout()
        ticks.addWidget(self.white, 1)
        ticks.addWidget(self.balanced)
        self._rows: tuple[QWidget | QHBoxLayout, ...] = (
            self.camera,
            self.illuminant,
            ticks,
            self.linear,
        )
        for title, row in zip(("Camera", "Illuminant", "White", ""), self._rows, strict=True):
            form.addRow(title, row)
        self.show(None, is_needed=False)

    def show(self, layer: Image | None, *, is_needed: bool) -> None:
        """Show the rows for the photo of *layer*, or hide them all."""
        for row in self._rows:
            self._form.setRowVisible(row, is_needed)
        self._form.setRowVisible(
            self.linear, is_needed and layer is not None and layer.dtype == "uint8"
        )
        self.hint = self._suggest(layer) if is_needed else ""

    @property
    def capture(self) -> Capture:
        """What was chosen. Raises `CameraError` if something is missing, or unknown."""
        if not self.camera.currentText().strip():
            raise CameraError(
                "Expected the camera of the photo, got none. Choose it, or type a part of its name."
            )
        if not self.illuminant.currentText().strip():
            raise CameraError(
                "Expected the illuminant of the photo, got none. Choose the light that it was taken in."
            )
        balance = BALANCED if self.balanced.isChecked() else OF_SENSOR
        camera, illuminant = (box.currentText().strip() for box in (self.camera, self.illuminant))
        return Capture(camera, illuminant, float(self.white.text() or 0), balance)

    def check(self, layer: Image) -> None:
        """Refuse the photo of *layer* if it is plainly not linear: see `Photo.check_linear`. Raises `PhotoError`."""
        if layer.dtype == "uint8" and not self.linear.isChecked():
            raise PhotoError(
                "Expected linear values of 16 bits or floats, got 8 bits, which are nearly always sRGB-encoded. Open "
                "the raw file as a linear 16-bit TIFF, or tick that these are linear."
            )

    def _suggest(self, layer: Image | None) -> str:
        """Choose the camera that the file of *layer* names, if nobody has chosen another; one sentence if it did."""
        path = layer.source.path if layer is not None else None
        name = matching_camera(*camera_named_in(Path(path))) if path else ""
        if not name or self.camera.currentText().strip() not in ("", self._suggested):
            return ""
        self.camera.setCurrentText(name)
        self._suggested = name
        return f"The file says that {self._suggested} took it: check the camera."


class _Completer(QCompleter):
    """Finds what is typed with spaces in names that have none."""

    def splitPath(self, path: str) -> list[str]:
        return [path.replace(" ", "_")]


class SearchBox(QComboBox):
    """A box to search in, whose entry `_FILE` asks for a file."""

    def __init__(self) -> None:
        super().__init__(editable=True, insertPolicy=QComboBox.InsertPolicy.NoInsert)
        completer = _Completer(parent=self)
        completer.setModel(self.model())
        completer.setFilterMode(Qt.MatchFlag.MatchContains)
        completer.setCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
        self.setCompleter(completer)
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.setMinimumContentsLength(12)
        self.lineEdit().setPlaceholderText("choose, or type to search")
        self.lineEdit().textEdited.connect(self._dress)
        self.activated.connect(self._on_activated)

    def _dress(self) -> None:
        """Give the list of what was found, a window of its own, the colours of the window that the box is in."""
        popup = self.completer().popup()
        style = self.window().styleSheet()
        if popup.styleSheet() != style:
            popup.setStyleSheet(style)

    def _on_activated(self, index: int) -> None:
        if self.itemData(index) == _FILE:
            self._ask_for_file()

    def _ask_for_file(self) -> None:
        path, _ = QFileDialog.getOpenFileName(self, "Open table", filter=_TABLES)
        self.setCurrentIndex(-1)
        self.setEditText(path)


def _choices(names: Iterable[str], last: str, hint: str) -> QComboBox:
    """A box to search *names* in, with nothing chosen; its *last* entry asks for a file."""
    box: QComboBox = SearchBox()
    box.setToolTip(hint)
    for name in names:
        box.addItem(name)
    box.addItem(last, _FILE)
    box.setCurrentIndex(-1)
    return box
