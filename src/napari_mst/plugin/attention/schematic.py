"""The network as a picture of its U-shapes, where a click or an arrow key chooses a head."""

import math
from itertools import pairwise

from napari.utils.theme import Theme
from qtpy.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from qtpy.QtGui import QColor, QHelpEvent, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen
from qtpy.QtWidgets import QSizePolicy, QToolTip, QWidget

from napari_mst.attention.record import AttentionRecord, block_title

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

    `blocks` holds the channels and heads of each block, in the order in which they run.
    """

    chosen = Signal(str, int)

    def __init__(self) -> None:
        super().__init__()
        self.blocks: dict[str, tuple[int, int]] = {}
        self.current: Head | None = None
        self.shares: dict[str, tuple[float, ...]] = {}
        self._theme: Theme | None = None
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Blocks of the network")
        self.setWhatsThis(HOW_TO)

    def set_theme(self, theme: Theme) -> None:
        """Take on the colours of a napari theme."""
        self._theme = theme
        self.update()

    def choose(
        self, record: AttentionRecord, head: Head, shares: dict[str, tuple[float, ...]]
    ) -> None:
        """Draw the blocks of *record* and the *shares* of their heads, and mark a head."""
        self.blocks = record.shapes
        self.current = head
        self.shares = shares
        self.setAccessibleDescription(self._title(head))
        self.update()

    def _title(self, head: Head) -> str:
        block, number = head
        channels, heads = self.blocks[block]
        title = f"{block_title(block, channels)}, head {number} of {heads}"
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
        levels = self.levels
        stage, part = divmod(list(self.blocks).index(block), len(levels))
        # The last stage may lack blocks.
        pitch = (self.width() - 2 * MARGIN) / math.ceil(len(self.blocks) / len(levels))
        step = (pitch - 2 * GAP) / len(levels)
        left = MARGIN + stage * pitch + GAP + part * step
        _, heads = self.blocks[block]
        width = (step - 2) / heads
        return QRectF(left + head * width, TOP + levels[part] * (ROW + GAP), width, ROW)

    def _outline(self, block: str) -> QRectF:
        """Return where all heads of *block* are drawn."""
        _, heads = self.blocks[block]
        return self.cell(block, 0).united(self.cell(block, heads - 1))

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
        for block in self.blocks:
            self._draw_block(painter, block)
        painter.end()

    def _colour(self, part: str) -> QColor:
        """The colour of a *part* of napari's theme."""
        return QColor("grey" if self._theme is None else getattr(self._theme, part).as_hex())

    def _draw_links(self, painter: QPainter) -> None:
        """Draw the way through the blocks, and the skips from encoder to decoder."""
        names = list(self.blocks)
        painter.setPen(QPen(self._colour("secondary"), 2))
        for block, following in pairwise(names):
            painter.drawLine(self._outline(block).center(), self._outline(following).center())
        if not any(self.levels):
            return
        painter.setPen(QPen(self._colour("secondary"), 1, Qt.PenStyle.DotLine))
        # In a U-shape of five, block 0 skips to block 4, and block 1 to block 3.
        for start, stop in ((0, 4), (1, 3)):
            for block, opposite in zip(names[start::5], names[stop::5], strict=False):
                painter.drawLine(self._outline(block).center(), self._outline(opposite).center())

    def _draw_block(self, painter: QPainter, block: str) -> None:
        """Draw the heads of *block*, a frame around them, and its number of channels."""
        channels, heads = self.blocks[block]
        for head in range(heads):
            self._draw_cell(painter, (block, head))
        outline = self._outline(block)
        is_chosen = self.current is not None and self.current[0] == block
        painter.setPen(QPen(self._colour("text"), 1.6 if is_chosen else 0.7))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRoundedRect(outline, 3, 3)
        number = list(self.blocks).index(block)
        if any(self.levels) and number % len(LEVELS) == LEVELS.index(max(LEVELS)):
            # The bottleneck is the middle of its stage.
            middle = outline.center().x()
            title = QRectF(middle - 50, 0, 100, TOP)
            painter.drawText(title, Qt.AlignmentFlag.AlignCenter, f"stage {number // 5 + 1}")
        painter.save()
        if outline.width() < NARROW:
            font = painter.font()
            font.setPixelSize(SMALL)
            painter.setFont(font)
        painter.drawText(outline, Qt.AlignmentFlag.AlignCenter, str(channels))
        painter.restore()

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
