"""The network as a picture of its U-shapes: each head is a button."""

from napari.utils.theme import Theme
from qtpy.QtCore import Qt, Signal
from qtpy.QtWidgets import (
    QButtonGroup,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QSizePolicy,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from napari_mst.attention.record import AttentionRecord, head_title
from napari_mst.plugin.attention.attention_model import Shares
from napari_mst.plugin.viewer.sharing import calling
from napari_mst.plugin.viewer.widgets import Paragraph, fill

LEVELS = (0, 1, 2, 1, 0)
"""Depth of the five blocks of a U-shape: full, half and quarter resolution."""
HEIGHT = 22
"""Pixels of a button."""
BAR = (
    "qlineargradient(x1: 0, y1: 1, x2: 0, y2: 0, stop: 0 {warning}, stop: {share:.3f} {warning},"
    " stop: {above:.3f} {rest}, stop: 1 {rest})"
)
"""Style sheet of a bar that fills *share* of the height."""
STYLE = (
    "QToolButton {{ border: 1px solid {secondary}; background: {bar}; min-width: 2px; }}"
    "QToolButton:checked {{ border-color: {text}; border-width: 2px; }}"
    "QToolButton:focus {{ border-width: 3px; }}"
)

BARS = (
    "Bars: how much the cube changes with equal weights in this head, by what it changes with "
    "equal weights in all."
)

Head = tuple[str, int]
"""A block's name and one of its heads."""


class Schematic(QWidget):
    """The blocks of a network, five in each stage, each with its number of channels.

    `chosen` carries the block and the head of a button that is clicked or reached with the arrow
    keys. `record` is the run whose blocks are shown.
    """

    chosen = Signal(str, int)

    _theme: Theme

    def __init__(self) -> None:
        super().__init__()
        self.record = AttentionRecord()
        self.shares: Shares = {}
        self.buttons: dict[Head, QToolButton] = {}
        self.setAccessibleName("Blocks of the network")
        self._content = QWidget()
        self.bars = Paragraph()
        self.bars.setText(BARS)
        self.bars.hide()
        self._layout = fill(QVBoxLayout(self), self._content, self.bars)

    def set_theme(self, theme: Theme) -> None:
        """Take on the colours of a napari theme."""
        self._theme = theme
        self._dress()

    def choose(self, record: AttentionRecord, head: Head, shares: Shares) -> None:
        """Show the blocks of *record* and the *shares* of their heads, and mark a head."""
        if record is not self.record:
            self.record = record
            self._build()
        self.shares = shares
        self.buttons[head].setChecked(True)
        self._dress()

    def forget(self) -> None:
        """Release the record."""
        self.record, self.shares = AttentionRecord(), {}
        self._build()

    def _build(self) -> None:
        """Make the buttons; the blocks of a network without U-shapes stand in a row."""
        before, self._content = self._content, QWidget()
        self._layout.replaceWidget(before, self._content)
        before.deleteLater()
        self._grid = QGridLayout(self._content, spacing=2)
        self._grid.setContentsMargins(2, 2, 2, 2)
        self._group = QButtonGroup(self._content)
        self.buttons = {}
        blocks = list(self.record.shapes)
        is_u_shaped = bool(blocks) and blocks[0].startswith("stages.")
        for column, block in enumerate(blocks):
            stage, part = divmod(column, len(LEVELS))
            self._add_block(block, LEVELS[part] if is_u_shaped else 1, column)
            channels, _ = self.record.shapes[block]
            text = f"stage {stage + 1}: {channels}" if is_u_shaped and not part else f"{channels}"
            if not is_u_shaped:
                self._grid.addWidget(_label(text), 0, column)
            # To save height, the two blocks of a level share one number between them.
            elif (between := len(LEVELS) - 2 * part - 2) > 0:
                self._grid.addWidget(_label(text), LEVELS[part], column + 1, 1, between)
            elif part == max(LEVELS):
                self._grid.addWidget(_label(text), LEVELS[part], column + 1)

    def _add_block(self, block: str, row: int, column: int) -> None:
        _, heads = self.record.shapes[block]
        side_by_side = QHBoxLayout(spacing=1)
        for head in range(heads):
            # By default a tool button only takes the focus from a click.
            button = QToolButton(checkable=True, focusPolicy=Qt.FocusPolicy.StrongFocus)
            button.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
            # The chosen box has a wider frame, but must not grow in height.
            button.setFixedHeight(HEIGHT)
            button.clicked.connect(calling(self._on_click, block, head))
            # In a group, the arrow keys move from button to button.
            self._group.addButton(button)
            self.buttons[block, head] = button
            side_by_side.addWidget(button)
        self._grid.addLayout(side_by_side, row, column)
        self._grid.setColumnStretch(column, 1)

    def _on_click(self, block: str, head: int) -> None:
        self.chosen.emit(block, head)

    def _dress(self) -> None:
        """Give each button its colours and its tooltip, with the effect of its head as a bar."""
        self.bars.setVisible(bool(self.shares))
        names = ("text", "secondary", "current", "primary", "warning")
        colours = {name: getattr(self._theme, name).as_hex() for name in names}
        for (block, head), button in self.buttons.items():
            title = head_title(self.record, block, head)
            rest = colours["current" if button.isChecked() else "primary"]
            bar = rest
            if block in self.shares:
                share = self.shares[block][head]
                title = f"{title}; equal weights change {share:.0%} of what all do"
                high = min(share, 0.99)
                bar = BAR.format(share=high, above=high + 0.01, rest=rest, **colours)
            button.setStyleSheet(STYLE.format(bar=bar, **colours))
            channels, heads = self.record.shapes[block]
            button.setToolTip(f"{title}, {channels // heads} channels")
            button.setAccessibleName(title)


def _label(text: str) -> QLabel:
    label = QLabel(text, alignment=Qt.AlignmentFlag.AlignCenter)
    # A long number must not widen its column.
    label.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
    return label
