"""The dock "Spectra": spectra under the mouse, of picks and of regions, on the cubes shown."""

from napari.components import ViewerModel
from napari.utils.notifications import show_error
from napari.utils.theme import get_theme
from qtpy.QtCore import QSize, Qt
from qtpy.QtGui import QHideEvent, QShowEvent
from qtpy.QtWidgets import QApplication, QLabel, QSizePolicy, QVBoxLayout
from superqt import QFlowLayout

from napari_mst.plugin.dock import Dock, Link
from napari_mst.plugin.jobs.composing import composer_of
from napari_mst.plugin.spectra.bench import Bench
from napari_mst.plugin.spectra.maps_bar import MapsBar
from napari_mst.plugin.spectra.match_list import MatchList
from napari_mst.plugin.spectra.menus import SpectraMenus, style_of
from napari_mst.plugin.spectra.pace import Pace
from napari_mst.plugin.spectra.picture_bars import PictureBars
from napari_mst.plugin.spectra.picture_menu import PictureMenu
from napari_mst.plugin.spectra.plot import SpectraPlot
from napari_mst.plugin.spectra.row_menu import RowMenu
from napari_mst.plugin.spectra.snapshot import HINT, Snapshot
from napari_mst.plugin.spectra.table import SCORES, SpectraModel, SpectraTable
from napari_mst.plugin.spectra.threads import start_job, start_reading
from napari_mst.plugin.viewer.canvas_mouse import CanvasMouse
from napari_mst.plugin.viewer.picks import Position

SIZE = (460, 560)
"""Pixels; the size that the dock asks for."""


class SpectraDock(Dock):
    """Forwards what a person does to `bench`, and draws what its snapshots say."""

    def __init__(self, napari_viewer: ViewerModel) -> None:
        super().__init__(napari_viewer)
        self.bench = Bench(self.viewer, start_reading, start_job)
        self.plot = SpectraPlot()
        self.model = SpectraModel()
        self.table = SpectraTable(self.model)
        self.matches = MatchList()
        self.text = QLabel(HINT)
        self.notes = QLabel(wordWrap=True)
        self.menus = SpectraMenus(self.bench, self.plot, self)
        self.picture = PictureMenu(self.viewer, self.menus.view.menu(), self)
        self.bars = PictureBars(self.viewer, self.plot)
        self.maps = MapsBar(self.bench.maps, self.plot)
        self.pace = Pace(self._update, self)
        self._row_menu = RowMenu(self.bench, self.table, self.menus.known)
        self._mouse = CanvasMouse(self._on_move, self.bench.click, self.bench.undo)
        self._drawn = Snapshot()
        self._lay_out()
        self._wire()
        self._dress()

    def _lay_out(self) -> None:
        # Buttons that do not fit side by side go to the next line.
        row = QFlowLayout()
        row.setContentsMargins(0, 0, 0, 0)
        row.setHorizontalSpacing(1)
        row.setVerticalSpacing(1)
        for button in self.menus.buttons:
            row.addWidget(button)
        # Else a long sentence would widen the dock.
        self.text.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(3, 4, 3, 4)
        layout.setSpacing(4)
        layout.addLayout(row)
        layout.addWidget(self.maps)
        layout.addWidget(self.plot, stretch=1)
        for widget in (self.text, self.notes, self.table, self.matches):
            layout.addWidget(widget)
        self.maps.hide()
        self.notes.hide()

    def _wire(self) -> None:
        bench = self.bench
        # Also while the dock is hidden: a file may be written then.
        bench.failed.connect(lambda error: show_error(str(error)))
        self.plot.band_dragged.connect(bench.go_to)
        self.plot.cursor_moved.connect(bench.point_at_wavelength)
        self.plot.line_clicked.connect(self._on_line)
        self.table.selectionModel().selectionChanged.connect(self._on_selection)
        self.table.deleted.connect(self._delete)
        self.model.renamed.connect(self._rename)
        self.model.ticked.connect(self._tick)
        self.matches.currentRowChanged.connect(bench.choose_match)
        self.menus.maps.toggled.connect(self.maps.setVisible)

    def sizeHint(self) -> QSize:
        """Qt asks for this when it lays out the docks."""
        return QSize(*SIZE)

    def links(self) -> list[Link]:
        """See `Dock`."""
        return [
            (self.bench.changed, self._draw),
            (self.bench.became_stale, self.pace.draw_soon),
            (composer_of(self.viewer).changed, self._draw_bars),
            (self.viewer.events.theme, self._dress),
        ]

    def refresh(self) -> None:
        """See `Dock`."""
        self._dress()
        self.bench.attach()

    def showEvent(self, event: QShowEvent | None) -> None:
        """Listen to the mouse as well."""
        super().showEvent(event)
        # The callbacks of the mouse are lists of napari, not emitters: `links` cannot name them.
        self._mouse.attach(self.viewer)

    def hideEvent(self, event: QHideEvent | None) -> None:
        """Let go of the mouse as well, and of everything that was read."""
        super().hideEvent(event)
        # A drawing that is still due would read everything again, perhaps of a closed viewer.
        self.pace.stop()
        self.bars.stop()
        self.bench.detach()
        # The snapshot that was drawn last holds a cube, and so do the rows of the table.
        self._drawn = Snapshot()
        self.model.set_entries([])
        # napari hides a dock also when its viewer is closed.
        viewer = self._viewer_ref()
        if viewer is not None:
            self._mouse.detach(viewer)

    @property
    def is_drawing(self) -> bool:
        """True while a redraw is due, or a cube is being read."""
        return self.pace.is_due or self.bench.is_busy

    def _update(self) -> None:
        # While a button is down, points may be on their way somewhere.
        is_dragging = QApplication.mouseButtons() != Qt.MouseButton.NoButton
        self.bench.update(is_recording=not is_dragging)

    def _draw(self, new: Snapshot) -> None:
        """Draw everything in which *new* differs from what was drawn last."""
        # Noted before anything is drawn: a menu that is checked here has the bench publish again.
        old, self._drawn = self._drawn, new
        if new.settings != old.settings:
            self.menus.show(new.settings)
        if new.known != old.known:
            self.menus.known.show(new.known)
        self._draw_table(old, new)
        self._draw_plot(old, new)
        self._draw_bars()
        self._draw_matches(old, new)
        self.text.setText(new.text)
        self.notes.setText("\n".join(new.notes))
        self.notes.setVisible(bool(new.notes))

    def _draw_table(self, old: Snapshot, new: Snapshot) -> None:
        if new.reading is not None:
            self.model.set_wavelength(*new.reading)
        has_other_rows = new.entries is not old.entries or new.has_scores != old.has_scores
        if has_other_rows:
            self.model.set_entries(new.entries, SCORES if new.has_scores else ())
        # To ask the table is slow with thousands of rows, and the mouse changes none of them.
        is_other_selection = has_other_rows or new.chosen != old.chosen
        if is_other_selection and tuple(self.table.chosen()) != new.chosen:
            self.table.choose(new.chosen)

    def _draw_plot(self, old: Snapshot, new: Snapshot) -> None:
        plot = self.plot
        if new.axes is not None and new.axes is not old.axes:
            plot.set_axes(*new.axes)
        # Also when the band is the same: the mouse may have left its line between two bands.
        plot.set_band(new.band)
        plot.set_cursor(new.cursor)
        if new.settings.value_range != old.settings.value_range:
            plot.set_value_range(new.settings.value_range)
        is_legend_shown = new.settings.is_legend_shown
        if new.curves is not old.curves:
            plot.set_lines(new.curves.lines)
        if new.curves is not old.curves or is_legend_shown != old.settings.is_legend_shown:
            plot.set_legend(new.curves.keys, is_legend_shown)
        if new.live is not old.live:
            plot.set_live(new.live.spectra)

    def _draw_bars(self) -> None:
        viewer = self._viewer_ref()
        if viewer is not None:  # it may be closed while a picture is being painted
            self.bars.draw(viewer)

    def _draw_matches(self, old: Snapshot, new: Snapshot) -> None:
        if new.matches is not old.matches:
            self.matches.set_matches(new.matches)
        if new.match_row != self.matches.currentRow():
            self.matches.choose(new.match_row)

    def _dress(self) -> None:
        """Take on the colours of napari."""
        theme = get_theme(self.viewer.theme)
        self.setStyleSheet(style_of(theme))
        self.plot.set_theme(theme)

    # ------------------------------------------------------------ forwarding

    def _on_move(self, position: Position) -> None:
        self.bench.point_at(position)
        self.pace.draw_at_once()

    def _on_line(self, row: int) -> None:
        self.bench.choose([] if row < 0 else [row])

    def _on_selection(self) -> None:
        self.bench.choose(self.table.chosen())

    def _delete(self) -> None:
        self.bench.delete(self.bench.chosen)

    def _rename(self, row: int, name: str) -> None:
        self.bench.rename(self.bench.entries[row], name)

    def _tick(self, row: int, is_shown: bool) -> None:
        self.bench.show([self.bench.entries[row]], is_shown)
