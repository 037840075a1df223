"""Parts of the attention dock: the lists of photos, models and runs, and the matrices."""

import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from napari.layers import Image
from qtpy.QtCore import QSignalBlocker, Signal
from qtpy.QtWidgets import (
    QComboBox,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from napari_mst.arrays import Singles
from napari_mst.attention.record import beside_uniform
from napari_mst.models import MODELS
from napari_mst.plugin.attention.exploration import RecordedHead
from napari_mst.plugin.attention.plot import MatrixPlot
from napari_mst.plugin.files.opening import ask_for_weights
from napari_mst.plugin.jobs.workspace import Recording
from napari_mst.plugin.viewer.widgets import LayerBox, fill, let_shrink

FROM_FILE = "file"
"""Value of the entry that asks for a file of weights."""
LETTERS = 8
"""Width of a list in letters, at least; else a long name would widen the dock."""
RUNS_HINT = (
    "The recorded runs; every run of the reconstruction dock is among them. "
    "A region has an attention of its own. "
    "For the mean of eight flips and transposes, it is the attention of the photo as it is."
)
RECORD_HINT = "Run the photo once: the matrices of all blocks appear here."
OPEN_HINT = "Open saved matrices, to compare with them."
SAVE_HINT = (
    "Save all matrices of this run with its maps (.npz), the matrices as a table (.csv), or only "
    "the newest map (.tif)."
)


class RunBox(QWidget):
    """The lists of photos, models and runs, with a button beside each."""

    def __init__(self) -> None:
        super().__init__()
        self.photos = LayerBox("The photo to record.")
        self.models = QComboBox(toolTip="The model to record.")
        self.runs = QComboBox(placeholderText="none yet: press Record", toolTip=RUNS_HINT)
        self.record_button = QPushButton("Record", toolTip=RECORD_HINT)
        self.open_button = QPushButton("Open ...", toolTip=OPEN_HINT)
        self.save_button = QPushButton("Save ...", toolTip=SAVE_HINT)
        self._titles: dict[str, str] = {}
        self._model = ""
        # "activated" comes from a person alone; filling the list is no choice.
        self.models.activated.connect(self._on_model)
        form = QGridLayout(self)
        form.setContentsMargins(0, 0, 0, 0)
        form.setColumnStretch(1, 1)
        rows = (
            (QLabel("Photo"), self.photos, self.record_button),
            (QLabel("Model"), self.models, self.open_button),
            (QLabel("Run"), self.runs, self.save_button),
        )
        for row, parts in enumerate(rows):
            let_shrink(parts[1], LETTERS)
            for column, part in enumerate(parts):
                form.addWidget(part, row, column)

    @property
    def layer(self) -> Image | None:
        """The layer of the chosen photo."""
        reference: weakref.ref[Any] | None = self.photos.currentData()
        return reference() if reference is not None else None

    def show_runs(
        self, recordings: Sequence[Recording], chosen: Recording | None, wish: str | None
    ) -> None:
        """List *recordings* with *chosen* among them, and their models among the bundled ones.

        The model *wish* is chosen, unless a person has chosen another.
        """
        with QSignalBlocker(self.runs):
            self.runs.clear()
            for number, run in enumerate(recordings, start=1):
                model = run.record.provenance.model or "unknown model"
                self.runs.addItem(f"{number}: {run.name}, {model}")
                if run is chosen:
                    self.runs.setCurrentIndex(number - 1)
        self._titles.update((run.model, Path(run.model).name) for run in recordings if run.model)
        self._show_models(self._model or wish)

    def _show_models(self, chosen: str | None) -> None:
        """List the files that were opened, the models of runs, and the bundled ones."""
        # Only the reconstruction dock can ask for the camera that some models need.
        bundled = [card for card in MODELS.values() if card.file and not card.needs_camera]
        titles = self._titles | {card.name: card.name for card in bundled}
        self.models.clear()
        for model, title in (titles | {FROM_FILE: "weights from a file ..."}).items():
            self.models.addItem(title, model)
        self.models.setCurrentIndex(max(self.models.findData(chosen), 0))

    def _on_model(self) -> None:
        model = self.models.currentData()
        if model == FROM_FILE:
            # If the user cancels, the list shows the model before.
            model = ask_for_weights(self) or self._model
            if model:
                self._titles.setdefault(model, Path(model).name)
        self._model = model
        self._show_models(model)


NOTE = "Channels i and j are learnt features, not wavelengths."
COMPARE_HINT = (
    "Keep this matrix beside those that you choose next, be it another block, head, run or photo."
)
DIFFERENCE_HINT = "Draw the left matrix less the kept one: red where it is larger."
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
        self.difference_button = QPushButton(
            "Difference", checkable=True, toolTip=DIFFERENCE_HINT, clicked=self._draw
        )
        self._heads: tuple[RecordedHead, ...] = ()
        # The left matrix less the kept one, where both have the same size.
        self._apart: Singles | None = None
        self._cell: tuple[int | None, int | None] = (0, 0)
        for plot in (self.chosen, self.compared):
            plot.clicked.connect(self.clicked)
            plot.hovered.connect(self._show_values)
        note = QLabel(NOTE, wordWrap=True)
        plots = fill(QHBoxLayout(), self.chosen, self.compared)
        for number in range(2):
            plots.setStretch(number, 1)
        buttons = (self.difference_button, self.compare_button)
        below = fill(QHBoxLayout(), note, *buttons, stretched=note)
        layout = fill(QVBoxLayout(self), plots, self.uniformity, below, self.values)
        layout.setStretch(0, 1)

    def set_heads(self, heads: Sequence[RecordedHead | None]) -> None:
        """Draw those of two *heads* that have a matrix side by side, on one scale."""
        self._heads = tuple(head for head in heads if head and head.matrices)
        weights = [head.weights for head in self._heads]
        high = max((float(each.max()) for each in weights), default=1.0)
        for plot, head in zip((self.chosen, self.compared), heads, strict=True):
            plot.setVisible(head in self._heads)
            if head is not None and head in self._heads:
                plot.set_head(head, high)
        first = heads[0]
        self.uniformity.setText("" if first is None else _uniformity(first))
        is_pair = len({each.shape for each in weights}) == len(weights) - 1
        self._apart = weights[0] - weights[1] if is_pair else None
        self.difference_button.setVisible(is_pair)
        if self._apart is not None and self.difference_button.isChecked():
            most = float(abs(self._apart).max()) or 1.0
            self.compared.title.setText(
                f"difference<br>left less kept<br>{-most:.3f} to {most:.3f}"
            )
            self.compared.picture.show(self._apart, (-most, most))

    def _draw(self) -> None:
        self.set_heads(self._heads)

    def set_cell(self, key: int | None, query: int | None) -> None:
        """Mark the chosen channels."""
        self._cell = (key, query)
        for plot in (self.chosen, self.compared):
            plot.set_cell(key, query)
        self._show_values(None)

    def _show_values(self, cell: tuple[int, int] | None) -> None:
        """Write the values at *cell*, or at the chosen channels, of every matrix that is shown."""
        key, query = cell or self._cell
        lines = [ALL_CHANNELS]
        if key is not None and query is not None:
            lines = [_values(head, key, query) for head in self._heads]
            if self._apart is not None:
                most = abs(self._apart).max()
                lines.append(f"difference {self._apart[key, query]:.4f}, at most {most:.4f}")
        self.values.setText("<br>".join(lines))


def _uniformity(head: RecordedHead) -> str:
    """Compare a head with equal weights; say what to do where it has no matrix."""
    if head.matrices is None:
        return BETWEEN_PIXELS.format(head.between_pixels)
    of_run = head.recording.record.uniformity
    return " ".join(filter(None, [beside_uniform(head.weights), of_run]))


def _values(chosen: RecordedHead, key: int, query: int) -> str:
    """One line on a cell of a matrix; a channel that the matrix lacks becomes its last."""
    i, j = min(key, chosen.channels - 1), min(query, chosen.channels - 1)
    matrices = chosen.recording.record[chosen.block]
    attention = chosen.weights
    spread = matrices.spread
    off = "" if spread is None else f" \N{PLUS-MINUS SIGN} {spread[chosen.head, i, j]:.4f}"
    return (
        f"A<sub>{i},{j}</sub> = <b>{attention[i, j]:.4f}</b>{off}, "
        f"logit {matrices.logits[chosen.head, i, j]:.3f}, "
        f"row sum {attention[i].sum():.4f}, "
        f"entropy {matrices.entropy[chosen.head, i]:.2f} bits"
    )
