"""Dialogs that ask the user what a cube file does not say; without a window, none opens."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from magicgui.widgets import ComboBox, Dialog, Label, LineEdit
from qtpy.QtCore import Qt, QThread, QTimer
from qtpy.QtWidgets import (
    QApplication,
    QInputDialog,
    QMainWindow,
    QMessageBox,
    QWidget,
)

from napari_mst.base.arrays import Array, Doubles
from napari_mst.base.errors import ChoiceNeeded, CubeError, plain, shown
from napari_mst.cube import BAND_INDEX, SpectralCube
from napari_mst.formats.array_files import band_axis_of
from napari_mst.formats.wavelengths import typed_wavelengths

HIDDEN_PLATFORMS = ("offscreen", "minimal")
"""Platforms of Qt on which a dialog would wait for an answer that nobody can give."""
TEXT_HINT = (
    "400-700 stands for bands that are evenly spaced; else type or paste a number for each band.\n"
    "Left empty, the cube has no wavelengths: its bands are numbered."
)
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


def said_of(name: str, stack: Any) -> str:
    """Describe the *stack* called *name* in a sentence."""
    size = " x ".join(map(str, stack.shape))
    return f"'{shown(name, 40)}' holds {size} numbers ({stack.dtype}) and no wavelengths."


def ask_bands_of(name: str, stack: Array) -> DescribedBands | None:
    """Ask which bands the plain array *stack* called *name* has; None if they cancel."""
    return ask_bands("Open", said_of(name, stack), stack.shape, likely_axis(stack.shape))


def ask_bands(
    verb: str, text: str, shape: Sequence[int], axis: int, *, is_axis_known: bool = False
) -> DescribedBands | None:
    """Ask which axis of a stack of *shape* holds the bands, and for their wavelengths.

    None if the user cancels. The dialog says in its title what it is asked for, with the *verb*
    "Open" or "Save"; *text* is what is known of the stack, and *axis*, 0 or -1, is chosen at first,
    and the only choice where it is known.
    The dialog asks again after invalid input, and gives the reason.
    """
    message = Label(value=f"{text}\nWhich are those of its bands?")
    places = [(f"the first axis: {shape[0]} bands", 0), (f"the last axis: {shape[-1]} bands", -1)]
    places = [place for place in places if place[1] == axis or not is_axis_known]
    axes = ComboBox(label="Bands along", choices=places, value=axis)
    typed = LineEdit(label="Wavelengths", tooltip=TEXT_HINT)
    units = ComboBox(label="Unit", choices=[("nm", "nm"), ("\N{MICRO SIGN}m", "um")])
    dialog = Dialog(widgets=[message, axes, typed, units, Label(value=TEXT_HINT)], parent=window())
    dialog.native.setWindowTitle(f"{verb} hyperspectral cube")
    try:
        while dialog.exec():
            try:
                is_known = bool(typed.value.strip())
                given = (typed.value, units.value, shape[axes.value])
                return DescribedBands(axes.value, typed_wavelengths(*given) if is_known else None)
            except CubeError as error:
                message.value = plain(error)
    finally:
        # Its parent would keep it until the window is closed.
        dialog.native.deleteLater()
    return None
