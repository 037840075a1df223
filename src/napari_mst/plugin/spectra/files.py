"""The menu Save of the spectra dock: spectra and plot to files and to the clipboard, and spectra from files."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from napari.qt.threading import create_worker
from napari.utils.notifications import show_error
from napari.utils.theme import get_theme
from qtpy.QtWidgets import QApplication, QFileDialog, QMenu

from napari_mst.plugin.dock import reported
from napari_mst.plugin.files.saving import ask_to_save
from napari_mst.plugin.jobs.request import Reports
from napari_mst.plugin.jobs.worker import JobWorker
from napari_mst.plugin.spectra.export import save_picture
from napari_mst.spectra.library import read_spectra, spectra_text, write_spectra
from napari_mst.spectra.spectrum import Spectrum

if TYPE_CHECKING:
    from napari_mst.plugin.spectra.dock import SpectraDock
    from napari_mst.plugin.spectra.rows import Entry

SAVES = "Table (*.csv);;ENVI spectral library (*.sli)"
OPENS = "Spectra (*.csv *.txt *.sli *.hdr)"
PICTURES = "PNG picture (*.png);;SVG drawing (*.svg)"

Keep = Callable[[list[Spectrum]], Any]


def spectra_of(entries: "Sequence[Entry]") -> list[Spectrum]:
    """The spectra of *entries*, as they were measured; may be called on any thread."""
    return [spectrum for entry in entries for spectrum in entry.spectra if spectrum is not None]


class SpectraFiles:
    """Keeps what *dock* shows. Thousands of spectra take seconds, so they are written on another thread."""

    def __init__(self, dock: "SpectraDock", menu: QMenu) -> None:
        self._dock = dock
        self._workers = set[JobWorker]()
        for title, slot in (
            ("Save cube ...", self.save_cube),
            ("Save spectra ...", self.save_spectra),
            ("Open spectra ...", self.open_spectra),
            ("Copy spectra", self.copy_spectra),
            ("Save plot ...", self.save_plot),
            ("Copy plot", self.copy_plot),
        ):
            menu.addAction(title, slot)

    @property
    def is_busy(self) -> bool:
        """Whether something is being written."""
        return bool(self._workers)

    def save_cube(self) -> None:
        """Ask for a file, and save the cube that is shown, with its wavelengths, its history and the picks."""
        ask_to_save(self._dock.viewer)

    def save_spectra(self) -> None:
        """Ask for a file, and save the spectra whose curves are shown."""
        path, _ = QFileDialog.getSaveFileName(self._dock, "Save spectra", "spectra.csv", SAVES)
        if path:
            self._keep(
                partial(_write, path),
                lambda count: f"{count:,} spectra saved as {Path(path).name}.",
            )

    def open_spectra(self) -> None:
        """Ask for a file; its spectra become picks and regions again where they belong to the cube."""
        path, _ = QFileDialog.getOpenFileName(self._dock, "Open spectra", "", OPENS)
        if path:
            with reported():
                self._dock.open_spectra(read_spectra(path))

    def copy_spectra(self) -> None:
        """Put the spectra on the clipboard, as a table."""
        self._keep(spectra_text, _copied)

    def save_plot(self) -> None:
        """Ask for a file, and save the plot with its legend."""
        path, _ = QFileDialog.getSaveFileName(self._dock, "Save plot", "spectra.png", PICTURES)
        if path:
            with reported():
                self.save_plot_as(path)

    def save_plot_as(self, path: str | Path) -> Path:
        """Save the plot with its legend as `.png` or `.svg`, black on white. Raises `SaveError`."""
        plot = self._dock.plot
        plot.set_live([])
        plot.set_theme(get_theme("light"), "white")
        plot.set_cursor(None)
        plot.band.hide()
        plot.set_legend(self._dock.legend_keys(), is_shown=True)
        try:
            return save_picture(plot.scene(), plot.size(), path)
        finally:
            self._dock.dress()
            self._dock.draw_soon()

    def copy_plot(self) -> None:
        """Put a picture of the plot on the clipboard."""
        QApplication.clipboard().setPixmap(self._dock.plot.grab())

    def _keep(self, keep: Keep, done: Callable[[Any], str]) -> None:
        """Have *keep* called with the spectra that are shown; *done* gets what it gives, and says what was done."""
        shown = [entry for entry in self._dock.entries if entry.is_shown]
        worker = create_worker(_kept, (keep, shown), _worker_class=JobWorker, _ignore_errors=True)
        self._workers.add(worker)
        worker.returned.connect(lambda result: self._dock.say(done(result)))
        worker.reports.failed.connect(lambda error: show_error(str(error)))
        worker.finished.connect(lambda: self._workers.discard(worker))
        worker.start()


def _kept(order: "tuple[Keep, Sequence[Entry]]", _: Reports) -> Any:
    keep, entries = order
    return keep(spectra_of(entries))


def _write(path: str, spectra: list[Spectrum]) -> int:
    write_spectra(path, spectra, overwrite=True)
    return len(spectra)


def _copied(text: str) -> str:
    QApplication.clipboard().setText(text)
    return "Copied as a table."
