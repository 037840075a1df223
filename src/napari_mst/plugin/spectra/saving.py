"""Hands the spectra that are shown to a file or to the clipboard."""

from collections.abc import Callable, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

from napari_mst.plugin.spectra.rows import Entry
from napari_mst.plugin.spectra.work import Start, Work
from napari_mst.spectra.library import write_spectra
from napari_mst.spectra.spectrum import Spectrum
from napari_mst.watch import Watch

Use = Callable[[list[Spectrum]], Any]
"""Does something with spectra; thousands take seconds: a dock has it called on a thread."""


class Saver:
    """Has spectra used: *say* is called with what was done, *on_failed* with what went wrong."""

    def __init__(
        self, start: Start, say: Callable[[str], None], on_failed: Callable[[Exception], Any]
    ) -> None:
        self._start = start
        self._say = say
        self._on_failed = on_failed
        # A count, as one save may begin before another has ended.
        self._running = 0

    @property
    def is_busy(self) -> bool:
        """True while spectra are being written."""
        return self._running > 0

    def save(self, entries: Sequence[Entry], path: str | PathLike[str]) -> None:
        """Write the spectra of *entries* to `.csv` or `.sli`, as they were measured."""
        name = Path(path).name
        self.use(
            entries, partial(_write, path), lambda count: f"{count:,} spectra saved as {name}."
        )

    def use(self, entries: Sequence[Entry], use: Use, said: Callable[[Any], str]) -> None:
        """Have *use* called with the spectra of *entries*; *said* words its result."""
        # The slot must not hold the entries: some workers outlive their work, and keep their slots.
        say = self._say
        self._running += 1
        work = Work(
            run=partial(_used, use, entries),
            on_done=lambda result: say(said(result)),
            on_failed=self._on_failed,
            on_end=self._on_end,
        )
        self._start(work)

    def _on_end(self) -> None:
        self._running -= 1


def spectra_of(entries: Sequence[Entry]) -> list[Spectrum]:
    """The spectra of *entries* as they were measured; may be called on any thread."""
    return [spectrum for entry in entries for spectrum in entry.spectra if spectrum is not None]


def _used(use: Use, entries: Sequence[Entry], _: Watch) -> Any:
    return use(spectra_of(entries))


def _write(path: str | PathLike[str], spectra: list[Spectrum]) -> int:
    write_spectra(path, spectra, overwrite=True)
    return len(spectra)
