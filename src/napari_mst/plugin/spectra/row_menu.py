"""The menu of the rows that are selected in the table of spectra."""

from collections.abc import Sequence

from qtpy.QtCore import QObject, QPoint
from qtpy.QtWidgets import QColorDialog, QMenu, QTableView

from napari_mst.plugin.spectra.bench import Bench
from napari_mst.plugin.spectra.known_menu import KnownMenu
from napari_mst.plugin.spectra.row_edits import can_delete, can_recolour
from napari_mst.plugin.spectra.rows import Entry


class RowMenu(QObject):
    """Shows the menu over *table*, and has *bench* do what is chosen."""

    def __init__(self, bench: Bench, table: QTableView, known: KnownMenu) -> None:
        super().__init__(table)
        self._known = known
        self._bench = bench
        self._table = table
        table.customContextMenuRequested.connect(self.show)

    def show(self, place: QPoint) -> None:
        """Show the menu at *place* in the table, if a row is selected."""
        entries = self._bench.chosen
        if not entries:
            return
        menu = QMenu(self._table)
        menu.addAction("Solo / show all", lambda: self._bench.solo(entries))
        recolour = menu.addAction("Colour ...", lambda: self._ask_colour(entries[0]))
        recolour.setEnabled(can_recolour(entries[0]))
        self._known.fill_sources(menu.addMenu("Known"))
        delete = menu.addAction("Delete", lambda: self._bench.delete(entries))
        delete.setEnabled(_is_any_deletable(entries))
        # The lambdas above hold entries, and they a cube: no longer than the menu is open.
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(self._table.viewport().mapToGlobal(place))

    def _ask_colour(self, entry: Entry) -> None:
        dialog = QColorDialog(self._table)
        dialog.setCurrentColor(entry.first.colour)
        dialog.colorSelected.connect(lambda colour: self._bench.recolour(entry, colour.name()))
        # Else the table keeps the dialog, and its lambda keeps the entry with a cube.
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()


def _is_any_deletable(entries: Sequence[Entry]) -> bool:
    return any(can_delete(entry) for entry in entries)
