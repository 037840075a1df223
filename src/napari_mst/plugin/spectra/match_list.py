"""The list of what in a library a spectrum is most like."""

from collections.abc import Sequence
from dataclasses import replace

from qtpy.QtCore import QSignalBlocker
from qtpy.QtWidgets import QListWidget

from napari_mst.plugin.dock import reported
from napari_mst.spectra.matching import Match, best_matches
from napari_mst.spectra.spectrum import Spectrum

MATCHES = 5
"""How many are listed."""


class MatchList(QListWidget):
    """Lists the best matches of a spectrum with their angles; hidden while there are none."""

    def __init__(self) -> None:
        super().__init__()
        self.library: list[Spectrum] = []
        self._found: list[Match] = []
        self.hide()

    def list_for(self, spectrum: Spectrum | None) -> None:
        """List what *spectrum* is most like."""
        self._found = []
        if spectrum is not None and self.library:
            with reported():
                self._found = best_matches(spectrum, self.library, MATCHES)
        with QSignalBlocker(self):
            self.clear()
            self.addItems(
                [
                    f"{match.angle:5.2f}\N{DEGREE SIGN}   {match.spectrum.name}"
                    for match in self._found
                ]
            )
            self.setCurrentRow(0)
        self.setVisible(bool(self._found))
        self.setFixedHeight(4 + max(1, len(self._found)) * self.sizeHintForRow(0))

    def chosen(self) -> Spectrum | None:
        """The match that is selected in the list, without a colour."""
        row = self.currentRow()
        return (
            replace(self._found[row].spectrum, colour="") if 0 <= row < len(self._found) else None
        )

    def set_library(self, library: Sequence[Spectrum]) -> None:
        """Look for matches in *library* from now on."""
        self.library = list(library)
