"""A table of the numbers of every matrix of a single head, one matrix at a time."""

from typing import TYPE_CHECKING, Any

from qtpy.QtCore import QAbstractTableModel, QModelIndex, QSignalBlocker, Qt
from qtpy.QtWidgets import QComboBox, QTableView, QVBoxLayout, QWidget

from napari_mst.plugin.viewer.paragraph import Paragraph

if TYPE_CHECKING:
    from napari_mst.attention.patch_steps import PatchSteps, Step

STEP_HINT = "The matrix whose numbers are shown, in the order in which they are computed."
OF_PIXELS = {"X", "Q", "K", "V", "S", "A", "O"}
"""Matrices whose columns are the pixels of the patch."""
BETWEEN_PIXELS = {"S", "A"}
"""Matrices whose rows are the same pixels: row i is key i, column j is query j."""
NO_PARENT = QModelIndex()


class StepModel(QAbstractTableModel):
    """The numbers of one matrix, with the row and column of the photo of each pixel."""

    def __init__(self, found: "PatchSteps", step: "Step") -> None:
        super().__init__()
        self._found = found
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
        if self._step.name in (OF_PIXELS if is_column else BETWEEN_PIXELS):
            down, across = divmod(section, self._found.side)
            return f"{self._found.row + down}, {self._found.column + across}"
        return str(section)


class Numbers(QWidget):
    """Shows the steps of a patch; the chosen matrix stays chosen from patch to patch."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = QComboBox(toolTip=STEP_HINT)
        self.table = QTableView()
        self.about = Paragraph()
        self._found: PatchSteps | None = None
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.steps)
        layout.addWidget(self.table, stretch=1)
        layout.addWidget(self.about)
        self.steps.currentIndexChanged.connect(self._draw)
        self.table.setAccessibleName("Numbers of the matrix")

    def show_steps(self, found: "PatchSteps") -> None:
        """Show the matrices of *found*."""
        self._found = found
        chosen = max(self.steps.currentIndex(), 0)
        with QSignalBlocker(self.steps):
            self.steps.clear()
            for step in found.steps:
                rows, columns = step.values.shape
                self.steps.addItem(f"{step.name} = {step.formula}   ({rows} x {columns})")
            self.steps.setCurrentIndex(chosen)
        self._draw()

    def _draw(self) -> None:
        found = self._found
        index = self.steps.currentIndex()
        if found is None or index < 0:
            return
        step = found.steps[index]
        self._model = StepModel(found, step)  # Qt does not keep it
        self.table.setModel(self._model)
        self.table.resizeColumnsToContents()
        self.about.setText(_about(found, step))


def _about(found: "PatchSteps", step: "Step") -> str:
    """Say how the rows and columns of a matrix are to be read."""
    if step.name == "A":
        axis = 0 if found.reading == "columns" else 1
        sums = step.values.sum(axis)
        return (
            f"Row i is key i, column j is query j. Each of the {found.reading} adds up to 1: "
            f"{sums.min():.6f} to {sums.max():.6f}."
        )
    if step.name == "S":
        return "Row i is key i, column j is query j."
    if step.name in OF_PIXELS:
        return "A column is a pixel of the patch, named by its row and column in the photo."
    return "The weights are those of non-local means between single pixels."
