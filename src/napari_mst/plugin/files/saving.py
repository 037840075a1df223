"""Save a cube layer with its wavelengths, its history and the picks on it, while the window stays alive.

A save runs on another thread, shows how far it is, and can be cancelled; until its last moment the files that were
there before are intact. napari's own dialog waits for a save that goes through one of our writers: it waits in an event
loop, so that the window goes on living then as well.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from napari import current_viewer
from napari.components import ViewerModel
from napari.layers import Image
from napari.qt.threading import create_worker
from napari.utils.history import get_save_history, update_save_history
from napari.utils.notifications import show_error, show_info
from qtpy.QtCore import QEventLoop, QObject, Qt, QThreadPool, Signal
from qtpy.QtWidgets import QApplication, QFileDialog, QMessageBox, QProgressDialog

from napari_mst.cube import BAND_INDEX, NANOMETRES, SpectralCube
from napari_mst.errors import Cancelled, ChoiceNeeded, NapariMstError, SaveError
from napari_mst.formats import FORMATS, Format, check_target, write_cube
from napari_mst.formats.arrays import band_axis_of
from napari_mst.messages import shown
from napari_mst.plugin.files import questions
from napari_mst.plugin.files.opening import PICKS
from napari_mst.plugin.jobs.request import Reports
from napari_mst.plugin.jobs.worker import JobWorker, sentence_of
from napari_mst.plugin.viewer import picks
from napari_mst.plugin.viewer.layers import active_cube_layer, cube_of, cube_of_data

TITLE = "Save cube"
PATIENCE = 500
"""ms after which a save shows how far it is."""
STEPS = 1000
"""Steps of the progress bar."""
POLL = 50
"""ms between two looks at a save, in an application that is about to end."""
NOT_IN_NAMES = frozenset('/\\:*?"<>|')
WRITABLE = tuple(form for form in FORMATS if form.suffixes)
SUFFIXES = {suffix: form for form in WRITABLE for suffix in form.suffixes}


@dataclass(frozen=True, eq=False)
class Order:
    """A cube to be written to a file, which may be replaced only if the user has said so."""

    cube: SpectralCube
    path: Path
    may_replace: bool


@dataclass(frozen=True)
class Outcome:
    """The file to open, or what went wrong."""

    path: Path | None = None
    error: NapariMstError | None = None


def save_cube() -> None:
    """Ask for a file, and save the cube that is shown: a command of napari's menus."""
    viewer = current_viewer()
    if viewer is not None:
        ask_to_save(viewer)


def ask_to_save(
    viewer: ViewerModel, layer: Image | None = None, suggested: Path | None = None
) -> "Save | None":
    """Ask for a file, and begin to save the cube of *layer*, or of the one that is selected or shown.

    None if there is none, or the user cancels. The dialog begins at the *suggested* file.
    """
    try:
        layer = layer or layer_to_save(viewer)
        cube = cube_to_save(*layer.as_layer_data_tuple()[:2])
        path = _ask_path(suggested or _suggestion(layer))
        if path is None or (may_replace := _ask_to_replace(path)) is None:
            return None
        check_target(path, overwrite=may_replace)
    except Cancelled:
        return None
    except NapariMstError as error:
        show_error(str(error))
        return None
    update_save_history(str(path))
    save = Save(Order(cube, path, may_replace))
    save.ended.connect(save.tell)
    return save


def layer_to_save(viewer: ViewerModel) -> Image:
    """The selected layer if it is a cube or a stack of bands, else the topmost cube that is shown.

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


def cube_to_save(data: Any, attributes: Mapping[str, Any]) -> SpectralCube:
    """The cube of a layer's *data* and *attributes*, with the picks on it; without wavelengths the user is asked.

    Raises
    ------
    SaveError
        If the layer is not (B, H, W).
    Cancelled
        If the user was asked, and cancelled.
    """
    return _with_picks(_cube(data, attributes), data)


def write(order: Order) -> Path:
    """Write what was ordered, and wait for it: with a window on another thread, while the window stays alive.

    Raises
    ------
    SaveError
        As `napari_mst.write_cube`.
    Cancelled
        If the user cancelled it.
    """
    if questions.window() is None:
        return write_cube(order.path, order.cube, overwrite=order.may_replace)
    return Save(order).wait()


def named(path: Path, form: Format) -> Path:
    """*path* with the suffix of *form*, unless it has one that says how to save a cube."""
    return path if path.suffix.lower() in SUFFIXES else path.with_name(path.name + form.suffixes[0])


class Save(QObject):
    """A cube on its way to its file, on another thread. When it has `ended`, `path` is set, or `error`, or neither."""

    ended = Signal()

    running: ClassVar[set["Save"]] = set()
    """Saves that have not ended; nobody else may hold them."""

    def __init__(self, order: Order) -> None:
        super().__init__()
        self.path: Path | None = None
        self.error: NapariMstError | None = None
        self.has_ended = False
        self._name = order.path.name
        self._worker = create_worker(_write, order, _worker_class=JobWorker, _ignore_errors=True)
        self._dialog: QProgressDialog | None = self._progress_dialog()
        self._worker.reports.progressed.connect(self._on_progress)
        self._worker.returned.connect(self._on_returned)
        self._worker.finished.connect(self._on_finished)
        self.running.add(self)
        self._worker.start()

    def cancel(self) -> None:
        """Stop: nothing is saved, and what was there before is intact."""
        self._worker.quit()

    def wait(self) -> Path:
        """The file to open, once it is written; until then the application goes on. Raises as `write`."""
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
        dialog = QProgressDialog(
            f"Saving {shown(self._name)} ...", "Cancel", 0, STEPS, questions.window()
        )
        dialog.setWindowTitle(TITLE)
        dialog.setWindowModality(Qt.WindowModality.NonModal)
        dialog.setMinimumDuration(PATIENCE)
        dialog.setValue(0)  # from here Qt counts the time; without it, it waits for 4 s
        dialog.canceled.connect(self.cancel)
        dialog.destroyed.connect(self._on_dialog_gone)
        return dialog

    def _on_dialog_gone(self) -> None:
        self._dialog = None

    def _on_progress(self, fraction: float) -> None:
        if self._dialog is not None:
            self._dialog.setValue(min(round(fraction * STEPS), STEPS - 1))

    def _on_returned(self, outcome: "Outcome") -> None:
        self.path, self.error = outcome.path, outcome.error

    def _on_finished(self) -> None:
        if self._dialog is not None:
            self._dialog.canceled.disconnect(self.cancel)
            self._dialog.reset()
            self._dialog.deleteLater()
        self.has_ended = True
        self.running.discard(self)
        self.ended.emit()


def _write(order: Order, reports: Reports) -> Outcome:
    """The job of the thread: what went wrong is a result too."""
    try:
        path = write_cube(
            order.path, order.cube, overwrite=order.may_replace, progress=reports.watch.reach
        )
    except Cancelled:
        raise
    except Exception as error:  # noqa: BLE001 (the last place that can turn it into a sentence)
        return Outcome(error=sentence_of(error))
    return Outcome(path=path)


# --------------------------------------------------------------------------------------------------- what is saved


def _cube(data: Any, attributes: Mapping[str, Any]) -> SpectralCube:
    """The cube to save of a layer's *data* and *attributes*."""
    pixels = data[0] if attributes.get("multiscale") else data
    cube = cube_of_data(pixels, attributes.get("metadata", {}))
    if cube is None and (np.ndim(pixels) != 3 or attributes.get("rgb")):
        raise SaveError(
            f"Expected a layer of (bands, rows, columns), got {np.shape(pixels)}. Select a cube layer."
        )
    axis = _likely_axis(pixels.shape) if cube is None else 0
    if cube is None:
        cube = SpectralCube(
            pixels, np.arange(len(pixels), dtype=np.float64), unit=BAND_INDEX, quantity=""
        )
    parent = questions.window()
    if cube.unit != BAND_INDEX or parent is None:
        return cube
    known = _calibrated(attributes, len(pixels)) if axis == 0 else None
    return _completed(
        cube,
        questions.WavelengthsDialog(attributes.get("name", ""), pixels.shape, axis, known, parent),
    )


def _completed(cube: SpectralCube, dialog: questions.WavelengthsDialog) -> SpectralCube:
    """*cube*, whose bands have but numbers, as the user says in *dialog*. Raises `Cancelled`."""
    is_accepted = dialog.exec()
    dialog.deleteLater()
    if not is_accepted:
        raise Cancelled("Saving was cancelled; nothing was written.")
    data = np.moveaxis(cube.data, -1, 0) if dialog.band_axis else cube.data
    wavelengths = dialog.wavelengths
    if wavelengths is None:
        return replace(cube, data=data, wavelengths=np.arange(len(data), dtype=np.float64))
    return replace(cube, data=data, wavelengths=wavelengths, unit=NANOMETRES)


def _likely_axis(shape: tuple[int, ...]) -> int:
    """The axis of the bands of any stack: the one that is clearly shortest, else the first."""
    try:
        return band_axis_of(shape, 0, None)
    except ChoiceNeeded:
        return 0


def _calibrated(attributes: Mapping[str, Any], bands: int) -> tuple[float, float] | None:
    """Where the first axis of a layer begins and ends, if its unit is nm."""
    if str(next(iter(attributes.get("units") or ()), "")) != "nanometer":
        return None
    start, step = float(attributes["translate"][0]), float(attributes["scale"][0])
    return start, start + (bands - 1) * step


def _with_picks(cube: SpectralCube, data: Any) -> SpectralCube:
    """*cube* with the picks on the layer of *data*, if that is in the viewer."""
    viewer = current_viewer()
    layer = (
        next((layer for layer in viewer.layers if layer.data is data), None)
        if viewer is not None
        else None
    )
    points = picks.picks_layer(viewer) if layer is not None else None
    if layer is None:
        return cube
    text = picks.picks_text(points, layer) if points is not None else ""
    others = {key: value for key, value in cube.metadata.items() if key != PICKS}
    return replace(cube, metadata=others | ({PICKS: text} if text else {}))


# --------------------------------------------------------------------------------------------------- and where


def _suggestion(layer: Image) -> Path:
    """Where the dialog begins: the folder of the last save, and the name of *layer* as an ENVI raster."""
    name = "".join(
        letter for letter in layer.name if letter.isprintable() and letter not in NOT_IN_NAMES
    ).strip(" .")
    return Path(get_save_history()[0]) / f"{name or 'cube'}.hdr"


def _ask_path(suggested: Path) -> Path | None:
    """The file that the user chooses; None if they cancel. Whether it may be replaced is asked later."""
    first = SUFFIXES.get(suggested.suffix.lower(), SUFFIXES[".hdr"])
    forms = [first, *(form for form in WRITABLE if form is not first)]
    kinds = [
        f"{form.title} ({' '.join(f'*{suffix}' for suffix in form.suffixes)})" for form in forms
    ]
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


def _ask_to_replace(path: Path) -> bool | None:
    """Whether the files that saving to *path* writes are there already, and may be replaced; None if they may not."""
    existing = [target for target in _targets(path) if os.path.lexists(target)]
    if not existing:
        return False
    yes, no = QMessageBox.StandardButton.Yes, QMessageBox.StandardButton.No
    text = f"{_listed([target.name for target in existing])} already there. Replace?"
    answer = QMessageBox.question(questions.window(), TITLE, text, yes | no, no)
    return True if answer == yes else None


def _targets(path: Path) -> tuple[Path, ...]:
    return SUFFIXES[path.suffix.lower()].targets(path)


def _listed(names: Sequence[str]) -> str:
    """*names* as the beginning of a sentence: "a is", "a and b are"."""
    shortened = [shown(name) for name in names]
    return f"{' and '.join(shortened)} {'is' if len(names) == 1 else 'are'}"
