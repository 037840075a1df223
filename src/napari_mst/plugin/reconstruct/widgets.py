"""Widgets of the rows of the form: search, numbers, denoising, and a section that folds away."""

from collections.abc import Iterable

from qtpy.QtCore import QLocale, Qt, Signal
from qtpy.QtGui import QDoubleValidator
from qtpy.QtWidgets import (
    QComboBox,
    QCompleter,
    QDoubleSpinBox,
    QFileDialog,
    QHBoxLayout,
    QLineEdit,
    QSizePolicy,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from napari_mst.denoising.photos import BEST_H
from napari_mst.plugin.reconstruct import texts
from napari_mst.plugin.viewer.widgets import ChoiceBox, fill, let_shrink
from napari_mst.reconstruction.options import Denoise

FILE = "file"
"""Value of the entry that opens a dialog."""
TABLES = "Tables (*.csv);;All files (*)"
SEARCH_LETTERS = 12
"""Width of a search box in letters, at least; the names in its list may be longer."""
MOST_H = 10.0
ALWAYS = "always"
"""Value of the entry for a number."""
FLAT = "QToolButton { border: none; background: transparent; padding: 2px; }"


class WhiteEdit(QLineEdit):
    """A field for a number; 0 if it is empty."""

    def __init__(self) -> None:
        super().__init__(placeholderText="full scale", toolTip=texts.WHITE_HINT)
        numbers = QDoubleValidator(0.0, 1e9, 6, self)
        # The validator and `float` agree on the point, wherever the user lives.
        numbers.setLocale(QLocale.c())
        self.setValidator(numbers)

    def value(self) -> float:
        """Return the number."""
        return float(self.text() or 0)

    def show_value(self, value: float) -> None:
        """Show *value*; 0 as an empty field."""
        self.setText(f"{value:g}" if value else "")


class DenoiseBox(QWidget):
    """Shows which photos are denoised, and beside it h where every photo is."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__(toolTip=texts.DENOISE_HINT)
        self.choices = ChoiceBox(toolTip=texts.DENOISE_HINT)
        self.h = QDoubleSpinBox(
            minimum=0.1,
            maximum=MOST_H,
            singleStep=0.1,
            value=BEST_H,
            prefix="h = ",
            suffix=" \u03c3",
            toolTip=texts.H_HINT,
        )
        for title, (choice, tip) in texts.DENOISE_CHOICES.items():
            self.choices.add(title, choice, tip)
        fill(QHBoxLayout(self), self.choices, self.h, stretched=self.choices)
        self.choices.currentIndexChanged.connect(self._on_choice)
        self.h.valueChanged.connect(self.changed)
        self.h.hide()

    def _on_choice(self) -> None:
        self.h.setVisible(self.choices.currentData() == ALWAYS)
        self.changed.emit()

    def value(self) -> Denoise:
        """Return "auto", "off", or h."""
        choice: Denoise = self.choices.currentData()
        return choice if self.h.isHidden() else self.h.value()

    def show_value(self, value: Denoise) -> None:
        """Show *value*, "auto", "off", or h."""
        self.choices.show_value(value if isinstance(value, str) else ALWAYS)
        if not isinstance(value, str):
            self.h.setValue(value)


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
        let_shrink(self, SEARCH_LETTERS)
        self.lineEdit().setPlaceholderText("choose, or type to search")
        self.lineEdit().textEdited.connect(self._dress)
        self.activated.connect(self._on_activated)

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


class Fold(QWidget):
    """Shows *content* while its title is pressed; at first it is folded.

    superqt's section animates the height, which `Paragraph` and a scroll area set as well.
    """

    def __init__(self, title: str, content: QWidget, tip: str) -> None:
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

    def set_title(self, title: str) -> None:
        """Show another title."""
        self.button.setText(title)

    def _on_toggled(self, is_open: bool) -> None:
        arrow = Qt.ArrowType.DownArrow if is_open else Qt.ArrowType.RightArrow
        self.button.setArrowType(arrow)
        self.content.setVisible(is_open)
