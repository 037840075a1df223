"""Dialogs for what only a person knows of a cube file; nothing is asked without a window."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from qtpy.QtCore import Qt, QThread, QTimer
from qtpy.QtWidgets import (
    QApplication,
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QFileDialog,
    QFormLayout,
    QHBoxLayout,
    QInputDialog,
    QLabel,
    QLineEdit,
    QMainWindow,
    QMessageBox,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from napari_mst.arrays import Array, Doubles
from napari_mst.cube import BAND_INDEX, SpectralCube
from napari_mst.errors import ChoiceNeeded, CubeError, plain, shown
from napari_mst.formats.arrays import band_axis_of
from napari_mst.formats.wavelengths import column, typed_wavelengths
from napari_mst.plugin.viewer.widgets import fill

TABLE_BYTES = 2**20
"""The most that is read of a table: wavelengths take far less, and any file may be chosen."""
TABLES = "Tables and text (*.csv *.tsv *.txt);;All files (*)"
HIDDEN_PLATFORMS = ("offscreen", "minimal")
"""Platforms of Qt on which a dialog would wait for an answer that nobody can give."""
PLACEHOLDER = "400-700, or 400, 410, 420, ..."
TEXT_HINT = (
    "The first and the last wavelength with a hyphen between them, for bands that are evenly "
    "spaced; or a number for each band. Leave it empty where they are unknown."
)
UNKNOWN = "The cube will have no wavelengths: its bands are numbered."
QUESTIONS = {
    "variable": "Which array is the cube?",
    "band_axis": "Which axis holds the bands?",
}
"""The option of a reader -> the question to ask for it."""


class DescribedBands(NamedTuple):
    """The bands of a stack, as a person has described them.

    Attributes
    ----------
    axis
        The axis that holds them: 0 or -1.
    wavelengths
        In nm, one for each band; None if they are unknown.
    """

    axis: int
    wavelengths: Doubles | None

    def cube_of(self, stack: Array) -> SpectralCube:
        """The cube of a *stack* of these bands."""
        data = np.moveaxis(stack, self.axis, 0)
        if self.wavelengths is None:
            numbers = np.arange(len(data), dtype=np.float64)
            return SpectralCube(data, numbers, unit=BAND_INDEX, quantity="")
        return SpectralCube(data, self.wavelengths, quantity="")


def likely_axis(shape: tuple[int, ...]) -> int:
    """Guess the axis of the bands of any stack: the clearly shortest one, else the first."""
    try:
        return band_axis_of(shape, 0, None)[0]
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
    windows = [widget for widget in app.topLevelWidgets() if isinstance(widget, QMainWindow)]
    visible = next((main for main in windows if main.isVisible()), None)
    return app.activeWindow() or visible


def offer(text: str, yes: str, accept: Callable[[], object]) -> QMessageBox | None:
    """Ask without waiting for an answer, and call *accept* if the user presses the button *yes*.

    None without a window to ask over.
    """
    parent = window()
    if parent is None:
        return None
    box = QMessageBox(QMessageBox.Icon.Question, "napari-mst", text, parent=parent)
    box.addButton(yes, QMessageBox.ButtonRole.AcceptRole)
    box.addButton("No", QMessageBox.ButtonRole.RejectRole)
    box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    box.setModal(False)
    # It may open dialogs itself, so this one closes first.
    box.accepted.connect(lambda: QTimer.singleShot(0, accept))
    box.show()
    return box


def ask_choice(name: str, question: ChoiceNeeded) -> Any:
    """Ask *question* about the file *name*, and return the value chosen; None if they cancel."""
    words = list(question.choices.values())
    text = f"{shown(name, 50)} can be read in several ways.\n{QUESTIONS[question.option]}"
    title = "Open hyperspectral cube"
    answer, is_accepted = QInputDialog.getItem(window(), title, text, words, 0, False)
    return list(question.choices)[words.index(answer)] if is_accepted else None


def said_of(name: str, stack: Array) -> str:
    """Say what is known of the plain array *stack* called *name*."""
    size = " x ".join(map(str, stack.shape))
    return f"'{shown(name, 40)}' holds {size} numbers ({stack.dtype}) and no wavelengths."


def ask_bands(name: str, stack: Array) -> DescribedBands | None:
    """Ask which bands the plain array *stack* called *name* has; None if they cancel."""
    return WavelengthsDialog(
        "Open", said_of(name, stack), stack.shape, likely_axis(stack.shape)
    ).answer()


class WavelengthsDialog(QDialog):
    """Asks which axis of a stack holds the bands, and for their wavelengths.

    Parameters
    ----------
    verb, text
        The word on the button that accepts, and what is known of the stack.
    shape
        The shape of the stack, three axes.
    band_axis
        0 or -1, chosen at first.
    """

    def __init__(
        self,
        verb: str,
        text: str,
        shape: Sequence[int],
        band_axis: int,
    ) -> None:
        super().__init__(window(), windowTitle=f"{verb} hyperspectral cube")
        self._shape = shape
        self.title = _label(f"{text} Which are those of its bands?")
        self.axes = QComboBox(toolTip="The axis along which the wavelength changes.")
        self.axes.addItem(f"the first axis: {shape[0]} bands", 0)
        self.axes.addItem(f"the last axis: {shape[-1]} bands", -1)
        self.axes.setCurrentIndex(self.axes.findData(band_axis))
        self.text = QLineEdit(placeholderText=PLACEHOLDER, toolTip=TEXT_HINT)
        self.file_button = QPushButton(
            "Read file ...", toolTip="Take the first number of each line of a table or text."
        )
        self.units = QComboBox(
            toolTip="The unit of the numbers above. The cube will have nanometres."
        )
        self.units.addItem("nm", "nm")
        self.units.addItem("\N{MICRO SIGN}m", "um")
        self.about = _label()
        standard = QDialogButtonBox.StandardButton
        self.buttons = QDialogButtonBox(standard.Ok | standard.Cancel)
        self.ok = self.buttons.button(standard.Ok)
        self.ok.setText(verb)
        self.buttons.accepted.connect(self.accept)
        self.buttons.rejected.connect(self.reject)
        self.text.textChanged.connect(self._check)
        for box in (self.axes, self.units):
            box.currentIndexChanged.connect(self._check)
        self.file_button.clicked.connect(self._read_file)
        self._lay_out()
        self._check()

    def _lay_out(self) -> None:
        form = QFormLayout(fieldGrowthPolicy=QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        form.addRow("Bands along", self.axes)
        form.addRow("Wavelengths", fill(QHBoxLayout(), self.text, self.file_button))
        form.addRow("Unit", self.units)
        layout = fill(QVBoxLayout(self), self.title, form, self.about, self.buttons)
        layout.setContentsMargins(10, 10, 10, 10)
        layout.setSpacing(10)
        self.setMinimumWidth(480)

    def answer(self) -> DescribedBands | None:
        """Wait for the user; None if they cancel."""
        is_accepted = self.exec()
        # Its parent would keep it for as long as there is the window.
        self.deleteLater()
        return DescribedBands(self.band_axis, self.wavelengths) if is_accepted else None

    @property
    def band_axis(self) -> int:
        """The axis that holds the bands: 0 or -1."""
        return int(self.axes.currentData())

    @property
    def wavelengths(self) -> Doubles | None:
        """In nm, one for each band; None if they are unknown.

        Raises
        ------
        CubeError
            If what was typed makes no sense.
        """
        text = self.text.text().strip()
        if not text:
            return None
        return typed_wavelengths(text, self.units.currentData(), self._shape[self.band_axis])

    def _check(self) -> None:
        """Say what will come of it, or why nothing can; the button is enabled accordingly."""
        try:
            wavelengths = self.wavelengths
            text = UNKNOWN if wavelengths is None else _summary(wavelengths)
            self.ok.setEnabled(True)
        except CubeError as error:
            text = plain(error)
            self.ok.setEnabled(False)
        self.about.setText(text)

    def _read_file(self) -> None:
        path, _ = QFileDialog.getOpenFileName(self, "Wavelengths", filter=TABLES)
        if path:
            # Any file may be chosen: bytes that are no text are replaced, and raise no error.
            with Path(path).open(encoding="utf-8-sig", errors="replace") as file:
                text = file.read(TABLE_BYTES)
            self.text.setText(", ".join(column(text, self._shape[self.band_axis])))


def _summary(wavelengths: Doubles) -> str:
    texts = [f"{nm:g}" for nm in wavelengths]
    listed = texts if len(texts) < 6 else [*texts[:3], "...", texts[-1]]
    return f"{len(texts)} bands: {', '.join(listed)} nm"


def _label(text: str = "") -> QLabel:
    # By default Qt would take a name with tags in it for HTML.
    return QLabel(text, wordWrap=True, textFormat=Qt.TextFormat.PlainText)
