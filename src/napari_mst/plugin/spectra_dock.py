"""The dock "Spectra": the live spectrum under the mouse, picks and regions, of the cube layers that are shown."""

import time
import weakref
from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image, Labels, Points, Shapes
from napari.utils.colormaps.standardize_color import transform_color
from napari.utils.theme import get_theme
from qtpy.QtCore import QPoint, QSize, QTimer
from qtpy.QtGui import QHideEvent, QShowEvent
from qtpy.QtWidgets import QColorDialog, QHBoxLayout, QLabel, QListWidget, QMenu, QSizePolicy, QVBoxLayout

from napari_mst.cube import SpectralCube
from napari_mst.errors import SpectrumError
from napari_mst.plugin import picks, regions
from napari_mst.plugin.collection import Collection, Entry
from napari_mst.plugin.dock import Dock, Link
from napari_mst.plugin.keeping import placed, save_picture
from napari_mst.plugin.layers import active_cube_layer, band_of, cube_of, go_to, show_wavelength
from napari_mst.plugin.maps_bar import MapsBar
from napari_mst.plugin.picks import Position
from napari_mst.plugin.plot import Line, SpectraPlot
from napari_mst.plugin.reader import RegionReader
from napari_mst.plugin.spectra_menus import SpectraMenus, reported
from napari_mst.plugin.spectra_table import SpectraModel, SpectraTable
from napari_mst.plugin.views import AS_IS, View
from napari_mst.spectra.matching import Match, best_matches
from napari_mst.spectra.spectrum import MODEL_ERROR, Spectrum

INTERVAL = 25
"""ms between two redraws, at least."""
REST = 3
"""Times as long as a redraw took that it then rests, where the cube is slow to read."""
CLICK_RADIUS = 4.0
"""Canvas pixels; a press that moves further is a drag, which pans."""
CHANGES = frozenset(
    [
        *("inserted", "removed", "reordered", "visible", "name", "data", "features"),
        *("face_color", "current_face_color", "edge_color", "current_edge_color", "colormap"),
        *("scale", "translate", "rotate", "shear", "affine", "paint", "labels_update"),
    ]
)
"""Events of the layers after which the curves may be others."""
UNDO = "Control-Z"
"""On the canvas, where the selected layer has no undo of its own."""
MATCHES = 5
MATCH_STYLE = 2
"""How many spectra of the library are listed, and the dashes of the one that is drawn."""
SIZE = (460, 560)
"""Pixels; what the dock asks for."""
STYLE = """
QToolButton {{ padding: 4px 1px; border-radius: 3px; background: {primary}; }}
QToolButton[popupMode="1"] {{ padding-right: 12px; }}
QToolButton[popupMode="2"] {{ padding-right: 8px; }}
QToolButton:hover {{ background: {secondary}; }}
QToolButton:checked {{ background: {current}; }}
QToolButton::menu-indicator {{ width: 7px; subcontrol-position: right center; right: 1px; }}
QToolButton::menu-button {{ width: 12px; border: none; background: transparent; }}
"""
"""The buttons, in the colours of a theme: flat, and lit while they are on."""
HINT = "Move over a cube; click to pin its spectrum."


class SpectraDock(Dock):
    """Shows what lies under mouse, points and regions; what is done to them goes through `picks` and `regions`."""

    def __init__(self, napari_viewer: ViewerModel) -> None:
        super().__init__(napari_viewer)
        self.plot, self.model = SpectraPlot(), SpectraModel()
        self.table = SpectraTable(self.model)
        self.text, self.notes = QLabel(HINT), QLabel(wordWrap=True)
        self.collection = Collection(RegionReader(self))
        self.history = picks.History()
        self.view: View = AS_IS
        self.is_legend_shown = self.is_error_shown = False
        self.library: list[Spectrum] = []
        self.entries: list[Entry] = []
        self._found: list[Match] = []
        self._hint = HINT
        self._refused, self._refused_live = set[str](), set[str]()
        self._position: Position | None = None
        self._cursor: float | None = None
        self._is_stale = True
        self._is_due = False
        self._timer = QTimer(self, singleShot=True, interval=INTERVAL)
        self.menus, self.maps = SpectraMenus(self), MapsBar(self)
        self.matches = QListWidget()
        self._lay_out()
        self._wire()
        self._dress()

    def _lay_out(self) -> None:
        row = QHBoxLayout()
        row.setSpacing(1)
        for button in self.menus.buttons:
            row.addWidget(button)
        row.addStretch()
        self.text.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(3, 4, 3, 4)
        layout.setSpacing(4)
        layout.addLayout(row)
        layout.addWidget(self.maps)
        layout.addWidget(self.plot, stretch=1)
        for widget in (self.text, self.notes, self.table, self.matches):
            layout.addWidget(widget)
        for widget in (self.maps, self.notes, self.matches):
            widget.hide()

    def _wire(self) -> None:
        self._timer.timeout.connect(self._on_timer)
        self.plot.band_dragged.connect(self._go_to)
        self.plot.cursor_moved.connect(self._on_cursor)
        self.plot.line_clicked.connect(self._on_line)
        self.model.renamed.connect(self._rename)
        self.model.ticked.connect(self._tick)
        self.table.deleted.connect(self.delete)
        self.table.customContextMenuRequested.connect(self._show_row_menu)
        self.table.selectionModel().selectionChanged.connect(self._on_selection)
        self.collection.reader.found_more.connect(self.draw_soon)
        self.menus.maps.toggled.connect(self.maps.setVisible)
        self.matches.currentRowChanged.connect(self._draw_lines)

    def sizeHint(self) -> QSize:
        """Qt asks for this when it lays out the docks."""
        return QSize(*SIZE)

    def links(self) -> list[Link]:
        """See `Dock`."""
        viewer = self.viewer
        redraw = (viewer.layers.selection.events.active, viewer.dims.events.ndisplay)
        return [
            (viewer.layers.events, self._on_layers),
            *((emitter, self.draw_soon) for emitter in redraw),
            (viewer.dims.events.current_step, self._on_step),
            (viewer.events.theme, self._on_theme),
        ]

    def showEvent(self, event: QShowEvent | None) -> None:
        """Listen to the mouse as well."""
        super().showEvent(event)
        if self._on_move not in self.viewer.mouse_move_callbacks:
            self.viewer.mouse_move_callbacks.append(self._on_move)
            self.viewer.mouse_drag_callbacks.append(self._on_press)
            self.viewer.bind_key(UNDO, self._on_undo, overwrite=True)

    def hideEvent(self, event: QHideEvent | None) -> None:
        """Let go of the mouse as well, and of what was read."""
        super().hideEvent(event)
        self._timer.stop()
        self._is_due = False
        self.collection.forget()
        self.entries = []
        self.model.set_entries([])
        viewer = self._viewer_ref()
        if viewer is not None and self._on_move in viewer.mouse_move_callbacks:
            viewer.mouse_move_callbacks.remove(self._on_move)
            viewer.mouse_drag_callbacks.remove(self._on_press)
            viewer.bind_key(UNDO, None)

    def refresh(self) -> None:
        """See `Dock`."""
        self._on_theme()
        self.history.record(picks.picks_layer(self.viewer))
        if active_cube_layer(self.viewer) is not None:
            show_wavelength(self.viewer)
        self.draw_soon()

    # ------------------------------------------------------------------------------------------------- what is done

    def pin(self, position: Position) -> bool:
        """Pin the pixel under the world *position*; False if there is none to pin."""
        self._hint = HINT
        return picks.pin(self.viewer, position, self.collection.window)

    def clear(self) -> None:
        """Take all picks off the image, and spectra from files off the plot."""
        points = picks.picks_layer(self.viewer)
        self.collection.unload(set(range(len(self.collection.loaded))))
        if points is not None:
            points.data = np.empty((0, points.ndim))
        self.draw_soon()

    def _on_undo(self, _: ViewerModel) -> None:
        self.undo()

    def undo(self) -> None:
        """Undo the last change of the picks."""
        self.history.undo(picks.picks_layer(self.viewer))
        self.draw_soon()

    def delete(self) -> None:
        """Take away what is chosen in the table."""
        chosen = [self.entries[row] for row in self.table.chosen()]
        self.table.clearSelection()
        for layer in {entry.layer for entry in chosen}:
            indices = {entry.index for entry in chosen if entry.layer is layer}
            if isinstance(layer, Points | Shapes):
                layer.selected_data = indices
                layer.remove_selected()
            elif layer is None:
                self.collection.unload(indices)
        self.draw_soon()

    def solo(self, chosen: Sequence[Entry]) -> None:
        """Show the curves of *chosen* only; those of all, if no others are shown."""
        keys = {entry.key for entry in chosen}
        others = [entry for entry in self.entries if entry.key not in keys]
        self.collection.show(others, not any(entry.is_shown for entry in others))
        self.collection.show(chosen, True)
        self.draw_soon()

    def recolour(self, row: int, colour: str) -> None:
        """Give the pick or shape of a row another colour ("#rrggbb")."""
        entry = self.entries[row]
        if isinstance(entry.layer, Points):
            picks.recolour(entry.layer, entry.index, colour)
        elif isinstance(entry.layer, Shapes):
            regions.recolour(entry.layer, {entry.index: transform_color(colour)[0, :3]})
        self.draw_soon()

    def _rename(self, row: int, name: str) -> None:
        entry = self.entries[row]
        if isinstance(entry.layer, Points):
            told = picks.names(entry.layer)
            told[entry.index] = name
            picks.set_feature(entry.layer, "name", told)
            self.history.record(entry.layer)
        elif entry.layer is not None:
            regions.rename(entry.layer, entry.index, name)
        else:
            self.collection.loaded[entry.index] = replace(self.collection.loaded[entry.index], name=name)
        self.draw_soon()

    def _tick(self, row: int, is_shown: bool) -> None:
        self.collection.show([self.entries[row]], is_shown)
        self.draw_soon()

    def set_reference(self, layer: Image | None) -> None:
        """Compare with the cube *layer*, or with none."""
        self.collection.reference = None if layer is None else weakref.ref(layer)
        self.is_error_shown &= layer is not None
        self.draw_soon()

    def toggle_errors(self) -> None:
        """Draw the errors to the reference instead of the spectra, or the spectra again."""
        self.is_error_shown = not self.is_error_shown
        self.draw_soon()

    def set_library(self, library: Sequence[Spectrum]) -> None:
        """List what in *library* the chosen spectrum is most like."""
        self.library = list(library)
        self._list_matches()

    def open_spectra(self, spectra: Sequence[Spectrum]) -> None:
        """Put *spectra* back where they were taken from; those that belong to no place here are only drawn."""
        others = placed(self.viewer, spectra)
        self.collection.loaded += others
        self._hint = f"{len(spectra) - len(others)} put back on the image, {len(others)} only drawn."
        self.draw_soon()

    def spectra(self) -> list[Spectrum]:
        """The spectra whose curves are shown, as they were measured."""
        return [s for entry in self.entries if entry.is_shown for s in entry.spectra if s is not None]

    def save_plot(self, path: str | Path) -> Path:
        """Save the plot with its legend as `.png` or `.svg`, black on white. Raises `SaveError`."""
        plot = self.plot
        plot.set_live([])
        plot.set_theme(get_theme("light"), "white")
        plot.set_cursor(None)
        plot.band.hide()
        plot.set_legend(self._keys(), is_shown=True)
        try:
            return save_picture(plot.scene(), plot.size(), path)
        finally:
            self._on_theme()

    # ------------------------------------------------------------------------------------------------- what is drawn

    def draw_soon(self) -> None:
        """Redraw everything within `INTERVAL`, however often this is called."""
        self._is_stale = True
        self._is_due = True
        if not self._timer.isActive():
            self._timer.start(INTERVAL)

    @property
    def is_drawing(self) -> bool:
        """Whether a redraw is due, or a region is being read."""
        return self._is_due or self.collection.reader.is_busy

    def _on_timer(self) -> None:
        if self._is_due:
            self.draw()

    def draw(self) -> None:
        """Redraw the live curve; and all the rest, if anything but the mouse has changed. Then rest for a while."""
        begun = time.perf_counter()
        self._is_due = False
        if self._is_stale:
            self._is_stale = False
            self._draw_all()
        self._draw_live()
        took = 1000 * (time.perf_counter() - begun)
        self._timer.start(max(INTERVAL, round(REST * took)))

    def _draw_live(self) -> None:
        live = [] if self._position is None else self.collection.live(self.viewer, self._position)
        self._refused_live = set()
        self.plot.set_live([one and self._viewed(one, self._refused_live) for one in live])
        first = next((one for one in live if one is not None), None)
        self.text.setText(self._hint if first is None else _where(first))
        self._note()

    def _note(self) -> None:
        """Say what the plot does not show."""
        left_out = self.collection.left_out.items()
        notes = [f"{name}: the first {regions.MOST_LABELS:,} of {total:,} labels are read." for name, total in left_out]
        notes += [f"Drawn as measured: {reason}" for reason in sorted(self._refused | self._refused_live)]
        self.notes.setText("\n".join(notes))
        self.notes.setVisible(bool(notes))

    def _draw_all(self) -> None:
        layer = active_cube_layer(self.viewer)
        cube = cube_of(layer)
        self._settle()
        self.entries = self.collection.gather(self.viewer)
        self._set_axes(cube)
        self._draw_band()
        self.model.set_entries(self.entries, self.menus.columns())
        if (rows := self._rows_of_points()) is not None:
            self.table.choose(rows)
        self._draw_lines()

    def _set_axes(self, cube: SpectralCube | None) -> None:
        """Axes for *cube*, else for the spectra that are from files."""
        first = next((entry.first for entry in self.entries), None)
        label = "error" if self.is_error_shown else self.view.label
        if cube is not None:
            self.plot.set_axes(cube.wavelengths, cube.unit, label or cube.quantity or "value")
        elif first is not None:
            self.plot.set_axes(first.wavelengths, first.unit, label or "value")
        self.plot.band.setVisible(cube is not None)

    def _draw_lines(self) -> None:
        chosen = set(self.table.chosen())
        lines, self._refused = list[Line](), set()
        for row, entry in enumerate(self.entries):
            drawn = self.menus.drawn(entry) if entry.is_shown else []
            is_faded = bool(chosen) and row not in chosen
            if is_faded or (not chosen and len(self.entries) > 1):
                drawn = [(_without_error(spectrum), style) for spectrum, style in drawn]
            lines += [Line(self._viewed(one, self._refused), style, row, is_faded) for one, style in drawn]
        if (match := self._match()) is not None:
            lines.append(Line(self._viewed(match, self._refused), MATCH_STYLE, -1))
        self.plot.set_lines(lines)
        self.plot.set_legend(self._keys(), self.is_legend_shown)
        self._note()

    def _keys(self) -> list[tuple[str, str, int]]:
        """What the legend says: colour, name, and number of the cube."""
        shown = [entry.first for entry in self.entries if entry.is_shown]
        layers = self.collection.cubes(self.viewer)
        cubes = [("#888888", layer.name, style) for style, layer in enumerate(layers)] if len(layers) > 1 else []
        return [*((spectrum.colour or "#888888", spectrum.name, 0) for spectrum in shown), *cubes]

    def _chosen_spectrum(self) -> Spectrum | None:
        rows = self.table.chosen()
        return self.entries[rows[0]].first if rows and rows[0] < len(self.entries) else None

    def _list_matches(self) -> None:
        """List what the chosen spectrum is most like."""
        spectrum, found = self._chosen_spectrum(), list[Match]()
        if spectrum is not None and self.library:
            with reported():
                found = best_matches(spectrum, self.library, MATCHES)
        self._found = found
        self.matches.blockSignals(True)
        self.matches.clear()
        self.matches.addItems([f"{match.angle:5.2f}\N{DEGREE SIGN}   {match.spectrum.name}" for match in found])
        self.matches.setCurrentRow(0)
        self.matches.blockSignals(False)
        self.matches.setFixedHeight(4 + max(1, len(found)) * max(self.matches.sizeHintForRow(0), 18))
        self.matches.setVisible(bool(found))
        self._draw_lines()

    def _match(self) -> Spectrum | None:
        """The match that is chosen in the list."""
        row = self.matches.currentRow()
        return replace(self._found[row].spectrum, colour="") if 0 <= row < len(self._found) else None

    def _settle(self) -> None:
        """Name what has no name."""
        points = picks.picks_layer(self.viewer)
        if points is not None:
            picks.name_all(points)
            self.history.record(points)

    def _viewed(self, spectrum: Spectrum, refused: set[str]) -> Spectrum:
        """*spectrum* as the plot shows it; as it is, if it cannot be shown so, and the reason is added to *refused*."""
        try:
            return self.view.change(spectrum, self.plot.band.value())
        except SpectrumError as error:
            refused.add(str(error))
            return spectrum

    def _draw_band(self) -> None:
        layer = active_cube_layer(self.viewer)
        cube = cube_of(layer)
        if layer is not None and cube is not None:
            self.plot.set_band(cube.wavelengths[band_of(layer, self.viewer.dims.point)])
            at = self.plot.band.value() if self._cursor is None else self._cursor
            self.model.set_wavelength(cube.wavelengths[cube.nearest_band(at)], cube.unit)
        self.plot.set_cursor(None if cube is None else self._cursor)

    # ---------------------------------------------------------------------------------------------- what is heard

    def _on_layers(self, event: Any) -> None:
        layer = self._layer_of(event)
        is_moving = event.type == "set_data" and isinstance(layer, Shapes)
        is_selecting = event.type == "highlight" and layer is picks.picks_layer(self.viewer)
        if is_moving or (is_selecting and self._rows_of_points() is not None):
            self.draw_soon()
        if event.type not in CHANGES:
            return
        if isinstance(layer, Labels):
            self.collection.changed(layer)
        points = picks.picks_layer(self.viewer)
        action = event.type == "data" and getattr(event, "action", None)
        if action == "removed" and isinstance(layer, Shapes):
            self.collection.forget_regions(layer, set(event.data_indices))
        is_added = action == "added"
        if is_added and layer is not None and not self.history.is_undoing:
            self._on_added(layer, event.data_indices)
        if event.type == "inserted":
            self.tell_apart(event.value)
        if layer is points or event.type == "inserted":
            self.history.record(points)
        self.draw_soon()

    def tell_apart(self, layer: Any) -> None:
        """Give the shapes of *layer* colours of their own."""
        if isinstance(layer, Shapes) and self.collection.has_regions:
            points = picks.picks_layer(self.viewer)
            regions.tell_apart(layer, np.empty((0, 4)) if points is None else points.face_color)

    def _on_added(self, layer: Any, added: Sequence[int]) -> None:
        if layer is picks.picks_layer(self.viewer):
            picks.tell_apart(layer, added)
            picks.name_all(layer, added)
        else:
            self.tell_apart(layer)

    def _layer_of(self, event: Any) -> Any:
        """The layer that an event of the list is about, if it is about one."""
        index = getattr(event, "index", None)
        is_one = isinstance(index, int) and 0 <= index < len(self.viewer.layers) and event.type != "removed"
        return self.viewer.layers[index] if is_one else None

    def _on_theme(self) -> None:
        self._dress()
        self.draw_soon()

    def _dress(self) -> None:
        """Take on the colours of napari."""
        theme = get_theme(self.viewer.theme)
        colours = {name: getattr(theme, name).as_hex() for name in ("primary", "secondary", "current")}
        self.setStyleSheet(STYLE.format(**colours))
        self.plot.set_theme(theme)

    def _on_step(self) -> None:
        """The slider has moved: regions of stacked labels, and what is relative to the band, are others."""
        has_pages = any(isinstance(one, Labels) and one.ndim > 2 for one in self.viewer.layers)
        if has_pages or self.view.label == "relative to the band shown":
            self.draw_soon()
        else:
            self._draw_band()

    def _on_move(self, _: ViewerModel, event: Any) -> None:
        self._position = event.position
        self._is_due = True
        if not self._timer.isActive():
            self.draw()

    def _on_press(self, viewer: ViewerModel, event: Any) -> Generator[None, None, None]:
        start, position = np.array(event.pos), event.position
        is_click = self.menus.is_picking and event.button == 1 and not event.modifiers and _pans(viewer)
        yield
        while event.type == "mouse_move":
            is_click &= bool(np.linalg.norm(np.array(event.pos) - start) <= CLICK_RADIUS)
            yield
        if is_click:
            self.pin(position)

    def _on_cursor(self, wavelength: float | None) -> None:
        self._cursor = wavelength
        self._draw_band()

    def _on_line(self, row: int) -> None:
        if row < 0:
            self.table.clearSelection()
        else:
            self.table.selectRow(row)

    def _on_selection(self) -> None:
        chosen = [self.entries[row] for row in self.table.chosen() if row < len(self.entries)]
        points = picks.picks_layer(self.viewer)
        if points is not None:
            points.selected_data = {entry.index for entry in chosen if entry.layer is points}
        self._list_matches()

    def _rows_of_points(self) -> list[int] | None:
        """The rows of the points that are selected on the image; None if the table has them selected already."""
        points, chosen = picks.picks_layer(self.viewer), set(self.table.chosen())
        if points is None:
            return None
        rows = {row for row, entry in enumerate(self.entries) if entry.layer is points}
        wanted = {row for row in rows if self.entries[row].index in points.selected_data}
        return None if wanted == chosen & rows else sorted(wanted or chosen - rows)

    def _show_row_menu(self, place: QPoint) -> None:
        chosen = [self.entries[row] for row in self.table.chosen()]
        if not chosen:
            return
        menu = QMenu(self)
        menu.addAction("Solo / show all", lambda: self.solo(chosen))
        menu.addAction("Colour ...", lambda: self._ask_colour(self.table.chosen()[0])).setEnabled(
            isinstance(chosen[0].layer, Points | Shapes)
        )
        menu.addAction("Delete", self.delete)
        menu.popup(self.table.viewport().mapToGlobal(place))

    def _ask_colour(self, row: int) -> None:
        dialog = QColorDialog(self)
        dialog.setCurrentColor(self.entries[row].first.colour)
        dialog.colorSelected.connect(lambda colour: self.recolour(row, colour.name()))
        dialog.open()

    def _go_to(self, wavelength: float) -> None:
        layer = active_cube_layer(self.viewer)
        if layer is not None:
            go_to(self.viewer, layer, wavelength)


def _pans(viewer: ViewerModel) -> bool:
    """Whether a click on the canvas is free, as no layer is being drawn on or edited."""
    active = viewer.layers.selection.active
    return active is None or active.mode == "pan_zoom"


def _without_error(spectrum: Spectrum) -> Spectrum:
    """*spectrum*, but the error band of its model."""
    return spectrum.with_values(spectrum.values) if spectrum.spread == MODEL_ERROR else spectrum


def _where(spectrum: Spectrum) -> str:
    """Where a spectrum is, for a person."""
    origin = spectrum.origin
    mean = f", mean of {origin.pixels} pixels" if origin.window > 1 else ""
    return f"row {origin.row}, column {origin.column}{mean}"
