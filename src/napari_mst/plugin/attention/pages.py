"""The three pages of the attention dock: the matrix of a head, the maps that can be made, and a head step by step."""

from collections.abc import Sequence
from itertools import zip_longest

from napari.utils.theme import Theme
from qtpy.QtCore import Signal
from qtpy.QtWidgets import QCheckBox, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from napari_mst.attention.overlays import DESCRIPTIONS
from napari_mst.attention.record import AttentionSteps, Selection
from napari_mst.plugin.attention.plot import MatrixPlot, StepsPlot
from napari_mst.plugin.jobs.workspace import Recording
from napari_mst.plugin.viewer.slots import calling

Head = tuple[Recording, str, int]
"""A head of a block of a run."""


class MatrixPage(QWidget):
    """The matrix of a head, another beside it to compare, and what lies under the mouse; `clicked` tells (i, j)."""

    clicked = Signal(int, int)

    def __init__(self) -> None:
        super().__init__()
        self.chosen, self.compared = MatrixPlot(), MatrixPlot()
        self.values = QLabel(wordWrap=True)
        self._heads: tuple[Head, ...] = ()
        self._cell = (0, 0)
        layout, row = QVBoxLayout(self), QHBoxLayout()
        layout.setContentsMargins(0, 4, 0, 0)
        for plot in (self.chosen, self.compared):
            plot.hide()
            plot.clicked.connect(self.clicked)
            plot.hovered.connect(self._show_values)
            row.addWidget(plot)
        note = QLabel("Channels i and j are learnt features, not wavelengths.", wordWrap=True)
        self.compare_button = QPushButton("Compare", checkable=True)
        self.compare_button.setToolTip(
            "Keep this matrix beside those that you choose next: of another block, head, run or photo."
        )
        below = QHBoxLayout()
        below.addWidget(note, stretch=1)
        below.addWidget(self.compare_button)
        layout.addLayout(row, stretch=1)
        layout.addLayout(below)
        layout.addWidget(self.values)

    def set_theme(self, theme: Theme) -> None:
        """Take on the colours of a napari theme."""
        for plot in (self.chosen, self.compared):
            plot.set_theme(theme)

    def set_heads(self, heads: Sequence[Head]) -> None:
        """Draw one head, or two side by side, on one scale."""
        self._heads = tuple(heads)
        high = max(float(run.record[block].attention[head].max()) for run, block, head in heads)
        for plot, one in zip_longest((self.chosen, self.compared), heads):
            plot.setVisible(one is not None)
            if one is not None:
                run, block, head = one
                plot.set_head(run.name, block, head, run.record[block], high)

    def set_cell(self, key: int | None, query: int | None) -> None:
        """Mark the chosen channels."""
        self._cell = (key or 0, query or 0)
        for plot in (self.chosen, self.compared):
            plot.set_cell(key, query)
        self._show_values(None)

    def _show_values(self, cell: tuple[int, int] | None) -> None:
        """Say what lies under the mouse, or at the chosen channels, in every matrix that is shown."""
        told = []
        for run, block, head in self._heads:
            matrices = run.record[block]
            i, j = (
                min(channel, matrices.attention.shape[-1] - 1) for channel in cell or self._cell
            )
            told.append(
                f"A<sub>{i},{j}</sub> = <b>{matrices.attention[head, i, j]:.4f}</b>, "
                f"logit {matrices.logits[head, i, j]:.3f}, row sum {matrices.attention[head, i].sum():.4f}, "
                f"entropy {matrices.entropy[head, i]:.2f} bits"
            )
        self.values.setText("<br>".join(told))


class MapPage(QWidget):
    """A button a map; `wanted` tells its name."""

    wanted = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.buttons: dict[str, QPushButton] = {}
        self.new_layer = QCheckBox("as a new layer")
        self.new_layer.setToolTip(
            "Add a layer, instead of putting the map into the layer of this kind."
        )
        layout = QVBoxLayout(self)
        for one in DESCRIPTIONS.values():
            button = QPushButton(one.title, toolTip=one.tooltip)
            button.clicked.connect(calling(self._want, one.name))
            self.buttons[one.name] = button
            layout.addWidget(button)
        layout.addWidget(self.new_layer)
        layout.addStretch(1)

    def _want(self, name: str) -> None:
        self.wanted.emit(name)


class StepsPage(QWidget):
    """The steps of a head, and the button that has them made."""

    def __init__(self) -> None:
        super().__init__()
        self.plot = StepsPlot()
        self.button = QPushButton("Show the steps of this head")
        self.button.setToolTip(
            "Run the photo up to this block, and show what its head does, step by step."
        )
        self.steps: AttentionSteps | None = None
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 4, 0, 0)
        layout.addWidget(self.button)
        layout.addWidget(self.plot, stretch=1)

    def choose(self, selection: Selection) -> None:
        """Draw the steps for the channels of *selection*, if they are of its head."""
        steps = self.steps
        if steps is not None and (steps.selection.block, steps.selection.head) == (
            selection.block,
            selection.head,
        ):
            self.plot.set_steps(steps, selection.key or 0, selection.query or 0)
