"""The list of the spectra in a library that the selected one is most like."""

from collections.abc import Sequence

from qtpy.QtCore import QSignalBlocker
from qtpy.QtWidgets import QListWidget

from napari_mst.spectra.matching import Match

FRAME = 4
"""Pixels that the frame takes beside the rows."""


class MatchList(QListWidget):
    """Lists matches with their spectral angles; hidden while there are none."""

    def __init__(self) -> None:
        super().__init__()
        self.hide()

    def set_matches(self, matches: Sequence[Match]) -> None:
        """List *matches*, and select the first."""
        # A list that is filled changes its row, which nobody has chosen.
        with QSignalBlocker(self):
            self.clear()
            self.addItems([_text(match) for match in matches])
            self.setCurrentRow(0)
        self.setVisible(bool(matches))
        rows = max(1, len(matches))
        self.setFixedHeight(FRAME + rows * self.sizeHintForRow(0))

    def choose(self, row: int) -> None:
        """Select another row."""
        with QSignalBlocker(self):
            self.setCurrentRow(row)


def _text(match: Match) -> str:
    return f"{match.angle:5.2f}\N{DEGREE SIGN}   {match.spectrum.name}"
