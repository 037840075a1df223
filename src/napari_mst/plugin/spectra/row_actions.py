"""What is done to the rows of the table of spectra: delete, solo, recolour, rename, show and hide."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from napari.layers import Labels, Points, Shapes
from napari.utils.colormaps.standardize_color import transform_color
from qtpy.QtCore import QPoint
from qtpy.QtWidgets import QColorDialog, QMenu

from napari_mst.plugin.spectra import region_layers
from napari_mst.plugin.viewer import picks

if TYPE_CHECKING:
    from napari_mst.plugin.spectra.dock import SpectraDock
    from napari_mst.plugin.spectra.rows import Entry


class RowActions:
    """Changes the layers that the rows of *dock* are of; the dock hears of it from the layers."""

    def __init__(self, dock: "SpectraDock") -> None:
        self._dock = dock
        dock.model.renamed.connect(self.rename)
        dock.model.ticked.connect(self.tick)
        dock.table.deleted.connect(self.delete)
        dock.table.customContextMenuRequested.connect(self.show_menu)

    def chosen(self) -> "list[Entry]":
        """The entries whose rows are selected."""
        entries = self._dock.entries
        return [entries[row] for row in self._dock.table.chosen() if row < len(entries)]

    def of_points(self) -> list[int] | None:
        """The rows of the points that are selected on the image; None if the table has them selected already."""
        dock = self._dock
        points, chosen = picks.picks_layer(dock.viewer), set(dock.table.chosen())
        if points is None:
            return None
        rows = {row for row, entry in enumerate(dock.entries) if entry.layer is points}
        wanted = {row for row in rows if dock.entries[row].index in points.selected_data}
        return None if wanted == chosen & rows else sorted(wanted or chosen - rows)

    def choose_label(self, layer: Labels) -> None:
        """Select the row of the label that is selected on the image, for example with napari's colour picker."""
        of = (layer, layer.selected_label)
        row = next(
            (
                row
                for row, entry in enumerate(self._dock.entries)
                if (entry.layer, entry.index) == of
            ),
            None,
        )
        if row is not None:
            self._dock.table.selectRow(row)

    def delete(self) -> None:
        """Take away what is chosen; labels stay, as they are pixels of an image."""
        chosen = self.chosen()
        self._dock.table.clearSelection()
        for layer in {entry.layer for entry in chosen}:
            indices = {entry.index for entry in chosen if entry.layer is layer}
            if isinstance(layer, Points | Shapes):
                layer.selected_data = indices
                layer.remove_selected()
            elif layer is None:
                self._dock.collection.unload(indices)
        self._dock.end_action()

    def solo(self, chosen: "Sequence[Entry]") -> None:
        """Show the curves of *chosen* only; those of all, if no others are shown."""
        keys = {entry.key for entry in chosen}
        others = [entry for entry in self._dock.entries if entry.key not in keys]
        self._dock.collection.show(others, not any(entry.is_shown for entry in others))
        self._dock.collection.show(chosen, True)
        self._dock.end_action()

    def recolour(self, row: int, colour: str) -> None:
        """Give the pick or shape of a row another colour ("#rrggbb")."""
        entry = self._dock.entries[row]
        if isinstance(entry.layer, Points):
            picks.recolour(entry.layer, entry.index, colour)
        elif isinstance(entry.layer, Shapes):
            region_layers.recolour(entry.layer, {entry.index: transform_color(colour)[0, :3]})
        self._dock.end_action()

    def rename(self, row: int, name: str) -> None:
        """Give what is in a row another name."""
        entry, loaded = self._dock.entries[row], self._dock.collection.loaded
        if isinstance(entry.layer, Points):
            told = picks.names(entry.layer)
            told[entry.index] = name
            picks.set_feature(entry.layer, "name", told)
        elif isinstance(entry.layer, Shapes | Labels):
            region_layers.rename(entry.layer, entry.index, name)
        else:
            loaded[entry.index] = replace(loaded[entry.index], name=name)
        self._dock.end_action()

    def tick(self, row: int, is_shown: bool) -> None:
        """Show the curve of a row, or hide it."""
        self._dock.collection.show([self._dock.entries[row]], is_shown)
        self._dock.end_action()

    def show_menu(self, place: QPoint) -> None:
        """The menu of the rows that are chosen."""
        chosen, table = self.chosen(), self._dock.table
        if not chosen:
            return
        menu = QMenu(self._dock)
        menu.addAction("Solo / show all", lambda: self.solo(chosen))
        menu.addAction("Colour ...", lambda: self._ask_colour(table.chosen()[0])).setEnabled(
            isinstance(chosen[0].layer, Points | Shapes)
        )
        is_any_deleted = any(not isinstance(entry.layer, Labels) for entry in chosen)
        menu.addAction("Delete", self.delete).setEnabled(is_any_deleted)
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(table.viewport().mapToGlobal(place))

    def _ask_colour(self, row: int) -> None:
        dialog = QColorDialog(self._dock)
        dialog.setCurrentColor(self._dock.entries[row].first.colour)
        dialog.colorSelected.connect(lambda colour: self.recolour(row, colour.name()))
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()
