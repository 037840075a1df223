"""The page "Pixel" of the attention dock: what a clicked pixel attends to, and its numbers."""

from typing import TYPE_CHECKING, Any

from qtpy.QtCore import QAbstractTableModel, QModelIndex, QSignalBlocker, Qt
from qtpy.QtWidgets import (
    QComboBox,
    QDoubleSpinBox,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from napari_mst.attention.record import PixelBlock
from napari_mst.denoising.photo_denoising import LEAST_CODES
from napari_mst.plugin.attention.attention_model import RecordedHead
from napari_mst.plugin.attention.matrix_page import LOWEST_ROW, Pictures
from napari_mst.plugin.attention.pixel_probe import (
    NETWORK,
    SINGLE,
    SIX,
    PixelView,
)
from napari_mst.plugin.viewer.widgets import (
    Paragraph,
    ScrolledPage,
    fill,
    let_shrink,
    set_lowest,
)

if TYPE_CHECKING:
    from napari_mst.attention.head_steps import HeadSteps, MatrixStep


STEP_HINT = "The matrix whose numbers are shown, in the order in which they are computed."
MEASURED_ROWS = 32
NO_PARENT = QModelIndex()


class StepModel(QAbstractTableModel):
    """The numbers of one matrix, whose pixels are labelled with their row and column."""

    def __init__(self, step: "MatrixStep") -> None:
        super().__init__()
        self._step = step

    def rowCount(self, parent: QModelIndex = NO_PARENT) -> int:
        """Qt asks for this."""
        return 0 if parent.isValid() else len(self._step.values)

    def columnCount(self, parent: QModelIndex = NO_PARENT) -> int:
        """Qt asks for this."""
        return 0 if parent.isValid() else self._step.values.shape[1]

    def data(self, index: QModelIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Qt asks for this: five digits in the cell, all digits in the tooltip."""
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
        """Qt asks for this: the pixel of a row or column, or its number if it is not a pixel."""
        if role != Qt.ItemDataRole.DisplayRole:
            return None
        is_column = orientation == Qt.Orientation.Horizontal
        places = self._step.columns if is_column else self._step.rows
        return str(section) if places is None else "{}, {}".format(*places[section])


class NumbersView(QWidget):
    """Shows the steps of a head; the chosen matrix stays chosen from click to click."""

    _of: "HeadSteps"

    def __init__(self) -> None:
        super().__init__()
        self.steps = QComboBox(toolTip=STEP_HINT)
        self.table = QTableView()
        self.about = Paragraph()
        fill(QVBoxLayout(self), self.steps, self.table, self.about, stretched=self.table)
        self.steps.currentIndexChanged.connect(self._draw)
        # Widths follow the first rows: measuring all of a large matrix would take seconds.
        self.table.horizontalHeader().setResizeContentsPrecision(MEASURED_ROWS)
        self.table.setAccessibleName("Numbers of the matrix")

    def show_steps(self, of: "HeadSteps") -> None:
        """Show the matrices of a head."""
        self._of = of
        chosen = max(self.steps.currentIndex(), 0)
        with QSignalBlocker(self.steps):
            self.steps.clear()
            for step in of.steps:
                rows, columns = step.values.shape
                self.steps.addItem(f"{step.name} = {step.formula}   ({rows} x {columns})")
            self.steps.setCurrentIndex(min(chosen, self.steps.count() - 1))
        self._draw()

    def _draw(self) -> None:
        step = self._of.steps[self.steps.currentIndex()]
        self._model = StepModel(step)  # Qt holds no reference to it
        self.table.setModel(self._model)
        self.table.resizeColumnsToContents()
        self.about.setText(step.about)


BY_HINT = (
    "A block of the network, chosen above, also in the numbers of all its matrices; six kinds of "
    "attention and non-local means, their ancestor, side by side; or a single head, in the numbers "
    "of all its matrices."
)
PICK_HINT = "While this is pressed, a click on the photo chooses a pixel."
H_HINT = (
    "The strength h in codes of 8 bits: pixels that differ by less count. By itself it is 1.2 "
    f"times the noise of the photo, as in a run that denoises, and {LEAST_CODES:g} codes at least."
)
DENOISE_HINT = (
    "Show the whole photo, denoised by non-local means with this h, as a photo layer; "
    "the eye of the layer shows it as it was before."
)
NO_PIXELS = (
    "Channels attend to channels in this block, all pixels at once: see the page Matrix. Pixels "
    "attend to pixels in networks with windows."
)
MOST_H = 100.0
LETTERS = 8
"""Least width of a list in letters. A long entry would widen the dock otherwise."""
KINDS = {
    NETWORK: (
        "block of the network",
        "Press Pick, then click the photo: a layer for each head shows the weights, and below are "
        "the numbers of every matrix of the chosen head. Tokens, which are pixels, are columns.",
    ),
    SIX: (
        "six attentions, side by side",
        "The framed pixel attends to those that shine, in six ways; press Pick to click another. "
        "All have the head of non-local means, so nothing had to be learnt. Hold the mouse over a "
        "picture for its equation.",
    ),
    SINGLE: (
        "single head, step by step",
        "Press Pick, then click the photo: single-head attention between the pixels of a patch, "
        "with the weights of non-local means, in all its numbers.",
    ),
}
"""Title and instructions of each kind of attention."""


class PixelPage(QWidget):
    """Chooses how pixels are compared, and shows the result."""

    def __init__(self) -> None:
        super().__init__()
        self.by = QComboBox(toolTip=BY_HINT)
        for kind, (title, _) in KINDS.items():
            self.by.addItem(title, kind)
        self.pick_button = QPushButton("Pick", checkable=True, toolTip=PICK_HINT)
        self.h = QDoubleSpinBox(
            maximum=MOST_H,
            decimals=1,
            prefix="h ",
            suffix=" codes",
            specialValueText="h by the noise",
            toolTip=H_HINT,
        )
        self.denoise_button = QPushButton("Denoise the photo", toolTip=DENOISE_HINT)
        self.about = Paragraph()
        self.text = Paragraph()
        self.plot = Pictures("What the pixel attends to", 200)
        self.plot_page = ScrolledPage(self.plot)
        set_lowest(self.plot_page, LOWEST_ROW)
        self.numbers = NumbersView()
        for box in (self.by, self.numbers.steps):
            let_shrink(box, LETTERS)
        self._head: RecordedHead | None = None
        of = QLabel("Attention of")
        layout = fill(
            QVBoxLayout(self),
            fill(QHBoxLayout(), of, self.by, self.pick_button, stretched=self.by),
            fill(QHBoxLayout(), self.h, self.denoise_button),
            self.about,
            self.text,
            self.plot_page,
            self.numbers,
        )
        for part, share in {self.plot_page: 3, self.numbers: 2}.items():
            layout.setStretchFactor(part, share)
        # Takes the room of both while there is nothing to show.
        layout.addStretch(0)
        # Without a run, there is only the photo to examine.
        self.by.setCurrentIndex(self.by.findData(SIX))
        self.by.currentIndexChanged.connect(self._draw)
        self.show_view(PixelView())
        self._draw()

    @property
    def kind(self) -> str:
        """The chosen kind of attention, a key of `KINDS`."""
        return str(self.by.currentData())

    def draw_head(self, head: RecordedHead | None) -> None:
        """Describe the block of *head*, and choose the kind of attention that suits it."""
        was_between = self._between
        self._head = head
        if (self._between is None) != (was_between is None):
            self.by.setCurrentIndex(self.by.findData(SIX if self._between is None else NETWORK))
        self._draw()

    @property
    def _between(self) -> PixelBlock | None:
        """The chosen block, if its attention is between pixels."""
        return None if self._head is None else self._head.between_pixels

    def show_view(self, view: PixelView) -> None:
        """Show the attention of a pixel."""
        self.text.setText(view.text)
        self.text.setVisible(bool(view.text))
        self.numbers.setVisible(view.steps is not None)
        self.plot_page.setVisible(bool(view.pictures))
        # Six pictures are described where they are; numbers need the room of the instructions.
        is_told = view.steps is None if self.kind != SIX else bool(view.pictures)
        self.about.setVisible(is_told)
        self.plot.draw(view.pictures)
        if view.steps is not None:
            self.numbers.show_steps(view.steps)

    def _draw(self) -> None:
        self.h.setVisible(self.kind != NETWORK)
        self.denoise_button.setVisible(self.kind == SIX)
        _, about = KINDS[self.kind]
        if self.kind == NETWORK:
            if self._head is None or self._between is None:
                about = NO_PIXELS
            else:
                about = f"{self._head.title}: {self._between}. {about}"
        self.about.setText(about)
