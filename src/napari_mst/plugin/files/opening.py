"""Opens files as what they are: cubes as cube layers with the picks on them, photos as RGB layers.

napari chooses a reader by the suffix, and `preferences` makes that ours. Files of suffixes that
many programs write are left to napari's own reader, and `recognising` finds our cubes among them.
`open_files` and `open_folder` of the menu File > IO Utilities open any file as a cube.
"""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from napari import current_viewer
from napari.components import ViewerModel
from napari.layers._source import layer_source
from napari.utils.history import get_open_history, update_open_history
from napari.utils.notifications import show_info, show_warning
from npe2 import PluginManager, read
from qtpy.QtCore import QTimer
from qtpy.QtWidgets import QFileDialog

from napari_mst.base.errors import (
    ChoiceNeeded,
    ColourPhoto,
    CubeFileError,
    NapariMstError,
    PhotoError,
    shown,
)
from napari_mst.cube import BAND_INDEX, Provenance, SpectralCube
from napari_mst.cube.layer import LayerTuple
from napari_mst.formats import find_format, is_own_cube, read_cube
from napari_mst.formats.numpy_files import is_npy, mapped_array
from napari_mst.formats.zarr.reading import clip_image
from napari_mst.photo.files import is_heif_file, open_image
from napari_mst.photo.heif import HEIF_SUFFIXES
from napari_mst.photo.photo import Photo
from napari_mst.photo.photo_pages import shown_pages
from napari_mst.photo.raw_header import RAW_SUFFIXES, is_raw_file
from napari_mst.plugin.files import questions
from napari_mst.plugin.jobs.task import Task
from napari_mst.plugin.jobs.worker import start
from napari_mst.plugin.viewer import picks
from napari_mst.plugin.viewer.layer_photos import photo_layer
from napari_mst.plugin.viewer.layers import cube_layer, selection_kept
from napari_mst.plugin.viewer.sharing import PLUGIN, report

WORKSPACE = "Workspace"
"""The name of its dock in `napari.yaml`."""
MODULE = "napari_mst.plugin.workspace_dock"
"""The module of that dock."""
WEIGHTS_FILES = "Weights (*.pth *.pt *.ckpt *.safetensors *.onnx)"


Paths = str | list[str]
"""The files that napari gives to a reader."""
NO_LAYERS: list[Any] = [(None,)]
"""Tells napari that there is nothing to add, which is not an error."""
FEWEST_BANDS = 4
"""A stack of fewer planes is more likely a planar photo."""
PHOTO_SUFFIXES = (*RAW_SUFFIXES, *HEIF_SUFFIXES)
SHARED_SUFFIXES = (".tif", ".tiff", ".npz", ".zarr")
NAPARI = "napari"
"""The name of the plugin that holds napari's own reader."""
is_delegated = ContextVar("is_delegated", default=False)
"""True while napari's own reader works for ours, which reads the files if it fails."""
PICKS = "picks"
"""The metadata field of a saved cube that holds the picks on it."""


def is_photo(path: Path) -> bool:
    """Return True if the file at *path* begins as a photo."""
    if is_raw_file(path) or is_heif_file(path):
        return True
    try:
        with open_image(path):
            return True
    except Exception:  # noqa: BLE001 (Pillow meets damage with every kind of exception)
        return False


def is_ours(path: Path) -> bool:
    """True if the file at *path* begins as a cube or a photo."""
    return find_format(path) is not None or is_photo(path)


def listed(path: Paths) -> list[Path]:
    """Return the files that napari names, one or several."""
    return [Path(file) for file in (path if isinstance(path, list) else [path])]


def is_clip(path: Path) -> bool:
    """True if *path* is the folder of a clip of ours."""
    try:
        return path.suffix == ".zarr" and clip_image(path) is not None
    except CubeFileError:
        return False


def is_shared(path: Path) -> bool:
    """True for a suffix of ours under which other programs mostly save something else."""
    return path.suffix.lower() in SHARED_SUFFIXES


def cube_reader(path: Paths) -> Callable[[Paths], list[Any]]:
    """Return our reader for the files at *path*, or napari's for files that are not ours.

    Ours also reads the files that napari cannot read, to say what is wrong with them.
    """
    files = listed(path)
    if all(is_ours(file) and not is_shared(file) for file in files):
        return open_layers
    readers = PluginManager.instance().iter_compatible_readers(str(files[0]))
    has_napari = any(reader.plugin_name == NAPARI for reader in readers)
    return open_as_napari if has_napari else open_layers


def open_layers(path: Paths) -> list[LayerTuple]:
    """See `read_layers`; napari calls this. With a window, the user is told of an error."""
    try:
        return read_layers(listed(path)) or NO_LAYERS
    except NapariMstError as error:
        if questions.window() is None:
            raise
        # napari would ask for another reader, which ends in an error of some library.
        report(error)
        return NO_LAYERS


def open_as_napari(path: Paths) -> list[Any]:
    """Read the files at *path* with napari's own reader.

    For a cube of ours the workspace opens, which makes its layer what the file says. Where napari's
    reader fails, ours reads the files.
    """
    files = listed(path)
    token = is_delegated.set(True)
    try:
        is_list = isinstance(path, list)
        layers = read([str(file) for file in files], stack=is_list, plugin_name=NAPARI)
    except Exception:  # noqa: BLE001 (libraries meet damage with every kind of exception)
        return open_layers(path)
    finally:
        is_delegated.reset(token)
    # It takes some damaged files for arrays that no layer can show.
    if any(getattr(data, "ndim", 2) < 2 for data, *_ in layers):
        return open_layers(path)
    if any(is_own_cube(file) or is_clip(file) for file in files):
        open_workspace_soon(current_viewer())
    return layers


def read_layers(paths: Sequence[Path]) -> list[LayerTuple]:
    """Read a layer from each file, and the picks that were saved with a cube.

    A file is left out if the user cancels the question about it. The others open the workspace.

    Raises
    ------
    CubeFileError
        If a cube file is damaged.
    PhotoError
        If a photo is.
    """
    layers: list[LayerTuple] = []
    cubes: dict[str, SpectralCube] = {}
    for path in paths:
        # A damaged photo has only its suffix to tell that it is one.
        is_named_photo = path.suffix.lower() in PHOTO_SUFFIXES
        if find_format(path) is None and (is_named_photo or is_photo(path)):
            layers.append(layer_of_file(path))
            continue
        try:
            cube = _cube(path)
        except ColourPhoto:
            layers.append(layer_of_file(path))
            continue
        if cube is not None:
            cubes[path.name] = cube
            layers.append(cube_layer(cube, path.stem))
    viewer = current_viewer()
    if layers:
        open_workspace_soon(viewer)
    return [*layers, *saved_picks(cubes, viewer)]


def open_workspace_soon(viewer: ViewerModel | None) -> None:
    """Open the workspace of *viewer* once its new layers are there.

    Not without a window, nor over another dock of ours, which is what its user looks at.
    """
    window = getattr(viewer, "window", None)
    if window is None:
        return
    own_docks = [name for name in window.dock_widgets if PLUGIN in name]
    if own_docks and f"{WORKSPACE} ({PLUGIN})" not in own_docks:
        return
    # Later, so that the dock opens only after the layers of this file are there.
    if MODULE in sys.modules:
        QTimer.singleShot(0, partial(window.add_plugin_dock_widget, PLUGIN, WORKSPACE))
        return

    def add() -> None:
        if viewer is current_viewer():  # it may be closed by now
            window.add_plugin_dock_widget(PLUGIN, WORKSPACE)

    # The first import takes a third of a second, for which the window would stand still.
    start(Task(lambda _: import_module(MODULE), on_end=add), is_listed=False)


def layer_of_file(path: Path) -> LayerTuple:
    """Describe the Image layer of a photo, with the pixels that `Photo.read` has.

    They are (H, W) or (H, W, C), and (T, H, W, C) for a file of several pages.

    Raises
    ------
    PhotoError
        See `Photo.read`.
    """
    if is_raw_file(path):
        return raw_layer(Photo.read(path), path.stem)
    try:
        pixels = shown_pages(path)
    except PhotoError as error:
        raise PhotoError(f"{shown(path.name, 60)}: {error}") from error
    is_coloured = pixels.ndim > 2 and pixels.shape[-1] in (3, 4)
    return pixels, {"name": path.stem, "rgb": is_coloured}, "image"


def raw_layer(photo: Photo, name: str) -> LayerTuple:
    """Describe the Image layer of a RAW *photo*, and tell the user how it was taken.

    The layer is linear, and so looks dark.
    """
    show_info(" ".join([f"'{shown(name, 40)}':", *photo.assumptions]))
    return photo_layer(photo, name)


def saved_picks(cubes: Mapping[str, SpectralCube], viewer: ViewerModel | None) -> list[LayerTuple]:
    """Describe the layer of the picks that were saved with one of *cubes*, listed by name.

    There is one layer of picks: with picks in the viewer, or of a cube before, those of a cube are
    left out, and the user is told.
    """
    has_picks = viewer is not None and picks.picks_layer(viewer) is not None
    layers: list[LayerTuple] = []
    for name, cube in cubes.items():
        text = cube.metadata.get(PICKS)
        if not text:
            continue
        if has_picks or layers:
            show_warning(
                f"{shown(name)} comes with picks, which were left out: there are picks already. "
                "Remove their layer, and open the file again, to see these."
            )
            continue
        try:
            layers.append(picks.picks_of_text(str(text), cube.shape[1:]))
        except ValueError:
            show_warning(f"The picks in {shown(name)} are damaged: it was opened without them.")
    return layers


def tell_warnings(path: Path, cube: SpectralCube) -> None:
    """Show the user what the reader of the file at *path* had to assume or to ignore."""
    for sentence in cube.metadata.get("warnings", ()):
        show_warning(f"{path.name}: {sentence}")


def _cube(path: Path) -> SpectralCube | None:
    """Read the cube at *path*, and ask the user what the file does not say; None if they cancel."""
    options = _asked_options(path)
    if options is None:
        return None
    is_asked = bool(options)
    # An answer may lead to another question: first for the array, then for its axis.
    while True:
        try:
            cube = read_cube(path, **options)
        except ChoiceNeeded as question:
            if questions.window() is None:
                raise
            answer = questions.ask_choice(path.name, question)
            if answer is None:
                return None
            options[question.option] = answer
        else:
            more = {} if is_asked else _asked_wavelengths(path, cube)
            is_asked = True
            if more:
                options |= more
                continue
            tell_warnings(path, cube)
            return cube


def _asked_options(path: Path) -> dict[str, Any] | None:
    """Ask for the options that a plain array has to be read with; None if the user cancels."""
    if questions.window() is None or path.is_dir() or not is_npy(path):
        return {}
    bands = questions.ask_bands_of(path.name, mapped_array(path))
    return None if bands is None else {"band_axis": bands.axis, "wavelengths": bands.wavelengths}


def _asked_wavelengths(path: Path, cube: SpectralCube) -> dict[str, Any]:
    """Ask for the wavelengths that the *cube* at *path* lacks, and for an axis that was guessed.

    Returns the options to read it with; none where nothing is open, or the user does not know.
    """
    is_ours = cube.provenance != Provenance() or "map" in cube.metadata or is_own_cube(path)
    if cube.unit != BAND_INDEX or len(cube.data) < FEWEST_BANDS or is_ours:
        return {}
    if questions.window() is None:
        return {}
    doubts = [text for text in cube.metadata.get("warnings", ()) if "taken to lie along" in text]
    is_last = any("last axis" in text for text in doubts)
    shape = (*cube.shape[1:], cube.shape[0]) if is_last else cube.shape
    text = questions.said_of(path.name, cube.data)
    axis = -1 if is_last else 0
    bands = questions.ask_bands("Open", text, shape, axis, is_axis_known=not doubts)
    if bands is None:
        return {}
    options: dict[str, Any] = {"band_axis": bands.axis} if doubts else {}
    if bands.wavelengths is not None:
        options["wavelengths"] = bands.wavelengths.tolist()
    return options


def open_files() -> None:
    """Ask for cubes and photos of any suffix, and open them: a command of the menus."""
    folder = get_open_history()[0]
    title, kinds = "Open cubes or photos", "All files (*)"
    _open(QFileDialog.getOpenFileNames(questions.window(), title, folder, kinds)[0])


def open_folder() -> None:
    """Ask for a cube that is a folder (Zarr, single bands) and open it: a command of the menus."""
    folder, title = get_open_history()[0], "Open the folder of a cube"
    chosen = QFileDialog.getExistingDirectory(questions.window(), title, folder)
    _open([chosen] if chosen else [])


def _open(chosen: list[str]) -> None:
    viewer = current_viewer()
    if viewer is not None and chosen:
        update_open_history(chosen[0])
        open_paths(viewer, map(Path, chosen))


def open_paths(viewer: ViewerModel, paths: Iterable[Path]) -> None:
    """Add a layer for each file; tell the user of those that are neither a cube nor a photo."""
    for path in paths:
        try:
            layers = read_layers([path])
        except NapariMstError as error:
            report(error)
            continue
        # The layer notes its file and reader, as one does that napari has opened.
        # `layer_source` is private to napari, which has nothing public for it.
        with layer_source(path=str(path), reader_plugin=PLUGIN):
            add_layers(viewer, layers)


def add_layers(viewer: ViewerModel, layers: Iterable[LayerTuple]) -> list[Any]:
    """Add *layers* to *viewer*, and return what was added; picks are not selected."""
    added = []
    for data, arguments, kind in layers:
        if kind == "points":
            # napari selects what it adds, but docks and menus work on the selected cube.
            with selection_kept(viewer):
                added.append(viewer.add_points(data, **arguments))
        else:
            added.append(viewer.add_image(data, **arguments))
    return added
