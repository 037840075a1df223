"""The network as a picture: its U-shapes, in which a click or an arrow key chooses the head of a block."""

from collections.abc import Mapping
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

from napari_mst.attention.record import block_title

LEVELS = (0, 1, 2, 1, 0)
"""Depth of the five blocks of a U-shape: full, half and quarter resolution."""
ROW, GAP, TOP, MARGIN = 30, 6, 20, 6
"""Pixels: of a level, between blocks, above the first, around all."""

NARROW, SMALL = 26, 9
"""Pixels: blocks that are narrower have their channels written in letters of this size."""

Head = tuple[str, int]
"""A block's name and one of its heads."""


class Schematic(QWidget):
    """Draws *blocks* (name -> channels and heads) five a stage; `chosen` tells a block's name and head."""

    chosen = Signal(str, int)

    def __init__(self) -> None:
        super().__init__()
        self.blocks: dict[str, tuple[int, int]] = {}
        self.current: Head | None = None
        self.compared: Head | None = None
        self._hovered: Head | None = None
        self._colours = {
            name: QColor("grey") for name in ("text", "faint", "box", "chosen", "background")
        }
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseTracking(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Blocks of the network")
        self.setWhatsThis(
            "Click a cell, or use the arrow keys: left and right for blocks, up and down for heads."
        )

    def set_theme(self, theme: Theme) -> None:
        """Take on the colours of a napari theme."""
        parts = {
            "text": "text",
            "faint": "secondary",
            "box": "primary",
            "chosen": "current",
            "background": "foreground",
        }
        self._colours = {
            name: QColor(getattr(theme, part).as_hex()) for name, part in parts.items()
        }
        self.update()

    def set_blocks(self, blocks: Mapping[str, tuple[int, int]]) -> None:
        """Draw other blocks, by the order in which they run."""
        self.blocks = dict(blocks)
        self.update()

    def choose(self, block: str, head: int, compared: Head | None = None) -> None:
        """Mark a head, and the one that it is compared with."""
        self.current, self.compared = (block, head), compared
        channels, heads = self.blocks[block]
        self.setAccessibleDescription(f"{block_title(block, channels)}, head {head} of {heads}")
        self.update()

    def cell(self, block: str, head: int) -> QRectF:
        """Where the head is drawn."""
        names = list(self.blocks)
        index = names.index(block)
        stage, part = divmod(index, len(LEVELS))
        pitch = (self.width() - 2 * MARGIN) / max(-(-len(names) // len(LEVELS)), 1)
        step = (pitch - 2 * GAP) / len(LEVELS)
        left = MARGIN + stage * pitch + GAP + part * step
        heads = self.blocks[block][1]
        width = (step - 2) / heads
        return QRectF(left + head * width, TOP + LEVELS[part] * (ROW + GAP), width, ROW)

    def sizeHint(self) -> QSize:
        """Qt asks for this when it lays out the dock."""
        return QSize(420, TOP + 3 * ROW + 2 * GAP + MARGIN)

    def minimumSizeHint(self) -> QSize:
        """Qt asks for this when it lays out the dock."""
        return QSize(300, self.sizeHint().height())

    def paintEvent(self, event: QPaintEvent | None) -> None:
        """Qt calls this to have the picture drawn."""
        super().paintEvent(event)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if not self.blocks:
            painter.setPen(self._colours["text"])
            painter.drawText(
                self.rect(), Qt.AlignmentFlag.AlignCenter, "No attention has been recorded yet."
            )
        self._draw_links(painter)
        for block, (channels, heads) in self.blocks.items():
            for head in range(heads):
                self._draw_cell(painter, (block, head))
            whole = self.cell(block, 0).united(self.cell(block, heads - 1))
            is_chosen = self.current is not None and self.current[0] == block
            painter.setPen(QPen(self._colours["text"], 1.6 if is_chosen else 0.7))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(whole, 3, 3)
            self._draw_channels(painter, whole, channels)
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
            self.setCursor(
                Qt.CursorShape.ArrowCursor if found is None else Qt.CursorShape.PointingHandCursor
            )
            self.update()

    def leaveEvent(self, event: QEvent | None) -> None:
        """The mouse is gone."""
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
        """Arrow keys: the block before or after, the head before or after."""
        key = event.key() if event is not None else None
        blocks = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}
        heads = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1}
        if self.current is None or (key not in blocks and key not in heads):
            super().keyPressEvent(event)
            return
        names, (block, head) = list(self.blocks), self.current
        block = names[(names.index(block) + blocks.get(key, 0)) % len(names)]
        self.chosen.emit(block, 0 if key in blocks else (head + heads[key]) % self.blocks[block][1])

    def event(self, event: QEvent | None) -> bool:
        """A tooltip a head."""
        if isinstance(event, QHelpEvent):
            found = self._head_at(QPointF(event.pos()))
            if found is not None:
                channels, heads = self.blocks[found[0]]
                text = f"{block_title(found[0], channels)}: head {found[1]} of {heads}, {channels // heads} channels"
                QToolTip.showText(event.globalPos(), text, self)
                return True
        return bool(super().event(event))

    def _head_at(self, point: QPointF) -> Head | None:
        cells = (
            (block, head) for block, (_, heads) in self.blocks.items() for head in range(heads)
        )
        return next((one for one in cells if self.cell(*one).contains(point)), None)

    def _draw_links(self, painter: QPainter) -> None:
        """The way through the blocks, and the skips from encoder to decoder."""
        names = list(self.blocks)
        for index, (block, following) in enumerate(pairwise(names)):
            painter.setPen(QPen(self._colours["faint"], 2))
            painter.drawLine(self._centre(block), self._centre(following))
            part = index % len(LEVELS)
            if part in (0, 1) and index + 4 - 2 * part < len(names):
                painter.setPen(QPen(self._colours["faint"], 1, Qt.PenStyle.DotLine))
                painter.drawLine(self._centre(block), self._centre(names[index + 4 - 2 * part]))

    def _draw_channels(self, painter: QPainter, block: QRectF, channels: int) -> None:
        painter.save()
        if block.width() < NARROW:
            font = painter.font()
            font.setPixelSize(SMALL)
            painter.setFont(font)
        painter.drawText(block, Qt.AlignmentFlag.AlignCenter, str(channels))
        painter.restore()

    def _draw_cell(self, painter: QPainter, head: Head) -> None:
        is_chosen, is_hovered = head == self.current, head == self._hovered
        painter.setBrush(self._colours["chosen" if is_chosen else "faint" if is_hovered else "box"])
        is_focus = is_chosen and self.hasFocus()
        pen = QPen(self._colours["text"], 2) if is_focus else QPen(self._colours["background"], 1)
        if head == self.compared and not is_chosen:
            pen = QPen(self._colours["chosen"], 2, Qt.PenStyle.DashLine)
        painter.setPen(pen)
        painter.drawRect(self.cell(*head).adjusted(1, 1, -1, -1))

    def _draw_titles(self, painter: QPainter) -> None:
        names = list(self.blocks)
        painter.setPen(self._colours["text"])
        for stage in range(-(-len(names) // len(LEVELS))):
            first, last = (
                names[stage * len(LEVELS)],
                names[min(stage * len(LEVELS) + 4, len(names) - 1)],
            )
            span = QRectF(
                self.cell(first, 0).left(),
                0,
                self.cell(last, 0).right() - self.cell(first, 0).left(),
                TOP,
            )
            painter.drawText(span, Qt.AlignmentFlag.AlignCenter, f"stage {stage + 1}")

    def _centre(self, block: str) -> QPointF:
        return self.cell(block, 0).united(self.cell(block, self.blocks[block][1] - 1)).center()
