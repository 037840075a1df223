"""The table of spectra under the plot: names, places and values. Names and ticks can be edited."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from qtpy.QtCore import (
    QAbstractTableModel,
    QItemSelection,
    QItemSelectionModel,
    QItemSelectionRange,
    QModelIndex,
    QSize,
    Qt,
)
from qtpy.QtGui import QColor, QKeyEvent
from qtpy.QtWidgets import QAbstractItemView, QHeaderView, QTableView

from napari_mst.plugin.spectra.resolve import NO_COLOUR, Snapshot
from napari_mst.plugin.spectra.rows import Entry, curve_of
from napari_mst.plugin.spectra.spectra_model import SpectraModel

SWATCH = 12
"""Side in pixels of the square in the colour of a curve."""
KNOWN = "\N{BLACK DIAMOND}"
"""Stands before the name of a pick with a reference spectrum."""
ROW_HEIGHT = 22
"""Pixels."""
ROWS_SHOWN = 5
"""Most rows that the table shows without scrolling."""
FRAME = 4
"""Height in pixels that the frame takes in addition to the rows."""
FIRST_NUMBERS = 2
"""The first column with numbers; all later columns have numbers, too."""

Role = Qt.ItemDataRole
OUTSIDE = QModelIndex()


class Column(NamedTuple):
    """A column: its title, its tooltip, and the text that it shows of an entry."""

    title: str
    tip: str
    text: Callable[[Entry], str]


def counted(entry: Entry) -> str:
    """Return the number of pixels, followed by the number of excluded pixels in brackets."""
    origin = entry.first.origin
    left_out = f" (-{origin.excluded:,})" if origin.excluded else ""
    return f"{origin.pixels:,}{left_out}"


NAME = Column(
    "Spectrum",
    "Double-click to rename. The tick shows and hides the curve. A diamond is known.",
    lambda entry: entry.first.name,
)
PLACE = Column("Place", "Row and column, or the layer of the region.", lambda entry: entry.place)
PIXELS = Column(
    "Pixels",
    "Number of pixels in the mean; in brackets, pixels left out because they are not numbers.",
    counted,
)


def _score(title: str, tip: str, text: str) -> Column:
    """Return a column whose *text* formats a comparison."""

    def text_of(entry: Entry) -> str:
        return "" if entry.comparison is None else text.format(entry.comparison)

    return Column(title, tip, text_of)


SCORES = (
    _score("RMSE", "Root mean square error to the reference.", "{0.rmse:.4f}"),
    _score("MRAE", "Mean relative absolute error to the reference.", "{0.mrae:.3f}"),
    _score(
        "SAM",
        "Mean spectral angle to the reference in degrees.",
        "{0.angle:.2f}\N{DEGREE SIGN}",
    ),
)
"""The columns of a comparison with a reference."""


def _columns(new: Snapshot) -> tuple[Column, ...]:
    """Return all columns, from left to right."""
    wavelength, unit = new.reading or (0.0, "")
    at = f"{wavelength:g} {unit}"

    def value_at(entry: Entry) -> str:
        distances = np.abs(entry.first.wavelengths - wavelength)
        value = float(entry.first.values[distances.argmin()])
        return f"{value:.4f}" if abs(value) < 10 else f"{value:.5g}"

    value = Column(at, f"Value at {at}.", value_at)
    return (NAME, PLACE, PIXELS, value, *(SCORES if new.has_reference else ()))


class SpectraTableModel(QAbstractTableModel):
    """The content of the table, taken from the snapshot `shown`."""

    def __init__(self, model: SpectraModel) -> None:
        super().__init__()
        self._model = model
        self.shown = Snapshot()
        self.columns = _columns(self.shown)

    def show(self, new: Snapshot) -> None:
        """Show *new*. Rows stay selected while their number does not change."""
        old, columns = self.shown, _columns(new)
        # Only then, as a reset clears the selection and ends the editing of a name.
        is_same_size = len(new.entries) == len(old.entries) and len(columns) == len(self.columns)
        if not is_same_size:
            self.beginResetModel()
        # Stored, as Qt asks for the number of columns at each of thousands of rows.
        self.shown, self.columns = new, columns
        if not is_same_size:
            self.endResetModel()
        # Not for each move of the mouse, as asking thousands of rows takes long.
        elif _content(new) != _content(old):
            end = self.index(len(new.entries) - 1, len(columns) - 1)
            self.headerDataChanged.emit(Qt.Orientation.Horizontal, 0, len(columns) - 1)
            self.dataChanged.emit(self.index(0, 0), end)

    def rowCount(self, parent: QModelIndex = OUTSIDE) -> int:
        """See Qt."""
        return 0 if parent.isValid() else len(self.shown.entries)

    def columnCount(self, parent: QModelIndex = OUTSIDE) -> int:
        """See Qt."""
        return 0 if parent.isValid() else len(self.columns)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Role.DisplayRole
    ) -> object:
        """See Qt."""
        if orientation != Qt.Orientation.Horizontal:
            return None
        title, tip, _ = self.columns[section]
        texts = {
            Role.DisplayRole: title,
            Role.ToolTipRole: tip,
            Role.TextAlignmentRole: _side(section),
        }
        return texts.get(Role(role))

    def data(self, index: QModelIndex, role: int = Role.DisplayRole) -> object:
        """See Qt."""
        entry, number = self.shown.entries[index.row()], index.column()
        column = self.columns[number]
        if role == Role.DisplayRole and column is NAME and entry.mark is not None:
            return f"{KNOWN} {entry.first.name}"
        if role in (Role.DisplayRole, Role.EditRole):
            return column.text(entry)
        if role == Role.ToolTipRole:
            return tip(entry, column)
        if role == Role.TextAlignmentRole:
            return _side(number)
        if number == 0 and role == Role.CheckStateRole:
            return Qt.CheckState.Checked if entry.is_shown else Qt.CheckState.Unchecked
        if number == 0 and role == Role.DecorationRole:
            return QColor(entry.first.colour or NO_COLOUR)
        return None

    def flags(self, index: QModelIndex) -> Qt.ItemFlag:
        """See Qt."""
        flags: Qt.ItemFlag = super().flags(index)
        if index.column() == 0:
            flags |= Qt.ItemFlag.ItemIsEditable | Qt.ItemFlag.ItemIsUserCheckable
        return flags

    def setData(self, index: QModelIndex, value: object, role: int = Role.EditRole) -> bool:
        """See Qt; the change comes back as new entries."""
        entry = self.shown.entries[index.row()]
        if role == Role.CheckStateRole:
            self._model.show([entry], Qt.CheckState(value) == Qt.CheckState.Checked)
        elif role == Role.EditRole and str(value).strip():
            self._model.rename(entry, str(value).strip())
        return role in (Role.CheckStateRole, Role.EditRole)


def _content(shown: Snapshot) -> tuple[object, ...]:
    """Return everything that the texts of the table depend on."""
    return shown.entries, shown.reading


def _side(column: int) -> Qt.AlignmentFlag:
    """Return the alignment of a column: numbers are right-aligned."""
    flags = Qt.AlignmentFlag
    side = flags.AlignRight if column >= FIRST_NUMBERS else flags.AlignLeft
    return side | flags.AlignVCenter


def tip(entry: Entry, column: Column) -> str:
    """Return the tooltip of a cell; the name of a marked pick has its reference spectrum."""
    origin, mark = entry.first.origin, entry.mark
    if column is PIXELS:
        return "" if origin.area is None else f"{origin.area:,.6g} {origin.area_unit}"
    if column is NAME and mark is not None:
        size = f"{mark.window} x {mark.window} pixels"
        return f"{entry.first.name}: known, {curve_of(mark).name}, of {size}"
    return column.text(entry)


class SpectraTable(QTableView):
    """A table without grid and row numbers; its selection is chosen in *model*."""

    def __init__(self, model: SpectraModel, table_model: SpectraTableModel) -> None:
        view = QAbstractItemView
        super().__init__(
            showGrid=False,
            wordWrap=False,
            iconSize=QSize(SWATCH, SWATCH),
            selectionBehavior=view.SelectionBehavior.SelectRows,
            verticalScrollMode=view.ScrollMode.ScrollPerPixel,
            contextMenuPolicy=Qt.ContextMenuPolicy.CustomContextMenu,
        )
        self._model = model
        self._table_model = table_model
        self.setModel(table_model)
        self.selectionModel().selectionChanged.connect(self._on_selection)
        self.setEditTriggers(view.EditTrigger.DoubleClicked | view.EditTrigger.EditKeyPressed)
        rows, columns = self.verticalHeader(), self.horizontalHeader()
        rows.hide()
        rows.setDefaultSectionSize(ROW_HEIGHT)
        rows.setMinimumSectionSize(ROW_HEIGHT)
        columns.setHighlightSections(False)
        # Widths follow the visible rows, as measuring thousands would take seconds.
        columns.setResizeContentsPrecision(0)
        table_model.modelReset.connect(self._fit)
        self._fit()

    def show_rows(self, new: Snapshot) -> None:
        """Show the rows of *new*, and select the chosen ones."""
        self._table_model.show(new)
        if tuple(self.chosen()) != new.chosen:
            self.choose(new.chosen)

    def _on_selection(self) -> None:
        self._model.choose(self.chosen())

    def chosen(self) -> list[int]:
        """Return the selected rows."""
        # Qt's `selectedRows` asks the model about every cell, which takes long in Python.
        parts = self.selectionModel().selection()
        return sorted({row for part in parts for row in range(part.top(), part.bottom() + 1)})

    def choose(self, rows: Sequence[int]) -> None:
        """Select *rows* and no others."""
        chosen, last = QItemSelection(), self.model().columnCount() - 1
        for row in rows:
            index = self.model().index(row, 0)
            chosen.append(QItemSelectionRange(index, index.siblingAtColumn(last)))
        # All rows at once, so that Qt announces a single change.
        self.selectionModel().select(chosen, QItemSelectionModel.SelectionFlag.ClearAndSelect)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Qt calls this; Delete and Backspace delete the selected rows."""
        if event.key() in (Qt.Key.Key_Delete, Qt.Key.Key_Backspace):
            self._model.delete(self._model.chosen)
        else:
            super().keyPressEvent(event)

    def _fit(self) -> None:
        """Fit the height of the table to its rows, and give names the remaining width."""
        count = self.model().rowCount()
        self.setVisible(count > 0)
        header, modes = self.horizontalHeader(), QHeaderView.ResizeMode
        rows = min(max(count, 1), ROWS_SHOWN)
        self.setFixedHeight(header.sizeHint().height() + rows * ROW_HEIGHT + FRAME)
        for column in range(header.count()):
            header.setSectionResizeMode(column, modes.ResizeToContents if column else modes.Stretch)
