"""The library of spectra that the selected one is matched with."""

from collections.abc import Callable, Sequence
from typing import Any

from napari_mst.errors import NapariMstError
from napari_mst.plugin.spectra.rows import Entry
from napari_mst.spectra.matching import Match, best_matches
from napari_mst.spectra.spectrum import Spectrum

MATCHES = 5
"""Spectra of a library that are listed."""


class Library:
    """Spectra of a library; *on_failed* hears why a spectrum cannot be matched with them."""

    def __init__(self, on_failed: Callable[[Exception], Any]) -> None:
        self.spectra: list[Spectrum] = []
        self._on_failed = on_failed

    def matches(self, chosen: Sequence[Entry]) -> tuple[Match, ...]:
        """Its spectra that are most like the first of the *chosen* rows, the best first."""
        if not chosen or not self.spectra:
            return ()
        try:
            return tuple(best_matches(chosen[0].first, self.spectra, MATCHES))
        except NapariMstError as error:
            self._on_failed(error)
            return ()
