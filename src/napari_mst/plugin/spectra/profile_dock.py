"""The page "Profile": a value along a drawn line, and all its spectra as a spectrogram."""

from pathlib import Path
from typing import Any

import numpy as np
import pyqtgraph as pg
from napari.components import ViewerModel
from napari.utils.theme import Theme
from qtpy.QtCore import QRectF, Qt, Signal
from qtpy.QtWidgets import QFileDialog, QHBoxLayout, QPushButton

from napari_mst.analysis.transects import Transect
from napari_mst.base.arrays import Singles
from napari_mst.base.errors import SpectrumError, plain, shown
from napari_mst.cube import NANOMETRES
from napari_mst.plugin.spectra.boxes import SourceBox, TextBox
from napari_mst.plugin.spectra.model_dock import ModelDock
from napari_mst.plugin.spectra.plot import relabel
from napari_mst.plugin.spectra.profiling import NO_LINE, spectrogram
from napari_mst.plugin.spectra.resolve import HINT, Snapshot
from napari_mst.plugin.viewer.sharing import calling
from napari_mst.plugin.viewer.themed_plot import PICTURES, SUFFIXES, ThemedPlot
from napari_mst.plugin.viewer.widgets import Paragraph, fill

LOWEST = 220
"""Pixels; a profile that is lower cannot be read."""
KINDS = f"Table (*.csv);;{PICTURES}"
DRAW = "Drag the mouse over the image. The newest line counts, or the one selected in the table."
VALUE = "The value along the line: a band, an index, or a formula. Empty: the band at the slider."
SAVE = "Save the profile as a table of all bands (.csv), or as a figure (.png, .svg)."
PROFILE_HINT = "Above: the value along the line. Below: its spectra. A click there shows that band."


class ProfilePlot(ThemedPlot):
    """Draws a transect; `wavelength_clicked` carries a wavelength of the spectrogram."""

    wavelength_clicked = Signal(float)

    def __init__(self) -> None:
        super().__init__(LOWEST)
        self.top, self.below = pg.ViewBox(enableMenu=False), pg.ViewBox(enableMenu=False)
        self.value, self.wavelength = self.add_axis(self.top, 0), self.add_axis(self.below, 1)
        self.bottom = self.add_axis(self.below, 2, 36)
        self.curve, self.image = pg.PlotCurveItem(), pg.ImageItem(axisOrder="row-major")
        self.band = pg.InfiniteLine(angle=0)
        self._shown: Transect | None = None
        self.ci.layout.setSpacing(4)
        for row, view in enumerate((self.top, self.below)):
            self.addItem(view, row, 1)
            view.setMouseEnabled(x=True, y=False)
        self.top.setXLink(self.below)
        self.below.disableAutoRange()
        self.top.addItem(self.curve)
        self.image.setColorMap(pg.colormap.get("viridis"))
        self.below.addItem(self.image, ignoreBounds=True)
        self.below.addItem(self.band, ignoreBounds=True)
        self.scene().sigMouseClicked.connect(self._on_clicked)

    def set_theme(self, theme: Theme) -> None:
        """See `ThemedPlot`."""
        super().set_theme(theme)
        self.curve.setPen(pg.mkPen(theme.highlight.as_hex(), width=2))
        self.band.setPen(pg.mkPen("white", width=1, style=Qt.PenStyle.DashLine))

    def show_transect(self, found: Transect | None) -> None:
        """Draw the spectrogram of *found*, or nothing."""
        for item in (self.image, self.band, self.curve):
            item.setVisible(found is not None)
        if found is None or found is self._shown:
            return
        self._shown = found
        picture, low, high = spectrogram(found)
        references = picture[np.isfinite(picture)]
        levels = np.percentile(references, (1, 99)) if references.size else (0, 1)
        self.image.setImage(picture, levels=levels)
        # A cube of one band needs some height, too.
        length, height = float(found.distances[-1]), max(high - low, 1.0)
        self.image.setRect(QRectF(0, low, length, height))
        self.below.setRange(QRectF(0, low, length, height), padding=0)
        is_nm = found.cube.unit == NANOMETRES
        relabel(self.wavelength, "wavelength (nm)" if is_nm else found.cube.unit)
        relabel(self.bottom, f"distance ({found.unit})")

    def show_value(self, name: str, values: Singles | None, band: float | None) -> None:
        """Draw the *values* of *name* along the line, and the *band* that the slider shows."""
        found = self._shown
        if found is None or values is None or len(values) != len(found.distances):
            self.curve.setData([], [])
        else:
            self.curve.setData(found.distances, values, connect="finite")
        if name != self.value.labelText:
            relabel(self.value, name)
        if band is not None:
            self.band.setValue(band)

    def _on_clicked(self, event: Any) -> None:
        if event.double() and self._shown is not None:
            self.below.setXRange(0, float(self._shown.distances[-1]), padding=0)
        elif self.below.sceneBoundingRect().contains(event.scenePos()) and self.image.isVisible():
            self.wavelength_clicked.emit(self.below.mapSceneToView(event.scenePos()).y())


class ProfileDock(ModelDock):
    """Shows the spectra along the line that was last drawn or selected."""

    def __init__(self, napari_viewer: ViewerModel) -> None:
        super().__init__(napari_viewer)
        self.profile = self.model.profile
        self.source = SourceBox(self.model)
        self.chart = ProfilePlot()
        self.plots.append(self.chart)
        self.value = TextBox(VALUE)
        self.value.lineEdit().setPlaceholderText("the band at the slider")
        self.draw_button = QPushButton("Draw a line", toolTip=DRAW)
        self.save_button = QPushButton("Save ...", toolTip=SAVE)
        self.about = Paragraph()
        ends = (self.draw_button, self.save_button)
        row = fill(QHBoxLayout(), self.value, *ends, stretched=self.value)
        parts = (self.source.row, row, self.chart, self.about, self.problem, self.plot)
        self.stack(*parts).setStretchFactor(self.chart, 3)
        self.value.entered.connect(self._on_value)
        self.draw_button.clicked.connect(calling(self.profile.draw_line))
        self.save_button.clicked.connect(calling(self._save))
        self.chart.wavelength_clicked.connect(self.model.go_to)

    # ------------------------------------------------------------ forwarding

    def _on_value(self, text: str) -> None:
        self.profile.text = text.strip()
        self.model.publish(problem="")

    def _save(self) -> None:
        path, _ = QFileDialog.getSaveFileName(self, "Save profile", "profile.csv", KINDS)
        if not path:
            return
        with self.model.reported():
            if Path(path).suffix.lower() in SUFFIXES:
                self.chart.save(Path(path))
                self.model.say(f"The profile was saved as {shown(Path(path).name, 60)}.")
            else:
                self.profile.save(path)

    # ------------------------------------------------------------ drawing

    def _draw_rows(self, new: Snapshot) -> None:
        profile = self.profile
        profile.update()
        self.source.draw()
        self.value.draw(profile.presets, profile.text)
        found = profile.transect
        self.chart.show_transect(found)
        values, text = None, PROFILE_HINT if new.text == HINT else new.text
        try:
            values = profile.curve()
        except SpectrumError as error:
            text = plain(error)
        self.chart.show_value(profile.value, values, new.bands and new.bands.shown)
        self.save_button.setEnabled(found is not None)
        self.about.setText(text if found is not None else NO_LINE)
