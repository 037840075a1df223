"""The dock "Spectra": spectra under the mouse, of picks and of regions; and the menu "Known"."""

from collections.abc import Sequence
from functools import partial
from operator import attrgetter

from napari.components import ViewerModel
from napari.layers import Image
from napari.utils.theme import Theme
from qtpy.QtCore import QPoint, QSignalBlocker, QSize
from qtpy.QtGui import QColor
from qtpy.QtWidgets import (
    QApplication,
    QColorDialog,
    QInputDialog,
    QListWidget,
    QToolButton,
    QWidget,
)
from superqt import QFlowLayout

from napari_mst.analysis.classification import best_matches
from napari_mst.analysis.library import colour_checker
from napari_mst.base.errors import NapariMstError, refusal
from napari_mst.cube.pictures import best_bands, has_colour
from napari_mst.cube.spectrum import Spectrum
from napari_mst.plugin.dock import Link
from napari_mst.plugin.pictures.composing import Composer, Wavelengths
from napari_mst.plugin.spectra.marking import grey, pasted
from napari_mst.plugin.spectra.menus import (
    FilledMenu,
    SpectraMenus,
    ask_spectra,
    menu_button,
    style_of,
)
from napari_mst.plugin.spectra.model_dock import ModelDock
from napari_mst.plugin.spectra.resolve import Marker, ReferenceState, Snapshot
from napari_mst.plugin.spectra.rows import Entry
from napari_mst.plugin.spectra.spectra_model import SpectraModel
from napari_mst.plugin.spectra.spectra_table import SpectraTable, SpectraTableModel
from napari_mst.plugin.viewer.layers import active_cube_layer, cube_at, cube_of, is_picture_shown
from napari_mst.plugin.viewer.widgets import Paragraph
from napari_mst.references.refining import check_cube

USUAL_GREY = 99.0
"""Per cent: the usual tile of a white reference."""
USUAL_COUNT = 4
"""Default number of spots to suggest."""
MOST_SPOTS = 24

KNOWN = (
    "Known",
    "Say what is true at the selected picks: it corrects the cube everywhere.\n"
    "A pick that is known is a diamond. Undo (Ctrl+Z) takes it back.",
)
AFTER = "Pressed, the cube refined to the reference spectra is shown; otherwise the cube before."
GREY = "The pixels around the pick are a matt tile that reflects so much of the light everywhere."
LIBRARY = "Choose the measured spectrum of the material from a list, the most alike first."
FILE = (
    "A measured spectrum (.csv, .txt, .sli). With no pick selected, every spectrum of a file with "
    "rows and columns is put where it was measured."
)
PASTE = "One value for each band, or lines of a wavelength in nm and a value."
CUBE = "The spectra of a cube that is right, such as a measured one of the same view."
INSIST = "Correct the cube by the reference spectra of the selected picks as they are, unchecked."
SUGGEST = "Puts numbered picks where a measurement helps most; dark and clipped pixels are avoided."
WIDTH = (
    "How wide the 90 % prediction interval is, over the mean of the spectrum: measure where it "
    "is bright."
)

BUSY = "Wait for what is being computed, or stop it."
NO_PICK = "Click on the image where you know the true spectrum, or select rows of picks."


class ReferenceMenu:
    """Asks for reference spectra, in dialogs over *parent*, and passes them to *model*."""

    def __init__(self, model: SpectraModel, parent: QWidget) -> None:
        self._model = model
        self._parent = parent
        self.button = menu_button(model, KNOWN, self._fill)
        self.after = QToolButton(text="Refined", toolTip=AFTER, checkable=True)
        # Only a user causes "clicked"; "toggled" would also answer `show`.
        self.after.clicked.connect(model.references.show_after)
        self.after.hide()

    def show(self, state: ReferenceState) -> None:
        """Draw *state*."""
        self.after.setVisible(state.has_refined)
        self.after.setChecked(state.is_after)

    def _fill(self, menu: FilledMenu) -> None:
        """List what the selected picks can be marked as, and the actions on the result."""
        references = self._model.references
        state = self._model.snapshot.references
        no_cube = refusal(attrgetter("cube"), references)
        lacks = no_cube or ("" if self._picks() else NO_PICK)
        menu.entry("A grey ...", self._mark_grey, GREY, lacks=lacks)
        chart, library = colour_checker(), self._model.library
        mark_one = self._mark_one_of
        menu.entry("From the ColorChecker ...", lambda: mark_one(chart), LIBRARY, lacks=lacks)
        if library:
            menu.entry("From the library ...", lambda: mark_one(library), LIBRARY, lacks=lacks)
        menu.entry("From a file ...", self._mark_from_file, FILE, lacks=no_cube)
        menu.entry("From the clipboard", self._mark_from_clipboard, PASTE, lacks=lacks)
        for layer in self._model.viewer.layers:
            # Any cube except the cube to refine may hold the true spectra of the picks.
            cube = cube_of(layer)
            if cube is not None and not references.is_ours(layer):
                mark = partial(references.mark, self._picks(), layer)
                unfit = lacks or refusal(check_cube, cube)
                menu.entry(f"As in: {layer.name}", mark, CUBE, lacks=unfit)
        is_any_known = any(entry.mark is not None for entry in self._picks())
        no_mark = "" if is_any_known else "No selected pick is known."
        menu.entry("Not known", partial(references.unmark, self._picks()), lacks=no_mark)
        if state.doubts:
            insist = partial(references.insist, self._picks())
            menu.entry("Use it nevertheless", insist, INSIST, lacks=no_mark)
        menu.addSeparator()
        menu.entry("Suggest where to measure ...", self._suggest, SUGGEST, lacks=no_cube)
        too_early = no_cube or (BUSY if state.is_busy else "")
        menu.entry(
            "Layer: width of the prediction interval", references.show_width, WIDTH, lacks=too_early
        )
        if state.is_busy:
            menu.entry("Stop", references.stop, "Leave the cube as coarse as it is.")

    # ------------------------------------------------------------ marking

    def _mark_grey(self) -> None:
        percent, is_given = QInputDialog.getDouble(
            self._parent, "A grey tile", "It reflects (%):", USUAL_GREY, 0.1, 100.0, 1
        )
        if is_given:
            references = self._model.references
            references.mark(self._picks(), grey(percent, references.cube.wavelengths))

    def _mark_from_file(self) -> None:
        use = self._mark_one_of if self._model.chosen else self._model.references.open
        ask_spectra(self._parent, "Open reference spectra", use, as_reflectance=True)

    def _mark_from_clipboard(self) -> None:
        wavelengths = self._model.references.cube.wavelengths
        self._mark_one_of(pasted(QApplication.clipboard().text(), wavelengths))

    def _picks(self) -> Sequence[Entry]:
        """Return the selected rows, or the only row of the table."""
        rows = self._model.entries
        return self._model.chosen or (rows if len(rows) == 1 else ())

    def _mark_one_of(self, spectra: Sequence[Spectrum]) -> None:
        """Mark the picks as one of *spectra*; if there are several, the user chooses."""
        picks = self._picks()
        chosen = spectra[0]
        if len(spectra) > 1 and picks:
            ranked = _by_likeness(spectra, picks[0])
            titles = [f"{number}. {spectrum.name}" for number, spectrum in enumerate(ranked, 1)]
            title, is_given = QInputDialog.getItem(
                self._parent, "Reference spectrum", "The picks are:", titles, 0, False
            )
            if not is_given:
                return
            chosen = ranked[titles.index(title)]
        self._model.references.mark(picks, chosen)

    # ------------------------------------------------------------ suggestions

    def _suggest(self) -> None:
        count, is_given = QInputDialog.getInt(
            self._parent, "Where to measure", "Spots:", USUAL_COUNT, 1, MOST_SPOTS
        )
        if is_given:
            self._model.references.suggest(count)


def _by_likeness(spectra: Sequence[Spectrum], entry: Entry) -> list[Spectrum]:
    """Return *spectra*, the most similar to the estimate of *entry* first."""
    try:
        matches = best_matches(entry.first, spectra, len(spectra))
    except NapariMstError:
        return list(spectra)
    ranked = [match.spectrum for match in matches]
    # A spectrum that cannot be compared with the estimate may still be the true one.
    return [*ranked, *(spectrum for spectrum in spectra if spectrum not in ranked)]


SIZE = (460, 560)
"""Pixels; the size that the dock asks for."""
FRAME = 4
"""Pixels that the frame of a list takes beside the rows."""
NAMES = ("R", "G", "B")
TINTS = ("#e6194b", "#3cb44b", "#4d8fea")
OF_THE_EYE = (640.0, 540.0, 460.0)
"""nm; first places of the handles on a picture in the colours that an eye sees."""
FEWEST = 3
"""Least number of bands that leaves a choice."""


class SpectraDock(ModelDock):
    """Forwards user actions to `model`, and draws its snapshots."""

    def __init__(self, napari_viewer: ViewerModel) -> None:
        super().__init__(napari_viewer)
        self.table_model = SpectraTableModel(self.model)
        self.table = SpectraTable(self.model, self.table_model)
        self._row_menu = FilledMenu(self.model, self._fill_row_menu, self.table)
        self.matches = QListWidget()
        self.text = Paragraph()
        self.menus = SpectraMenus(self.model, self.plot, self)
        self.references = ReferenceMenu(self.model, self)
        self._composer = Composer.of(self.viewer)
        # Buttons that do not fit side by side go to the next line.
        row = QFlowLayout()
        row.setContentsMargins(0, 0, 0, 0)
        row.setHorizontalSpacing(1)
        row.setVerticalSpacing(1)
        menus, references = self.menus, self.references
        choices = (menus.pick, menus.regions, menus.view, menus.compare)
        for button in (*choices, references.button, references.after, menus.save):
            row.addWidget(button)
        self.stack(row, self.plot, self.problem, self.text, self.table, self.matches)
        self.matches.hide()
        self.table.customContextMenuRequested.connect(self._show_row_menu)
        self.matches.currentRowChanged.connect(self.model.choose_match)
        self.plot.handle_dragged.connect(self._on_handle_dragged)
        self.plot.handle_dropped.connect(self._on_handle_dropped)

    def sizeHint(self) -> QSize:
        """Qt asks for this when it lays out the docks."""
        return QSize(*SIZE)

    def links(self) -> list[Link]:
        """See `Dock`."""
        return [*super().links(), (self._composer.changed, self._draw_handles)]

    def release(self) -> None:
        """See `Dock`."""
        super().release()
        self.table_model.show(Snapshot())
        # Their entries hold layers.
        for menu in self.findChildren(FilledMenu):
            menu.clear()

    def _draw_rows(self, new: Snapshot) -> None:
        self.menus.show(new.settings)
        self.references.show(new.references)
        self.table.show_rows(new)
        self._draw_handles()
        self._draw_matches(new)
        self.text.setText("\n".join([new.text, *new.notes]))

    def _draw_handles(self) -> None:
        """Draw handles at the three bands of the cube's picture, while the picture is shown."""
        viewer = self._viewer_ref()
        if viewer is None:  # closed while a picture was being painted
            return
        layer = active_cube_layer(viewer)
        if layer is None or len(layer.data) < FEWEST or not is_picture_shown(viewer, layer):
            self.plot.set_handles(())
        else:
            handles = zip(NAMES, TINTS, self._picture_bands(layer), strict=True)
            self.plot.set_handles([Marker(*handle) for handle in handles])

    def _picture_bands(self, layer: Image) -> Wavelengths:
        cube = cube_at(layer)
        chosen = self._composer.colours(layer).wavelengths
        if chosen or has_colour(cube):
            return chosen or OF_THE_EYE
        red, green, blue = cube.wavelengths[list(best_bands(cube))].tolist()
        return red, green, blue

    def _draw_matches(self, new: Snapshot) -> None:
        matches = self.matches
        texts = [f"{one.angle:5.2f}\N{DEGREE SIGN}   {one.spectrum.name}" for one in new.matches]
        # Filling a list changes its current row, which is not a choice of the user.
        with QSignalBlocker(matches):
            if texts != [matches.item(row).text() for row in range(matches.count())]:
                matches.clear()
                matches.addItems(texts)
                matches.setVisible(bool(texts))
                matches.setFixedHeight(FRAME + max(1, len(texts)) * matches.sizeHintForRow(0))
            matches.setCurrentRow(new.match_row)

    def set_theme(self, theme: Theme) -> None:
        """See `Dock`."""
        super().set_theme(theme)
        self.setStyleSheet(style_of(theme))

    # ------------------------------------------------------------ forwarding

    def _on_handle_dragged(self, number: int, wavelength: float) -> None:
        """Repaint the picture coarsely; it is painted in full once the handle is dropped."""
        layer = active_cube_layer(self.viewer)
        if layer is not None:
            every = cube_at(layer).wavelengths
            places = list(self._picture_bands(layer))
            places[number] = min(max(wavelength, float(every.min())), float(every.max()))
            red, green, blue = places
            self._composer.drag(layer, (red, green, blue))

    def _on_handle_dropped(self) -> None:
        layer = active_cube_layer(self.viewer)
        if layer is not None:
            with self.model.reported():
                self._composer.show(layer, self._composer.colours(layer))

    def _show_row_menu(self, place: QPoint) -> None:
        if self.model.chosen:
            self._row_menu.popup(self.table.viewport().mapToGlobal(place))

    def _fill_row_menu(self, menu: FilledMenu) -> None:
        """List the actions on the selected rows."""
        is_fixed = all(entry.rows.are_pixels for entry in self.model.chosen)
        lacks = "Labels are pixels of an image, in the colours of their layer." * is_fixed
        menu.entry("Colour ...", self._ask_colour, lacks=lacks)
        menu.entry("Delete", partial(self.model.delete, self.model.chosen), lacks=lacks)

    def _ask_colour(self) -> None:
        entry = next(entry for entry in self.model.chosen if not entry.rows.are_pixels)
        colour = QColorDialog.getColor(QColor(entry.first.colour), self)
        if colour.isValid():
            self.model.recolour(entry, colour.name())
