"""Dialogs for what only a person knows of a cube file; nothing is asked without a window."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

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

from napari_mst.cube import BAND_INDEX, SpectralCube
from napari_mst.errors import ChoiceNeeded, CubeError
from napari_mst.formats.arrays import band_axis_of
from napari_mst.formats.wavelengths import column, typed_wavelengths
from napari_mst.messages import shown
from napari_mst.plugin.viewer.slots import calling

ROWS = 8
"""The most choices that are seen at once; more of them scroll."""
TABLE_BYTES = 2**20
"""The most that is read of a table: wavelengths take far less, and any file may be chosen."""
TABLES = "Tables and text (*.csv *.tsv *.txt);;All files (*)"
HIDDEN_PLATFORMS = ("offscreen", "minimal")
"""Platforms of Qt on which a dialog would wait for an answer that nobody can give."""
VISIBLE_RANGE = (400.0, 700.0)
"""nm; what is offered where nothing is known."""
QUESTIONS = {
    "variable": "Which array is the cube?",
    "band_axis": "Which axis holds the bands?",
}
"""The option of a reader -> the question to ask for it."""


class Bands(NamedTuple):
    """The bands of a stack, as a person has described them.

    Attributes
    ----------
    axis
        The axis that holds them: 0 or -1.
    wavelengths
        In nm, one for each band; None if they are unknown.
    """

    axis: int
    wavelengths: NDArray[np.float64] | None

    def cube_of(self, stack: NDArray[Any]) -> SpectralCube:
        """The cube of a *stack* of these bands."""
        data = np.moveaxis(stack, self.axis, 0)
        if self.wavelengths is None:
            numbers = np.arange(len(data), dtype=np.float64)
            return SpectralCube(data, numbers, unit=BAND_INDEX, quantity="")
        return SpectralCube(data, self.wavelengths, quantity="")


def likely_axis(shape: tuple[int, ...]) -> int:
    """Guess the axis of the bands of any stack: the clearly shortest one, else the first."""
    try:
        return band_axis_of(shape, 0, None)
    except ChoiceNeeded:
        return 0


def window() -> QWidget | None:
    """Return the window that a question can be asked over.

    None in a script without a window, and on another thread than Qt's.
    """
    app = QApplication.instance()
    if app is None or QThread.currentThread() is not app.thread():
        return None
    if app.platformName() in HIDDEN_PLATFORMS:
        return None
    main_windows = [one for one in app.topLevelWidgets() if isinstance(one, QMainWindow)]
    visible = next((one for one in main_windows if one.isVisible()), None)
    return app.activeWindow() or visible


def offer(text: str, yes: str, accept: Callable[[], object]) -> QMessageBox | None:
    """Ask without waiting for an answer, and call *accept* if the user presses the button *yes*.

    None without a window to ask over.
    """
    parent = window()
    if parent is None:
        return None
    box = QMessageBox(QMessageBox.Icon.Question, "MST++ Hyperspectral", text, parent=parent)
    box.addButton(yes, QMessageBox.ButtonRole.AcceptRole)
    box.addButton("No", QMessageBox.ButtonRole.RejectRole)
    box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    box.setModal(False)
    # It may open dialogs itself, so this one closes first.
    box.accepted.connect(lambda: QTimer.singleShot(0, accept))
    box.show()
    return box


def ask_choice(name: str, question: ChoiceNeeded, parent: QWidget) -> Any:
    """Ask *question* about the file *name*, and return the value chosen; None if they cancel."""
    text = f"{shown(name, 50)} can be read in several ways.\n{QUESTIONS[question.option]}"
    dialog = ChoiceDialog(text, question.choices, parent)
    is_accepted = dialog.exec()
    # Its parent would keep it for as long as there is the window.
    dialog.deleteLater()
    return dialog.value if is_accepted else None


def ask_bands(name: str, stack: NDArray[Any], parent: QWidget) -> Bands | None:
    """Ask which bands the plain array *stack* called *name* has; None if they cancel."""
    axis = likely_axis(stack.shape)
    dialog = WavelengthsDialog(to_open(name, stack), stack.shape, axis, None, parent)
    return ask_wavelengths(dialog)


def ask_wavelengths(dialog: "WavelengthsDialog") -> Bands | None:
    """Wait for the answer to *dialog*; None if they cancel."""
    is_accepted = dialog.exec()
    # Its parent would keep it for as long as there is the window.
    dialog.deleteLater()
    return Bands(dialog.band_axis, dialog.wavelengths) if is_accepted else None


class ChoiceDialog(QDialog):
    """Asks for one of several values, each with its words; `value` is the chosen one."""

    def __init__(self, text: str, choices: Mapping[str | int, str], parent: QWidget) -> None:
        super().__init__(parent, windowTitle="Open hyperspectral cube")
        self.list = QListWidget(selectionMode=QAbstractItemView.SelectionMode.SingleSelection)
        for value, words in choices.items():
            item = QListWidgetItem(words, self.list)
            item.setData(Qt.ItemDataRole.UserRole, value)
        self.list.setCurrentRow(0)
        rows = min(len(choices), ROWS)
        frame = 2 * self.list.frameWidth() + 4
        self.list.setFixedHeight(rows * self.list.sizeHintForRow(0) + frame)
        self.buttons = _buttons(self, "Open")
        self.list.itemDoubleClicked.connect(self.accept)
        layout = QVBoxLayout(self)
        for widget in (_label(text), self.list, self.buttons):
            layout.addWidget(widget)
        self.setMinimumWidth(420)

    @property
    def value(self) -> Any:
        """The value of the selected row."""
        return self.list.currentItem().data(Qt.ItemDataRole.UserRole)


class Purpose(NamedTuple):
    """The words with which wavelengths are asked for.

    Attributes
    ----------
    title
        That of the window.
    question
        The sentence above the choices.
    button
        The word that accepts them.
    unknown
        Says what comes of bands whose wavelengths are unknown.
    """

    title: str
    question: str
    button: str
    unknown: str


def to_save(name: str) -> Purpose:
    """Ask for the wavelengths of the layer *name*, which is about to be saved."""
    return Purpose(
        "Save hyperspectral cube",
        f"The layer '{shown(name, 40)}' has no wavelengths. Which are those of its bands?",
        "Save",
        "The file will hold no wavelengths: its bands are numbered.",
    )


def to_open(name: str, data: NDArray[Any]) -> Purpose:
    """Ask for the wavelengths of the plain array *data* of the file *name*."""
    size = " x ".join(map(str, data.shape))
    return Purpose(
        "Open hyperspectral cube",
        f"'{shown(name, 40)}' holds {size} numbers ({data.dtype}) and no wavelengths. "
        "Which are those of its bands?",
        "Open",
        "The cube will have no wavelengths: its bands are numbered.",
    )


class WavelengthsDialog(QDialog):
    """Asks which axis of a stack holds the bands, and for their wavelengths.

    Parameters
    ----------
    purpose
        The words to ask with.
    shape
        The shape of the stack, three axes.
    band_axis
        0 or -1, chosen at first.
    known
        Wavelengths (nm) of the first and the last band, if the layer has a calibrated axis.
    """

    def __init__(
        self,
        purpose: Purpose,
        shape: Sequence[int],
        band_axis: int,
        known: tuple[float, float] | None,
        parent: QWidget,
    ) -> None:
        super().__init__(parent, windowTitle=purpose.title)
        self._purpose = purpose
        self._shape = shape
        self.title = _label(purpose.question)
        self.axes = QComboBox(toolTip="The axis along which the wavelength changes.")
        self.axes.addItem(f"the first axis: {shape[0]} bands", 0)
        self.axes.addItem(f"the last axis: {shape[-1]} bands", -1)
        self.axes.setCurrentIndex(self.axes.findData(band_axis))
        self.unknown = QRadioButton("Unknown: number them")
        self.even = QRadioButton("Evenly spaced, from")
        self.listed = QRadioButton("These:")
        first, last = known or VISIBLE_RANGE
        self.start = _wavelength_box(first)
        self.stop = _wavelength_box(last)
        self.text = QLineEdit(
            placeholderText="400, 410, 420, ...", toolTip="One number for each band."
        )
        self.file_button = QPushButton(
            "Read file ...", toolTip="Take the first number of each line of a table or text."
        )
        self.units = QComboBox(
            toolTip="The unit of the numbers above. The cube will have nanometres."
        )
        self.units.addItem("nm", "nm")
        self.units.addItem("\N{MICRO SIGN}m", "um")
        self.told = _label()
        self.buttons = _buttons(self, purpose.button)
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
        edits = (
            (self.start.valueChanged, self.even),
            (self.stop.valueChanged, self.even),
            (self.text.textChanged, self.listed),
        )
        for changed, kind in edits:
            changed.connect(self._check)
            changed.connect(calling(self._choose, kind))
        for radio in (self.unknown, self.even, self.listed):
            radio.toggled.connect(self._check)
        for box in (self.axes, self.units):
            box.currentIndexChanged.connect(self._check)
        self.file_button.clicked.connect(self._read_file)

    def _choose(self, kind: QRadioButton) -> None:
        """Take the wavelengths of the *kind* that the user edits."""
        kind.setChecked(True)

    @property
    def band_axis(self) -> int:
        """The axis that holds the bands: 0 or -1."""
        return int(self.axes.currentData())

    @property
    def wavelengths(self) -> NDArray[np.float64] | None:
        """In nm, one for each band; None if they are unknown.

        Raises
        ------
        CubeError
            If what was typed makes no sense.
        """
        if self.unknown.isChecked():
            return None
        bands = self._shape[self.band_axis]
        if self.even.isChecked():
            even = np.linspace(self.start.value(), self.stop.value(), bands)
            # As texts, so that these numbers pass the same checks as typed ones.
            texts = [repr(float(nm)) for nm in even]
        else:
            texts = self.text.text().replace(",", " ").split()
        return typed_wavelengths(texts, self.units.currentData(), bands)

    def _check(self) -> None:
        """Say what will come of it, or why nothing can; the button is enabled accordingly."""
        try:
            wavelengths = self.wavelengths
            text = self._purpose.unknown if wavelengths is None else _summary(wavelengths)
            is_good = True
        except CubeError as error:
            text = str(error)
            is_good = False
        self.told.setText(text)
        self.buttons.button(QDialogButtonBox.StandardButton.Ok).setEnabled(is_good)

    def _read_file(self) -> None:
        path, _ = QFileDialog.getOpenFileName(self, "Wavelengths", filter=TABLES)
        if path:
            # Any file may be chosen: bytes that are no text are replaced, and raise no error.
            with Path(path).open(encoding="utf-8-sig", errors="replace") as file:
                text = file.read(TABLE_BYTES)
            self.text.setText(", ".join(column(text, self._shape[self.band_axis])))
            self.listed.setChecked(True)


def _summary(wavelengths: NDArray[np.float64]) -> str:
    texts = [f"{nm:g}" for nm in wavelengths]
    listed = texts if len(texts) < 6 else [*texts[:3], "...", texts[-1]]
    return f"{len(texts)} bands: {', '.join(listed)} nm"


def _label(text: str = "") -> QLabel:
    # By default Qt would take a name with tags in it for HTML.
    return QLabel(text, wordWrap=True, textFormat=Qt.TextFormat.PlainText)


def _wavelength_box(nm: float) -> QDoubleSpinBox:
    return QDoubleSpinBox(minimum=0.0, maximum=1e6, decimals=3, value=nm)


def _in_a_row(*widgets: QWidget) -> QHBoxLayout:
    row = QHBoxLayout()
    for widget in widgets:
        row.addWidget(widget, 0 if isinstance(widget, QLabel | QPushButton) else 1)
    return row


def _buttons(dialog: QDialog, yes: str) -> QDialogButtonBox:
    """The buttons that end *dialog*: one that says *yes*, and Cancel."""
    standard = QDialogButtonBox.StandardButton
    buttons = QDialogButtonBox(standard.Ok | standard.Cancel)
    buttons.button(standard.Ok).setText(yes)
    buttons.accepted.connect(dialog.accept)
    buttons.rejected.connect(dialog.reject)
    return buttons
