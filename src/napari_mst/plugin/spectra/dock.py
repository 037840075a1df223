"""The dock "Spectra": the live spectrum under the mouse, picks and regions, of the cube layers that are shown."""

import time
import weakref
from collections.abc import Sequence

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image, Labels
from napari.utils.theme import get_theme
from qtpy.QtCore import QSize, Qt, QTimer
from qtpy.QtGui import QHideEvent, QShowEvent
from qtpy.QtWidgets import QApplication, QHBoxLayout, QLabel, QSizePolicy, QVBoxLayout

from napari_mst.cube import SpectralCube
from napari_mst.plugin.dock import Dock, Link
from napari_mst.plugin.spectra.collection import Collection
from napari_mst.plugin.spectra.drawing import Drawing, Key
from napari_mst.plugin.spectra.export import placed
from napari_mst.plugin.spectra.layer_events import LayerEvents
from napari_mst.plugin.spectra.maps_bar import MapsBar
from napari_mst.plugin.spectra.match_list import MatchList
from napari_mst.plugin.spectra.menus import SpectraMenus, style_of
from napari_mst.plugin.spectra.plot import SpectraPlot
from napari_mst.plugin.spectra.reader import RegionReader
from napari_mst.plugin.spectra.row_actions import RowActions
from napari_mst.plugin.spectra.rows import Entry
from napari_mst.plugin.spectra.table import SpectraModel, SpectraTable
from napari_mst.plugin.viewer import picks
from napari_mst.plugin.viewer.canvas_mouse import CanvasMouse
from napari_mst.plugin.viewer.layers import active_cube_layer, band_of, cube_of, go_to
from napari_mst.plugin.viewer.picks import Position
from napari_mst.spectra.spectrum import Spectrum

INTERVAL = 25
"""ms between two redraws, at least."""
REST = 3
"""Times as long as a redraw took that it then rests, where the cube is slow to read."""
MATCH_STYLE = 2
"""Dashes of the spectrum of the library that is drawn."""
SIZE = (460, 560)
"""Pixels; what the dock asks for."""
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
        self.drawing = Drawing()
        self.is_legend_shown = False
        self.entries: list[Entry] = []
        self._hint = HINT
        self._position: Position | None = None
        self._cursor: float | None = None
        self._is_stale = True
        self._is_due = False
        self._timer = QTimer(self, singleShot=True, interval=INTERVAL)
        self.menus, self.maps = SpectraMenus(self), MapsBar(self)
        self.rows, self.layers = RowActions(self), LayerEvents(self)
        self.matches = MatchList()
        self._mouse = CanvasMouse(self._on_move, self._on_click, self.undo)
        self._lay_out()
        self._wire()
        self.dress()

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
        for widget in (self.maps, self.notes):
            widget.hide()

    def _wire(self) -> None:
        self._timer.timeout.connect(self._on_timer)
        self.plot.band_dragged.connect(self._go_to)
        self.plot.cursor_moved.connect(self._on_cursor)
        self.plot.line_clicked.connect(self._on_line)
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
            (viewer.layers.events, self.layers.hear),
            *((emitter, self.draw_soon) for emitter in redraw),
            (viewer.dims.events.current_step, self._on_step),
            (viewer.events.theme, self._on_theme),
        ]

    def showEvent(self, event: QShowEvent | None) -> None:
        """Listen to the mouse as well."""
        super().showEvent(event)
        self._mouse.attach(self.viewer)

    def hideEvent(self, event: QHideEvent | None) -> None:
        """Let go of the mouse as well, and of what was read."""
        super().hideEvent(event)
        self._timer.stop()
        self._is_due = False
        self.collection.forget()
        self.entries = []
        self.model.set_entries([])
        viewer = self._viewer_ref()
        if viewer is not None:
            self._mouse.detach(viewer)

    def refresh(self) -> None:
        """See `Dock`."""
        self._on_theme()
        self.history.record(picks.picks_layer(self.viewer))
        self.draw_soon()

    # ------------------------------------------------------------------------------------------------- what is done

    def pin(self, position: Position) -> bool:
        """Pin the pixel under the world *position*; False if there is none to pin."""
        self._hint = HINT
        is_pinned = picks.pin(self.viewer, position, self.collection.window)
        self.end_action()
        return is_pinned

    def clear(self) -> None:
        """Take all picks off the image, and spectra from files off the plot."""
        points = picks.picks_layer(self.viewer)
        self.collection.unload(set(range(len(self.collection.loaded))))
        if points is not None:
            points.data = np.empty((0, points.ndim))
        self.end_action()

    def undo(self) -> None:
        """Undo the last change of the picks."""
        self.history.undo(picks.picks_layer(self.viewer))
        self.draw_soon()

    def end_action(self) -> None:
        """An action of the user is done, however many things it has changed: one step to undo."""
        self._settle()
        self.draw_soon()

    def set_reference(self, layer: Image | None) -> None:
        """Compare with the cube *layer*, or with none."""
        self.collection.reference = None if layer is None else weakref.ref(layer)
        self.drawing.is_error_shown &= layer is not None
        self.draw_soon()

    def toggle_errors(self) -> None:
        """Draw the errors to the reference instead of the spectra, or the spectra again."""
        self.drawing.is_error_shown = not self.drawing.is_error_shown
        self.draw_soon()

    def set_library(self, library: Sequence[Spectrum]) -> None:
        """List what in *library* the chosen spectrum is most like."""
        self.matches.set_library(library)
        self._list_matches()

    def open_spectra(self, spectra: Sequence[Spectrum]) -> None:
        """Put *spectra* back where they were taken from; those that belong to no place here are only drawn."""
        others = placed(self.viewer, spectra)
        self.collection.loaded += others
        self.say(f"{len(spectra) - len(others)} put back on the image, {len(others)} only drawn.")

    def say(self, text: str) -> None:
        """Write *text* under the plot, until the mouse moves over the image."""
        self._hint, self._position = text, None
        self.draw_soon()

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
        self.plot.set_live(self.drawing.live(live))
        first = next((one for one in live if one is not None), None)
        self.text.setText(self._hint if first is None else _where(first))
        self._note()

    def _note(self) -> None:
        """Say what the plot does not show."""
        notes = self.drawing.notes()
        self.notes.setText("\n".join(notes))
        self.notes.setVisible(bool(notes))

    def _draw_all(self) -> None:
        layer = active_cube_layer(self.viewer)
        cube = cube_of(layer)
        if QApplication.mouseButtons() == Qt.MouseButton.NoButton:  # else points may be on the way
            self._settle()
        self.entries = self.collection.gather(self.viewer)
        self._set_axes(cube)
        self._draw_band()
        self.model.set_entries(self.entries, self.menus.columns())
        if (rows := self.rows.of_points()) is not None:
            self.table.choose(rows)
        self._draw_lines()

    def _set_axes(self, cube: SpectralCube | None) -> None:
        """Axes for *cube*, else for the spectra that are from files."""
        first = next((entry.first for entry in self.entries), None)
        label = self.drawing.label
        if cube is not None:
            self.plot.set_axes(cube.wavelengths, cube.unit, label or cube.quantity or "value")
        elif first is not None:
            self.plot.set_axes(first.wavelengths, first.unit, label or "value")

    def _draw_lines(self) -> None:
        chosen = set(self.table.chosen())
        lines = self.drawing.lines(self.entries, self.collection.regions.groups, chosen)
        if (match := self.matches.chosen()) is not None:
            lines.append(self.drawing.line(match, MATCH_STYLE))
        self.plot.set_lines(lines)
        self.plot.set_legend(self.legend_keys(), self.is_legend_shown)
        self._note()

    def legend_keys(self) -> list[Key]:
        """What the legend says."""
        return self.drawing.keys([layer.name for layer in self.collection.cubes(self.viewer)])

    def _list_matches(self) -> None:
        """List what the chosen spectrum is most like."""
        rows = self.table.chosen()
        self.matches.list_for(
            self.entries[rows[0]].first if rows and rows[0] < len(self.entries) else None
        )
        self._draw_lines()

    def _settle(self) -> None:
        """Name what has no name, and remember what there is."""
        points = picks.picks_layer(self.viewer)
        if points is not None:
            picks.name_all(points)
            self.history.record(points)

    def _draw_band(self) -> None:
        layer = active_cube_layer(self.viewer)
        cube = cube_of(layer)
        if layer is None or cube is None:
            self.plot.set_band(None)
        else:
            self.plot.set_band(cube.wavelengths[band_of(layer, self.viewer.dims.point)])
            self.drawing.wavelength = self.plot.band.value()
            at = self.plot.band.value() if self._cursor is None else self._cursor
            self.model.set_wavelength(cube.wavelengths[cube.nearest_band(at)], cube.unit)
        self.plot.set_cursor(None if cube is None else self._cursor)

    # ---------------------------------------------------------------------------------------------- what is heard

    def _on_theme(self) -> None:
        self.dress()
        self.draw_soon()

    def dress(self) -> None:
        """Take on the colours of napari."""
        theme = get_theme(self.viewer.theme)
        self.setStyleSheet(style_of(theme))
        self.plot.set_theme(theme)

    def _on_step(self) -> None:
        """The slider has moved: regions of stacked labels, and what is relative to the band, are others."""
        has_pages = any(isinstance(one, Labels) and one.ndim > 2 for one in self.viewer.layers)
        if has_pages or self.drawing.view.is_of_band:
            self.draw_soon()
        else:
            self._draw_band()

    def _on_move(self, position: Position) -> None:
        self._position = position
        self._is_due = True
        if not self._timer.isActive():
            self.draw()

    def _on_click(self, position: Position) -> None:
        if self.menus.is_picking:
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
        chosen = self.rows.chosen()
        points = picks.picks_layer(self.viewer)
        if points is not None:
            points.selected_data = {entry.index for entry in chosen if entry.layer is points}
        self._list_matches()

    def _go_to(self, wavelength: float) -> None:
        layer = active_cube_layer(self.viewer)
        if layer is not None:
            go_to(self.viewer, layer, wavelength)


def _where(spectrum: Spectrum) -> str:
    """Where a spectrum is, for a person."""
    origin = spectrum.origin
    mean = f", mean of {origin.pixels} pixels" if origin.window > 1 else ""
    return f"row {origin.row}, column {origin.column}{mean}"
