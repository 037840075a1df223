"""Plots of the attention dock: the matrix of a head, and the steps of a head as pictures."""

from html import escape
from typing import NamedTuple

import numpy as np
import pyqtgraph as pg
from napari.utils.theme import Theme
from numpy.typing import NDArray
from pyqtgraph.GraphicsScene.mouseEvents import MouseClickEvent
from qtpy.QtCore import QPointF, QRectF, Qt, Signal
from qtpy.QtWidgets import QGraphicsRectItem, QSizePolicy

from napari_mst.attention.maps import AttentionSteps
from napari_mst.attention.record import block_title
from napari_mst.plugin.attention.exploration import RecordedHead

COLORMAP = "inferno"
SIGNED = pg.ColorMap([0, 0.5, 1], [(40, 110, 240), (245, 245, 245), (225, 70, 30)])
CELL_COLOUR, LINK_COLOUR = "#3df0ff", "#00b7c7"
"""Frames of the chosen cell: light on the matrix, darker on the steps, some of which are white."""
STEPS = ("X", "K", "Q", "V", "kq", "L", "A", "AV")
"""The pictures of the steps, in the order of the formulas."""
MATRICES = ("L", "A")
"""The pictures that are matrices of channels, where a cell can be clicked."""
COLUMNS = 2
LOWEST_MATRIX, LOWEST_STEPS = 200, 420
"""Pixels; the heights below which a page scrolls."""
ENTROPY_WIDTH, LEFT_WIDTH, BOTTOM_HEIGHT = 40, 40, 38
"""Pixels."""
NAME = 22
"""Letters of a run's name that fit above a matrix beside another."""
CLIPPED = 0.5
"""Per cent of the pixels that lie beyond the colours: a few extremes would pale all others."""


class Picture:
    """An image in a view of its own, with a frame around one cell.

    Rows go downwards, and the centre of cell (0, 0) is the origin.
    """

    def __init__(self, parent: pg.GraphicsLayout, row: int, column: int) -> None:
        self.view = pg.ViewBox(enableMouse=False, enableMenu=False, invertY=True, lockAspect=True)
        self.image = pg.ImageItem(axisOrder="row-major")
        self.mark = QGraphicsRectItem()
        self.mark.hide()
        self.view.addItem(self.image)
        # The frame is not to change which part of the plane is shown.
        self.view.addItem(self.mark, ignoreBounds=True)
        parent.addItem(self.view, row, column)

    def show(self, values: NDArray[np.floating], limits: tuple[float, float]) -> None:
        """Draw (rows, columns) *values*; limits around zero ask for colours that diverge there."""
        is_signed = limits[0] < 0
        self.image.setColorMap(SIGNED if is_signed else pg.colormap.get(COLORMAP))
        self.image.setImage(np.asarray(values), levels=limits)
        rows, columns = values.shape
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
        if self.image.image is None or not self.view.sceneBoundingRect().contains(position):
            return None
        point = self.view.mapSceneToView(position)
        row = int(np.floor(point.y() + 0.5))
        column = int(np.floor(point.x() + 0.5))
        rows, columns = self.image.image.shape
        is_inside = 0 <= row < rows and 0 <= column < columns
        return (row, column) if is_inside else None


class _Plot(pg.GraphicsLayoutWidget):
    """A plot that is at least *lowest* pixels high, and takes the room that there is."""

    def __init__(self, lowest: int) -> None:
        super().__init__()
        self.setMinimumHeight(lowest)
        # Its own hint is as large as its scene: a page that scrolls would give it all of that.
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Ignored)


class MatrixPlot(_Plot):
    """A (d, d) matrix with the entropy of its rows beside it.

    Key channels i go downwards, query channels j to the right. `hovered` and `clicked` tell (i, j);
    `hovered` carries None when the mouse has left the matrix.
    """

    hovered = Signal(object)
    clicked = Signal(int, int)

    def __init__(self) -> None:
        super().__init__(LOWEST_MATRIX)
        self.ci.layout.setContentsMargins(2, 2, 2, 2)
        self.ci.layout.setSpacing(2)
        self.title = self.addLabel("", 0, 0, 1, 3, size="8pt", justify="left")
        self.left = pg.AxisItem("left")
        self.bottom = pg.AxisItem("bottom")
        self.bits = pg.AxisItem("bottom")
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
        # A matrix fills its plot; only pictures of the photo keep their proportions.
        self.picture.view.setAspectLocked(False)
        self.left.linkToView(self.picture.view)
        self.bottom.linkToView(self.picture.view)
        self.bits.linkToView(self.entropy)
        self.entropy.setYLink(self.picture.view)
        self.left.setLabel("key i")
        self.bottom.setLabel("query j")
        self.bits.setLabel("bits")
        self.left.setWidth(LEFT_WIDTH)
        self.bottom.setHeight(BOTTOM_HEIGHT)
        self.bits.setHeight(BOTTOM_HEIGHT)
        # pyqtgraph hides numbers that reach beyond the axis; on one this short those are all.
        self.bits.setStyle(hideOverlappingLabels=False)

    def set_theme(self, theme: Theme) -> None:
        """Take on the colours of a napari theme."""
        text = theme.text.as_hex()
        self.setBackground(theme.background.as_hex())
        for axis in (self.left, self.bottom, self.bits):
            axis.setPen(theme.secondary.as_hex())
            axis.setTextPen(text)
        # pyqtgraph colours a label only as it is given a text.
        self.title.setText(self.title.text, color=text)
        self.bars.setOpts(brush=theme.current.as_hex(), pen=None)

    def set_head(self, chosen: RecordedHead, high: float) -> None:
        """Draw a head of a block, on a scale from 0 to *high*."""
        matrices = chosen.recording.record[chosen.block]
        depth = chosen.channels
        self.title.setText(_matrix_title(chosen))
        self.title.setMinimumWidth(0)  # else the text sets the width of the plot
        self.picture.show(matrices.attention[chosen.head], (0.0, high))
        entropy = matrices.entropy[chosen.head]
        self.bars.setOpts(x0=np.zeros(depth), y=np.arange(depth), width=entropy, height=0.8)
        # A row that attends to all d channels alike has the largest entropy, log2(d) bits.
        largest = float(np.log2(depth)) if depth > 1 else 1.0
        self.entropy.setXRange(0, largest, padding=0)
        whole_bits = int(np.log2(depth))
        self.bits.setTicks([[(bits, str(bits)) for bits in {0, whole_bits}]])

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

    def _on_click(self, event: MouseClickEvent) -> None:
        cell = self.picture.cell_at(event.scenePos())
        if cell is not None and event.button() == Qt.MouseButton.LeftButton:
            self.clicked.emit(*cell)


def _matrix_title(chosen: RecordedHead) -> str:
    """Block, head and run, each on a line."""
    channels, heads = chosen.recording.record.shapes[chosen.block]
    run = chosen.recording.name
    name = run if len(run) <= NAME else f"{run[: NAME - 3]}..."
    block = block_title(chosen.block, channels)
    return f"{block}<br>head {chosen.head} of {heads}<br>{escape(name)}"


class Step(NamedTuple):
    """One picture of the steps."""

    title: str
    values: NDArray[np.floating]
    is_signed: bool = True


class StepsPlot(_Plot):
    """The steps of one head as small pictures: X to Q, K, V, scores, softmax and weighted sum.

    All are drawn for the chosen channels. `clicked` carries (i, j) of a click on a cell of L or A.
    """

    clicked = Signal(int, int)

    def __init__(self) -> None:
        super().__init__(LOWEST_STEPS)
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
        for name, step in _steps(steps, key, query).items():
            self.titles[name].setText(step.title)
            # A matrix has no extremes to clip: each of its cells counts.
            clipped = 0 if name in MATRICES else CLIPPED
            high = float(np.percentile(np.abs(step.values), 100 - clipped)) or 1.0
            self.pictures[name].show(step.values, (-high if step.is_signed else 0.0, high))
        for name in MATRICES:
            self.pictures[name].set_mark(QRectF(query, key, 1, 1), LINK_COLOUR)

    def _on_click(self, event: MouseClickEvent) -> None:
        for name in MATRICES:
            cell = self.pictures[name].cell_at(event.scenePos())
            if cell is not None and event.button() == Qt.MouseButton.LeftButton:
                self.clicked.emit(*cell)


def _steps(steps: AttentionSteps, key: int, query: int) -> dict[str, Step]:
    """The pictures by their names in `STEPS`; each title ends with the size of the whole step."""
    logits = steps.matrices.logits[0]
    attention = steps.matrices.attention[0]
    channels, rows, columns = steps.size
    photo = f"{rows} x {columns}"
    head = f"{len(logits)} x {photo}"
    square = f"{len(logits)} x {len(logits)}"
    logit = f"{logits[key, query]:.3f}"
    share = f"{attention[key, query]:.4f}"
    k = steps.keys[key]
    q = steps.queries[query]
    v = steps.values[query]
    return {
        "X": Step(
            f"<b>X</b>: norm of its channels<br>{channels} x {photo}",
            steps.features,
            is_signed=False,
        ),
        "K": Step(f"<b>K</b> = W<sub>K</sub> X: i = {key}<br>{head}", k),
        "Q": Step(f"<b>Q</b> = W<sub>Q</sub> X: j = {query}<br>{head}", q),
        "V": Step(f"<b>V</b> = W<sub>V</sub> X: j = {query}<br>{head}", v),
        "kq": Step(f"<b>k<sub>i</sub> q<sub>j</sub></b>: sum is {logit}<br>{photo}", k * q),
        "L": Step(f"<b>scores L</b>: L<sub>ij</sub> = {logit}<br>{square}", logits),
        "A": Step(f"<b>A</b> = softmax of rows: {share}<br>{square}", attention, is_signed=False),
        "AV": Step(f"<b>A V</b>: row i = {key}<br>{head}", steps.attended(key)),
    }
