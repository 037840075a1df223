"""The network as a picture of its U-shapes, where a click or an arrow key chooses a head."""

import math

from napari.utils.theme import Theme
from qtpy.QtCore import QEvent, QPointF, QRectF, Qt, Signal
from qtpy.QtGui import (
    QColor,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QPolygonF,
)
from qtpy.QtWidgets import QToolTip, QWidget

from napari_mst.attention.record import AttentionRecord, head_title
from napari_mst.plugin.attention.exploration import Shares

LEVELS = (0, 1, 2, 1, 0)
"""Depth of the five blocks of a U-shape: full, half and quarter resolution."""
ROW, GAP, TOP, MARGIN = 30, 6, 20, 6
"""Pixels: height of a level, gap between blocks, space above the first, and around all."""
NARROWEST, LETTERS = 280, 10
"""Pixels: the width that all blocks need, and the height of the number of channels."""
HOW_TO = "Click a cell, or use the arrow keys: left and right for blocks, up and down for heads."
MOVES = {
    Qt.Key.Key_Left: (-1, 0),
    Qt.Key.Key_Right: (1, 0),
    Qt.Key.Key_Up: (0, -1),
    Qt.Key.Key_Down: (0, 1),
}
"""Key -> blocks and heads further."""

Head = tuple[str, int]
"""A block's name and one of its heads."""


class Schematic(QWidget):
    """Draws the blocks of a network, five a stage; `chosen` carries a block's name and a head.

    `record` is that whose blocks are drawn.
    """

    chosen = Signal(str, int)

    _theme: Theme

    def __init__(self) -> None:
        super().__init__()
        self.record = AttentionRecord()
        self.current: Head | None = None
        self.shares: Shares = {}
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setFixedHeight(TOP + 3 * ROW + 2 * GAP + MARGIN)
        self.setMinimumWidth(NARROWEST)
        self.setAccessibleName("Blocks of the network")
        self.setWhatsThis(HOW_TO)

    def set_theme(self, theme: Theme) -> None:
        """Take on the colours of a napari theme."""
        self._theme = theme
        self.update()

    def choose(self, record: AttentionRecord, head: Head, shares: Shares) -> None:
        """Draw the blocks of *record* and the *shares* of their heads, and mark a head."""
        self.record, self.current, self.shares = record, head, shares
        self.setAccessibleDescription(self._title(head))
        self.update()

    def _title(self, head: Head) -> str:
        block, number = head
        title = head_title(self.record, block, number)
        if block not in self.shares:
            return title
        return f"{title}; equal weights change {self.shares[block][number]:.0%} of what all do"

    # ------------------------------------------------------------------------ where all is

    @property
    def is_u_shaped(self) -> bool:
        """True if each five blocks are a U-shape; those of other networks stand in a row."""
        return next(iter(self.record.shapes), "").startswith("stages.")

    def outlines(self) -> dict[str, QRectF]:
        """Return where all heads of each block are drawn, in the order in which the blocks run."""
        blocks = list(self.record.shapes)
        levels = LEVELS if self.is_u_shaped else (0,) * len(blocks)
        # The last stage may lack blocks.
        pitch = (self.width() - 2 * MARGIN) / math.ceil(len(blocks) / len(levels))
        step = (pitch - 2 * GAP) / len(levels)
        places = {}
        for number, block in enumerate(blocks):
            stage, part = divmod(number, len(levels))
            left = MARGIN + stage * pitch + GAP + part * step
            places[block] = QRectF(left, TOP + levels[part] * (ROW + GAP), step - 2, ROW)
        return places

    def cells(self) -> dict[Head, QRectF]:
        """Return where each head is drawn."""
        places = {}
        for block, outline in self.outlines().items():
            _, heads = self.record.shapes[block]
            width = outline.width() / heads
            for head in range(heads):
                left = outline.left() + head * width
                places[block, head] = QRectF(left, outline.top(), width, ROW)
        return places

    def _head_at(self, point: QPointF) -> Head | None:
        every = self.cells().items()
        return next((head for head, cell in every if cell.contains(point)), None)

    # ------------------------------------------------------------------------ what the user does

    def mousePressEvent(self, event: QMouseEvent | None) -> None:
        """Choose the head that is clicked."""
        head = self._head_at(event.position()) if event is not None else None
        if head is not None:
            self.chosen.emit(*head)

    def keyPressEvent(self, event: QKeyEvent | None) -> None:
        """Choose with the arrow keys: left and right the block, up and down the head."""
        move = MOVES.get(Qt.Key(event.key())) if event is not None else None
        if self.current is None or move is None:
            super().keyPressEvent(event)
            return
        block, head = self.current
        names = list(self.record.shapes)
        following = names[(names.index(block) + move[0]) % len(names)]
        _, heads = self.record.shapes[block]
        self.chosen.emit(following, 0 if following != block else (head + move[1]) % heads)

    def event(self, event: QEvent | None) -> bool:
        """Show a tooltip for the head under the mouse."""
        head = self._head_at(QPointF(event.pos())) if isinstance(event, QHelpEvent) else None
        if isinstance(event, QHelpEvent) and head is not None:
            channels, heads = self.record.shapes[head[0]]
            tip = f"{self._title(head)}, {channels // heads} channels"
            QToolTip.showText(event.globalPos(), tip, self)
            return True
        return bool(super().event(event))

    # ------------------------------------------------------------------------ what is drawn

    def paintEvent(self, event: QPaintEvent | None) -> None:
        """Qt calls this to have the picture drawn."""
        super().paintEvent(event)
        if not self.record.shapes:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        outlines = self.outlines()
        # The blocks cover the ends of the way that leads through them.
        painter.setPen(QPen(self._colour("secondary"), 2))
        painter.drawPolyline(QPolygonF([outline.center() for outline in outlines.values()]))
        for head, cell in self.cells().items():
            self._draw_cell(painter, head, cell.adjusted(1, 1, -1, -1))
        for number, (block, outline) in enumerate(outlines.items()):
            self._draw_frame(painter, number, block, outline)
        painter.end()

    def _colour(self, part: str) -> QColor:
        """The colour of a *part* of napari's theme."""
        return QColor(getattr(self._theme, part).as_hex())

    def _draw_frame(self, painter: QPainter, number: int, block: str, outline: QRectF) -> None:
        """Draw a frame around a *block*, its number of channels, and the title of its stage."""
        is_chosen = self.current is not None and self.current[0] == block
        painter.setPen(QPen(self._colour("text"), 1.6 if is_chosen else 0.7))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRoundedRect(outline, 3, 3)
        font = self.font()
        font.setPixelSize(LETTERS)
        painter.setFont(font)
        channels, _ = self.record.shapes[block]
        centred = Qt.AlignmentFlag.AlignCenter
        painter.drawText(outline, centred, str(channels))
        stage, part = divmod(number, len(LEVELS))
        # The bottleneck is the middle of its stage.
        if self.is_u_shaped and LEVELS[part] == max(LEVELS):
            title = QRectF(outline.center().x() - 50, 0, 100, TOP)
            painter.drawText(title, centred, f"stage {stage + 1}")

    def _draw_cell(self, painter: QPainter, head: Head, cell: QRectF) -> None:
        is_current = head == self.current
        frame = QPen(self._colour("foreground"), 1)
        if is_current and self.hasFocus():
            frame = QPen(self._colour("text"), 2)
        painter.setPen(frame)
        painter.setBrush(self._colour("current" if is_current else "primary"))
        painter.drawRect(cell)
        block, number = head
        if block in self.shares:
            cell.setTop(cell.bottom() - cell.height() * min(self.shares[block][number], 1))
            painter.fillRect(cell, self._colour("warning"))
