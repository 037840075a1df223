"""The chart of colours to choose from; the table of colours, in the photo and a second light."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from qtpy.QtCore import QSize, Qt, Signal
from qtpy.QtGui import QColor, QPainter, QPaintEvent
from qtpy.QtWidgets import (
    QAbstractButton,
    QButtonGroup,
    QComboBox,
    QGridLayout,
    QLabel,
    QSizePolicy,
    QWidget,
)

from napari_mst.colour import XYZ_TO_SRGB, srgb_to_linear
from napari_mst.illuminants import illuminant_names
from napari_mst.plugin.teaching.lesson import SECOND_LIGHT, Codes, Seen, codes_of
from napari_mst.plugin.viewer.slots import calling
from napari_mst.spectra.spectrum import Spectrum

ROWS = 4
"""Rows of patches, which are listed down the columns of the chart."""
PATCH_HEIGHT = 20
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
        return QSize(PATCH_HEIGHT, PATCH_HEIGHT)

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
    """All patches; `chosen` carries the number of one that is clicked, or reached by arrow keys."""

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


HEIGHT = 26
"""Pixels of a row: the colours of two rows touch, so that an edge shows if they differ."""
BRIGHT = 0.18
"""Luminance (white is 1) from which on black text is read better than white."""
PHOTO_TIP = (
    "The colour of each spectrum in a photo in daylight (D65), with its three numbers. "
    "They are everything that a network is told."
)
LIGHT_TIP = "Another light to see the same spectra in, with eyes that are used to it."
DIFFERENCE_TIP = (
    "The colour in the second light. \N{GREEK CAPITAL LETTER DELTA}E (CIEDE2000) is its difference "
    "from the first row: 1 is just visible."
)


class Row(NamedTuple):
    """A row of the table: a spectrum, its name, and the colour of its curve."""

    name: str
    colour: str
    seen: Seen


class Swatch(QWidget):
    """A field of one colour with a text on it."""

    def __init__(self, tip: str) -> None:
        super().__init__(toolTip=tip)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.colour = QColor("black")
        self.text = ""

    def sizeHint(self) -> QSize:
        """Qt asks for this when it lays out the table."""
        return QSize(3 * HEIGHT, HEIGHT)

    def show_colour(self, codes: Codes, text: str) -> None:
        """Show the sRGB colour of 8-bit *codes*, and *text* on it."""
        self.colour = QColor(*codes)
        self.text = text
        self.setAccessibleName(text)
        self.update()

    @property
    def _luminance(self) -> float:
        codes = np.array([self.colour.redF(), self.colour.greenF(), self.colour.blueF()])
        return float(srgb_to_linear(codes) @ np.linalg.inv(XYZ_TO_SRGB)[1])

    def paintEvent(self, _: QPaintEvent | None) -> None:
        """Qt calls this when the field is to be drawn."""
        painter = QPainter(self)
        painter.fillRect(self.rect(), self.colour)
        painter.setPen(QColor("black" if self._luminance >= BRIGHT else "white"))
        painter.drawText(self.rect(), Qt.AlignmentFlag.AlignCenter, self.text)
        painter.end()


class ColourTable(QWidget):
    """Three rows at most; `light_chosen` carries the name of the second light."""

    light_chosen = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.lights = QComboBox(toolTip=LIGHT_TIP)
        for name in illuminant_names():
            self.lights.addItem(f"under {name}", name)
        self.lights.setCurrentIndex(self.lights.findData(SECOND_LIGHT))
        self.lights.setMinimumContentsLength(6)
        self.lights.currentIndexChanged.connect(calling(self._on_light))
        self.names = [QLabel() for _ in range(3)]
        self.photo = [Swatch(PHOTO_TIP) for _ in range(3)]
        self.second = [Swatch(DIFFERENCE_TIP) for _ in range(3)]
        self._lay_out()

    def _lay_out(self) -> None:
        layout = QGridLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setHorizontalSpacing(6)
        layout.setVerticalSpacing(0)
        head = QLabel("in the photo", toolTip=PHOTO_TIP)
        layout.addWidget(head, 0, 1, Qt.AlignmentFlag.AlignCenter)
        layout.addWidget(self.lights, 0, 2)
        layout.setRowMinimumHeight(0, HEIGHT)
        columns = (self.names, self.photo, self.second)
        for at, column in enumerate(columns):
            for row, widget in enumerate(column, start=1):
                layout.addWidget(widget, row, at)
        layout.setColumnStretch(1, 1)
        layout.setColumnStretch(2, 1)

    def _on_light(self) -> None:
        self.light_chosen.emit(self.lights.currentData())

    def show_rows(self, rows: Sequence[Row]) -> None:
        """Show *rows*; the first is what the others are compared with."""
        for at, widgets in enumerate(zip(self.names, self.photo, self.second, strict=True)):
            for widget in widgets:
                widget.setVisible(at < len(rows))
        for at, row in enumerate(rows):
            sign = f'<span style="color:{row.colour}">&#9473;</span>'
            self.names[at].setText(f"{sign} {row.name}")
            self.photo[at].show_colour(row.seen.codes, " ".join(map(str, row.seen.codes)))
            told = "" if at == 0 else f"\N{GREEK CAPITAL LETTER DELTA}E {row.seen.difference:.1f}"
            self.second[at].show_colour(row.seen.second, told)
