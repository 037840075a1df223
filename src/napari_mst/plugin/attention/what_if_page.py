"""The page "What if" of the attention dock: the cube with other attention weights."""

import weakref

import numpy as np
import pyqtgraph as pg
from napari.components import ViewerModel
from napari.utils.theme import Theme
from qtpy.QtCore import QSignalBlocker, Qt
from qtpy.QtGui import QHideEvent, QShowEvent
from qtpy.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QPushButton,
    QSlider,
    QVBoxLayout,
    QWidget,
)

from napari_mst.plugin.attention.matrix_page import Pictures
from napari_mst.plugin.attention.what_if_model import WhatIf, WhatIfView
from napari_mst.plugin.viewer.layer_photos import photo_layers
from napari_mst.plugin.viewer.sharing import calling
from napari_mst.plugin.viewer.widgets import ChoiceBox, Paragraph, fill, let_shrink, set_lowest

NOTE = (
    "Computed on the photo averaged down to about 256 x 256 pixels, so its numbers differ from "
    "those of the cube. Click a picture for the spectrum of a pixel."
)
TEMPERATURE_HINT = (
    "Divides the scores of all heads before the softmax: to the right weights are more even, to "
    "the left the largest ones take all."
)
WEIGHTS = {
    "kept": ("as they are", "The weights of the network."),
    "all equal": ("equal in all heads", "All channels get the same weight, in every head."),
    "head equal": ("equal in this head", "Equal weights in the head that is chosen above."),
    "head silent": ("this head silent", "The head that is chosen above adds nothing."),
}
OTHER_HINT = "The matrices of this photo, by the same model, in place of those of the photo itself."
WEIGHTS_HINT = "The heads whose weights are replaced, and by what: also by those of another photo."
RESET_HINT = "Go back to what the network does by itself."
REACH, STEP = 3, 10
"""Octaves of temperature on each side of the slider, and steps of the slider per octave."""
AFTER = "#e8842a"


class WhatIfPage(QWidget):
    """Chooses other weights, and shows the cube before and after."""

    def __init__(self, state: WhatIf) -> None:
        super().__init__()
        self.state = state
        self.temperature = QSlider(Qt.Orientation.Horizontal, toolTip=TEMPERATURE_HINT)
        self.temperature.setRange(-REACH * STEP, REACH * STEP)
        self.temperature.setAccessibleName("Temperature")
        self.number = QLabel("1.00")
        self.weights = ChoiceBox(toolTip=WEIGHTS_HINT)
        for value, (title, tip) in WEIGHTS.items():
            self.weights.add(title, value, tip)
        let_shrink(self.weights, 8)
        self.reset_button = QPushButton("Reset", toolTip=RESET_HINT)
        self.text, note = Paragraph(), Paragraph()
        note.setText(NOTE)
        self.pictures = Pictures("The cube before and after", 110)
        self.spectrum = pg.PlotWidget(enableMenu=False)
        self.spectrum.setMouseEnabled(False, False)
        self.spectrum.hideButtons()
        set_lowest(self.spectrum, 110)
        self.spectrum.setAccessibleName("Spectrum before and after")
        self.curves = [self.spectrum.plot(), self.spectrum.plot(pen=pg.mkPen(AFTER, width=2))]
        chosen = self.weights, self.reset_button
        layout = fill(
            QVBoxLayout(self),
            fill(
                QHBoxLayout(),
                QLabel("Temperature"),
                self.temperature,
                self.number,
                stretched=self.temperature,
            ),
            fill(QHBoxLayout(), QLabel("Weights"), *chosen, stretched=self.weights),
            self.text,
            self.pictures,
            self.spectrum,
            note,
            stretched=self.pictures,
        )
        layout.setStretchFactor(self.spectrum, 1)
        self.temperature.valueChanged.connect(calling(self._choose))
        self.weights.currentIndexChanged.connect(calling(self._choose))
        self.reset_button.clicked.connect(calling(self.reset))
        self.pictures.clicked.connect(state.pick)

    def reset(self) -> None:
        """Go back to the network's own weights."""
        with QSignalBlocker(self.temperature), QSignalBlocker(self.weights):
            self.temperature.setValue(0)
            self.weights.setCurrentIndex(0)
        self._choose()

    def _choose(self) -> None:
        # A kind of weights, or a reference to the photo that lends its matrices.
        chosen = self.weights.currentData()
        is_kind = isinstance(chosen, str)
        temperature = 2.0 ** (self.temperature.value() / STEP)
        self.number.setText(f"{temperature:.2f}")
        # Weights that do not come from scores have no temperature.
        self.temperature.setEnabled(is_kind and chosen != "all equal")
        self.state.choose(
            temperature=temperature,
            weights=chosen if is_kind else "kept",
            other=None if is_kind else chosen(),
        )

    def show_photos(self, viewer: ViewerModel) -> None:
        """List the photos of *viewer* that can lend matrices; a removed one is deselected."""
        kind, own = self.weights.currentIndex(), self.state.own_layer
        with QSignalBlocker(self.weights):
            while self.weights.count() > len(WEIGHTS):
                self.weights.removeItem(len(WEIGHTS))
            self.weights.setCurrentIndex(kind if kind < len(WEIGHTS) else 0)
            for layer in photo_layers(viewer):
                if layer is own:
                    continue
                self.weights.add(f"those of {layer.name}", weakref.ref(layer), OTHER_HINT)
                if layer is self.state.other:
                    self.weights.setCurrentIndex(self.weights.count() - 1)
        self._choose()

    def show_view(self, view: WhatIfView) -> None:
        """Show what was computed."""
        self.text.setText(view.text)
        self.pictures.draw(view.pictures)
        for curve, values in zip(self.curves, view.spectra, strict=True):
            curve.setData(np.asarray(view.wavelengths), values)

    def set_theme(self, theme: Theme) -> None:
        """Take on the colours of a napari theme."""
        text = theme.text.as_hex()
        self.spectrum.setBackground(theme.background.as_hex())
        for side in ("left", "bottom"):
            axis = self.spectrum.getAxis(side)
            axis.setPen(text)
            axis.setTextPen(text)
        self.spectrum.setLabel("bottom", "nm", color=text)
        self.spectrum.setTitle(
            f"at the framed pixel: before, <span style='color:{AFTER}'>after</span>",
            color=text,
            size="8pt",
        )
        self.curves[0].setPen(pg.mkPen(text, width=2))

    def showEvent(self, event: QShowEvent | None) -> None:
        """Qt calls this when the page appears; nothing is computed before."""
        super().showEvent(event)
        self.state.turn(True)

    def hideEvent(self, event: QHideEvent | None) -> None:
        """Qt calls this when the page is hidden."""
        super().hideEvent(event)
        self.state.turn(False)
