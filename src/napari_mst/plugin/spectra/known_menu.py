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


class Questions:
    """Asks over the window of *parent*, and makes picks of *bench* known; errors are told."""

    def __init__(self, bench: Bench, parent: QWidget) -> None:
        self._bench = bench
        self._parent = parent

    def mark_grey(self, percent: float) -> None:
        """The selected picks are a grey of so many *percent*."""
        with reported():
            wavelengths = self._bench.known.cube.wavelengths
            self._bench.known.mark(self._picks(), grey(percent, wavelengths))

    def mark_other_grey(self) -> None:
        """Ask how many per cent the tile reflects."""
        percent, is_told = QInputDialog.getDouble(
            self._parent, "A grey tile", "It reflects (%):", USUAL_GREY, 0.1, 100.0, 1
        )
        if is_told:
            self.mark_grey(percent)

    def mark_from_chart(self) -> None:
        """Ask which patch of a ColorChecker the selected picks are."""
        self._mark_one_of(colour_checker)

    def mark_from_library(self) -> None:
        """Ask which spectrum of the library that is compared with they are."""
        self._mark_one_of(lambda: self._bench.library)

    def mark_from_file(self) -> None:
        """Ask for a file with a measured spectrum, or with many of them and their places."""
        path, _ = QFileDialog.getOpenFileName(self._parent, "Open known spectra", "", OPENS)
        if not path:
            return
        if self._bench.chosen:
            self._mark_one_of(lambda: read_spectra(path, as_reflectance=True))
            return
        with reported():
            self._bench.known.open(read_spectra(path, as_reflectance=True))

    def mark_from_clipboard(self) -> None:
        """The selected picks are the numbers that were copied."""
        text = QApplication.clipboard().text()
        self._mark_one_of(lambda: pasted(text, self._bench.known.cube.wavelengths))

    def mark_from_cube(self, name: str) -> None:
        """The selected picks are as on the cube of the layer *name*."""
        with reported():
            layers = self._bench.viewer.layers
            if name in layers:
                self._bench.known.mark_from(self._picks(), layers[name])

    def unmark(self) -> None:
        """Nothing is known any more of the selected picks."""
        with reported():
            self._bench.known.unmark(self._picks())

    def _picks(self) -> Sequence[Entry]:
        """The rows that are selected; the only row, if there is but one."""
        rows = self._bench.entries
        return self._bench.chosen or (rows if len(rows) == 1 else ())

    def _mark_one_of(self, load: Callable[[], Sequence[Spectrum]]) -> None:
        """Make the selected picks known as one of the spectra that *load* gives."""
        with reported():
            picks = self._picks()
            chosen = self._chosen(load(), picks)
            if chosen is not None:
                self._bench.known.mark(picks, chosen)

    def _chosen(self, spectra: Sequence[Spectrum], picks: Sequence[Entry]) -> Spectrum | None:
        """The one of *spectra* that a person chooses; None if they cancel."""
        if len(spectra) == 1 or not picks:
            return spectra[0]
        ranked = _by_likeness(spectra, picks[0])
        titles = [f"{number}. {one.name}" for number, one in enumerate(ranked, 1)]
        title, is_told = QInputDialog.getItem(
            self._parent, "Known spectrum", "The picks are:", titles, 0, False
        )
        return ranked[titles.index(title)] if is_told else None


def _by_likeness(spectra: Sequence[Spectrum], entry: Entry) -> list[Spectrum]:
    """*spectra*, those first that are most like the estimate of *entry*."""
    try:
        found: list[Any] = list(best_matches(entry.first, spectra, len(spectra)))
    except NapariMstError:
        return list(spectra)
    ranked = [match.spectrum for match in found]
    # What cannot be compared with the estimate may still be what it is.
    return [*ranked, *(one for one in spectra if one not in ranked)]


COUNTS = (1, 4, 8, 16, 24)
"""Spots that can be suggested at once."""
GREYS = (99.0, 50.0)
"""Reflectances in per cent of the usual tiles of a white and a grey reference."""

KNOWN = (
    "Say what is true at the selected picks: it corrects the cube everywhere.\n"
    "A pick that is known is a diamond. Undo (Ctrl+Z) takes it back."
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
    """Makes the buttons, and has *bench* do what is chosen; dialogs open over *parent*."""

    def __init__(self, bench: Bench, button: QToolButton, parent: QWidget) -> None:
        self._bench = bench
        self._ask = Questions(bench, parent)
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
        state = self._bench.snapshot.known
        menu = self.button.menu()
        menu.clear()
        self.fill_sources(menu)
        menu.addSeparator()
        suggest = menu.addMenu("Suggest where to measure")
        suggest.setToolTipsVisible(True)
        for count in COUNTS:
            title = "1 spot" if count == 1 else f"{count} spots"
            _add(suggest, title, SUGGEST, calling(self._suggest, count))
        menu.addSeparator()
        width = _add(menu, "Layer: width of the error band", WIDTH, self._toggle_width)
        width.setCheckable(True)
        width.setChecked(state.has_width)
        stop = _add(menu, "Stop", "Leave the cube as coarse as it is.", self._bench.known.stop)
        stop.setEnabled(state.is_busy)

    def fill_sources(self, menu: QMenu) -> None:
        """Add to *menu* all that the selected picks can be."""
        ask = self._ask
        menu.setToolTipsVisible(True)
        for percent in GREYS:
            _add(menu, f"A {percent:g} % grey", GREY, calling(ask.mark_grey, percent))
        _add(menu, "A grey of ...", GREY, ask.mark_other_grey)
        _add(menu, "From the ColorChecker ...", LIBRARY, ask.mark_from_chart)
        if self._bench.library:
            _add(menu, "From the library ...", LIBRARY, ask.mark_from_library)
        _add(menu, "From a file ...", FILE, ask.mark_from_file)
        _add(menu, "From the clipboard", PASTE, ask.mark_from_clipboard)
        for name in self._other_cubes():
            _add(menu, f"As in: {name}", CUBE, calling(ask.mark_from_cube, name))
        menu.addSeparator()
        unmark = _add(menu, "Not known", "Nothing is known of these picks.", ask.unmark)
        unmark.setEnabled(any(entry.mark is not None for entry in self._bench.chosen))

    def _other_cubes(self) -> list[str]:
        """The names of the cubes that the picks may be as on: all but the one to adapt."""
        known = self._bench.known
        layers = self._bench.viewer.layers
        return [one.name for one in layers if cube_of(one) is not None and not known.is_ours(one)]

    def _suggest(self, count: int) -> None:
        with reported():
            self._bench.known.suggest(count)

    def _set_after(self, is_after: bool) -> None:
        self._bench.known.is_after = is_after

    def _toggle_width(self) -> None:
        with reported():
            self._bench.known.show_width(not self._bench.snapshot.known.has_width)


def _add(menu: QMenu, title: str, tip: str, act: Callable[[], Any]) -> Any:
    """An action of *menu* with a tooltip."""
    action = menu.addAction(title, act)
    action.setToolTip(tip)
    return action
