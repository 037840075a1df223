"""The chart of colours to choose from, and the table of colours in the photo and a second light."""

from collections.abc import Sequence
from itertools import zip_longest

import numpy as np
from qtpy.QtCore import Qt, Signal
from qtpy.QtWidgets import (
    QButtonGroup,
    QGridLayout,
    QLabel,
    QPushButton,
    QSizePolicy,
    QWidget,
)

from napari_mst.cube.colour import XYZ_TO_SRGB, srgb_to_linear
from napari_mst.cube.illuminants import illuminant_names
from napari_mst.cube.spectrum import Spectrum
from napari_mst.plugin.metamers.metamer_model import SECOND_LIGHT, ColourCodes, Seen, codes_of
from napari_mst.plugin.viewer.sharing import calling
from napari_mst.plugin.viewer.widgets import ChoiceBox

ROWS = 4
"""Rows of patches. The chart is filled column by column."""
PATCH_HEIGHT = 20
"""Pixels of a patch."""
PATCH = """
QPushButton {{ background: rgb{codes}; border-radius: 0; padding: 0; min-width: 8px; }}
QPushButton:checked {{ border: 2px solid {frame}; }}
QPushButton:focus {{ border: 2px dotted {frame}; }}
"""
"""Style sheet of a patch; the chosen patch has a frame."""


class ChartGrid(QWidget):
    """All patches. `chosen` carries the number of a patch clicked or reached with arrow keys."""

    chosen = Signal(int)

    def __init__(self, chart: Sequence[Spectrum]) -> None:
        super().__init__()
        self._chart = chart
        self.buttons = [QPushButton(checkable=True, toolTip=patch.name) for patch in chart]
        self._group = QButtonGroup(self)
        layout = QGridLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(2)
        for number, button in enumerate(self.buttons):
            column, row = divmod(number, ROWS)
            button.setAccessibleName(button.toolTip())
            button.setFixedHeight(PATCH_HEIGHT)
            layout.addWidget(button, row, column)
            self._group.addButton(button, number)
        self._group.idClicked.connect(self.chosen)

    def show_chosen(self, number: int | None) -> None:
        """Frame the patch *number*, or none."""
        # An exclusive group would keep its last button checked.
        self._group.setExclusive(False)
        for at, button in enumerate(self.buttons):
            button.setChecked(at == number)
        self._group.setExclusive(True)

    def set_frame(self, colour: str) -> None:
        """Draw the frame of the chosen patch in *colour*."""
        for button, patch in zip(self.buttons, self._chart, strict=True):
            button.setStyleSheet(PATCH.format(codes=codes_of(patch), frame=colour))


HEIGHT = 26
"""Height of a row in pixels. Rows touch, so an edge shows where their colours differ."""
BRIGHT = 0.18
"""Luminance (white is 1) above which black text reads better than white."""
PHOTO_TIP = (
    "The colour of each spectrum in a photo in daylight (D65), with its three numbers. "
    "They are everything that a network sees."
)
LIGHT_TIP = "Another light to see the same spectra in, with eyes that are used to it."
DIFFERENCE_TIP = (
    "The colour in the second light. \N{GREEK CAPITAL LETTER DELTA}E (CIEDE2000) is its difference "
    "from the first row: 1 is just visible."
)


class Swatch(QLabel):
    """A field of one colour with a text on it."""

    def __init__(self, tip: str) -> None:
        super().__init__(toolTip=tip, alignment=Qt.AlignmentFlag.AlignCenter)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setFixedHeight(HEIGHT)

    def show_colour(self, codes: ColourCodes, text: str) -> None:
        """Show the sRGB colour of 8-bit *codes*, and *text* on it."""
        self.setText(text)
        luminance = srgb_to_linear(np.array(codes) / 255) @ np.linalg.inv(XYZ_TO_SRGB)[1]
        ink = "black" if luminance >= BRIGHT else "white"
        self.setStyleSheet(f"background: rgb{codes}; color: {ink};")


class ColourTable(QWidget):
    """A table of up to three rows. `light_chosen` carries the name of the second light."""

    light_chosen = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.lights = ChoiceBox(toolTip=LIGHT_TIP)
        for name in illuminant_names():
            self.lights.addItem(f"under {name}", name)
        self.lights.show_value(SECOND_LIGHT)
        self.lights.setMinimumContentsLength(6)
        self.lights.currentIndexChanged.connect(calling(self._on_light))
        self.rows = [(QLabel(), Swatch(PHOTO_TIP), Swatch(DIFFERENCE_TIP)) for _ in range(3)]
        layout = QGridLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setHorizontalSpacing(6)
        layout.setVerticalSpacing(0)
        head = QLabel("in the photo", toolTip=PHOTO_TIP)
        layout.addWidget(head, 0, 1, Qt.AlignmentFlag.AlignCenter)
        layout.addWidget(self.lights, 0, 2)
        layout.setRowMinimumHeight(0, HEIGHT)
        for row, widgets in enumerate(self.rows, start=1):
            for column, widget in enumerate(widgets):
                layout.addWidget(widget, row, column)
        layout.setColumnStretch(1, 1)
        layout.setColumnStretch(2, 1)

    def _on_light(self) -> None:
        self.light_chosen.emit(self.lights.currentData())

    def show_rows(self, rows: Sequence[Seen]) -> None:
        """Show *rows*; the others are compared with the first."""
        for widgets, seen in zip_longest(self.rows, rows):
            for widget in widgets:
                widget.setVisible(seen is not None)
            if seen is not None:
                name, photo, second = widgets
                curve = seen.spectrum
                name.setText(f'<span style="color:{curve.colour}">&#9473;</span> {curve.name}')
                photo.show_colour(seen.codes, " ".join(map(str, seen.codes)))
                delta = f"\N{GREEK CAPITAL LETTER DELTA}E {seen.difference:.1f}"
                second.show_colour(seen.second, "" if seen is rows[0] else delta)
