"""Widgets of several docks: lists of values and of layers, and wrapped text."""

import weakref
from collections.abc import Sequence

from napari.layers import Image
from qtpy.QtCore import Qt
from qtpy.QtGui import QResizeEvent
from qtpy.QtWidgets import QComboBox, QLabel


class Paragraph(QLabel):
    """Plain, wrapped text that is as high as its lines.

    A layout alone lets such a label be lower, so that text is cut, or higher.
    """

    def __init__(self) -> None:
        super().__init__(
            wordWrap=True,
            textInteractionFlags=Qt.TextInteractionFlag.TextSelectableByMouse,
            textFormat=Qt.TextFormat.PlainText,
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


MARGIN = 24
"""Pixels beside the names of a list: frame and scroll bar."""


class ChoiceBox(QComboBox):
    """A list of values, each with a title."""

    def show_value(self, value: object) -> None:
        """Select the entry that holds *value*, if there is one."""
        index = self.findData(value)
        if index >= 0:
            self.setCurrentIndex(index)


def let_shrink(box: QComboBox, letters: int) -> None:
    """Let *box* be narrower than its longest entry, which would widen its dock."""
    box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
    box.setMinimumContentsLength(letters)


class LayerBox(ChoiceBox):
    """A list of Image layers, which it does not keep alive.

    Qt would cut long names in the middle, which is where the names of two layers often differ.
    """

    def __init__(self, tip: str) -> None:
        super().__init__()
        self.setToolTip(tip)
        self.view().setTextElideMode(Qt.TextElideMode.ElideNone)

    def set_layers(self, layers: Sequence[Image], chosen: Image | None) -> None:
        """List *layers*, and choose *chosen* if it is among them, else the first."""
        self.clear()
        for index, layer in enumerate(layers):
            self.addItem(layer.name, weakref.ref(layer))
            self.setItemData(index, layer.name, Qt.ItemDataRole.ToolTipRole)
            if layer is chosen:
                self.setCurrentIndex(index)

    def showPopup(self) -> None:
        """Qt calls this when the list opens; it is then as wide as the longest name."""
        self.view().setMinimumWidth(self.view().sizeHintForColumn(0) + MARGIN)
        super().showPopup()
