"""Widgets of the form: search, findings, a section that folds away; the words for a model."""

from collections.abc import Collection
from textwrap import fill as wrapped
from typing import TYPE_CHECKING, Any

from qtpy.QtCore import Qt
from qtpy.QtWidgets import (
    QCheckBox,
    QDoubleSpinBox,
    QFileDialog,
    QLineEdit,
    QSizePolicy,
    QToolButton,
    QVBoxLayout,
    QWidget,
)
from superqt import QSearchableComboBox

from napari_mst.models import ModelCard
from napari_mst.plugin.viewer.widgets import ChoiceBox, fill, let_shrink

if TYPE_CHECKING:
    pass


ASKS = {
    "light": (
        "Light",
        "Find the light in the photo itself, by a small network: the three most likely ones. "
        "A linear photo must have the values of the sensor, as a RAW file has; an sRGB photo shows "
        "how far its white is off that of D65.",
    ),
    "patch": (
        "Grey patch",
        "Press this, then click a grey or white patch of the photo. It gives white level, white "
        "balance and light of a linear photo, and corrects the white balance of an sRGB photo.",
    ),
    "chart": (
        "ColorChecker",
        "Lay a frame around a ColorChecker in the photo, and drag its corners onto the middles of "
        "the corner patches. Its colours calibrate the photo, and its patches correct the spectra.",
    ),
    "read": ("Read the squares", "Calibrate the photo by the colours in the squares."),
}
"""Titles and tooltips of the buttons that ask the photo itself; the first three are the choices."""
FILE = "a file ..."
"""The entry of a search box that opens a dialog."""
SEARCH_LETTERS = 12
"""Width of a search box in letters, at least; the names in its list may be longer."""
FLAT = "QToolButton { border: none; background: transparent; padding: 2px; }"


class SearchBox(QSearchableComboBox):
    """A box to search *names* in, with nothing chosen.

    Its last entry asks for a file of these *kinds*, as file dialogs want them; "" for no such
    entry.
    """

    def __init__(self, names: Collection[str], kinds: str = "") -> None:
        super().__init__()
        # PySide6 would keep a completer without a parent, and its list.
        self.completer_object.setParent(self)
        self._kinds = kinds
        # A person types spaces, with which cameras and lights are found as well.
        listed = [name.replace("_", " ") for name in names]
        self.addItems([*listed, FILE] if kinds else listed)  # type: ignore[no-untyped-call] # Qt's
        self.setCurrentIndex(-1)
        self.lineEdit().setPlaceholderText("choose, or type" if names else "choose a file")
        # By default the longest name would set the width, which has to fit into a narrow dock.
        let_shrink(self, SEARCH_LETTERS)
        self.lineEdit().textEdited.connect(self._dress)
        self.textActivated.connect(self._on_activated)

    def _dress(self) -> None:
        """Give the list of matches the colours of the window.

        The list is a window of its own, which does not take on napari's style by itself.
        """
        popup = self.completer().popup()
        style = self.window().styleSheet()
        if popup.styleSheet() != style:
            popup.setStyleSheet(style)

    def _on_activated(self, text: str) -> None:
        if text == FILE:
            path, _ = QFileDialog.getOpenFileName(self, "Open", filter=self._kinds)
            # The words of the entry must not stay, where they would be the name of a camera.
            self.setCurrentIndex(-1)
            self.setEditText(path)


class Fold(QWidget):
    """Shows *content* while its title is pressed; at first it is folded.

    superqt's section animates the height, which `Paragraph` and a scroll area set as well.
    """

    def __init__(self, content: QWidget, tip: str, title: str = "") -> None:
        super().__init__()
        self.content = content
        self.button = QToolButton(text=title, checkable=True, toolTip=tip)
        self.button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.button.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        # By default a tool button only takes the focus from a click.
        self.button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.button.setStyleSheet(FLAT)
        fill(QVBoxLayout(self), self.button, content)
        self.button.toggled.connect(self._on_toggled)
        self._on_toggled(False)

    def _on_toggled(self, is_open: bool) -> None:
        arrow = Qt.ArrowType.DownArrow if is_open else Qt.ArrowType.RightArrow
        self.button.setArrowType(arrow)
        self.content.setVisible(is_open)


ACCESS = (
    (QCheckBox, "toggled", "isChecked", "setChecked"),
    (QDoubleSpinBox, "valueChanged", "value", "setValue"),
    (SearchBox, "editTextChanged", "currentText", "setEditText"),
    (QLineEdit, "textChanged", "text", "setText"),
    (ChoiceBox, "currentIndexChanged", "currentData", "show_value"),
)
"""Kinds of widgets: the signal of a change, and the methods that read and show a value."""


def access(widget: Any) -> list[Any]:
    """Return how *widget* is listened to, read and set."""
    names = next(names for kind, *names in ACCESS if isinstance(widget, kind))
    return [getattr(widget, name) for name in names]


WIDTH = 90
"""Letters of a line in a tooltip, which Qt itself does not wrap."""


def help_of(card: ModelCard) -> str:
    """Say in a line what a model is."""
    return card.title if card.file else f"{card.title}; or weights of your own, from a file"


def facts_of(card: ModelCard) -> str:
    """Say what a model gives, is for, comes from, and how accurate it is, a fact a line."""
    nm = card.wavelengths
    bands = f"{len(nm)} bands, {nm[0]:g}-{nm[-1]:g} nm" if nm else "unknown bands"
    measured = []
    for data, values in card.accuracy.items():
        metrics = ", ".join(f"{name} {value:g}" for name, value in values.items())
        measured.append(f"{data}: {metrics}")
    facts = [
        ", ".join(filter(None, [bands, card.quantity])) + ".",
        card.domain,
        card.training_data and f"Training data: {card.training_data}",
        *measured,
        card.licence and f"Licence: {card.licence}",
        card.reference,
    ]
    return "\n".join(wrapped(fact, WIDTH) for fact in facts if fact)
