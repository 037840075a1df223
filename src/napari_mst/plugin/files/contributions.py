"""The readers and writers that the manifest names; thin over `opening` and `saving`.

napari asks for the reader of every file whose suffix another plugin claims too, until its setting
`plugins.extension2reader` names one: it is offered once to have it remember ours.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from napari import current_viewer
from napari.plugins.utils import get_preferred_reader
from napari.settings import get_settings
from npe2 import PluginManager
from qtpy.QtCore import QTimer
from qtpy.QtWidgets import QApplication

from napari_mst.cube.layer import LayerTuple
from napari_mst.plugin.files import opening, questions, saving
from napari_mst.plugin.files.recognising import attend
from napari_mst.plugin.viewer.sharing import PLUGIN

offered: set[str] = set()
"""The suffixes that it was offered for since napari was started."""


def offer_soon(path: Path) -> None:
    """Offer it for the suffix of *path*, once napari has finished what the user asked of it."""
    # napari's own dialog may remember the reader: only afterwards is it known whether to ask.
    if QApplication.instance() is not None:
        QTimer.singleShot(0, partial(offer, path))


def offer(path: Path) -> None:
    """Offer it for the suffix of *path*, unless there is no need.

    It is offered once in a session, if another plugin claims the suffix, and napari remembers no
    reader for it.
    """
    suffix = path.suffix
    if not suffix or suffix in offered:
        return
    if not _is_disputed(path) or get_preferred_reader(str(path)):
        return
    text = f"napari asks for a reader for every {suffix} file. Should it always take napari-mst?"
    if questions.offer(text, f"Always for {suffix}", partial(remember, suffix)) is not None:
        offered.add(suffix)


def remember(suffix: str) -> None:
    """Have napari open files of this *suffix* with our reader; Preferences > Plugins shows it."""
    plugins = get_settings().plugins
    # A new dictionary is assigned, as napari does not notice a change within the old one.
    plugins.extension2reader = {**plugins.extension2reader, f"*{suffix}": PLUGIN}


def _is_disputed(path: Path) -> bool:
    """Tell whether our reader and another one claim the file."""
    readers = PluginManager.instance().iter_compatible_readers([str(path)])
    plugins = {reader.plugin_name for reader in readers}
    return PLUGIN in plugins and len(plugins) > 1


def cube_reader(path: opening.Paths) -> Callable[[opening.Paths], list[LayerTuple]] | None:
    """Return what opens the files at *path*; None if one of them is neither cube nor photo.

    napari then asks another reader.
    """
    return read_layers if all(map(opening.is_ours, opening.listed(path))) else None


def read_layers(path: opening.Paths) -> list[LayerTuple]:
    """See `opening.read_layers`."""
    files, viewer = opening.listed(path), current_viewer()
    layers = opening.read_layers(files)
    if viewer is not None:
        # A cube may be opened before any dock, which would have done this.
        attend(viewer)
        offer_soon(files[0])
    return layers or opening.NO_LAYERS


def write_layer(
    path: str, data: Any, attributes: Mapping[str, Any], suffix: str = ".hdr"
) -> list[str]:
    """Save an Image layer in the format of the suffix of *path*, else of *suffix*.

    Only a file that napari's dialog has asked about is replaced. Without wavelengths the user is
    asked for them; where there is nobody to ask, the bands are numbered. The picks on the image are
    saved with it.

    Raises
    ------
    SaveError
        If the layer is not (B, H, W), or as `napari_mst.write_cube`.
    Cancelled
        If the user was asked, and cancelled, or cancelled the save.
    """
    target = saving.named(Path(path), saving.SUFFIXES[suffix])
    # napari's dialog asked about the path that it gives; about another name nobody was asked.
    was_asked = target.name == Path(path).name
    cube = saving.cube_to_save(data, attributes)
    may_replace = was_asked and target.exists()
    return [str(saving.write(target, cube, may_replace))]


write_envi = partial(write_layer, suffix=".hdr")
write_tiff = partial(write_layer, suffix=".tif")
write_npz = partial(write_layer, suffix=".npz")
write_matlab = partial(write_layer, suffix=".mat")
write_zarr = partial(write_layer, suffix=".zarr")
