"""The page "Scatter": two values of every pixel as a density, with a lasso, above the spectra."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyqtgraph as pg
from napari.components import ViewerModel
from napari.utils.theme import Theme
from qtpy.QtCore import QRectF, Qt, Signal
from qtpy.QtGui import QColor
from qtpy.QtWidgets import QFileDialog, QHBoxLayout, QLabel, QPushButton

from napari_mst.analysis.scatter import CELLS, Scatter
from napari_mst.base.arrays import Codes
from napari_mst.base.errors import shown
from napari_mst.plugin.spectra.boxes import SourceBox, TextBox
from napari_mst.plugin.spectra.gating import Highlight
from napari_mst.plugin.spectra.model_dock import ModelDock
from napari_mst.plugin.spectra.plot import relabel
from napari_mst.plugin.spectra.resolve import HINT, Snapshot
from napari_mst.plugin.viewer.sharing import calling
from napari_mst.plugin.viewer.themed_plot import PICTURES, ThemedPlot
from napari_mst.plugin.viewer.widgets import Paragraph, fill

FAINTEST = 0.25
"""Least opacity of a cell with pixels."""
LEAST_STEP = 4.0
"""Screen pixels between two corners of a lasso."""
LOWEST = 200
"""Pixels; a scatter that is lower cannot be read."""
TOO_SHORT = 3
"""Fewest corners of a lasso; fewer are a click."""
SCATTER_HINT = (
    "Draw around pixels in the scatter: they become a label on the image, and its mean a curve "
    "below. Picks and regions are seen here in their colours. The wheel zooms."
)
FEW_CELLS, SPOT = 9, 5
"""Up to so many cells of a highlight become squares with a side of so many cells."""
LEFT_OUT = 0.0005
"""Share of pixels beyond the axes above which a note says so."""
AXIS = "The value along this axis: a band, an index, a component (PC 1), or a formula."


class _Lasso(pg.ViewBox):
    """A view in which the left button draws an outline; the wheel zooms, the others pan."""

    drawn = Signal(list)

    def __init__(self) -> None:
        super().__init__(enableMenu=False)
        self.outline = pg.PlotCurveItem()
        self.addItem(self.outline, ignoreBounds=True)
        self._corners: list[tuple[float, float]] = []
        self._last = None

    def mouseDragEvent(self, event: Any, axis: int | None = None) -> None:
        """Pyqtgraph calls this while a button is down."""
        if event.button() != Qt.MouseButton.LeftButton:
            super().mouseDragEvent(event, axis)
            return
        event.accept()
        if event.isStart():
            self._corners = [self._place(event.buttonDownScenePos())]
            self._last = event.buttonDownScenePos()
        moved = event.scenePos() - self._last
        if abs(moved.x()) + abs(moved.y()) >= LEAST_STEP:
            self._last = event.scenePos()
            self._corners.append(self._place(self._last))
        closed = np.array([*self._corners, self._corners[0]])
        self.outline.setData(closed[:, 0], closed[:, 1])
        if event.isFinish():
            self.outline.setData([], [])
            if len(self._corners) >= TOO_SHORT:
                self.drawn.emit(self._corners)

    def _place(self, position: Any) -> tuple[float, float]:
        place = self.mapSceneToView(position)
        return place.x(), place.y()


class ScatterPlot(ThemedPlot):
    """Draws a scatter; `drawn` carries the corners (x, y) of an outline in it."""

    drawn = Signal(list)

    def __init__(self) -> None:
        super().__init__(LOWEST)
        self.view = _Lasso()
        self.left, self.bottom = self.add_axis(self.view, 0), self.add_axis(self.view, 1, 36)
        self.image = pg.ImageItem(axisOrder="row-major")
        self.spot = pg.ScatterPlotItem(size=9, symbol="o", brush=None)
        self._drawn: tuple[Any, ...] = ()
        self._shown: Scatter | None = None
        self._highlights: Sequence[Highlight] = ()
        self.ci.layout.setSpacing(0)
        self.addItem(self.view, 0, 1)
        self.view.disableAutoRange()
        for item in (self.image, self.spot):
            self.view.addItem(item, ignoreBounds=True)
        self.view.drawn.connect(self.drawn)
        self.scene().sigMouseClicked.connect(self._on_clicked)

    def set_theme(self, theme: Theme) -> None:
        """See `ThemedPlot`."""
        super().set_theme(theme)
        self._drawn = ()
        self.spot.setPen(pg.mkPen(theme.icon.as_hex(), width=2))
        self.view.outline.setPen(pg.mkPen(theme.text.as_hex(), width=1.5))
        if self.image.isVisible():
            self.show_scatter(self._shown, self._highlights)

    def show_scatter(self, found: Scatter | None, highlights: Sequence[Highlight]) -> None:
        """Draw *found* and the densities of picks and regions over it; nothing for None."""
        self._highlights = highlights
        self.image.setVisible(found is not None)
        if found is None:
            return
        if found is not self._shown:
            self._shown = found
            relabel(self.left, found.y.text)
            relabel(self.bottom, found.x.text)
            self.show_all()
        drawn = (found, *((each.colour, id(each.density)) for each in highlights))
        if drawn != self._drawn:
            self._drawn = drawn
            picture = painted(found, highlights, self._theme.text.as_hex())
            self.image.setImage(picture, levels=(0, 255))
            self.image.setRect(_rect(found))

    def show_all(self) -> None:
        """Undo a zoom."""
        if self._shown is not None:
            self.view.setRange(_rect(self._shown), padding=0)

    def show_spot(self, place: tuple[float, float] | None) -> None:
        """Mark the pixel under the mouse, or none."""
        self.spot.setData(pos=[] if place is None else [place])

    def _on_clicked(self, event: Any) -> None:
        if event.double():
            self.show_all()


def _rect(found: Scatter) -> QRectF:
    x, y = found.x, found.y
    return QRectF(x.low, y.low, x.high - x.low, y.high - y.low)


def painted(found: Scatter, highlights: Sequence[Highlight], ink: str) -> Codes:
    """Return the picture (N, N, 4) of a scatter: opaque where many pixels are, on a log scale.

    All pixels have the colour *ink*; the *highlights* over them have their own colours, and are
    enlarged where they have only some cells, as a pick has.
    """
    picture = np.zeros((CELLS, CELLS, 4), np.uint8)
    for colour, density in [Highlight(ink, found.whole_density), *map(_enlarged, highlights)]:
        seen = density > 0
        opacity = np.log1p(density[seen]) / np.log1p(max(int(density.max()), 2))
        picture[seen, :3] = QColor(colour).getRgb()[:3]
        picture[seen, 3] = np.round(255 * (FAINTEST + (1 - FAINTEST) * opacity))
    return picture


def _enlarged(highlight: Highlight) -> Highlight:
    """Return a highlight whose cells are large enough to be seen, if there are only some."""
    if np.count_nonzero(highlight.density) > FEW_CELLS:
        return highlight
    # Imported late, since docks must open quickly.
    from scipy.ndimage import maximum_filter

    return highlight._replace(density=maximum_filter(highlight.density, SPOT))


class ScatterDock(ModelDock):
    """Shows the scatter of the cube that maps are made of, and turns a lasso in it into a label."""

    def __init__(self, napari_viewer: ViewerModel) -> None:
        super().__init__(napari_viewer)
        self.gating = self.model.gating
        self.source = SourceBox(self.model)
        self.scatter = ScatterPlot()
        self.texts = {name: TextBox(AXIS) for name in ("x", "y")}
        self.back_button = QPushButton("Take back", toolTip="Take the last label back.")
        self.save_button = QPushButton("Save ...", toolTip="Save the scatter as a picture.")
        self.about = Paragraph()
        self.plots.append(self.scatter)
        for button in (self.back_button, self.save_button):
            self.source.row.addWidget(button)
        row = fill(QHBoxLayout())
        for name, box in self.texts.items():
            box.entered.connect(partial(self._on_text, name))
            row.addWidget(QLabel(name))
            row.addWidget(box, stretch=1)
        parts = (self.source.row, row, self.scatter, self.about, self.problem, self.plot)
        layout = self.stack(*parts)
        layout.setStretchFactor(self.scatter, 3)
        layout.setStretchFactor(self.plot, 2)
        self.back_button.clicked.connect(calling(self.gating.take_back))
        self.save_button.clicked.connect(calling(self._save))
        self.scatter.drawn.connect(self._on_drawn)

    # ------------------------------------------------------------ forwarding

    def _on_text(self, name: str, text: str) -> None:
        with self.model.reported():
            setattr(self.gating, name, text.strip())
        self.model.publish()

    def _on_drawn(self, outline: list[tuple[float, float]]) -> None:
        with self.model.reported():
            self.gating.gate(outline)

    def _save(self) -> None:
        path, _ = QFileDialog.getSaveFileName(self, "Save scatter", "scatter.png", PICTURES)
        if path:
            with self.model.reported():
                self.scatter.save(Path(path))
                self.model.say(f"The scatter was saved as {shown(Path(path).name, 60)}.")

    # ------------------------------------------------------------ drawing

    def _draw_rows(self, new: Snapshot) -> None:
        self.gating.update()
        self.source.draw()
        for name, box in self.texts.items():
            box.draw(self.gating.presets, getattr(self.gating, name))
        self.scatter.show_scatter(self.gating.scatter, self.gating.highlights)
        self.scatter.show_spot(self.gating.pointed)
        self.back_button.setEnabled(self.gating.can_take_back)
        text = SCATTER_HINT if new.text == HINT else new.text
        found = self.gating.scatter
        if found is not None and found.left_out >= LEFT_OUT:
            text += f" {found.left_out:.1%} of the pixels lie beyond the axes."
        self.about.setText("Computing the scatter ..." if self.gating.is_busy else text)
