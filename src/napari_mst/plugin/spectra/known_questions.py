"""The questions of the menu "Known": which grey, which spectrum, which file."""

from collections.abc import Callable, Sequence
from typing import Any

from qtpy.QtWidgets import QApplication, QFileDialog, QInputDialog, QWidget

from napari_mst.errors import NapariMstError
from napari_mst.plugin.dock import reported
from napari_mst.plugin.spectra.bench import Bench
from napari_mst.plugin.spectra.known.sources import grey, pasted
from napari_mst.plugin.spectra.rows import Entry
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
            self._mark_one_of(lambda: read_spectra(path))
            return
        with reported():
            self._bench.known.open(read_spectra(path))

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
