"""Offer once to have napari remember our reader for a suffix that another plugin claims too.

napari asks for the reader of every such file, until its setting `plugins.extension2reader` names one.
"""

from functools import partial
from pathlib import Path

from napari.plugins.utils import get_preferred_reader
from napari.settings import get_settings
from npe2 import PluginManager
from qtpy.QtCore import QTimer
from qtpy.QtWidgets import QApplication

from napari_mst.plugin.files import questions

PLUGIN = "napari-mst"
_offered = set[str]()


def offer_soon(path: Path) -> None:
    """Offer it for the suffix of *path*, after napari has done what the user asked of it: it may remember it itself."""
    if QApplication.instance() is not None:
        QTimer.singleShot(0, partial(offer, path))


def offer(path: Path) -> None:
    """Offer it, unless it was offered since napari was started, napari has a reader for it, or no other claims it."""
    suffix = path.suffix
    if (
        not suffix
        or suffix in _offered
        or not _is_disputed(path)
        or get_preferred_reader(str(path))
    ):
        return
    text = f"napari asks for a reader for every {suffix} file. Should it always take MST++ Hyperspectral?"
    if questions.offer(text, f"Always for {suffix}", partial(remember, suffix)) is not None:
        _offered.add(suffix)


def remember(suffix: str) -> None:
    """Have napari open files of this *suffix* with our reader, as its Preferences > Plugins then say."""
    plugins = get_settings().plugins
    plugins.extension2reader = {**plugins.extension2reader, f"*{suffix}": PLUGIN}


def _is_disputed(path: Path) -> bool:
    readers = PluginManager.instance().iter_compatible_readers([str(path)])
    plugins = {reader.plugin_name for reader in readers}
    return PLUGIN in plugins and len(plugins) > 1
