"""Pictures of the attention dock: matrices, a head step by step, a window, six attentions."""

import math
from collections.abc import Sequence
from textwrap import wrap

import numpy as np
import pyqtgraph as pg
from napari.utils.theme import Theme
from pyqtgraph.GraphicsScene.mouseEvents import MouseClickEvent
from qtpy.QtCore import QPointF, QRectF, Qt, Signal
from qtpy.QtGui import QResizeEvent
from qtpy.QtWidgets import (
    QGraphicsRectItem,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from napari_mst.attention.record import beside_uniform
from napari_mst.plugin.attention.attention_model import RecordedHead
from napari_mst.plugin.attention.drawings import Drawing, matrix_pictures, rollout_pictures
from napari_mst.plugin.viewer.sharing import calling
from napari_mst.plugin.viewer.themed_plot import ThemedPlot
from napari_mst.plugin.viewer.widgets import Paragraph, fill

COLORMAP = "inferno"
SIGNED = "CET-D1A"
"""Blue, white, red."""
ON_DARK, ON_WHITE = "#3df0ff", "#00b7c7"
"""Frame of a cell on colours that start at black, and on colours around white."""
ENLARGE = "A {} shows it alone, another one all again."
WIDE = 900
"""Page width in pixels above which pictures stand in threes below larger titles, for a lecture."""
LETTER = 0.9
"""Width of a letter over its size in points, a little more than most letters have."""
FEWEST = 20
"""Letters in the shortest line of a text."""
LOWEST_ROW = 150
"""Pixels; a single row of pictures is at least so high."""
MARGIN = 2
STOPS = 9
"""Number of colours in the scale bar."""


class Picture:
    """A picture in *view* below its *title*; the centre of cell (0, 0) is the origin."""

    def __init__(self, title: pg.LabelItem, view: pg.ViewBox) -> None:
        self.title = title
        self.view = view
        self.image = pg.ImageItem(axisOrder="row-major")
        self.frame = QGraphicsRectItem()
        self.drawn: Drawing
        view.addItem(self.image)
        # The frame must not change which part of the plane is shown.
        view.addItem(self.frame, ignoreBounds=True)

    def draw(self, drawn: Drawing, colour: str) -> None:
        """Draw a picture, with its border in *colour*."""
        self.drawn = drawn
        for part in (self.title, self.view):
            how = ENLARGE.format("double click" if drawn.is_matrix else "click")
            part.setToolTip("<br>".join(filter(None, [drawn.tip, how])))
        # A picture of equal weights, which is white, would vanish on a light theme.
        self.image.setBorder(colour)
        is_signed = drawn.limits[0] < 0
        self.image.setColorMap(pg.colormap.get(SIGNED if is_signed else COLORMAP))
        self.image.setImage(np.asarray(drawn.values), levels=drawn.limits)
        rows, columns = drawn.values.shape[:2]
        area = QRectF(-0.5, -0.5, columns, rows)
        self.image.setRect(area)
        self.view.setRange(area, padding=0.01)  # room for the border
        self.frame.setVisible(drawn.framed is not None)
        if drawn.framed is not None:
            self.frame.setPen(pg.mkPen(ON_WHITE if is_signed else ON_DARK, width=2))
            self.frame.setRect(QRectF(*drawn.framed).translated(-0.5, -0.5))

    def write(self, colour: str, letters: int) -> None:
        """Write the title and the text in *colour*, the text in lines of *letters*."""
        lines = [self.drawn.title, *wrap(self.drawn.text, letters)]
        self.title.setText("<br>".join(lines), color=colour)
        self.title.setMinimumWidth(0)  # otherwise the text sets the width of the picture

    def cell_at(self, position: QPointF) -> tuple[int, int] | None:
        """Return (row, column) of the cell of a matrix under a position of the scene, or None."""
        point = self.image.mapFromScene(position)
        row, column = math.floor(point.y()), math.floor(point.x())
        is_inside = self.image.boundingRect().toRect().contains(column, row)
        return (row, column) if is_inside and self.drawn.is_matrix else None


def scale_bar() -> QWidget:
    """Make the colour bar that all matrices share."""
    colours = pg.colormap.get(SIGNED).getLookupTable(0, 1, STOPS)
    stops = (
        f"stop:{at / (STOPS - 1):.3f} rgb({red}, {green}, {blue})"
        for at, (red, green, blue) in enumerate(colours)
    )
    strip = QLabel(styleSheet=f"background: qlineargradient(x1:0, x2:1, {', '.join(stops)});")
    strip.setFixedHeight(8)
    sides = Qt.AlignmentFlag
    texts = (
        QLabel("a quarter or less", alignment=sides.AlignLeft),
        QLabel("equal weights", alignment=sides.AlignCenter),
        QLabel("four times or more", alignment=sides.AlignRight),
    )
    bar = QWidget()
    fill(QVBoxLayout(bar), strip, fill(QHBoxLayout(), *texts)).setSpacing(1)
    return bar


class Pictures(ThemedPlot):
    """Pictures in rows of *across*, of three on a wide page; each at least *lowest* pixels high.

    A click, or a double click on a matrix, enlarges a picture to the whole page; a second one shows
    all pictures again.

    `clicked` and `hovered` carry the row and column of a matrix cell. `hovered` carries None when
    the mouse leaves the matrix.
    """

    clicked = Signal(int, int)
    hovered = Signal(object)

    def __init__(self, name: str, lowest: int, across: int = 2) -> None:
        super().__init__(lowest)
        self.setAccessibleName(name)
        self.ci.layout.setContentsMargins(MARGIN, MARGIN, MARGIN, 2 * MARGIN)
        self.pictures: list[Picture] = []
        self._lowest, self._across = lowest, across
        self._every: Sequence[Drawing] = ()
        self._alone: int | None = None
        self._is_wide = False
        self.scene().sigMouseClicked.connect(self._on_click)
        self.scene().sigMouseMoved.connect(self._on_move)

    def draw(self, every: Sequence[Drawing]) -> None:
        """Replace the pictures by *every*; an enlarged picture stays enlarged."""
        self._every = every
        if self._alone is not None and self._alone < len(every):
            every = every[self._alone :][:1]
        if len(every) != len(self.pictures):
            self._make_room(len(every))
        for picture, drawn in zip(self.pictures, every, strict=True):
            picture.draw(drawn, self._theme.text.as_hex())
        self._fit()

    def enlarge(self, number: int | None) -> None:
        """Show the picture *number* alone; None shows all."""
        self._alone = number
        self.draw(self._every)

    def set_theme(self, theme: Theme) -> None:
        """See `ThemedPlot`."""
        super().set_theme(theme)
        self.draw(self._every)

    def _fit(self) -> None:
        """Make all columns equally wide, and write titles and texts in lines of this width."""
        columns, points = self._grid(len(self.pictures))
        layout = self.ci.layout
        # There are always three columns, some of them empty.
        width = (self.width() - 2 * MARGIN - 2 * layout.horizontalSpacing()) / columns
        for column in range(3):
            # Stretched columns would depend on the titles, and on the columns before.
            layout.setColumnFixedWidth(column, max(width, 1) if column < columns else 0)
        letters = max(int(width / points / LETTER), FEWEST)
        for picture in self.pictures:
            picture.write(self._theme.text.as_hex(), letters)

    def _grid(self, count: int) -> tuple[int, int]:
        """Return how many of *count* pictures stand in a row, and the points of their titles."""
        columns, points = (3, 12) if self._is_wide else (self._across, 8)
        return max(min(columns, count), 1), points

    def _make_room(self, count: int) -> None:
        self.clear()
        self.pictures = []
        columns, points = self._grid(count)
        rows = math.ceil(count / columns)
        # Several rows scroll, but a single one has to fit.
        self.setMinimumHeight(self._lowest * rows if rows > 1 else min(self._lowest, LOWEST_ROW))
        look = {"enableMouse": False, "enableMenu": False, "invertY": True, "lockAspect": True}
        for number in range(count):
            row, column = divmod(number, columns)
            title = self.addLabel("", 2 * row, column, size=f"{points}pt", justify="left")
            view = self.addViewBox(2 * row + 1, column, **look)
            self.pictures.append(Picture(title, view))

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Qt calls this when the page is resized."""
        super().resizeEvent(event)
        # pyqtgraph calls this before `__init__` is done, and after it has dropped its contents.
        if not hasattr(self, "_is_wide") or self.centralWidget is None:
            return
        if self._is_wide != (self.width() > WIDE):
            self._is_wide = not self._is_wide
            self._make_room(len(self.pictures))
            self.draw(self._every)
        else:
            self._fit()

    def leaveEvent(self, event: object) -> None:
        """Qt calls this when the mouse leaves the pictures."""
        super().leaveEvent(event)
        self.hovered.emit(None)

    def _cell_at(self, position: QPointF) -> tuple[int, int] | None:
        cells = (picture.cell_at(position) for picture in self.pictures)
        return next(filter(None, cells), None)

    def _on_move(self, position: QPointF) -> None:
        self.hovered.emit(self._cell_at(position))

    def _on_click(self, event: MouseClickEvent) -> None:
        if event.button() != Qt.MouseButton.LeftButton:
            return
        for number, picture in enumerate(self.pictures):
            if not picture.view.sceneBoundingRect().contains(event.scenePos()):
                continue
            # A single click chooses a cell of a matrix.
            if event.double() == picture.drawn.is_matrix:
                self.enlarge(number if self._alone is None else None)
                return
            cell = picture.cell_at(event.scenePos())
            if cell is not None and not event.double():
                self.clicked.emit(*cell)


# ------------------------------------------------------------------------------ the page


NOTE = "Keys i go down, queries j to the right: channels of learnt features, not wavelengths."
COMPARE_HINT = (
    "Keep this matrix beside those that you choose next, be it another block, head, run or photo."
)
ROLLOUT_HINT = (
    "Attention rollout: the product of (A + I) / 2 over all blocks of a stage, I for what goes "
    "past each attention. Channels change between blocks: there the sizes of the weights of the "
    "convolutions count as shares, and the feed-forward parts are left out. Row i has the shares "
    "of output channel i that come from the first channels of the stage (Abnar & Zuidema 2020, "
    "who have the same tokens in all blocks)."
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
    """The matrix of a head, a second one to compare with, and the values under the mouse."""

    def __init__(self) -> None:
        super().__init__()
        self.plot = Pictures("Attention matrix", 155, across=3)
        self.values, self.uniformity, note = Paragraph(), Paragraph(), Paragraph()
        self.uniformity.setToolTip(UNIFORM_HINT)
        note.setText(NOTE)
        self.compare_button = QPushButton("Compare", checkable=True, toolTip=COMPARE_HINT)
        self.rollout_button = QPushButton("All blocks", checkable=True, toolTip=ROLLOUT_HINT)
        self.rollout_button.toggled.connect(calling(self._draw))
        self._heads: list[RecordedHead] = []
        self._cell: tuple[int | None, int | None] = (0, 0)
        self.plot.hovered.connect(self._show_values)
        buttons = (self.compare_button, self.rollout_button)
        below = fill(QHBoxLayout(), note, *buttons, stretched=note)
        self.scale = scale_bar()
        parts = (self.plot, self.scale, self.uniformity, below, self.values)
        fill(QVBoxLayout(self), *parts, stretched=self.plot)

    def draw(
        self, head: RecordedHead, other: RecordedHead | None, key: int | None, query: int | None
    ) -> None:
        """Draw the matrices of *head* and *other*, if they have any; mark the chosen channels."""
        self._heads = [each for each in (head, other) if each and each.matrices]
        self._cell = (key, query)
        self.rollout_button.setEnabled(bool(head.recording.record.rollouts))
        self._draw()
        self.plot.setVisible(bool(self._heads))
        self.scale.setVisible(bool(self._heads))
        self.uniformity.setText(_uniformity(head))
        self._show_values(None)

    def forget(self) -> None:
        """Release the heads."""
        self._heads = []
        self._draw()

    def _draw(self) -> None:
        pictures = list(matrix_pictures(self._heads, *self._cell))
        if self._heads and self.rollout_button.isChecked():
            pictures += rollout_pictures(self._heads[0])
        self.plot.draw(pictures)

    def _show_values(self, cell: tuple[int, int] | None) -> None:
        """Write the values of every matrix on the page at *cell*, or at the chosen channels."""
        key, query = cell or self._cell
        lines = [ALL_CHANNELS]
        if key is not None and query is not None:
            lines = [_values(head, key, query) for head in self._heads]
        self.values.setText("\n".join(lines))


def _uniformity(head: RecordedHead) -> str:
    """Compare a head with equal weights; say what to do where it has no matrix."""
    if head.matrices is None:
        return BETWEEN_PIXELS.format(head.between_pixels)
    of_run = head.recording.record.uniformity
    return " ".join(filter(None, [beside_uniform(head.weights), of_run]))


def _values(chosen: RecordedHead, key: int, query: int) -> str:
    """Describe a cell of a matrix in one line; a channel beyond the last becomes the last."""
    i, j = min(key, chosen.channels - 1), min(query, chosen.channels - 1)
    matrices = chosen.recording.record[chosen.block]
    attention = chosen.weights
    spread = matrices.spread
    off = "" if spread is None else f" \N{PLUS-MINUS SIGN} {spread[chosen.head, i, j]:.4f}"
    return (
        f"A[{i}, {j}] = {attention[i, j]:.4f}{off}, "
        f"logit {matrices.logits[chosen.head, i, j]:.3f}, "
        f"row sum {attention[i].sum():.4f}, "
        f"entropy {matrices.entropy[chosen.head, i]:.2f} bits"
    )
