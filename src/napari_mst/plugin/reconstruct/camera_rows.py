"""The rows of the form that tell how a linear photo came about: camera, illuminant and white."""

from collections.abc import Iterable

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
)

from napari_mst.photo.cameras import ESTIMATED, load_cameras, load_illuminants
from napari_mst.plugin.reconstruct.form import ReconstructionForm
from napari_mst.plugin.reconstruct.texts import (
    BALANCED_HINT,
    CAMERA_HINT,
    ILLUMINANT_HINT,
    LINEAR_HINT,
    WHITE_HINT,
)

FILE = "file"
"""Value of the entry that opens a dialog."""
TABLES = "Tables (*.csv);;All files (*)"
LETTERS = 12
"""Width of a box in letters, at least; the names in its list may be longer."""


class CameraRows:
    """Rows at the end of a layout, hidden until the model needs them."""

    def __init__(self, layout: QFormLayout) -> None:
        self._layout = layout
        self.camera = SearchBox(load_cameras(), CAMERA_HINT)
        self.illuminant = SearchBox((ESTIMATED, *load_illuminants()), ILLUMINANT_HINT)
        self.white = QLineEdit(placeholderText="full scale", toolTip=WHITE_HINT)
        self.balanced = QCheckBox("balanced", checked=True, toolTip=BALANCED_HINT)
        self.linear = QCheckBox("8 bits, yet linear", toolTip=LINEAR_HINT)
        numbers = QDoubleValidator(0.0, 1e9, 6, self.white)
        # The validator and `float` agree on the point, wherever the user lives.
        numbers.setLocale(QLocale.c())
        self.white.setValidator(numbers)
        self._white_row = QHBoxLayout()
        self._white_row.addWidget(self.white, 1)
        self._white_row.addWidget(self.balanced)
        layout.addRow("Camera", self.camera)
        layout.addRow("Illuminant", self.illuminant)
        layout.addRow("White", self._white_row)
        layout.addRow("", self.linear)

    @property
    def white_value(self) -> float:
        """The number in the field of the white; 0 if it is empty."""
        return float(self.white.text() or 0)

    def draw(self, form: ReconstructionForm) -> None:
        """Show what *form* says, or hide all rows."""
        is_found = form.finding is not None and form.finding.capture is not None
        for row in (self.camera, self.illuminant, self._white_row):
            self._layout.setRowVisible(row, form.needs_camera and not is_found)
        self._layout.setRowVisible(self.linear, form.asks_if_linear)
        self.camera.show_text(form.camera)
        self.illuminant.show_text(form.illuminant)
        # A number that is still being typed ("4.") must not be written again.
        if self.white_value != form.white:
            self.white.setText(f"{form.white:g}" if form.white else "")
        self.balanced.setChecked(form.is_balanced)
        self.linear.setChecked(form.is_linear)


class _Completer(QCompleter):
    """Finds what is typed with spaces among names that have underscores."""

    def splitPath(self, path: str) -> list[str]:
        return [path.replace(" ", "_")]


class SearchBox(QComboBox):
    """A box to search *names* in, with nothing chosen; its last entry asks for a file."""

    def __init__(self, names: Iterable[str], hint: str) -> None:
        super().__init__(editable=True, insertPolicy=QComboBox.InsertPolicy.NoInsert, toolTip=hint)
        for name in names:
            self.addItem(name)
        self.addItem("of a CSV file ...", FILE)
        self.setCurrentIndex(-1)
        self.setCompleter(self._new_completer())
        # By default the longest name would set the width, which has to fit into a narrow dock.
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.setMinimumContentsLength(LETTERS)
        self.lineEdit().setPlaceholderText("choose, or type to search")
        self.lineEdit().textEdited.connect(self._dress)
        self.activated.connect(self._on_activated)

    def show_text(self, text: str) -> None:
        """Show *text*; the cursor stays where it is if the box shows it already."""
        if self.currentText() != text:
            self.setEditText(text)

    def _new_completer(self) -> QCompleter:
        completer = _Completer(parent=self)
        completer.setModel(self.model())
        completer.setFilterMode(Qt.MatchFlag.MatchContains)
        completer.setCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
        return completer

    def _dress(self) -> None:
        """Give the list of matches the colours of the window.

        The list is a window of its own, which does not take on napari's style by itself.
        """
        popup = self.completer().popup()
        style = self.window().styleSheet()
        if popup.styleSheet() != style:
            popup.setStyleSheet(style)

    def _on_activated(self, index: int) -> None:
        if self.itemData(index) == FILE:
            self._ask_for_file()

    def _ask_for_file(self) -> None:
        path, _ = QFileDialog.getOpenFileName(self, "Open table", filter=TABLES)
        # The words of the entry must not stay in the box, where they would be the name of a camera.
        self.setCurrentIndex(-1)
        self.setEditText(path)
