"""The table of colours: each spectrum in the photo, and in a second light."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from qtpy.QtCore import QSize, Qt, Signal
from qtpy.QtGui import QColor, QPainter, QPaintEvent
from qtpy.QtWidgets import QComboBox, QGridLayout, QLabel, QSizePolicy, QWidget

from napari_mst.colour import XYZ_TO_SRGB, srgb_to_linear
from napari_mst.illuminants import illuminant_names
from napari_mst.plugin.teaching.lesson import SECOND_LIGHT, Codes, Seen
from napari_mst.plugin.viewer.slots import calling

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
    """Three rows at most; `light_chosen` tells the name of the second light."""

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
