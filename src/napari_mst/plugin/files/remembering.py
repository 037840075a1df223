"""Offers once to have napari remember our reader for a suffix that another plugin claims too.

napari asks for the reader of every such file, until its setting `plugins.extension2reader` names
one.
"""

from functools import partial
from pathlib import Path

from napari.plugins.utils import get_preferred_reader
from napari.settings import get_settings
from npe2 import PluginManager
from qtpy.QtCore import QTimer
from qtpy.QtWidgets import QApplication

from napari_mst.plugin.files import questions
from napari_mst.plugin.viewer.remembered import PLUGIN

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
    text = (
        f"napari asks for a reader for every {suffix} file. "
        "Should it always take MST++ Hyperspectral?"
    )
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
