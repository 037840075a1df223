"""Questions about a cube file that only a person can answer, as dialogs; never without a window that shows them."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from qtpy.QtCore import Qt, QThread, QTimer
from qtpy.QtWidgets import (
    QAbstractItemView,
    QApplication,
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QDoubleSpinBox,
    QFileDialog,
    QFormLayout,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QMainWindow,
    QMessageBox,
    QPushButton,
    QRadioButton,
    QVBoxLayout,
    QWidget,
)

from napari_mst.errors import ChoiceNeeded, CubeError
from napari_mst.formats.wavelengths import column, typed_wavelengths
from napari_mst.messages import shown
from napari_mst.plugin.viewer.slots import calling

_ROWS = 8
"""As many choices are seen at once."""
_TABLE_BYTES = 2**20
_TABLES = "Tables and text (*.csv *.tsv *.txt);;All files (*)"
_HIDDEN_PLATFORMS = ("offscreen", "minimal")


def window() -> QWidget | None:
    """The window that a question can be asked over; None in a script without one, or on another thread than Qt's."""
    app = QApplication.instance()
    if (
        app is None
        or QThread.currentThread() is not app.thread()
        or app.platformName() in _HIDDEN_PLATFORMS
    ):
        return None
    windows = (
        widget
        for widget in app.topLevelWidgets()
        if isinstance(widget, QMainWindow) and widget.isVisible()
    )
    return app.activeWindow() or next(windows, None)


def offer(text: str, yes: str, accept: Callable[[], object]) -> QMessageBox | None:
    """Ask without waiting for an answer; if it is *yes*, *accept* is called. None without a window to ask over."""
    parent = window()
    if parent is None:
        return None
    box = QMessageBox(QMessageBox.Icon.Question, "MST++ Hyperspectral", text, parent=parent)
    box.addButton(yes, QMessageBox.ButtonRole.AcceptRole)
    box.addButton("No", QMessageBox.ButtonRole.RejectRole)
    box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    box.setModal(False)
    box.accepted.connect(
        lambda: QTimer.singleShot(0, accept)
    )  # it may open dialogs: let this one close first
    box.show()
    return box


def ask_choice(name: str, question: ChoiceNeeded, parent: QWidget) -> Any:
    """The value that the user chooses for the option of *question* about the file *name*; None if they cancel."""
    what = {"variable": "Which array is the cube?", "band_axis": "Which axis holds the bands?"}[
        question.option
    ]
    dialog = ChoiceDialog(
        f"{shown(name, 50)} can be read in several ways.\n{what}", question.choices, parent
    )
    is_accepted = dialog.exec()
    dialog.deleteLater()
    return dialog.value if is_accepted else None


class ChoiceDialog(QDialog):
    """One of several texts; `value` is the one that was chosen."""

    def __init__(self, text: str, choices: Mapping[str | int, str], parent: QWidget) -> None:
        super().__init__(parent, windowTitle="Open hyperspectral cube")
        self.list = QListWidget(selectionMode=QAbstractItemView.SelectionMode.SingleSelection)
        for value, words in choices.items():
            item = QListWidgetItem(words, self.list)
            item.setData(Qt.ItemDataRole.UserRole, value)
        self.list.setCurrentRow(0)
        rows = min(len(choices), _ROWS)
        self.list.setFixedHeight(
            rows * self.list.sizeHintForRow(0) + 2 * self.list.frameWidth() + 4
        )
        self.buttons = _buttons(self, "Open")
        self.list.itemDoubleClicked.connect(self.accept)
        layout = QVBoxLayout(self)
        for widget in (_label(text), self.list, self.buttons):
            layout.addWidget(widget)
        self.setMinimumWidth(420)

    @property
    def value(self) -> Any:
        """Of the selected row."""
        return self.list.currentItem().data(Qt.ItemDataRole.UserRole)


class WavelengthsDialog(QDialog):
    """Asks for the wavelengths of a stack of *shape*, three axes: its `band_axis`, and `wavelengths` in nm or None.

    Parameters
    ----------
    band_axis
        0 or -1, chosen at first.
    known
        Wavelengths (nm) of the first and the last band, if the layer has a calibrated axis.
    """

    def __init__(
        self,
        name: str,
        shape: Sequence[int],
        band_axis: int,
        known: tuple[float, float] | None,
        parent: QWidget,
    ) -> None:
        super().__init__(parent, windowTitle="Save hyperspectral cube")
        self._shape = shape
        self.title = _label(
            f"The layer '{shown(name, 40)}' has no wavelengths. What are those of its bands?"
        )
        self.axes = QComboBox(toolTip="The axis along which the wavelength changes.")
        for axis, word in ((0, "first"), (-1, "last")):
            self.axes.addItem(f"the {word} axis: {shape[axis]} bands", axis)
        self.axes.setCurrentIndex(self.axes.findData(band_axis))
        self.unknown = QRadioButton("Unknown: number them")
        self.even = QRadioButton("Evenly spaced, from")
        self.listed = QRadioButton("These:")
        self.start, self.stop = (_wavelength_box(nm) for nm in known or (400.0, 700.0))
        self.text = QLineEdit(placeholderText="400, 410, 420, ...", toolTip="One number a band.")
        self.file_button = QPushButton(
            "Read file ...", toolTip="A table or text: the first number of each line."
        )
        self.units = QComboBox(toolTip="Of the numbers above; the file will say nanometres.")
        self.units.addItem("nm", "nm")
        self.units.addItem("\N{MICRO SIGN}m", "um")
        self.told = _label()
        self.buttons = _buttons(self, "Save")
        self._lay_out()
        self._wire()
        (self.even if known else self.unknown).setChecked(True)
        self._check()

    def _lay_out(self) -> None:
        form = QFormLayout(fieldGrowthPolicy=QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        form.addRow("Bands along", self.axes)
        form.addRow(self.unknown)
        form.addRow(self.even, _in_a_row(self.start, QLabel("to"), self.stop))
        form.addRow(self.listed, _in_a_row(self.text, self.file_button))
        form.addRow("Unit", self.units)
        layout = QVBoxLayout(self)
        layout.setSpacing(10)
        layout.addWidget(self.title)
        layout.addLayout(form)
        layout.addWidget(self.told)
        layout.addWidget(self.buttons)
        self.setMinimumWidth(480)

    def _wire(self) -> None:
        edits = (self.start.valueChanged, self.stop.valueChanged, self.text.textChanged)
        choices = (self.unknown.toggled, self.even.toggled, self.listed.toggled)
        for changed in (
            *edits,
            *choices,
            self.axes.currentIndexChanged,
            self.units.currentIndexChanged,
        ):
            changed.connect(self._check)
        for changed, kind in zip(edits, (self.even, self.even, self.listed), strict=True):
            changed.connect(calling(self._choose, kind))
        self.file_button.clicked.connect(self._read_file)

    def _choose(self, kind: QRadioButton) -> None:
        """Take the wavelengths of the *kind* that the user edits."""
        kind.setChecked(True)

    @property
    def band_axis(self) -> int:
        """0 or -1."""
        return int(self.axes.currentData())

    @property
    def wavelengths(self) -> NDArray[np.float64] | None:
        """In nm, one a band; None if they are unknown. Raises `CubeError` if what was typed makes no sense."""
        if self.unknown.isChecked():
            return None
        bands, texts = self._shape[self.band_axis], self.text.text().replace(",", " ").split()
        if self.even.isChecked():
            texts = [
                repr(float(nm)) for nm in np.linspace(self.start.value(), self.stop.value(), bands)
            ]
        return typed_wavelengths(texts, self.units.currentData(), bands)

    def _check(self) -> None:
        try:
            text, is_good = _summary(self.wavelengths), True
        except CubeError as error:
            text, is_good = str(error), False
        self.told.setText(text)
        self.buttons.button(QDialogButtonBox.StandardButton.Ok).setEnabled(is_good)

    def _read_file(self) -> None:
        path, _ = QFileDialog.getOpenFileName(self, "Wavelengths", filter=_TABLES)
        if path:
            with Path(path).open(encoding="utf-8-sig", errors="replace") as file:
                text = file.read(_TABLE_BYTES)
            self.text.setText(", ".join(column(text, self._shape[self.band_axis])))
            self.listed.setChecked(True)


def _summary(wavelengths: NDArray[np.float64] | None) -> str:
    if wavelengths is None:
        return "The file will hold no wavelengths: its bands are numbered."
    texts = [f"{nm:g}" for nm in wavelengths]
    return f"{len(texts)} bands: {', '.join(texts if len(texts) < 6 else [*texts[:3], '...', texts[-1]])} nm"


def _label(text: str = "") -> QLabel:
    return QLabel(text, wordWrap=True, textFormat=Qt.TextFormat.PlainText)


def _wavelength_box(nm: float) -> QDoubleSpinBox:
    return QDoubleSpinBox(minimum=0.0, maximum=1e6, decimals=3, value=nm)


def _in_a_row(*widgets: QWidget) -> QHBoxLayout:
    row = QHBoxLayout()
    for widget in widgets:
        row.addWidget(widget, 0 if isinstance(widget, QLabel | QPushButton) else 1)
    return row


def _buttons(dialog: QDialog, yes: str) -> QDialogButtonBox:
    """What ends *dialog*: a button that says *yes*, and Cancel."""
    buttons = QDialogButtonBox(
        QDialogButtonBox.StandardButton.Ok | QDialogButtonBox.StandardButton.Cancel
    )
    buttons.button(QDialogButtonBox.StandardButton.Ok).setText(yes)
    buttons.accepted.connect(dialog.accept)
    buttons.rejected.connect(dialog.reject)
    return buttons
