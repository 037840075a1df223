"""The page "Pixel" of the attention dock: what a clicked pixel attends to, and its numbers."""

from typing import TYPE_CHECKING, Any

from qtpy.QtCore import QAbstractTableModel, QModelIndex, QSignalBlocker, Qt
from qtpy.QtWidgets import (
    QComboBox,
    QDoubleSpinBox,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QSpinBox,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from napari_mst.attention.record import block_title
from napari_mst.denoising.photos import BEST_H
from napari_mst.plugin.attention.exploration import RecordedHead
from napari_mst.plugin.attention.picking import ALIKE, NETWORK, OF_NETWORK, SINGLE, WINDOW
from napari_mst.plugin.viewer.widgets import Paragraph, let_shrink

if TYPE_CHECKING:
    from napari_mst.attention.head_steps import HeadSteps, Step


STEP_HINT = "The matrix whose numbers are shown, in the order in which they are computed."
MEASURED_ROWS = 32
NO_PARENT = QModelIndex()


class StepModel(QAbstractTableModel):
    """The numbers of one matrix, with the row and column of the photo of each pixel."""

    def __init__(self, step: "Step") -> None:
        super().__init__()
        self._step = step

    def rowCount(self, parent: QModelIndex = NO_PARENT) -> int:
        """Qt asks for this."""
        return 0 if parent.isValid() else len(self._step.values)

    def columnCount(self, parent: QModelIndex = NO_PARENT) -> int:
        """Qt asks for this."""
        return 0 if parent.isValid() else self._step.values.shape[1]

    def data(self, index: QModelIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Qt asks for this: five digits to read, all of them in the tooltip."""
        value = float(self._step.values[index.row(), index.column()])
        if role == Qt.ItemDataRole.DisplayRole:
            return f"{value:.5g}"
        if role == Qt.ItemDataRole.ToolTipRole:
            return repr(value)
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        return None

    def headerData(
        self,
        section: int,
        orientation: Qt.Orientation,
        role: int = Qt.ItemDataRole.DisplayRole,
    ) -> Any:
        """Qt asks for this: the pixel of a row or column, else its number."""
        if role != Qt.ItemDataRole.DisplayRole:
            return None
        is_column = orientation == Qt.Orientation.Horizontal
        places = self._step.columns if is_column else self._step.rows
        return str(section) if places is None else "{}, {}".format(*places[section])


class Numbers(QWidget):
    """Shows the steps of a head; the chosen matrix stays chosen from click to click."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = QComboBox(toolTip=STEP_HINT)
        self.table = QTableView()
        self.about = Paragraph()
        self._found: HeadSteps | None = None
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.steps)
        layout.addWidget(self.table, stretch=1)
        layout.addWidget(self.about)
        self.steps.currentIndexChanged.connect(self._draw)
        # Widths follow the first rows: to look at all of a large matrix would take seconds.
        self.table.horizontalHeader().setResizeContentsPrecision(MEASURED_ROWS)
        self.table.setAccessibleName("Numbers of the matrix")

    def show_steps(self, found: "HeadSteps") -> None:
        """Show the matrices of *found*."""
        self._found = found
        chosen = max(self.steps.currentIndex(), 0)
        with QSignalBlocker(self.steps):
            self.steps.clear()
            for step in found.steps:
                rows, columns = step.values.shape
                self.steps.addItem(f"{step.name} = {step.formula}   ({rows} x {columns})")
            self.steps.setCurrentIndex(min(chosen, self.steps.count() - 1))
        self._draw()

    def _draw(self) -> None:
        found = self._found
        index = self.steps.currentIndex()
        if found is None or index < 0:
            return
        step = found.steps[index]
        self._model = StepModel(step)  # Qt does not keep it
        self.table.setModel(self._model)
        self.table.resizeColumnsToContents()
        self.about.setText(step.about)


BY_HINT = (
    "A block of the network, chosen above, also in the numbers of all its matrices; non-local "
    "means, the filter of noisy photos before the network and the ancestor of attention; or a "
    "single head, in the numbers of all its matrices."
)
PICK_HINT = (
    "While this is pressed, a click on the photo chooses a pixel; with non-local means, moving "
    "the mouse does."
)
H_HINT = "The strength h in units of the noise of the photo; a run that denoises takes 1.2."
DENOISE_HINT = "Add the whole photo, denoised by non-local means with this h, as a photo layer."
BEFORE_HINT = "Hide the denoised photo, to see it as it was before; press again to see it after."
NETWORK_TEXT = "Press Pick, then click the photo: a layer for each head shows the weights."
WINDOW_TEXT = (
    "Press Pick, then click the photo: the chosen head on the window of the pixel, in the numbers "
    "of every matrix. Tokens, which are pixels, are columns."
)
ALIKE_TEXT = "Press Pick, then move the mouse over the photo."
SINGLE_TEXT = (
    "Press Pick, then click the photo: single-head attention between the pixels of a patch, with "
    "the weights of non-local means, in all its numbers."
)
READING_HINT = (
    "In scaled dot-product attention, the weights of each query, a column of A, add up to 1. "
    "A text normalises rows instead, and multiplies V A all the same."
)
SIDE_HINT = "Pixels along each side of the patch; each pixel of it is a token."
MOST_SIDE = 16
NO_PIXELS = (
    "Channels attend to channels in this block, all pixels at once: see the page Matrix. Pixels "
    "attend to pixels in networks with windows, and in non-local means."
)
MOST_H = 10.0
LETTERS = 8
"""Width of a list in letters, at least; else a long entry would widen the dock."""


class PixelPage(QWidget):
    """Chooses by what pixels are compared, and says what was found."""

    def __init__(self) -> None:
        super().__init__()
        self.by = QComboBox(toolTip=BY_HINT)
        self.by.addItem("block of the network", NETWORK)
        self.by.addItem("block of the network, step by step", WINDOW)
        self.by.addItem("non-local means", ALIKE)
        self.by.addItem("single head, step by step", SINGLE)
        self.pick_button = QPushButton("Pick", checkable=True, toolTip=PICK_HINT)
        self.h = QDoubleSpinBox(minimum=0.1, maximum=MOST_H, singleStep=0.1, suffix=" \u03c3")
        self.h.setValue(BEST_H)
        self.h.setToolTip(H_HINT)
        self.denoise_button = QPushButton("Denoise the photo", toolTip=DENOISE_HINT)
        self.before_button = QPushButton("Before", checkable=True, toolTip=BEFORE_HINT)
        self.reading = QComboBox(toolTip=READING_HINT)
        for reading in ("columns", "rows"):
            self.reading.addItem(f"{reading} of A sum to 1", reading)
        self.side = QSpinBox(minimum=2, maximum=MOST_SIDE, value=4, suffix=" px")
        self.side.setToolTip(SIDE_HINT)
        self.numbers = Numbers()
        self.about = Paragraph()
        self.text = Paragraph()
        for box in (self.by, self.reading, self.numbers.steps):
            let_shrink(box, LETTERS)
        self._head: RecordedHead | None = None
        self._filter = QWidget()
        self._patch = QWidget()
        self._lay_out()
        self.by.currentIndexChanged.connect(self._draw)
        self._draw()

    def _lay_out(self) -> None:
        first = QGridLayout()
        first.setColumnStretch(1, 1)
        first.addWidget(QLabel("Attention of"), 0, 0)
        first.addWidget(self.by, 0, 1)
        first.addWidget(self.pick_button, 0, 2)
        row = QHBoxLayout(self._filter)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(QLabel("h", toolTip=H_HINT))
        row.addWidget(self.h)
        row.addWidget(self.denoise_button, stretch=1)
        row.addWidget(self.before_button)
        of_patch = QHBoxLayout(self._patch)
        of_patch.setContentsMargins(0, 0, 0, 0)
        of_patch.addWidget(QLabel("Patch", toolTip=SIDE_HINT))
        of_patch.addWidget(self.side)
        of_patch.addWidget(self.reading, stretch=1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 4, 0, 0)
        layout.addLayout(first)
        for part in (self._filter, self._patch, self.about, self.text):
            layout.addWidget(part)
        layout.addWidget(self.numbers, stretch=1)
        layout.addStretch()

    @property
    def mechanism(self) -> str:
        """The attention that is looked at: `NETWORK`, `WINDOW`, `ALIKE` or `SINGLE`."""
        return str(self.by.currentData())

    def draw_head(self, head: RecordedHead) -> None:
        """Say what the chosen block is; one without attention between pixels leaves the filter."""
        was_between = self._head is not None and self._head.between_pixels is not None
        self._head = head
        is_between = head.between_pixels is not None
        if is_between != was_between:
            self.by.setCurrentIndex(self.by.findData(NETWORK if is_between else ALIKE))
        self._draw()

    def show_picking(self, is_on: bool) -> None:
        """Draw the button as pressed or not, without a signal."""
        with QSignalBlocker(self.pick_button):
            self.pick_button.setChecked(is_on)

    def _draw(self) -> None:
        self._filter.setVisible(self.mechanism not in OF_NETWORK)
        self.denoise_button.setVisible(self.mechanism == ALIKE)
        self.before_button.setVisible(self.mechanism == ALIKE)
        self._patch.setVisible(self.mechanism == SINGLE)
        self.numbers.setVisible(self.mechanism in (SINGLE, WINDOW))
        self.about.setText(self._about())

    def _about(self) -> str:
        if self.mechanism == ALIKE:
            return ALIKE_TEXT
        if self.mechanism == SINGLE:
            return SINGLE_TEXT
        between = None if self._head is None else self._head.between_pixels
        if self._head is None or between is None:
            return NO_PIXELS
        title = block_title(self._head.block, between.channels)
        how = WINDOW_TEXT if self.mechanism == WINDOW else NETWORK_TEXT
        return f"{title}: {between}. {how}"
