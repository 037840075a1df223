"""Saves a cube layer while the window stays alive: with wavelengths, history and picks.

A save runs on another thread, shows how far it is, and can be cancelled; until its last moment the
files that were there before are intact. napari's own dialog waits for a save that goes through one
of our writers. It then waits in an event loop, so that the window goes on living.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from napari import current_viewer
from napari.components import ViewerModel
from napari.layers import Image, Layer
from napari.utils.history import get_save_history, update_save_history
from napari.utils.notifications import show_info
from qtpy.QtCore import QEventLoop, QObject, Qt, QThreadPool, Signal
from qtpy.QtWidgets import QApplication, QFileDialog, QMessageBox, QProgressDialog

from napari_mst.base.errors import Cancelled, NapariMstError, SaveError, shown
from napari_mst.cube import BAND_INDEX, SpectralCube
from napari_mst.cube.layer import STACK_KEY
from napari_mst.formats import FORMATS, Format, check_target, write_cube
from napari_mst.plugin.files import questions
from napari_mst.plugin.files.opening import PICKS
from napari_mst.plugin.jobs.task import Reports, Task
from napari_mst.plugin.jobs.worker import start
from napari_mst.plugin.viewer import picks
from napari_mst.plugin.viewer.layers import (
    MAP_CUBE_KEY,
    active_cube_layer,
    cube_layer_in,
    cube_of,
    cube_of_data,
    map_cube_of,
)
from napari_mst.plugin.viewer.sharing import report

TITLE = "Save cube"
NOT_SAVED = "Saving was cancelled; nothing was written."
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


def save_cube() -> None:
    """Ask for a file, and save the selected map, or the cube that is shown: a command of menus."""
    viewer = current_viewer()
    if viewer is not None:
        active = viewer.layers.selection.active
        is_map = active is not None and MAP_CUBE_KEY in active.metadata
        ask_to_save(viewer, active if is_map else None)


def ask_to_save(
    viewer: ViewerModel, layer: Layer | None = None, suggested: Path | None = None
) -> "Save | None":
    """Ask for a file, and begin to save the cube or map of *layer*, or the cube that is shown.

    The dialog begins at the *suggested* file. None if there is no cube, or the user cancels.
    """
    try:
        layer = layer or layer_to_save(viewer)
        data, attributes, *_ = layer.as_layer_data_tuple()
        cube = cube_to_save(data, attributes)
        path = _ask_path(suggested or _suggestion(layer))
        cubes = _by_page(path, cube, attributes)
        may_replace = _ask_to_replace(cubes)
        for target in cubes:
            check_target(target, overwrite=may_replace)
    except Cancelled:
        return None
    except NapariMstError as error:
        report(error)
        return None
    update_save_history(str(path))
    # `Save.running` keeps it until it has ended, even if the caller drops it.
    save = Save(cubes, may_replace)
    save.ended.connect(save.tell)
    return save


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


def write(path: Path, cube: SpectralCube, may_replace: bool) -> Path:
    """Write *cube* to *path*, and wait for it; with a window, that stays alive meanwhile.

    Raises
    ------
    SaveError
        As `napari_mst.write_cube`.
    Cancelled
        If the user cancelled it.
    """
    # In a script, or on another thread than Qt's, there is no event loop to wait in.
    if questions.window() is None:
        return write_cube(path, cube, overwrite=may_replace)
    return Save({path: cube}, may_replace).wait()


def write_layer(
    path: str, data: Any, attributes: Mapping[str, Any], suffix: str = ".hdr"
) -> list[str]:
    """Save an Image layer in the format of the suffix of *path*, else of *suffix*.

    Each page of a stack becomes a file with its number.

    Only a file that napari's dialog has asked about is replaced. Without wavelengths the user is
    asked for them; where there is nobody to ask, the bands are numbered. The picks on the image are
    saved with it.

    Raises
    ------
    SaveError
        If the layer is neither (B, H, W) nor a map, or as `napari_mst.write_cube`.
    Cancelled
        If the user was asked, and cancelled, or cancelled the save.
    """
    given = Path(path)
    target = named(given, SUFFIXES[suffix])
    cubes = _by_page(target, cube_to_save(data, attributes), attributes)
    # napari's dialog has asked about this very path, and not about one with another suffix.
    return [
        str(write(each, cube, may_replace=each.name == given.name and each.exists()))
        for each, cube in cubes.items()
    ]


write_envi = partial(write_layer, suffix=".hdr")
write_tiff = partial(write_layer, suffix=".tif")
write_imagej = partial(write_layer, suffix=".imagej.tif")
write_npz = partial(write_layer, suffix=".npz")
write_matlab = partial(write_layer, suffix=".mat")
write_netcdf = partial(write_layer, suffix=".nc")
write_npy = partial(write_layer, suffix=".npy")
write_zarr = partial(write_layer, suffix=".zarr")


def named(path: Path, form: Format) -> Path:
    """Give *path* the suffix of *form*, unless it has one that says how to save a cube."""
    is_known = path.suffix.lower() in SUFFIXES
    return path if is_known else path.with_name(path.name + form.suffixes[0])


class Save(QObject):
    """Saves a cube, or the cubes of all pages of a stack, on another thread.

    When it has `ended`, `outcome` is the last file, or an error, or None if it was cancelled.
    `cancel` stops it: what was there before is intact, and pages that are written stay.
    """

    ended = Signal()

    running: ClassVar[set["Save"]] = set()
    """Saves that have not ended; nobody else may hold them."""

    def __init__(self, cubes: Mapping[Path, SpectralCube], may_replace: bool) -> None:
        super().__init__()
        self.outcome: Path | NapariMstError | None = None
        self._paths = tuple(cubes)
        self._kind = "map" if any("map" in cube.metadata for cube in cubes.values()) else "cube"
        self.running.add(self)

        def run(reports: Reports) -> Path:
            for index, (path, cube) in enumerate(cubes.items()):
                part = reports.step(index, len(cubes))
                written = write_cube(path, cube, overwrite=may_replace, progress=part)
            return written

        self.cancel = start(Task(run, self._take, self._take, self._on_end, self._on_progress))
        self._dialog: QProgressDialog | None = self._progress_dialog(next(iter(cubes)).name)

    @property
    def has_ended(self) -> bool:
        """True once `outcome` is what it stays."""
        return self not in self.running

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
        if isinstance(self.outcome, Path):
            return self.outcome
        raise self.outcome or Cancelled("Saving was cancelled; what was there before is intact.")

    def tell(self) -> None:
        """Show the user how the save ended."""
        if isinstance(self.outcome, Path):
            pages, name = f"{self._kind} was", shown(self.outcome.name)
            if len(self._paths) > 1:
                first = self._paths[0].with_suffix(self.outcome.suffix)
                pages, name = f"{len(self._paths)} pages were", f"{shown(first.name)} to {name}"
            show_info(f"The {pages} saved as {name}.")
        elif self.outcome is not None:
            report(self.outcome)

    def _progress_dialog(self, name: str) -> QProgressDialog:
        text = f"Saving {shown(name)} ..."
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

    def _take(self, outcome: Path | NapariMstError) -> None:
        self.outcome = outcome

    def _on_end(self) -> None:
        if self._dialog is not None:
            self._dialog.canceled.disconnect(self.cancel)
            self._dialog.reset()
            self._dialog.deleteLater()
        self.running.discard(self)
        self.ended.emit()


# ------------------------------------------------------------------------- where it is saved


def _suggestion(layer: Layer) -> Path:
    """Suggest the folder of the last save, and the name of *layer* as an ENVI raster."""
    letters = [char for char in layer.name if char.isprintable() and char not in NOT_IN_NAMES]
    name = "".join(letters).strip(" .")
    return Path(get_save_history()[0]) / f"{name or 'cube'}.hdr"


def _ask_path(suggested: Path) -> Path:
    """Return the file that the user chooses. Raises `Cancelled`.

    Whether it may be replaced is asked later, as a format may write other files than this one.
    """
    # As file dialogs want it: "ENVI raster (*.hdr *.img)".
    kinds = {
        f"{form.title} ({' '.join(f'*{suffix}' for suffix in form.suffixes)})": form
        for form in WRITABLE
    }
    first = SUFFIXES.get(suggested.suffix.lower(), SUFFIXES[".hdr"])
    chosen, kind = QFileDialog.getSaveFileName(
        questions.window(),
        TITLE,
        str(suggested),
        ";;".join(kinds),
        next(kind for kind, form in kinds.items() if form is first),
        QFileDialog.Option.DontConfirmOverwrite,
    )
    if not chosen:
        raise Cancelled(NOT_SAVED)
    return named(Path(chosen), kinds.get(kind, first))


def _by_page(
    path: Path, cube: SpectralCube, attributes: Mapping[str, Any]
) -> dict[Path, SpectralCube]:
    """Return the cube of each file: *cube* alone, or the cubes of its stack, numbered by page."""
    stack = attributes.get("metadata", {}).get(STACK_KEY)
    if stack is None:
        return {path: cube}
    return {
        path.with_stem(f"{path.stem}_{page:03}"): replace(one, metadata=cube.metadata)
        for page, one in enumerate(stack.cubes)
    }


def _ask_to_replace(paths: Iterable[Path]) -> bool:
    """Ask whether files that exist may be replaced; False if saving to *paths* replaces none.

    Raises `Cancelled` if the user says no.
    """
    targets = [each for path in paths for each in SUFFIXES[path.suffix.lower()].targets(path)]
    existing = [shown(target.name) for target in targets if os.path.lexists(target)]
    if not existing:
        return False
    yes, no = QMessageBox.StandardButton.Yes, QMessageBox.StandardButton.No
    verb = "is" if len(existing) == 1 else "are"
    text = f"{' and '.join(existing)} {verb} already there. Replace?"
    if QMessageBox.question(questions.window(), TITLE, text, yes | no, no) != yes:
        raise Cancelled(NOT_SAVED)
    return True


# ------------------------------------------------------------------------- what is saved


def cube_to_save(data: Any, attributes: Mapping[str, Any]) -> SpectralCube:
    """Make the cube to save of a layer's *data* and *attributes*, with the picks on it.

    The picture of a cube stands for that cube. A map is a cube of one band, without picks. The user
    is asked for wavelengths that are missing.

    Raises
    ------
    SaveError
        If the layer is neither (B, H, W) nor a map.
    Cancelled
        If the user was asked, and cancelled.
    """
    made = map_cube_of(data, attributes.get("metadata", {}))
    if made is not None:
        return made
    layer = cube_layer_in(attributes.get("metadata", {}))
    if layer is not None:
        data, attributes, *_ = layer.as_layer_data_tuple()
    return _with_picks(_cube(data, attributes), data)


def _cube(data: Any, attributes: Mapping[str, Any]) -> SpectralCube:
    pixels = data[0] if attributes.get("multiscale") else data
    cube, axis = cube_of_data(pixels, attributes.get("metadata", {})), 0
    if cube is None:
        if np.ndim(pixels) != 3 or attributes.get("rgb"):
            raise SaveError(
                "Expected a stack of bands to save as a cube, "
                f"got an image of shape {np.shape(pixels)}. Select the layer of a cube."
            )
        cube = questions.DescribedBands(0, None).cube_of(pixels)
        axis = questions.likely_axis(pixels.shape)
    if cube.unit != BAND_INDEX or questions.window() is None:
        return cube
    text = f"The layer '{shown(attributes.get('name', ''), 40)}' has no wavelengths."
    bands = questions.ask_bands("Save", text, pixels.shape, axis)
    if bands is None:
        raise Cancelled(NOT_SAVED)
    answered = bands.cube_of(cube.data)
    return replace(cube, data=answered.data, wavelengths=answered.wavelengths, unit=answered.unit)


def _with_picks(cube: SpectralCube, data: Any) -> SpectralCube:
    """Add the picks on the layer of *data* to *cube*; they replace its earlier picks.

    A cube whose layer is not in the viewer keeps its picks.
    """
    viewer = current_viewer()
    layer = layer_of(data)
    if viewer is None or layer is None:
        return cube
    points = picks.picks_layer(viewer)
    text = "" if points is None else picks.picks_text(points, layer)
    metadata = {key: value for key, value in cube.metadata.items() if key != PICKS}
    if text:
        metadata[PICKS] = text
    return replace(cube, metadata=metadata)


def layer_of(data: Any) -> Layer | None:
    """Find the layer that holds this very *data*; napari's writers are given no layer."""
    viewer = current_viewer()
    layers = viewer.layers if viewer is not None else ()
    return next((layer for layer in layers if layer.data is data), None)
