"""The list of layers to choose from, whose names are read whole."""

from qtpy.QtCore import Qt
from qtpy.QtWidgets import QComboBox

MARGIN = 24
"""Pixels beside the names of a list: frame and scroll bar."""


class LayerBox(QComboBox):
    """A list of layers: Qt would cut names in the middle, where those of two layers differ."""

    def __init__(self, tip: str) -> None:
        super().__init__()
        self.setToolTip(tip)
        self.view().setTextElideMode(Qt.TextElideMode.ElideNone)

    def add(self, name: str, layer: object) -> None:
        """List *layer* by its *name*."""
        self.addItem(name, layer)
        self.setItemData(self.count() - 1, name, Qt.ItemDataRole.ToolTipRole)

    def showPopup(self) -> None:
        """Qt calls this when the list opens: it is as wide as the longest name."""
        self.view().setMinimumWidth(self.view().sizeHintForColumn(0) + MARGIN)
        super().showPopup()
