"""Plots of the attention dock: the matrix of a head with the entropy of its rows, and its steps as pictures."""

from html import escape

import numpy as np
import pyqtgraph as pg
from napari.utils.theme import Theme
from numpy.typing import NDArray
from pyqtgraph.GraphicsScene.mouseEvents import MouseClickEvent
from qtpy.QtCore import QPointF, QRectF, Qt, Signal
from qtpy.QtWidgets import QGraphicsRectItem

from napari_mst.attention.record import AttentionSteps, BlockAttention, block_title

COLORMAP = "inferno"
SIGNED = pg.ColorMap([0, 0.5, 1], [(40, 110, 240), (245, 245, 245), (225, 70, 30)])
STEPS = ("X", "K", "Q", "V", "kq", "L", "A", "AV")
"""The pictures of the steps."""
COLUMNS = 2
ENTROPY_WIDTH, LEFT_WIDTH, BOTTOM_HEIGHT = 40, 40, 38
"""Pixels."""
NAME = 22
"""Letters of a run's name that fit above a matrix beside another."""
CLIPPED = 0.5
"""Per cent of the pixels that lie beyond the colours of a step: a few extremes would pale all others."""


class Picture:
    """An image in a view of its own, rows downwards, cell (0, 0) around the origin, with a mark around a cell."""

    def __init__(self, parent: pg.GraphicsLayout, row: int, column: int) -> None:
        self.view = pg.ViewBox(enableMouse=False, enableMenu=False, invertY=True, lockAspect=True)
        self.image = pg.ImageItem(axisOrder="row-major")
        self.mark = QGraphicsRectItem()
        self.mark.hide()
        self.view.addItem(self.image)
        self.view.addItem(self.mark, ignoreBounds=True)
        parent.addItem(self.view, row, column)

    def show(self, values: NDArray[np.floating], limits: tuple[float, float]) -> None:
        """Draw (rows, columns) *values*, in colours that diverge where the limits lie around zero."""
        is_signed = limits[0] < 0
        self.image.setColorMap(SIGNED if is_signed else pg.colormap.get(COLORMAP))
        rows, columns = values.shape
        self.image.setImage(np.asarray(values), levels=limits)
        self.image.setRect(QRectF(-0.5, -0.5, columns, rows))
        self.view.setRange(QRectF(-0.5, -0.5, columns, rows), padding=0.0)

    def set_mark(self, cell: QRectF | None, colour: str) -> None:
        """Draw a frame around *cell*, or none."""
        self.mark.setVisible(cell is not None)
        if cell is not None:
            self.mark.setPen(pg.mkPen(colour, width=2))
            self.mark.setRect(cell.translated(-0.5, -0.5))

    def cell_at(self, position: QPointF) -> tuple[int, int] | None:
        """(row, column) of the image under a position of the scene."""
        point = self.view.mapSceneToView(position)
        row, column = (int(np.floor(at + 0.5)) for at in (point.y(), point.x()))
        rows, columns = (0, 0) if self.image.image is None else self.image.image.shape
        is_inside = (
            self.view.sceneBoundingRect().contains(position)
            and 0 <= row < rows
            and 0 <= column < columns
        )
        return (row, column) if is_inside else None


class MatrixPlot(pg.GraphicsLayoutWidget):
    """A (d, d) matrix, key channels i downwards, query channels j to the right; beside it the entropy of its rows.

    `hovered` and `clicked` tell (i, j); None when the mouse has left the matrix.
    """

    hovered = Signal(object)
    clicked = Signal(int, int)

    def __init__(self) -> None:
        super().__init__()
        self.ci.layout.setContentsMargins(2, 2, 2, 2)
        self.ci.layout.setSpacing(2)
        self.title = self.addLabel("", 0, 0, 1, 3, size="8pt", justify="left")
        self.left, self.bottom, self.bits = (
            pg.AxisItem(side) for side in ("left", "bottom", "bottom")
        )
        self.addItem(self.left, 1, 0)
        self.picture = Picture(self.ci, 1, 1)
        self.entropy = pg.ViewBox(enableMouse=False, enableMenu=False, invertY=True)
        self.bars = pg.BarGraphItem(x0=[], y=[], height=0.8, width=[])
        self.entropy.addItem(self.bars)
        self.ci.layout.setColumnFixedWidth(2, ENTROPY_WIDTH)
        self.addItem(self.entropy, 1, 2)
        self.addItem(self.bottom, 2, 1)
        self.addItem(self.bits, 2, 2)
        self._label_axes()
        self.scene().sigMouseMoved.connect(self._on_mouse_moved)
        self.scene().sigMouseClicked.connect(self._on_click)
        self.setAccessibleName("Attention matrix")

    def _label_axes(self) -> None:
        self.picture.view.setAspectLocked(False)
        self.left.linkToView(self.picture.view)
        self.bottom.linkToView(self.picture.view)
        self.bits.linkToView(self.entropy)
        self.entropy.setYLink(self.picture.view)
        self.left.setLabel("key i")
        self.bottom.setLabel("query j")
        self.bits.setLabel("bits")
        self.left.setWidth(LEFT_WIDTH)
        for axis in (self.bottom, self.bits):
            axis.setHeight(BOTTOM_HEIGHT)
        self.bits.setStyle(hideOverlappingLabels=False)

    def set_theme(self, theme: Theme) -> None:
        """Take on the colours of a napari theme."""
        text, faint = theme.text.as_hex(), theme.secondary.as_hex()
        self.setBackground(theme.background.as_hex())
        for axis in (self.left, self.bottom, self.bits):
            axis.setPen(faint)
            axis.setTextPen(text)
        self.title.setText(self.title.text, color=text)
        self.bars.setOpts(brush=theme.current.as_hex(), pen=None)

    def set_head(
        self, run: str, block: str, head: int, matrices: BlockAttention, high: float
    ) -> None:
        """Draw a head of a block, on a scale from 0 to *high*."""
        heads, depth, _ = matrices.attention.shape
        name = run if len(run) <= NAME else f"{run[: NAME - 3]}..."
        self.title.setText(
            f"{block_title(block, heads * depth)}<br>head {head} of {heads}<br>{escape(name)}"
        )
        self.title.setMinimumWidth(0)  # else the text sets that of the plot
        self.picture.show(matrices.attention[head], (0.0, high))
        self.bars.setOpts(
            x0=np.zeros(depth), y=np.arange(depth), width=matrices.entropy[head], height=0.8
        )
        self.entropy.setXRange(0, float(np.log2(depth)) if depth > 1 else 1.0, padding=0)
        whole = int(np.log2(depth))
        self.bits.setTicks([[(bits, str(bits)) for bits in {0, whole}]])

    def set_cell(self, key: int | None, query: int | None) -> None:
        """Mark the chosen cell; a whole row or column where the other is None."""
        if self.picture.image.image is None:
            return
        depth = len(self.picture.image.image)
        top, height = (0, depth) if key is None else (key, 1)
        left, width = (0, depth) if query is None else (query, 1)
        self.picture.set_mark(QRectF(left, top, width, height), "#3df0ff")

    def leaveEvent(self, event: object) -> None:
        """Qt calls this when the mouse leaves the plot."""
        super().leaveEvent(event)
        self.hovered.emit(None)

    def _on_mouse_moved(self, position: QPointF) -> None:
        self.hovered.emit(self.picture.cell_at(position))

    def _on_click(self, event: MouseClickEvent) -> None:
        cell = self.picture.cell_at(event.scenePos())
        if cell is not None and event.button() == Qt.MouseButton.LeftButton:
            self.clicked.emit(*cell)


class StepsPlot(pg.GraphicsLayoutWidget):
    """X to Q, K and V, scores, softmax and the weighted sum of one head: small pictures, linked by the chosen channels.

    A click on a cell of L or A is told by `clicked` as (i, j).
    """

    clicked = Signal(int, int)

    def __init__(self) -> None:
        super().__init__()
        self.ci.layout.setContentsMargins(2, 2, 2, 2)
        self.ci.layout.setSpacing(4)
        self.pictures: dict[str, Picture] = {}
        self.titles: dict[str, pg.LabelItem] = {}
        for number, name in enumerate(STEPS):
            row, column = divmod(number, COLUMNS)
            self.ci.layout.setColumnStretchFactor(column, 1)
            self.ci.layout.setColumnPreferredWidth(column, 1)
            self.titles[name] = self.addLabel("", 2 * row, column, size="8pt")
            self.pictures[name] = Picture(self.ci, 2 * row + 1, column)
        self.scene().sigMouseClicked.connect(self._on_click)
        self.setAccessibleName("The steps of attention")

    def set_theme(self, theme: Theme) -> None:
        """Take on the colours of a napari theme."""
        self.setBackground(theme.background.as_hex())
        for title in self.titles.values():
            title.setText(title.text, color=theme.text.as_hex())

    def set_steps(self, steps: AttentionSteps, key: int, query: int) -> None:
        """Draw all steps for key channel i = *key* and query channel j = *query*."""
        logits, attention = (part[0] for part in (steps.matrices.logits, steps.matrices.attention))
        logit, share = f"{logits[key, query]:.3f}", f"{attention[key, query]:.4f}"
        channels, rows, columns = steps.size
        photo, square = f"{rows} x {columns}", f"{len(logits)} x {len(logits)}"
        head = f"{len(logits)} x {photo}"
        k, q = steps.keys[key], steps.queries[query]
        shown: dict[str, tuple[str, NDArray[np.floating], bool]] = {
            "X": (f"<b>X</b>: norm of its channels<br>{channels} x {photo}", steps.features, False),
            "K": (f"<b>K</b> = W<sub>K</sub> X: i = {key}<br>{head}", k, True),
            "Q": (f"<b>Q</b> = W<sub>Q</sub> X: j = {query}<br>{head}", q, True),
            "V": (f"<b>V</b> = W<sub>V</sub> X: j = {query}<br>{head}", steps.values[query], True),
            "kq": (f"<b>k<sub>i</sub> q<sub>j</sub></b>: sum is {logit}<br>{photo}", k * q, True),
            "L": (f"<b>scores L</b>: L<sub>ij</sub> = {logit}<br>{square}", logits, True),
            "A": (f"<b>A</b> = softmax of rows: {share}<br>{square}", attention, False),
            "AV": (f"<b>A V</b>: row i = {key}<br>{head}", steps.attended(key), True),
        }
        for name, (title, values, is_signed) in shown.items():
            self.titles[name].setText(title)
            high = (
                float(np.percentile(np.abs(values), 100 - CLIPPED * (name not in ("L", "A"))))
                or 1.0
            )
            self.pictures[name].show(values, (-high if is_signed else 0.0, high))
        for name in ("L", "A"):
            self.pictures[name].set_mark(QRectF(query, key, 1, 1), "#00b7c7")

    def _on_click(self, event: MouseClickEvent) -> None:
        for name in ("L", "A"):
            cell = self.pictures[name].cell_at(event.scenePos())
            if cell is not None and event.button() == Qt.MouseButton.LeftButton:
                self.clicked.emit(*cell)
