"""The network as a picture of its U-shapes, where a click or an arrow key chooses a head."""

import math

from napari.utils.theme import Theme
from qtpy.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
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
from qtpy.QtWidgets import QSizePolicy, QToolTip, QWidget

from napari_mst.attention.record import AttentionRecord, head_title
from napari_mst.plugin.attention.exploration import Shares

LEVELS = (0, 1, 2, 1, 0)
"""Depth of the five blocks of a U-shape: full, half and quarter resolution."""
ROW, GAP, TOP, MARGIN = 30, 6, 20, 6
"""Pixels: height of a level, gap between blocks, space above the first, and around all."""
NARROW, SMALL = 26, 9
"""Pixels: a block narrower than the first has its channels in letters as small as the second."""
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
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
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

    @property
    def blocks(self) -> dict[str, tuple[int, int]]:
        """Channels and heads of each block, in the order in which they run."""
        return self.record.shapes

    def _title(self, head: Head) -> str:
        block, number = head
        title = head_title(self.record, block, number)
        if block not in self.shares:
            return title
        return f"{title}; equal weights change {self.shares[block][number]:.0%} of what all do"

    @property
    def levels(self) -> tuple[int, ...]:
        """The depth of each block of a U-shape; the blocks of other networks stand in a row."""
        is_u_shaped = next(iter(self.blocks), "").startswith("stages.")
        return LEVELS if is_u_shaped else (0,) * len(self.blocks)

    def cell(self, block: str, head: int) -> QRectF:
        """Return where *head* of *block* is drawn."""
        outline = self._outline(block)
        _, heads = self.blocks[block]
        width = outline.width() / heads
        return QRectF(outline.left() + head * width, outline.top(), width, ROW)

    def _outline(self, block: str) -> QRectF:
        """Return where all heads of *block* are drawn."""
        levels = self.levels
        stage, part = divmod(list(self.blocks).index(block), len(levels))
        # The last stage may lack blocks.
        pitch = (self.width() - 2 * MARGIN) / math.ceil(len(self.blocks) / len(levels))
        step = (pitch - 2 * GAP) / len(levels)
        left = MARGIN + stage * pitch + GAP + part * step
        return QRectF(left, TOP + levels[part] * (ROW + GAP), step - 2, ROW)

    def sizeHint(self) -> QSize:
        """Qt asks for this when it lays out the dock."""
        return QSize(420, TOP + 3 * ROW + 2 * GAP + MARGIN)

    def minimumSizeHint(self) -> QSize:
        """Qt asks for this when it lays out the dock."""
        return QSize(280, self.sizeHint().height())

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
        names = list(self.blocks)
        following = names[(names.index(block) + move[0]) % len(names)]
        _, heads = self.blocks[block]
        self.chosen.emit(following, 0 if following != block else (head + move[1]) % heads)

    def event(self, event: QEvent | None) -> bool:
        """Show a tooltip for the head under the mouse."""
        if isinstance(event, QHelpEvent):
            head = self._head_at(QPointF(event.pos()))
            if head is not None:
                channels, heads = self.blocks[head[0]]
                tip = f"{self._title(head)}, {channels // heads} channels"
                QToolTip.showText(event.globalPos(), tip, self)
                return True
        return bool(super().event(event))

    def _head_at(self, point: QPointF) -> Head | None:
        for block, (_, heads) in self.blocks.items():
            for head in range(heads):
                if self.cell(block, head).contains(point):
                    return block, head
        return None

    # ------------------------------------------------------------------------ what is drawn

    def paintEvent(self, event: QPaintEvent | None) -> None:
        """Qt calls this to have the picture drawn."""
        super().paintEvent(event)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        # The blocks cover the ends of the links.
        self._draw_links(painter)
        for number, block in enumerate(self.blocks):
            self._draw_block(painter, number, block)
        painter.end()

    def _colour(self, part: str) -> QColor:
        """The colour of a *part* of napari's theme."""
        return QColor(getattr(self._theme, part).as_hex())

    def _draw_links(self, painter: QPainter) -> None:
        """Draw the way through the blocks, and the skips from encoder to decoder."""
        centres = [self._outline(block).center() for block in self.blocks]
        painter.setPen(QPen(self._colour("secondary"), 2))
        painter.drawPolyline(QPolygonF(centres))
        if any(self.levels):
            painter.setPen(QPen(self._colour("secondary"), 1, Qt.PenStyle.DotLine))
            # In a U-shape of five, block 0 skips to block 4, and block 1 to block 3.
            for start, stop in ((0, 4), (1, 3)):
                for centre, opposite in zip(centres[start::5], centres[stop::5], strict=False):
                    painter.drawLine(centre, opposite)

    def _draw_block(self, painter: QPainter, number: int, block: str) -> None:
        """Draw the heads of *block*, a frame around them, and its number of channels."""
        channels, heads = self.blocks[block]
        for head in range(heads):
            self._draw_cell(painter, (block, head))
        outline = self._outline(block)
        is_chosen = self.current is not None and self.current[0] == block
        painter.setPen(QPen(self._colour("text"), 1.6 if is_chosen else 0.7))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRoundedRect(outline, 3, 3)
        stage, part = divmod(number, len(LEVELS))
        centred = Qt.AlignmentFlag.AlignCenter
        # The bottleneck is the middle of its stage.
        if any(self.levels) and LEVELS[part] == max(LEVELS):
            title = QRectF(outline.center().x() - 50, 0, 100, TOP)
            painter.drawText(title, centred, f"stage {stage + 1}")
        font = self.font()
        if outline.width() < NARROW:
            font.setPixelSize(SMALL)
        painter.setFont(font)
        painter.drawText(outline, centred, str(channels))
        painter.setFont(self.font())

    def _draw_cell(self, painter: QPainter, head: Head) -> None:
        is_current = head == self.current
        frame = QPen(self._colour("foreground"), 1)
        if is_current and self.hasFocus():
            frame = QPen(self._colour("text"), 2)
        painter.setPen(frame)
        painter.setBrush(self._colour("current" if is_current else "primary"))
        cell = self.cell(*head).adjusted(1, 1, -1, -1)
        painter.drawRect(cell)
        block, number = head
        if block in self.shares:
            cell.setTop(cell.bottom() - cell.height() * min(self.shares[block][number], 1))
            painter.fillRect(cell, self._colour("warning"))
