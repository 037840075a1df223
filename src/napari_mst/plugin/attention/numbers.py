"""A table of the numbers of every matrix of a single head, one matrix at a time."""

from typing import TYPE_CHECKING, Any

from qtpy.QtCore import QAbstractTableModel, QModelIndex, QSignalBlocker, Qt
from qtpy.QtWidgets import QComboBox, QTableView, QVBoxLayout, QWidget

from napari_mst.plugin.viewer.paragraph import Paragraph

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
