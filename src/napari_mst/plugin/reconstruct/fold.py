"""A section that folds away under its title."""

from qtpy.QtCore import Qt
from qtpy.QtWidgets import QSizePolicy, QToolButton, QVBoxLayout, QWidget

FLAT = "QToolButton { border: none; background: transparent; padding: 2px; }"


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
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.button)
        layout.addWidget(content)
        self.button.toggled.connect(self._on_toggled)
        self._on_toggled(False)

    def set_title(self, title: str) -> None:
        """Show another title."""
        self.button.setText(title)

    def _on_toggled(self, is_open: bool) -> None:
        arrow = Qt.ArrowType.DownArrow if is_open else Qt.ArrowType.RightArrow
        self.button.setArrowType(arrow)
        self.content.setVisible(is_open)
