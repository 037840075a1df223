"""The menu "Known" of the spectra dock, and the switch between before and after."""

from collections.abc import Sequence

from qtpy.QtWidgets import QApplication, QFileDialog, QInputDialog, QToolButton, QWidget

from napari_mst.errors import CubeError, NapariMstError, plain
from napari_mst.plugin.spectra.bench import Bench
from napari_mst.plugin.spectra.known import grey, pasted
from napari_mst.plugin.spectra.menus import FilledMenu, menu_button
from napari_mst.plugin.spectra.rows import Entry
from napari_mst.plugin.spectra.snapshot import KnownState
from napari_mst.plugin.viewer.layers import cube_of
from napari_mst.spectra.library import colour_checker, read_spectra
from napari_mst.spectra.matching import best_matches
from napari_mst.spectra.spectrum import Spectrum

OPENS = "Spectra (*.csv *.txt *.tsv *.sli *.hdr)"
USUAL_GREY = 99.0
"""Per cent: the usual tile of a white reference."""
USUAL_COUNT = 4
"""Spots that are suggested, unless a person wants others."""
MOST_SPOTS = 24

KNOWN = (
    "Known",
    "Say what is true at the selected picks: it corrects the cube everywhere.\n"
    "A pick that is known is a diamond. Undo (Ctrl+Z) takes it back.",
)
AFTER = "Pressed, the cube adapted to the known spectra is shown; otherwise the cube before."
GREY = "The pixels around the pick are a matt tile that reflects so much of the light everywhere."
LIBRARY = "Choose the measured spectrum of the material from a list, the most alike first."
FILE = (
    "A measured spectrum (.csv, .txt, .sli). With no pick selected, every spectrum of a file with "
    "rows and columns is put where it was measured."
)
PASTE = "One value for each band, or lines of a wavelength in nm and a value."
CUBE = "The spectra of a cube that is right, such as a measured one of the same view."
SUGGEST = "Puts numbered picks where a measurement helps most; dark and clipped pixels are avoided."
WIDTH = (
    "How wide the 90 % error band is, over the mean of the spectrum: measure where it is bright."
)


NO_PICK = "Click on the image where you know the true spectrum, or select rows of picks."


class KnownMenu:
    """Asks over *parent* what is known, and has *bench* do what is chosen."""

    def __init__(self, bench: Bench, parent: QWidget) -> None:
        self._bench = bench
        self._parent = parent
        self.button = menu_button(bench, KNOWN, self._fill)
        self.after = QToolButton(text="Adapted", toolTip=AFTER, checkable=True)
        # "clicked" comes from a person alone; "toggled" would also answer `show`.
        self.after.clicked.connect(self._set_after)
        self.after.hide()

    def show(self, state: KnownState) -> None:
        """Draw *state*."""
        self.after.setVisible(state.has_adapted)
        self.after.setChecked(state.is_after)

    def _fill(self, menu: FilledMenu) -> None:
        """List all that the selected picks can be, and what comes of it."""
        known = self._bench.known
        state = self._bench.snapshot.known
        no_cube = self._lacks_cube()
        lacks = no_cube or ("" if self._picks() else NO_PICK)
        menu.entry("A grey ...", self._mark_grey, tip=GREY, lacks=lacks)
        chart = colour_checker()
        menu.entry("From the ColorChecker ...", self._mark_one_of, chart, tip=LIBRARY, lacks=lacks)
        library = self._bench.library
        if library:
            menu.entry("From the library ...", self._mark_one_of, library, tip=LIBRARY, lacks=lacks)
        menu.entry("From a file ...", self._mark_from_file, tip=FILE, lacks=no_cube)
        menu.entry("From the clipboard", self._mark_from_clipboard, tip=PASTE, lacks=lacks)
        for layer in self._bench.viewer.layers:
            # The picks may be as on any cube except the one to adapt.
            if cube_of(layer) is not None and not known.is_ours(layer):
                title = f"As in: {layer.name}"
                menu.entry(title, self._mark_from, layer.name, tip=CUBE, lacks=lacks)
        is_any_known = any(entry.mark is not None for entry in self._picks())
        menu.entry(
            "Not known", self._unmark, lacks="" if is_any_known else "No selected pick is known."
        )
        menu.addSeparator()
        menu.entry("Suggest where to measure ...", self._suggest, tip=SUGGEST, lacks=no_cube)
        menu.entry(
            "Layer: width of the error band",
            known.show_width,
            not state.has_width,
            tip=WIDTH,
            is_on=state.has_width,
            lacks=no_cube,
        )
        if state.is_busy:
            menu.entry("Stop", known.stop, tip="Leave the cube as coarse as it is.")

    def _lacks_cube(self) -> str:
        try:
            _ = self._bench.known.cube
        except CubeError as error:
            return plain(error)
        return ""

    # ------------------------------------------------------------ marking

    def _mark_grey(self) -> None:
        percent, is_given = QInputDialog.getDouble(
            self._parent, "A grey tile", "It reflects (%):", USUAL_GREY, 0.1, 100.0, 1
        )
        if is_given:
            known = self._bench.known
            known.mark(self._picks(), grey(percent, known.cube.wavelengths))

    def _mark_from_file(self) -> None:
        path, _ = QFileDialog.getOpenFileName(self._parent, "Open known spectra", "", OPENS)
        if not path:
            return
        spectra = read_spectra(path, as_reflectance=True)
        if self._bench.chosen:
            self._mark_one_of(spectra)
        else:
            self._bench.known.open(spectra)

    def _mark_from_clipboard(self) -> None:
        wavelengths = self._bench.known.cube.wavelengths
        self._mark_one_of(pasted(QApplication.clipboard().text(), wavelengths))

    def _mark_from(self, name: str) -> None:
        """Mark the picks as they are on the cube of the layer *name*."""
        layers = self._bench.viewer.layers
        if name in layers:
            self._bench.known.mark_from(self._picks(), layers[name])

    def _unmark(self) -> None:
        self._bench.known.unmark(self._picks())

    def _picks(self) -> Sequence[Entry]:
        """Return the rows that are selected; if there is only one row, that one."""
        rows = self._bench.entries
        return self._bench.chosen or (rows if len(rows) == 1 else ())

    def _mark_one_of(self, spectra: Sequence[Spectrum]) -> None:
        """Mark the picks as one of *spectra*, which a person chooses if there are several."""
        picks = self._picks()
        chosen = spectra[0]
        if len(spectra) > 1 and picks:
            ranked = _by_likeness(spectra, picks[0])
            titles = [f"{number}. {spectrum.name}" for number, spectrum in enumerate(ranked, 1)]
            title, is_given = QInputDialog.getItem(
                self._parent, "Known spectrum", "The picks are:", titles, 0, False
            )
            if not is_given:
                return
            chosen = ranked[titles.index(title)]
        self._bench.known.mark(picks, chosen)

    # ------------------------------------------------------------ what comes of it

    def _suggest(self) -> None:
        count, is_given = QInputDialog.getInt(
            self._parent, "Where to measure", "Spots:", USUAL_COUNT, 1, MOST_SPOTS
        )
        if is_given:
            self._bench.known.suggest(count)

    def _set_after(self, is_after: bool) -> None:
        self._bench.known.is_after = is_after


def _by_likeness(spectra: Sequence[Spectrum], entry: Entry) -> list[Spectrum]:
    """*spectra*, those first that are most like the estimate of *entry*."""
    try:
        matches = best_matches(entry.first, spectra, len(spectra))
    except NapariMstError:
        return list(spectra)
    ranked = [match.spectrum for match in matches]
    # What cannot be compared with the estimate may still be what it is.
    return [*ranked, *(spectrum for spectrum in spectra if spectrum not in ranked)]
