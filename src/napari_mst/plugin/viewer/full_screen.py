"""The button that shows a page on the whole screen, as for a lecture."""

from qtpy.QtCore import Qt
from qtpy.QtWidgets import QDialog, QToolButton, QVBoxLayout, QWidget

from napari_mst.plugin.viewer.widgets import fill

TIP = "Show this page alone on the whole screen, for a lecture; Esc or this button ends it."


class FullScreenButton(QToolButton):
    """Shows `page` on the whole screen, then puts it back into the layout of its parent.

    The screen has the style sheet *style*.
    """

    page: QWidget

    def __init__(self, style: str = "") -> None:
        super().__init__(text="Full screen", autoRaise=True, toolTip=TIP)
        self._style = style
        self._screen: QDialog | None = None
        self.clicked.connect(self._toggle)

    def _toggle(self) -> None:
        if self._screen is not None:
            self.end()
            return
        # A child of the dock has napari's theme, and is deleted with the dock.
        screen = self._screen = QDialog(self.page.parentWidget())
        screen.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        screen.finished.connect(self._put_back)
        # The screen has the style, not the page: PySide6 6.11 has crashed with that.
        screen.setStyleSheet(self._style)
        fill(QVBoxLayout(screen), self.page)
        # Not every window manager makes it as large, and there may be none.
        screen.setGeometry(screen.screen().geometry())
        screen.showFullScreen()

    def end(self) -> None:
        """Put the page back, if it fills the screen."""
        if self._screen is not None:
            self._screen.close()

    def _put_back(self, _: int) -> None:
        if self._screen is not None:
            self._screen.parentWidget().layout().addWidget(self.page)
        self._screen = None
        # Qt hides what it moves, and what was in a window that was closed.
        self.page.show()
