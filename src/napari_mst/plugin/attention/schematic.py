"""The network as a picture of its U-shapes, where a click or an arrow key chooses a head."""

import math
from itertools import pairwise

from napari.utils.theme import Theme
from qtpy.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from qtpy.QtGui import (
    QColor,
    QFocusEvent,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
)
from qtpy.QtWidgets import QSizePolicy, QToolTip, QWidget

from napari_mst.attention.record import AttentionRecord, block_title

LEVELS = (0, 1, 2, 1, 0)
"""Depth of the five blocks of a U-shape: full, half and quarter resolution."""
ROW, GAP, TOP, MARGIN = 30, 6, 20, 6
"""Pixels: height of a level, gap between blocks, space above the first, and around all."""
NARROW, SMALL = 26, 9
"""Pixels: a block narrower than the first has its channels in letters as small as the second."""
HOW_TO = "Click a cell, or use the arrow keys: left and right for blocks, up and down for heads."
EMPTY = "No attention has been recorded yet."
THEME_COLOURS = {
    "text": "text",
    "faint": "secondary",
    "box": "primary",
    "chosen": "current",
    "background": "foreground",
}
"""Colour of the picture -> colour of a napari theme."""

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
        self.compared: Head | None = None
        self._hovered: Head | None = None
        self._colours = dict.fromkeys(THEME_COLOURS, QColor("grey"))
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        # Else Qt reports the mouse only while a button is down.
        self.setMouseTracking(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Blocks of the network")
        self.setWhatsThis(HOW_TO)

    def set_theme(self, theme: Theme) -> None:
        """Take on the colours of a napari theme."""
        for name, part in THEME_COLOURS.items():
            self._colours[name] = QColor(getattr(theme, part).as_hex())
        self.update()

    def set_record(self, record: AttentionRecord) -> None:
        """Draw the blocks of *record*."""
        self.blocks = record.shapes
        self.update()

    def choose(self, block: str, head: int, compared: Head | None = None) -> None:
        """Mark a head, and the one that it is compared with."""
        self.current = (block, head)
        self.compared = compared
        channels, heads = self.blocks[block]
        self.setAccessibleDescription(f"{block_title(block, channels)}, head {head} of {heads}")
        self.update()

    def cell(self, block: str, head: int) -> QRectF:
        """Return where *head* of *block* is drawn."""
        stage, part = divmod(list(self.blocks).index(block), len(LEVELS))
        pitch = (self.width() - 2 * MARGIN) / max(self._stages, 1)
        step = (pitch - 2 * GAP) / len(LEVELS)
        left = MARGIN + stage * pitch + GAP + part * step
        _, heads = self.blocks[block]
        width = (step - 2) / heads
        return QRectF(left + head * width, TOP + LEVELS[part] * (ROW + GAP), width, ROW)

    @property
    def _stages(self) -> int:
        """Number of U-shapes, the last of which may lack blocks."""
        return math.ceil(len(self.blocks) / len(LEVELS))

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

    def paintEvent(self, event: QPaintEvent | None) -> None:
        """Qt calls this to have the picture drawn."""
        super().paintEvent(event)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if not self.blocks:
            painter.setPen(self._colours["text"])
            painter.drawText(self.rect(), Qt.AlignmentFlag.AlignCenter, EMPTY)
        # The blocks cover the ends of the links.
        self._draw_links(painter)
        for block in self.blocks:
            self._draw_block(painter, block)
        self._draw_titles(painter)
        painter.end()

    def mousePressEvent(self, event: QMouseEvent | None) -> None:
        """Choose what is clicked."""
        found = self._head_at(event.position()) if event is not None else None
        if found is not None:
            self.chosen.emit(*found)

    def mouseMoveEvent(self, event: QMouseEvent | None) -> None:
        """Show what a click would choose."""
        found = self._head_at(event.position()) if event is not None else None
        if found != self._hovered:
            self._hovered = found
            shape = Qt.CursorShape
            self.setCursor(shape.ArrowCursor if found is None else shape.PointingHandCursor)
            self.update()

    def leaveEvent(self, event: QEvent | None) -> None:
        """Forget what was under the mouse."""
        super().leaveEvent(event)
        self._hovered = None
        self.update()

    def focusInEvent(self, event: QFocusEvent | None) -> None:
        """Show where the keys go."""
        super().focusInEvent(event)
        self.update()

    def focusOutEvent(self, event: QFocusEvent | None) -> None:
        """Show where the keys no longer go."""
        super().focusOutEvent(event)
        self.update()

    def keyPressEvent(self, event: QKeyEvent | None) -> None:
        """Choose with the arrow keys: left and right the block, up and down the head."""
        key = event.key() if event is not None else None
        blocks = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}
        heads = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1}
        if self.current is None or (key not in blocks and key not in heads):
            super().keyPressEvent(event)
            return
        block, head = self.current
        if key in blocks:
            names = list(self.blocks)
            following = (names.index(block) + blocks[key]) % len(names)
            self.chosen.emit(names[following], 0)
        else:
            _, number = self.blocks[block]
            self.chosen.emit(block, (head + heads[key]) % number)

    def event(self, event: QEvent | None) -> bool:
        """Show a tooltip for the head under the mouse."""
        if isinstance(event, QHelpEvent):
            found = self._head_at(QPointF(event.pos()))
            if found is not None:
                QToolTip.showText(event.globalPos(), self._tip(*found), self)
                return True
        return bool(super().event(event))

    def _tip(self, block: str, head: int) -> str:
        channels, heads = self.blocks[block]
        title = block_title(block, channels)
        return f"{title}: head {head} of {heads}, {channels // heads} channels"

    def _head_at(self, point: QPointF) -> Head | None:
        for block, (_, heads) in self.blocks.items():
            for head in range(heads):
                if self.cell(block, head).contains(point):
                    return block, head
        return None

    def _draw_links(self, painter: QPainter) -> None:
        """Draw the way through the blocks, and the skips from encoder to decoder."""
        names = list(self.blocks)
        painter.setPen(QPen(self._colours["faint"], 2))
        for block, following in pairwise(names):
            self._draw_line(painter, block, following)
        painter.setPen(QPen(self._colours["faint"], 1, Qt.PenStyle.DotLine))
        for index, block in enumerate(names):
            # In a U-shape of five, block 0 skips to block 4, and block 1 to block 3.
            part = index % len(LEVELS)
            opposite = index + len(LEVELS) - 1 - 2 * part
            if part < len(LEVELS) // 2 and opposite < len(names):
                self._draw_line(painter, block, names[opposite])

    def _draw_line(self, painter: QPainter, start: str, stop: str) -> None:
        painter.drawLine(self._outline(start).center(), self._outline(stop).center())

    def _draw_block(self, painter: QPainter, block: str) -> None:
        """Draw the heads of *block*, a frame around them, and its number of channels."""
        channels, heads = self.blocks[block]
        for head in range(heads):
            self._draw_cell(painter, (block, head))
        outline = self._outline(block)
        is_chosen = self.current is not None and self.current[0] == block
        painter.setPen(QPen(self._colours["text"], 1.6 if is_chosen else 0.7))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRoundedRect(outline, 3, 3)
        self._draw_channels(painter, outline, channels)

    def _draw_channels(self, painter: QPainter, block: QRectF, channels: int) -> None:
        painter.save()
        if block.width() < NARROW:
            font = painter.font()
            font.setPixelSize(SMALL)
            painter.setFont(font)
        painter.drawText(block, Qt.AlignmentFlag.AlignCenter, str(channels))
        painter.restore()

    def _draw_cell(self, painter: QPainter, head: Head) -> None:
        painter.setBrush(self._fill(head))
        painter.setPen(self._frame(head))
        painter.drawRect(self.cell(*head).adjusted(1, 1, -1, -1))

    def _fill(self, head: Head) -> QColor:
        if head == self.current:
            return self._colours["chosen"]
        return self._colours["faint" if head == self._hovered else "box"]

    def _frame(self, head: Head) -> QPen:
        if head == self.current and self.hasFocus():
            return QPen(self._colours["text"], 2)
        if head == self.compared and head != self.current:
            return QPen(self._colours["chosen"], 2, Qt.PenStyle.DashLine)
        return QPen(self._colours["background"], 1)

    def _draw_titles(self, painter: QPainter) -> None:
        names = list(self.blocks)
        painter.setPen(self._colours["text"])
        for stage in range(self._stages):
            blocks = names[stage * len(LEVELS) : (stage + 1) * len(LEVELS)]
            left = self.cell(blocks[0], 0).left()
            right = self.cell(blocks[-1], 0).right()
            span = QRectF(left, 0, right - left, TOP)
            painter.drawText(span, Qt.AlignmentFlag.AlignCenter, f"stage {stage + 1}")
