"""The menu "Known" of the spectra dock, and the switch between before and after."""

from collections.abc import Callable, Sequence
from typing import Any

from qtpy.QtWidgets import QApplication, QFileDialog, QInputDialog, QMenu, QToolButton, QWidget

from napari_mst.errors import NapariMstError
from napari_mst.plugin.dock import reported
from napari_mst.plugin.spectra.bench import Bench
from napari_mst.plugin.spectra.known.actions import grey, pasted
from napari_mst.plugin.spectra.rows import Entry
from napari_mst.plugin.spectra.snapshot import KnownState
from napari_mst.plugin.viewer.layers import cube_of
from napari_mst.plugin.viewer.slots import calling
from napari_mst.spectra.library import colour_checker, read_spectra
from napari_mst.spectra.matching import best_matches
from napari_mst.spectra.spectrum import Spectrum

OPENS = "Spectra (*.csv *.txt *.tsv *.sli *.hdr)"
USUAL_GREY = 18.0
"""Per cent: the grey card of photographers."""
COUNTS = (1, 4, 8, 16, 24)
"""Spots that can be suggested at once."""
GREYS = (99.0, 50.0)
"""Reflectances in per cent of the usual tiles of a white and a grey reference."""

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


class KnownMenu:
    """Fills *button*, asks over *parent* what is known, and has *bench* do what is chosen."""

    def __init__(self, bench: Bench, button: QToolButton, parent: QWidget) -> None:
        self._bench = bench
        self._parent = parent
        self.button = button
        self.after = QToolButton(text="Adapted", toolTip=AFTER, checkable=True)
        # "clicked" comes from a person alone; "toggled" would also answer `show`.
        self.after.clicked.connect(self._set_after)
        self.after.hide()
        # The cubes come and go, so this menu is filled each time it opens.
        self.button.menu().aboutToShow.connect(self.fill)

    def show(self, state: KnownState) -> None:
        """Draw *state*."""
        self.after.setVisible(state.has_adapted)
        self.after.setChecked(state.is_after)

    def fill(self) -> None:
        """List what can become known, and all that comes of it."""
        known = self._bench.known
        state = self._bench.snapshot.known
        menu = self.button.menu()
        menu.clear()
        self.fill_sources(menu)
        menu.addSeparator()
        suggest = menu.addMenu("Suggest where to measure")
        suggest.setToolTipsVisible(True)
        for count in COUNTS:
            title = "1 spot" if count == 1 else f"{count} spots"
            _add(suggest, title, SUGGEST, calling(self._do, known.suggest, count))
        menu.addSeparator()
        show = calling(self._do, known.show_width, not state.has_width)
        width = _add(menu, "Layer: width of the error band", WIDTH, show)
        width.setCheckable(True)
        width.setChecked(state.has_width)
        stop = _add(menu, "Stop", "Leave the cube as coarse as it is.", known.stop)
        stop.setEnabled(state.is_busy)

    def fill_sources(self, menu: QMenu) -> None:
        """Add to *menu* all that the selected picks can be."""
        known = self._bench.known
        layers = self._bench.viewer.layers
        menu.setToolTipsVisible(True)
        for percent in GREYS:
            _add(menu, f"A {percent:g} % grey", GREY, calling(self._mark_grey, percent))
        _add(menu, "A grey of ...", GREY, self._mark_other_grey)
        _add(
            menu, "From the ColorChecker ...", LIBRARY, calling(self._mark_one_of, colour_checker())
        )
        if self._bench.library:
            library = calling(self._mark_one_of, self._bench.library)
            _add(menu, "From the library ...", LIBRARY, library)
        _add(menu, "From a file ...", FILE, self._mark_from_file)
        _add(menu, "From the clipboard", PASTE, self._mark_from_clipboard)
        for layer in layers:
            # The picks may be as on any cube but the one to adapt.
            if cube_of(layer) is not None and not known.is_ours(layer):
                _add(menu, f"As in: {layer.name}", CUBE, calling(self._mark_from, layer.name))
        menu.addSeparator()
        unmark = _add(menu, "Not known", "Nothing is known of these picks.", self._unmark)
        unmark.setEnabled(any(entry.mark is not None for entry in self._bench.chosen))

    # ------------------------------------------------------------ marking

    def _mark_grey(self, percent: float) -> None:
        with reported():
            wavelengths = self._bench.known.cube.wavelengths
            self._bench.known.mark(self._picks(), grey(percent, wavelengths))

    def _mark_other_grey(self) -> None:
        percent, is_given = QInputDialog.getDouble(
            self._parent, "A grey tile", "It reflects (%):", USUAL_GREY, 0.1, 100.0, 1
        )
        if is_given:
            self._mark_grey(percent)

    def _mark_from_file(self) -> None:
        path, _ = QFileDialog.getOpenFileName(self._parent, "Open known spectra", "", OPENS)
        if not path:
            return
        with reported():
            spectra = read_spectra(path, as_reflectance=True)
            if not self._bench.chosen:
                self._bench.known.open(spectra)
                return
            self._mark_one_of(spectra)

    def _mark_from_clipboard(self) -> None:
        with reported():
            wavelengths = self._bench.known.cube.wavelengths
            self._mark_one_of(pasted(QApplication.clipboard().text(), wavelengths))

    def _mark_from(self, name: str) -> None:
        """Mark the picks as they are on the cube of the layer *name*."""
        with reported():
            layers = self._bench.viewer.layers
            if name in layers:
                self._bench.known.mark_from(self._picks(), layers[name])

    def _unmark(self) -> None:
        with reported():
            self._bench.known.unmark(self._picks())

    def _picks(self) -> Sequence[Entry]:
        """The rows that are selected; if there is only one row, that one."""
        rows = self._bench.entries
        return self._bench.chosen or (rows if len(rows) == 1 else ())

    def _mark_one_of(self, spectra: Sequence[Spectrum]) -> None:
        """Mark the picks as one of *spectra*, which a person chooses if there are several."""
        with reported():
            picks = self._picks()
            chosen = spectra[0]
            if len(spectra) > 1 and picks:
                ranked = _by_likeness(spectra, picks[0])
                titles = [f"{number}. {one.name}" for number, one in enumerate(ranked, 1)]
                title, is_given = QInputDialog.getItem(
                    self._parent, "Known spectrum", "The picks are:", titles, 0, False
                )
                if not is_given:
                    return
                chosen = ranked[titles.index(title)]
            self._bench.known.mark(picks, chosen)

    # ------------------------------------------------------------ what comes of it

    def _do(self, act: Callable[..., object], *arguments: object) -> None:
        with reported():
            act(*arguments)

    def _set_after(self, is_after: bool) -> None:
        self._bench.known.is_after = is_after


def _by_likeness(spectra: Sequence[Spectrum], entry: Entry) -> list[Spectrum]:
    """*spectra*, those first that are most like the estimate of *entry*."""
    try:
        matches: list[Any] = list(best_matches(entry.first, spectra, len(spectra)))
    except NapariMstError:
        return list(spectra)
    ranked = [match.spectrum for match in matches]
    # What cannot be compared with the estimate may still be what it is.
    return [*ranked, *(one for one in spectra if one not in ranked)]


def _add(menu: QMenu, title: str, tip: str, act: Callable[[], Any]) -> Any:
    """An action of *menu* with a tooltip."""
    action = menu.addAction(title, act)
    action.setToolTip(tip)
    return action
