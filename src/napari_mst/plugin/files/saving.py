"""Saves a cube layer while the window stays alive: with wavelengths, history and picks.

A save runs on another thread, shows how far it is, and can be cancelled; until its last moment the
files that were there before are intact. napari's own dialog waits for a save that goes through one
of our writers. It then waits in an event loop, so that the window goes on living.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

from napari import current_viewer
from napari.components import ViewerModel
from napari.layers import Image
from napari.utils.history import get_save_history, update_save_history
from napari.utils.notifications import show_error, show_info
from qtpy.QtCore import QEventLoop, QObject, Qt, QThreadPool, Signal
from qtpy.QtWidgets import QApplication, QFileDialog, QMessageBox, QProgressDialog

from napari_mst.cube import SpectralCube
from napari_mst.errors import Cancelled, NapariMstError, SaveError
from napari_mst.formats import FORMATS, Format, check_target, write_cube
from napari_mst.messages import shown
from napari_mst.plugin.files import questions
from napari_mst.plugin.files.saved_cube import cube_to_save
from napari_mst.plugin.jobs.job import Job, Reports
from napari_mst.plugin.jobs.worker import start
from napari_mst.plugin.viewer.layers import active_cube_layer, cube_of

TITLE = "Save cube"
PATIENCE = 500
"""Milliseconds after which a save shows how far it is."""
STEPS = 1000
"""Steps of the progress bar."""
POLL = 50
"""Milliseconds between two looks at a save, in an application that is about to end."""
NOT_IN_NAMES = frozenset('/\\:*?"<>|')
"""Letters that a file name cannot have on some system."""
WRITABLE = tuple(form for form in FORMATS if form.suffixes)
SUFFIXES = {suffix: form for form in WRITABLE for suffix in form.suffixes}


@dataclass(frozen=True, eq=False)
class SaveOrder:
    """A cube to be written to a file, which may be replaced only if the user has said so."""

    cube: SpectralCube
    path: Path
    may_replace: bool


def save_cube() -> None:
    """Ask for a file, and save the cube that is shown: a command of napari's menus."""
    viewer = current_viewer()
    if viewer is not None:
        ask_to_save(viewer)


def ask_to_save(
    viewer: ViewerModel, layer: Image | None = None, suggested: Path | None = None
) -> "Save | None":
    """Ask for a file, and begin to save the cube of *layer*, or of the one selected or shown.

    The dialog begins at the *suggested* file. None if there is no cube, or the user cancels.
    """
    try:
        order = _ask(layer or layer_to_save(viewer), suggested)
    except Cancelled:
        return None
    except NapariMstError as error:
        show_error(str(error))
        return None
    if order is None:
        return None
    update_save_history(str(order.path))
    # `Save.running` keeps it until it has ended, even if the caller drops it.
    save = Save(order)
    save.ended.connect(save.tell)
    return save


def _ask(layer: Image, suggested: Path | None) -> SaveOrder | None:
    """Ask all that has to be known to save *layer*; None if the user cancels a dialog of files.

    Raises
    ------
    SaveError
        If the layer or the file cannot be used.
    Cancelled
        If the user cancels the question for wavelengths.
    """
    data, attributes, *_ = layer.as_layer_data_tuple()
    cube = cube_to_save(data, attributes)
    path = _ask_path(suggested or _suggestion(layer))
    if path is None:
        return None
    may_replace = _ask_to_replace(path)
    if may_replace is None:
        return None
    check_target(path, overwrite=may_replace)
    return SaveOrder(cube, path, may_replace)


def layer_to_save(viewer: ViewerModel) -> Image:
    """Return the selected layer if it is a cube or a stack of bands, else the topmost cube shown.

    Raises
    ------
    SaveError
        If there is none.
    """
    active = viewer.layers.selection.active
    is_stack = isinstance(active, Image) and active.ndim == 3 and not active.rgb
    if cube_of(active) is not None or is_stack:
        return active
    layer = active_cube_layer(viewer)
    if layer is None:
        raise SaveError("Expected a cube to save, got none. Select its layer.")
    return layer


def write(order: SaveOrder) -> Path:
    """Write what was ordered, and wait for it; with a window, it stays alive meanwhile.

    Raises
    ------
    SaveError
        As `napari_mst.write_cube`.
    Cancelled
        If the user cancelled it.
    """
    # In a script, or on another thread than Qt's, there is no event loop to wait in.
    if questions.window() is None:
        return write_cube(order.path, order.cube, overwrite=order.may_replace)
    return Save(order).wait()


def named(path: Path, form: Format) -> Path:
    """Give *path* the suffix of *form*, unless it has one that says how to save a cube."""
    is_known = path.suffix.lower() in SUFFIXES
    return path if is_known else path.with_name(path.name + form.suffixes[0])


class Save(QObject):
    """A cube on its way to its file, on another thread.

    When it has `ended`, `path` is set, or `error`, or neither if it was cancelled.
    """

    ended = Signal()

    running: ClassVar[set["Save"]] = set()
    """Saves that have not ended; nobody else may hold them."""

    def __init__(self, order: SaveOrder) -> None:
        super().__init__()
        self.path: Path | None = None
        self.error: NapariMstError | None = None
        self.has_ended = False
        self._name = order.path.name
        self._dialog: QProgressDialog | None = self._progress_dialog()
        self.running.add(self)
        self._cancel = start(
            Job(
                partial(_write, order),
                self._on_done,
                self._on_failed,
                self._on_end,
                self._on_progress,
            )
        )

    def cancel(self) -> None:
        """Stop: nothing is saved, and what was there before is intact."""
        self._cancel()

    def wait(self) -> Path:
        """Return the file to open, once it is written; until then the application goes on.

        Raises as `write`.
        """
        loop = QEventLoop()
        self.ended.connect(loop.quit)
        while not self.has_ended:
            loop.exec()
            if not self.has_ended:  # the application ends, and runs no loops any more
                QThreadPool.globalInstance().waitForDone(POLL)
                QApplication.processEvents()
        if self.error is not None:
            raise self.error
        if self.path is None:
            raise Cancelled("Saving was cancelled; what was there before is intact.")
        return self.path

    def tell(self) -> None:
        """Tell the user how it ended."""
        if self.error is not None:
            show_error(str(self.error))
        elif self.path is not None:
            show_info(f"The cube was saved as {shown(self.path.name)}.")

    def _progress_dialog(self) -> QProgressDialog:
        text = f"Saving {shown(self._name)} ..."
        dialog = QProgressDialog(text, "Cancel", 0, STEPS, questions.window())
        dialog.setWindowTitle(TITLE)
        # The user can go on working during a save.
        dialog.setWindowModality(Qt.WindowModality.NonModal)
        dialog.setMinimumDuration(PATIENCE)
        dialog.setValue(0)  # from here Qt counts the time; without it, it waits for 4 s
        dialog.canceled.connect(self.cancel)
        dialog.destroyed.connect(self._on_dialog_gone)
        return dialog

    def _on_dialog_gone(self) -> None:
        # The dialog goes down with the window, which may be closed during a save.
        self._dialog = None

    def _on_progress(self, fraction: float) -> None:
        if self._dialog is not None:
            # At its last step a progress dialog would close itself before the file is in place.
            self._dialog.setValue(min(round(fraction * STEPS), STEPS - 1))

    def _on_done(self, path: Path) -> None:
        self.path = path

    def _on_failed(self, error: NapariMstError) -> None:
        self.error = error

    def _on_end(self) -> None:
        if self._dialog is not None:
            self._dialog.canceled.disconnect(self.cancel)
            self._dialog.reset()
            self._dialog.deleteLater()
        self.has_ended = True
        self.running.discard(self)
        self.ended.emit()


def _write(order: SaveOrder, reports: Reports) -> Path:
    """Write the file, on the worker's thread."""
    return write_cube(order.path, order.cube, overwrite=order.may_replace, watch=reports)


# ------------------------------------------------------------------------- where it is saved


def _suggestion(layer: Image) -> Path:
    """Suggest the folder of the last save, and the name of *layer* as an ENVI raster."""
    letters = [one for one in layer.name if one.isprintable() and one not in NOT_IN_NAMES]
    name = "".join(letters).strip(" .")
    return Path(get_save_history()[0]) / f"{name or 'cube'}.hdr"


def _ask_path(suggested: Path) -> Path | None:
    """Return the file that the user chooses; None if they cancel.

    Whether it may be replaced is asked later, as a format may write other files than this one.
    """
    first = SUFFIXES.get(suggested.suffix.lower(), SUFFIXES[".hdr"])
    forms = [first, *(form for form in WRITABLE if form is not first)]
    kinds = [_kind(form) for form in forms]
    chosen, kind = QFileDialog.getSaveFileName(
        questions.window(),
        TITLE,
        str(suggested),
        ";;".join(kinds),
        options=QFileDialog.Option.DontConfirmOverwrite,
    )
    if not chosen:
        return None
    return named(Path(chosen), forms[kinds.index(kind)] if kind in kinds else first)


def _kind(form: Format) -> str:
    """Describe a format as file dialogs want it: "ENVI raster (*.hdr *.img)"."""
    patterns = " ".join(f"*{suffix}" for suffix in form.suffixes)
    return f"{form.title} ({patterns})"


def _ask_to_replace(path: Path) -> bool | None:
    """Ask whether files that exist may be replaced, if saving to *path* would replace any.

    False if there is none to replace, and None if the user says no.
    """
    targets = SUFFIXES[path.suffix.lower()].targets(path)
    existing = [target.name for target in targets if os.path.lexists(target)]
    if not existing:
        return False
    yes = QMessageBox.StandardButton.Yes
    no = QMessageBox.StandardButton.No
    text = f"{_listed(existing)} already there. Replace?"
    answer = QMessageBox.question(questions.window(), TITLE, text, yes | no, no)
    return True if answer == yes else None


def _listed(names: Sequence[str]) -> str:
    """Begin a sentence with *names*: "a is", "a and b are"."""
    listed = " and ".join(shown(name) for name in names)
    return f"{listed} {'is' if len(names) == 1 else 'are'}"
