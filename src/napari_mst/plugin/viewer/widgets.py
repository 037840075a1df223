"""Widgets of several docks: lists of values and of layers, wrapped text, help, rows of widgets."""

import weakref
from collections.abc import Sequence
from functools import cache

from napari.layers import Image
from qtpy.QtCore import QEvent, QObject, QSize, Qt, QUrl
from qtpy.QtGui import QDesktopServices, QResizeEvent
from qtpy.QtWidgets import (
    QAbstractSpinBox,
    QBoxLayout,
    QComboBox,
    QFrame,
    QLabel,
    QLayout,
    QScrollArea,
    QSizePolicy,
    QTabWidget,
    QToolButton,
    QWidget,
)

DOCUMENTATION = "https://github.com/napari-mst/napari-mst/blob/main/docs/"


def fill(
    layout: QBoxLayout, *parts: QWidget | QLayout, stretched: QWidget | None = None
) -> QBoxLayout:
    """Put *parts* into *layout*, without margins; *stretched* takes the room that is left."""
    layout.setContentsMargins(0, 0, 0, 0)
    for part in parts:
        if isinstance(part, QLayout):
            layout.addLayout(part)
        else:
            layout.addWidget(part, stretch=int(part is stretched))
    return layout


class HelpButton(QToolButton):
    """A "?" that opens a *page* of the documentation, in the browser."""

    def __init__(self, page: str, tip: str) -> None:
        # By default a tool button takes the focus only from Tab, and on a Mac from nothing.
        focus = Qt.FocusPolicy.StrongFocus
        super().__init__(text="?", autoRaise=True, toolTip=tip, focusPolicy=focus)
        self.page = page
        self.clicked.connect(self._open)

    def _open(self) -> None:
        QDesktopServices.openUrl(QUrl(DOCUMENTATION + self.page))


class _WheelGuard(QObject):
    """Leaves the wheel to the page that scrolls, until a person has clicked the widget."""

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Qt calls this before *watched* gets *event*."""
        is_spared = event.type() == QEvent.Type.Wheel and not watched.hasFocus()
        if is_spared:
            event.ignore()
        return is_spared


@cache
def _wheel_guard() -> _WheelGuard:
    return _WheelGuard()


def spare_from_wheel(page: QWidget) -> None:
    """Have the lists and numbers of *page* keep their values while it scrolls under the mouse."""
    for kind in (QComboBox, QAbstractSpinBox):
        for widget in page.findChildren(kind):
            # Qt's own policy lets the wheel give the focus.
            widget.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
            widget.installEventFilter(_wheel_guard())


def set_lowest(widget: QWidget, height: int) -> None:
    """Let *widget* be as low as *height* pixels, though its content would like more.

    A page that scrolls would else give it all of that.
    """
    widget.setMinimumHeight(height)
    widget.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Ignored)


LOWEST = 120
"""Pixels; a page that is lower scrolls."""
WIDEST_BAR = 24
"""Pixels; a scroll bar is narrower."""


class ScrolledPage(QScrollArea):
    """Shows *content* at its own width at least; what is too high for it scrolls."""

    def __init__(self, content: QWidget) -> None:
        super().__init__(widgetResizable=True, frameShape=QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        # Tab goes to the controls of the page, not to the area that they scroll in.
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setWidget(content)
        set_lowest(self, LOWEST)

    def minimumSizeHint(self) -> QSize:
        """Qt asks for this when it lays out the docks; the least height is set above."""
        bar = self.verticalScrollBar().sizeHint().width()
        return self.widget().minimumSizeHint() + QSize(bar, 0)

    def sizeHint(self) -> QSize:
        """Qt asks for this when it lays out the docks."""
        return QSize(self.widget().sizeHint())


class Tabs(QTabWidget):
    """Tabs that are as low as the page that is shown: Qt has the least height of every page."""

    def __init__(self) -> None:
        super().__init__()
        self.currentChanged.connect(self._fit)

    def _fit(self, current: int) -> None:
        preferred, ignored = QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Ignored
        for number in range(self.count()):
            height = preferred if number == current else ignored
            self.widget(number).setSizePolicy(preferred, height)

    def hasHeightForWidth(self) -> bool:
        """Qt asks for this when it lays out the docks, and would take the highest page again."""
        return False

    def sizeHint(self) -> QSize:
        """Qt asks for this, too. A page around the tabs scrolls only below their least height."""
        return QSize(super().sizeHint().width(), self.minimumSizeHint().height())


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
        # Qt never answers less than the least height, here that of the text before.
        self.setMinimumHeight(0)
        self._fit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep the text whole at another width."""
        super().resizeEvent(event)
        # A scroll bar that comes and goes could have the text grow and shrink for ever.
        if abs(event.size().width() - event.oldSize().width()) > WIDEST_BAR:
            self.setMinimumHeight(0)
        self._fit()

    def changeEvent(self, event: QEvent) -> None:
        """Keep the text whole in larger letters."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._fit()

    def _fit(self) -> None:
        self.setFixedHeight(max(self.heightForWidth(self.width()), 0))


MARGIN = 24
"""Pixels beside the names of a list: frame and scroll bar."""


class ChoiceBox(QComboBox):
    """A list of values, each with a title."""

    def add(self, title: str, value: object, tip: str) -> None:
        """Add an entry with its tooltip."""
        self.addItem(title, value)
        self.setItemData(self.count() - 1, tip, Qt.ItemDataRole.ToolTipRole)

    def show_value(self, value: object) -> None:
        """Select the entry that holds *value*, if there is one."""
        index = self.findData(value)
        if index >= 0:
            self.setCurrentIndex(index)


def let_shrink(box: QComboBox, letters: int) -> None:
    """Let *box* be narrower than its longest entry, which would widen its dock."""
    box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
    box.setMinimumContentsLength(letters)


def dress_matches(box: QComboBox) -> None:
    """Give the list of matches below the line of *box* the colours of its window.

    The list is a separate window, which does not take on napari's style by itself.
    """
    popup, style = box.completer().popup(), box.window().styleSheet()
    if popup.styleSheet() != style:
        popup.setStyleSheet(style)


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
            self.add(layer.name, weakref.ref(layer), layer.name)
            if layer is chosen:
                self.setCurrentIndex(index)

    def showPopup(self) -> None:
        """Qt calls this when the list opens; it is then as wide as the longest name."""
        self.view().setMinimumWidth(self.view().sizeHintForColumn(0) + MARGIN)
        super().showPopup()
