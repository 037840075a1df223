"""Plots of the attention dock: the matrix of a head, a head step by step, and a window enlarged."""

import math
from collections.abc import Sequence
from html import escape
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pyqtgraph as pg
from napari.utils.theme import Theme
from pyqtgraph.GraphicsScene.mouseEvents import MouseClickEvent
from qtpy.QtCore import QPointF, QRectF, Qt, Signal
from qtpy.QtWidgets import (
    QGraphicsRectItem,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from napari_mst.arrays import Array, Floats
from napari_mst.attention.maps import AttentionMap, AttentionSteps
from napari_mst.attention.record import beside_uniform, entropies
from napari_mst.errors import shown
from napari_mst.plugin.attention.exploration import RecordedHead
from napari_mst.plugin.viewer.widgets import fill

if TYPE_CHECKING:
    from napari_mst.attention.comparing import SideBySide

COLORMAP = "inferno"
SIGNED = "CET-D1A"
"""Blue, white, red."""
CELL_COLOUR, LINK_COLOUR = "#3df0ff", "#00b7c7"
"""Frames of the chosen cell: light on the matrix, darker on the steps, some of which are white."""
STEPS = {
    "X": (
        "<b>features X</b><br>{channels} x {photo}",
        "What enters the block: the norm of all channels of X.",
    ),
    "K": ("<b>keys K</b>, i = {i}<br>{d} x {photo}", "<i>K = W<sub>K</sub> X</i>"),
    "Q": ("<b>queries Q</b>, j = {j}<br>{d} x {photo}", "<i>Q = W<sub>Q</sub> X</i>"),
    "V": ("<b>values V</b>, j = {j}<br>{d} x {photo}", "<i>V = W<sub>V</sub> X</i>"),
    "kq": (
        "<b>keys by queries</b>: sum {logit:.3f}<br>{photo}",
        "<i>k<sub>i</sub> q<sub>j</sub></i> at each pixel",
    ),
    "L": (
        "<b>scores L</b>: {logit:.3f}<br>{d} x {d}",
        "<i>L<sub>ij</sub></i>: the sum of <i>k<sub>i</sub> q<sub>j</sub></i> over all pixels",
    ),
    "A": (
        "<b>attention A</b>: {share:.4f}<br>{d} x {d}",
        "<i>A</i> = softmax of each row of <i>L</i>",
    ),
    "AV": (
        "<b>result A V</b>, i = {i}<br>{d} x {photo}",
        "row <i>i</i> of <i>A V</i>: <i>V</i> weighted by row <i>i</i> of <i>A</i>",
    ),
}
"""The steps in the order of the formulas: a caption, which ends with the size of all of it, and the
formula."""
MATRICES = ("L", "A")
"""The pictures that are matrices of channels, where a cell can be clicked."""
UNSIGNED = ("X", "A")
"""The pictures whose numbers are 0 or more."""
COLUMNS = 2
SIX_PICTURES = 9
"""Six attentions, their ancestor, patch merging and patch embedding."""
LOWEST_MATRIX, LOWEST_STEPS, LOWEST_WINDOW, LOWEST_SIX = 200, 420, 200, 1100
"""Pixels; the heights below which a page scrolls."""
ENTROPY_WIDTH, LEFT_WIDTH, BOTTOM_HEIGHT = 40, 40, 38
"""Pixels."""
NAME = 22
"""Letters of a run's name that fit above a matrix beside another."""
CLIPPED = 0.5
"""Per cent of the pixels that lie beyond the colours: a few extremes would pale all others."""


class FramedImage:
    """An image in *view*, with a frame around one cell.

    Rows go downwards, and the centre of cell (0, 0) is the origin.
    """

    def __init__(self, view: pg.ViewBox) -> None:
        self.view = view
        self.image = pg.ImageItem(axisOrder="row-major")
        self.mark = QGraphicsRectItem()
        self.mark.hide()
        view.addItem(self.image)
        # The frame is not to change which part of the plane is shown.
        view.addItem(self.mark, ignoreBounds=True)

    def show(self, values: Array, limits: tuple[float, float]) -> None:
        """Draw (rows, columns) *values*, or colours; limits around zero ask for two colours."""
        self.image.setColorMap(pg.colormap.get(SIGNED if limits[0] < 0 else COLORMAP))
        self.image.setImage(np.asarray(values), levels=limits)
        rows, columns = values.shape[:2]
        area = QRectF(-0.5, -0.5, columns, rows)
        self.image.setRect(area)
        self.view.setRange(area, padding=0.0)

    def set_mark(self, cell: QRectF, colour: str) -> None:
        """Draw a frame around *cell*, given by its top left corner in cells, and its size."""
        self.mark.setPen(pg.mkPen(colour, width=2))
        self.mark.setRect(cell.translated(-0.5, -0.5))
        self.mark.show()

    def cell_at(self, position: QPointF) -> tuple[int, int] | None:
        """Return (row, column) of the cell under a position of the scene; None outside."""
        point = self.image.mapFromScene(position)
        row, column = math.floor(point.y()), math.floor(point.x())
        is_inside = self.image.boundingRect().toRect().contains(column, row)
        return (row, column) if is_inside else None


class Plot(pg.GraphicsLayoutWidget):
    """A plot that is at least *lowest* pixels high, and takes the room that there is.

    `clicked` carries row and column of a cell of one of the `matrices`.
    """

    clicked = Signal(int, int)

    def __init__(self, lowest: int, name: str) -> None:
        super().__init__()
        self.setMinimumHeight(lowest)
        # Its own hint is as large as its scene: a page that scrolls would give it all of that.
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Ignored)
        self.setAccessibleName(name)
        self.ci.layout.setContentsMargins(2, 2, 2, 2)
        self.labels: list[pg.LabelItem] = []
        self.matrices: list[FramedImage] = []
        self.scene().sigMouseClicked.connect(self._on_click)

    def add_title(self, row: int, column: int, span: int = 1) -> pg.LabelItem:
        """Add a line of small text."""
        title = self.addLabel("", row, column, 1, span, size="8pt", justify="left")
        self.labels.append(title)
        return title

    def add_picture(self, row: int, column: int) -> FramedImage:
        """Add a picture that keeps its proportions."""
        # All columns are equally wide, with titles of any length.
        self.ci.layout.setColumnStretchFactor(column, 1)
        self.ci.layout.setColumnPreferredWidth(column, 1)
        look = {"enableMouse": False, "enableMenu": False, "invertY": True, "lockAspect": True}
        return FramedImage(self.addViewBox(row, column, **look))

    def add_pictures(self, count: int) -> list[FramedImage]:
        """Add pictures in rows of `COLUMNS`, each below a title."""
        pictures = []
        for number in range(count):
            row, column = divmod(number, COLUMNS)
            self.add_title(2 * row, column)
            pictures.append(self.add_picture(2 * row + 1, column))
        return pictures

    def set_theme(self, theme: Theme) -> None:
        """Take on the colours of a napari theme."""
        self.setBackground(theme.background.as_hex())
        for label in self.labels:
            # pyqtgraph colours a label only as it is given a text.
            label.setText(label.text, color=theme.text.as_hex())

    def _on_click(self, event: MouseClickEvent) -> None:
        for matrix in self.matrices:
            cell = matrix.cell_at(event.scenePos())
            if cell is not None and event.button() == Qt.MouseButton.LeftButton:
                self.clicked.emit(*cell)


class MatrixPlot(Plot):
    """A (d, d) matrix with the entropy of its rows beside it.

    Key channels i go downwards, query channels j to the right. `hovered` and `clicked` carry
    (i, j); `hovered` carries None when the mouse has left the matrix.
    """

    hovered = Signal(object)

    def __init__(self) -> None:
        super().__init__(LOWEST_MATRIX, "Attention matrix")
        self.ci.layout.setSpacing(2)
        self.title = self.add_title(0, 0, 2)
        self.matrix = self._add_plot(0, "query j")
        self.entropy = self._add_plot(1, "bits")
        self.matrix.setLabel("left", "key i")
        self.matrix.getAxis("left").setWidth(LEFT_WIDTH)
        self.entropy.hideAxis("left")
        self.entropy.setYLink(self.matrix)
        self.ci.layout.setColumnFixedWidth(1, ENTROPY_WIDTH)
        # pyqtgraph hides numbers that reach beyond the axis; on one this short those are all.
        self.entropy.getAxis("bottom").setStyle(hideOverlappingLabels=False)
        self.picture = FramedImage(self.matrix.getViewBox())
        self.matrices.append(self.picture)
        self.bars = pg.BarGraphItem(x0=[], y=[], height=0.8, width=[])
        self.entropy.addItem(self.bars)
        self.scene().sigMouseMoved.connect(self._on_mouse_moved)

    def _add_plot(self, column: int, label: str) -> pg.PlotItem:
        plot = self.addPlot(1, column, enableMenu=False)
        plot.hideButtons()
        plot.setMouseEnabled(x=False, y=False)
        plot.invertY()
        plot.setLabel("bottom", label)
        plot.getAxis("bottom").setHeight(BOTTOM_HEIGHT)
        return plot

    def set_theme(self, theme: Theme) -> None:
        """Take on the colours of a napari theme."""
        super().set_theme(theme)
        for plot, side in product((self.matrix, self.entropy), ("left", "bottom")):
            plot.getAxis(side).setPen(theme.secondary.as_hex())
            plot.getAxis(side).setTextPen(theme.text.as_hex())
        self.bars.setOpts(brush=theme.current.as_hex(), pen=None)

    def set_head(self, chosen: RecordedHead, high: float) -> None:
        """Draw a head of a block, on a scale from 0 to *high*."""
        depth = chosen.channels
        block, _, head = chosen.title.rpartition(", ")
        run = escape(shown(chosen.recording.name, NAME))
        self.title.setText(f"{block}<br>{head}<br>{run}")
        self.title.setMinimumWidth(0)  # else the text sets the width of the plot
        self.picture.show(chosen.weights, (0.0, high))
        bits = entropies(chosen.weights)
        self.bars.setOpts(x0=np.zeros(depth), y=np.arange(depth), width=bits, height=0.8)
        # A row that attends to all d channels alike has the largest entropy, log2(d) bits.
        largest = max(float(np.log2(depth)), 1.0)
        self.entropy.setXRange(0, largest, padding=0)
        ticks = [(tick, str(tick)) for tick in (0, int(largest))]
        self.entropy.getAxis("bottom").setTicks([ticks])

    def set_cell(self, key: int | None, query: int | None) -> None:
        """Mark the chosen cell; a whole row or column where the other channel is None."""
        if self.picture.image.image is None:
            return
        depth = len(self.picture.image.image)
        top, height = (0, depth) if key is None else (key, 1)
        left, width = (0, depth) if query is None else (query, 1)
        self.picture.set_mark(QRectF(left, top, width, height), CELL_COLOUR)

    def leaveEvent(self, event: object) -> None:
        """Qt calls this when the mouse leaves the plot."""
        super().leaveEvent(event)
        self.hovered.emit(None)

    def _on_mouse_moved(self, position: QPointF) -> None:
        self.hovered.emit(self.picture.cell_at(position))


NOTE = "Channels i and j are learnt features, not wavelengths."
COMPARE_HINT = (
    "Keep this matrix beside those that you choose next, be it another block, head, run or photo."
)
UNIFORM_HINT = (
    "The entropy of a row is 0 bits if one channel has all weight, and log2(d) bits if all d have "
    "the same. Near that, a head takes about the mean of its values on every photo. How much that "
    "matters to the cube, the entropy does not say: see Effect of a head on the page Maps."
)
ALL_CHANNELS = "Maps are of all channels. Click a cell to choose channels i and j."
BETWEEN_PIXELS = (
    "Pixels attend to pixels in this block ({}), so there is no matrix of channels. "
    "Choose a pixel on the page Pixel."
)


class MatrixPage(QWidget):
    """The matrix of a head, another beside it to compare, and the values under the mouse.

    `clicked` carries key channel i and query channel j.
    """

    clicked = Signal(int, int)

    def __init__(self) -> None:
        super().__init__()
        self.chosen = MatrixPlot()
        self.compared = MatrixPlot()
        self.values = QLabel(wordWrap=True)
        self.uniformity = QLabel(wordWrap=True, toolTip=UNIFORM_HINT)
        self.compare_button = QPushButton("Compare", checkable=True, toolTip=COMPARE_HINT)
        self._heads: tuple[RecordedHead, ...] = ()
        self._cell: tuple[int | None, int | None] = (0, 0)
        for plot in (self.chosen, self.compared):
            plot.clicked.connect(self.clicked)
            plot.hovered.connect(self._show_values)
        note = QLabel(NOTE, wordWrap=True)
        plots = fill(QHBoxLayout(), self.chosen, self.compared)
        for number in range(2):
            plots.setStretch(number, 1)
        below = fill(QHBoxLayout(), note, self.compare_button, stretched=note)
        layout = fill(QVBoxLayout(self), plots, self.uniformity, below, self.values)
        layout.setStretch(0, 1)

    def set_heads(self, heads: Sequence[RecordedHead | None]) -> None:
        """Draw those of two *heads* that have a matrix side by side, on one scale."""
        self._heads = tuple(head for head in heads if head and head.matrices)
        high = max((float(head.weights.max()) for head in self._heads), default=1.0)
        for plot, head in zip((self.chosen, self.compared), heads, strict=True):
            plot.setVisible(head in self._heads)
            if head is not None and head in self._heads:
                plot.set_head(head, high)
        first = heads[0]
        self.uniformity.setText("" if first is None else _uniformity(first))

    def set_cell(self, key: int | None, query: int | None) -> None:
        """Mark the chosen channels."""
        self._cell = (key, query)
        for plot in (self.chosen, self.compared):
            plot.set_cell(key, query)
        self._show_values(None)

    def _show_values(self, cell: tuple[int, int] | None) -> None:
        """Write the values at *cell*, or at the chosen channels, of every matrix that is shown."""
        key, query = cell or self._cell
        lines = [ALL_CHANNELS]
        if key is not None and query is not None:
            lines = [_values(head, key, query) for head in self._heads]
        self.values.setText("<br>".join(lines))


def _uniformity(head: RecordedHead) -> str:
    """Compare a head with equal weights; say what to do where it has no matrix."""
    if head.matrices is None:
        return BETWEEN_PIXELS.format(head.between_pixels)
    of_run = head.recording.record.uniformity
    return " ".join(filter(None, [beside_uniform(head.weights), of_run]))


def _values(chosen: RecordedHead, key: int, query: int) -> str:
    """One line on a cell of a matrix; a channel that the matrix lacks becomes its last."""
    i, j = min(key, chosen.channels - 1), min(query, chosen.channels - 1)
    matrices = chosen.recording.record[chosen.block]
    attention = chosen.weights
    spread = matrices.spread
    off = "" if spread is None else f" \N{PLUS-MINUS SIGN} {spread[chosen.head, i, j]:.4f}"
    return (
        f"A<sub>{i},{j}</sub> = <b>{attention[i, j]:.4f}</b>{off}, "
        f"logit {matrices.logits[chosen.head, i, j]:.3f}, "
        f"row sum {attention[i].sum():.4f}, "
        f"entropy {matrices.entropy[chosen.head, i]:.2f} bits"
    )


class WindowPlot(Plot):
    """The window of a pixel, enlarged: its part of the photo, and the weights over it."""

    def __init__(self) -> None:
        super().__init__(LOWEST_WINDOW, "The window of the pixel, enlarged")
        self.photo, self.weights = self.add_pictures(2)
        titles = ("The pixels of its window", "and their weights")
        for label, text in zip(self.labels, titles, strict=True):
            label.setText(text)
        self.weight = self.add_title(2, 1)
        self._values = np.zeros((0, 0), np.float32)
        self.scene().sigMouseMoved.connect(self._on_mouse_moved)

    def set_window(self, photo: Array, made: AttentionMap) -> None:
        """Draw the pixels of *photo* under the weights of *made*, and frame the pixel in both."""
        most = 1.0 if photo.dtype.kind == "f" else np.iinfo(photo.dtype).max
        self.photo.show(photo, (0.0, float(most)))
        self._values = made.values
        self.weights.show(made.values, (0.0, float(made.values.max())))
        self.weight.setText(f"black 0, bright {made.values.max():.3f}")
        if made.pixel is not None:
            pitch = made.pitch
            row, column = np.subtract(made.pixel, made.corner)
            self.photo.set_mark(QRectF(column, row, pitch, pitch), CELL_COLOUR)
            self.weights.set_mark(QRectF(column // pitch, row // pitch, 1, 1), CELL_COLOUR)

    def _on_mouse_moved(self, position: QPointF) -> None:
        cell = self.weights.cell_at(position)
        if cell is not None:
            self.weight.setText(f"weight {self._values[cell]:.4f}")


class SixPlot(Plot):
    """Six attentions of a pixel and their ancestor as small pictures, and what makes tokens."""

    def __init__(self) -> None:
        super().__init__(LOWEST_SIX, "Six attentions side by side")
        self.pictures = self.add_pictures(SIX_PICTURES)
        for title in self.labels:
            title.setMinimumWidth(0)

    def set_view(self, six: "SideBySide") -> None:
        """Draw all attentions of a pixel, and frame it."""
        for picture, label, drawn in zip(self.pictures, self.labels, six.pictures, strict=True):
            lines = drawn.lines.replace("\n", "<br>")
            label.setText(f"<b>{drawn.title}</b><br>{lines}")
            for part in (label, picture.view):
                part.setToolTip(drawn.equation)
            picture.show(drawn.image, (0.0, 255.0))
        row, column = six.place
        for picture in self.pictures[: len(six.answers) - 1]:
            picture.set_mark(QRectF(column, row, 1, 1), CELL_COLOUR)


class StepsPlot(Plot):
    """The steps of one head as small pictures: X to Q, K, V, scores, softmax and weighted sum.

    All are drawn for the chosen channels. `clicked` carries (i, j) of a click on a cell of L or A.
    """

    def __init__(self) -> None:
        super().__init__(LOWEST_STEPS, "The steps of attention")
        self.ci.layout.setSpacing(4)
        self.pictures = dict(zip(STEPS, self.add_pictures(len(STEPS)), strict=True))
        self.matrices = [self.pictures[name] for name in MATRICES]

    def set_steps(self, steps: AttentionSteps, key: int, query: int) -> None:
        """Draw all steps for key channel i = *key* and query channel j = *query*."""
        logits, attention = steps.matrices.logits[0], steps.matrices.attention[0]
        k, q = steps.keys[key], steps.queries[query]
        values: dict[str, Floats] = {
            "X": steps.features,
            "K": k,
            "Q": q,
            "V": steps.values[query],
            "kq": k * q,
            "L": logits,
            "A": attention,
            "AV": steps.attended(key),
        }
        channels, rows, columns = steps.size
        said = {
            "i": key,
            "j": query,
            "channels": channels,
            "d": len(logits),
            "photo": f"{rows} x {columns}",
            "logit": logits[key, query],
            "share": attention[key, query],
        }
        for (name, (caption, formula)), title in zip(STEPS.items(), self.labels, strict=True):
            picture, numbers = self.pictures[name], values[name]
            title.setText(caption.format(**said))
            for part in (title, picture.view):
                part.setToolTip(formula)
            # A matrix has no extremes to clip: each of its cells counts.
            clipped = 0 if name in MATRICES else CLIPPED
            high = float(np.percentile(np.abs(numbers), 100 - clipped)) or 1.0
            picture.show(numbers, (0.0 if name in UNSIGNED else -high, high))
        for matrix in self.matrices:
            matrix.set_mark(QRectF(query, key, 1, 1), LINK_COLOUR)
