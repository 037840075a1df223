"""A label for wrapped text."""

from qtpy.QtCore import Qt
from qtpy.QtGui import QResizeEvent
from qtpy.QtWidgets import QLabel


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
