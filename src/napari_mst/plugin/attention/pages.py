"""The three pages of the attention dock: matrices, maps, and a head step by step."""

from collections.abc import Sequence

from napari.utils.theme import Theme
from qtpy.QtCore import Signal
from qtpy.QtWidgets import QCheckBox, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from napari_mst.attention.overlays import OVERLAYS, SENSITIVITY
from napari_mst.plugin.attention.exploration import RecordedHead
from napari_mst.plugin.attention.plot import MatrixPlot, StepsPlot
from napari_mst.plugin.viewer.slots import calling

NOTE = "Channels i and j are learnt features, not wavelengths."
COMPARE_HINT = (
    "Keep this matrix beside those that you choose next, be it another block, head, run or photo."
)
NEW_LAYER_HINT = "Add a layer, rather than put the map into the layer of its kind."
UNIFORM_HINT = (
    "The entropy of a row is 0 bits if one channel has all weight, and log2(d) bits if all d have "
    "the same. Near that, a head takes the mean of its values, whatever the photo shows."
)
BETWEEN_PIXELS = (
    "Pixels attend to pixels in this block ({}), so there is no matrix of channels. "
    "Choose a pixel on the page Pixel."
)
BUTTONS = (*OVERLAYS.values(), SENSITIVITY)
"""The maps that a button makes."""
STEPS_HINT = "Run the photo up to this block, and show what its head does, step by step."


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
        self._cell = (0, 0)
        self._lay_out()

    def _lay_out(self) -> None:
        plots = QHBoxLayout()
        for plot in (self.chosen, self.compared):
            plot.hide()
            plot.clicked.connect(self.clicked)
            plot.hovered.connect(self._show_values)
            plots.addWidget(plot)
        below = QHBoxLayout()
        below.addWidget(QLabel(NOTE, wordWrap=True), stretch=1)
        below.addWidget(self.compare_button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 4, 0, 0)
        layout.addLayout(plots, stretch=1)
        layout.addWidget(self.uniformity)
        layout.addLayout(below)
        layout.addWidget(self.values)

    def set_theme(self, theme: Theme) -> None:
        """Take on the colours of a napari theme."""
        for plot in (self.chosen, self.compared):
            plot.set_theme(theme)

    def set_heads(self, heads: Sequence[RecordedHead | None]) -> None:
        """Draw those of two *heads* that have a matrix side by side, on one scale."""
        self._heads = tuple(one for one in heads if one is not None and one.matrices is not None)
        high = max((float(one.own_matrix.max()) for one in self._heads), default=1.0)
        for plot, one in zip((self.chosen, self.compared), heads, strict=True):
            plot.setVisible(one in self._heads)
            if one is not None and one in self._heads:
                plot.set_head(one, high)
        first = heads[0]
        self.uniformity.setText("" if first is None else _uniformity(first))

    def set_cell(self, key: int | None, query: int | None) -> None:
        """Mark the chosen channels."""
        self._cell = (key or 0, query or 0)
        for plot in (self.chosen, self.compared):
            plot.set_cell(key, query)
        self._show_values(None)

    def _show_values(self, cell: tuple[int, int] | None) -> None:
        """Write the values at *cell*, or at the chosen channels, of every matrix that is shown."""
        lines = [_values(head, cell or self._cell) for head in self._heads]
        self.values.setText("<br>".join(lines))


def _uniformity(head: RecordedHead) -> str:
    """Compare a head with equal weights; say what to do where it has no matrix."""
    if head.matrices is None:
        return BETWEEN_PIXELS.format(head.between_pixels)
    of_run = head.recording.record.uniformity
    return " ".join(filter(None, [head.matrices.beside_uniform(head.head), of_run]))


def _values(chosen: RecordedHead, cell: tuple[int, int]) -> str:
    """One line on a cell of a matrix; a channel that the matrix lacks becomes its last."""
    last = chosen.channels - 1
    i = min(cell[0], last)
    j = min(cell[1], last)
    matrices = chosen.matrices
    if matrices is None:
        return ""
    attention = matrices.attention[chosen.head]
    return (
        f"A<sub>{i},{j}</sub> = <b>{attention[i, j]:.4f}</b>, "
        f"logit {matrices.logits[chosen.head, i, j]:.3f}, "
        f"row sum {attention[i].sum():.4f}, "
        f"entropy {matrices.entropy[chosen.head, i]:.2f} bits"
    )


class MapPage(QWidget):
    """A button for each kind of map; `wanted` carries the name of the kind."""

    wanted = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.buttons: dict[str, QPushButton] = {}
        self.new_layer = QCheckBox("as a new layer", toolTip=NEW_LAYER_HINT)
        layout = QVBoxLayout(self)
        for kind in BUTTONS:
            button = QPushButton(kind.title, toolTip=kind.tooltip)
            # PySide6 would keep a lambda as long as the button: this page would never be freed.
            button.clicked.connect(calling(self._want, kind.name))
            self.buttons[kind.name] = button
            layout.addWidget(button)
        layout.addWidget(self.new_layer)
        layout.addStretch(1)

    def _want(self, name: str) -> None:
        self.wanted.emit(name)


class StepsPage(QWidget):
    """The steps of a head as pictures, and the button that has them made."""

    def __init__(self) -> None:
        super().__init__()
        self.plot = StepsPlot()
        self.button = QPushButton("Show the steps of this head", toolTip=STEPS_HINT)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 4, 0, 0)
        layout.addWidget(self.button)
        layout.addWidget(self.plot, stretch=1)
