"""The colour chart as a grid of buttons in the colours of its patches."""

from collections.abc import Sequence

from qtpy.QtCore import QSize, Qt, Signal
from qtpy.QtGui import QColor, QPainter, QPaintEvent
from qtpy.QtWidgets import QAbstractButton, QButtonGroup, QGridLayout, QSizePolicy, QWidget

from napari_mst.plugin.teaching.lesson import Codes, codes_of
from napari_mst.spectra.spectrum import Spectrum

ROWS = 4
"""Rows of patches, which are listed down the columns of the chart."""
HEIGHT = 20
"""Pixels of a patch."""
FRAME = 2
"""Pixels of the frame around the chosen patch."""


class PatchButton(QAbstractButton):
    """A patch of the chart; the one that is chosen has a frame."""

    def __init__(self, codes: Codes, name: str) -> None:
        super().__init__(checkable=True, autoExclusive=True, toolTip=name)
        self.setAccessibleName(name)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.colour = QColor(*codes)
        self.frame = QColor("white")

    def sizeHint(self) -> QSize:
        """Qt asks for this when it lays out the grid."""
        return QSize(HEIGHT, HEIGHT)

    def paintEvent(self, _: QPaintEvent | None) -> None:
        """Qt calls this when the patch is to be drawn."""
        painter = QPainter(self)
        if self.isChecked():
            painter.fillRect(self.rect(), self.frame)
        inset = FRAME if self.isChecked() else 0
        inside = self.rect().adjusted(inset, inset, -inset, -inset)
        painter.fillRect(inside, self.colour)
        if self.hasFocus():
            painter.setPen(Qt.PenStyle.DotLine)
            painter.drawRect(inside.adjusted(1, 1, -2, -2))
        # Not left to Python: a painter must end before its widget is gone.
        painter.end()


class ChartGrid(QWidget):
    """All patches; `chosen` tells the number of one that is clicked, or reached by arrow keys."""

    chosen = Signal(int)

    def __init__(self, chart: Sequence[Spectrum]) -> None:
        super().__init__()
        self.buttons = [PatchButton(codes_of(patch), patch.name) for patch in chart]
        self._group = QButtonGroup(self)
        layout = QGridLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(2)
        for number, button in enumerate(self.buttons):
            column, row = divmod(number, ROWS)
            layout.addWidget(button, row, column)
            self._group.addButton(button, number)
        self._group.idClicked.connect(self.chosen)

    def show_chosen(self, number: int | None) -> None:
        """Frame the patch *number*, or none."""
        # A group that is exclusive would keep its last button checked.
        self._group.setExclusive(False)
        for at, button in enumerate(self.buttons):
            button.setChecked(at == number)
        self._group.setExclusive(True)

    def set_frame(self, colour: str) -> None:
        """Draw frames in *colour*."""
        for button in self.buttons:
            button.frame = QColor(colour)
            button.update()
