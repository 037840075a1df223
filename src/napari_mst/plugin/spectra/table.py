"""The table of spectra under the plot: what each is, where it was taken, its value; names and ticks can be changed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from qtpy.QtCore import (
    QAbstractTableModel,
    QItemSelection,
    QItemSelectionModel,
    QModelIndex,
    QRectF,
    Qt,
    Signal,
)
from qtpy.QtGui import QColor, QIcon, QKeyEvent, QPainter, QPixmap
from qtpy.QtWidgets import QAbstractItemView, QHeaderView, QTableView

from napari_mst.plugin.spectra.rows import Entry
from napari_mst.spectra.spectrum import Spectrum

SWATCH = 12
ROW_HEIGHT = 22
ROWS_SHOWN = 5
"""Rows that the table has room for when there are as many."""

Role = Qt.ItemDataRole


@dataclass(frozen=True)
class Column:
    """A title, a tooltip, and what it says of an entry."""

    title: str
    tip: str
    text: Callable[[Entry], str]


def counted(entry: Entry) -> str:
    """How many pixels, and how many were left out."""
    origin = entry.first.origin
    return f"{origin.pixels:,}" + (f" (-{origin.excluded:,})" if origin.excluded else "")


def area(entry: Entry) -> str:
    """Tooltip of the number of pixels."""
    origin = entry.first.origin
    return "" if origin.area is None else f"{origin.area:,.6g} {origin.area_unit}"


NAME = Column(
    "Spectrum",
    "Double-click to rename. The tick shows and hides the curve.",
    lambda entry: entry.first.name,
)
PLACE = Column("Place", "Row and column, or the layer of the region.", lambda entry: entry.place)
PIXELS = Column(
    "Pixels", "Pixels that it is the mean of; in brackets, those without a number.", counted
)


def value_at(spectrum: Spectrum, wavelength: float) -> float:
    """The value at the band nearest to *wavelength*."""
    return float(spectrum.values[np.abs(spectrum.wavelengths - wavelength).argmin()])


def _number(value: float) -> str:
    return f"{value:.4f}" if abs(value) < 10 else f"{value:.5g}"


class SpectraModel(QAbstractTableModel):
    """What the table shows; `renamed` and `ticked` tell the row, and what was entered."""

    renamed = Signal(int, str)
    ticked = Signal(int, bool)

    def __init__(self) -> None:
        super().__init__()
        self.entries: Sequence[Entry] = ()
        self.extra: tuple[Column, ...] = ()
        self.wavelength, self.unit = 0.0, ""

    @property
    def columns(self) -> tuple[Column, ...]:
        """All columns, from left to right."""
        at = f"{self.wavelength:g} {self.unit}"
        value = Column(
            at, f"Value at {at}.", lambda entry: _number(value_at(entry.first, self.wavelength))
        )
        return (NAME, PLACE, PIXELS, value, *self.extra)

    def set_entries(self, entries: Sequence[Entry], extra: tuple[Column, ...] = ()) -> None:
        """Show *entries*."""
        if len(entries) != len(self.entries) or extra != self.extra:
            self.beginResetModel()
            self.entries, self.extra = entries, extra
            self.endResetModel()
        else:
            self.entries = entries
            self._tell(0, len(self.columns) - 1)

    def set_wavelength(self, wavelength: float, unit: str) -> None:
        """Where the values are read."""
        if (wavelength, unit) != (self.wavelength, self.unit):
            self.wavelength, self.unit = wavelength, unit
            self._tell(3, 3)
            self.headerDataChanged.emit(Qt.Orientation.Horizontal, 3, 3)

    def _tell(self, first: int, last: int) -> None:
        if self.entries:
            self.dataChanged.emit(self.index(0, first), self.index(len(self.entries) - 1, last))

    def rowCount(self, parent: QModelIndex | None = None) -> int:
        """See Qt."""
        return 0 if parent is not None and parent.isValid() else len(self.entries)

    def columnCount(self, parent: QModelIndex | None = None) -> int:
        """See Qt."""
        return 0 if parent is not None and parent.isValid() else len(self.columns)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Role.DisplayRole
    ) -> object:
        """See Qt."""
        if orientation != Qt.Orientation.Horizontal or not 0 <= section < len(self.columns):
            return None
        column = self.columns[section]
        align = Qt.AlignmentFlag.AlignVCenter | (
            Qt.AlignmentFlag.AlignLeft if section < 2 else Qt.AlignmentFlag.AlignRight
        )
        return {
            Role.DisplayRole: column.title,
            Role.ToolTipRole: column.tip,
            Role.TextAlignmentRole: align,
        }.get(role)

    def data(self, index: QModelIndex, role: int = Role.DisplayRole) -> object:
        """See Qt."""
        entry, column = self.entries[index.row()], index.column()
        if role in (Role.DisplayRole, Role.EditRole):
            return self.columns[column].text(entry)
        if role == Role.TextAlignmentRole and column > 1:
            return Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        if role == Role.ToolTipRole:
            return area(entry) if column == 2 else self.columns[column].text(entry)
        if column == 0 and role == Role.CheckStateRole:
            return Qt.CheckState.Checked if entry.is_shown else Qt.CheckState.Unchecked
        return swatch(entry.first.colour) if column == 0 and role == Role.DecorationRole else None

    def flags(self, index: QModelIndex) -> Qt.ItemFlag:
        """See Qt."""
        flags = super().flags(index)
        return (
            flags | Qt.ItemFlag.ItemIsEditable | Qt.ItemFlag.ItemIsUserCheckable
            if index.column() == 0
            else flags
        )

    def setData(self, index: QModelIndex, value: object, role: int = Role.EditRole) -> bool:
        """See Qt; the change comes back as new entries."""
        if role == Role.CheckStateRole:
            self.ticked.emit(index.row(), Qt.CheckState(value) == Qt.CheckState.Checked)
        elif role == Role.EditRole and str(value).strip():
            self.renamed.emit(index.row(), str(value).strip())
        else:
            return False
        return True


def swatch(colour: str) -> QIcon:
    """A dot of *colour* ("#rrggbb"; "" is grey)."""
    pixmap = QPixmap(SWATCH, SWATCH)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(colour or "#888888"))
    painter.drawEllipse(QRectF(1, 1, SWATCH - 2, SWATCH - 2))
    painter.end()
    icon = QIcon(pixmap)
    icon.addPixmap(pixmap, QIcon.Mode.Selected)  # else Qt tints it
    return icon


class SpectraTable(QTableView):
    """A quiet table: `deleted` tells that the chosen rows are to go."""

    deleted = Signal()

    def __init__(self, model: SpectraModel) -> None:
        super().__init__()
        self.setModel(model)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setEditTriggers(
            QAbstractItemView.EditTrigger.DoubleClicked
            | QAbstractItemView.EditTrigger.EditKeyPressed
        )
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        rows, columns = self.verticalHeader(), self.horizontalHeader()
        rows.hide()
        rows.setDefaultSectionSize(ROW_HEIGHT)
        rows.setMinimumSectionSize(ROW_HEIGHT)
        columns.setHighlightSections(False)
        columns.setResizeContentsPrecision(0)
        model.modelReset.connect(self._fit)
        self._fit()

    def chosen(self) -> list[int]:
        """The rows that are selected."""
        return sorted(index.row() for index in self.selectionModel().selectedRows())

    def choose(self, rows: Sequence[int]) -> None:
        """Select *rows* and no others."""
        chosen = QItemSelection()
        for row in rows:
            chosen.select(
                self.model().index(row, 0), self.model().index(row, self.model().columnCount() - 1)
            )
        self.selectionModel().select(chosen, QItemSelectionModel.SelectionFlag.ClearAndSelect)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Qt calls this; Delete and Backspace take the chosen rows away."""
        if event.key() in (Qt.Key.Key_Delete, Qt.Key.Key_Backspace):
            self.deleted.emit()
        else:
            super().keyPressEvent(event)

    def _fit(self) -> None:
        count = self.model().rowCount()
        self.setVisible(count > 0)
        rows = min(max(count, 1), ROWS_SHOWN)
        self.setFixedHeight(self.horizontalHeader().sizeHint().height() + rows * ROW_HEIGHT + 4)
        header = self.horizontalHeader()
        for column in range(header.count()):
            mode = (
                QHeaderView.ResizeMode.Stretch
                if column == 0
                else QHeaderView.ResizeMode.ResizeToContents
            )
            header.setSectionResizeMode(column, mode)
